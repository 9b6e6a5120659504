"""What a chart draws: the series of one of the page's tables, exact.

In: a `Page` and one of its charts. Out: places along the bottom and, for each series, a cell at each place.
Invariant: a height is a cell, or the exact sum of the cells that share place and series; unknown stays None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from reports.page import Cell, Chart, Column, Money, Page, Table
from reports.render.numbers import format_cell

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Series:
    """One series.

    Args:
        name: what it is called.
        column: the column of its heights.
        cells: a cell at each place, None where nothing is known.
        unknown: the places where the table has a row and the row no value; elsewhere None says that there is no row.
    """

    name: str
    column: Column
    cells: tuple[Cell, ...]
    unknown: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Drawn:
    """The numbers of a chart.

    Args:
        chart: the chart.
        bottom: the column along the bottom.
        places: its cells in the table's order, each once; of `points`, one for each row.
        series: the series, in the table's or the columns' order.
        days: the places as dates, or empty where they are none.
        group: the heading of the column whose values are the series, or an empty text.
    """

    chart: Chart
    bottom: Column
    places: tuple[Cell, ...]
    series: tuple[Series, ...]
    days: tuple[date, ...]
    group: str = ""

    @property
    def unit(self) -> str:
        """Return the currency of the heights, or an empty text where they are not money or of several."""
        codes = {cell.currency for each in self.series for cell in each.cells if isinstance(cell, Money)}
        return codes.pop() if len(codes) == 1 else ""

    def known(self) -> list[Fraction]:
        """Return every height that is known."""
        return [value for each in self.series for cell in each.cells if (value := number(cell)) is not None]


def drawn(page: Page, chart: Chart) -> Drawn:
    """Return the numbers of a chart.

    Args:
        page: the page whose table the chart shows.
        chart: the chart.

    Raises:
        KeyError: the page has no such table, or the table no such column.
    """
    table = page.table(chart.table)
    columns = {column.key: column for column in table.columns}
    bottom = columns[chart.x]
    labels = table.column(chart.x)
    group = columns[chart.group].title if chart.group else ""
    if chart.kind == "points":
        return Drawn(chart, bottom, labels, _by_row(table, chart, columns[chart.y[0]]), (), group)
    places = tuple(dict.fromkeys(labels))
    series: tuple[Series, ...]
    if chart.group is None:
        series = tuple(_series(columns[key].title, columns[key], places, labels, table.column(key)) for key in chart.y)
    else:
        series = _grouped(table, chart.group, columns[chart.y[0]], places, labels)
    return Drawn(chart, bottom, places, series, days_of(places), group)


def number(cell: Cell) -> Fraction | None:
    """Return a cell's number; None where it is unknown or a text."""
    if isinstance(cell, Money):
        return cell.value
    return None if cell is None or isinstance(cell, str) else Fraction(cell)


def total_at(series: Sequence[Series], at: int) -> Cell:
    """Return the exact sum of all series at a place.

    None where a part is known to be unknown and none is known; 0 is not invented: where no series has a row, None too.
    An amount with an unknown part is a lower bound.
    """
    found = _sum([each.cells[at] for each in series if each.cells[at] is not None])
    if isinstance(found, Money) and any(at in each.unknown for each in series):
        return Money(found.value, found.currency, lower_bound=True)
    return found


def sum_of(cells: Sequence[Cell]) -> Cell:
    """Return the exact sum of what is known, None where nothing is; an amount with an unknown part is a lower bound."""
    found = _sum([cell for cell in cells if cell is not None])
    if isinstance(found, Money) and any(cell is None for cell in cells):
        return Money(found.value, found.currency, lower_bound=True)
    return found


def shown(cell: Cell, column: Column) -> str:
    """Return a cell with its currency, as a tooltip says it."""
    text = format_cell(cell, column.kind)
    return f"{text} {cell.currency}" if isinstance(cell, Money) and column.kind in ("money", "exact") else text


def days_of(places: Sequence[Cell]) -> tuple[date, ...]:
    """Return the places as dates; empty where one of them is none."""
    found = []
    for place in places:
        if not isinstance(place, str) or not _DAY.fullmatch(place):
            return ()
        try:
            found.append(date.fromisoformat(place))
        except ValueError:
            return ()
    return tuple(found)


def names_of(page: Page, chart: Chart) -> list[str]:
    """Return the text that stands at each row's point; empty texts where the chart names no column."""
    table = page.table(chart.table)
    if chart.label is None:
        return [""] * len(table.rows)
    kind = next(column.kind for column in table.columns if column.key == chart.label)
    return [format_cell(cell, kind) for cell in table.column(chart.label)]


def _by_row(table: Table, chart: Chart, height: Column) -> tuple[Series, ...]:
    """Return a series for each value of the group's column, with a place for each row."""
    cells = table.column(height.key)
    if chart.group is None:
        return (Series(height.title, height, cells),)
    groups = table.column(chart.group)
    kind = next(column.kind for column in table.columns if column.key == chart.group)
    return tuple(
        Series(
            format_cell(name, kind),
            height,
            tuple(cell if of == name else None for of, cell in zip(groups, cells, strict=True)),
        )
        for name in dict.fromkeys(groups)
    )


def _grouped(
    table: Table, group: str, height: Column, places: tuple[Cell, ...], labels: tuple[Cell, ...]
) -> tuple[Series, ...]:
    """Return a series for each value of the group's column."""
    kind = next(column.kind for column in table.columns if column.key == group)
    groups, heights = table.column(group), table.column(height.key)
    found = []
    for name in _in_order(labels, groups):
        at = [place for place, of in enumerate(groups) if of == name]
        own = [labels[place] for place in at], [heights[place] for place in at]
        found.append(_series(format_cell(name, kind), height, places, *own))
    return tuple(found)


def _in_order(labels: Sequence[Cell], groups: Sequence[Cell]) -> list[Cell]:
    """Return the groups in the order they have at each place, though some places lack some of them."""
    order: list[Cell] = []
    before: tuple[Cell, int] = (None, -1)
    for label, group in zip(labels, groups, strict=True):
        at = before[1] if label == before[0] else -1
        if group not in order:
            order.insert(at + 1, group)
        before = (label, order.index(group))
    return order


def _series(
    name: str, column: Column, places: tuple[Cell, ...], labels: Sequence[Cell], cells: Sequence[Cell]
) -> Series:
    """Return a series; rows that share a place are added up."""
    by_place: dict[Cell, list[Cell]] = {}
    for label, cell in zip(labels, cells, strict=True):
        by_place.setdefault(label, []).append(cell)
    heights = tuple(_sum(by_place.get(place, [])) for place in places)
    unknown = frozenset(at for at, place in enumerate(places) if heights[at] is None and place in by_place)
    return Series(name, column, heights, unknown)


def _sum(cells: Sequence[Cell]) -> Cell:
    """Return the exact sum; None where a part is unknown or there is none; a single cell as it is."""
    if len(cells) == 1:
        return cells[0]
    values = [number(cell) for cell in cells]
    if not values or any(value is None for value in values):
        return None
    total = sum((value for value in values if value is not None), Fraction(0))
    amounts = [cell for cell in cells if isinstance(cell, Money)]
    if not amounts:
        return total
    return Money(total, amounts[0].currency, any(amount.lower_bound for amount in amounts))
