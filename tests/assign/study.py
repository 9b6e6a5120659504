"""The study of docs/assignment.md: what an assignment saves on made plans, and what errors of the estimates do to it.

In: an `Instance`, the standard deviation of the errors. Out: a `Measured`. Invariant: the true qualities judge; an
assignment never sees them but where it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from router.assign import assign
from router.shrinkage import CAUTION_SDS, shrunk_estimates
from tests.assign.instances import MODELS, Grid, Instance, class_thresholds_usd, threshold_usd

NOISE_SD = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """One instance; each amount as a multiple of the assignment that knows the true qualities.

    Args:
        threshold: the best rule with one threshold.
        class_thresholds: the best rule with a threshold for each class.
        naive_quality: true quality over target of an assignment by noisy estimates as they are.
        shrunk_quality: the same by shrunk estimates alone.
        cautious_quality: the same by shrunk estimates less `CAUTION_SDS`.
        cautious_cost: what the last one costs: the price of not knowing, and of caution.
    """

    threshold: float
    class_thresholds: float
    naive_quality: float
    shrunk_quality: float
    cautious_quality: float
    cautious_cost: float


def measured(found: Instance, seed: int) -> Measured:
    """Return what the study measures of one instance."""
    known = assign(found.problem)
    cost_usd = float(known.cost_usd)
    noisy = found.noisy(seed, NOISE_SD)
    cautious, dear = _true(found, cautious_estimates(found, noisy, CAUTION_SDS))
    return Measured(
        threshold=threshold_usd(found) / cost_usd,
        class_thresholds=class_thresholds_usd(found) / cost_usd,
        naive_quality=_true(found, noisy)[0],
        shrunk_quality=_true(found, cautious_estimates(found, noisy, 0.0))[0],
        cautious_quality=cautious,
        cautious_cost=dear / cost_usd,
    )


def cautious_estimates(found: Instance, noisy: Grid, sds: float) -> Grid:
    """Return the estimates shrunk within each class, less so many standard deviations."""
    cautious = np.empty_like(noisy)
    for name in set(found.classes):
        rows = [row for row, each in enumerate(found.classes) if each == name]
        cells = {(row, column): float(noisy[row, column]) for row in rows for column in range(len(MODELS))}
        for cell, estimate in shrunk_estimates(cells, NOISE_SD).items():
            cautious[cell] = estimate.cautious(sds)
    return cautious


def _true(found: Instance, estimates: Grid) -> tuple[float, float]:
    """Return the true quality over the target, and the cost, of an assignment by estimates."""
    chosen = assign(found.estimated(estimates))
    return found.true_quality(found.chosen(chosen)) / found.target, float(chosen.cost_usd)
