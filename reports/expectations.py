"""What is to be expected of a choice of models besides its cost: latency as measured, quality as published.

In: what is given to which model, the ledger's latencies. Out: percentiles and quality bounds. Invariant: a latency is
the same model's in the same class, or none; a quality is a published prior (docs/quality-priors.md), or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm

from reports.exact import exact_sum, int_if_whole
from reports.repricing import Given
from router import quality
from router.ledger.latency import bucket_latency_us, percentile_us

Histograms = Mapping[tuple[str | None, str], Mapping[int, int]]
"""Answered attempts by latency bucket, by class and model."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What published figures say of a choice.

    Args:
        bound_share: lower bound of the share of problems that are solved (`router.quality.lower_bound`), mean over the
            calls of classes that have a benchmark; None: no such call, or a model has no figure.
        covered_share: share of all calls that those are, 0 to 1; None: the number of calls is not known.
        missing: pairs of model and class without a figure, in a class that has a benchmark.
    """

    bound_share: Fraction | None = None
    covered_share: Fraction | None = None
    missing: tuple[tuple[str, str], ...] = ()


@cache
def prior_bound(model: str, task_class: str | None) -> Fraction | None:
    """Return the lower bound that published figures prove of a model in a class, 0 to 1; None: there is no figure."""
    found = None if task_class is None else quality.prior(model, task_class)
    return None if found is None else Fraction(str(round(quality.lower_bound(found), 4)))


def has_benchmark(task_class: str | None) -> bool:
    """Return whether any model has a published figure in the class."""
    return task_class is not None and quality.class_mean(task_class) is not None


def quality_of(given: Iterable[Given]) -> Quality:
    """Return what published figures say of a choice.

    Args:
        given: what is given to which model.
    """
    calls: dict[tuple[str, str | None], Fraction | int] = {}
    for each in given:
        if each.requests is None:
            return Quality()
        key = (each.model, each.task_class)
        calls[key] = calls.get(key, 0) + int_if_whole(each.requests)
    covered = {key: count for key, count in calls.items() if has_benchmark(key[1]) and count}
    total, whole = exact_sum(covered.values()), exact_sum(calls.values())
    share = total / whole if whole else None
    bounds = {key: prior_bound(*key) for key in covered}
    missing = tuple(sorted((model, str(kind)) for (model, kind), bound in bounds.items() if bound is None))
    if missing or not total:
        return Quality(None, share, missing)
    points = exact_sum(count * (bounds[key] or 0) for key, count in covered.items())
    return Quality(points / total, share)


def percentile_ms(counts: Mapping[int, int] | None, share: float) -> Fraction | None:
    """Return a percentile of one histogram, milliseconds, within 5 %; None without counts.

    Args:
        counts: attempts by latency bucket.
        share: 0.5 for the median.
    """
    found = percentile_us(counts, share) if counts else None
    return None if found is None else Fraction(found, 1000)


def mixed_percentiles_ms(
    given: Sequence[Given], histograms: Histograms, shares: Sequence[Fraction]
) -> tuple[Fraction | None, ...]:
    """Return percentiles over all calls of a choice, each class and model weighted by its calls.

    Args:
        given: what is given to which model.
        histograms: what was measured.
        shares: 1/2 for the median.

    Returns:
        Milliseconds for each share, within 5 %; None where some calls' model has no latency on record in their class.
    """
    unknown = (None,) * len(shares)
    calls: dict[tuple[str | None, str], Fraction] = {}
    for each in given:
        if each.requests is None or not histograms.get((each.task_class, each.model)):
            return unknown
        key = (each.task_class, each.model)
        calls[key] = calls.get(key, Fraction(0)) + each.requests
    ones = {key: requests / sum(histograms[key].values()) for key, requests in calls.items()}
    scale = lcm(*(one.denominator for one in ones.values()))  # weights are whole numbers of 1/scale
    weights: dict[int, int] = {}
    for key, one in ones.items():
        weight = int(one * scale)
        for bucket, count in histograms[key].items():
            weights[bucket] = weights.get(bucket, 0) + weight * count
    total = sum(weights.values())
    return tuple(_reached(weights, total * share) for share in shares) if total else unknown


def _reached(weights: Mapping[int, int], wanted: Fraction) -> Fraction | None:
    """Return the latency, in milliseconds, of the bucket in which the running sum of weights reaches what is wanted."""
    seen = 0
    for bucket in sorted(weights):
        seen += weights[bucket]
        if seen >= wanted:
            return Fraction(bucket_latency_us(bucket), 1000)
    return None
