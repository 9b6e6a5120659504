"""What a period's report reads of the ledger: the period's rows, those of the period before, and the weeks before it.

In: what is asked for. Out: rows, and the sides of the comparison. Invariant: what cannot be compared or judged is left
out and said; it never keeps a reader from the period itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction

from pricing import Catalog, FxError, FxTable
from reports.anomalies import DayTotals, anomaly_notes, anomaly_table, unusual_days
from reports.exchange import Exchange
from reports.figures import figures, sum_of_histograms, sum_of_lines
from reports.frames import LedgerReader
from reports.month_daily import days_begun
from reports.month_doubts import doubts_of
from reports.month_groups import Group
from reports.month_history import DIMENSIONS, day_totals, history_start_us
from reports.month_latency import Histograms
from reports.month_prices import PriceBasis, repriced
from reports.month_rows import MonthRows, marked, whole
from reports.month_runs import runs_table
from reports.month_summary import Side, tasks_of
from reports.page import Money, Note, Table
from reports.payment import Payment, payment_of
from reports.period import Period, day_parts, period_before
from reports.projection.projected import Projected, projection_of
from reports.rows import read_rows
from router.settings import EndpointSettings

LONGEST_JUDGED = timedelta(days=400)
"""Periods longer than that have no day held against its weekday."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is of.

    Args:
        reader: the ledger's.
        period: the period.
        group: what lines are.
        fx: exchange rates.
        currency: ISO 4217 code of the page.
        catalog: the price catalogue.
        now: aware instant.
        endpoints: by name.
        prices: the prices of the page; None: those on record.
        growth: a month's, of what later months are expected to come to, as a share.
    """

    reader: LedgerReader
    period: Period
    group: Group
    fx: FxTable
    currency: str
    catalog: Catalog
    now: datetime
    endpoints: Mapping[str, EndpointSettings]
    prices: PriceBasis | None
    growth: Fraction


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What is said of the record as it was billed."""

    tables: tuple[Table, ...] = ()
    warnings: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()


class Reading:
    """All rows that a page needs, read once: the weeks before, the period before, and the period.

    Args:
        asked: what the page is of.

    Raises:
        LedgerError: the ledger cannot be read.
    """

    def __init__(self, asked: Asked) -> None:
        period, before = asked.period, period_before(asked.period, asked.now)
        self.asked, self.before = asked, before
        self._is_judged = period.last_day - period.first_day <= LONGEST_JUDGED
        start_us = min(before.start_us, history_start_us(period)) if self._is_judged else before.start_us
        edges = (before.start_us, before.end_us)
        earlier = day_parts(start_us, period.start_us, period.zone, edges=edges)
        own = day_parts(period.start_us, period.end_us, period.zone, hours=asked.group.is_of_hours)
        self._parts, self._first_own = (*earlier, *own), len(earlier)
        self._rows = marked(read_rows(asked.reader, self._parts))

    def period_rows(self, exchange: Exchange) -> MonthRows:
        """Return the period's rows as billed, with their lines."""
        rows = self._rows.where(self._rows.hold("part", lambda part: part >= self._first_own))
        return MonthRows(rows, self.asked.group.labels(rows), exchange)

    def before_rows(self, exchange: Exchange) -> MonthRows:
        """Return the rows of the period before, as one line."""
        return self._between(self.before.start_us, self.before.end_us, exchange)

    def totals(self, data: MonthRows, exchange: Exchange) -> DayTotals | None:
        """Return spend and calls of the weeks before and of the period; None for periods too long to be judged.

        Args:
            data: the period's rows.
            exchange: converts what is before the period, so that its rates are not among the page's.

        Raises:
            FxError: an amount cannot be converted.
        """
        if not self._is_judged:
            return None
        period = self.asked.period
        return day_totals((self._between(history_start_us(period), period.start_us, exchange), data))

    def _between(self, start_us: int, end_us: int, exchange: Exchange) -> MonthRows:
        inside = self._rows.hold("part", lambda part: start_us <= self._parts[part].start_us < end_us)
        rows = self._rows.where(inside)
        return MonthRows(rows, whole(rows), exchange)


def side_of(asked: Asked, data: MonthRows, side: Side) -> Side:
    """Return a side with its tasks and what the attempts of our own cost."""
    ours = data.where(data.rows.are("origin", "routed")).settled()
    return replace(side, tasks=tasks_of(asked.reader, side.period), ours=ours)


def side_before(reading: Reading, found: Histograms) -> tuple[Side, tuple[Note, ...]]:
    """Return the period before, priced as the page's, and what keeps it from being known.

    Args:
        reading: the rows.
        found: its histograms.
    """
    asked, period = reading.asked, reading.before
    data = reading.before_rows(Exchange(asked.fx, asked.currency))
    if not data.rows.size:
        return Side(period), (Note("note", f"nothing is on record in {period.name}, the period before"),)
    if asked.prices:
        data, _ = repriced(data, asked.prices, asked.catalog)
    latencies, ttfts = sum_of_histograms(found.latencies), sum_of_histograms(found.ttfts)
    try:
        total = figures(sum_of_lines(data.sums_by_line()), latencies, asked.currency, ttfts)
        credit = credit_of(asked, period, data.exchange).from_credit
        return side_of(asked, data, Side(period, total, credit=credit)), ()
    except FxError as error:
        return Side(period), (Note("note", f"{period.name}, the period before, is not shown: {error}"),)


def credit_of(asked: Asked, period: Period, exchange: Exchange) -> Payment:
    """Return what is left to pay of a period; nothing is said of it where prices are not those on record."""
    if asked.prices:
        return Payment()
    return payment_of(asked.reader, period, asked.endpoints, exchange, asked.now)


def projected(asked: Asked) -> Projected:
    """Return what a running period will end at; nothing where prices are not those on record.

    Its rates of exchange are of other days too, so that they are not among the page's.
    """
    if asked.prices:
        return Projected()
    try:
        exchange = Exchange(asked.fx, asked.currency)
        return projection_of(asked.reader, asked.period, exchange, asked.now, growth=asked.growth)
    except FxError as error:
        return Projected(notes=(Note("note", f"no end is forecast: {error}"),))


def on_record(reading: Reading, data: MonthRows, total: Money | None) -> OnRecord:
    """Return the dearest runs, unusual days and doubtful costs; nothing where prices are not those on record.

    Args:
        reading: the rows.
        data: the period's.
        total: settled cost of the period.
    """
    asked = reading.asked
    if asked.prices:
        return OnRecord()
    doubts, runs = doubts_of(data), runs_table(asked.reader, asked.period, data.exchange, total)
    try:
        totals = reading.totals(data, Exchange(asked.fx, asked.currency))
    except FxError as error:
        note = Note("note", f"no day is held against those of the weeks before: {error}")
        return OnRecord((*runs, *doubts.tables), (), (*doubts.notes, note))
    today = asked.now.astimezone(asked.period.zone).date()
    days = [day for day in days_begun(asked.period, asked.now) if day < today]
    unusual = () if totals is None else unusual_days(totals, days, min(totals.spend))
    tables = (*runs, *anomaly_table(unusual, tuple(DIMENSIONS), asked.currency), *doubts.tables)
    return OnRecord(tables, anomaly_notes(unusual), doubts.notes)
