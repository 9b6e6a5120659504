"""Tables of delimited text, strictly: a row has as many cells as the head, and a quote that opens closes.

In: a `SourceFile` of the kind "table". Out: its head and its rows. Invariant: the sign between cells is that of the
head; a quote that is never closed, which would swallow rows, makes the whole file refused.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

from router.errors import WrongUsage
from router.ledger.importers.file import SourceFile

DELIMITERS = ",;\t|"
LONGEST_CELL = 4_000_000  # characters: exports of prompts have long ones
LONGEST_LINE = 16_000_000  # characters of one line of text; a row may have several


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
    if file.kind != "table":
        raise WrongUsage(f"file {file.path}: is {file.kind} of JSON or Parquet, not a table of text")
    found = _rows(file)
    head = [name.strip() for name in next(found, (0, [""]))[1]]
    twice = sorted({name for name in head if name and head.count(name) > 1})
    if twice:
        raise WrongUsage(f"file {file.path}: column {twice[0]!r} is there twice in its head", hint="rename one of them")
    return head, found


def _rows(file: SourceFile) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_CELL)
    with file.text() as text:
        reader = csv.reader(_lines(text), delimiter=delimiter_of(file.head), strict=True)
        line = 0
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
                line = reader.line_num
        except csv.Error as error:
            message = f"file {file.path}: the row that begins in line {line + 1} is not CSV: {error}"
            raise WrongUsage(f"{message}; nothing of the file is imported", hint="export it again, whole") from None


def _lines(text: TextIO) -> Iterator[str]:
    """Yield a table's lines; one without an end would be all of the file in memory."""
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
            raise csv.Error(f"a line is longer than {LONGEST_LINE:,} characters")
        yield line
