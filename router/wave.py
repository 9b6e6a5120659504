"""Those in flight at an endpoint when it refused one of them, and what they show of how many it takes at once.

In: places as they were given, and what became of them. Out: how many were too many, how many were taken. Invariant:
pure counts; what an answer was or said is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

MOSTLY_SHARE = 0.5
"""What must have been taken of a refused wave, for its rate to have been too high and not its size."""


@dataclass(slots=True, eq=False)
class Place:
    """One request's place in flight.

    Args:
        wave: in which wave it was given.
        begun_s: when it was given, seconds of the loop's clock.
        number: how many were in flight then, it among them; 0: it was not spaced from those before it, so that nobody
            knows in which order they came to the endpoint.
        tokens: the tokens that were waited for.
    """

    wave: int
    begun_s: float
    number: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Wave:
    """A wave of requests that was refused.

    Args:
        size: how many at once were too many; 0: it tells nothing of that.
        still_out: requests of it of which nothing is known yet.
        taken: how many were answered since.
        pause_s: how long the pause after it is, seconds.
    """

    size: int = 0
    still_out: int = 0
    taken: int = 0
    pause_s: float = 0.0

    @property
    def taken_at_once(self) -> int:
        """How many at once were taken, at least: what is still out was not refused."""
        return max(0, min(self.size - 1, self.taken + self.still_out))

    @property
    def is_mostly_taken(self) -> bool:
        """Whether most of it was taken, so that its rate may have been too high and not its size."""
        return self.taken_at_once >= MOSTLY_SHARE * self.size
