"""Gates in front of an endpoint and a budget: who may send now.

In: endpoint settings, amounts. Out: the wait, or `BudgetExceeded`. Invariant: what is reserved and spent together never
exceeds the budget, because an amount is reserved before the call and only replaced by its cost after it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from router.errors import BudgetExceeded


class Gate:
    """One endpoint's door: at most `concurrency` at once, and none while it is paused.

    A pause is shared: one 429 with `Retry-After` holds everybody back, instead of each finding out for itself.
    """

    def __init__(self, concurrency: int) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._open_at = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a place and for the end of any pause; yield the wait in microseconds."""
        begun = time.perf_counter_ns()
        async with self._slots:
            while (left := self._open_at - time.monotonic()) > 0:  # noqa: ASYNC110 — a pause ends at a time
                await asyncio.sleep(left)
            yield (time.perf_counter_ns() - begun) // 1000

    def pause(self, seconds: float) -> None:
        """Close the door for `seconds` from now; a shorter pause never ends a longer one."""
        self._open_at = max(self._open_at, time.monotonic() + seconds)


class Budget:
    """What a run may still spend, in USD; None: no limit."""

    def __init__(self, limit_usd: Decimal | None, spent_usd: Decimal = Decimal(0)) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.reserved_usd = Decimal(0)
        self._settled = asyncio.Condition()

    @property
    def left_usd(self) -> Decimal | None:
        """What may still be reserved, USD; None: no limit."""
        return None if self.limit_usd is None else self.limit_usd - self.spent_usd - self.reserved_usd

    async def reserve(self, amount_usd: Decimal | None) -> Decimal:
        """Hold the amount and return it; an unknown amount counts as 0 where there is no limit.

        Where it would fit but for what is reserved for running calls, it waits until they have ended.

        Raises:
            BudgetExceeded: the amount does not fit, or it is unknown and there is a limit.
        """
        if self.limit_usd is None:
            return amount_usd or Decimal(0)
        if amount_usd is None:
            message = f"budget: {self.limit_usd} USD is set, but the next call has no known price"
            raise BudgetExceeded(message, hint="add its price (router.toml, price_files), or leave the budget out")
        async with self._settled:
            await self._settled.wait_for(lambda: not self.reserved_usd or self._fits(amount_usd))
            if not self._fits(amount_usd):
                left = self.limit_usd - self.spent_usd
                message = f"budget: the next call may cost {amount_usd:.6f} USD, {left:.6f} of {self.limit_usd} is left"
                raise BudgetExceeded(message, hint="raise the budget, lower max_output_tokens, or take a cheaper model")
            self.reserved_usd += amount_usd
        return amount_usd

    def _fits(self, amount_usd: Decimal) -> bool:
        left = self.left_usd
        return left is None or amount_usd <= left

    async def settle(self, reserved_usd: Decimal, cost_usd: Decimal | None) -> None:
        """Replace a reservation by its cost; None: the bill is not known, so the reserved amount stays held."""
        if self.limit_usd is None:
            return
        async with self._settled:
            self.reserved_usd -= reserved_usd
            self.spent_usd += reserved_usd if cost_usd is None else cost_usd
            self._settled.notify_all()
