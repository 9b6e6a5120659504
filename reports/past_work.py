"""A month of the ledger as work to be priced again.

In: a ledger's reader, a month, the price list it will be priced at. Out: `Work`. Invariant: every attempt whose usage
is known is in exactly one portion, whose requests share role, class, context tier and one price set per model.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pricing import Catalog
from pricing.usage import BUCKETS
from reports.compare import Work
from reports.exchange import Exchange
from reports.figures import Figures, figures, sum_of_lines, sums_by_line
from reports.frames import LedgerReader, usage_frame
from reports.month_rows import month_rows
from reports.page import Fact, Note
from reports.period import DAY_US, QUARTER_HOUR_US, Period, at_us, no_rows
from reports.workload import Portion, Split, portion_of, split_portion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

_SPANS_US = {"day": DAY_US, "quarter_hour": QUARTER_HOUR_US}


def work_of_month(
    reader: LedgerReader,
    month: Period,
    *,
    split: Split | None,
    catalog: Catalog,
    price_list: str,
    exchange: Exchange,
) -> Work:
    """Return the month's attempts as portions, one per role, class, context tier and day.

    Args:
        reader: the ledger's.
        month: the month.
        split: how attempts without a role are split between orchestrator and worker; None: they are left as they are.
        catalog: says when prices change.
        price_list: the list that will be priced at, or "vendor".
        exchange: for the cost on record.

    Raises:
        RouterError: the month has no rows; those that have some are named.
        FxError: the cost on record cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    when = (
        "day"
        if changes_at_midnight(catalog, price_list, at_us(month.start_us), at_us(month.end_us))
        else "quarter_hour"
    )
    frame = usage_frame(reader, month.start_us, month.end_us, ("role", "task_class", "context_tier", when))
    if frame.empty:
        raise no_rows(month, reader.months_present(month.zone))
    portions = tuple(_portions(frame, when))
    if split is not None:
        parts = (split_portion(each, split) if each.role is None else (each,) for each in portions)
        portions = tuple(part for each in parts for part in each)
    recorded = figures(sum_of_lines(sums_by_line(month_rows(reader, month, "role", exchange))), {}, exchange.currency)
    unknown = sum(frame["usage_unknown"].tolist()) - recorded.refused
    return Work(
        title=f"the calls of {month.name}",
        portions=portions,
        parameters=_parameters(month, split),
        notes=_notes(portions, recorded, unknown, split),
        rows_counted=recorded.attempts,
        rows_unpriced=unknown,
        estimates=recorded.estimated,
        time_zone=month.zone.key,
    )


def changes_at_midnight(catalog: Catalog, price_list: str, start: datetime, end: datetime) -> bool:
    """Return whether prices only change from one UTC day to the next, so that a day has one price set per model.

    Args:
        catalog: the price catalogue.
        price_list: a list's name, or "vendor".
        start: aware instant.
        end: aware instant, after it.
    """
    for model in catalog.models(price_list):
        for row in catalog.history(model, price_list):
            if row.conditions.timed:
                return False
            edges = [edge for edge in (row.effective_from, row.effective_to) if edge is not None and start < edge < end]
            if any((edge - at_us(0)).total_seconds() % (DAY_US // 10**6) for edge in edges):
                return False
    return True


def _portions(frame: pd.DataFrame, when: str) -> Iterable[Portion]:
    for row in frame[frame["context_tier"].notna()].to_dict("records"):
        requests = row["attempts"] - row["usage_unknown"]
        counts = {bucket: row[bucket] for bucket in BUCKETS}
        at = at_us(row[when] * _SPANS_US[when])
        yield portion_of(counts, requests, role=row["role"], task_class=row["task_class"], at=at)


def _parameters(month: Period, split: Split | None) -> tuple[Fact, ...]:
    calls = "as recorded" if split is None else f"{split.orchestrator}:{split.worker} where no role is recorded"
    return Fact("month", "month", month.name), Fact("calls", "orchestrator : worker", calls)


def _notes(portions: Sequence[Portion], recorded: Figures, unknown: int, split: Split | None) -> tuple[Note, ...]:
    notes = [
        Note(
            "note",
            "on record: {list} {currency} at list, {settled} {currency} settled; attempts: {count}",
            {
                "count": (recorded.attempts, "count"),
                "list": (recorded.list_cost, "money"),
                "settled": (recorded.settled_cost, "money"),
                "currency": (recorded.list_cost.currency if recorded.list_cost else "", "text"),
            },
        )
    ]
    if unknown:
        text = "without known usage, and so in no configuration's cost; attempts: {count}"
        notes.append(Note("warning", text, {"count": (unknown, "count")}))
    roles = {portion.role for portion in portions}
    if "single" in roles:
        notes.append(Note("note", "calls that needed no plan (role single) are priced at a pair's orchestrator"))
    if None in roles:
        text = "no role on record, so priced at a pair's orchestrator (--calls A:B splits them); attempts: {count}"
        requests = sum(portion.requests or 0 for portion in portions if portion.role is None)
        notes.append(Note("note", text, {"count": (requests, "count")}))
    if split is not None:
        text = f"attempts without a role are split {split.orchestrator} : {split.worker}, their tokens alike"
        notes.append(Note("note", text))
    return tuple(notes)
