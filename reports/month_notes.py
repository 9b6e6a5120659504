"""What a reader of a month's report must know to read its tables right.

In: the month's frame and total. Out: notes, warnings first. Invariant: nothing that changes how a figure is to be read
goes unsaid.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from reports.exchange import Exchange
from reports.figures import Figures
from reports.frames import LedgerReader
from reports.page import Cell, Kind, Note
from reports.period import Period, to_us

if TYPE_CHECKING:
    import pandas as pd


def month_notes(
    rows: pd.DataFrame, total: Figures, reader: LedgerReader, month: Period, now: datetime, exchange: Exchange
) -> tuple[Note, ...]:
    """Return the notes of a month's report.

    Args:
        rows: the month's frame.
        total: the figures of all of it.
        reader: the ledger's, for the price sets that were used.
        month: the month.
        now: aware instant; a month that it lies in is still running.
        exchange: knows the rates that were used.
    """
    warnings = (*_swapped(rows), *_retired(rows, reader), *_unpriced(total), *_unsettled(total), *exchange.notes())
    return (*warnings, *_running(month, now), *_imported(rows), *_refused(total), *_reported(total), *_latency(total))


def _swapped(rows: pd.DataFrame) -> tuple[Note, ...]:
    """Return a warning per pair of asked and served model that differ."""
    counts: dict[tuple[str, str], int] = {}
    columns = (rows[name].tolist() for name in ("model_asked", "model_served", "attempts"))
    for asked, served, attempts in zip(*columns, strict=True):
        if served is not None and served != asked:
            counts[asked, served] = counts.get((asked, served), 0) + attempts
    text = "{asked} was asked for and {served} answered, priced as what answered; attempts: {count}"
    return tuple(
        Note("warning", text, {"asked": (asked, "text"), "served": (served, "text"), "count": (count, "count")})
        for (asked, served), count in sorted(counts.items())
    )


def _retired(rows: pd.DataFrame, reader: LedgerReader) -> tuple[Note, ...]:
    """Return a warning per model that was priced at its last list after it had left it."""
    used: dict[str, int] = {}
    for price_set_id, attempts in zip(rows["price_set_id"].tolist(), rows["attempts"].tolist(), strict=True):
        if price_set_id is not None:
            used[price_set_id] = used.get(price_set_id, 0) + attempts
    sets = reader.price_sets(sorted(used))
    found = [
        (prices.model, prices.retired_at, used[key]) for key, prices in sets.items() if prices.retired_at is not None
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


def _running(month: Period, now: datetime) -> tuple[Note, ...]:
    if not month.start_us <= to_us(now) < month.end_us:
        return ()
    stamp = f"{now.astimezone(month.zone):%Y-%m-%d %H:%M}"
    return (Note("note", "the month is still running: figures up to {now}", {"now": (stamp, "text")}),)


def _imported(rows: pd.DataFrame) -> tuple[Note, ...]:
    count = sum(rows[rows["origin"] == "imported"]["attempts"].tolist())
    text = "imported from a record of another system; attempts: {count}"
    return (Note("note", text, {"count": (count, "count")}),) if count else ()


def _refused(total: Figures) -> tuple[Note, ...]:
    text = "failed before they were served, with no usage and nothing to pay; attempts: {count}"
    return (Note("note", text, {"count": (total.refused, "count")}),) if total.refused else ()


def _reported(total: Figures) -> tuple[Note, ...]:
    text = "the upstream stated a cost of its own, shown beside the computed one; attempts: {count}"
    return (Note("note", text, {"count": (total.reported, "count")}),) if total.reported else ()


def _latency(total: Figures) -> tuple[Note, ...]:
    text = "p50 and p95 are read from a histogram: each is within {error} of the exact one"
    return (Note("note", text, {"error": (Fraction(1, 20), "share")}),) if total.p50_ms is not None else ()
