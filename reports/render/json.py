"""A page as JSON for other programs.

In: a `Page`. Out: one object: `report`, `title`, `parameters`, `charts`, `tables` by name, `notes`, `footer`.
Invariant: an amount of money is a decimal string, exact unless the row names it in `rounded` (no finite decimal form:
rounded half-even at 1e-12); one whose row names it in `lower_bounds` is "this or more"; unknown is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from reports.page import Cell, Chart, Column, Fact, Kind, Money, Page, Table
from reports.render.numbers import decimal_text
from reports.render.sections import fill


def render_json(page: Page) -> str:
    """Return the page as indented JSON that ends with a line feed.

    Args:
        page: the page.
    """
    value = {
        "report": page.name,
        "title": page.title,
        "parameters": _facts(page.parameters),
        "charts": [_chart(chart) for chart in page.charts],
        "tables": {table.name: _table(table) for table in page.tables},
        "notes": [{"kind": note.kind, "text": fill(note), "values": _values(note.values)} for note in page.notes],
        "footer": _facts(page.footer),
    }
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def has_currency(column: Column) -> bool:
    """Return whether a column's cells are `Money`."""
    return column.kind in ("money", "exact", "rate", "exchange_rate")


def json_cell(cell: Cell, kind: Kind) -> str | int | float | None:
    """Return a cell as a JSON value: money as a decimal string, a whole number as an integer, any other as a float."""
    if cell is None or isinstance(cell, str | int):
        return cell
    if isinstance(cell, Money):
        return decimal_text(cell.value)[0]
    if kind in ("count", "tokens") and cell.denominator == 1:
        return int(cell)
    return float(cell)


def _chart(chart: Chart) -> dict[str, Any]:
    """Return what a chart shows of which table, so that another program can draw it."""
    return {
        "name": chart.name,
        "title": chart.title,
        "kind": chart.kind,
        "table": chart.table,
        "x": chart.x,
        "y": list(chart.y),
        "group": chart.group,
        "label": chart.label,
        "description": chart.description,
    }


def _table(table: Table) -> dict[str, Any]:
    rows = (*table.rows, *(() if table.total is None else (table.total,)))
    return {
        "title": table.title,
        "columns": [_column(column, [row[at] for row in rows]) for at, column in enumerate(table.columns)],
        "rows": [_row(table.columns, row) for row in table.rows],
        "total": None if table.total is None else _row(table.columns, table.total),
    }


def _column(column: Column, cells: list[Cell]) -> dict[str, Any]:
    currencies = sorted({cell.currency for cell in cells if isinstance(cell, Money)})
    value: dict[str, Any] = {"key": column.key, "title": column.title, "kind": column.kind}
    return value | ({"currencies": currencies} if has_currency(column) else {})


def _row(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> dict[str, Any]:
    pairs = list(zip(columns, row, strict=True))
    value: dict[str, Any] = {column.key: json_cell(cell, column.kind) for column, cell in pairs}
    amounts = [(column.key, cell) for column, cell in pairs if isinstance(cell, Money)]
    rates = [
        cell.currency for column, cell in pairs if column.kind in ("rate", "exchange_rate") and isinstance(cell, Money)
    ]
    marks: dict[str, Any] = {
        "rate_currency": rates[0] if rates else None,
        "lower_bounds": [key for key, cell in amounts if cell.lower_bound],
        "rounded": [key for key, cell in amounts if not decimal_text(cell.value)[1]],
    }
    return value | {mark: keys for mark, keys in marks.items() if keys}


def _facts(facts: Iterable[Fact]) -> dict[str, Any]:
    return {fact.key: json_cell(fact.value, fact.kind) for fact in facts}


def _values(values: Mapping[str, tuple[Cell, Kind]]) -> dict[str, Any]:
    return {name: json_cell(cell, kind) for name, (cell, kind) in values.items()}
