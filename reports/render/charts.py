"""A chart as SVG: one picture for a desk, one for a telephone, and the legend that both share.

In: a `Page` and one of its charts. Out: a `Picture` of mark-up. Invariant: the picture says what the table says, and
says what it cannot show (a bar left out).
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.page import Chart, Page
from reports.render.bars import MOST_LYING, lying, paint, stacked, upright
from reports.render.lines import fan, lines, points
from reports.render.series import Drawn, drawn, names_of, number
from reports.render.svg import NARROW, WIDE, Size, element, pixels, words


@dataclass(frozen=True, slots=True)
class Legend:
    """One entry: the class of its colour, and what it stands for."""

    paint: str
    name: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, drawn.

    Args:
        name: its key.
        title: what it shows.
        description: what a reader is to see.
        table: the name of the table behind it.
        wide: SVG for 600 pixels; empty where nothing is known.
        narrow: SVG for 340 pixels.
        legend: the series; empty where there is one.
        remark: what the picture leaves out, or an empty text.
    """

    name: str
    title: str
    description: str
    table: str
    wide: str
    narrow: str
    legend: tuple[Legend, ...]
    remark: str


def picture(page: Page, chart: Chart, prefix: str = "") -> Picture:
    """Return a chart as SVG.

    Args:
        page: the page whose table it shows.
        chart: the chart.
        prefix: makes the ids of its elements the document's only ones.

    Raises:
        KeyError: the page has no such table, or the table no such column.
    """
    found = drawn(page, chart)
    if not found.places or not found.known():
        return Picture(chart.name, chart.title, chart.description, chart.table, "", "", (), "")
    key = f"{prefix}{chart.name}"
    wide, narrow = (_svg(page, found, size, f"{key}-{at}") for at, size in enumerate((WIDE, NARROW)))
    return Picture(
        chart.name, chart.title, chart.description, chart.table, wide, narrow, _legend(found), _remark(found)
    )


def is_lying(found: Drawn) -> bool:
    """Return whether the bars lie: those of names do, those of days, months and numbers stand."""
    return found.chart.kind == "bars" and found.bottom.kind == "text" and not found.days and not _is_sequence(found)


def _svg(page: Page, found: Drawn, size: Size, key: str) -> str:
    content, height = _content(page, found, size)
    chart = found.chart
    title = element("title", words(chart.title), id=f"{key}t")
    described = element("desc", words(chart.description), id=f"{key}d") if chart.description else ""
    return element(
        "svg",
        title + described + content,
        class_="wide" if size.has_tips else "narrow",
        viewBox=f"0 0 {size.width} {pixels(height)}",
        role="img",
        aria_labelledby=f"{key}t",
        aria_describedby=f"{key}d" if described else None,
    )


def _content(page: Page, found: Drawn, size: Size) -> tuple[str, float]:
    kind = found.chart.kind
    if kind == "points":
        return points(found, size, names_of(page, found.chart))
    if kind == "stacked_bars":
        return stacked(found, size)
    if kind == "bars":
        return lying(found, size) if is_lying(found) else upright(found, size)
    return fan(found, size) if kind == "fan" else lines(found, size)


def _is_sequence(found: Drawn) -> bool:
    """Return whether the places are months or hours: texts of digits and marks."""
    return all(isinstance(place, str) and not any(map(str.isalpha, place.replace("T", ""))) for place in found.places)


def _legend(found: Drawn) -> tuple[Legend, ...]:
    kind = found.chart.kind
    if kind == "fan":
        middle, *bounds = found.series
        areas = zip(bounds[::2], bounds[1::2], strict=True)
        return (
            Legend("f1", middle.name),
            *(Legend(f"a{order}", _interval(low.name, high.name)) for order, (low, high) in enumerate(areas, 1)),
        )
    if len(found.series) == 1:
        return ()
    what = f"{found.group}: " if kind == "points" and found.group else ""
    return tuple(
        Legend(paint(order), what + series.name)
        for order, series in enumerate(found.series)
        if any(number(cell) is not None for cell in series.cells)
    )


def _interval(low: str, high: str) -> str:
    """Return what two bounds are called together: of `80 % low, USD` and `80 % high, USD`, `80 % interval`."""
    first, second = (text.partition(",")[0].split() for text in (low, high))
    common = " ".join(word for word in first if word in second)
    return f"{common} interval" if common else f"{low} – {high}"


def _remark(found: Drawn) -> str:
    if is_lying(found) and len(found.places) > MOST_LYING:
        return f"The first {MOST_LYING} of {len(found.places):,}; the table has them all."
    return ""
