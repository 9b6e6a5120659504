"""The ledger: the user's own record of every attempt on the wire, with its exact cost, in the user's own SQL database.

    records → rows → statements → writer ─┐
                                          database (migrate, tables)
    reports ← reader ─────────────────────┘

Its one invariant: an attempt is a row before its request is sent and is completed by exactly one update after it, so
whatever may have been billed is on record, whenever the process dies. SQLAlchemy and alembic load when it is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from router.ledger.keys import new_id
from router.ledger.store import Ledger

if TYPE_CHECKING:
    from router.settings import Settings

__all__ = ["Ledger", "default_url", "new_id", "open_ledger"]


def open_ledger(url: str) -> Ledger:
    """Return the ledger at a database URL, made or brought up to date where needed.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://…`; the folder of a SQLite file is made.

    Raises:
        LedgerError: the URL is wrong, the database cannot be opened or written, or a newer version has made it.
    """
    from router.ledger.database import database_errors, make_engine, parse_url, use_wal
    from router.ledger.migrate import upgrade

    engine = make_engine(parse_url(url))
    try:
        upgrade(engine)
        with database_errors(engine, "open"):
            use_wal(engine)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(engine)


def default_url(settings: Settings) -> str:
    """Return the database URL that is set, else that of `ledger.db` in the user's data folder.

    Args:
        settings: as loaded; ROUTER_DATABASE_URL has been laid over them already.
    """
    if settings.database.url is not None:
        return settings.database.url
    from platformdirs import user_data_dir

    return f"sqlite:///{Path(user_data_dir('farebox', appauthor=False)) / 'ledger.db'}"
