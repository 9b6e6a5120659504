"""One request and its answer, within the bounds of time that are set for it.

In: an endpoint, a request, a deadline, the longest silence. Out: the answer, its text said as it comes, or an
`EndpointError`. Invariant: one request is sent, and what is cut off is closed, which tells the upstream to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from pricing.quick import quick
from router.endpoints.protocol import Endpoint, TextDelta, WireRequest, WireResponse
from router.errors import EndpointError, RouterError

Say = Callable[[str], Awaitable[None]]
"""Takes a piece of the answer's text; nothing more is read from the model until it has."""

Whose = Literal["step", "run", "judge"]
TIME_OUTS: Mapping[Whose, str] = {
    "step": "[swarm] step_timeout_s",
    "run": "[swarm] run_timeout_s",
    "judge": "[judge] timeout_s",
}
"""The setting of each one's time, for messages."""
MOST_LULL_S = 0.05
"""The longest that tokens gather unread, seconds."""


@quick
@dataclass(frozen=True, slots=True)
class Bounds:
    """How long an exchange may take.

    Args:
        endpoint: the endpoint's name, for messages.
        deadline_s: time of the event loop after which it is cut off, seconds, or None.
        idle_s: longest silence from one token to the next, seconds, or None; it needs a hearer.
        is_heard: whether each token is wanted at once; else several are taken together, which costs less, and the
            tokens of the last `MOST_LULL_S` may be unread where the caller leaves.
        whose: whose time ends with the deadline, for messages.
    """

    endpoint: str
    deadline_s: float | None = None
    idle_s: float | None = None
    is_heard: bool = True
    whose: Whose = "step"

    def lull_s(self) -> float:
        """Return how long tokens may gather before they are read, seconds: a small part of the silence allowed."""
        if self.is_heard or self.idle_s is None:
            return 0.0
        return min(MOST_LULL_S, self.idle_s / 10)


class _Silent(Exception):
    """No token came in time."""


async def exchange(endpoint: Endpoint, request: WireRequest, hear: Say | None, bounds: Bounds) -> WireResponse:
    """Send the request and return its answer; cut it off at the deadline, or when it falls silent.

    Args:
        endpoint: where to.
        request: what is sent.
        hear: takes the text as it comes, and an empty one for a token without any; None: it is not streamed.
        bounds: how long it may take.

    Raises:
        EndpointError: the attempt failed; kind "timeout" where the deadline passed, "idle" where no token came.
    """
    if hear is None:
        sending = endpoint.send(request)
    elif bounds.idle_s is None:
        sending = _listen(endpoint, request, hear, bounds.lull_s())
    else:
        sending = _listen_closely(endpoint, request, hear, bounds.idle_s, bounds.lull_s())
    try:
        if bounds.deadline_s is None:
            return await sending
        async with asyncio.timeout_at(bounds.deadline_s):
            return await sending
    except _Silent:
        kind, what = "idle", f"sent no token for {bounds.idle_s:g} s"
        hint = "raise [swarm] idle_timeout_s, or lower the concurrency"
    except TimeoutError:
        kind, what = "timeout", f"did not finish before the {bounds.whose}'s time-out"
        hint = f"raise {TIME_OUTS[bounds.whose]}, or lower the concurrency"
    message = f"endpoint {bounds.endpoint}: {request.model} {what}"
    raise EndpointError(kind, message, possibly_billed=True, hint=hint)


async def _listen(endpoint: Endpoint, request: WireRequest, hear: Say, lull_s: float) -> WireResponse:
    async with aclosing(endpoint.stream(request, lull_s)) as flow:  # type: ignore[type-var]  # they are async generators
        async for event in flow:
            if isinstance(event, TextDelta):
                await hear(event.text)
            else:
                return event
    raise RouterError("an endpoint's stream ended without its answer")  # pragma: no cover — the protocol forbids it


async def _listen_closely(
    endpoint: Endpoint, request: WireRequest, hear: Say, idle_s: float, lull_s: float
) -> WireResponse:
    """Listen for as long as a token comes every `idle_s`; a hearer who takes his time is not taken for silence.

    Raises:
        _Silent: none came in time.
    """
    try:
        async with asyncio.timeout(None) as timer:
            silence = _Silence(idle_s, timer, hear)
            try:
                return await _listen(endpoint, request, silence.hear, lull_s)
            finally:
                silence.over()
    except TimeoutError:
        raise _Silent from None


class _Silence:
    """Notes when a token came, and looks every so often how long ago that was: a timer for each would cost more.

    Args:
        idle_s: the longest silence, seconds.
        timer: is let run out after it.
        hear: takes the text; its own time is no silence.
    """

    __slots__ = ("_hear", "_heard_s", "_idle_s", "_is_hearing", "_look", "_loop", "_timer")

    def __init__(self, idle_s: float, timer: asyncio.Timeout, hear: Say) -> None:
        self._idle_s, self._timer, self._hear = idle_s, timer, hear
        self._loop = asyncio.get_running_loop()
        self._heard_s, self._is_hearing = self._loop.time(), False
        self._look = self._loop.call_at(self._heard_s + idle_s, self._listened)

    async def hear(self, text: str) -> None:
        """Hand text on."""
        self._is_hearing = True
        await self._hear(text)
        self._heard_s, self._is_hearing = self._loop.time(), False

    def over(self) -> None:
        """Look no more."""
        self._look.cancel()

    def _listened(self) -> None:
        now_s = self._loop.time()
        until_s = self._idle_s + (now_s if self._is_hearing else self._heard_s)
        if until_s <= now_s:
            self._timer.reschedule(now_s)
        else:
            self._look = self._loop.call_at(until_s, self._listened)
