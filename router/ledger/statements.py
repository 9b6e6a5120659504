"""The statements that write: one per kind of row, made once, run over many rows at a time.

In: rows of `router.ledger.rows`. Out: changed tables. Invariant: within a transaction inserts come before updates, and
an update that meets no row to change is an error, so an attempt is never completed twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from router.errors import LedgerError
from router.ledger import tables
from router.ledger.budget_use import forget_all_use, use_budgets
from router.ledger.bulk_insert import refuse_pruned
from router.ledger.driver import Prepared, ensure_begun, insert_if_absent, prepare, run
from router.ledger.marks import mark_rows
from router.ledger.message_write import move_cursors, publish
from router.ledger.rows import Kind, Row
from router.ledger.state_write import change

# Rows whose key stands for their whole content, or that a resumed run writes again: the first one stays.
_KEPT = {
    Kind.PRICE_SET: tables.price_sets,
    Kind.PRICE_ROW: tables.price_rows,
    Kind.FX_RATE: tables.fx_rates,
    Kind.TERMS: tables.terms,
    Kind.TAG_SET: tables.tag_sets,
    Kind.ATTEMPT_TERMS: tables.attempt_terms,
    Kind.IMPORT: tables.imports,
    Kind.STEP: tables.plan_steps,
    Kind.IMPORTED_ATTEMPT: tables.attempts,
    Kind.USAGE_BUCKET: tables.usage_buckets,
    Kind.ANSWER: tables.answers,
    Kind.RUN_REQUEST: tables.run_requests,
    Kind.OUTCOME: tables.outcomes,
}
_OF_OTHERS = frozenset({Kind.IMPORTED_ATTEMPT, Kind.USAGE_BUCKET})
"""What changes what a budget's count begins with."""
_KEY_OF = {kind: itemgetter(*(column.name for column in table.primary_key)) for kind, table in _KEPT.items()}
TRANSACTED = {Kind.MESSAGE: publish, Kind.CURSOR: move_cursors, Kind.STATE: change}
"""What takes more than one statement a row."""
_INSERTED = {Kind.RUN: tables.runs, Kind.ATTEMPT: tables.attempts, Kind.TOOL_CALL: tables.tool_calls}
_UPDATED = {
    Kind.ATTEMPT_END: "attempt {key_attempt_id}: has not been started, or is completed already",
    Kind.TOOL_CALL_END: "tool call {key_tool_call_id}: has not been started, or is completed already",
    Kind.STEP_END: "step {key_step_id!r} of run {key_run_id}: is not in the ledger",
    Kind.RUN_END: "run {key_run_id}: is not in the ledger, has ended already, or is another process's now",
}


def execute_rows(connection: sa.Connection, rows: Iterable[Row]) -> int:
    """Write rows within the connection's transaction, and mark their quarter hours; return how many were changed.

    Args:
        connection: in a transaction.
        rows: in the order they were told; rows of one kind are written in it, those that may be there already in the
            order of their keys: two transactions that wait for each other's rows would end in a deadlock.

    Raises:
        BudgetExceeded: a monthly budget that stops would be crossed; roll back, too.
        LedgerError: an update met no row, or an imported row is of days that were pruned; the transaction is to be
            rolled back.
    """
    ensure_begun(connection)
    by_kind: dict[Kind, list[dict[str, Any]]] = defaultdict(list)
    for kind, row in rows:
        by_kind[kind].append(row)
    use_budgets(connection, by_kind.pop(Kind.BUDGET_USE, ()))
    changed = sum(_execute_kind(connection, kind, by_kind[kind]) for kind in sorted(by_kind))
    if by_kind.keys() & _OF_OTHERS:
        forget_all_use(connection)
    if imported := by_kind.get(Kind.IMPORTED_ATTEMPT):
        refuse_pruned(connection, min(row["quarter_hour"] for row in imported))
    mark_rows(connection, by_kind)
    return changed


def is_plain(rows: Iterable[Row]) -> bool:
    """Return whether rows are written by the driver's cursor alone, without a statement of SQLAlchemy's."""
    return all(kind is not Kind.IMPORTED_ATTEMPT and kind is not Kind.BUDGET_USE for kind, _ in rows)


def _execute_kind(connection: sa.Connection, kind: Kind, rows: list[dict[str, Any]]) -> int:
    if kind in TRANSACTED:
        return TRANSACTED[kind](connection, rows)
    prepared = _prepared(kind, connection.dialect, rows[0])
    if kind in _KEPT and len(rows) > 1:
        rows = sorted(rows, key=_KEY_OF[kind])
    if kind not in _UPDATED or connection.dialect.supports_sane_multi_rowcount:
        changed = run(connection, prepared, rows)
    else:
        changed = sum(run(connection, prepared, [row]) for row in rows)
    if kind in _UPDATED and changed != len(rows):
        raise LedgerError(_UPDATED[kind].format_map(rows[0]) if len(rows) == 1 else f"{kind.name}: a row is missing")
    return changed


_known: dict[tuple[Kind, str], Prepared] = {}


def _prepared(kind: Kind, dialect: sa.Dialect, row: Mapping[str, Any]) -> Prepared:
    """Return the statement of a kind, made once for each database: all rows of a kind have the same columns."""
    found = _known.get((kind, dialect.name))
    if found is None or found.columns != row.keys():
        found = _known[kind, dialect.name] = prepare(_statement(kind, dialect.name), dialect, tuple(row))
    return found


def _statement(kind: Kind, dialect_name: str) -> sa.Insert | sa.Update:
    if kind in _KEPT:
        return insert_if_absent(dialect_name, _KEPT[kind])
    return sa.insert(_INSERTED[kind]) if kind in _INSERTED else _UPDATES[kind]


def _text(value: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{value}'")


def _attempt_end() -> sa.Update:
    table = tables.attempts
    where = (table.c.attempt_id == sa.bindparam("key_attempt_id"), table.c.status == _text("started"))
    return sa.update(table).where(*where)


def _tool_call_end() -> sa.Update:
    table = tables.tool_calls
    where = (table.c.tool_call_id == sa.bindparam("key_tool_call_id"), table.c.status == _text("started"))
    return sa.update(table).where(*where)


def _step_end() -> sa.Update:
    table = tables.plan_steps
    where = (table.c.run_id == sa.bindparam("key_run_id"), table.c.step_id == sa.bindparam("key_step_id"))
    return sa.update(table).where(*where)


def _run_end() -> sa.Update:
    table = tables.runs
    owner = sa.bindparam("key_owner", type_=sa.Text)
    mine = sa.or_(owner.is_(None), table.c.owner == owner)
    return sa.update(table).where(
        table.c.run_id == sa.bindparam("key_run_id"), table.c.status == _text("running"), mine
    )


_UPDATES: Mapping[Kind, sa.Update] = {
    Kind.ATTEMPT_END: _attempt_end(),
    Kind.TOOL_CALL_END: _tool_call_end(),
    Kind.STEP_END: _step_end(),
    Kind.RUN_END: _run_end(),
}
