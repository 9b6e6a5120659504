"""A page's main table as CSV for spreadsheets and data frames (RFC 4180, UTF-8, line feeds).

In: a `Page`. Out: a heading line and one line per row; the first column, `row`, tells a `line` from the `total`.
Invariant: amounts are decimal strings as in JSON, unknown is an empty field, and `lower_bounds` names the columns that
are "this or more". A text that a spreadsheet would run as a formula is led by an apostrophe.
"""

from __future__ import annotations

import csv
from io import StringIO

from reports.page import Cell, Column, Money, Page
from reports.render.json import json_cell

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def render_csv(page: Page) -> str:
    """Return the page's first table as CSV. Notes and footer are not in it: show them apart.

    Args:
        page: the page.
    """
    table = page.tables[0]
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", *(column.key for column in table.columns), "lower_bounds"])
    for row in table.rows:
        writer.writerow(["line", *_fields(table.columns, row)])
    if table.total is not None:
        writer.writerow(["total", *_fields(table.columns, table.total)])
    return out.getvalue()


def _fields(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> list[str]:
    bounds = [
        column.key for column, cell in zip(columns, row, strict=True) if isinstance(cell, Money) and cell.lower_bound
    ]
    return [*(_field(cell, column) for cell, column in zip(row, columns, strict=True)), " ".join(bounds)]


def _field(cell: Cell, column: Column) -> str:
    value = json_cell(cell, column.kind)
    if value is None:
        return ""
    if isinstance(cell, str) and column.kind == "text" and cell.startswith(_FORMULA):
        return f"'{cell}"
    return str(value)
