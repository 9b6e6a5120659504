"""Axes: round marks that enclose the values, and where on the canvas a value stands.

In: exact numbers. Out: marks at 1, 2 or 5 times a power of ten; pixels. Invariant: the marks enclose every value, so
that nothing is drawn outside its plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

MARKS = 5
"""Steps an axis has at most."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis.

    Args:
        marks: the round numbers on it, the first and the last being its ends.
        start: the pixel of its first mark.
        end: the pixel of its last mark; less than `start` where values grow upwards.
    """

    marks: tuple[Fraction, ...]
    start: float
    end: float

    def at(self, value: Fraction) -> float:
        """Return the pixel of a value."""
        low, high = self.marks[0], self.marks[-1]
        return self.start + float((value - low) / (high - low)) * (self.end - self.start)


def marks_of(values: Sequence[Fraction], *, from_zero: bool = True) -> tuple[Fraction, ...]:
    """Return round numbers that enclose the values; 0 to 1 where there is nothing to enclose.

    Args:
        values: exact numbers, in any order.
        from_zero: whether 0 is on the axis.
    """
    low, high = min(values, default=Fraction(0)), max(values, default=Fraction(0))
    if from_zero:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    if low == high:
        low, high = (low, low + 1) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
    step = _step((high - low) / MARKS)
    first, last = floor(low / step), ceil(high / step)
    return tuple(step * at for at in range(first, last + 1))


def _step(least: Fraction) -> Fraction:
    """Return the least of 1, 2 and 5 times a power of ten that is not below `least`, which is above 0."""
    power = len(str(least.numerator)) - len(str(least.denominator)) - 1
    while True:
        for times in (1, 2, 5):
            step = Fraction(10) ** power * times
            if step >= least:
                return step
        power += 1
