"""Estimates by row and column, each pulled towards what its row and its column say, as far as the estimates are noisy.

In: observed shares by (row, column) with the size of their error. Out: an `Estimate` for each. Invariant: without an
error nothing is changed; where nothing but error tells the cells apart, all that is left is row and column.

Rows may be classes of task or the steps of one class, columns are models. The model is additive with an interaction,
θ = row + column + δ, δ ~ N(0, σ²), and an observation is θ plus an error of known standard deviation s. Row and column
effects are fitted by least squares; σ² is what the residuals vary more than s² explains; of each residual is kept
w = σ² / (σ² + s²). C. N. Morris, "Parametric Empirical Bayes Inference: Theory and Applications", JASA 78 (1983); the
two-way form is that of an analysis of variance with one observation a cell.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Row = TypeVar("Row", bound=Hashable)
Column = TypeVar("Column", bound=Hashable)
_Effects: TypeAlias = dict[Hashable, float]

# How much of its standard deviation is taken off an estimate that an optimizer will choose by: it picks what is
# over-rated. docs/assignment.md shows what other values cost and keep.
CAUTION_SDS = 0.2
# Alternating least squares ends when no effect moves by more; complete tables are done after one round.
_SETTLED, _ROUNDS = 1e-12, 200


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is believed of one cell.

    Args:
        mean_share: the expected share, 0 to 1.
        sd_share: the standard deviation of what it may truly be.
    """

    mean_share: float
    sd_share: float

    def cautious(self, sds: float = CAUTION_SDS) -> float:
        """Return the mean less so many standard deviations, 0 to 1."""
        return min(1.0, max(0.0, self.mean_share - sds * self.sd_share))


def shrunk_estimates(
    observed: Mapping[tuple[Row, Column], float], sd_share: float
) -> dict[tuple[Row, Column], Estimate]:
    """Return an estimate for each observed cell.

    Args:
        observed: shares by (row, column), 0 to 1; cells may be missing.
        sd_share: the standard deviation of an observation's error, the same for all, at least 0.

    Returns:
        The estimates, in the order of the observations; the observations themselves where a single row or column, or
        gaps, leave nothing to tell interaction from error by.
    """
    fitted = _fit(observed)
    effects = len({row for row, _ in observed}) + len({column for _, column in observed}) - 1 if observed else 0
    freedom = len(observed) - effects
    if freedom <= 0:
        return {cell: Estimate(share, sd_share) for cell, share in observed.items()}
    residuals = math.fsum((share - fitted[cell]) ** 2 for cell, share in observed.items()) / freedom
    own = max(0.0, residuals - sd_share**2)
    kept = own / (own + sd_share**2) if own else 0.0
    of_fit = effects / len(observed) * (own + sd_share**2)
    sd = math.sqrt(kept * sd_share**2 + (1 - kept) ** 2 * of_fit)
    means = {cell: fitted[cell] + kept * (share - fitted[cell]) for cell, share in observed.items()}
    return {cell: Estimate(min(1.0, max(0.0, mean)), sd) for cell, mean in means.items()}


def _fit(observed: Mapping[tuple[Row, Column], float]) -> dict[tuple[Row, Column], float]:
    """Return the least-squares fit of row + column for each cell."""
    rows: _Effects = {row: 0.0 for row, _ in observed}
    columns: _Effects = {column: 0.0 for _, column in observed}
    for _ in range(_ROUNDS):
        moved = _update(rows, ((row, share - columns[column]) for (row, column), share in observed.items()))
        _update(columns, ((column, share - rows[row]) for (row, column), share in observed.items()))
        if moved < _SETTLED:
            break
    return {(row, column): rows[row] + columns[column] for row, column in observed}


def _update(effects: _Effects, rest: Iterable[tuple[Hashable, float]]) -> float:
    """Set each effect to the mean of what the other effects leave; return the largest move."""
    parts: dict[Hashable, list[float]] = {name: [] for name in effects}
    for name, left in rest:
        parts[name].append(left)
    means = {name: math.fsum(each) / len(each) for name, each in parts.items()}
    moved = max((abs(means[name] - effects[name]) for name in effects), default=0.0)
    effects.update(means)
    return moved
