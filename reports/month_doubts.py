"""What a period's cost does not know whole: rows without a price, with estimates, possibly billed, or of another model.

In: rows. Out: tables. Invariant: every row whose cost is not exact is in exactly one line of `doubts`, but for those
that were refused before they were served, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pricing.usage import INPUT_BUCKETS, OUTPUT_BUCKETS
from reports.figures import Sums, figures
from reports.month_rows import MonthRows
from reports.page import Cell, Column, Note, Table

SHOWN_LINES = 10
UNPRICED, ESTIMATED, POSSIBLY_BILLED = "unpriced", "estimated", "possibly billed"
_COLUMNS_READ = (
    "status",
    "cost_status",
    "possibly_billed",
    "usage_estimated",
    "origin",
    "price_list",
    "model_asked",
    "model_served",
)
_NO_USAGE = "no usage on record"


class _Doubt(NamedTuple):
    """Why rows are in doubt, and which."""

    kind: str
    reason: str
    model: str
    price_list: str


class Doubts(NamedTuple):
    """What a page says of them."""

    tables: tuple[Table, ...]
    notes: tuple[Note, ...]


def doubts_of(data: MonthRows) -> Doubts:
    """Return the table `doubts`, most rows first; none where every cost is exact.

    Args:
        data: the period's rows, which know model and price list.
    """
    currency = data.exchange.currency
    labels = data.rows.labels(_COLUMNS_READ, _doubt)
    lines = [
        line
        for doubt, sums in data.sums_by(labels).items()
        if doubt is not None
        for line in _lines(doubt, sums, currency)
    ]
    lines.sort(key=lambda line: (-int(str(line[4])), *(str(cell) for cell in line[:4])))
    if not lines:
        return Doubts((), ())
    columns = (
        Column("kind", "Kind", "text"),
        Column("reason", "Why", "text"),
        Column("model", "Model", "text"),
        Column("price_list", "Price list", "text"),
        Column("rows", "Rows", "count"),
        Column("tokens", "Tokens", "tokens"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("possibly_billed", f"Reserved, {currency}", "money", optional=True),
    )
    table = Table("doubts", "Costs that are not exact, and why", columns, tuple(lines[:SHOWN_LINES]))
    return Doubts((table,), _further(len(lines) - SHOWN_LINES, "costs that are not exact"))


def swapped_table(data: MonthRows) -> tuple[Table, ...]:
    """Return the table `served_otherwise`: pairs of asked and served model that differ, the dearest first; none alike.

    Args:
        data: the period's rows, which know both models.
    """
    currency = data.exchange.currency
    labels = data.rows.labels(("model_asked", "model_served"), _swap)
    found = [
        (asked, served, int(sums["attempts"]), figures(sums, {}, currency).settled_cost)
        for pair, sums in data.sums_by(labels).items()
        if pair is not None
        for asked, served in (pair,)
    ]
    if not found:
        return ()
    found.sort(key=lambda row: (-(row[3].value if row[3] else 0), -row[2], row[0], row[1]))
    columns = (
        Column("model_asked", "Asked for", "text"),
        Column("model_served", "Answered", "text"),
        Column("attempts", "Attempts", "count"),
        Column("settled_cost", f"Settled, {currency}", "money"),
    )
    return (Table("served_otherwise", "Another model answered than was asked for", columns, tuple(found)),)


def _swap(asked: str, served: str | None) -> tuple[str, str] | None:
    return None if served is None or served == asked else (asked, served)


def _doubt(
    status: str | None,
    cost_status: str | None,
    possibly_billed: Any,
    usage_estimated: Any,
    origin: str,
    price_list: str,
    asked: str,
    served: str | None,
) -> _Doubt | None:
    model = served or asked
    if status == "started":
        return _Doubt(POSSIBLY_BILLED, "never ended", model, price_list)
    if possibly_billed:
        return _Doubt(POSSIBLY_BILLED, "ended without usage after it was sent", model, price_list)
    if cost_status == "partial":
        return _Doubt(UNPRICED, "a part has no price", model, price_list)
    if cost_status == "unknown":
        return _Doubt(UNPRICED, _NO_USAGE if status in ("failed", "timed_out") else "no price", model, price_list)
    if cost_status == "estimated":
        added_up = origin == "aggregated" and not usage_estimated
        return _Doubt(ESTIMATED, "priced at its mean size" if added_up else "tokens are estimated", model, price_list)
    return None


def _lines(doubt: _Doubt, sums: Sums, currency: str) -> Iterator[tuple[Cell, ...]]:
    """Yield the line of a doubt; two where some rows have no price and others no usage."""
    rows, silent = int(sums["records"] - sums["refused"]), int(sums["usage_unknown"] - sums["refused"])
    found = figures(sums, {}, currency)
    tokens = int(sum(sums[bucket] for bucket in (*INPUT_BUCKETS, *OUTPUT_BUCKETS)))
    if doubt.kind == UNPRICED and silent:
        yield (*doubt._replace(reason=_NO_USAGE), silent, None, None, found.possibly_billed)
        rows -= silent
        doubt = doubt._replace(reason="no price" if doubt.reason == _NO_USAGE else doubt.reason)
    if rows:
        known = tokens if sums["records"] > sums["usage_unknown"] else None
        yield (
            *doubt,
            rows,
            known,
            found.settled_cost,
            found.possibly_billed if doubt.kind == POSSIBLY_BILLED else None,
        )


def _further(count: int, what: str) -> tuple[Note, ...]:
    if count <= 0:
        return ()
    return (Note("note", f"{{count}} further groups of {what} are not shown", {"count": (count, "count")}),)
