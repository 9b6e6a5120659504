"""Tables of delimited text, strictly: a row has as many cells as the head, and a quote that opens closes.

In: a `SourceFile` of the kind "table". Out: its head and its rows. Invariant: the sign between cells is that of the
head; a quote that is never closed, which would swallow rows, makes the whole file refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TextIO

import numpy as np

from router.errors import WrongUsage
from router.ledger.importers.file import SourceFile

DELIMITERS = ",;\t|"
LONGEST_CELL = 4_000_000  # characters: exports of prompts have long ones
LONGEST_LINE = 16_000_000  # characters of one line of text; a row may have several

Pieces = Iterator[tuple[Sequence[int], list[list[str]]]]
_LINE_END = re.compile("\r\n|\r|\n")


class Cells(NamedTuple):
    """Some rows of a table, a column each.

    Args:
        lines: the line that each row ends in.
        columns: the cells of those that have as many as the head.
        ragged: the lines and cells of those that have not.
    """

    lines: Sequence[int]
    columns: Sequence[Sequence[str]]
    ragged: Sequence[tuple[int, list[str]]] = ()


def delimiter_of(head: str) -> str:
    """Return the sign between the cells of a table's first line: the one it has most of, outside quotes."""
    outside = "".join(head.strip().partition("\n")[0].split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def rows(file: SourceFile) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return a table's head, and an iterator of its rows with the line each ends in; empty rows are left out.

    Args:
        file: of the kind "table".

    Returns:
        Names without the blanks around them; rows of cells as they are written, of any number of cells.

    Raises:
        WrongUsage: it has no head, two columns of one name, or a quote that is never closed.
    """
    head, _, found = _opened(file)
    return head, chain.from_iterable(zip(lines, some, strict=True) for lines, some in found)


def columns(file: SourceFile) -> tuple[list[str], Iterator[Cells]]:
    """Return a table's head, and an iterator of its columns, some rows at once: fewer where rows are long.

    Args:
        file: as for `rows`.

    Raises:
        WrongUsage: as for `rows`.
    """
    head, line, found = _opened(file)
    if file.has_quotes or not file.has_short_lines:
        return head, (_cells(lines, some, len(head)) for lines, some in found)
    return head, _unquoted(file, len(head), line)


def _opened(file: SourceFile) -> tuple[list[str], int, Pieces]:
    """Return a table's head, the line it ends in, and the rows after it."""
    if file.kind != "table":
        raise WrongUsage(f"file {file.path}: is {file.kind} of JSON or Parquet, not a table of text")
    found = _pieces(file)
    lines, first = next(found, ((0,), [[""]]))
    head = [name.strip() for name in first[0]]
    twice = sorted({name for name in head if name and head.count(name) > 1})
    if twice:
        raise WrongUsage(f"file {file.path}: column {twice[0]!r} is there twice in its head", hint="rename one of them")
    return head, lines[0], found


def _unquoted(file: SourceFile, width: int, head_line: int) -> Iterator[Cells]:
    """Yield the columns of a table without quotes, whose rows are its lines."""
    delimiter, line = delimiter_of(file.head), 0
    for whole in file.whole_lines():
        text = whole
        if line < head_line:
            opened = io.StringIO(whole, newline="")
            while line < head_line and opened.readline():
                line += 1
            text = opened.read()
        found = _split(text, delimiter, width)
        if found is not None:
            yield Cells(range(line + 1, line + 1 + len(found[0])), found)
            line += len(found[0])
            continue
        reader = _reader(file, io.StringIO(text, newline=""))
        some = list(reader)
        if any(some):
            yield _cells(*_with_lines(some, line, line + reader.line_num), width)
        line += reader.line_num


def _split(text: str, delimiter: str, width: int) -> list[list[str]] | None:
    """Return the cells of lines without quotes, a column each; None: they are not all of that many cells.

    A blank line is a row of one cell or none; the reader of CSV knows which.
    """
    if width < 2 or not text or "\r" in text:
        return None
    text = text if text.endswith("\n") else f"{text}\n"
    signs = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    signs = signs[(signs == ord(delimiter)) | (signs == ord("\n"))]
    if len(signs) % width:
        return None
    rows = signs.reshape(-1, width)
    if (rows[:, :-1] != ord(delimiter)).any() or (rows[:, -1] != ord("\n")).any():
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
    return [cells[place:-1:width] for place in range(width)]


def _cells(lines: Sequence[int], rows: list[list[str]], width: int) -> Cells:
    """Return rows as columns."""
    if set(map(len, rows)) == {width}:
        return Cells(lines, list(zip(*rows, strict=True)))
    paired = list(zip(lines, rows, strict=True))
    whole = [(line, cells) for line, cells in paired if len(cells) == width]
    ragged = [(line, cells) for line, cells in paired if len(cells) != width]
    return Cells([line for line, _ in whole], list(zip(*(cells for _, cells in whole), strict=True)), ragged)


def check(file: SourceFile) -> None:
    """Read a table through, row by row.

    Args:
        file: as for `rows`.

    Raises:
        WrongUsage: as for `rows`.
    """
    _opened(file)  # its head
    if file.has_short_lines and not file.has_quotes:
        return  # no cell is too long, and no quote stays open: nothing else can be wrong with a table as a whole
    with file.text() as text:
        reader = _reader(file, text)
        line = 0
        try:
            for _ in reader:
                line = reader.line_num
        except csv.Error as error:
            raise _fault(file, line, error) from None


def _reader(file: SourceFile, text: TextIO) -> Any:
    csv.field_size_limit(LONGEST_CELL)
    return csv.reader(text if file.has_short_lines else _lines(text), delimiter=delimiter_of(file.head), strict=True)


def _pieces(file: SourceFile) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Yield the head alone, then the rows."""
    with file.text() as text:
        reader = _reader(file, text)
        line = 0
        try:
            head = next((cells for cells in reader if cells), None)
            if head is None:
                return
            yield (reader.line_num,), [head]
            line = reader.line_num
            for some in file.some_at_once(reader):
                yield _with_lines(some, line, reader.line_num)
                line = reader.line_num
        except csv.Error as error:
            raise _fault(file, line, error) from None


def _with_lines(some: list[list[str]], before: int, after: int) -> tuple[Sequence[int], list[list[str]]]:
    """Return rows with the line that each ends in; empty ones are left out."""
    if after - before == len(some) and [] not in some:
        return range(before + 1, after + 1), some
    lines: list[int] = []
    for cells in some:
        breaks = sum(len(_LINE_END.findall(cell)) for cell in cells)  # within quotes
        before += 1 + breaks
        lines.append(before)
    kept = [index for index, cells in enumerate(some) if cells]
    return [lines[index] for index in kept], [some[index] for index in kept]


def _fault(file: SourceFile, line: int, error: csv.Error) -> WrongUsage:
    message = f"file {file.path}: the row that begins in line {line + 1} is not CSV: {error}"
    return WrongUsage(f"{message}; nothing of the file is imported", hint="export it again, whole")


def _lines(text: TextIO) -> Iterator[str]:
    """Yield a table's lines; one without an end would be all of the file in memory."""
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
            raise csv.Error(f"a line is longer than {LONGEST_LINE:,} characters")
        yield line
