"""A page's spend by day in one line of text.

In: a `Page`. Out: two lines, what they show and one mark a day; none where the page has no chart of days. Invariant: a
day without rows is `_`, an unknown one `·`, and what is not zero is at least the lowest mark.
"""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction
from math import ceil

from reports.page import Cell, Page
from reports.render.numbers import format_cell
from reports.render.series import Drawn, drawn, number, sum_of, total_at

MARKS = "▁▂▃▄▅▆▇█"
NOTHING, NOT_KNOWN = "_", "·"


def sparklines(page: Page) -> tuple[str, ...]:
    """Return what the marks show, then the marks, of the page's first chart of bars over days; else nothing.

    Args:
        page: the page.
    """
    for chart in page.charts:
        if chart.kind in ("bars", "stacked_bars") and (chart.group is not None or len(chart.y) == 1):
            found = drawn(page, chart)
            if len(found.days) > 1:
                return _lines(found)
    return ()


def _lines(found: Drawn) -> tuple[str, ...]:
    by_day = {day: total_at(found.series, at) for at, day in enumerate(found.days)}
    known = {day: value for day, cell in by_day.items() if (value := number(cell)) is not None}
    if not known or min(known.values()) < 0:
        return ()
    first, last = min(found.days), max(found.days)
    days = [first + timedelta(days=at) for at in range((last - first).days + 1)]
    top = max(known, key=lambda day: known[day])
    kind = found.series[0].column.kind
    total = "" if kind in ("share", "change", "duration_ms") else f"total {format_cell(_total(found), kind)}, "
    said = f"{found.chart.title}: {total}most {format_cell(by_day[top], kind)} on {top}; {first} to {last}"
    return said, "".join(_mark(by_day, day, known.get(top, Fraction(0))) for day in days)


def _total(found: Drawn) -> Cell:
    return sum_of([total_at(found.series, at) for at in range(len(found.places))])


def _mark(by_day: dict[date, Cell], day: date, most: Fraction) -> str:
    if day not in by_day:
        return NOTHING
    value = number(by_day[day])
    if value is None:
        return NOT_KNOWN
    return MARKS[ceil(value / most * len(MARKS)) - 1] if value else NOTHING
