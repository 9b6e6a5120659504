"""A table of a page as Parquet, for data frames and databases.

In: a `Page`, an open binary file. Out: bytes in the file: the rows that CSV has, typed; title, parameters, notes and
footer as JSON under the key `farebox` of the file's metadata. Invariant: a column's type follows from its kind alone.
Amounts are decimal128(38, 22), exact unless JSON rounds them too or they have more decimals; unknown is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import IO, Any

from pricing.money import EXACT
from reports.export_columns import ExportColumn, ExportKind
from reports.export_files import PLACES, write_parquet
from reports.page import Cell, Column, Kind, Money, Page, Table
from reports.render.csv import lower_bounds, table_named
from reports.render.json import has_currency, json_cell, render_json

_KINDS: Mapping[Kind, ExportKind] = {
    "text": "text",
    "count": "count",
    "tokens": "quantity",
    "money": "price",
    "exact": "price",
    "rate": "price",
    "exchange_rate": "price",
}
"""Kinds of exported columns by kind of cell; shares, changes and milliseconds are floats."""


def render_parquet(page: Page, file: IO[bytes], name: str | None = None) -> None:
    """Write one of the page's tables.

    Args:
        page: the page.
        file: open for binary writing; it is not closed.
        name: the table's name; None: the first one.

    Raises:
        WrongUsage: the page has no such table, or pyarrow is not installed.
        RouterError: a number has more digits than the type has room for.
    """
    table = table_named(page, name)
    kinds = [_KINDS.get(column.kind, "number") for column in table.columns]
    columns = [ExportColumn("row", "text", "line or total")]
    for column, kind in zip(table.columns, kinds, strict=True):
        columns.append(ExportColumn(column.key, kind, column.title))
        if has_currency(column):
            columns.append(ExportColumn(f"{column.key}_currency", "text", "ISO 4217 code of the column before"))
    columns.append(ExportColumn("lower_bounds", "text", "columns whose amounts are this or more"))
    words = render_json(replace(page, tables=(), charts=()))
    write_parquet(file, columns, _rows(table, kinds), {"farebox": words})


def _rows(table: Table, kinds: list[ExportKind]) -> Iterator[tuple[Any, ...]]:
    totals = () if table.total is None else (("total", table.total),)
    for label, row in (*(("line", row) for row in table.rows), *totals):
        cells: list[Any] = [label]
        for cell, column, kind in zip(row, table.columns, kinds, strict=True):
            cells.append(_value(cell, column, kind))
            if has_currency(column):
                cells.append(cell.currency if isinstance(cell, Money) else None)
        yield (*cells, lower_bounds(table.columns, row))


def _value(cell: Cell, column: Column, kind: ExportKind) -> Any:
    value = json_cell(cell, column.kind)
    if value is None:
        return None
    if kind == "text":
        return str(value)
    return (
        value if kind not in PLACES else Decimal(str(value)).quantize(Decimal(1).scaleb(-PLACES[kind]), context=EXACT)
    )
