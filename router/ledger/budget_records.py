"""What the ledger is told of budgets and business cases: frozen values.

In: what a user sets, what an attempt holds. Out: rows of `budgets`, `budget_use` and `cases`. Invariant: amounts are
exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from router.ledger.records import Amount

BudgetScope = Literal["all", "tenant", "class", "model"]
BudgetMode = Literal["soft", "hard"]


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A monthly budget.

    Args:
        scope: what it limits: everything, or one tenant, task class or model.
        name: which; empty for `all`.
        amount: of a month, more than 0.
        set_us: when it was set, microseconds since 1970 UTC.
        mode: "hard": a call that could cross it is not sent; "soft": crossing it is said.
    """

    scope: BudgetScope
    name: str
    amount: Amount
    set_us: int
    mode: BudgetMode = "soft"


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What an attempt adds to a month of a budget: what it may cost when it starts, the difference when it ends.

    Args:
        scope, name: the budget.
        month_start_us: the month's start, microseconds since 1970 UTC.
        currency: the budget's.
        add: in that currency; less than 0 where it cost less than was held.
        limit: what must not be crossed, in that currency; None: it is only counted.
        is_start: whether it stands with the attempt's start, so that without a count nothing is written.
    """

    scope: BudgetScope
    name: str
    month_start_us: int
    currency: str
    add: Decimal
    limit: Decimal | None
    is_start: bool


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A frozen business case: its document is JSON text that `reports` writes and reads.

    Args:
        name: unique.
        frozen_us: when, microseconds since 1970 UTC.
        document: JSON text.
    """

    name: str
    frozen_us: int
    document: str
