"""The page of `router backtest`: how good forecasts of the user's own past months would have been.

In: a ledger's reader, a currency, a time zone. Out: a `Page`. Invariant: every figure of the first table can be added
up from the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Cell, Column, Fact, Money, Note, Page, Panel, Table, money_of
from reports.period import Period, named_month
from reports.projection.backtest import Accuracy, Trial, accuracy, backtest
from reports.projection.outlook import FEWEST_DAYS
from reports.projection.projected import bound_cells, bound_columns, lower_bound
from reports.projection.series import DailySeries, daily_series
from router.errors import RouterError


def backtest_report(reader: LedgerReader, exchange: Exchange, zone: ZoneInfo, now: datetime, months: int = 12) -> Page:
    """Return how good forecasts of a ledger's past months would have been, beside run-rate.

    Args:
        reader: the ledger's.
        exchange: converts into the page's currency.
        zone: the time zone that days and months are cut in.
        now: aware instant; its month is not over.
        months: the last so many whole months.

    Raises:
        RouterError: no month is over that had three weeks of history before it.
        LedgerError: the ledger cannot be read.
    """
    this = named_month("this", zone, now)
    past = Period(f"until {this.first_day}", zone, this.start_us, this.start_us)
    series = daily_series(reader, past, exchange, now)
    trials = backtest(series, months)
    if not trials:
        raise _too_short(series)
    return Page(
        name="backtest",
        title=f"Forecasts of past months, {exchange.currency}, {zone.key}",
        parameters=(
            Fact("months", "months", months, "count"),
            Fact("currency", "currency", exchange.currency),
            Fact("time_zone", "time zone", zone.key),
        ),
        tables=(_summary(trials), _trials_table(trials, exchange.currency)),
        notes=(*lower_bound(series), *_notes(trials)),
        footer=(
            Fact("forecasts", "forecasts", len(trials), "count"),
            Fact("rows_unpriced", "rows unpriced", series.unpriced, "count"),
            Fact("days_known", "whole days of history", len(series.calls), "count"),
            Fact("first_day", "history from", series.first.isoformat()),
            Fact("baseline", "baseline", "run-rate"),
            Fact("time_zone", "time zone", zone.key),
            Fact("exchange_rates", "exchange rates", "each UTC day's own"),
        ),
    )


def _too_short(series: DailySeries) -> RouterError:
    known = f"{len(series.calls)} whole days from {series.first}" if series.calls else "no whole day"
    return RouterError(
        f"backtest: the history before this month is too short ({known}); a month that is over is needed, and "
        f"{FEWEST_DAYS} days before the day of its first forecast",
        hint="router import takes in what you have on record elsewhere; router report projects this month as it is",
    )


def _summary(trials: Sequence[Trial]) -> Table:
    columns = (
        Column("days_passed", "After day", "text"),
        Column("forecasts", "Forecasts", "count"),
        Column("mape", "Error", "share"),
        Column("run_rate_mape", "Of run-rate", "share"),
        Column("held_80", "80 % held", "share"),
        Column("held_95", "95 % held", "share"),
        Column("width_80", "80 % width", "share"),
    )
    days = sorted({trial.days_passed for trial in trials})
    rows = [_summary_row(str(day), accuracy([trial for trial in trials if trial.days_passed == day])) for day in days]
    title = "Mean absolute error and width as shares of what the months came to; share of intervals that held"
    return Table("backtest", title, columns, tuple(rows), _summary_row("all", accuracy(trials)))


def _summary_row(label: str, found: Accuracy) -> tuple[Cell, ...]:
    return label, found.trials, found.mape, found.run_rate_mape, *found.held, found.width


def _trials_table(trials: Sequence[Trial], currency: str) -> Table:
    columns = (
        Column("forecast", "Month, after day", "text"),
        Column("actual", f"Came to, {currency}", "money"),
        Column("expected", f"Expected, {currency}", "money"),
        Column("error", "Error", "change"),
        Column("run_rate_error", "Of run-rate", "change"),
        *bound_columns(currency),
        Column("method", "Method", "text"),
    )
    panels = (
        Panel("Error", ("actual", "expected", "error", "run_rate_error", "method")),
        Panel("Intervals", tuple(column.key for column in bound_columns(currency))),
    )
    rows = tuple(_trial_row(trial, currency) for trial in trials)
    return Table("forecasts", "Each forecast", columns, rows, panels=panels)


def _trial_row(trial: Trial, currency: str) -> tuple[Cell, ...]:
    found = trial.forecast
    return (
        f"{found.first:%Y-%m}, {trial.days_passed}",
        Money(trial.actual, currency),
        money_of(found.point, currency),
        trial.error,
        trial.run_rate_error,
        *bound_cells(found),
        found.method,
    )


def _notes(trials: Sequence[Trial]) -> tuple[Note, ...]:
    text = "each forecast is made from the days before it alone; the width of its interval too"
    few = "an interval is judged from few forecasts: {count}; a share of them is a rough figure"
    found = accuracy(trials).with_interval
    return (
        Note("note", text, {}),
        *((Note("warning", few, {"count": (found, "count")}),) if found < 20 else ()),
    )
