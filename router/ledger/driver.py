"""Statements as the driver takes them: SQL text, and the values of a row in its order.

In: an insert or update of SQLAlchemy's, and rows. Out: the same statement run by the driver's own cursor. Invariant:
what is written is what SQLAlchemy would write: the text is its own, and so is what it makes of each value. An
execution by SQLAlchemy costs ten times what SQLite takes for the row itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Row = Mapping[str, Any]
Process = Callable[[Any], Any]
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement for one database.

    Args:
        text: its SQL, as the driver takes it.
        columns: names of a row's values, those of its key included; a row has exactly these.
        pick: takes the values out of a row, in the order of the text; None: the driver takes them by name.
        by_place: what is made of the value at a place before it is bound.
        by_name: the same by name.
    """

    text: str
    columns: frozenset[str]
    pick: Callable[[Row], tuple[Any, ...]] | None
    by_place: tuple[tuple[int, Process], ...]
    by_name: tuple[tuple[str, Process], ...]

    def values(self, row: Row) -> Sequence[Any] | Row:
        """Return the values of a row as the driver takes them."""
        if self.pick is None:
            return {**row, **{name: process(row[name]) for name, process in self.by_name}}
        values = list(self.pick(row))
        for place, process in self.by_place:
            values[place] = process(values[place])
        return values


def insert_into(dialect_name: str, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that can say what becomes of a row whose key is there already.

    Args:
        dialect_name: "sqlite" or "postgresql"; both spell it alike.
        table: the table.
    """
    return postgresql.insert(table) if dialect_name == "postgresql" else sqlite.insert(table)


def insert_if_absent(dialect_name: str, table: sa.Table, *key: str) -> sa.Insert:
    """Return an insert that leaves a row whose key is there already as it is.

    Its `rowcount` is kept: without that, PostgreSQL's is -1 once the rows are in.

    Args:
        dialect_name: "sqlite" or "postgresql".
        table: the table.
        key: columns of the key that is meant; a conflict with another one is an error. None: the primary key.
    """
    columns = list(key) or [column.name for column in table.primary_key]
    insert = insert_into(dialect_name, table).on_conflict_do_nothing(index_elements=columns)
    return insert.execution_options(preserve_rowcount=True)


def once_for_each(make: Callable[[sa.Dialect], _Made]) -> Callable[[sa.Connection], _Made]:
    """Return what gives a connection its statements, made once for each kind of database.

    Args:
        make: makes them in the words of a database.
    """
    known: dict[str, _Made] = {}

    def of(connection: sa.Connection) -> _Made:
        dialect = connection.dialect
        found = known.get(dialect.name)
        if found is None:
            found = known[dialect.name] = make(dialect)
        return found

    return of


def prepare(statement: sa.Insert | sa.Update, dialect: sa.Dialect, columns: Sequence[str]) -> Prepared:
    """Return a statement in the words of a database.

    Args:
        statement: an insert, or an update whose own parameters are named in `columns` too.
        dialect: the database's.
        columns: names of a row's values.
    """
    own = {name for name in columns if name not in statement.table.c}  # parameters of the WHERE clause
    compiled = statement.compile(dialect=dialect, column_keys=[name for name in columns if name not in own])
    return _prepared(compiled, dialect, columns)


def prepare_named(statement: sa.Select[Any] | sa.Update | sa.Delete, dialect: sa.Dialect) -> Prepared:
    """Return a statement whose values are all named parameters of its own, in the words of a database."""
    compiled: Any = statement.compile(dialect=dialect)
    return _prepared(compiled, dialect, [bind.key for bind in compiled.binds.values()])


def _prepared(compiled: Any, dialect: sa.Dialect, columns: Sequence[str]) -> Prepared:
    types = {bind.key: bind.type for bind in compiled.binds.values()}
    stray = set(types) - set(columns)
    if stray:
        raise ValueError(f"statement: {sorted(stray)} have no value in its rows")
    processes = {name: process for name, type_ in types.items() if (process := _process(type_, dialect)) is not None}
    order = compiled.positiontup
    if order is None:
        return Prepared(str(compiled), frozenset(columns), None, (), tuple(processes.items()))
    pick = itemgetter(*order) if len(order) > 1 else lambda row: (row[order[0]],)
    by_place = tuple((place, processes[name]) for place, name in enumerate(order) if name in processes)
    return Prepared(str(compiled), frozenset(columns), pick, by_place, ())


def _process(type_: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> Process | None:
    return type_.dialect_impl(dialect).bind_processor(dialect)


def ensure_begun(connection: sa.Connection) -> None:
    """Begin a transaction where there is none, as a statement of SQLAlchemy's does: the driver's own would stay."""
    if not connection.in_transaction():
        driver: Any = connection.connection.driver_connection
        if not getattr(driver, "in_transaction", False):  # SQLite's; where it is, the writer has begun it itself
            connection.begin()


def run(connection: sa.Connection, prepared: Prepared, rows: Sequence[Row]) -> int:
    """Run a statement for every row, within the connection's transaction; return how many rows it changed.

    Args:
        connection: in a transaction.
        prepared: of this connection's database.
        rows: at least one.

    Raises:
        Exception: the driver's own errors, as they are.
    """
    cursor: Any = connection.connection.cursor()
    try:
        if len(rows) == 1:
            cursor.execute(prepared.text, prepared.values(rows[0]))
        else:
            cursor.executemany(prepared.text, [prepared.values(row) for row in rows])
        return int(cursor.rowcount)
    finally:
        cursor.close()


def fetch(connection: sa.Connection, prepared: Prepared, row: Row) -> list[Sequence[Any]]:
    """Run a query within the connection's transaction; return its rows, their values as the driver gives them."""
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(prepared.text, prepared.values(row))
        found: list[Sequence[Any]] = cursor.fetchall()
        return found
    finally:
        cursor.close()
