"""How much wider an interval must be to hold what it promises, from how earlier ones did.

In: how far off past windows were, in standard deviations of their forecasts. Out: `Widening` values.
Invariant: a factor is 1 or more; the coverage after widening is measured with factors that were known at the time.

A factor is a conformal one (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005): the quantile of
past scores. Windows that overlap tell less than their number says, so that n windows of H days count as n / H, and
four windows' worth of a Student t with 3 degrees of freedom are mixed in: a short past is no proof of calm.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from reports.projection.state_space import Floats

LEVELS = (Fraction(4, 5), Fraction(19, 20))
"""The intervals' probabilities: 80 % and 95 %."""
FEWEST_WINDOWS = 5
"""Below this many past windows no coverage is stated."""

_PRIOR_WINDOWS = 4.0
_CAUTION = 0.3  # standard errors of the measured share that the aim lies above the level
_MULTIPLES: Floats = np.geomspace(1.0, 1000.0, 700)  # 1 % apart


@dataclass(frozen=True, slots=True)
class Widening:
    """What one level's intervals must be multiplied by.

    Args:
        level: the probability, 0 to 1.
        deviations: half the interval's width, in standard deviations of the forecast's logarithm, after widening.
        factor: that over the normal distribution's own.
        covered_before, covered_after: share of past windows within their intervals, before and after widening; None
            where there are fewer than `FEWEST_WINDOWS`.
        windows: how many there were.
    """

    level: Fraction
    deviations: float
    factor: float
    covered_before: Fraction | None
    covered_after: Fraction | None
    windows: int


def widenings(scores: Floats, length: int, gap: int = 0) -> tuple[Widening, ...]:
    """Return the widening of each of `LEVELS`.

    Args:
        scores: by origin, oldest first: logarithm of what a window came to over its forecast, in standard deviations.
        length: days of a window.
        gap: days between an origin and its window.
    """
    return tuple(_widening(np.abs(scores), level, length, gap) for level in LEVELS)


def _widening(scores: Floats, level: Fraction, length: int, gap: int) -> Widening:
    normal = NormalDist().inv_cdf((1 + float(level)) / 2)
    within = scores[:, None] <= normal * _MULTIPLES
    held: Floats = np.concatenate((np.zeros((1, len(_MULTIPLES))), np.cumsum(within, axis=0, dtype=np.float64)))
    factors = _factors(held, float(level), normal, length)
    windows = len(scores)
    # A window's outcome is known once it has ended, so that the factor is of the origins that far back.
    then = factors[np.maximum(np.arange(windows) - length - gap + 1, 0)]
    told = windows >= FEWEST_WINDOWS
    return Widening(
        level,
        normal * float(factors[-1]),
        float(factors[-1]),
        Fraction(int(within[:, 0].sum()), windows) if told else None,
        Fraction(int((scores <= normal * then).sum()), windows) if told else None,
        windows,
    )


def _factors(held: Floats, level: float, normal: float, length: int) -> Floats:
    """Return the factor to use after each number of windows: the least that holds the level's share and a margin."""
    windows = np.arange(len(held)) / length
    known = windows + _PRIOR_WINDOWS
    share = (held / length + _PRIOR_WINDOWS * _student(normal * _MULTIPLES)) / known[:, None]
    aim = level + _CAUTION * np.sqrt(level * (1 - level) / known)
    holds = share >= aim[:, None]
    holds[:, -1] = True
    return np.asarray(_MULTIPLES[np.argmax(holds, axis=1)])


def _student(deviations: Floats) -> Floats:
    """Return the probability that a Student t with 3 degrees of freedom lies within ± so many deviations."""
    scaled = deviations / np.sqrt(3.0)
    return np.asarray(2 / np.pi * (scaled / (1 + scaled**2) + np.arctan(scaled)))
