"""A series made ready to be forecast from, at its end or at any of its past days.

In: a `DailySeries`. Out: `MonthForecast` values. Invariant: pure; a forecast as of a day is the one that the series
until that day gives: nothing later is looked at; no bound lies below what is spent already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

import numpy as np

from reports.projection.forecast import ForecastDay, Interval, Method, MonthForecast, rounded
from reports.projection.run_rate import at_run_rate, days_on_record, run_rate
from reports.projection.series import DailySeries
from reports.projection.state_space import Floats
from reports.projection.widening import Widening, widenings
from reports.projection.windows import Past, Windows, past_of, totals_after, windows
from router.errors import WrongUsage

FEWEST_DAYS = 21
"""Whole days of history that an interval needs: three of each weekday."""
FEWEST_ACTIVE = 14
"""Of them with any spend, in the last `HABIT_DAYS`."""
HABIT_DAYS = 56
MOST_DAYS_AHEAD = 731

_WIDEST = 7.0  # an interval from a thousandth to a thousandfold says all there is to say
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Outlook:
    """A series, and what each of its days could foresee; None where it is too short for that."""

    series: DailySeries
    past: Past | None

    def forecast(
        self, through: date, method: Method = "auto", *, since: date | None = None, at: date | None = None
    ) -> MonthForecast:
        """Return what the days from `since` to `through`, both included, will have cost.

        Args:
            through: the last day.
            method: see `reports.projection.forecast`.
            since: the first day; None: the first of the month of `through`.
            at: as it was known at the first instant of that day; None: as it is known now.

        Raises:
            WrongUsage: the span is over, is longer than two years, or the method needs more days than there are.
        """
        known = self.series if at is None else self.series.until(at)
        first = through.replace(day=1) if since is None else since
        _check_span(known.today, first, through)
        lack = _lack_of_history(known)
        if method == "state_space" and lack:
            raise WrongUsage(f"method: state_space is not allowed with {lack}", hint="auto chooses by what there is")
        if self.past is None or lack or method == "run_rate":
            return at_run_rate(known, first, through, lack or "run_rate was asked for")
        return _foreseen(known, self.past, first, through)


def outlook_of(series: DailySeries) -> Outlook:
    """Return the series made ready: one pass over its days."""
    return Outlook(series, past_of(series) if len(series.calls) >= FEWEST_DAYS else None)


def forecast(
    series: DailySeries, through: date, method: Method = "auto", *, since: date | None = None
) -> MonthForecast:
    """Return what the days up to one, that included, will have cost.

    Args:
        series: calls and spend by day up to now.
        through: the last day, for instance of a month; on or after `series.today`.
        method: `auto` chooses by length of history.
        since: the first day; None: the first of the month of `through`.

    Raises:
        WrongUsage: the span is over, is longer than two years, or its method needs more days than there are.
    """
    return outlook_of(series).forecast(through, method, since=since)


def scores_before(past: Past, origin: int, gap: int, length: int) -> Floats:
    """Return how far off the windows were that ended by a day, in standard deviations, oldest first.

    Args:
        past: the series.
        origin: number of the last known day.
        gap: days between an origin and its window.
        length: days of a window.
    """
    origins = np.arange(FEWEST_DAYS - 1, origin - gap - length + 1)
    if not len(origins):
        return np.zeros(0)
    foreseen, came = windows(past, origins, gap, length), totals_after(past, origins, gap, length)
    return _scores(foreseen, came)


def _scores(foreseen: Windows, came: Floats) -> Floats:
    total = foreseen.total
    both = (total > 0) & (came > 0)
    scores = np.where((total > 0) == (came > 0), 0.0, np.inf)
    scores[both] = np.log(came[both] / total[both]) / foreseen.deviation[both]
    return scores


def _check_span(today: date, first: date, through: date) -> None:
    if through < today or first > through:
        raise WrongUsage(
            f"forecast: {first} to {through} is not allowed; a span that ends on {today} or later is",
            hint="what is over is on record",
        )
    if (through - today).days > MOST_DAYS_AHEAD:
        raise WrongUsage(
            f"forecast: {through} is not allowed; at most {MOST_DAYS_AHEAD} days from {today} are",
            hint="nothing is known of a time so far off",
        )


def _lack_of_history(series: DailySeries) -> str | None:
    """Return what is missing for an interval, in words; None: nothing."""
    days = len(series.calls)
    active = sum(value > 0 for value in series.spend[-HABIT_DAYS:])
    if days < FEWEST_DAYS:
        return f"{days} whole days of history; an interval needs {FEWEST_DAYS}"
    if active < FEWEST_ACTIVE:
        return f"spend on {active} of the last {min(days, HABIT_DAYS)} days; an interval needs {FEWEST_ACTIVE}"
    return None


def _foreseen(series: DailySeries, past: Past, first: date, through: date) -> MonthForecast:
    origin, start = len(series.calls) - 1, max(first, series.today)
    gap, length = (start - series.today).days, (through - start).days + 1
    found = windows(past, np.arange(origin, origin + 1), gap, length)
    if not found.total[0] > 0:
        return at_run_rate(series, first, through, "there was no spend of late", Fraction(0))
    widened = widenings(scores_before(past, origin, gap, length), length, gap)
    growing = windows(past, np.full(length, origin), gap, length, days=np.arange(1, length + 1))
    days = days_on_record(series, first) + _days_ahead(series, first, start, growing, widened)
    return MonthForecast(
        first=first,
        last=through,
        currency=series.currency,
        to_date=series.spent(first, through),
        point=days[-1].total,
        intervals=tuple(
            _interval(widening, *bounds) for widening, bounds in zip(widened, days[-1].bounds, strict=True)
        ),
        run_rate=run_rate(series, first, through),
        days=days,
        method="state_space",
        reason=f"{len(series.calls)} whole days of history",
        days_known=len(series.calls),
        step=_last_step(series, past, origin),
    )


def _interval(widening: Widening, low: Fraction, high: Fraction) -> Interval:
    return Interval(
        level=widening.level,
        low=low,
        high=high,
        factor=Fraction(round(widening.factor, 2)).limit_denominator(100),
        covered_before=widening.covered_before,
        covered_after=widening.covered_after,
        windows=widening.windows,
    )


def _days_ahead(
    series: DailySeries, first: date, start: date, growing: Windows, widened: tuple[Widening, ...]
) -> tuple[ForecastDay, ...]:
    """Return the running total of each day to come, from what is on record and windows that grow by a day."""
    base = series.spent(first, series.today - _ONE_DAY)
    to_date = base
    if first <= series.today:
        to_date += series.today_spend
        # A day that is not over costs at least what it has cost so far.
        base += max(series.today_spend - Fraction(float(growing.daily[0, 0])), Fraction(0))

    def then(amount: float) -> Fraction:
        return max(rounded(base + Fraction(amount)), to_date)

    found = []
    for number, (total, deviation) in enumerate(zip(growing.total.tolist(), growing.deviation.tolist(), strict=True)):
        wide = [0.0 if np.isnan(deviation) else min(each.deviations * deviation, _WIDEST) for each in widened]
        bounds = tuple((then(total * math.exp(-each)), then(total * math.exp(each))) for each in wide)
        found.append(ForecastDay(start + number * _ONE_DAY, then(total), bounds, is_forecast=True))
    return tuple(found)


def _last_step(series: DailySeries, past: Past, origin: int) -> tuple[date, Fraction] | None:
    """Return the last step of cost per call: the day it was seen, and its change over a week before and after."""
    steps = [step for step in past.steps if step <= origin]
    if not steps:
        return None
    at = steps[-1] - 1  # the second day in a row confirmed it
    before, after = (_cost_per_call(series, *span) for span in ((max(at - 7, 0), at), (at, min(at + 7, origin + 1))))
    if before is None or after is None or before == 0:
        return None
    return series.first + at * _ONE_DAY, (after / before - 1).limit_denominator(10**6)


def _cost_per_call(series: DailySeries, start: int, end: int) -> Fraction | None:
    calls = sum(series.calls[start:end])
    return sum(series.spend[start:end], Fraction(0)) / calls if calls else None
