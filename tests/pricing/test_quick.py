"""A quick frozen dataclass is the frozen dataclass that it was, but for the time it takes to make one."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from pricing.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Point:
    """Two numbers and what is said of them."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)
    hidden: str = field(default="", repr=False, compare=False)


@quick
@dataclass(frozen=True, slots=True)
class Checked:
    """A number that is looked at."""

    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("below zero")


def test_it_takes_what_it_took() -> None:
    point = Point(1)
    assert (point.x, point.y, point.names, point.hidden) == (1, 2, [], "")
    assert Point(1).names is not point.names  # made anew each time
    assert Point(1, names=["a"], y=3) == Point(1, 3, ["a"], hidden="not compared")
    assert list(inspect.signature(Point).parameters) == ["x", "y", "names", "hidden"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=1)  # type: ignore[call-arg]


def test_it_is_what_it_was() -> None:
    point = Point(1)
    assert type(point) is Point
    assert isinstance(point, Point)
    assert repr(point) == "Point(x=1, y=2, names=[])"
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert replace(point, y=5) == Point(1, 5)
    assert copy.copy(point) == point
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point  # noqa: S301 - written a moment ago


def test_it_is_checked_after_it_was_made() -> None:
    assert Checked(1).x == 1
    with pytest.raises(ValueError, match="below zero"):
        Checked(-1)


def test_other_classes_are_refused() -> None:
    @dataclass(slots=True)
    class Open:
        x: int

    @dataclass(frozen=True, slots=True)
    class Named:
        x: int = field(kw_only=True)

    for each in (Open, Named, int):
        with pytest.raises(TypeError, match="is needed"):
            quick(each)
