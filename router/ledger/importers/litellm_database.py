"""The door to LiteLLM's own database: its spend logs, row by row, and nothing else of it.

In: a database URL. Out: the columns that are asked for, as mappings. Invariant: the database is only read, in one
transaction that shows one state of it; memory does not grow with the table; prompts and answers are not selected.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from router.errors import LedgerError, WrongUsage
from router.ledger.database import database_errors, make_engine, parse_url, shown
from router.ledger.importers.entries import Entry

TABLE = "LiteLLM_SpendLogs"
_ROWS_AT_ONCE = 2_000
_NO_DRIVER_OPTIONS = ("schema", "connection_limit", "pool_timeout", "pgbouncer")
"""What LiteLLM's own DATABASE_URL may carry for Prisma, and PostgreSQL's library refuses."""


def spend_rows(url: str, columns: Sequence[str], needed: frozenset[str]) -> Iterator[tuple[int, Entry]]:
    """Yield the rows of the spend logs in the order they were started, numbered from 1.

    Args:
        url: of LiteLLM's database, as LiteLLM itself is given it; its password is never shown.
        columns: those to select, where the table has them.
        needed: those it must have.

    Raises:
        WrongUsage: there is no such file or table, or a column is missing.
        LedgerError: the database cannot be read.
    """
    engine, schema = _engine(url)
    try:
        with database_errors(engine, "read"), engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
                _select(connection, schema, columns, needed)
            )
            for number, row in enumerate(rows.mappings(), 1):
                yield number, dict(row)
    finally:
        engine.dispose()


def _engine(text: str) -> tuple[sa.Engine, str | None]:
    plain, _, query = text.partition("?")
    if text.startswith("sqlite"):
        url = parse_url(text)
        path = Path(str(url.database))
        if not path.is_file():
            raise WrongUsage(f"database {path}: is not there", hint="name the file of LiteLLM's database")
        file = f"file:{quote(str(path))}?mode=ro"
        return sa.create_engine(url, creator=lambda: sqlite3.connect(file, uri=True)), None
    options = dict(part.partition("=")[::2] for part in query.split("&") if part)
    kept = "&".join(f"{name}={value}" for name, value in options.items() if name not in _NO_DRIVER_OPTIONS)
    return make_engine(parse_url(f"{plain}?{kept}" if kept else plain)), options.get("schema")


def _select(
    connection: sa.Connection, schema: str | None, columns: Sequence[str], needed: frozenset[str]
) -> sa.Select[tuple[object, ...]]:
    place = shown(connection.engine.url)
    inspector = sa.inspect(connection)
    if not inspector.has_table(TABLE, schema):
        there = ", ".join(sorted(inspector.get_table_names(schema))[:8]) or "no table"
        raise WrongUsage(f"database {place}: has no table {TABLE}; it has {there}", hint="is it LiteLLM's database?")
    known = {str(column["name"]) for column in inspector.get_columns(TABLE, schema)}
    if needed - known:
        missing = ", ".join(sorted(needed - known))
        raise LedgerError(f"database {place}: {TABLE} has no column {missing}; this version of LiteLLM is not known")
    listed: list[sa.ColumnClause[object]] = [sa.column(name) for name in columns if name in known]
    table = sa.table(TABLE, *listed, schema=schema)
    return sa.select(*table.c).order_by(table.c["startTime"], table.c["request_id"])
