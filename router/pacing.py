"""Requests and tokens a minute that an endpoint is known to allow: calls are spaced so that it need not refuse them.

In: RPM, TPM, the size of a call. Out: the wait. Invariant: first come, first served; in no minute more than RPM + one
second's worth of requests are let through, and no more tokens than a bucket of TPM that refills evenly holds.

`aiolimiter` keeps the buckets. It serves the smallest waiter first, so that a large call would starve: a lock in front
lets one wait at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from router.errors import EndpointError

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

MINUTE_S = 60.0


class Pace:
    """One endpoint's RPM and TPM; made on the loop it is used on.

    Args:
        endpoint: its name, for messages.
        rpm: requests a minute, or None. They are spread over the minute: vendors hold RPM over shorter spans, too
            (platform.openai.com/docs/guides/rate-limits: "60 RPM may be enforced as 1 request per second").
        tpm: tokens a minute, or None.
    """

    def __init__(self, endpoint: str, rpm: int | None, tpm: int | None) -> None:
        from aiolimiter import AsyncLimiter  # costs 0.1 s, and most endpoints have no pace

        self._endpoint, self._tpm = endpoint, tpm
        burst = max(1, (rpm or 0) // 60)
        self._requests: AsyncLimiter | None = AsyncLimiter(burst, MINUTE_S * burst / rpm) if rpm else None
        self._tokens: AsyncLimiter | None = AsyncLimiter(tpm, MINUTE_S) if tpm else None
        self._turn = asyncio.Lock()
        self._owed = 0  # tokens that were used beyond what was let through; below 0: let through and not used
        self._owed_at_s = 0.0

    def check(self, tokens: int) -> EndpointError | None:
        """Return why a call of so many tokens can never be let through, or None."""
        if self._tpm is None or tokens <= self._tpm:
            return None
        return EndpointError(
            "rejected",
            f"endpoint {self._endpoint}: the call may use {tokens:,} tokens, and tpm allows {self._tpm:,} a minute; "
            "nothing was sent",
            hint=f"raise endpoints.{self._endpoint}.tpm, shorten the input, or lower max_output_tokens",
        )

    async def wait(self, tokens: int) -> None:
        """Return when one more request of so many tokens, at most TPM, may go."""
        async with self._turn:
            if self._tokens is not None and self._tpm is not None:
                taken = self._to_acquire(tokens, self._tpm)
                await self._tokens.acquire(taken)
                self._owed -= taken - tokens
            if self._requests is not None:
                try:
                    await self._requests.acquire()
                except asyncio.CancelledError:
                    self.used(tokens, 0)
                    raise

    def used(self, let_through: int, used: int) -> None:
        """Correct the bucket after an answer: `let_through` tokens were waited for, `used` were used."""
        self._owed += used - let_through
        self._owed_at_s = asyncio.get_running_loop().time()

    def _to_acquire(self, tokens: int, most: int) -> int:
        """Return what is taken out of the bucket for a call, with what earlier ones used more or less than expected.

        Tokens that were not used are worth something for a minute: by then the bucket has refilled without them.
        """
        if self._owed < 0 and asyncio.get_running_loop().time() - self._owed_at_s > MINUTE_S:
            self._owed = 0
        return max(0, min(most, tokens + self._owed))
