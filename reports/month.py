"""The report of a month, or of other days: what was called, what it cost, how it went, by whatever lines are asked for.

In: a ledger's reader, the period, what to group by, a currency, a time zone, rates and catalogue. Out: a `Page`.
Invariant: the total line is the sum of the lines, and both are the ledger's own total, exactly, in every grouping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from types import MappingProxyType

from pricing import Catalog, FxTable
from reports.exchange import Exchange
from reports.figures import STATUSES, Figures, sum_of_lines
from reports.frames import LedgerReader
from reports.month_daily import daily_charts, daily_tables
from reports.month_doubts import swapped_table
from reports.month_groups import BY, Group, group_of
from reports.month_latency import Histograms, Latencies
from reports.month_lines import Lines, cost_chart, lines_of, lines_table
from reports.month_notes import month_notes, swap_notes
from reports.month_overhead import overhead_of
from reports.month_prices import AS_BILLED, PriceBasis, repriced
from reports.month_reading import Asked, Reading, credit_of, on_record, projected, side_before, side_of
from reports.month_rows import MODEL, MonthRows, whole
from reports.month_summary import Side, summary_notes, summary_tables
from reports.month_times import latency_chart, latency_table, stage_times, time_tables
from reports.month_tokens import tokens_table
from reports.page import Chart, Fact, Note, Page, Panel
from reports.period import Period, named_month, no_rows, time_zone
from router.settings import EndpointSettings

__all__ = ["BY", "month_report"]

_MODELS = Group("model", "Model", MODEL)


def month_report(  # noqa: PLR0913 — each is one thing the page depends on, and none belongs to another
    reader: LedgerReader,
    *,
    month: str | Period | None,
    by: str,
    currency: str,
    time_zone_name: str,
    fx: FxTable,
    catalog: Catalog,
    now: datetime,
    endpoints: Mapping[str, EndpointSettings] = MappingProxyType({}),
    prices: PriceBasis | None = None,
    growth: Fraction = Fraction(0),
    compact: bool = False,
) -> Page:
    """Return the report of one month, or of another period.

    Args:
        reader: the ledger's.
        month: `2026-10`, `last`, `this`, None for this one, or a period, which has a time zone of its own.
        by: a key of `BY`, or `tag:KEY`.
        currency: ISO 4217 code that amounts are shown in, each at the rate of the UTC day of its call.
        time_zone_name: IANA name of the zone that month and days are cut in.
        fx: exchange rates.
        catalog: its date is stated.
        now: aware instant.
        endpoints: by name; their credits and commitments say what is left to pay.
        prices: the catalogue's prices that the tokens are priced at again; None: the costs on record.
        growth: of each month after a running one over the one before, as a share.
        compact: whether the page has the lines' cost and their total alone, and only warnings beside them.

    Raises:
        WrongUsage: the month, grouping or zone does not exist.
        RouterError: the period has no rows; months that have some are named.
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    zone = time_zone(time_zone_name)
    period = month if isinstance(month, Period) else named_month(month, zone, now)
    group = group_of(by, reader, period, catalog)
    asked = Asked(reader, period, group, fx, currency, catalog, now, endpoints, prices, growth)
    reading = Reading(asked)
    data = reading.period_rows(Exchange(fx, currency))
    if not data.rows.size:
        raise no_rows(period, reader.months_present(period.zone), now)
    said: tuple[Note, ...] = ()
    if prices:
        data, said = repriced(data, prices, catalog)
    latencies = Latencies(reader, period, reading.before, group)
    lines = lines_of(data, group, latencies.of_period(group))
    page = _page(reading, data, lines, latencies)
    page = replace(page, notes=(*said, *page.notes))
    return _compact(page) if compact else page


def _page(reading: Reading, data: MonthRows, lines: Lines, latencies: Latencies) -> Page:
    asked = reading.asked
    period, exchange, currency = asked.period, data.exchange, asked.currency
    sums = sum_of_lines(data.sums_by(whole(data.rows)))
    by_model = latencies.of_period(_MODELS)
    paid = credit_of(asked, period, exchange)
    this = side_of(asked, data, Side(period, lines.total, credit=paid.from_credit))
    before, unknown = side_before(reading, latencies.of_before())
    end = projected(asked)
    overhead, swapped = overhead_of(data), swapped_table(data)
    stages = stage_times(asked.reader, period, sums)
    record = on_record(reading, data, lines.total.settled_cost)
    warnings, notes = month_notes(data, lines.total, asked.reader, period, asked.now, asked.catalog)
    return Page(
        name="month",
        title=f"{period.name} by {asked.group.name}, {currency}, {period.zone.key}",
        parameters=_parameters(asked),
        tables=(
            lines_table(lines, asked.group, currency),
            *summary_tables(this, before, exchange),
            *end.tables,
            *tokens_table(sums),
            *overhead.tables,
            *time_tables(lines.total, sums, stages),
            *(() if asked.group.columns == MODEL else latency_table(by_model)),
            *daily_tables(data, period, asked.now),
            *record.tables,
            *swapped,
            *paid.tables,
            *exchange.tables(),
        ),
        notes=(
            *(*swap_notes(swapped), *warnings, *record.warnings),
            *(
                *notes,
                *unknown,
                *summary_notes(this, before),
                *overhead.notes,
                *stages.note,
                *record.notes,
                *end.notes,
                *paid.notes,
            ),
        ),
        footer=_footer(lines.total, asked, exchange),
        charts=(*end.charts, *_charts(asked, by_model)),
    )


def _charts(asked: Asked, models: Histograms) -> tuple[Chart, ...]:
    currency = asked.currency
    by_line = () if asked.group.name == "day" else (cost_chart(asked.group, currency),)
    table = "lines" if asked.group.columns == MODEL else "latency"
    return (*daily_charts(currency), *by_line, *((latency_chart(table),) if models.latencies else ()))


def _compact(page: Page) -> Page:
    """Return the page with the lines' cost alone, and only what a reader would be wrong to pass over."""
    lines = page.tables[0]
    kept = (lines.columns[0].key, *lines.panels[0].keys)
    places = [at for at, column in enumerate(lines.columns) if column.key in kept]
    table = replace(
        lines,
        columns=tuple(lines.columns[at] for at in places),
        rows=tuple(tuple(row[at] for at in places) for row in lines.rows),
        total=None if lines.total is None else tuple(lines.total[at] for at in places),
        panels=(Panel(lines.title, lines.panels[0].keys),),
    )
    return replace(page, tables=(table,), notes=tuple(note for note in page.notes if note.kind == "warning"), charts=())


def _parameters(asked: Asked) -> tuple[Fact, ...]:
    what = "month" if asked.period.is_month else "period"
    return (
        Fact(what, what, asked.period.name),
        Fact("by", "by", asked.group.name),
        Fact("currency", "currency", asked.currency),
        Fact("time_zone", "time zone", asked.period.zone.key),
        Fact("prices", "prices", asked.prices.name if asked.prices else AS_BILLED),
    )


def _footer(total: Figures, asked: Asked, exchange: Exchange) -> tuple[Fact, ...]:
    return (
        Fact("rows_counted", "rows counted", total.records, "count"),
        Fact("rows_unpriced", "rows unpriced", total.unpriced, "count"),
        Fact("estimates", "estimates", total.estimated, "count"),
        *(Fact(f"attempts_{status}", f"cost {status}", total.by_status[status], "count") for status in STATUSES),
        Fact("catalogue_date", "catalogue of", asked.catalog.checked.isoformat()),
        Fact("baseline", "baseline", "none"),
        Fact("time_zone", "time zone", asked.period.zone.key),
        exchange.fact(),
    )
