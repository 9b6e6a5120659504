"""How wide each column of a table is in text, and into which blocks a table is cut that is wider than its page.

In: a `Section`, columns of the terminal. Out: `Block`s of texts. Invariant: names are folded, figures never; each block
begins with the table's first column; a Chinese, Japanese or Korean character takes two columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from rich.cells import cell_len, chop_cells

from reports.page import Cell, Column
from reports.render.numbers import format_cell
from reports.render.sections import Section

_UNIT = re.compile(r" (%|[A-Z]{3})$")
_BREAKS = re.compile(r"(?<=\s)(?=\S)|(?<=[/_:])|(?<=\D-)|(?<=-)(?=\D)")
"""Where a name is broken as long as there is room: after a blank, a slash, a hyphen; a date is not."""
BETWEEN = 2
NARROWEST, LABEL = 8, 24
"""Columns that names are folded to, at the least, and the first column's where the terminal has eighty."""


@dataclass(frozen=True, slots=True)
class Texts:
    """One column as text.

    Args:
        title: its heading, in lines where it is wider than its figures and there is no room.
        cells: its cells, the total's last where there is one; figures are padded to stand below each other.
        width: columns of the terminal.
        folds: whether its texts may be folded.
        least: columns that its texts are folded to at the least.
    """

    title: str
    cells: tuple[str, ...]
    width: int
    folds: bool
    least: int = NARROWEST


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that are shown together."""

    title: str
    columns: tuple[Texts, ...]
    has_total: bool


def blocks(section: Section, width: int) -> tuple[Block, ...]:
    """Return a section as blocks that fit into `width` where folding names and cutting between columns is enough.

    Args:
        section: some columns of a table.
        width: columns of the terminal.
    """
    rows = (*section.rows, *(() if section.total is None else (section.total,)))
    columns = [_texts(column, [row[at] for row in rows]) for at, column in enumerate(section.columns)]
    has_total = section.total is not None
    whole = columns if _width(columns) <= width else _folded([_with_short_heading(each) for each in columns], width)
    if _width(whole) <= width:
        return (Block(section.title, tuple(whole), has_total),)
    found = []
    for at, some in enumerate(_cut(columns, width)):
        title = section.title if at == 0 else f"{section.title}, continued"
        found.append(Block(title, tuple(_folded(some, width)), has_total))
    return tuple(found)


def _texts(column: Column, cells: Sequence[Cell]) -> Texts:
    """Return heading and cells, numbers set so that their decimal points stand below each other."""
    texts = [format_cell(cell, column.kind) for cell in cells]
    if column.kind == "text":
        width = max(cell_len(text) for text in (column.title, *texts))
        return Texts(column.title, tuple(texts), width, folds=True, least=width if column.whole else NARROWEST)
    tails = [_tail(text) for text in texts]
    texts = [text + " " * (max(tails, default=0) - tail) for text, tail in zip(texts, tails, strict=True)]
    width = max(cell_len(text) for text in (column.title, *texts))
    title, *padded = (" " * (width - cell_len(text)) + text for text in (column.title, *texts))
    return Texts(title, tuple(padded), width, folds=False)


def _tail(text: str) -> int:
    """Return how many characters stand from the decimal point on, a unit left aside."""
    number = _UNIT.sub("", text)
    return len(number) - number.index(".") if "." in number else 0


def _width(columns: Sequence[Texts]) -> int:
    return sum(column.width for column in columns) + BETWEEN * (len(columns) - 1)


def _with_short_heading(column: Texts) -> Texts:
    """Return a column of figures as wide as they are, its heading broken between words; a column of names as it is."""
    if column.folds:
        return column
    spare = min((len(cell) - len(cell.lstrip()) for cell in column.cells), default=0)
    width = max(column.width - spare, _longest_word(column.title))
    lines = wrap(column.title.strip(), width, break_long_words=False, break_on_hyphens=False)
    cells = tuple(cell[column.width - width :] for cell in column.cells)
    return replace(column, title="\n".join(line.rjust(width) for line in lines), cells=cells, width=width)


def _folded(columns: Sequence[Texts], width: int) -> list[Texts]:
    """Return the columns with the widest names folded until all fit: between words and after hyphens, then anywhere."""
    found = list(columns)
    for least in (_longest_piece, _least):
        while _width(found) > width:
            foldable = [(each.width, at) for at, each in enumerate(found) if each.folds and each.width > least(each)]
            if not foldable:
                break
            at = max(foldable)[1]
            found[at] = replace(found[at], width=found[at].width - 1)
    return [_in_lines(column) if column.folds else column for column in found]


def _in_lines(column: Texts) -> Texts:
    """Return a column of names with its texts in lines of its width."""
    lines = [_lines(text, column.width) for text in (column.title, *column.cells)]
    title, *cells = map("\n".join, lines)
    width = max(cell_len(line) for each in lines for line in each)
    return replace(column, title=title, cells=tuple(cells), width=width)


def _lines(text: str, width: int) -> list[str]:
    lines = [""]
    for piece in _BREAKS.split(text):
        if cell_len(lines[-1] + piece.rstrip()) > width and lines[-1]:
            lines.append("")
        parts = chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
        lines[-1] += parts[0]
        lines += parts[1:]
    return [line.rstrip() for line in lines]


def _longest_piece(column: Texts) -> int:
    """Return how far a column of names may be folded without breaking a word."""
    pieces = (piece.rstrip() for text in (column.title, *column.cells) for piece in _BREAKS.split(text))
    return max(column.least, *map(cell_len, pieces))


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _least(column: Texts) -> int:
    """Return how far a column of names may be folded: not into its heading's words."""
    return max(column.least, _longest_word(column.title))


def _cut(columns: Sequence[Texts], width: int) -> list[list[Texts]]:
    """Return the columns in blocks, each led by the first column."""
    label, *rest = map(_with_short_heading, columns)
    room = max(min(label.width, LABEL, width // 3), _least(label))
    first = replace(label, width=min(label.width, room)) if label.folds else label
    found: list[list[Texts]] = []
    for column in rest:
        least = replace(column, width=min(column.width, max(LABEL, _least(column)))) if column.folds else column
        if found and _width([*found[-1], least]) <= width:
            found[-1].append(least)
        else:
            found.append([first, least])
    return found or [[label]]
