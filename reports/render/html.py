"""Pages as one HTML document that needs nothing else: no script, no file, no network.

In: `Page`s. Out: a document. Invariant: every value is escaped and carries its decimal, JSON's own, as `data-value`
(empty where unknown); a content policy refuses whatever is not the document's own style sheet.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from reports.page import Cell, Column, Fact, Kind, Note, Page, Table
from reports.render.charts import Picture, picture
from reports.render.headline import Card, headline
from reports.render.json import json_cell
from reports.render.numbers import format_cell, printable
from reports.render.sections import Section, note_parts, sections
from reports.render.svg import width_of

if TYPE_CHECKING:
    from jinja2 import Template


MOST_OPEN = 40
"""Rows of a table that stand open; a longer one is folded under its heading."""

MOST_ROWS = 250
"""Rows of a table that are written; what is left out is said beneath, and the total is of all of them."""

HALF = 500
"""Pixels that a table may take to stand beside another."""


@dataclass(frozen=True, slots=True)
class Value:
    """A cell: as people read it, and its exact decimal. `exact` is None for a text, and empty where it is unknown."""

    text: str
    exact: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """Some words of a note: of its sentence, or a value in it with its exact decimal."""

    text: str
    exact: str | None
    is_value: bool


@dataclass(frozen=True, slots=True)
class Head:
    """A column's heading."""

    key: str
    title: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that stand together. `is_alone`: its title is the table's, which stands above it already."""

    title: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Value, ...], ...]
    total: tuple[Value, ...] | None
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with the blocks it is cut into.

    Args:
        name: its key.
        title: its heading.
        id: its element's.
        blocks: the blocks.
        is_long: whether it is folded, so that what stands below it is found.
        is_wide: whether it needs the page's whole width.
        rows: how many rows it has.
        written: how many of them are written.
    """

    name: str
    title: str
    id: str
    blocks: tuple[Block, ...]
    is_long: bool
    is_wide: bool
    rows: int
    written: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture and the table behind it: folded below it, or the id where it stands."""

    picture: Picture
    table: Grid | None
    link: str | None


@dataclass(frozen=True, slots=True)
class Said:
    """A fact of the footer or of what was asked."""

    key: str
    label: str
    text: str
    exact: str | None


@dataclass(frozen=True, slots=True)
class View:
    """A page, ready to be written."""

    id: str
    name: str
    title: str
    parameters: tuple[Said, ...]
    cards: tuple[Card, ...]
    warnings: tuple[tuple[Part, ...], ...]
    figures: tuple[Shown, ...]
    tables: tuple[Grid, ...]
    notes: tuple[tuple[Part, ...], ...]
    footer: tuple[Said, ...]


def render_html(pages: Sequence[Page], *, title: str | None = None) -> str:
    """Return the pages as one self-contained document that ends with a line feed.

    Args:
        pages: one or more pages, in the order they are read.
        title: the document's heading; None: the first page's title.
    """
    views = [_view(page, f"r{at}") for at, page in enumerate(pages, 1)]
    style = _style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    heading = printable(title or pages[0].title)
    return _template().render(views=views, title=heading, style=style, policy=policy).rstrip() + "\n"


def _view(page: Page, key: str) -> View:
    grids = {table.name: _grid(table, f"{key}-{table.name}") for table in page.tables}
    open_tables = _open_tables(page)
    folded: set[str] = set()
    figures = []
    for chart in page.charts:
        is_first = chart.table not in folded and chart.table not in open_tables
        folded.add(chart.table)
        grid = grids[chart.table]
        figures.append(
            Shown(picture(page, chart, f"{key}-"), grid if is_first else None, None if is_first else grid.id)
        )
    return View(
        id=key,
        name=page.name,
        title=printable(page.title),
        parameters=_said(fact for fact in page.parameters if fact.value is not None),
        cards=headline(page),
        warnings=_notes(page, "warning"),
        figures=tuple(figures),
        tables=tuple(
            grids[table.name] for table in page.tables if table.name in open_tables and grids[table.name].blocks
        ),
        notes=_notes(page, "note"),
        footer=_said(page.footer),
    )


def _open_tables(page: Page) -> set[str]:
    """Return the tables that stand open: the main one, and those that no chart shows."""
    behind = {chart.table for chart in page.charts}
    return {table.name for at, table in enumerate(page.tables) if at == 0 or table.name not in behind}


def _grid(table: Table, key: str) -> Grid:
    rows = len(table.rows)
    table = replace(table, rows=table.rows[:MOST_ROWS])
    cut = sections(table) or sections(replace(table, panels=()))  # a table without panels to show is behind a chart
    blocks = tuple(_block(each, table) for each in cut)
    is_wide = len(blocks) > 2 or any(_width(block) > HALF for block in blocks)
    title, is_long = printable(table.title), rows > MOST_OPEN
    return Grid(table.name, title, key, blocks, is_long, is_wide, rows, len(table.rows))


def _block(section: Section, table: Table) -> Block:
    return Block(
        title=printable(section.title),
        heads=tuple(Head(column.key, printable(column.title), column.kind != "text") for column in section.columns),
        rows=tuple(_row(section.columns, row) for row in section.rows),
        total=None if section.total is None else _row(section.columns, section.total),
        is_alone=section.title == table.title,
    )


def _width(block: Block) -> float:
    """Return about how many pixels a block takes at the style sheet's 14 pixels; headings are broken between words."""
    rows = (*block.rows, *(() if block.total is None else (block.total,)))
    texts = ([*head.title.split(), *(row[at].text for row in rows)] for at, head in enumerate(block.heads))
    return sum(max(map(width_of, column)) * 14 / 12 + 22 for column in texts)


def _row(columns: tuple[Column, ...], row: tuple[Cell, ...]) -> tuple[Value, ...]:
    return tuple(_value(cell, column.kind) for cell, column in zip(row, columns, strict=True))


def _value(cell: Cell, kind: Kind) -> Value:
    return Value(format_cell(cell, kind), exact_text(cell, kind))


def exact_text(cell: Cell, kind: Kind) -> str | None:
    """Return a cell as JSON carries it, as text; empty where it is unknown, None in a column of texts."""
    if kind == "text":
        return None
    value = json_cell(cell, kind)
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"
    return "" if value is None else str(value)


def _notes(page: Page, kind: str) -> tuple[tuple[Part, ...], ...]:
    return tuple(_words(note) for note in page.notes if note.kind == kind)


def _words(note: Note) -> tuple[Part, ...]:
    """Return a note's parts: sentences, and values each set apart so that none can turn the sentence round."""
    return tuple(
        Part(printable(part), None, is_value=False)
        if isinstance(part, str)
        else Part(format_cell(*part), exact_text(*part), is_value=True)
        for part in note_parts(note)
    )


def _said(facts: Iterable[Fact]) -> tuple[Said, ...]:
    return tuple(
        Said(fact.key, fact.label, format_cell(fact.value, fact.kind), exact_text(fact.value, fact.kind))
        for fact in facts
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


@cache
def _style() -> str:
    """Return the style sheet as it stands in the document."""
    return "\n" + "\n".join(line.strip() for line in _file("page.css").splitlines()) + "\n"


def _file(name: str) -> str:
    return (files("reports.render") / "templates" / name).read_text(encoding="utf-8")
