"""A table cut into the sections that text and Markdown show one below the other.

In: a `Table`. Out: `Section`s, each with the row's label and the columns of one panel. Invariant: no cell is changed;
an optional column without anything in it is left out, and so is a section that has nothing but labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.page import Cell, Column, Fact, Kind, Money, Note, Table
from reports.render.numbers import format_cell

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Section:
    """Some columns of a table. `title` is what stands above them; `total` is None where the table has none."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] | None


def sections(table: Table) -> tuple[Section, ...]:
    """Return the table's sections in the order of its panels; one section where it has none."""
    label = table.columns[0].key
    wanted = [(panel.title, (label, *panel.keys)) for panel in table.panels]
    if not wanted:
        wanted = [(table.title, tuple(column.key for column in table.columns))]
    cut = (_section(table, title, keys) for title, keys in wanted)
    return tuple(section for section in cut if len(section.columns) > 1)


def fill(note: Note) -> str:
    """Return a note's sentence with its values in place; braces around anything else stand as they are."""
    texts = {name: format_cell(cell, kind) for name, (cell, kind) in note.values.items()}
    return _PLACE.sub(lambda place: texts.get(place[1], place[0]), note.text)


def note_parts(note: Note) -> tuple[str | tuple[Cell, Kind], ...]:
    """Return a note cut into what stands in its sentence and its values, in their order."""
    parts = _PLACE.split(note.text)  # sentence, name, sentence, name, …
    return tuple(part if at % 2 == 0 else note.values.get(part, f"{{{part}}}") for at, part in enumerate(parts) if part)


def fact_text(fact: Fact) -> str:
    """Return a fact as `label: value`."""
    return f"{fact.label}: {format_cell(fact.value, fact.kind)}"


def _section(table: Table, title: str, keys: tuple[str, ...]) -> Section:
    at = [place for place, column in enumerate(table.columns) if column.key in keys and _is_shown(table, place)]
    rows = tuple(tuple(row[place] for place in at) for row in table.rows)
    total = None if table.total is None else tuple(table.total[place] for place in at)
    return Section(title, tuple(table.columns[place] for place in at), rows, total)


def _is_shown(table: Table, place: int) -> bool:
    if not table.columns[place].optional:
        return True
    rows = (*table.rows, *(() if table.total is None else (table.total,)))
    return any(not _is_empty(row[place]) for row in rows)


def _is_empty(cell: Cell) -> bool:
    return cell is None or cell in ("", 0) or (isinstance(cell, Money) and cell.value == 0 and not cell.lower_bound)
