"""What a run may still spend.

In: amounts. Out: a reservation, or `BudgetExceeded`. Invariant: what is reserved and spent together never exceeds the
budget, because an amount is reserved before the call and only replaced by its cost after it.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal

from router.errors import BudgetExceeded


class Budget:
    """What a run may still spend, in USD; None: no limit."""

    def __init__(self, limit_usd: Decimal | None, spent_usd: Decimal = Decimal(0)) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.reserved_usd = Decimal(0)
        self.kept_usd = Decimal(0)
        self._settled = asyncio.Event()

    @property
    def left_usd(self) -> Decimal | None:
        """What may still be reserved, USD; None: no limit."""
        return None if self.limit_usd is None else (self.limit_usd - self.spent_usd - self.reserved_usd - self.kept_usd)

    async def reserve(self, amount_usd: Decimal | None) -> Decimal:
        """Hold the amount and return it; an unknown amount counts as 0 where there is no limit.

        Where it would fit but for what is reserved for running calls, it waits until they have ended.

        Raises:
            BudgetExceeded: the amount does not fit, or it is unknown and there is a limit.
        """
        if self.limit_usd is None:
            amount_usd = amount_usd or Decimal(0)
        if amount_usd is None:
            message = f"budget: {self.limit_usd} USD is set, but the next call has no known price"
            raise BudgetExceeded(message, hint="add its price (router.toml, price_files), or leave the budget out")
        while self.reserved_usd and not self._fits(amount_usd):
            await self._settled.wait()
        self._check(amount_usd)
        self.reserved_usd += amount_usd
        return amount_usd

    def reserve_now(self, amount_usd: Decimal | None) -> Decimal | None:
        """Hold the amount and return it, where there is no limit that it could be held against; else None."""
        if self.limit_usd is not None:
            return None
        held = amount_usd or Decimal(0)
        self.reserved_usd += held
        return held

    def keep(self, amount_usd: Decimal | None) -> Decimal:
        """Set an amount aside for a later call, so that others cannot spend it; return it, for `give_back`.

        Raises:
            BudgetExceeded: it does not fit.
        """
        if self.limit_usd is None or amount_usd is None:
            return Decimal(0)
        self._check(amount_usd)
        self.kept_usd += amount_usd
        return amount_usd

    def give_back(self, amount_usd: Decimal) -> None:
        """End setting an amount aside."""
        self.kept_usd -= amount_usd

    def _check(self, amount_usd: Decimal) -> None:
        left = self.left_usd
        if left is not None and amount_usd > left:
            message = f"budget: the next call may cost {amount_usd:.6f} USD, {left:.6f} of {self.limit_usd:f} is left"
            raise BudgetExceeded(message, hint="raise the budget, lower max_output_tokens, or take a cheaper model")

    def _fits(self, amount_usd: Decimal) -> bool:
        left = self.left_usd
        return left is None or amount_usd <= left

    def settle(self, reserved_usd: Decimal, cost_usd: Decimal | None) -> None:
        """Replace a reservation by its cost; None: the bill is not known, so the reserved amount stays held."""
        self.reserved_usd -= reserved_usd
        self.spent_usd += reserved_usd if cost_usd is None else cost_usd
        self._settled.set()  # wakes all who wait now
        self._settled.clear()
