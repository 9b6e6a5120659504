"""A page as text for a terminal or a pipe.

In: a `Page`. Out: lines of text, at least `width` columns wide, wider where a table needs it; no figure is ever cut.
Invariant: without `color` there are no control codes, and no meaning is carried by colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from reports.page import Cell, Column, Page
from reports.render.numbers import format_cell, printable
from reports.render.sections import Section, fact_text, fill, sections

_UNIT = re.compile(r" (%|[A-Z]{3})$")
WIDEST = 10_000
"""Columns a table is measured in before the page's width is set to what it needs."""
RULED = box.Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)
"""A rule below the headings and one above the total, in ASCII, so that every pipe and terminal shows the same."""


def render_text(page: Page, *, width: int = 80, color: bool = False) -> str:
    """Return the page as text that ends with a line feed.

    Args:
        page: the page.
        width: columns to fit into where the tables allow it.
        color: whether headings may carry terminal codes.
    """
    out = StringIO()
    console = _console(out, color=color)
    cut = [(section.title, _grid(section)) for table in page.tables for section in sections(table)]
    needed = [Measurement.get(console, console.options, grid).maximum for _, grid in cut]
    console.width = max(width, *needed) if needed else width
    console.print(Text(printable(page.title), style="bold"))
    for title, grid in cut:
        console.print(Text(f"\n{title}", style="bold"))
        console.print(grid)
    _print_words(console, page, width)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _console(out: StringIO, *, color: bool) -> Console:
    return Console(
        file=out,
        width=WIDEST,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def _grid(section: Section) -> Grid:
    grid = Grid(box=RULED, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), show_footer=section.total is not None)
    rows = (*section.rows, *(() if section.total is None else (section.total,)))
    columns = [_aligned(column, [row[at] for row in rows]) for at, column in enumerate(section.columns)]
    for title, *cells in columns:
        grid.add_column(Text(title), Text(cells[-1] if section.total is not None else ""), no_wrap=True)
    for at in range(len(section.rows)):
        grid.add_row(*(Text(cells[at + 1]) for cells in columns))
    return grid


def _aligned(column: Column, cells: Sequence[Cell]) -> list[str]:
    """Return heading and cells, numbers set so that their decimal points stand below each other."""
    texts = [format_cell(cell, column.kind) for cell in cells]
    if column.kind == "text":
        return [column.title, *texts]
    tails = [_tail(text) for text in texts]
    texts = [text + " " * (max(tails, default=0) - tail) for text, tail in zip(texts, tails, strict=True)]
    width = max(len(text) for text in (column.title, *texts))
    return [text.rjust(width) for text in (column.title, *texts)]


def _tail(text: str) -> int:
    """Return how many characters stand from the decimal point on, a unit left aside."""
    number = _UNIT.sub("", text)
    return len(number) - number.index(".") if "." in number else 0


def _print_words(console: Console, page: Page, width: int) -> None:
    """Print notes and footer, wrapped at `width` whatever the tables needed."""
    console.width = width
    if page.notes:
        console.print()
    for note in page.notes:
        mark = "warning: " if note.kind == "warning" else "note: "
        console.print(Text(mark + printable(fill(note)), style="bold" if note.kind == "warning" else ""))
    console.print()
    for fact in page.footer:
        console.print(Text(fact_text(fact)))
