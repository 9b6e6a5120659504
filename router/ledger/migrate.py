"""Brings a database to the tables this version knows, and refuses one that a newer version has made.

In: an engine. Out: the database at `HEAD`. Invariant: an upgrade runs whole or not at all, and never twice at once:
it holds SQLite's write lock, or an advisory lock on PostgreSQL, from its first look to its commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from router.errors import LedgerError
from router.ledger.database import database_errors, for_writing, refuse_foreign, shown

if TYPE_CHECKING:
    from alembic.config import Config

# Every revision of alembic/versions, oldest first. Kept here so that an up-to-date database is recognised without
# importing alembic (0.1 s); a test holds it to alembic's own order.
REVISIONS = ("0001", "0002", "0003", "0004", "0006", "0007", "0008")
HEAD = REVISIONS[-1]
# Not alembic's default name: the database may be shared with an application that migrates itself.
VERSION_TABLE = "router_version"
ADVISORY_LOCK = 0x6661726562  # "fareb"; any constant of our own


def upgrade(engine: sa.Engine) -> None:
    """Make the database's tables those of `HEAD`; one look suffices where they already are.

    Raises:
        LedgerError: the database was made by a newer version or by another program (it is left untouched), or cannot
            be read or written.
    """
    with database_errors(engine, "open"), engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with database_errors(engine, "set up"), for_writing(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
        if _revision(connection) != HEAD:
            _run_migrations(connection)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        refuse_foreign(connection)
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.String()))
    found = connection.execute(sa.select(version.c.version_num)).scalars().all()
    unknown = [revision for revision in found if revision not in REVISIONS]
    if unknown:
        message = (
            f"database {shown(connection.engine.url)}: its revision {unknown[0]!r} is newer than this version of "
            f"farebox, which knows {', '.join(REVISIONS)}; nothing was changed"
        )
        raise LedgerError(message, hint="upgrade farebox, or set ROUTER_DATABASE_URL to another database")
    return found[0] if found else None


def _run_migrations(connection: sa.Connection) -> None:
    from alembic import command  # 0.1 s that only an upgrade pays

    with migrations_folder() as folder:
        command.upgrade(alembic_config(folder, connection), "head")


def alembic_config(folder: Path, connection: sa.Connection | None = None) -> Config:
    """Return the configuration alembic's commands take; `alembic/env.py` uses the connection handed over in it."""
    from alembic.config import Config  # as above

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def migrations_folder() -> Iterator[Path]:
    """Give the folder of the migrations: inside the installed package, else that of the checkout beside it.

    Raises:
        LedgerError: neither is there.
    """
    with resources.as_file(resources.files("router") / "_migrations") as packaged:
        if packaged.is_dir():
            yield packaged
            return
    checkout = Path(__file__).parents[2] / "alembic"
    if not (checkout / "env.py").is_file():
        raise LedgerError("migrations: not found in the installed package", hint="install farebox again")
    yield checkout
