"""Sums of exact numbers, many at once.

In: fractions. Out: their sum, exact. Invariant: the result is what adding one after the other gives; numbers of one
denominator are added as integers, because a fraction is cut to lowest terms after each addition, which takes ten times
as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction


def exact_sum(values: Iterable[Fraction | int]) -> Fraction:
    """Return the sum; 0 of none.

    Args:
        values: in any unit, all in the same one.
    """
    numerators: dict[int, int] = {}
    for value in values:
        denominator = value.denominator
        numerators[denominator] = numerators.get(denominator, 0) + value.numerator
    total = Fraction(numerators.pop(1, 0))
    for denominator, numerator in numerators.items():
        total += Fraction(numerator, denominator)
    return total


def known_sum(values: Iterable[Fraction | None]) -> Fraction | None:
    """Return the sum; None where one of them is not known.

    Args:
        values: as for `exact_sum`.
    """
    found = tuple(values)
    known = [value for value in found if value is not None]
    return exact_sum(known) if len(known) == len(found) else None


def int_if_whole(value: Fraction) -> Fraction | int:
    """Return a whole number as an integer, for sums that grow one by one."""
    return value.numerator if value.denominator == 1 else value
