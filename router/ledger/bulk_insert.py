"""Many imported attempts at once, a column at a time: statements of many rows, or COPY.

In: columns of `attempts`, as `router.ledger.rows` derives them. Out: new rows and the marks of their quarter hours.
Invariant: a row whose id is there already stays as it is; a batch is written whole or not at all; what a row refers to
(import, price set, labels) must have been written before, and every rule of the table is checked as for a single row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from router.errors import LedgerError
from router.ledger.budget_use import forget_all_use
from router.ledger.digests import digest
from router.ledger.marks import mark, starts_of_runs
from router.ledger.rollup_tables import prunes
from router.ledger.sums import END_COLUMNS, START_COLUMNS
from router.ledger.tables import attempts

_DAY = 96  # quarter hours
_ROWS_AT_ONCE = 10_000
# SQLite lets other threads of ours run while it works on a statement, so a statement is given many rows. More than
# 32,766 values are not allowed everywhere (sqlite.org/limits.html, SQLITE_MAX_VARIABLE_NUMBER).
# Few sizes: the driver keeps the statements it has prepared.
_ROWS_OF_A_STATEMENT = (1_000, 100, 10, 1)


@dataclass(frozen=True, slots=True)
class Same:
    """A column that has one value in every row."""

    value: Any


Column = Sequence[Any] | Same
Columns = Mapping[str, Column]


def insert_attempts(connection: sa.Connection, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Add attempts that are not there yet, given as rows; return how many were added. See `insert_columns`.

    Args:
        connection: in a transaction that may write.
        columns: names of columns of `attempts`, `attempt_id` and `quarter_hour` among them, the digests not.
        rows: each a value per column, in their order.

    Raises:
        LedgerError: as for `insert_columns`.
        sqlalchemy.exc.SQLAlchemyError, sqlite3.Error: as for `insert_columns`.
    """
    remaining = iter(rows)
    added = 0
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        added += insert_columns(connection, dict(zip(columns, zip(*some, strict=True), strict=True)))
    return added


def insert_columns(connection: sa.Connection, columns: Columns) -> int:
    """Add attempts that are not there yet; return how many were added.

    Args:
        connection: in a transaction that may write.
        columns: columns of `attempts` by name, all of one length, at least 1; `attempt_id` and `quarter_hour` among
            them, the digests not. Others are NULL; what was settled under terms of an endpoint's own cannot be written
            so. Ids are UUID texts of 36 characters, flags bool, texts without NUL or lone surrogates
            (`router.ledger.rows.storable_text`).

    Raises:
        LedgerError: a row lies in days whose rows were pruned, where it might have been counted already.
        sqlalchemy.exc.SQLAlchemyError, sqlite3.Error: a row breaks a rule of the table, or the database fails; roll
            back. `router.ledger.database.database_errors` makes one line of it.
    """
    for name in columns:
        if name not in attempts.c:  # they stand in the statement's text below
            raise LedgerError(f"column {name!r}: attempts have none of that name")
    told: dict[str, Column] = {name: _collapsed(column) for name, column in columns.items()}
    told["start_digest"] = _digests(told, START_COLUMNS)
    told["end_digest"] = _digests(told, END_COLUMNS)
    write = _copy if connection.dialect.name == "postgresql" else _execute
    added = write(connection, told)
    quarter_hours = _distinct(told["quarter_hour"])
    refuse_pruned(connection, min(quarter_hours))
    if added:
        runs = sorted(_distinct(told.get("run_id", Same(None))) - {None})
        mark(connection, quarter_hours | starts_of_runs(connection, runs))
        forget_all_use(connection)
    return added


def _collapsed(column: Column) -> Column:
    """Return a column as `Same` where all its values are."""
    if isinstance(column, Same) or column[0] != column[-1] or column.count(column[0]) < len(column):
        return column
    return Same(column[0])


def _distinct(column: Column) -> set[Any]:
    return {column.value} if isinstance(column, Same) else set(column)


def _digests(columns: Columns, names: Sequence[str]) -> Column:
    """Return the digest of some columns for each row; few rows differ in them, and each kind's is made once."""
    told = [columns.get(name, Same(None)) for name in names]
    varying = [column for column in told if not isinstance(column, Same)]
    if not varying:
        return Same(digest(tuple(column.value for column in told if isinstance(column, Same))))
    keys = list(zip(*varying, strict=True))
    found: dict[Any, int] = {}
    for key in set(keys):
        values = iter(key)
        found[key] = digest(tuple(column.value if isinstance(column, Same) else next(values) for column in told))
    return list(map(found.__getitem__, keys))


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


class _Plan:
    """Which value of a row goes where: a value that several columns have in common is handed over once.

    Args:
        columns: of one length.
    """

    def __init__(self, columns: Columns) -> None:
        self.names = list(columns)
        self.same = [column.value for column in columns.values() if isinstance(column, Same)]
        varying = {id(column): column for column in columns.values() if not isinstance(column, Same)}
        self._places = {identity: place for place, identity in enumerate(varying)}
        self._varying: list[Sequence[Any]] = list(varying.values())
        self._columns = columns
        self.width = len(self._varying)

    def statement(self, rows: int) -> str:
        """Return SQLite's insert of so many rows: `same` are its first values, then come the rows' own."""
        same = iter(range(1, len(self.same) + 1))
        values = [
            f"?{next(same)}" if isinstance(column, Same) else f"column{self._places[id(column)] + 1}"
            for column in self._columns.values()
        ]
        named = zip(self.names, values, strict=True)
        values = [f"replace({value}, '-', '')" if _is_id(name) else value for name, value in named]  # as 32 digits
        row = f"({', '.join('?' * self.width)})"
        source = f"SELECT {', '.join(values)} FROM (VALUES {', '.join(repeat(row, rows))}) WHERE true"  # noqa: S608
        return f"INSERT INTO attempts ({', '.join(self.names)}) {source} ON CONFLICT (attempt_id) DO NOTHING"

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows' own values, in the order of their ids: an index is filled in its own order."""
        place = self._places[id(self._columns["attempt_id"])]
        return sorted(zip(*self._varying, strict=True), key=itemgetter(place))


def _execute(connection: sa.Connection, columns: Columns) -> int:
    if isinstance(columns["attempt_id"], Same):  # one row
        columns = {**columns, "attempt_id": (columns["attempt_id"].value,)}
    plan = _Plan(columns)
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    most = driver.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) - len(plan.same)
    rows = plan.rows()
    first = added = 0
    cursor = driver.cursor()
    try:
        for size in _ROWS_OF_A_STATEMENT:
            at_once = min(size, most // plan.width)
            statement = plan.statement(at_once) if len(rows) - first >= at_once else ""
            while len(rows) - first >= at_once:
                some = chain.from_iterable(rows[first : first + at_once])
                cursor.execute(statement, [*plan.same, *some])
                added += cursor.rowcount
                first += at_once
        return added
    finally:
        cursor.close()


def _is_id(name: str) -> bool:
    return isinstance(attempts.c[name].type, sa.Uuid)


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    """Yield whole rows in the order of their ids: transactions that wait for each other's would end in a deadlock."""
    filled = [repeat(column.value) if isinstance(column, Same) else column for column in columns.values()]
    if isinstance(columns["attempt_id"], Same):
        return iter([tuple(next(iter(column)) for column in filled)])
    return iter(sorted(zip(*filled, strict=False), key=itemgetter(list(columns).index("attempt_id"))))


def _copy(connection: sa.Connection, columns: Columns) -> int:
    names = ", ".join(columns)
    empty = f"SELECT {names} FROM attempts WITH NO DATA"  # noqa: S608 - names of our own columns
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE IF NOT EXISTS new_attempts ON COMMIT DROP AS {empty}")
    cursor: Any = connection.connection.cursor()
    with cursor.copy(f"COPY new_attempts ({names}) FROM STDIN") as copy:
        for row in _rows(columns):
            copy.write_row(row)
    cursor.close()
    new = f"SELECT {names} FROM new_attempts ON CONFLICT (attempt_id) DO NOTHING"  # noqa: S608 - as above
    added = connection.exec_driver_sql(f"INSERT INTO attempts ({names}) {new}").rowcount
    connection.exec_driver_sql("TRUNCATE new_attempts")
    return added
