"""How good a model is at a class of task, as far as published figures tell.

In: a model and a class. Out: a `QualityPrior`, or None where nothing was published; its lower bound.
Invariant: every prior cites a published figure and its sample size; none is invented or borrowed from a neighbour. The
figures are in data/quality.toml; docs/quality-priors.md says where each was seen.
"""

from __future__ import annotations

import datetime as dt
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

# One-sided 90 %: the 0.9 quantile of the standard normal distribution.
_Z_90: Final = 1.2815515655446004
# How many problems the class mean counts for. Empirical Bayes: k = mean·(1 − mean) / τ², τ² being the variance of the
# models' true scores, by moments (observed variance less the mean sampling variance). The four benchmarks of
# data/quality.toml give 13.2 (GPQA Diamond), 13.7 (LiveCodeBench), 3.9 (AIME 2025) and 57.0 (IFEval); this is their
# geometric mean. Efron and Morris, "Stein's Estimation Rule and Its Competitors", JASA 68 (1973).
SHRINKAGE_PROBLEMS: Final = 14


@dataclass(frozen=True, slots=True)
class QualityPrior:
    """One published figure.

    Args:
        model: our model id.
        task_class: a key of `router.classify.TASK_CLASSES`.
        score_share: the published score, 0 to 1.
        sample_size: distinct problems of the benchmark; repeated tries at one problem count once.
        benchmark: the benchmark's name.
        source: URL of the page or file that states the figure.
        seen: the day on which the figure was read.
        setting: how it was measured: the model's version, thinking, tools, tries, by whom.
    """

    model: str
    task_class: str
    score_share: float
    sample_size: int
    benchmark: str
    source: str
    seen: dt.date
    setting: str = ""


def prior(model: str, task_class: str) -> QualityPrior | None:
    """Return the published figure for a model and a class of task.

    Args:
        model: our model id, exactly.
        task_class: a key of `router.classify.TASK_CLASSES`.

    Returns:
        The figure; None where none was found: it is not known to be good, and not known to be bad.
    """
    return priors().get((model, task_class))


@cache
def shown(model: str, task_class: str) -> tuple[float | None, float | None]:
    """Return the published score of a model at a class and its lower bound, shares of 0 to 1; None where there is none.

    Args:
        model: our model id, exactly.
        task_class: a key of `router.classify.TASK_CLASSES`.
    """
    found = prior(model, task_class)
    return (None, None) if found is None else (found.score_share, lower_bound(found))


@cache
def priors() -> Mapping[tuple[str, str], QualityPrior]:
    """Return every published figure by model and class, read once from data/quality.toml."""
    text = files("router").joinpath("data", "quality.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    rows = [_read(figure, document["benchmarks"]) for figure in document["figures"]]
    return MappingProxyType({(row.model, row.task_class): row for row in rows})


@cache
def class_mean(task_class: str) -> float | None:
    """Return the mean published score of a class over its models, 0 to 1; None where the class has no figure."""
    scores = [row.score_share for row in priors().values() if row.task_class == task_class]
    return math.fsum(scores) / len(scores) if scores else None


def lower_bound(prior: QualityPrior) -> float:
    """Return the share of a benchmark's problems that a model solves at least, with 90 % confidence.

    The score is shrunk towards its class's mean and then bounded from below, so that of two equal scores the one on
    fewer problems counts for less, and a lucky score does not win.

    Args:
        prior: a published figure; its class need not have others.

    Returns:
        A share, 0 to 1, never above the score itself, even where the class mean is.
    """
    return bound(prior.score_share, prior.sample_size, prior.task_class)


def bound(score_share: float, sample_size: int, task_class: str) -> float:
    """Return the lower bound of a score at a class, as `lower_bound` has it, of whoever's figure.

    Args:
        score_share: the share of problems solved, 0 to 1.
        sample_size: how many problems it was measured on, ≥ 1.
        task_class: the class; its mean of published figures is what the score is pulled towards, where there is one.
    """
    mean = class_mean(task_class)
    shrunk = score_share if mean is None else shrink(score_share, sample_size, mean)
    return min(score_share, wilson_lower_bound(shrunk, sample_size))


def shrink(score_share: float, sample_size: int, mean_share: float) -> float:
    """Return (n·score + k·mean) / (n + k) with k = `SHRINKAGE_PROBLEMS`: the score, pulled towards its class's mean.

    Args:
        score_share: the observed share, 0 to 1.
        sample_size: n, the problems it was observed on, ≥ 1.
        mean_share: the mean of the class, 0 to 1.
    """
    weight = sample_size / (sample_size + SHRINKAGE_PROBLEMS)
    return weight * score_share + (1 - weight) * mean_share


def wilson_lower_bound(share: float, sample_size: int) -> float:
    """Return the one-sided 90 % Wilson lower bound of a share.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927).

    Args:
        share: the observed share, 0 to 1.
        sample_size: the trials it was observed on, ≥ 1.
    """
    z2 = _Z_90 * _Z_90
    centre = share + z2 / (2 * sample_size)
    margin = _Z_90 * math.sqrt((share * (1 - share) + z2 / (4 * sample_size)) / sample_size)
    return max(0.0, (centre - margin) / (1 + z2 / sample_size))


def _read(figure: Mapping[str, Any], benchmarks: Mapping[str, Any]) -> QualityPrior:
    """Return one row of the file, joined with its benchmark."""
    benchmark = benchmarks[figure["benchmark"]]
    return QualityPrior(
        model=figure["model"],
        task_class=benchmark["task_class"],
        score_share=float(figure["score"]),
        sample_size=benchmark["sample_size"],
        benchmark=benchmark["name"],
        source=figure["source"],
        seen=figure["seen"],
        setting=figure["setting"],
    )
