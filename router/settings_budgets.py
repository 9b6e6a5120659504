"""`[budgets]` of router.toml: whether monthly budgets hold back calls, and when something is said of them.

In: the table. Out: `BudgetsSettings`. Invariant: shares are 0 to 1, in rising order.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from router.section import Seconds, Section, Share, Switch


class BudgetsSettings(Section):
    """How the ledger's monthly budgets (`router budget set`) work on calls that are routed.

    Args:
        enforce: whether they are looked at before a call: a hard one stops it, a soft one is counted.
        alert_shares: shares of a budget at which it is said and an alert is pushed, once a month each, 0 to 1.
        refresh_s: how often budgets that others have set are looked for, seconds.
    """

    enforce: Switch = True
    alert_shares: tuple[Share, ...] = (Decimal("0.8"), Decimal(1))
    refresh_s: Seconds = Field(default=10.0, ge=0)

    @field_validator("alert_shares")
    @classmethod
    def _rising(cls, shares: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if any(share <= 0 for share in shares) or list(shares) != sorted(set(shares)):
            raise PydanticCustomError("shares", "should be shares above 0, in rising order")
        return shares
