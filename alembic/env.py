"""Runs the migrations on a connection handed over by `router.ledger.migrate`, or on ROUTER_DATABASE_URL by hand."""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

from router.ledger.database import for_writing, make_engine, parse_url
from router.ledger.migrate import VERSION_TABLE
from router.ledger.tables import metadata


def _migrate(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        render_as_batch=connection.dialect.name == "sqlite",
        # SQLite's DDL is transactional once BEGIN is explicit, as it is on our connections.
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _migrate(given)
else:
    with for_writing(make_engine(parse_url(os.environ["ROUTER_DATABASE_URL"]))).begin() as own:
        _migrate(own)
