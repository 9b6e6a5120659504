"""What a running month's page says of its end, and of the months after it.

In: a ledger's reader, the month, the instant. Out: tables, a chart and notes, or none where the month is not running.
Invariant: month to date is the ledger's own settled total; every other amount is marked as expected by its heading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction

from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import HIDDEN, Cell, Chart, Column, Kind, Money, Note, Panel, Table, money_of
from reports.period import Period, named_month
from reports.projection.forecast import MonthForecast, rounded
from reports.projection.outlook import outlook_of
from reports.projection.series import MOST_DAYS, DailySeries, daily_series
from reports.projection.widening import LEVELS

MONTHS_AHEAD = 3
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Projected:
    """What a page says of the future; all empty, and no forecast, where its period is not running.

    Args:
        tables: the months, the running total by day, the measured coverage.
        charts: the fan.
        notes: how it was made, and what it takes for granted.
        forecast: of the period.
    """

    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[Note, ...] = ()
    forecast: MonthForecast | None = None


def projection_of(
    reader: LedgerReader,
    month: Period,
    exchange: Exchange,
    now: datetime,
    *,
    growth: Fraction = Fraction(0),
    months_ahead: int = MONTHS_AHEAD,
) -> Projected:
    """Return what a running month is expected to end at, and what the months after it come to.

    Args:
        reader: the ledger's.
        month: the month, or another period; months after it are shown for a month alone.
        exchange: converts into the page's currency.
        now: aware instant.
        growth: of each later month over the one before, as a share; −1 < growth.
        months_ahead: how many later months.

    Raises:
        FxError: an amount of the month cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    if not month.is_running(now):
        return Projected()
    series = daily_series(reader, month, exchange, now)
    outlook = outlook_of(series)
    found = outlook.forecast(month.last_day, since=month.first_day)
    later, each = [], month
    if month.is_month and found.point is not None:
        for number in range(1, months_ahead + 1):
            each = named_month(f"{each.last_day + _ONE_DAY:%Y-%m}", month.zone, now)
            later.append(scaled(outlook.forecast(each.last_day, since=each.first_day), (1 + growth) ** number))
    tables = [_months_table(month.name, found, later), *([] if found.point is None else [_days_table(found)])]
    if found.intervals and found.intervals[0].covered_before is not None:
        tables.append(_coverage_table(found))
    notes = (*lower_bound(series), *_notes(found, growth, later=bool(later)))
    return Projected(tuple(tables), _charts(found), notes, found)


def scaled(found: MonthForecast, factor: Fraction) -> MonthForecast:
    """Return a forecast of a span that has not begun, times a factor.

    Args:
        found: the forecast; amounts in its currency.
        factor: 1 leaves it as it is.

    Raises:
        ValueError: the span has begun, so that a part of it is on record.
    """
    if found.to_date:
        message = "forecast: a span that has begun cannot be scaled"
        raise ValueError(message)
    return replace(
        found,
        point=None if found.point is None else rounded(found.point * factor),
        intervals=tuple(
            replace(each, low=rounded(each.low * factor), high=rounded(each.high * factor)) for each in found.intervals
        ),
        days=tuple(
            replace(
                day,
                total=rounded(day.total * factor),
                bounds=tuple((rounded(low * factor), rounded(high * factor)) for low, high in day.bounds),
            )
            for day in found.days
        ),
    )


def lower_bound(series: DailySeries) -> tuple[Note, ...]:
    """Return the warning that a series is a lower bound, where it is one."""
    text = "records of the days that the forecast is told from have no whole cost: {count}; all of it is a lower bound"
    return (Note("warning", text, {"count": (series.unpriced, "count")}),) if series.unpriced else ()


def bound_columns(currency: str) -> tuple[Column, ...]:
    """Return the columns of the intervals' bounds, the inner one first."""
    return tuple(
        Column(f"{side}_{level * 100}", f"{level * 100} % {side}, {currency}", "money")
        for level in LEVELS
        for side in ("low", "high")
    )


def bound_cells(found: MonthForecast) -> tuple[Cell, ...]:
    """Return the cells of those columns; unknown where there is no interval."""
    cells: list[Cell] = []
    for level in LEVELS:
        interval = found.interval(level)
        bounds = (None, None) if interval is None else (interval.low, interval.high)
        cells += [money_of(bound, found.currency) for bound in bounds]
    return tuple(cells)


def _months_table(name: str, found: MonthForecast, later: list[MonthForecast]) -> Table:
    currency = found.currency
    columns = (
        Column("month", "Month", "text"),
        Column("to_date", f"To date, {currency}", "money"),
        Column("expected", f"Expected, {currency}", "money"),
        *bound_columns(currency),
        Column("run_rate", f"At run-rate, {currency}", "money"),
    )
    rows = [_month_row(name, found, Money(found.to_date, currency))]
    rows += [_month_row(f"{each.first:%Y-%m}", each, None) for each in later]
    panels = (
        Panel("Expected", ("to_date", "expected", "run_rate")),
        Panel("Intervals", tuple(column.key for column in bound_columns(currency))),
    )
    return Table("projected_months", f"What the month ends at, {currency}", columns, tuple(rows), panels=panels)


def _month_row(name: str, found: MonthForecast, to_date: Money | None) -> tuple[Cell, ...]:
    # Where there is no whole day to tell from, today's part is no rate.
    values = (None, None) if found.point is None else (found.point, found.run_rate)
    point, rate = (money_of(value, found.currency) for value in values)
    return name, to_date, point, *bound_cells(found), rate


def _days_table(found: MonthForecast) -> Table:
    columns = (
        Column("day", "Day", "text"),
        Column("middle", f"Total by then, {found.currency}", "money"),
        *bound_columns(found.currency),
    )
    rows = []
    for day in found.days:
        bounds = [Money(amount, found.currency) for pair in day.bounds for amount in pair]
        unknown: list[Money | None] = [None] * (2 * len(LEVELS) - len(bounds))
        rows.append((day.day.isoformat(), Money(day.total, found.currency), *bounds, *unknown))
    title = f"Running total by day, on record and expected, {found.currency}"
    return Table("projection", title, columns, tuple(rows), panels=HIDDEN)


def _coverage_table(found: MonthForecast) -> Table:
    columns = (
        Column("interval", "Interval", "text"),
        Column("windows", "Past windows", "count"),
        Column("covered_before", "Held before", "share"),
        Column("covered_after", "Held widened", "share"),
        Column("widened_by", "Widened by", "change"),
    )
    rows = tuple(
        (f"{each.level * 100} %", each.windows, each.covered_before, each.covered_after, each.factor - 1)
        for each in found.intervals
    )
    return Table("projection_coverage", "How such intervals held on this ledger's own past", columns, rows)


def _charts(found: MonthForecast) -> tuple[Chart, ...]:
    if found.point is None:
        return ()
    keys = ("middle", *(column.key for column in bound_columns(found.currency)))
    text = "The running total of the month: on record up to yesterday, expected after it"
    text += ", with the intervals that hold 80 and 95 of 100 such months." if found.intervals else "."
    title = f"Month to date and expected end, {found.currency}"
    return (Chart("projection", title, "fan", "projection", "day", keys, description=text),)


def _notes(found: MonthForecast, growth: Fraction, *, later: bool) -> Iterator[Note]:
    values: Mapping[str, tuple[Cell, Kind]] = {"reason": (found.reason, "text")}
    if found.point is None:
        yield Note("note", "no projection: the ledger has no whole day before today", {})
        return
    if not found.intervals:
        text = "the month's end is told from a plain mean of the last days, without an interval ({reason})"
        yield Note("note", text, values)
    else:
        text = (
            "the month's end is told from {reason}, volume and cost per call apart; its intervals are as wide as past "
            "ones had to be"
        )
        yield Note("note", text, values)
    if found.days_known >= MOST_DAYS:
        yield Note("note", "what is older than {days} days is not looked at", {"days": (MOST_DAYS, "count")})
    if found.step is not None:
        day, change = found.step
        text = "cost per call stands at another level since {day} ({change}); the projection goes on from there"
        yield Note("note", text, {"day": (day.isoformat(), "text"), "change": (change, "change")})
    if later:
        pace = "growing by {growth} a month" if growth else "as they are"
        text = f"later months take work, prices and configuration to go on, {pace}; their intervals hold for that alone"
        yield Note("note", text, {"growth": (growth, "change")} if growth else {})
