"""Quality priors: every one is a published figure, and their bounds obey the laws of bounds."""

from __future__ import annotations

import datetime as dt
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.classify import TASK_CLASSES
from router.quality import (
    SHRINKAGE_PROBLEMS,
    QualityPrior,
    class_mean,
    lower_bound,
    prior,
    priors,
    shrink,
    wilson_lower_bound,
)

SHARES = st.floats(0, 1)
SIZES = st.integers(1, 100_000)
CLASSES = st.sampled_from(sorted(TASK_CLASSES))


def figure(task_class: str, score: float, size: int) -> QualityPrior:
    return QualityPrior(
        "some-model", task_class, score, size, "a benchmark", "https://example.org", dt.date(2026, 1, 1)
    )


@pytest.mark.parametrize(
    ("model", "task_class", "score", "size", "benchmark"),
    [
        # https://openai.com/index/gpt-4-1/, appendix, "Instruction following", row IFEval
        ("gpt-4.1", "extract", 0.874, 541, "IFEval"),
        ("gpt-4.1-mini", "extract", 0.841, 541, "IFEval"),
        ("gpt-4.1-nano", "extract", 0.745, 541, "IFEval"),
        ("gpt-4o", "extract", 0.810, 541, "IFEval"),
        ("gpt-4o-mini", "extract", 0.784, 541, "IFEval"),
        # MoonshotAI/Kimi-K2, README.md, "General Tasks", row IFEval
        ("kimi-k2", "extract", 0.898, 541, "IFEval"),
        ("gemini-2.5-flash", "extract", 0.843, 541, "IFEval"),
        # MoonshotAI/Kimi-K2.5, README.md, "Reasoning & Knowledge"
        ("kimi-k2.5", "reason", 0.876, 198, "GPQA Diamond"),
        ("kimi-k2.5", "math", 0.961, 30, "AIME 2025"),
        # Artificial Analysis, as its models' pages had them
        ("deepseek-v3.2", "reason", 0.751, 198, "GPQA Diamond"),
        ("claude-sonnet-4.5", "math", 0.370, 30, "AIME 2025"),
        ("claude-sonnet-4.5", "code", 0.590, 315, "LiveCodeBench (problems of July to December 2024)"),
        ("gpt-4o", "math", 0.060, 30, "AIME 2025"),
    ],
)
def test_published_figures(model: str, task_class: str, score: float, size: int, benchmark: str) -> None:
    found = prior(model, task_class)
    assert found is not None
    assert (found.score_share, found.sample_size, found.benchmark) == (score, size, benchmark)


@pytest.mark.parametrize(
    ("model", "task_class"),
    [
        ("gpt-4.1", "chat"),  # no benchmark for the class
        ("kimi-k2.5", "code"),  # published on another set of problems only
        ("deepseek-v3.2", "extract"),  # published nowhere
        ("gpt-4", "reason"),  # its successors' figures are not its own
        ("gpt-4-1106-preview", "math"),
        ("moonshot-v1-8k", "reason"),
        ("openai/gpt-4.1", "reason"),  # exact ids only
        ("gpt-4.1", "no-such-class"),
    ],
)
def test_none_is_invented(model: str, task_class: str) -> None:
    assert prior(model, task_class) is None


def test_every_figure_says_where_it_is_from() -> None:
    rows = list(priors().values())
    assert len(rows) == 36
    for row in rows:
        assert row.task_class in TASK_CLASSES
        assert 0 < row.score_share < 1
        assert row.sample_size >= 30
        assert re.fullmatch(r"https://[\w.-]+/\S+", row.source)
        assert dt.date(2025, 1, 1) <= row.seen
        assert row.setting


def test_one_benchmark_a_class() -> None:
    """Scores of different benchmarks are never compared."""
    benchmarks = {(row.task_class, row.benchmark, row.sample_size) for row in priors().values()}
    assert len({task_class for task_class, _, _ in benchmarks}) == len(benchmarks) == 4


def test_wilson_by_hand() -> None:
    """With z = 1.2815516: for p = 1 the bound is n / (n + z²); p = ½, n = 100 worked out on paper."""
    assert wilson_lower_bound(1.0, 10) == pytest.approx(10 / 11.6423744, abs=1e-7)
    assert wilson_lower_bound(0.5, 100) == pytest.approx(0.4364423, abs=1e-6)
    assert wilson_lower_bound(0.0, 5) == 0


def test_shrinkage_by_hand() -> None:
    """On as many problems as the mean counts for, the result lies half-way."""
    assert shrink(0.9, SHRINKAGE_PROBLEMS, 0.5) == pytest.approx(0.7)
    assert shrink(0.9, 3 * SHRINKAGE_PROBLEMS, 0.5) == pytest.approx(0.8)


def test_class_means_by_hand() -> None:
    extract = (0.874 + 0.841 + 0.745 + 0.810 + 0.784 + 0.898 + 0.843) / 7
    assert class_mean("extract") == pytest.approx(extract)
    assert class_mean("chat") is None


def test_the_shrinkage_constant_follows_from_the_figures() -> None:
    """It is mean·(1 − mean) / τ², by moments, per benchmark; the geometric mean of the four."""
    logs = []
    for task_class in ("reason", "code", "math", "extract"):
        rows = [row for row in priors().values() if row.task_class == task_class]
        mean = sum(row.score_share for row in rows) / len(rows)
        observed = sum((row.score_share - mean) ** 2 for row in rows) / (len(rows) - 1)
        sampling = sum(row.score_share * (1 - row.score_share) / row.sample_size for row in rows) / len(rows)
        logs.append(math.log(mean * (1 - mean) / (observed - sampling)))
    assert round(math.exp(sum(logs) / len(logs))) == SHRINKAGE_PROBLEMS


@given(SHARES, SIZES)
def test_wilson_is_a_lower_bound_and_tightens_with_more_problems(share: float, size: int) -> None:
    bound = wilson_lower_bound(share, size)
    assert 0 <= bound <= share + 1e-12
    assert wilson_lower_bound(share, size * 2) >= bound - 1e-12


@given(CLASSES, SHARES, SIZES)
def test_the_bound_is_never_above_the_score(task_class: str, score: float, size: int) -> None:
    assert 0 <= lower_bound(figure(task_class, score, size)) <= score


@given(CLASSES, SHARES, SHARES, SIZES)
def test_a_better_score_never_has_a_lower_bound(task_class: str, one: float, other: float, size: int) -> None:
    low, high = sorted((one, other))
    assert lower_bound(figure(task_class, low, size)) <= lower_bound(figure(task_class, high, size)) + 1e-12


@given(CLASSES, SHARES, SIZES)
def test_a_good_score_on_more_problems_counts_for_more(task_class: str, score: float, size: int) -> None:
    """Of two equal scores at or above the class mean, the one on fewer problems has the lower bound."""
    mean = class_mean(task_class)
    if mean is None or score >= mean:
        assert lower_bound(figure(task_class, score, size)) <= lower_bound(figure(task_class, score, 2 * size)) + 1e-12
