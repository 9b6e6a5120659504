"""How good forecasts of past months would have been, made on days of those months from what was known then.

In: a series. Out: `Backtest`. Invariant: no forecast has seen its own day or a later one; each is checked against the
whole month's total on record.

Days 5, 10 and 17: on multiples of seven whole weeks cancel the weekdays' pattern, and run-rate looks better than it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from reports.projection.forecast import MonthForecast
from reports.projection.outlook import FEWEST_DAYS, outlook_of
from reports.projection.series import DailySeries
from reports.projection.widening import LEVELS

DAYS = (5, 10, 17)
"""Whole days of the month that had passed."""
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Trial:
    """One forecast of a past month.

    Args:
        days_passed: whole days of the month that were known.
        forecast: as it would have been made.
        actual: what the month came to; more than 0.
    """

    days_passed: int
    forecast: MonthForecast
    actual: Fraction

    @property
    def error(self) -> Fraction | None:
        """The forecast over what the month came to, less 1."""
        return None if self.forecast.point is None else self.forecast.point / self.actual - 1

    @property
    def run_rate_error(self) -> Fraction | None:
        """The same of run-rate."""
        return None if self.forecast.run_rate is None else self.forecast.run_rate / self.actual - 1

    def held(self, level: Fraction) -> bool | None:
        """Return whether the interval of a level held the month's total; None: there was none."""
        found = self.forecast.interval(level)
        return None if found is None else found.low <= self.actual <= found.high


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good some trials were. Shares are 0 to 1; None: there is nothing to tell it from.

    Args:
        trials: how many.
        mape: mean absolute error, as a share of what the months came to.
        run_rate_mape: the same of run-rate.
        held: by level of `LEVELS`, share of months within their interval.
        with_interval: trials that had one.
        width: mean width of the 80 % interval, as a share of what the months came to.
    """

    trials: int
    mape: Fraction | None
    run_rate_mape: Fraction | None
    held: tuple[Fraction | None, ...]
    with_interval: int
    width: Fraction | None


def backtest(series: DailySeries, months: int = 12, days: Sequence[int] = DAYS) -> tuple[Trial, ...]:
    """Return the trials that a series' past allows, oldest first.

    Args:
        series: calls and spend by day.
        months: the last so many whole months.
        days: whole days of each month that were known.
    """
    outlook = outlook_of(series)
    found = []
    for first, last in _whole_months(series)[-months:]:
        actual = series.spent(first, last)
        for passed in days:
            at = first + passed * _ONE_DAY
            if actual and (at - series.first).days >= FEWEST_DAYS:
                found.append(Trial(passed, outlook.forecast(last, since=first, at=at), actual))
    return tuple(found)


def accuracy(trials: Sequence[Trial]) -> Accuracy:
    """Return how good some trials were together."""
    inner = LEVELS[0]
    widths = [
        (interval.high - interval.low) / trial.actual
        for trial in trials
        if (interval := trial.forecast.interval(inner)) is not None
    ]
    return Accuracy(
        trials=len(trials),
        mape=_mean([abs(error) for trial in trials if (error := trial.error) is not None]),
        run_rate_mape=_mean([abs(error) for trial in trials if (error := trial.run_rate_error) is not None]),
        held=tuple(
            _mean([Fraction(held) for trial in trials if (held := trial.held(level)) is not None]) for level in LEVELS
        ),
        with_interval=len(widths),
        width=_mean(widths),
    )


def _whole_months(series: DailySeries) -> list[tuple[date, date]]:
    """Return first and last day of each month that is over and whose first day is in the series."""
    found = []
    first = series.first if series.first.day == 1 else _next_month(series.first)
    while (after := _next_month(first)) <= series.today:
        found.append((first, after - _ONE_DAY))
        first = after
    return found


def _next_month(day: date) -> date:
    return (day.replace(day=1) + 31 * _ONE_DAY).replace(day=1)


def _mean(values: Sequence[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None
