"""Marks: which quarter hours have rows that the rollups do not know yet.

In: a transaction that writes, and what it writes. Out: rows of `rollup_marks` in that same transaction. Invariant: a
row is never committed without the mark of its quarter hour, and a mark is never taken away but by the refresh that has
read it. On PostgreSQL a mark is added whatever is there: a mark that is there may be deleted by a refresh that cannot
see this transaction's rows yet. On SQLite nobody else writes meanwhile, so one mark a quarter hour is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from router.ledger.rows import QUARTER_HOUR_US, Kind

_MARK = {
    "sqlite": "INSERT INTO rollup_marks (quarter_hour) SELECT ? "
    "WHERE NOT EXISTS (SELECT 1 FROM rollup_marks WHERE quarter_hour = ?)",
    "postgresql": "INSERT INTO rollup_marks (quarter_hour) VALUES (%s)",
}


def mark(connection: sa.Connection, quarter_hours: Iterable[int]) -> None:
    """Mark quarter hours, whose rows this transaction changes.

    Args:
        connection: in the transaction.
        quarter_hours: quarter hours since 1970 UTC.
    """
    dialect = connection.dialect.name
    twice = 2 if dialect == "sqlite" else 1
    # The driver's own cursor: every transaction of a run comes by here, and a statement object costs more than the row.
    cursor = connection.connection.cursor()
    for each in sorted(set(quarter_hours)):
        cursor.execute(_MARK[dialect], (each,) * twice)
    cursor.close()


def mark_rows(connection: sa.Connection, by_kind: dict[Kind, list[dict[str, Any]]]) -> None:
    """Mark the quarter hours of rows that have just been written.

    Args:
        connection: in their transaction.
        by_kind: the rows.
    """
    found = {row["quarter_hour"] for kind in _TIMED for row in by_kind.get(kind, ())}
    found.update(note_run(connection, row["run_id"], row["started_us"]) for row in by_kind.get(Kind.RUN, ()))
    for row in by_kind.get(Kind.ATTEMPT, ()):
        _note_attempt(connection, row)
    if ended := [row["key_attempt_id"] for row in by_kind.get(Kind.ATTEMPT_END, ())]:
        found |= _noted(connection, ended, _starts_of_attempts)
    if over := [row["key_run_id"] for row in by_kind.get(Kind.RUN_END, ())]:
        found |= _noted(connection, over, starts_of_runs)
    mark(connection, found)


_TIMED = (Kind.ATTEMPT, Kind.IMPORTED_ATTEMPT, Kind.USAGE_BUCKET)


# What a connection has started it mostly ends, too: when that began is kept with it, and need not be looked up. A start
# never changes, and one that was rolled back is never ended.
_NOTES = "router_starts"
_MOST_NOTES = 20_000


def _notes(connection: sa.Connection) -> dict[str, tuple[int, ...]]:
    notes: dict[str, tuple[int, ...]] = connection.info.setdefault(_NOTES, {})
    if len(notes) > _MOST_NOTES:
        notes.clear()
    return notes


def note_run(connection: sa.Connection, run_id: str, started_us: int) -> int:
    """Return the quarter hour of a run's start, and keep it in mind for its end."""
    quarter_hour = started_us // QUARTER_HOUR_US
    _notes(connection)[run_id] = (quarter_hour,)
    return quarter_hour


def _note_attempt(connection: sa.Connection, row: dict[str, Any]) -> None:
    notes, run_id = _notes(connection), row["run_id"]
    if run_id is not None and run_id not in notes:
        notes[run_id] = tuple(starts_of_runs(connection, [run_id]))
    notes[row["attempt_id"]] = (row["quarter_hour"], *(notes[run_id] if run_id is not None else ()))


def _noted(
    connection: sa.Connection, ids: Sequence[str], look_up: Callable[[sa.Connection, Iterable[str]], set[int]]
) -> set[int]:
    """Return the quarter hours of what has ended, looking up those that were not kept in mind."""
    notes = _notes(connection)
    found = [notes.pop(each, None) for each in ids]
    unknown = [each for each, kept in zip(ids, found, strict=True) if kept is None]
    quarter_hours = {quarter_hour for kept in found if kept is not None for quarter_hour in kept}
    return quarter_hours | look_up(connection, unknown) if unknown else quarter_hours


def starts_of_runs(connection: sa.Connection, ids: Iterable[str]) -> set[int]:
    """Return the quarter hours in which some runs started.

    Args:
        connection: in the transaction.
        ids: of the runs.
    """
    return {start_us // QUARTER_HOUR_US for (start_us,) in _looked_up(connection, _RUN, ids)}


def _starts_of_attempts(connection: sa.Connection, ids: Iterable[str]) -> set[int]:
    """Return the quarter hours of attempts, which their end does not say, and those of their runs, which cost more."""
    found: set[int] = set()
    for quarter_hour, run_start_us in _looked_up(connection, _ATTEMPT, ids):
        found.add(quarter_hour)
        if run_start_us is not None:
            found.add(run_start_us // QUARTER_HOUR_US)
    return found


def _looked_up(connection: sa.Connection, query: str, ids: Iterable[str]) -> list[Sequence[Any]]:
    """Return the rows of some ids; those that are not there have none."""
    dialect = connection.dialect.name
    cursor: Any = connection.connection.cursor()
    text = query.format(_ID[dialect])
    found: list[Sequence[Any]] = []
    for each in ids:
        cursor.execute(text, (each,))
        found += cursor.fetchall()
    cursor.close()
    return found


_ID = {"sqlite": "replace(?, '-', '')", "postgresql": "%s::uuid"}
_RUN = "SELECT started_us FROM runs WHERE run_id = {}"
_ATTEMPT = (
    "SELECT attempts.quarter_hour, runs.started_us FROM attempts LEFT JOIN runs ON runs.run_id = attempts.run_id "
    "WHERE attempts.attempt_id = {}"
)
