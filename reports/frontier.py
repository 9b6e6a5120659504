"""The cost-quality frontier: which choices no other beats in both.

In: points with cost and quality. Out: what each is beaten by. Invariant: a point without both numbers is on no frontier
and beats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Point:
    """One choice: its name, its kind, its cost and its quality (0 to 1); None: not known."""

    name: str
    kind: str
    cost: Fraction | None
    quality: Fraction | None


def beaten_by(points: Sequence[Point]) -> tuple[str | None, ...]:
    """Return, for each point, the cheapest other that is better in one and no worse in the other; None: none is.

    Args:
        points: the choices; those that lack a number get None and beat nothing.
    """
    return tuple(_rival(point, points) for point in points)


def _rival(point: Point, points: Sequence[Point]) -> str | None:
    rivals = [other for other in points if _beats(other, point)]
    return min(rivals, key=lambda other: (other.cost or 0, -(other.quality or 0), other.name)).name if rivals else None


def _beats(one: Point, other: Point) -> bool:
    if one.cost is None or one.quality is None or other.cost is None or other.quality is None:
        return False
    is_no_worse = one.cost <= other.cost and one.quality >= other.quality
    return is_no_worse and (one.cost < other.cost or one.quality > other.quality)
