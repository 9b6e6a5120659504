"""Monthly budgets in the database: set, remove, list.

In: a connection in a transaction, a budget. Out: the table `budgets`. Invariant: one budget for each scope and name; a
budget that is set again replaces the one before it whole.
"""

from __future__ import annotations

from decimal import Decimal

import sqlalchemy as sa

from pricing.money import plain
from router.ledger.budget_records import BudgetRow, BudgetScope
from router.ledger.budget_use import forget_use
from router.ledger.records import Amount
from router.ledger.rows import storable_text
from router.ledger.tables import budgets


def set_budget(connection: sa.Connection, budget: BudgetRow) -> bool:
    """Put a budget on record in the place of the one of its scope and name; return whether there was one."""
    replaced = remove_budget(connection, budget.scope, budget.name)  # and its count, which may be in another currency
    row = {
        "scope": budget.scope,
        "name": storable_text(budget.name),
        "currency": budget.amount.currency,
        "amount": plain(budget.amount.value),
        "set_us": budget.set_us,
        "mode": budget.mode,
    }
    connection.execute(sa.insert(budgets).values(row))
    return replaced


def remove_budget(connection: sa.Connection, scope: BudgetScope, name: str) -> bool:
    """Remove a budget; return whether there was one."""
    forget_use(connection, scope, name)
    mine = (budgets.c.scope == scope, budgets.c.name == storable_text(name))
    return bool(connection.execute(sa.delete(budgets).where(*mine)).rowcount)


def read_budgets(connection: sa.Connection) -> tuple[BudgetRow, ...]:
    """Return every budget by scope and name."""
    rows = connection.execute(sa.select(budgets)).all()
    found = (
        BudgetRow(row.scope, row.name, Amount(row.currency, Decimal(row.amount)), row.set_us, row.mode) for row in rows
    )
    return tuple(sorted(found, key=lambda budget: (budget.scope, budget.name)))
