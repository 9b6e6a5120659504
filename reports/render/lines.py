"""Lines over days or numbers, a fan of intervals, and points in a plane.

In: what is drawn, a canvas. Out: the mark-up inside an SVG and its height. Invariant: a line is broken where a value is
unknown; nothing is drawn between two values that are not neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from reports.page import Column
from reports.render.bars import paint
from reports.render.numbers import format_cell, format_marks
from reports.render.plane import BOTTOM, GAP, TOP, Plane, height_axis, place_text, plane
from reports.render.scales import Scale, marks_of
from reports.render.series import Drawn, Series, number, shown
from reports.render.svg import Size, element, fitted, label, line, tip, width_of

Point = tuple[float, float]
MOST_DOTS, MOST_DIRECT, ROW = 40, 4, 14


def lines(drawn: Drawn, size: Size) -> tuple[str, float]:
    """Return a line for each series, its name at its end where there is room."""
    room = _room(drawn, size)
    at = plane(drawn, drawn.known(), size, right=room)
    parts = [at.grid, *(_line(drawn, series, at, stroke(order)) for order, series in enumerate(drawn.series))]
    if room > GAP:
        parts.append(_names(drawn, at, room))
    return "".join(parts), size.height


def fan(drawn: Drawn, size: Size) -> tuple[str, float]:
    """Return the middle line with its intervals, the widest at the back; dashed where there are intervals."""
    at = plane(drawn, drawn.known(), size)
    middle, *bounds = drawn.series
    pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
    if not pairs:
        return at.grid + _line(drawn, middle, at, stroke(0)), size.height
    inner = pairs[0]
    is_ahead = [
        number(low) is not None and number(low) != number(high)
        for low, high in zip(inner[0].cells, inner[1].cells, strict=True)
    ]
    first = is_ahead.index(True) if True in is_ahead else len(is_ahead)
    areas = [
        _area(at, _opened(low, middle, first), _opened(high, middle, first), f"a{order}")
        for order, (low, high) in reversed(list(enumerate(pairs, 1)))
    ]
    past, ahead = _masked(middle, range(first)), _masked(middle, range(max(first - 1, 0), len(is_ahead)))
    drawn_lines = _line(drawn, past, at, stroke(0)) + _line(drawn, ahead, at, f"{stroke(0)} ahead")
    return at.grid + "".join(areas) + drawn_lines, size.height


def points(drawn: Drawn, size: Size, labels: Sequence[str]) -> tuple[str, float]:
    """Return a point for each row with both numbers, named where the name hides no other.

    Args:
        drawn: what is drawn; its places are the numbers along the bottom, one for each row.
        size: the canvas.
        labels: the name of each row.
    """
    column = drawn.series[0].column
    heights, left, grid = height_axis(drawn.known(), column, column.title, size, GAP, from_zero=False)
    across = [value for place in drawn.places if (value := number(place)) is not None]
    bottom = Scale(marks_of(across), left + GAP, size.width - 2 * GAP)
    parts = [grid, _numbers_below(bottom, drawn.bottom, size)]
    taken: list[tuple[float, float, float, float]] = []
    spots = []
    for order, series in enumerate(drawn.series):
        for place, cell in enumerate(series.cells):
            x, y = number(drawn.places[place]), number(cell)
            if x is not None and y is not None:
                spots.append((order, place, bottom.at(x), heights.at(y)))
                taken.append((bottom.at(x) - 5, heights.at(y) - 5, bottom.at(x) + 5, heights.at(y) + 5))
    for order, place, right, down in spots:
        text = f"{labels[place]}: {_both(drawn, order, place)}" if labels[place] else _both(drawn, order, place)
        dot = element("circle", tip(text) if size.has_tips else "", cx=right, cy=down, r=5.0, class_=paint(order))
        parts += [dot, _named(labels[place], right, down, taken, size, left)]
    return "".join(parts), size.height


def stroke(order: int) -> str:
    """Return the class of a series' line; from the fifth on they are dashed."""
    return f"l{order % 8 + 1}" + (" dashed" if order >= 4 else "")


def _room(drawn: Drawn, size: Size) -> float:
    """Return the pixels at the right that the series' names need; none on a narrow canvas or with many series."""
    if not size.has_tips or not 1 < len(drawn.series) <= MOST_DIRECT:
        return GAP
    widest = max(width_of(series.name) for series in drawn.series)
    return min(widest, size.width * 0.25) + 2 * GAP


def _names(drawn: Drawn, at: Plane, room: float) -> str:
    """Return the series' names beside their ends, moved apart where they would cover each other."""
    ends = []
    for series in drawn.series:
        last = [value for cell in series.cells if (value := number(cell)) is not None]
        if last:
            ends.append((at.heights.at(last[-1]), series.name))
    floor, parts = 0.0, []
    ends.sort()
    for order, (y, name) in enumerate(ends):
        highest = at.size.height - BOTTOM - ROW * (len(ends) - 1 - order)
        floor = max(min(y + 4, highest), floor + ROW)
        parts.append(label(fitted(name, room - GAP), at.right + GAP / 2, floor))
    return "".join(parts)


def _line(drawn: Drawn, series: Series, at: Plane, class_: str) -> str:
    runs = _runs(series, at, by_day=bool(drawn.days))
    path = element("path", d="".join(line(run) for run in runs if len(run) > 1), class_=class_)
    known = [place for place, cell in enumerate(series.cells) if number(cell) is not None]
    alone = {run[0] for run in runs if len(run) == 1}
    dots = []
    for place, point in zip(known, [point for run in runs for point in run], strict=True):
        if not at.size.has_tips and point not in alone:
            continue
        text = tip(f"{place_text(drawn, place)}, {series.name}: {shown(series.cells[place], series.column)}")
        radius = 3.0 if len(known) <= MOST_DOTS or point in alone else 2.0
        dots.append(element("circle", text if at.size.has_tips else "", cx=point[0], cy=point[1], r=radius))
    return path + element("g", "".join(dots), class_=class_.replace("l", "f", 1).split(" ")[0]) if dots else path


def _runs(series: Series, at: Plane, *, by_day: bool) -> list[list[Point]]:
    """Return the series' points, cut where a value is unknown or, by day, where a day has no row."""
    found: list[list[Point]] = []
    before: float | None = None
    for center, cell in zip(at.centers, series.cells, strict=True):
        value = number(cell)
        if value is None:
            before = None
            continue
        if before is None or (by_day and center - before > at.band * 1.5):
            found.append([])
        found[-1].append((center, at.heights.at(value)))
        before = center
    return found


def _masked(series: Series, places: range) -> Series:
    cells = tuple(cell if at in places else None for at, cell in enumerate(series.cells))
    return Series(series.name, series.column, cells)


def _opened(bound: Series, middle: Series, first: int) -> Series:
    """Return a bound that begins at the last place on record, where the intervals open."""
    if first == 0 or bound.cells[first - 1] is not None:
        return bound
    return replace(bound, cells=(*bound.cells[: first - 1], middle.cells[first - 1], *bound.cells[first:]))


def _area(at: Plane, low: Series, high: Series, class_: str) -> str:
    edges = [
        None if bottom is None or top is None else (center, at.heights.at(bottom), at.heights.at(top))
        for center, bottom, top in zip(at.centers, map(number, low.cells), map(number, high.cells), strict=True)
    ]
    paths = []
    for is_known, run in groupby(edges, key=lambda edge: edge is not None):
        known = [edge for edge in run if edge is not None]
        if is_known:
            up, down = [(x, top) for x, _, top in known], [(x, bottom) for x, bottom, _ in reversed(known)]
            paths.append(line([*up, *down]) + "z")
    return element("path", d="".join(paths), class_=class_)


def _numbers_below(scale: Scale, column: Column, size: Size) -> str:
    parts, before = [], -GAP * 1.0
    for mark, text in zip(scale.marks, format_marks(scale.marks, column.kind), strict=True):
        x, half = scale.at(mark), width_of(text) / 2
        parts.append(element("path", d=line([(x, TOP), (x, size.height - BOTTOM)]), class_="g"))
        if x - half > before:
            parts.append(label(text, min(x, size.width - half), size.height - BOTTOM + 16, "m"))
            before = x + half + GAP
    title = column.title
    return "".join(parts) + label(title, size.width - GAP, 12, "e")


def _both(drawn: Drawn, order: int, place: int) -> str:
    series = drawn.series[order]
    across = shown(drawn.places[place], drawn.bottom)
    return (
        f"{drawn.bottom.title} {across}, {series.column.title} {format_cell(series.cells[place], series.column.kind)}"
    )


def _named(
    text: str, x: float, y: float, taken: list[tuple[float, float, float, float]], size: Size, edge: float
) -> str:
    """Return the point's name at the first free side of it; nothing where none is free."""
    short = fitted(text, size.width * 0.4)
    width = width_of(short)
    if not short:
        return ""
    for left, base in ((x + 8, y + 4), (x - 8 - width, y + 4), (x - width / 2, y - 10), (x - width / 2, y + 18)):
        area = (left, base - 11, left + width, base + 3)
        is_inside = area[0] >= edge and area[2] <= size.width and area[1] >= 0 and area[3] <= size.height - BOTTOM + 2
        if is_inside and not any(_overlap(area, other) for other in taken if other != (x - 5, y - 5, x + 5, y + 5)):
            taken.append(area)
            return label(short, left, base)
    return ""


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
