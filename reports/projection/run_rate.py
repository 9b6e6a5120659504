"""What a span comes to at a plain mean: the forecast of last resort, and what every other is measured by.

In: a `DailySeries`, a span. Out: a `MonthForecast` without intervals; the run-rate. Invariant: exact; no float.
"""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction

from reports.projection.forecast import ForecastDay, MonthForecast
from reports.projection.series import DailySeries

_RATE_DAYS = 28
_ONE_DAY = timedelta(days=1)


def at_run_rate(
    series: DailySeries, first: date, through: date, reason: str, rate: Fraction | None = None
) -> MonthForecast:
    """Return what the span comes to at a rate a day, without an interval.

    Args:
        series: what is known.
        first: the first day of the span.
        through: its last day.
        reason: why no better forecast is made, in words.
        rate: spend a day; None: the mean of the last four weeks, or of the days there are.
    """
    rate = _mean(series.spend[-_RATE_DAYS:]) if rate is None else rate
    days = list(days_on_record(series, first))
    total = days[-1].total if days else Fraction(0)
    start = max(first, series.today)
    for number in range((through - start).days + 1) if rate is not None else ():
        day = start + number * _ONE_DAY
        total += max(rate or Fraction(0), series.today_spend if day == series.today else Fraction(0))
        days.append(ForecastDay(day, total, (), is_forecast=True))
    return MonthForecast(
        first=first,
        last=through,
        currency=series.currency,
        to_date=series.spent(first, through),
        point=None if rate is None else total,
        intervals=(),
        run_rate=run_rate(series, first, through),
        days=tuple(days),
        method="run_rate",
        reason=reason,
        days_known=len(series.calls),
    )


def run_rate(series: DailySeries, first: date, through: date) -> Fraction | None:
    """Return spend of the span's whole days, per day, times all its days; None before its first one is over.

    Args:
        series: daily spend, in its currency.
        first: the span's first day.
        through: its last.
    """
    passed = (series.today - first).days
    if passed <= 0:
        return None
    return series.spent(first, series.today - _ONE_DAY) / passed * ((through - first).days + 1)


def days_on_record(series: DailySeries, first: date) -> tuple[ForecastDay, ...]:
    """Return the running total at the end of each whole day of a span that is on record."""
    found, total = [], Fraction(0)
    for number in range(max((series.today - first).days, 0)):
        day = first + number * _ONE_DAY
        total += series.spent(day, day)
        found.append(ForecastDay(day, total, (), is_forecast=False))
    return tuple(found)


def _mean(values: tuple[Fraction, ...]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None
