"""Who begins now, where many begin at once: a few in each pass of the event loop, so that answers are read in between.

In: those who come. Out: a wait, for whoever is not among the first. Invariant: in order of arrival; nobody waits longer
than those before him take to begin.

A thousand calls that are made together would all be decided, estimated and reserved for before the first answer of an
endpoint is looked at: half a millisecond each, in which every place there stands idle.
"""

from __future__ import annotations

import asyncio
from collections import deque

A_PASS = 8
"""How many begin in one pass of the event loop: some 4 ms of work."""

REST_S = 0.0005
"""How long the loop may be idle between two passes, seconds: else the ledger's thread gets its turn every 5 ms."""


class Turns:
    """Turns on one event loop after the other."""

    def __init__(self) -> None:
        self._left = A_PASS
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_passing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def take(self) -> None:
        """Return when it is one's turn to begin."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the one before has ended, and its timers with it
            self._loop, self._left, self._is_passing = loop, A_PASS, False
            self._waiting.clear()
        if not self._is_passing:
            self._is_passing = True
            loop.call_soon(self._rest, loop)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next ones begin, once all else that was ready has been done."""
        self._left = A_PASS
        while self._waiting and self._left > 0:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has left
                turn.set_result(None)
                self._left -= 1
        self._is_passing = self._left < A_PASS
        if self._is_passing:
            loop.call_soon(self._rest, loop)

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the next ones begin after a moment, now that those before them have begun."""
        loop.call_later(REST_S, self._pass, loop)
