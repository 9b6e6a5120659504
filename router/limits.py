"""Gates in front of an endpoint: who may send now.

In: endpoint settings, answers and refusals. Out: a `Place`, after the wait for it. Invariant: no more requests are in
flight than the limit, whoever came first goes first, none is sent while the gate is shut, and a place that is given up
(cancelled, at any point) goes to the next.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from router.concurrency import Concurrency, LimitPoint
from router.retries import RetryBudget
from router.settings import EndpointSettings, RetrySettings
from router.settings_health import GateSettings
from router.tempo import CATCH_UP_S, Tempo
from router.wave import Place, Wave

if TYPE_CHECKING:
    from router.pacing import Pace


ASKING_S = 2.0
"""How long the one that goes first is waited for, seconds."""
_FIRST_LIMIT: int = EndpointSettings.model_fields["first_concurrency"].default


class TurnedAway(Exception):
    """Whoever waited is to go elsewhere: the endpoint is down."""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate at an instant, for progress and reports.

    Args:
        limit: requests that may be in flight.
        in_flight: requests that are.
        waiting: calls that wait for a place.
        paused_s: how long the gate stays shut, seconds; 0: it is open.
        answered: requests that were not refused.
        refused: refusals (429, 503, 529) so far.
        pauses: how often it was shut.
        per_s: requests a second that are let through, where a rate was learnt, or None.
        course: the limit's course.
    """

    limit: int
    in_flight: int
    waiting: int
    paused_s: float
    answered: int
    refused: int
    pauses: int
    per_s: float | None
    course: tuple[LimitPoint, ...]


class Gate:
    """One endpoint's gate: as many at once as it has shown to take, and none while it is shut. Made on its loop.

    A refusal shuts it for all, instead of each finding out for itself: until the `Retry-After`, else for a pause that
    doubles with each refusal that no answer came between. After a pause whose end nobody stated, one request goes
    first; the others follow when it was answered, or not refused for two seconds: refusals are quick, answers are not.

    Args:
        concurrency: the most requests in flight.
        first: how many before anything is known; None: the default of an endpoint's `first_concurrency`.
        settings: how the limit follows.
        retry: `base_s` and `max_s` of the pauses, and the retry budget.
        pace: RPM and TPM; None: none are known.
        chance: source of the jitter.
        endpoint: its name, for messages.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        first: int | None = None,
        settings: GateSettings | None = None,
        retry: RetrySettings | None = None,
        pace: Pace | None = None,
        chance: random.Random | None = None,
        endpoint: str = "",
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._retry, settings = retry or RetrySettings(), settings or GateSettings()
        self.retries = RetryBudget(endpoint, self._retry)
        self.pace = pace
        self._limit = Concurrency(concurrency, first or _FIRST_LIMIT, settings, self._loop.time())
        self._chance = chance or random.Random()  # noqa: S311 — for jitter, not for secrets
        self._in_flight = self._answered = self._refused = self._pauses = 0
        self._waiting: deque[asyncio.Future[Place]] = deque()
        self._movable: set[asyncio.Future[Place]] = set()
        self._opening: asyncio.TimerHandle | None = None
        self._open_at = self._loop.time()
        self._in_a_row = 0  # refusals that no answer came between
        self._asks_first = False  # one request goes first; `_asking` is its place
        self._asking: Place | None = None
        self._wave = 0  # grows with each pause: who was sent before it belongs to the wave that was refused
        self._refused_at, self._open_s = self._open_at, 0.0  # the last refusal; how long the gate was open before it
        self._last, self._last_taken = Wave(), 0  # the wave that was refused last; what was taken of one at once
        self._is_heard = False  # whether anything was answered since
        self._tempo = Tempo(settings)
        self._next_s = 0.0  # when the next may be sent
        self._is_late = False  # whether a timer is making up for lost time
        self._pace_timer: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return self._limit.limit

    @property
    def state(self) -> GateState:
        """What it looks like now."""
        return GateState(
            limit=self.limit,
            in_flight=self._in_flight,
            waiting=sum(not place.done() for place in self._waiting),
            paused_s=max(0.0, self._open_at - self._loop.time()),
            answered=self._answered,
            refused=self._refused,
            pauses=self._pauses,
            per_s=self._tempo.rate,
            course=self._limit.course,
        )

    @asynccontextmanager
    async def slot(self, tokens: int = 0) -> AsyncIterator[Place]:
        """Wait for a place, which is held until the block ends; see `enter`."""
        place = await self.enter(tokens)
        try:
            yield place
        finally:
            self.leave(place)

    async def enter(self, tokens: int = 0, *, may_move: bool = False) -> Place:
        """Return a place when there is one, the gate is open, and the endpoint's pace allows it; then `leave` it.

        Args:
            tokens: how many the request may use, for TPM; see `Pace.check`.
            may_move: whether it could go elsewhere.

        Raises:
            TurnedAway: it waited, could go elsewhere, and the endpoint is down.
        """
        place = await self._next_place(may_move=may_move)
        if self.pace is None:
            return place  # `enter_now` has the same place, where nothing is waited for
        try:
            await self.pace.wait(tokens)
        except BaseException:
            self.leave(place)
            raise
        if self._is_shut():  # in the meantime
            self.leave(place)
            place = await self._next_place(may_move=may_move, is_first=True)
        place.tokens = tokens
        return place

    def enter_now(self) -> Place | None:
        """Return a place as of `enter` where there is one and nobody has to wait for anything; None: use `enter`."""
        if self.pace is not None or self._waiting or not self._has_place():
            return None
        return self._take()

    def turn_away(self) -> None:
        """Send away all who wait and could go elsewhere."""
        for turn in self._movable:
            if not turn.done():
                turn.set_exception(TurnedAway())

    def leave(self, place: Place) -> None:
        """Give a place back; without a word on how its request ended, none is drawn from it."""
        self._in_flight -= 1
        if place.wave < self._wave:
            self._last.still_out = max(0, self._last.still_out - 1)
        if self._asking is place:
            self._asking = None
        self._wake()

    def answered(self, place: Place, latency_s: float | None = None) -> None:
        """Take note that the request of a place was taken, whether or not its answer was good.

        Args:
            place: its place.
            latency_s: how long it was on the wire, seconds; None: since the place was given.
        """
        now = self._loop.time()
        self._answered += 1
        if place.wave < self._wave:
            self._last.taken += 1
            self._limit.answered(now, 0)
            return
        latency_s = now - place.begun_s if latency_s is None else latency_s
        is_tried = self._tempo.rate is None or self._in_flight >= self.limit  # else it is the rate that holds them back
        self._limit.answered(now, self._in_flight if is_tried else 0, latency_s, is_full=is_tried and self._is_waited())
        self._is_heard = True
        self._in_a_row, self._asks_first, self._asking = 0, False, None
        self._wake()

    def refused(self, place: Place, retry_after_s: float | None) -> None:
        """Shut the gate: the endpoint says that it is given too much.

        Args:
            place: whose request was refused.
            retry_after_s: the wait that was stated, seconds, or None.
        """
        now = self._loop.time()
        self._refused += 1
        self._limit.counted(now)
        self._tempo.turned_away(place.begun_s)
        if place.wave < self._wave:  # its wave is dealt with; but a longer wait holds
            self._open_at = max(self._open_at, now + (retry_after_s or 0.0))
            return
        self._in_a_row += 1
        pause_s = self._pause_s(retry_after_s)
        self._asks_first, self._asking = retry_after_s is None or self._in_a_row > 1, None
        self._wave += 1
        self._last = Wave(self._size(place), self._in_flight, 0, pause_s)
        self._refused_at, self._open_s, self._is_heard = now, now - self._open_at, False
        self._open_at, self._pauses = max(self._open_at, now + pause_s), self._pauses + 1
        if self._opening is None:
            self._opening = self._loop.call_at(self._open_at, self._open)

    def _size(self, place: Place) -> int:
        """Return how many at once were too many, when one was refused; 0: it tells nothing of that.

        Who only asked does not, and neither does one of the first few after a pause where more were taken before it.
        """
        size = place.number or self._in_flight
        is_early = not self._is_heard and 2 * size <= self._last_taken
        return 0 if self._in_a_row > 1 or is_early else size

    def _learn(self, now_s: float) -> None:
        """Draw the conclusions from a refused wave, now that it is known what was taken of it."""
        wave = self._last
        self._tempo.measure(self._refused_at, wave.pause_s, self._open_s)
        has_taken, taken = self._limit.has_taken(wave.size), wave.taken_at_once
        if wave.taken:
            self._in_a_row = 0
        if wave.size:
            self._last_taken = taken
        if self._tempo.is_seen:
            self._tempo.learn(now_s)
        elif wave.size == 0 or (has_taken and not self._limit.is_too_much(now_s)):
            return
        elif has_taken and wave.is_mostly_taken:
            self._tempo.learn(now_s)
        else:
            self._limit.refused(now_s, wave.pause_s, taken, wave.size)

    def _pause_s(self, stated_s: float | None) -> float:
        """Return a pause: as stated, and from the second in a row on at least the one that doubles each time.

        It has equal jitter, half of it fixed: full jitter, as a retry's own wait has it, could end a pause at once.
        """
        if stated_s is not None and self._in_a_row == 1:
            return stated_s
        grown_s = min(self._retry.max_s, self._retry.base_s * 2.0 ** min(self._in_a_row - 1, 30))
        return max(stated_s or 0.0, grown_s * (0.5 + self._chance.random() / 2))

    def _open(self) -> None:
        """Open the gate when its time has come; what the refused wave has shown is known by now."""
        self._opening = None
        now = self._loop.time()
        if now < self._open_at:
            self._opening = self._loop.call_at(self._open_at, self._open)
            return
        self._learn(now)
        self._wake()

    def _is_waited(self) -> bool:
        return any(not turn.done() for turn in self._waiting)

    def _is_shut(self) -> bool:
        return self._opening is not None or (self._asks_first and self._asking is not None)

    def _has_place(self) -> bool:
        return self._in_flight < self._limit.limit and not self._is_shut() and not self._is_early()

    def _is_early(self) -> bool:
        """Return whether the next must wait for its time, and set a timer for it."""
        next_s = max(self._tempo.next_s(), self._next_s)
        if next_s <= self._loop.time():
            return False
        if self._pace_timer is None:
            self._pace_timer = self._loop.call_at(next_s, self._on_time)
        return True

    def _on_time(self) -> None:
        self._pace_timer = None
        self._is_late = True
        self._wake()
        self._is_late = False

    def _take(self) -> Place:
        now = self._loop.time()
        self._in_flight += 1
        self._tempo.sent(now)
        spacing_s = self._limit.spacing_s
        place = Place(self._wave, now, self._in_flight if spacing_s else 0)
        self._next_s = max(self._next_s, now - CATCH_UP_S if self._is_late else now) + spacing_s
        if self._asks_first:
            self._asking = place
            self._loop.call_later(ASKING_S, self._trust, place)
        return place

    def _trust(self, place: Place) -> None:
        """Let the others follow: the one that went first has not been refused."""
        if self._asking is place:
            self._asks_first, self._asking = False, None
            self._wake()

    async def _next_place(self, *, may_move: bool, is_first: bool = False) -> Place:
        """Return a place, in order of arrival, or before all others; one that is given up on the way is handed on."""
        if self._has_place() and (is_first or not self._waiting):
            return self._take()
        turn: asyncio.Future[Place] = self._loop.create_future()
        if is_first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        if may_move:
            self._movable.add(turn)
        self._wake()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(turn)
            raise
        finally:
            self._movable.discard(turn)

    def _give_back(self, turn: asyncio.Future[Place]) -> None:
        """Hand on the place of one who left between getting it and taking it."""
        if turn.exception() is None:
            self.leave(turn.result())

    def _wake(self) -> None:
        """Hand places to those who wait, while there are any."""
        while self._waiting and self._has_place():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take())


def open_gate(name: str, endpoint: EndpointSettings, settings: GateSettings, retry: RetrySettings) -> Gate:
    """Return the gate of an endpoint, on the running loop.

    Args:
        name: the endpoint's name.
        endpoint: its settings.
        settings: how the limit follows.
        retry: pauses and retry budget.
    """
    pace = None
    if endpoint.rpm or endpoint.tpm:
        from router.pacing import Pace

        pace = Pace(name, endpoint.rpm, endpoint.tpm)
    return Gate(
        endpoint.concurrency,
        first=endpoint.first_concurrency,
        settings=settings,
        retry=retry,
        pace=pace,
        endpoint=name,
    )
