"""What a reader of a period's report must know to read its tables right.

In: the period's rows and total. Out: notes, warnings first. Invariant: nothing that changes how a figure is to be read
goes unsaid.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from pricing import Catalog
from reports.figures import Figures
from reports.frames import LedgerReader
from reports.month_rows import MonthRows
from reports.page import Cell, Kind, Money, Note, Table
from reports.period import DAY_US, Period
from reports.rows import total_of

STALE_DAYS = 45
"""Days after which a catalogue is called old: vendors change some price every few weeks."""
NAMED_SWAPS = 3


def month_notes(
    data: MonthRows, total: Figures, reader: LedgerReader, month: Period, now: datetime, catalog: Catalog
) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """Return the warnings and the notes of a period's report.

    Args:
        data: the period's rows.
        total: the figures of all of it.
        reader: the ledger's, for the price sets that were used.
        month: the period.
        now: aware instant; a period that it lies in is still running.
        catalog: whose date is judged.
    """
    warnings = (
        *_retired(data, reader),
        *_unpriced(total),
        *_unsettled(total),
        *_stale(catalog, month, now),
        *_misplaced(data, month),
        *data.exchange.notes(),
    )
    notes = (
        *_running(month, now),
        *_imported(data),
        *_added_up(data, total),
        *_refused(total),
        *_reported(total),
        *_latency(total),
    )
    return warnings, notes


def swap_notes(tables: tuple[Table, ...]) -> tuple[Note, ...]:
    """Return warnings of pairs of asked and served model that differ.

    Args:
        tables: those of `month_doubts.swapped_table`.
    """
    rows = [row for table in tables for row in table.rows]
    named = tuple(_swap(*row) for row in rows[:NAMED_SWAPS])
    if len(rows) <= NAMED_SWAPS:
        return named
    further = "{count} further pairs of models differ alike: see the table of them"
    return (*named, Note("warning", further, {"count": (len(rows) - NAMED_SWAPS, "count")}))


def _swap(asked: Cell, served: Cell, count: Cell, amount: Cell) -> Note:
    text = "{asked} was asked for and {served} answered, priced as what answered; attempts: {count}"
    values: dict[str, tuple[Cell, Kind]] = {
        "asked": (asked, "text"),
        "served": (served, "text"),
        "count": (count, "count"),
    }
    if isinstance(amount, Money):
        text += "; settled: {amount} {currency}"
        values |= {"amount": (amount, "money"), "currency": (amount.currency, "text")}
    return Note("warning", text, values)


def _retired(data: MonthRows, reader: LedgerReader) -> tuple[Note, ...]:
    """Return a warning per model that was priced at its last list after it had left it."""
    if "price_set_id" not in data.rows.codes:
        return ()
    sums = data.sums_by(data.rows.labels(("price_set_id",)))
    sets = reader.price_sets(sorted(key for key in sums if key is not None))
    found = [
        (prices.model, prices.retired_at, int(sums[key]["records"]))
        for key, prices in sets.items()
        if prices.retired_at is not None
    ]
    text = "{model} left its price list on {day} and is priced at its last list; attempts: {count}"
    return tuple(
        Note("warning", text, {"model": (model, "text"), "day": (f"{at:%Y-%m-%d}", "text"), "count": (count, "count")})
        for model, at, count in sorted(found)
    )


def _unpriced(total: Figures) -> tuple[Note, ...]:
    if not total.unpriced:
        return ()
    text = "a cost marked ≥ is a lower bound, because a price or a usage is unknown; attempts: {count}"
    return (Note("warning", text, {"count": (total.unpriced, "count")}),)


def _unsettled(total: Figures) -> tuple[Note, ...]:
    if not total.unsettled:
        return ()
    text = (
        "possibly billed, because they never ended or ended without usage after they were sent; attempts: {count}; "
        "{amount} {currency} was reserved for them and is in no cost"
    )
    amount = total.possibly_billed
    currency = amount.currency if amount else None
    values: dict[str, tuple[Cell, Kind]] = {
        "count": (total.unsettled, "count"),
        "amount": (amount, "money"),
        "currency": (currency, "text"),
    }
    return (Note("warning", text, values),)


def _stale(catalog: Catalog, month: Period, now: datetime) -> tuple[Note, ...]:
    """Return a warning where the catalogue is much older than the period's end, or than now."""
    until = min(now.astimezone(month.zone).date(), month.last_day)
    if until - catalog.checked <= timedelta(days=STALE_DAYS):
        return ()
    text = "the price catalogue is of {day}, {count} days before {until}: calls since then may be priced at old prices"
    values: dict[str, tuple[Cell, Kind]] = {
        "day": (catalog.checked.isoformat(), "text"),
        "count": ((until - catalog.checked).days, "count"),
        "until": (until.isoformat(), "text"),
    }
    return (Note("warning", text, values),)


def _misplaced(data: MonthRows, month: Period) -> tuple[Note, ...]:
    """Return a warning where others' days, which are UTC's, are on a page whose days are not."""
    if not month.start_us % DAY_US and not month.end_us % DAY_US:
        return ()
    count = _records_of(data, "aggregated")
    if not count:
        return ()
    text = (
        "usage that others added up is booked whole on the day on which it begins: its days are mostly those of UTC "
        "and cannot be cut at midnight of {zone}; rows: {count}"
    )
    return (Note("warning", text, {"zone": (month.zone.key, "text"), "count": (count, "count")}),)


def _running(month: Period, now: datetime) -> tuple[Note, ...]:
    if not month.is_running(now):
        return ()
    stamp = f"{now.astimezone(month.zone):%Y-%m-%d %H:%M}"
    what = "month" if month.is_month else "period"
    return (Note("note", f"the {what} is still running: figures up to {{now}}", {"now": (stamp, "text")}),)


def _imported(data: MonthRows) -> tuple[Note, ...]:
    count = _records_of(data, "imported")
    text = "imported from a record of another system; attempts: {count}"
    notes = [Note("note", text, {"count": (count, "count")})] if count else []
    judged = data.where(data.rows.are("origin", "imported")).total()
    silent = judged.attempts and judged.success_share is None
    if silent:
        notes.append(Note("note", "success is that of attempts whose outcome is on record; imported ones say nothing"))
    return tuple(notes)


def _added_up(data: MonthRows, total: Figures) -> tuple[Note, ...]:
    count = _records_of(data, "aggregated")
    if not count:
        return ()
    text = "added up by others before they came here, so that no latency or success of theirs is known; rows: {count}"
    notes = [Note("note", text, {"count": (count, "count")})]
    if total.uncounted:
        text = "of them without a number of requests, so that no cost per call is worked out; rows: {count}"
        notes.append(Note("note", text, {"count": (total.uncounted, "count")}))
    return tuple(notes)


def _refused(total: Figures) -> tuple[Note, ...]:
    text = "failed before they were served, with no usage and nothing to pay; attempts: {count}"
    return (Note("note", text, {"count": (total.refused, "count")}),) if total.refused else ()


def _reported(total: Figures) -> tuple[Note, ...]:
    text = "the upstream stated a cost of its own, shown beside the computed one; attempts: {count}"
    return (Note("note", text, {"count": (total.reported, "count")}),) if total.reported else ()


def _latency(total: Figures) -> tuple[Note, ...]:
    text = "percentiles are read from a histogram: each is within {error} of the exact one"
    return (Note("note", text, {"error": (Fraction(1, 20), "share")}),) if total.p50_ms is not None else ()


def _records_of(data: MonthRows, origin: str) -> int:
    return total_of(data.rows.sums["records"][data.rows.are("origin", origin)])
