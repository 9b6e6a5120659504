"""How fast an endpoint may be given requests, where it refuses by the second or the minute: learnt from refusals.

In: when requests were sent, and what was refused of them. Out: the instant of the next one. Invariant: pure but for its
own state; until a rate was refused, nothing is slowed.

A refusal at a concurrency that was taken before cannot be one of concurrency: it is one of rate; and so is one that
comes again and again after the same number in a second. What was taken in the time before it is then what is taken at
all, and requests are spaced accordingly, with a little less than that.
"""

from __future__ import annotations

from collections import deque

from router.settings_health import GateSettings

MARGIN_SHARE = 0.98
"""How much of the rate that was measured is used."""
AGAIN_SHARE = 0.9
"""What a further refusal leaves of a rate that had not grown and is measured again."""
PROVEN_S = 2.0
"""A rate that was kept to for so long without a refusal, seconds, is right but for chance ..."""
PROVEN_SHARE = 0.98
"""... and a refusal leaves so much of it, whatever was taken in the second before it."""
ALIKE = 2
"""How many waves are to be refused after the same number in a second as the one before, for that to be the rate."""
ALIKE_SHARE = 0.005
"""By what share such numbers may differ, and by one besides."""
GROWTH_A_S = 1.1
"""By how much the rate grows a second, when its time has come."""
FEWEST = 5
"""From fewer requests no rate is measured."""
CATCH_UP_S = 0.02
"""How much of the time that nobody used is made up for, seconds: what a busy event loop is late by."""
_MOST_SENT = 4096


class Tempo:
    """The rate of requests; none is set at first.

    Args:
        settings: for how long a rate that was refused is not tried again.
    """

    def __init__(self, settings: GateSettings) -> None:
        self._settings = settings
        self.rate: float | None = None
        self._known = 0.0
        self._sent: deque[float] = deque(maxlen=_MOST_SENT)  # without those that were refused
        self._next_s = self._grown_s = self._hold_until = self._hold_s = self._learnt_s = 0.0
        self._taken, self._span_s, self._pause_s = 0, 1.0, 0.0  # before the last refusal; the pause after it
        self._second = self._alike = 0  # taken in the second before it; refusals in a row with the same

    def next_s(self) -> float:
        """Return the instant from which one more may be sent, seconds of a steady clock."""
        return self._next_s

    def sent(self, now_s: float) -> None:
        """Take note that one is sent."""
        self._sent.append(now_s)
        if self.rate is None:
            return
        if now_s > self._hold_until:
            since_s = now_s - max(self._grown_s, self._hold_until)
            self.rate *= GROWTH_A_S**since_s
            if self.rate > 2 * self._known:
                self.rate = None
                return
        self._grown_s = now_s
        self._next_s = max(self._next_s, now_s - CATCH_UP_S) + 1 / self.rate

    def turned_away(self, sent_s: float) -> None:
        """Take note that the one that was sent then was refused."""
        for back in range(1, len(self._sent) + 1):
            if self._sent[-back] <= sent_s:
                if self._sent[-back] == sent_s:
                    del self._sent[-back]
                return

    def measure(self, until_s: float, pause_s: float, open_s: float) -> None:
        """Count what was taken until a refusal that was followed by a pause, after the gate was open for `open_s`.

        That is in the last second at least, and no longer ago than two pauses.
        """
        self._span_s, self._pause_s = max(1.0, min(2 * pause_s, open_s)), pause_s
        self._taken, second = self._count(until_s - self._span_s), self._count(until_s - 1)
        is_alike = second >= FEWEST and abs(second - self._second) <= 1 + second * ALIKE_SHARE
        self._second, self._alike = second, self._alike + 1 if is_alike else 0

    @property
    def is_seen(self) -> bool:
        """Whether a rate is not set yet, but one refusal after the other came after the same number in a second."""
        return self.rate is None and self._alike >= ALIKE

    def learn(self, now_s: float) -> None:
        """Set the rate to what was measured."""
        if self._taken < FEWEST:
            return
        rate = MARGIN_SHARE * self._taken / self._span_s
        again = self.rate is not None
        if self.rate is not None:
            if self.rate > self._known:  # a rate that had grown falls back to what held before it did
                rate = min(rate, self._known)
            elif now_s - self._learnt_s - self._pause_s >= PROVEN_S:
                rate = PROVEN_SHARE * self.rate
            elif rate >= MARGIN_SHARE * self.rate:  # it is what was sent, and tells nothing
                rate = AGAIN_SHARE * self.rate
        fresh_s = self._pause_s * self._settings.hold_pauses
        self._hold_s = min(self._settings.hold_max_s, max(fresh_s, 2 * self._hold_s if again else 0.0))
        self._hold_until = now_s + self._hold_s
        self.rate = self._known = rate
        self._learnt_s = now_s
        a_second = int(rate)
        is_full = 0 < a_second <= len(self._sent)
        self._next_s = max(self._next_s, now_s, self._sent[-a_second] + 1.0 if is_full else 0.0)

    def _count(self, after_s: float) -> int:
        """Return how many were taken since an instant."""
        count = 0
        for instant in reversed(self._sent):
            if instant <= after_s:
                break
            count += 1
        return count
