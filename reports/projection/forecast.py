"""What a span of days will end at: the values of a forecast.

In: what `outlook` works out. Out: a frozen `MonthForecast`. Invariant: what is not known is None or left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal, TypeAlias

Method: TypeAlias = Literal["auto", "state_space", "run_rate"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a total will lie with a stated probability.

    Args:
        level: the probability, 0 to 1.
        low, high: bounds, in units of the forecast's currency.
        factor: how much wider than the model's own it was made, 1 or more.
        covered_before: share of past windows that the model's own interval held; None: too few to say.
        covered_after: the same once it was widened, each time by what was known then; None: too few to say.
        windows: past windows that were looked at.
    """

    level: Fraction
    low: Fraction
    high: Fraction
    factor: Fraction = Fraction(1)
    covered_before: Fraction | None = None
    covered_after: Fraction | None = None
    windows: int = 0


@dataclass(frozen=True, slots=True)
class ForecastDay:
    """The running total at the end of one day.

    Args:
        day: the day.
        total: spend from the span's first day to this one: on record, or expected.
        bounds: low and high of each interval, in the order of `MonthForecast.intervals`; empty on a day on record or
            where there is no interval.
        is_forecast: whether the day is not over yet.
    """

    day: date
    total: Fraction
    bounds: tuple[tuple[Fraction, Fraction], ...]
    is_forecast: bool


@dataclass(frozen=True, slots=True)
class MonthForecast:
    """What a span of days ends at. Amounts are in units of `currency`; what is expected is `rounded`.

    Args:
        first, last: the span, both included.
        currency: ISO 4217 code.
        to_date: what is spent in it already, exact.
        point: what it is expected to end at; None: there is nothing to tell it from.
        intervals: of 80 % and 95 %; empty: not enough history.
        run_rate: spend of the span's whole days, per day, times all its days; None before its first one is over.
        days: the running total by day.
        method: which one made it.
        reason: why this one, in words.
        days_known: whole days of history.
        step: the last day from which on cost per call stood at another level, with its change as a share; or None.
    """

    first: date
    last: date
    currency: str
    to_date: Fraction
    point: Fraction | None
    intervals: tuple[Interval, ...]
    run_rate: Fraction | None
    days: tuple[ForecastDay, ...]
    method: Method
    reason: str
    days_known: int
    step: tuple[date, Fraction] | None = None

    def interval(self, level: Fraction) -> Interval | None:
        """Return the interval of a level, or None."""
        return next((found for found in self.intervals if found.level == level), None)


def rounded(value: Fraction | float) -> Fraction:
    """Return an expected amount with four figures, or with two decimals where those are more: none is truer than that.

    Args:
        value: 0 or more.
    """
    places = 2 if value >= 10 or value == 0 else min(3 - math.floor(math.log10(value)), 12)
    return Fraction(round(Fraction(value) * 10**places), 10**places)
