"""A table of a page as CSV for spreadsheets and data frames (RFC 4180, UTF-8, line feeds).

In: a `Page`. Out: a heading line and one line per row; the first column, `row`, tells a `line` from the `total`.
Invariant: amounts are decimal strings as in JSON, unknown is an empty field, and `lower_bounds` names the columns that
are "this or more". A text that a spreadsheet would run as a formula is led by an apostrophe.
"""

from __future__ import annotations

import csv
from io import StringIO

from reports.page import Cell, Column, Money, Page, Table
from reports.render.json import json_cell
from router.errors import WrongUsage, unknown_name

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def render_csv(page: Page, name: str | None = None) -> str:
    """Return one of the page's tables as CSV. Notes and footer are not in it: show them apart.

    Args:
        page: the page.
        name: the table's name; None: the first one.

    Raises:
        WrongUsage: the page has no such table; those that it has are named.
    """
    table = table_named(page, name)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", *(column.key for column in table.columns), "lower_bounds"])
    for row in table.rows:
        writer.writerow(["line", *_fields(table.columns, row)])
    if table.total is not None:
        writer.writerow(["total", *_fields(table.columns, table.total)])
    return out.getvalue()


def table_named(page: Page, name: str | None) -> Table:
    """Return the page's table of that name; None: its first one.

    Raises:
        WrongUsage: the page has no such table; those that it has are named.
    """
    if name is None:
        return page.tables[0]
    try:
        return page.table(name)
    except KeyError:
        known = [table.name for table in page.tables]
        raise WrongUsage(
            str(unknown_name("table", name, known)), hint=f"tables of this page: {', '.join(known)}"
        ) from None


def lower_bounds(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> str:
    """Return the keys of the columns whose amount in a row is "this or more", with spaces between them."""
    pairs = zip(columns, row, strict=True)
    return " ".join(column.key for column, cell in pairs if isinstance(cell, Money) and cell.lower_bound)


def _fields(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> list[str]:
    return [*(_field(cell, column) for cell, column in zip(row, columns, strict=True)), lower_bounds(columns, row)]


def _field(cell: Cell, column: Column) -> str:
    value = json_cell(cell, column.kind)
    if value is None:
        return ""
    if isinstance(cell, str) and column.kind == "text" and cell.startswith(_FORMULA):
        return f"'{cell}"
    return str(value)
