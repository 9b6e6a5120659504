"""Frozen business cases in the database: freeze, list, look up.

In: a connection, a case. Out: the table `cases`. Invariant: a name is frozen once; what is frozen is never changed and
never removed, for a promise that can be rewritten is none.
"""

from __future__ import annotations

import sqlalchemy as sa

from router.ledger.budget_records import CaseRow
from router.ledger.driver import insert_if_absent
from router.ledger.rows import storable_text
from router.ledger.tables import cases


def freeze_case(connection: sa.Connection, case: CaseRow) -> bool:
    """Put a case on record; return whether it is new. One of the same name stays as it is."""
    row = {"name": storable_text(case.name), "frozen_us": case.frozen_us, "document": case.document}
    return bool(connection.execute(insert_if_absent(connection.dialect.name, cases), row).rowcount)


def read_cases(connection: sa.Connection) -> tuple[CaseRow, ...]:
    """Return every case, the oldest first."""
    query = sa.select(cases).order_by(cases.c.frozen_us, cases.c.name)
    return tuple(CaseRow(row.name, row.frozen_us, row.document) for row in connection.execute(query))
