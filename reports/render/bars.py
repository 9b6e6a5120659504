"""Bars: upright ones over days or numbers, stacked or side by side, and lying ones for names.

In: what is drawn, a canvas. Out: the mark-up inside an SVG and its height. Invariant: a bar begins at 0 and ends at its
value; what is unknown is a dash, not a bar.
"""

from __future__ import annotations

from fractions import Fraction

from reports.page import Cell
from reports.render.numbers import UNKNOWN, format_brief
from reports.render.plane import GAP, Plane, place_text, plane
from reports.render.scales import Scale, marks_of
from reports.render.series import Drawn, Series, number, shown, total_at
from reports.render.svg import Size, box, element, fitted, label, line, tip, width_of

FILL = 0.8
"""Share of a place's width that its bars take."""
MOST_LYING = 30
"""Lying bars that are drawn; a list of a thousand tenants is a table's work."""
THICK, BETWEEN, LINE = 14, 10, 16


def upright(drawn: Drawn, size: Size) -> tuple[str, float]:
    """Return bars over each place, side by side."""
    at = plane(drawn, drawn.known(), size)
    width = at.band * FILL / len(drawn.series)
    parts = [at.grid]
    for order, series in enumerate(drawn.series):
        lefts = [center - at.band * FILL / 2 + order * width for center in at.centers]
        bases = [Fraction(0)] * len(lefts)
        parts.append(_bars(drawn, series, order, at, lefts, width, bases))
    return "".join(parts), size.height


def stacked(drawn: Drawn, size: Size) -> tuple[str, float]:
    """Return bars on top of each other: what is above 0 upwards, what is below downwards."""
    above, below = [Fraction(0)] * len(drawn.places), [Fraction(0)] * len(drawn.places)
    bases = []
    for series in drawn.series:
        found = []
        for place, cell in enumerate(series.cells):
            value = number(cell) or Fraction(0)
            pile = above if value >= 0 else below
            found.append(pile[place])
            pile[place] += value
        bases.append(found)
    at = plane(drawn, [*above, *below], size)
    width = max(at.band * FILL, 1.0)
    lefts = [center - width / 2 for center in at.centers]
    parts = [
        _bars(drawn, series, order, at, lefts, width, bases[order], stacks=len(drawn.series) > 1)
        for order, series in enumerate(drawn.series)
    ]
    return at.grid + "".join(parts), size.height


def lying(drawn: Drawn, size: Size) -> tuple[str, float]:
    """Return bars that lie, each with its name and its figure: the first thirty of them."""
    count = min(len(drawn.places), MOST_LYING)
    names = [place_text(drawn, at) for at in range(count)]
    figures = [[_figure(series, at) for series in drawn.series] for at in range(count)]
    room = max((width_of(text) for row in figures for text in row), default=0) + GAP
    gutter = max(map(width_of, names)) + GAP
    is_above = gutter > size.width * 0.32
    left = 0 if is_above else gutter
    values = [value for series in drawn.series for cell in series.cells[:count] if (value := number(cell)) is not None]
    low, *_, high = marks_of(values)
    ends = (min([*values, Fraction(0)]), max([*values, Fraction(0)])) if values else (low, high)
    if ends[0] == ends[1]:
        ends = (Fraction(0), Fraction(1))
    scale = Scale(ends, left + (room if ends[0] < 0 else 0), size.width - room)
    height = (LINE if is_above else 0) + THICK * len(drawn.series) + BETWEEN
    parts = []
    for at, name in enumerate(names):
        top = at * height + BETWEEN / 2
        y = top + 12 if is_above else top + THICK * len(drawn.series) / 2 + 4
        parts.append(label(fitted(name, size.width), 0, y))
        top += LINE if is_above else 0
        parts += [
            _lying_bar(drawn, series, order, at, scale, top + order * THICK, size)
            for order, series in enumerate(drawn.series)
        ]
    zero = scale.at(Fraction(0))
    parts.append(element("path", d=line([(zero, 0), (zero, height * count)]), class_="g zero"))
    return "".join(parts), height * count


def _lying_bar(drawn: Drawn, series: Series, order: int, at: int, scale: Scale, top: float, size: Size) -> str:
    cell, zero = series.cells[at], scale.at(Fraction(0))
    value = number(cell)
    end = zero if value is None else scale.at(value)
    text = label(
        _figure(series, at), end + (GAP / 2 if end >= zero else -GAP / 2), top + 11, None if end >= zero else "e"
    )
    if value is None:
        return text
    path = box(min(zero, end), top + 1, abs(end - zero), THICK - 2)
    return _marked(path, paint(order), _said(drawn, series, at), size) + text


def _figure(series: Series, at: int) -> str:
    return format_brief(series.cells[at], series.column.kind)


def _bars(
    drawn: Drawn,
    series: Series,
    order: int,
    at: Plane,
    lefts: list[float],
    width: float,
    bases: list[Fraction],
    *,
    stacks: bool = False,
) -> str:
    paths, tips, dashes = [], [], []
    seam = 0.6 if stacks and at.size.has_tips else 0
    for place, cell in enumerate(series.cells):
        value = number(cell)
        if value is None:
            if place in series.unknown:
                dashes.append(_dash(drawn, series, place, at, lefts[place] + width / 2))
            continue
        start, end = at.heights.at(bases[place]), at.heights.at(bases[place] + value)
        if value:
            paths.append(box(lefts[place], min(start, end), width, max(abs(end - start) - seam, 0.4)))
            tips.append(_said(drawn, series, place))
    if not at.size.has_tips:
        return element("path", d="".join(paths), class_=paint(order)) + "".join(dashes)
    marks = "".join(element("path", tip(text), d=path) for path, text in zip(paths, tips, strict=True))
    return element("g", marks, class_=paint(order)) + "".join(dashes)


def _dash(drawn: Drawn, series: Series, place: int, at: Plane, x: float) -> str:
    """Return the mark of an unknown value, on top of what is known there."""
    top = number(total_at(drawn.series, place)) if drawn.chart.kind == "stacked_bars" else None
    y = at.heights.at(top or Fraction(0)) - 4
    text = tip(_said(drawn, series, place)) if at.size.has_tips else ""
    return element("text", UNKNOWN + text, x=x, y=y, class_="m")


def _marked(path: str, class_: str, text: str, size: Size) -> str:
    return element("path", tip(text) if size.has_tips else "", d=path, class_=class_)


def _said(drawn: Drawn, series: Series, place: int) -> str:
    cell: Cell = series.cells[place]
    return f"{place_text(drawn, place)}, {series.name}: {shown(cell, series.column)}"


def paint(order: int) -> str:
    """Return the class of a series' surface; from the ninth on, the colours come again, fainter."""
    return f"f{order % 8 + 1}" + (" again" if order >= 8 else "")
