"""Gates in front of an endpoint and a budget: who may send now.

In: endpoint settings, amounts. Out: the wait, or `BudgetExceeded`. Invariant: what is reserved and spent together never
exceeds the budget, because an amount is reserved before the call and only replaced by its cost after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from router.errors import BudgetExceeded

FIRST_LIMIT = 8
"""Requests in flight before an endpoint has shown that it takes more."""
CUT = 0.7
"""What a refusal leaves of the limit: AIMD as Netflix's concurrency-limits has it, but for its 0.9."""


class Gate:
    """One endpoint's door: as many at once as the endpoint has shown to take, and none while it is paused.

    The limit starts low and grows by one for every answer until the first refusal (429, 503); from then on by one for
    every full round of answers, and each refusal cuts it, once a pause. A pause is shared: one `Retry-After` holds
    everybody back, instead of each finding out for itself.

    Args:
        concurrency: the most requests in flight.
    """

    def __init__(self, concurrency: int) -> None:
        self._most = concurrency
        self._limit = float(min(concurrency, FIRST_LIMIT))
        self._has_refused = False
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._open_at = self._cut_until = 0.0

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place and for the end of any pause; the place is held until the block ends."""
        await self._enter()
        try:
            yield
        finally:
            self._in_flight -= 1
            self._wake()

    async def _enter(self) -> None:
        while True:
            pause_s = self._open_at - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            elif self._in_flight < self.limit:
                self._in_flight += 1
                return
            else:
                await self._queue()

    async def _queue(self) -> None:
        """Wait until a place may be free; one that is given up on the way is handed on."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._wake()
            raise

    def _wake(self) -> None:
        free = self.limit - self._in_flight
        while free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1

    def answered(self) -> None:
        """Let the limit grow: the endpoint took a request."""
        step = 1 / self._limit if self._has_refused else 1.0
        self._limit = min(float(self._most), self._limit + step)
        self._wake()

    def refused(self, pause_s: float) -> None:
        """Cut the limit, once for all that were in flight together, and close the door for a while.

        Args:
            pause_s: from now, seconds; a shorter pause never ends a longer one.
        """
        now = time.monotonic()
        if now >= self._cut_until:
            self._limit = max(1.0, self._limit * CUT)
        self._has_refused = True
        self._open_at = max(self._open_at, now + pause_s)
        self._cut_until = max(self._open_at, now)


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
            return amount_usd or Decimal(0)
        if amount_usd is None:
            message = f"budget: {self.limit_usd} USD is set, but the next call has no known price"
            raise BudgetExceeded(message, hint="add its price (router.toml, price_files), or leave the budget out")
        while self.reserved_usd and not self._fits(amount_usd):
            await self._settled.wait()
        self._check(amount_usd)
        self.reserved_usd += amount_usd
        return amount_usd

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
            message = f"budget: the next call may cost {amount_usd:.6f} USD, {left:.6f} of {self.limit_usd} is left"
            raise BudgetExceeded(message, hint="raise the budget, lower max_output_tokens, or take a cheaper model")

    def _fits(self, amount_usd: Decimal) -> bool:
        left = self.left_usd
        return left is None or amount_usd <= left

    def settle(self, reserved_usd: Decimal, cost_usd: Decimal | None) -> None:
        """Replace a reservation by its cost; None: the bill is not known, so the reserved amount stays held."""
        if self.limit_usd is None:
            return
        self.reserved_usd -= reserved_usd
        self.spent_usd += reserved_usd if cost_usd is None else cost_usd
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()
