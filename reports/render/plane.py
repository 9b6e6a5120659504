"""The plane that bars and lines stand in: its margins, grid and labels.

In: what is drawn, a canvas. Out: pixels of places and heights, and the mark-up of grid and labels. Invariant: days
stand where the calendar has them, so that a day without a row is a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from types import MappingProxyType

from reports.page import Column, Kind
from reports.render.numbers import format_cell, format_marks
from reports.render.scales import Scale, marks_of
from reports.render.series import Drawn, number
from reports.render.svg import Size, element, fitted, label, line, width_of

TOP, BOTTOM, GAP = 26, 26, 8
_UNITS: Mapping[Kind, str] = MappingProxyType({"duration_ms": "ms", "tokens": "tokens"})
DAY_STEPS = (1, 2, 5, 7, 14, 28, 91, 364)


@dataclass(frozen=True, slots=True)
class Plane:
    """Where things stand.

    Args:
        size: the canvas.
        left: the pixel where the plot begins.
        right: the pixel where it ends.
        heights: the axis of the heights.
        centers: the pixel of each place.
        band: pixels between two neighbouring places.
        grid: the mark-up of grid, marks and labels.
    """

    size: Size
    left: float
    right: float
    heights: Scale
    centers: tuple[float, ...]
    band: float
    grid: str


def plane(drawn: Drawn, values: Sequence[Fraction], size: Size, *, right: float = GAP) -> Plane:
    """Return the plane of a chart whose heights are `values`.

    Args:
        drawn: what is drawn.
        values: every height, sums of stacks included.
        size: the canvas.
        right: pixels to leave free at the right.
    """
    column = drawn.series[0].column
    heights, left, rows = height_axis(values, column, drawn.unit or _UNITS.get(column.kind, ""), size, right)
    end = size.width - right
    centers, band = _centers(drawn, left, end)
    return Plane(size, left, end, heights, centers, band, rows + _bottom_labels(drawn, centers, band, size, left))


def height_axis(
    values: Sequence[Fraction], column: Column, title: str, size: Size, right: float, *, from_zero: bool = True
) -> tuple[Scale, float, str]:
    """Return the axis of the heights, the pixel where the plot begins, and the grid's mark-up.

    Args:
        values: every height.
        column: what they are.
        title: what stands above the axis; empty: nothing.
        size: the canvas.
        right: pixels to leave free at the right.
        from_zero: whether the axis has 0 on it.
    """
    heights = Scale(marks_of(values, from_zero=from_zero), size.height - BOTTOM, TOP)
    texts = format_marks(heights.marks, column.kind)
    left = max(map(width_of, texts)) + GAP
    rows = [label(title, 0, 12)] if title else []
    for mark, text in zip(heights.marks, texts, strict=True):
        y = heights.at(mark)
        path = line([(left, y), (size.width - right, y)])
        rows.append(element("path", d=path, class_="g zero" if mark == 0 else "g"))
        rows.append(label(text, left - GAP / 2, y + 4, "e"))
    return heights, left, "".join(rows)


def place_text(drawn: Drawn, at: int) -> str:
    """Return a place's whole name."""
    return format_cell(drawn.places[at], drawn.bottom.kind)


def _centers(drawn: Drawn, left: float, right: float) -> tuple[tuple[float, ...], float]:
    ordinals = [Fraction(day.toordinal()) for day in drawn.days]
    count = len(drawn.places)
    if ordinals:
        count = int(max(ordinals) - min(ordinals)) + 1
    else:
        numbers = [number(place) for place in drawn.places]
        ordinals = [value for value in numbers if value is not None]
        if len(ordinals) < len(numbers) or len(numbers) < 2:
            ordinals = [Fraction(at) for at in range(len(numbers))]
    band = (right - left) / max(count, 1)
    first, last = min(ordinals, default=Fraction(0)), max(ordinals, default=Fraction(0))
    scale = Scale((first, last if last > first else first + 1), left + band / 2, right - band / 2)
    return tuple(scale.at(value) for value in ordinals), band


def _bottom_labels(drawn: Drawn, centers: Sequence[float], band: float, size: Size, left: float) -> str:
    texts = [_short(drawn, at) for at in range(len(drawn.places))]
    widest = min(max(map(width_of, texts)), size.width / 3)
    step = max(1, ceil((widest + GAP) / band))
    if drawn.days:
        step = next((days for days in DAY_STEPS if days >= step), step)
        first = min(drawn.days)
        wanted = [at for at, day in enumerate(drawn.days) if (day - first).days % step == 0]
    else:
        wanted = list(range(0, len(texts), step))
    y = size.height - BOTTOM + 18
    return "".join(_bottom_label(fitted(texts[at], widest), centers[at], y, size, left) for at in wanted)


def _bottom_label(text: str, x: float, y: float, size: Size, left: float) -> str:
    """Return a label below the plot, kept inside the canvas."""
    half = width_of(text) / 2
    return label(text, min(max(x, left / 2 + half), size.width - half), y, "m")


def _short(drawn: Drawn, at: int) -> str:
    """Return a place's name for the axis: a day without its year where all are of one."""
    if drawn.days and len({day.year for day in drawn.days}) == 1:
        return f"{drawn.days[at]:%m-%d}"
    return place_text(drawn, at)
