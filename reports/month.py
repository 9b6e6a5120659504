"""The month's report: what was called, what it cost, how it went, by model, role, class, day, configuration or tenant.

In: a ledger's reader, the month, what to group by, a currency, a time zone, rates and catalogue. Out: a `Page`.
Invariant: the total line is the sum of the lines, and both are the ledger's own total, exactly, in every grouping.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from pricing import Catalog, FxTable
from reports.exchange import Exchange
from reports.figures import (
    STATUSES,
    Figures,
    figures,
    histograms_by_line,
    sum_of_histograms,
    sum_of_lines,
    sums_by_line,
)
from reports.frames import LedgerReader
from reports.month_notes import month_notes
from reports.month_rows import BY, month_latencies, month_rows
from reports.page import Cell, Column, Fact, Money, Page, Panel, Table
from reports.payment import payment_of
from reports.period import Period, named_month, no_rows, time_zone
from router.errors import unknown_name
from router.settings import EndpointSettings

if TYPE_CHECKING:
    import pandas as pd

_PANELS = (
    Panel("Cost", ("calls", "attempts", "list_cost", "settled_cost", "cost_share", "attempts_unpriced")),
    Panel("Beside the cost", ("possibly_billed", "reported_cost", "attempts_reported")),
    Panel("Tokens", ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")),
    Panel(
        "Service: times of answered attempts in ms, percentiles and means",
        ("success_share", "p50_ms", "p95_ms", "queue_ms", "inference_ms", "network_ms", "state_ms"),
    ),
)


def month_report(  # noqa: PLR0913 — each is one thing the page depends on, and none belongs to another
    reader: LedgerReader,
    *,
    month: str | None,
    by: str,
    currency: str,
    time_zone_name: str,
    fx: FxTable,
    catalog: Catalog,
    now: datetime,
    endpoints: Mapping[str, EndpointSettings] = MappingProxyType({}),
) -> Page:
    """Return the report of one month.

    Args:
        reader: the ledger's.
        month: `2026-10`, `last`, `this`, or None for this one.
        by: a key of `BY`.
        currency: ISO 4217 code that amounts are shown in, each at the rate of the UTC day of its call.
        time_zone_name: IANA name of the zone that month and days are cut in.
        fx: exchange rates.
        catalog: its date is stated.
        now: aware instant.
        endpoints: by name; their credits and commitments say what is left to pay.

    Raises:
        WrongUsage: the month, grouping or zone does not exist.
        RouterError: the month has no rows; those that have some are named.
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    if by not in BY:
        raise unknown_name("group", by, BY)
    asked = named_month(month, time_zone(time_zone_name), now)
    exchange = Exchange(fx, currency)
    rows = month_rows(reader, asked, by, exchange)
    if rows.empty:
        raise no_rows(asked, reader.months_present(asked.zone))
    lines, total = _figures(rows, month_latencies(reader, asked, by), currency)
    paid = payment_of(reader, asked, endpoints, exchange, now)
    return Page(
        name="month",
        title=f"{asked.name} by {by}, {currency}, {asked.zone.key}",
        parameters=_parameters(asked, by, currency),
        tables=(_table(lines, total, by, currency), *paid.tables, *exchange.tables()),
        notes=(*month_notes(rows, total, reader, asked, now, exchange), *paid.notes),
        footer=_footer(total, asked, catalog, exchange),
    )


def _figures(
    rows: pd.DataFrame, latencies: pd.DataFrame, currency: str
) -> tuple[Mapping[str | None, Figures], Figures]:
    """Return the figures of each line and of their sum."""
    sums, histograms = sums_by_line(rows), histograms_by_line(latencies)
    lines = {label: figures(line, histograms.get(label, {}), currency) for label, line in sums.items()}
    return lines, figures(sum_of_lines(sums), sum_of_histograms(histograms), currency)


def _table(lines: Mapping[str | None, Figures], total: Figures, by: str, currency: str) -> Table:
    ordered = sorted(lines.items(), key=_earliest if by == "day" else _dearest)
    return Table(
        name="lines",
        title=f"By {by}",
        columns=_table_columns(by, currency),
        rows=tuple(_cells(label, line, total) for label, line in ordered),
        total=_cells("total", total, total),
        panels=_PANELS,
    )


def _earliest(line: tuple[str | None, Figures]) -> tuple[Fraction, int, str]:
    return Fraction(0), 0, line[0] or ""


def _dearest(line: tuple[str | None, Figures]) -> tuple[Fraction, int, str]:
    label, found = line
    return -(found.settled_cost.value if found.settled_cost else Fraction(0)), -found.attempts, label or ""


def _table_columns(by: str, currency: str) -> tuple[Column, ...]:
    return (
        Column(by, by.capitalize(), "text"),
        Column("calls", "Calls", "count"),
        Column("attempts", "Attempts", "count"),
        Column("list_cost", f"List, {currency}", "money"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("cost_share", "Share", "share"),
        Column("attempts_unpriced", "Unpriced", "count", optional=True),
        Column("possibly_billed", f"Possibly billed, {currency}", "money", optional=True),
        Column("reported_cost", f"Reported, {currency}", "money", optional=True),
        Column("attempts_reported", "With reported cost", "count", optional=True),
        Column("input_tokens", "Input", "tokens"),
        Column("cache_read_tokens", "Cache read", "tokens"),
        Column("cache_write_tokens", "Cache write", "tokens", optional=True),
        Column("output_tokens", "Output", "tokens"),
        Column("reasoning_tokens", "Reasoning", "tokens", optional=True),
        Column("success_share", "Success", "share"),
        Column("p50_ms", "p50", "duration_ms"),
        Column("p95_ms", "p95", "duration_ms"),
        Column("queue_ms", "Queue", "duration_ms"),
        Column("inference_ms", "Inference", "duration_ms"),
        Column("network_ms", "Network", "duration_ms"),
        Column("state_ms", "State", "duration_ms"),
        *(Column(f"attempts_{status}", status.capitalize(), "count") for status in STATUSES),
    )


def _cells(label: str | None, line: Figures, total: Figures) -> tuple[Cell, ...]:
    return (
        label,
        line.calls,
        line.attempts,
        line.list_cost,
        line.settled_cost,
        _share(line.settled_cost, total.settled_cost),
        line.unpriced,
        line.possibly_billed,
        line.reported_cost,
        line.reported,
        line.input_tokens,
        line.cache_read_tokens,
        line.cache_write_tokens,
        line.output_tokens,
        line.reasoning_tokens,
        line.success_share,
        line.p50_ms,
        line.p95_ms,
        line.queue_ms,
        line.inference_ms,
        line.network_ms,
        line.state_ms,
        *(line.by_status[status] for status in STATUSES),
    )


def _share(cost: Money | None, total: Money | None) -> Fraction | None:
    return None if cost is None or total is None or total.value == 0 else cost.value / total.value


def _parameters(month: Period, by: str, currency: str) -> tuple[Fact, ...]:
    return (
        Fact("month", "month", month.name),
        Fact("by", "by", by),
        Fact("currency", "currency", currency),
        Fact("time_zone", "time zone", month.zone.key),
    )


def _footer(total: Figures, month: Period, catalog: Catalog, exchange: Exchange) -> tuple[Fact, ...]:
    return (
        Fact("rows_counted", "rows counted", total.attempts, "count"),
        Fact("rows_unpriced", "rows unpriced", total.unpriced, "count"),
        Fact("estimates", "estimates", total.estimated, "count"),
        *(Fact(f"attempts_{status}", f"cost {status}", total.by_status[status], "count") for status in STATUSES),
        Fact("catalogue_date", "catalogue of", catalog.checked.isoformat()),
        Fact("baseline", "baseline", "none"),
        Fact("time_zone", "time zone", month.zone.key),
        exchange.fact(),
    )
