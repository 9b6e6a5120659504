"""Month-end forecasts: ours beside run-rate, a weekday profile and statsmodels, how good and how fast.

    python -m benchmarks.forecast [series of each family]     (from the project's root)

Every method forecasts the same months of the same daily series (13 airlines, 16 seeded ones; days 5, 10 and 17 of March
to December) from the days before alone. Errors and coverages stand before times: they are the answer that is checked.
Without a number, three series of each family: statsmodels takes its time.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import TypeAlias

import numpy as np

from reports.projection import DailySeries, outlook_of
from tests.reports.made_series import airlines, made

DAYS, MONTHS = (5, 10, 17), range(3, 13)
LEVELS = (0.8, 0.95)
Told: TypeAlias = tuple[float, tuple[tuple[float, float], ...]]
"""A total, and the bounds of its intervals."""
Method: TypeAlias = Callable[[DailySeries, date, date], Told]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One method on one family: errors by day as shares, how often intervals held, seconds a forecast."""

    errors: dict[int, list[float]]
    held: tuple[list[bool], ...]
    seconds: list[float]


def main() -> None:
    """Print the table of each family."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    methods: dict[str, Method] = {
        "run-rate": run_rate,
        "weekday profile, conformal": weekday_profile,
        "statsmodels UnobservedComponents": unobserved_components,
        "ours": ours,
        "weekday profile, 24 days of history": lambda series, first, last: weekday_profile(
            _tail(series, 24), first, last
        ),
        "ours, 24 days of history": lambda series, first, last: ours(_tail(series, 24), first, last),
    }
    for family, all_series in (("airlines", airlines()), ("made", made(16))):
        some = dict(islice(all_series.items(), count))
        print(f"{family}: {len(some)} series; error % at day 5 / 10 / 17; 80 % and 95 % held; ms a forecast")
        for name, method in methods.items():
            print(f"  {name:36} {_line(_tried(some.values(), method))}", flush=True)


def _tried(all_series: Iterable[DailySeries], method: Method) -> Outcome:
    found = Outcome({day: [] for day in DAYS}, ([], []), [])
    for series in all_series:
        for month in MONTHS:
            first = date(2013, month, 1)
            last = (first + timedelta(31)).replace(day=1) - timedelta(1)
            actual = float(series.spent(first, last))
            for day in DAYS:
                began = time.perf_counter()
                point, bounds = method(series.until(first + timedelta(day)), first, last)
                found.seconds.append(time.perf_counter() - began)
                found.errors[day].append(abs(point / actual - 1))
                for (low, high), held in zip(bounds, found.held, strict=False):
                    held.append(low <= actual <= high)
    return found


def _line(found: Outcome) -> str:
    errors = " / ".join(f"{100 * statistics.mean(found.errors[day]):5.2f}" for day in DAYS)
    held = "  ".join(f"{100 * statistics.mean(each):3.0f}" if each else "  –" for each in found.held)
    return f"{errors}   {held}   {1000 * statistics.median(found.seconds):7.1f}"


def ours(series: DailySeries, first: date, last: date) -> Told:
    """Return the forecast of `reports.projection`."""
    found = outlook_of(series).forecast(last, since=first)
    return float(found.point or 0), tuple((float(each.low), float(each.high)) for each in found.intervals)


def run_rate(series: DailySeries, first: date, last: date) -> Told:
    """Return month to date, by days passed, times days of the month."""
    passed = (series.today - first).days
    return float(series.spent(first, last)) / passed * ((last - first).days + 1), ()


def weekday_profile(series: DailySeries, first: date, last: date) -> Told:
    """Return weekday means of eight weeks times the level of the last two, and the quantiles of its own past errors."""
    spend = [float(value) for value in series.spend]
    known, ahead = len(spend), (last - series.today).days + 1
    total = _profiled(spend, known, ahead, series.first.weekday())
    ratios = [
        sum(spend[origin : origin + ahead]) / _profiled(spend, origin, ahead, series.first.weekday())
        for origin in range(28, known - ahead + 1)
    ]
    to_date = float(series.spent(first, last))
    bounds = [np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2]) for level in LEVELS] if len(ratios) > 2 else []
    return to_date + total, tuple((to_date + total * float(low), to_date + total * float(high)) for low, high in bounds)


def _profiled(spend: list[float], origin: int, ahead: int, weekday: int) -> float:
    past = list(enumerate(spend[max(origin - 56, 0) : origin], max(origin - 56, 0)))
    by_weekday = [[value for day, value in past if (day + weekday) % 7 == each] for each in range(7)]
    shares = [statistics.mean(values) if values else 0.0 for values in by_weekday]
    recent = past[-14:]
    level = sum(value for _, value in recent) / max(sum(shares[(day + weekday) % 7] for day, _ in recent), 1e-9)
    return max(level * sum(shares[(day + weekday) % 7] for day in range(origin, origin + ahead)), 1e-9)


def unobserved_components(series: DailySeries, first: date, last: date) -> Told:
    """Return what statsmodels' local level with a weekly season tells of log spend; 500 drawn futures."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    logs = np.array([math.log(float(value)) if value else math.nan for value in series.spend])
    ahead = (last - series.today).days + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = UnobservedComponents(logs, "llevel", seasonal=7).fit(disp=False)
        drawn = fitted.simulate(ahead, anchor="end", repetitions=500, rng=1)
    totals = np.exp(np.asarray(drawn).reshape(ahead, -1)).sum(axis=0) + float(series.spent(first, last))
    bounds = [np.quantile(totals, [(1 - level) / 2, (1 + level) / 2]) for level in LEVELS]
    return float(np.median(totals)), tuple((float(low), float(high)) for low, high in bounds)


def _tail(series: DailySeries, days: int) -> DailySeries:
    cut = len(series.calls) - days
    return DailySeries(series.first + timedelta(cut), series.calls[cut:], series.spend[cut:], series.currency)


if __name__ == "__main__":
    main()
