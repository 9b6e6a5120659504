"""Spend and calls by day before and in a period, in all and by model, tenant and class: what unusual days are found in.

In: rows. Out: `DayTotals`. Invariant: amounts are exact, each at the rate of its UTC day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from reports.anomalies import WEEKS, DayTotals
from reports.month_rows import MODEL, MonthRows
from reports.period import Period, to_us
from reports.rows import Grouping

DIMENSIONS: Mapping[str, tuple[str, ...]] = {"model": MODEL, "tenant": ("tenant",), "class": ("task_class",)}
"""What the driver of an unusual day is looked for in."""


def history_start_us(period: Period) -> int:
    """Return the first instant, in microseconds since 1970 UTC, that a period's days are held against."""
    first = period.first_day - timedelta(weeks=WEEKS)
    return to_us(datetime(first.year, first.month, first.day, tzinfo=period.zone))


def day_totals(parts: Sequence[MonthRows]) -> DayTotals:
    """Return the totals of the days that some rows are of.

    Args:
        parts: rows that have no day in common.

    Raises:
        FxError: an amount cannot be converted.
    """
    spend: dict[date, Fraction] = {}
    calls: dict[date, int] = {}
    members: dict[str, dict[Any, dict[date, Fraction]]] = {name: {} for name in DIMENSIONS}
    for part in parts:
        days = part.rows.labels(("local_day",))
        spend.update(zip(days.names, part.amounts(days, "settled_shown"), strict=True))
        grouping = Grouping(days.codes, len(days.names))
        columns = (grouping.sums(part.rows.sums[name]) for name in ("calls", "requests", "attempts"))
        calls.update(zip(days.names, map(_calls, *columns), strict=True))
        for name, read in DIMENSIONS.items():
            both = part.rows.labels(("local_day", *read), lambda day, *values: (day, _known(values)))
            for (day, member), amount in zip(both.names, part.amounts(both, "settled_shown"), strict=True):
                members[name].setdefault(member, {})[day] = amount
    return DayTotals(spend, calls, members)


def _calls(first_ones: int, requests: int, attempts: int) -> int:
    """Return calls: first attempts, and requests that others have added up."""
    return first_ones + requests - attempts


def _known(values: tuple[Any, ...]) -> Any:
    return next((value for value in values if value is not None), None)
