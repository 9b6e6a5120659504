"""A page as text for a terminal or a pipe.

In: a `Page`. Out: lines of text that fit into `width` columns, or as many as the widest figure needs; no figure is cut.
Invariant: without `color` there are no control codes, and no meaning is carried by colour alone.
"""

from __future__ import annotations

from io import StringIO
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from reports.page import Page
from reports.render.columns import BETWEEN, Block, blocks
from reports.render.numbers import printable
from reports.render.sections import fact_text, fill, sections
from reports.render.sparkline import sparklines


def render_text(page: Page, *, width: int = 80, color: bool = False) -> str:
    """Return the page as text that ends with a line feed.

    Args:
        page: the page.
        width: columns to fit into where the figures allow it.
        color: whether headings may carry terminal codes.
    """
    out = StringIO()
    console = _console(out, width, color=color)
    console.print(Text(printable(page.title), style="bold"), overflow="fold")
    for line in sparklines(page):
        console.print(Text(printable(line)), overflow="fold")
    for table in page.tables:
        for section in sections(table):
            for block in blocks(section, width):
                _print_block(console, block)
    _print_notes(console, page)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _console(out: StringIO, width: int, *, color: bool) -> Console:
    return Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def _print_block(console: Console, block: Block) -> None:
    """Print a block as it is laid out: a rule below the headings and one above the total, in ASCII for every pipe."""
    rule = "-" * (sum(column.width for column in block.columns) + BETWEEN * (len(block.columns) - 1))
    rows = [_row(block, at) for at in range(len(block.columns[0].cells))]
    end = [rule, *rows.pop()] if block.has_total else []
    lines = [rule, *(line for row in rows for line in row), *end]
    console.print(Text(f"\n{printable(block.title)}", style="bold"), overflow="fold")
    headings = "\n".join(_heading(block))
    console.print(Text(headings, style="bold"), no_wrap=True, overflow="ignore", crop=False)
    console.print(Text("\n".join(lines)), no_wrap=True, overflow="ignore", crop=False)


def _heading(block: Block) -> list[str]:
    """Return the lines of the headings, each ending on the last one."""
    titles = [column.title.split("\n") for column in block.columns]
    height = max(map(len, titles))
    return _joined(block, [[""] * (height - len(title)) + title for title in titles])


def _row(block: Block, at: int) -> list[str]:
    return _joined(block, [column.cells[at].split("\n") for column in block.columns])


def _joined(block: Block, cells: list[list[str]]) -> list[str]:
    """Return cells of several lines side by side, each padded to its column."""
    widths = [column.width for column in block.columns]
    return [
        (" " * BETWEEN).join(text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True))
        for line in zip_longest(*cells, fillvalue="")
    ]


def _print_notes(console: Console, page: Page) -> None:
    if page.notes:
        console.print()
    for note in page.notes:
        mark, style = ("warning: ", "bold") if note.kind == "warning" else ("note: ", "")
        console.print(Text(mark + printable(fill(note)), style=style), overflow="fold")
    console.print()
    for fact in page.footer:
        console.print(Text(fact_text(fact)), overflow="fold")
