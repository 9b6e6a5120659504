"""How a problem is to be solved: until when, how close to the best, and by what.

In: seconds, shares. Out: values. Invariant: the monotonic clock is read here and nowhere else in this package.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of the monotonic clock, and the one at which it was set."""

    at_s: float
    began_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the instant so many seconds from now."""
        now = time.perf_counter()
        return cls(now + seconds, now)

    @property
    def left_s(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self.at_s - time.perf_counter())

    @property
    def spent_s(self) -> float:
        """The seconds since it was set."""
        return time.perf_counter() - self.began_s


@dataclass(frozen=True, slots=True)
class Terms:
    """How to solve.

    Args:
        deadline: when to end.
        gap_share: the gap that is good enough, 0 to 1.
        is_exact: whether the solver may be asked.
    """

    deadline: Deadline
    gap_share: float
    is_exact: bool
