"""JSON of other people: lines, one list, or documents one behind the other, an item at a time.

In: a `SourceFile`. Out: items, numbers with a fraction as `Decimal`. Invariant: memory holds one item and a piece of
the file; a line of JSON lines that is none is rejected alone, while a document that is cut is refused whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, TextIO

from router.errors import WrongUsage
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import Rejected

_PIECE = 1 << 18
_LARGEST_ITEM = 32 << 20  # characters of one item of a document: a page of an API is a few million
_LONGEST_SIGN = 20  # characters: an escaped pair of surrogates has 12, a name like false 5
BLANKS = " \t\r\n"


class _NoNumberError(ValueError):
    """NaN or Infinity, which some writers put into JSON."""


def _refuse(name: str) -> Any:
    raise _NoNumberError(f"{name} is no number of JSON")


DECODER: Any = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def is_whole(text: str) -> bool:
    """Return whether a text is one whole JSON value."""
    try:
        DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def parse_json(text: str) -> Any:
    """Return what a JSON text says, numbers with a fraction as `Decimal`.

    Raises:
        ValueError: it is not JSON, or nested too deeply to be read.
    """
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_items(file: SourceFile) -> Iterator[tuple[int, Any | Rejected]]:
    """Yield the items of a JSON file: each line's value, each element of a list, each of several documents.

    Args:
        file: of the kind "lines" or "document".

    Returns:
        The line (of JSON lines) or the item's number, from 1; and the value, or a `Rejected` for a line that is none.

    Raises:
        WrongUsage: a document is cut or is not JSON.
    """
    for numbers, values in json_pieces(file):
        yield from zip(numbers, values, strict=True)


def json_pieces(file: SourceFile) -> Iterator[tuple[Sequence[int], Sequence[Any | Rejected]]]:
    """Yield the same as `json_items`, some at once: the numbers, and the values.

    Args:
        file: as there.

    Raises:
        WrongUsage: as there.
    """
    if file.kind == "lines":
        for lines in file.line_pieces():
            yield lines.values()
        return
    with file.text() as text:
        for some in file.some_at_once(_Document(file, text).items()):
            numbers, values = zip(*some, strict=True)
            yield numbers, values


class _Document:
    """A JSON document that is read piece by piece."""

    def __init__(self, file: SourceFile, text: TextIO) -> None:
        self._file, self._text = file, text
        self._buffer, self._at, self._line = "", 0, 1
        self._ended = False

    def items(self) -> Iterator[tuple[int, Any]]:
        number = 0
        while (sign := self._next()) != "":
            if sign == "[":
                self._at += 1
                for item in self._elements():
                    number += 1
                    yield number, item
            else:
                number += 1
                yield number, self._value()

    def _elements(self) -> Iterator[Any]:
        if self._next() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            sign = self._next()
            if sign not in {",", "]"}:
                raise self._fault("a comma or ] is missing" if sign else "it is cut")
            self._at += 1
            if sign == "]":
                return

    def _next(self) -> str:
        """Return the next character that is no blank, "" at the end."""
        while True:
            size = len(self._buffer)
            while self._at < size and self._buffer[self._at] in BLANKS:
                self._at += 1
            if self._at < size:
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = DECODER.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError):
                    raise self._fault("it is nested too deeply") from None
                if self._is_certain(error) or not self._more():
                    raise self._fault(self._reason(error)) from None
                continue
            if end < len(self._buffer) or self._buffer[end - 1] in '}]"' or not self._more():
                self._at = end
                return value

    def _is_certain(self, error: ValueError) -> bool:
        """Return whether more text would not mend it: the fault lies well before the end of what has been read."""
        at = getattr(error, "pos", len(self._buffer))
        if isinstance(error, _NoNumberError):
            return True
        return "Unterminated" not in str(error) and at < len(self._buffer) - _LONGEST_SIGN

    def _reason(self, error: ValueError) -> str:
        if isinstance(error, _NoNumberError):
            return str(error)
        at = getattr(error, "pos", len(self._buffer))
        is_cut = len(self._buffer.rstrip()) - at < 2 or "Unterminated" in str(error)
        return "it is cut" if is_cut else str(getattr(error, "msg", error))

    def _more(self) -> bool:
        """Read on; the longer the item, the more at once, so that an item is parsed few times."""
        rest = self._buffer[self._at :]
        if len(rest) >= _LARGEST_ITEM:
            raise self._fault(f"an item is longer than {_LARGEST_ITEM:,} characters")
        self._line += self._buffer.count("\n", 0, self._at)
        piece = "" if self._ended else self._text.read(max(_PIECE, len(rest)))
        self._ended = piece == ""
        self._buffer, self._at = rest + piece, 0
        return not self._ended

    def _fault(self, reason: str) -> WrongUsage:
        line = self._line + self._buffer.count("\n", 0, self._at)
        message = f"file {self._file.path}: the JSON item that begins in line {line} cannot be read: {reason}"
        return WrongUsage(f"{message}; nothing of the file is imported", hint="export it again, whole")
