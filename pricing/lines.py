"""Where in a TOML text a key stands, for messages about it.

In: a text that `tomllib` has read without complaint, and a path of keys and indices. Out: a line number. Invariant:
only positions are read here, never values; the meaning of a document is tomllib's alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

Path = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_ATOM = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(["\\bfnrt]))')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def line_of(text: str, path: Path) -> int | None:
    """Return the line, counted from 1, on which a key, a table or an item of an array is defined.

    Args:
        text: a valid TOML document.
        path: keys from the root; an integer is the index of an item of an array, counted from 0. The n-th `[[prices]]`
            is ("prices", n), its key `model` is ("prices", n, "model").

    Returns:
        The line of the longest part of `path` that is found; None where not even its first key is.
    """
    places = _places(text)
    for length in range(len(path), 0, -1):
        line = places.get(path[:length])
        if line is not None:
            return line
    return None


@lru_cache(maxsize=16)
def _places(text: str) -> dict[Path, int]:
    return _Scanner(text).scan()


class _Scanner:
    """Walks a TOML document once and notes the line of each path."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._places: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        """Return every path with its line; of a text that is not TOML, those before the first surprise."""
        table: Path = ()
        try:
            while self._skip(_SPACE) and self._at < len(self._text):
                if self._text.startswith("[", self._at):
                    table = self._header()
                else:
                    self._pair(table)
        except _SurpriseError:
            pass
        return self._places

    def _header(self) -> Path:
        start = self._at
        brackets = "[[" if self._text.startswith("[[", self._at) else "["
        self._at += len(brackets)
        *parents, last = self._dotted_key()
        self._at += len(brackets)
        table: Path = ()
        for key in parents:
            table = self._entered((*table, key), start)
        table = (*table, last)
        if brackets == "[[":
            self._note(table, start)
            self._counts[table] = self._counts.get(table, -1) + 1
        return self._entered(table, start)

    def _entered(self, table: Path, start: int) -> Path:
        """Return the path of a table, or of the last one where it is an array of tables."""
        self._note(table, start)
        if table in self._counts:
            table = (*table, self._counts[table])
            self._note(table, start)
        return table

    def _pair(self, table: Path) -> None:
        start = self._at
        path = table
        for key in self._dotted_key():
            path = (*path, key)
            self._note(path, start)
        self._expect("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        if self._take("["):
            self._items(path, "]")
        elif self._take("{"):
            self._items(path, "}")
        elif not self._match(_STRING) and not self._match(_ATOM):
            raise _SurpriseError

    def _items(self, path: Path, closing: str) -> None:
        """Walk an array's items or an inline table's pairs, up to and with the closing bracket."""
        index = 0
        while self._skip(_SPACE) and not self._take(closing):
            if closing == "]":
                self._note((*path, index), self._at)
                self._value((*path, index))
            else:
                self._pair(path)
            index += 1
            self._skip(_SPACE)
            self._take(",")

    def _dotted_key(self) -> list[str]:
        keys = []
        while True:
            self._skip(_BLANK)
            quoted = self._match(_STRING)
            keys.append(_unquoted(quoted) if quoted else self._match(_BARE_KEY) or "")
            if not keys[-1] and not quoted:
                raise _SurpriseError
            self._skip(_BLANK)
            if not self._take("."):
                return keys

    def _note(self, path: Path, offset: int) -> None:
        self._places.setdefault(path, bisect_right(self._starts, offset))

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found.group()

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        self._match(pattern)
        return True

    def _take(self, literal: str) -> bool:
        if not self._text.startswith(literal, self._at):
            if self._at >= len(self._text):
                raise _SurpriseError
            return False
        self._at += len(literal)
        return True

    def _expect(self, literal: str) -> None:
        if not self._take(literal):
            raise _SurpriseError


class _SurpriseError(Exception):
    """The text is not TOML from here on."""


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    return _ESCAPE.sub(lambda match: _unescaped(*match.groups()), text[1:-1])


def _unescaped(short_code: str | None, long_code: str | None, character: str | None) -> str:
    code = short_code or long_code
    if code:
        return chr(int(code, 16))
    return _SHORT.get(character or "", character or "")
