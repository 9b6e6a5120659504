"""How many requests an endpoint may be given at once: learnt from what it answers and what it refuses.

In: answers and refusals, each with its instant. Out: the limit. Invariant: pure but for its own state; the limit is
from 1 to the most that is set, and only a refusal lowers it.

Additive increase, multiplicative decrease, with what TCP has learnt since: until the first refusal the limit grows by
one with each answer, which doubles it a round (slow start), after it it grows by one a round, and a limit that was
refused is not tried again before a time that doubles with each refusal there (after CUBIC, RFC 9438, which stays near
the last loss for long). Is it taken then, the growth speeds up; is it refused, the limit falls back by one, not by a
share. A wave of refusals also shows what *was* taken of it: the limit falls there at once, from 50 to 5 in one step.
Requests keep a distance, so that the first refusal comes before many more were sent.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from router.settings_health import GateSettings
from router.window import Window

SPREAD_SHARE = 0.5
"""Over what share of the shortest latency as many requests as the limit allows are spread, as TCP's pacing does ..."""
SPREAD_S = 0.5
"""... and over how long at most, seconds: a refusal takes that long at most, however long answers take."""
SLOWER = 1.5
"""How many times the best mean latency ends the doubling."""
SLOW_S = 1.0
"""What stands for a pause, seconds, where the doubling has ended without a refusal."""
SHARE_WINDOW_S = 60.0
"""Over how long the share of refusals is counted, seconds."""
_MOST_POINTS = 512


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """The limit from an instant on: `at_s` is seconds after the gate was made."""

    at_s: float
    limit: int


class Concurrency:
    """The limit of requests in flight.

    Args:
        most: the highest limit.
        first: the limit before anything is known.
        settings: how it follows.
        now_s: the present instant, seconds of a steady clock.
    """

    def __init__(self, most: int, first: int, settings: GateSettings, now_s: float) -> None:
        self._most, self._settings = most, settings
        self._limit = float(min(most, first))
        self._calm = math.inf  # below it the limit grows by one an answer
        self._ceiling: int | None = None  # the lowest limit that was refused
        self._hold_s = self._hold_until = 0.0
        self._latency_s, self._latencies, self._best_s = 0.0, 0, math.inf  # of this round; the best round's mean
        self._shortest_s, self._round = math.inf, self.limit  # the shortest latency; how many answers make the round
        self._stride, self._stride_until, self._pause_s = 1.0, 0.0, 0.0  # growth a round, once a ceiling was passed
        self._streak = self._proven = 0  # answers at this limit, without a refusal; what was taken for two rounds
        self._seen = Window(SHARE_WINDOW_S, 2)
        self._begun_s = now_s
        self._course: deque[LimitPoint] = deque([LimitPoint(0.0, self.limit)])

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @property
    def course(self) -> tuple[LimitPoint, ...]:
        """The limit's course so far; at most 512 points: of a longer one every second point was dropped."""
        return tuple(self._course)

    @property
    def spacing_s(self) -> float:
        """Least time from one request to the next, seconds; 0 before the first answer."""
        if self._shortest_s == math.inf:
            return 0.0
        return min(SPREAD_SHARE * self._shortest_s, SPREAD_S) / self._limit

    def has_taken(self, in_flight: int) -> bool:
        """Return whether so many at once were taken for two rounds: then what is refused is a rate."""
        return in_flight <= self._proven

    def answered(self, now_s: float, in_flight: int, latency_s: float = 0.0, *, is_full: bool = False) -> None:
        """Let the limit grow: a request was answered.

        Args:
            now_s: the present instant.
            in_flight: how many were in flight, it among them; 0: it tells nothing of the limit.
            latency_s: how long it took, seconds; not looked at where `in_flight` is 0.
            is_full: whether others wait for a place, so that the limit is tried however many are in flight.
        """
        self._seen.add(now_s, 0)
        if in_flight > 0:
            self._streak += 1
            self._look_at_latency(now_s, latency_s)
        if self._streak >= 2 * self._limit:
            self._proven = max(self._proven, min(self.limit, in_flight))
        if in_flight * 2 < self._limit and not is_full:
            return  # the limit was not tried: nothing is learnt about it
        room = float(self._most)
        if self._ceiling is not None:
            if now_s < self._hold_until:
                room = max(1.0, self._ceiling - 1.0)
            elif self._limit >= self._ceiling + 1 and in_flight > self._ceiling:
                self._ceiling, self._stride_until = None, now_s + 2 * self._pause_s  # it takes more than it did
        elif self._calm < math.inf and now_s >= self._stride_until:
            self._stride, self._stride_until = self._stride * 2, now_s + 2 * self._pause_s
        step = 1.0 if self._limit < self._calm else min(1.0, self._stride / self._limit)
        self._set(now_s, max(self._limit, min(room, self._limit + step)))

    def _look_at_latency(self, now_s: float, latency_s: float) -> None:
        """End the doubling where a round's answers take longer than they did: more at once is then more that waits.

        After HyStart, RFC 9406: the limit is not cut, for the latency of a model says little; it only grows slowly.
        """
        self._shortest_s = min(self._shortest_s, latency_s)
        if self._limit >= self._calm:
            return
        self._latency_s, self._latencies = self._latency_s + latency_s, self._latencies + 1
        if self._latencies < self._round:
            return
        mean_s = self._latency_s / self._latencies
        if mean_s > SLOWER * self._best_s:
            self._calm, self._pause_s = self._limit, max(self._pause_s, SLOW_S)
            self._stride_until = now_s + 2 * self._pause_s
        self._best_s = min(self._best_s, mean_s)
        self._latency_s, self._latencies, self._round = 0.0, 0, self.limit

    def counted(self, now_s: float) -> None:
        """Count a refusal."""
        self._streak = 0
        self._seen.add(now_s, 1)

    def is_too_much(self, now_s: float) -> bool:
        """Return whether more is refused than may be."""
        answered, refused = self._seen.totals(now_s)
        return refused > float(self._settings.refused_share) * (answered + refused)

    def refused(self, now_s: float, pause_s: float, taken: int, size: int) -> None:
        """Cut the limit for a wave of refusals, when the pause after it is over; once a wave.

        Args:
            now_s: the present instant.
            pause_s: how long the pause was, seconds.
            taken: how many of the wave were taken after all: the limit falls there; 0: none, which tells no limit.
            size: how many at once were too many; not looked at where `taken` is 0.
        """
        tried, known = min(self.limit, size) if taken else self.limit, self._ceiling
        self._stride, self._pause_s = 1.0, pause_s
        again = known is not None and abs(tried - known) <= max(1, known // 10)
        fresh_s = pause_s * self._settings.hold_pauses
        self._hold_s = min(self._settings.hold_max_s, max(fresh_s, 2 * self._hold_s if again else 0.0))
        self._hold_until = now_s + self._hold_s
        self._proven = min(self._proven, taken or tried, tried - 1)
        if taken > 0:
            self._ceiling, self._calm = taken + 1, float(taken)
        else:
            is_trial = known is not None and known <= tried <= known + 1  # one more than was taken all the time
            self._ceiling = tried
            self._calm = max(1.0, tried - 1.0 if is_trial else tried * self._settings.cut_share)
        self._set(now_s, min(self._limit, self._calm))

    def _set(self, now_s: float, limit: float) -> None:
        before, self._limit = self.limit, limit
        if self.limit == before:
            return
        self._streak = 0
        if len(self._course) == _MOST_POINTS:
            self._course = deque(point for at, point in enumerate(self._course) if at % 2 == 0)
        self._course.append(LimitPoint(round(now_s - self._begun_s, 6), self.limit))
