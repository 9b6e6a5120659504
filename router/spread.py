"""How the intervals of several calls add up to that of their total.

In: intervals, and how far calls of one kind are off together. Out: an `Interval`.
Invariant: the expected costs add up exactly; the total of one is that one; the ends lie between those of independent
calls and those of calls that are all low or all high together (`Interval.__add__`).

An end's distance from the expected cost is a multiple of a standard deviation, so distances add like deviations: with a
correlation ρ, D² = ρ (Σd)² + (1 − ρ) Σd². That holds exactly for normal distributions; for lengths of answers, which
are skewed, a test draws from the public traces and counts how often the total lies within.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from pricing.money import EXACT, round_amount
from router.result import NOTHING, Interval

ALIKE: Final = EXACT.divide(Decimal(1), Decimal(6))
"""Correlation of calls of one kind. What they have in common is how far their kind's mean is from its forecast: the
share of the variance between groups in the whole, 1 / (1 + k), with k = 5 as of `router.forecast.PRIOR_ANSWERS`."""
APART: Final = Decimal(0)
"""Correlation of calls of different kinds: one kind's mean says nothing of another's."""


def of_many(one: Interval, count: int, correlation: Decimal = ALIKE) -> Interval:
    """Return the interval of the total of `count` calls of one kind.

    Args:
        one: of one of them, USD; its low and high are 10 % and 90 % points.
        count: how many, ≥ 0.
        correlation: ρ, 0 to 1.
    """
    if count == 1:
        return one
    factor = EXACT.sqrt(correlation * count * count + (1 - correlation) * count)
    expected = one.expected_usd * count
    down = round_amount((one.expected_usd - one.low_usd) * factor)
    up = round_amount((one.high_usd - one.expected_usd) * factor)
    return Interval(max(expected - down, one.low_usd * count), expected, min(expected + up, one.high_usd * count))


def in_all(parts: Iterable[Interval], correlation: Decimal = APART) -> Interval:
    """Return the interval of the total of some parts.

    Args:
        parts: of each, USD; none: 0.
        correlation: ρ of any two of them, 0 to 1.
    """
    each = tuple(parts)
    if len(each) == 1:
        return each[0]
    widest = sum(each, NOTHING)
    down = _distance([part.expected_usd - part.low_usd for part in each], correlation)
    up = _distance([part.high_usd - part.expected_usd for part in each], correlation)
    expected = widest.expected_usd
    return Interval(max(expected - down, widest.low_usd), expected, min(expected + up, widest.high_usd))


def moved(one: Interval, low_milli: int, high_milli: int) -> Interval:
    """Return an interval whose ends are that many thousandths as far from the expected cost; none is below 0.

    Args:
        one: USD.
        low_milli: for the low end, ≥ 0.
        high_milli: for the high end, ≥ 0.
    """
    down = round_amount((one.expected_usd - one.low_usd) * low_milli / 1000)
    up = round_amount((one.high_usd - one.expected_usd) * high_milli / 1000)
    return Interval(max(Decimal(0), one.expected_usd - down), one.expected_usd, one.expected_usd + up)


def _distance(distances: list[Decimal], correlation: Decimal) -> Decimal:
    apart = sum((each * each for each in distances), Decimal(0))
    if not correlation:
        return round_amount(apart.sqrt(EXACT))
    together = sum(distances, Decimal(0))
    return round_amount((correlation * together * together + (1 - correlation) * apart).sqrt(EXACT))
