"""Objects and arrays in a text, read strictly or with the slips of writing that leave one meaning.

In: a text. Out: `Region`s, in order. Invariant: pure; a slip that is mended loses and adds nothing: trailing commas,
comments, single and curly quotes, Python's literals, bare keys, quotes and line ends inside a text. Where two readings
are possible, a region is broken.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

_MOST_SCANNED = 1_000_000  # characters of broken regions looked at in all, about a second; the first is never too long
_MOST_BROKEN = 50


# An object or array as it may begin; a brace of prose begins otherwise.
_OBJECT = re.compile(r"""\{\s{0,1000}(?:["'“}]|[A-Za-z_]\w{0,100}\s{0,10}:|//|/\*|\#)""")
_ARRAY = re.compile(r"(?:\A|```\w{0,10})\s{0,1000}(?=\[)")
_SPACE = r"\s{0,1000}"
# What stands behind the quote that ends a text; any other quote belongs to it.
_AFTER_COMMA = rf"""["'“{{\[}}\]\-\d]|//|/\*|\#|\Z|[A-Za-z_]\w{{0,100}}{_SPACE}[:,\]}}]"""
_NEXT_KEY = rf"""["'][\w -]{{1,60}}["']{_SPACE}:"""
_END = rf"""(?={_SPACE}(?:[:\]}}]|//|/\*|\#|\Z|,{_SPACE}(?:{_AFTER_COMMA})|{_NEXT_KEY}))"""
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
    |"(?P<double>(?:[^"\\]|\\.|"(?!{_END}))*)"{_END}
    |'(?P<single>(?:[^'\\]|\\.|'(?!{_END}))*)'{_END}
    |“(?P<curly>(?:[^”\\]|\\.)*)”
    |(?P<number>-?\d[\w.+\-]*)
    |(?P<word>-?[A-Za-z_]\w*)
    |(?P<sign>[{{}}\[\],:])
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_LITERALS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_NO_NUMBERS = frozenset({"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"})
# Quotes inside a text that are not escaped. In a key, before a comment, or with nothing between two of them they say
# that something is missing there.
_LOOSE = {"double": re.compile(r'(?<!\\)"'), "single": re.compile(r"(?<!\\)'"), "curly": re.compile("“")}
_EMPTY = {name: re.compile(rf"{quote.pattern}\s*{quote.pattern}") for name, quote in _LOOSE.items()}
UNREADABLE = "?"
"""Stands for a token that could be read in two ways."""
_IN_TEXT = re.compile(r'\\(.)|"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a text that begins like an object or array.

    Args:
        start, end: its place; `end` None: it does not end.
        value: what it says.
        how: whether it is strict JSON or was mended; None: it is broken.
        said: of a broken one that ends, its tokens as JSON writes them.
    """

    start: int
    end: int | None
    value: Any = None
    how: Literal["extracted", "repaired"] | None = None
    said: tuple[str, ...] = ()


def strict(text: str) -> Any:
    """Return the value of a text that is JSON and nothing else.

    Raises:
        ValueError: it is not, it holds NaN or a number beyond all numbers, or it is nested too deep.
    """
    try:
        return json.loads(text, strict=False, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> None:
    message = f"{name} is no value"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        _refuse(digits)
    return number


class Reader:
    """Finds the regions of a text and reads each, strictly or with its slips mended."""

    def __init__(self, text: str, *, no_number_is_null: bool) -> None:
        self._text = text
        self._no_number = "null" if no_number_is_null else "NaN"  # which strict reading refuses
        self._scanned: list[int] = []
        self._is_loose = False  # whether a text of the last region has quotes of its own that are not escaped
        self._decoder = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)

    @property
    def is_spent(self) -> bool:
        """Whether so much has been looked at that it was given up."""
        return len(self._scanned) > _MOST_BROKEN or sum(self._scanned[1:]) > _MOST_SCANNED

    def outermost(self) -> Iterator[Region]:
        """Yield the regions, objects and arrays, that none before holds."""
        arrays = [found.end() for found in _ARRAY.finditer(self._text)]
        position: int | None = 0
        while position is not None and not self.is_spent:
            at = bisect_left(arrays, position)
            objects = _OBJECT.search(self._text, position)
            starts = arrays[at : at + 1] + ([objects.start()] if objects else [])
            if not starts:
                return
            region = self._read(min(starts))
            yield region
            position = region.end

    def objects(self) -> Iterator[Region]:
        """Yield the objects in order; what stands inside one that could be read is not looked at."""
        position = 0
        while not self.is_spent and (found := _OBJECT.search(self._text, position)) is not None:
            region = self._read(found.start())
            yield region
            position = found.start() + 1 if region.how is None or region.end is None else region.end

    def _read(self, start: int) -> Region:
        try:
            value, end = self._decoder.raw_decode(self._text, start)
        except (ValueError, RecursionError):
            pass
        else:
            return Region(start, end, value, "extracted")
        said, closed = self._mended(start)
        if closed is None:
            return Region(start, None)
        try:
            return Region(start, closed, strict("".join(said)), "repaired")
        except ValueError:
            return Region(start, closed, said=(UNREADABLE,) if self._is_loose else said)

    def _mended(self, start: int) -> tuple[tuple[str, ...], int | None]:
        """Return the region's tokens as JSON writes them, slips mended, and its end; None: it has none."""
        said: list[str] = []
        open_signs: list[str] = []
        end, self._is_loose = start, False
        for token in _TOKEN.finditer(self._text, start):
            kind, end = token.lastgroup, token.end()
            if kind == "sign":
                self._take_sign(token[0], said, open_signs)
                if not open_signs:
                    break
            elif kind == "other" and token[0] in "\"'“":
                break  # a text without an end
            elif kind not in ("space", "comment"):
                said.append(self._plain(token))
        self._scanned.append(end - start)
        return tuple(said), None if open_signs else end

    @staticmethod
    def _take_sign(sign: str, said: list[str], open_signs: list[str]) -> None:
        if sign in "{[":
            open_signs.append(sign)
        elif sign in "}]":
            if open_signs[-1] == ("{" if sign == "}" else "["):
                open_signs.pop()
            if said[-1] == ",":
                said.pop()
        elif sign == "," and said[-1] == "," and open_signs[-1] == "{":
            return  # between keys nothing can be missing
        said.append(sign)

    def _plain(self, token: re.Match[str]) -> str:
        """Return a token as strict JSON writes it; what it does not know stays, for the reading to refuse."""
        kind, text = token.lastgroup, token[0]
        after = self._text[token.end() : token.end() + 20].lstrip()
        if kind in ("double", "single", "curly"):
            is_loose = _LOOSE[kind].search(token[kind]) is not None
            if is_loose and (after[:1] in (":", "#") or after[:2] in ("//", "/*") or _EMPTY[kind].search(token[kind])):
                return UNREADABLE
            self._is_loose = self._is_loose or is_loose
            return f'"{_IN_TEXT.sub(_escaped, token[kind])}"'
        if kind != "word":
            return f" {text} "
        if after[:1] == ":":
            return json.dumps(text)
        return f" {self._no_number if text in _NO_NUMBERS else _LITERALS.get(text, text)} "


def _escaped(sign: re.Match[str]) -> str:
    """Return a quote with its backslash, and a backslash that escapes nothing as one that is meant."""
    if sign[1] is None:
        return '\\"'
    if sign[1] == "'":
        return "'"
    return sign[0] if sign[1] in '"\\/bfnrtux' else f"\\\\{sign[1]}"
