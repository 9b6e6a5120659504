"""The door to the database itself: a URL in, an SQLAlchemy engine out, and every error of it as one `LedgerError`.

Invariant: a SQLite transaction begins with an explicit BEGIN (the driver's own implicit one starts too late and can
fail half-way): BEGIN IMMEDIATE on the engine of `for_writing`, a plain one elsewhere. No message holds a password.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from router.errors import LedgerError

BEGIN_WRITING = "BEGIN IMMEDIATE"
_BUSY_TIMEOUT_S = 30
_IDS_AT_ONCE = 500  # SQLite takes at most 999 bound values before version 3.32 (sqlite.org/limits.html)
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_ALLOWED = "sqlite:///PATH and postgresql+psycopg://… are allowed"
_FULL_HINT = "make room on the disk, or put the ledger elsewhere with ROUTER_DATABASE_URL"
_OWN_SCHEMA = "give the ledger a schema of its own: …?options=-csearch_path%3Dfarebox at the end of its URL"
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES_HINTS = {
    "3F000": "make the schema that search_path names: CREATE SCHEMA farebox",
    "40001": "try again",
    "40P01": "try again",
    "42501": "grant the role the right, or name another role in ROUTER_DATABASE_URL",
    "42P07": f"another program's table has that name; {_OWN_SCHEMA}",
    "53100": _FULL_HINT,
}
_UNREACHED = ("connection failed", "failed to resolve host", "connection timeout")


def parse_url(text: str) -> sa.URL:
    """Return a database URL, its driver settled and a leading `~` of a path resolved.

    Raises:
        LedgerError: it is no URL, or of a database that is not supported.
    """
    scheme = text.partition("://")[0]
    if not text.isprintable():
        message = f"database URL: it holds a character that cannot be printed; {_ALLOWED}"
        raise LedgerError(message, hint=_url_hint(""))
    if "://" not in text or scheme not in _DRIVERS:
        named = repr(scheme) if "://" in text else "no scheme"
        raise LedgerError(f"database URL: {named} is not supported; {_ALLOWED}", hint=_url_hint(text))
    try:
        url = sa.make_url(text).set(drivername=_DRIVERS[scheme])
    except (exc.ArgumentError, ValueError):
        message = f"database URL: what follows {scheme}:// cannot be read; {_ALLOWED}"
        raise LedgerError(message, hint="write special characters of a password as %XX") from None
    if scheme.startswith("sqlite"):
        return _sqlite_url(url)
    if "@" in f"{url.host}{url.database}":  # the rest of a password: nothing of it is to be seen
        message = f"database URL: what follows {scheme}:// cannot be read; {_ALLOWED}"
        raise LedgerError(message, hint="write special characters of a password as %XX, @ as %40")
    return url


def _url_hint(text: str) -> str:
    if "://" not in text and text.endswith((".db", ".sqlite", ".sqlite3")):
        return f"write sqlite:///{text}"
    return "set ROUTER_DATABASE_URL, or [database] url in router.toml"


def _sqlite_url(url: sa.URL) -> sa.URL:
    if url.host or url.database in (None, "", ":memory:") or url.query:
        message = f"database URL: a SQLite ledger is a file; sqlite:///PATH is allowed, not {url.render_as_string()}"
        raise LedgerError(message, hint="an absolute path has four slashes: sqlite:////data/ledger.db")
    try:
        path = Path(str(url.database)).expanduser()
    except RuntimeError:
        message = f"database URL: {str(url.database)!r} has no home folder to begin in; sqlite:///PATH is allowed"
        raise LedgerError(message, hint="an absolute path has four slashes: sqlite:////data/ledger.db") from None
    return url.set(database=str(path.absolute()))


def shown(url: sa.URL) -> str:
    """Return how messages name a database: a SQLite file's path, or the URL with its password hidden."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    secret = [name for name in url.query if "password" in name.lower()]  # libpq takes them there too
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def make_engine(url: sa.URL) -> sa.Engine:
    """Return an engine of `parse_url`'s URL; a SQLite file's folder is made. Nothing is connected yet.

    Raises:
        LedgerError: the folder cannot be made, or the database's driver is not installed.
    """
    if url.get_backend_name() != "sqlite":
        # Its own messages about a lost connection would stand on stderr beside ours.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        try:
            # Whatever the server, the role or PGCLIENTENCODING have set: refreshes count on seeing what was committed
            # before each statement, and names of models may be in any script.
            encoded = {"client_encoding": "utf8"}
            return sa.create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=encoded)
        except ModuleNotFoundError as error:
            message = f"database URL: {url.drivername} needs the package {error.name!r}, which is not installed"
            raise LedgerError(message, hint="pip install 'farebox[postgres]'") from None
    path = Path(str(url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"database {path}: its folder cannot be made: {error.strerror}"
        raise LedgerError(message, hint="set ROUTER_DATABASE_URL to a path that can be written") from None
    if path.is_dir():
        raise LedgerError(f"database {path}: is a folder, a file is needed", hint=f"write sqlite:///{path}/ledger.db")
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_S})
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def refuse_foreign(connection: sa.Connection) -> None:
    """Refuse a SQLite file that holds another program's tables; a database server may be shared, if it is in UTF-8.

    Args:
        connection: to a database that has no table of our revision.

    Raises:
        LedgerError: it has other tables, or cannot hold every text; nothing was changed.
    """
    if connection.dialect.name != "sqlite":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            message = f"database {shown(connection.engine.url)}: its encoding is {encoding}; UTF8 is needed"
            hint = "CREATE DATABASE farebox ENCODING 'UTF8' TEMPLATE template0, and name it in ROUTER_DATABASE_URL"
            raise LedgerError(message, hint=hint)
        return
    names = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
    found = connection.exec_driver_sql(names).scalars().all()
    if found:
        message = f"database {shown(connection.engine.url)}: is another program's, with a table {found[0]!r}"
        raise LedgerError(f"{message}; nothing was changed", hint="set ROUTER_DATABASE_URL to a file of its own")


def for_writing(engine: sa.Engine) -> sa.Engine:
    """Return the same engine with transactions that take SQLite's write lock when they begin."""
    return engine.execution_options(router_begin=BEGIN_WRITING)


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: sa.Connection) -> None:
    driver: Any = connection.connection.driver_connection  # each transaction begins here, and SQLAlchemy takes its time
    driver.execute(connection.get_execution_options().get("router_begin", "BEGIN"))


def use_wal(engine: sa.Engine) -> None:
    """Put a SQLite file into write-ahead-log mode, for good; nothing is done to another database.

    The busy time-out does not cover this switch (SQLite answers "locked" at once), so it is tried again here.
    """
    if engine.dialect.name != "sqlite":
        return
    give_up = time.monotonic() + _BUSY_TIMEOUT_S
    raw = engine.raw_connection()
    try:
        while True:
            try:
                if raw.cursor().execute("PRAGMA journal_mode").fetchone() != ("wal",):
                    raw.cursor().execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return
    finally:
        raw.close()


@contextmanager
def database_errors(engine: sa.Engine, doing: str) -> Iterator[None]:
    """Turn every error of the database within the block into a `LedgerError`.

    Args:
        engine: names the database.
        doing: what was being done, for the message: "write", "read" …

    Raises:
        LedgerError: one line, with a hint where one is known.
    """
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise as_ledger_error(error, engine, doing) from error


def as_ledger_error(error: BaseException, engine: sa.Engine, doing: str) -> LedgerError:
    """Return the one-line error for what a database raised; the statement and its values are left out."""
    cause: Any = getattr(error, "orig", None) or error
    reason, hint = _explained(cause)
    made = LedgerError(f"database {shown(engine.url)}: cannot {doing}: {reason}", hint=hint)
    made.__cause__ = error  # `is_read_only` and `is_locked` look at it
    return made


def _explained(cause: BaseException) -> tuple[str, str | None]:
    name = str(getattr(cause, "sqlite_errorname", ""))
    first_line = (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300]
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return f"the disk is full or failing ({first_line})", _FULL_HINT
    if name == "SQLITE_NOTADB":
        return "the file is not a SQLite database", "move the file away, or set ROUTER_DATABASE_URL to another path"
    if name.startswith("SQLITE_CORRUPT"):
        return first_line, "the file is damaged: restore it from a back-up"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return first_line, "check the permissions of the file and its folder, or set ROUTER_DATABASE_URL"
    if name.startswith("SQLITE_BUSY"):
        return f"another process kept it locked for {_BUSY_TIMEOUT_S} s", "let the other process end, then try again"
    return first_line, _postgres_hint(first_line, str(getattr(cause, "sqlstate", None)))


def _postgres_hint(reason: str, state: str) -> str | None:
    if reason.startswith(_UNREACHED):
        return "check ROUTER_DATABASE_URL, or [database] url in router.toml, and that the server is up"
    if reason.startswith("permission denied for schema"):
        return f"GRANT CREATE ON SCHEMA … TO the role, or {_OWN_SCHEMA}"
    return _POSTGRES_HINTS.get(state)


def is_of_database(error: BaseException) -> bool:
    """Return whether a failure is the database's or its disk's, and not the fault of what was written.

    Args:
        error: SQLAlchemy's, or the driver's own.
    """
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, (exc.OperationalError, exc.InternalError, exc.TimeoutError, sqlite3.OperationalError)):
        return True
    state = getattr(error, "sqlstate", "")  # of psycopg's own errors; those of class 22 and 23 are about the values
    return hasattr(error, "pgconn") and not str(state or "").startswith(("22", "23"))


def is_read_only(error: BaseException) -> bool:
    """Return whether a failure is that the database, or what the role may do there, is for reading alone.

    Args:
        error: from the database, or the `LedgerError` made of it.
    """
    cause = _cause(error)
    is_readonly_file = str(getattr(cause, "sqlite_errorname", "")).startswith("SQLITE_READONLY")
    return is_readonly_file or getattr(cause, "sqlstate", None) in {"25006", "42501"}


def is_locked(error: BaseException) -> bool:
    """Return whether a failure is that another process kept a SQLite file locked.

    Args:
        error: as for `is_read_only`.
    """
    return str(getattr(_cause(error), "sqlite_errorname", "")).startswith("SQLITE_BUSY")


def _cause(error: BaseException) -> Any:
    """Return the driver's own error behind SQLAlchemy's, or behind the `LedgerError` made of it."""
    cause = error.__cause__ or error
    return getattr(cause, "orig", None) or cause


def id_batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in their order, as many at once as any database takes as bound values of one statement.

    Args:
        ids: any number.
    """
    for first in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[first : first + _IDS_AT_ONCE]


def is_passing(error: BaseException) -> bool:
    """Return whether PostgreSQL ended a transaction for another one's sake, so that it may succeed the next time."""
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None) in {"40001", "40P01"}
