"""Many imported attempts at once: one prepared statement, or COPY, in place of a statement object per batch.

In: names of columns and rows of their values, as `router.ledger.rows` derives them. Out: new rows of `attempts` and the
marks of their quarter hours. Invariant: a row whose id is there already stays as it is; a batch is written whole or not
at all; what a row refers to (import, price set, labels) must have been written before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from router.errors import LedgerError
from router.ledger.digests import digest
from router.ledger.marks import mark, starts_of_runs
from router.ledger.rollup_tables import prunes
from router.ledger.sums import END_COLUMNS, START_COLUMNS
from router.ledger.tables import attempts

_DAY = 96  # quarter hours


def insert_attempts(connection: sa.Connection, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Add attempts that are not there yet; return how many were added.

    Args:
        connection: in a transaction that may write.
        columns: names of columns of `attempts`, `attempt_id` and `quarter_hour` among them, the digests not. Others are
            NULL; what was settled under terms of an endpoint's own cannot be written so.
        rows: each a value per column, in their order: ids as UUID texts of 36 characters, flags as bool, texts without
            NUL or lone surrogates (`router.ledger.rows.storable_text`).

    Raises:
        LedgerError: a row lies in days whose rows were pruned, where it might have been counted already.
        sqlalchemy.exc.SQLAlchemyError, sqlite3.Error: a row breaks a rule of the table, or the database fails; roll
            back. `router.ledger.database.database_errors` makes one line of it.
    """
    for name in columns:
        if name not in attempts.c:  # they stand in the statement's text below
            raise LedgerError(f"column {name!r}: attempts have none of that name")
    seen: set[tuple[int, str | None]] = set()
    write = _copy if connection.dialect.name == "postgresql" else _execute_many
    added = write(connection, (*columns, "start_digest", "end_digest"), _digested(rows, columns, seen))
    quarter_hours = {quarter_hour for quarter_hour, _ in seen}
    if quarter_hours:
        refuse_pruned(connection, min(quarter_hours))
    if added:
        runs = sorted({run_id for _, run_id in seen if run_id is not None})
        mark(connection, quarter_hours | starts_of_runs(connection, runs))
    return added


def refuse_pruned(connection: sa.Connection, quarter_hour: int) -> None:
    """Refuse imported rows of days whose raw rows were deleted: nobody could tell any more which were there.

    Args:
        connection: in the transaction of the rows.
        quarter_hour: the earliest one of the rows.

    Raises:
        LedgerError: it lies before the day that was pruned up to.
    """
    pruned_day = connection.execute(sa.select(sa.func.max(prunes.c.before_day))).scalar()
    if pruned_day is not None and quarter_hour < pruned_day * _DAY:
        day, first = (_date(each) for each in (quarter_hour // _DAY, pruned_day))
        message = f"import: a row is of {day}, and rows before {first} were pruned; only their sums are kept"
        raise LedgerError(message, hint=f"take out rows before {first} (UTC): they may be counted already")


def _date(day: int) -> str:
    from datetime import date

    return date.fromordinal(date(1970, 1, 1).toordinal() + day).isoformat()


def _digested(
    rows: Iterable[Sequence[Any]], columns: Sequence[str], seen: set[tuple[int, str | None]]
) -> Iterator[Sequence[Any]]:
    """Yield the rows with their digests, and note quarter hours and runs."""
    starts, ends = _picked(columns, START_COLUMNS), _picked(columns, END_COLUMNS)
    noted = _picked(columns, ("quarter_hour", "run_id"))
    note = seen.add
    for row in rows:
        whole = (*row, None)
        note(noted(whole))
        yield (*row, digest(starts(whole)), digest(ends(whole)))


def _picked(columns: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Return what takes some columns out of a row with a None at its end, which stands for columns it has not."""
    return itemgetter(*(columns.index(name) if name in columns else len(columns) for name in names))


def _execute_many(connection: sa.Connection, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> int:
    # The driver's own executemany takes rows as they come; ids are stored as 32 digits.
    values = ", ".join("replace(?, '-', '')" if _is_id(name) else "?" for name in columns)
    into = f"INSERT INTO attempts ({', '.join(columns)})"
    statement = f"{into} VALUES ({values}) ON CONFLICT (attempt_id) DO NOTHING"
    cursor = connection.connection.cursor()
    try:
        cursor.executemany(statement, rows)  # type: ignore[arg-type]
        return max(cursor.rowcount, 0)
    finally:
        cursor.close()


def _is_id(name: str) -> bool:
    return isinstance(attempts.c[name].type, sa.Uuid)


def _copy(connection: sa.Connection, columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> int:
    names = ", ".join(columns)
    empty = f"SELECT {names} FROM attempts WITH NO DATA"  # noqa: S608 - names of our own columns
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE IF NOT EXISTS new_attempts ON COMMIT DROP AS {empty}")
    cursor: Any = connection.connection.cursor()
    with cursor.copy(f"COPY new_attempts ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    cursor.close()
    new = f"SELECT {names} FROM new_attempts ON CONFLICT (attempt_id) DO NOTHING"  # noqa: S608 - as above
    added = connection.exec_driver_sql(f"INSERT INTO attempts ({names}) {new}").rowcount
    connection.exec_driver_sql("TRUNCATE new_attempts")
    return added
