"""Broken JSON of models and tools, read where it can mean only one thing.

In: a text that should be, or hold, JSON. Out: `Repaired`: the value and how it was come by, or nothing.
Invariant: nothing is lost or made up. A text that was cut is never repaired; what a repair returns holds every sign of
what was written, in its order; NaN and Infinity are no values. Of a key that is written twice the last counts.

Order of repair: drop thinking; strict JSON; the last object that has the wanted keys, first strictly, then with the
slips that leave one meaning (trailing commas, comments, other quotes, Python's literals, bare keys); then json_repair,
whose guess is held against the text. Checking the value against its model is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from router.slips import Reader, Region, strict

How = Literal["strict", "extracted", "repaired", "raw"]
MOST_CHARACTERS = 2_000_000
"""A longer text is read strictly or not at all."""

_TAG = r"(?:think|thinking|thought|reasoning|scratchpad)"
_THINKING = re.compile(rf"<({_TAG})>(?:.*?</\1>)?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was found.

    Args:
        value: the JSON value; None where `how` is "raw".
        how: "strict": the whole text is JSON. "extracted": a part of it is. "repaired": slips were mended.
            "raw": there is none that could be read for certain, so the text has to go on as it is, marked.
        is_cut: whether the text ends before its JSON does: it has to be asked for again, with more room.
    """

    value: Any
    how: How
    is_cut: bool = False


_RAW = Repaired(None, "raw")
_CUT = Repaired(None, "raw", is_cut=True)


def repair_json(
    text: str, keys: Iterable[str] = (), *, finish_reason: str | None = None, no_number_is_null: bool = False
) -> Repaired:
    """Return the JSON value that a text holds, repaired where it can mean only one thing.

    Args:
        text: what a model or a tool said.
        keys: keys that the wanted object has; none: any object, or an array that the text or a fence begins with.
        finish_reason: as the upstream gave it; "length": the text was cut, and nothing in it is read.
        no_number_is_null: read NaN and Infinity as null, for values that a check follows; else the text is not read.
    """
    wanted = tuple(keys)
    if finish_reason == "length":
        return _CUT
    try:
        value = strict(text)
    except ValueError:
        pass
    else:
        return _held(value, wanted, "strict")
    body = _without_thinking(text)
    if body is None:
        return _CUT
    if len(body) > MOST_CHARACTERS:
        return _RAW
    return _found(body, wanted, Reader(body, no_number_is_null=no_number_is_null))


def _held(value: Any, keys: tuple[str, ...], how: How) -> Repaired:
    """Return the value, or the object inside it that has the keys."""
    if _has(value, keys):
        return Repaired(value, how)
    level = [value]
    for _ in range(8):
        level = [inner for outer in level for inner in _inside(outer)]
        having = [each for each in level if _has(each, keys)]
        if having:
            return Repaired(having[-1], "extracted" if how == "strict" else how)
    return _RAW


def _has(value: Any, keys: tuple[str, ...]) -> bool:
    return not keys or (isinstance(value, dict) and all(key in value for key in keys))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _without_thinking(text: str) -> str | None:
    """Return the text without the thinking that stands before its first brace; None: it ends in mid-thought."""
    while (thought := _THINKING.search(text)) is not None:
        brace = re.search(r"[{\[]", text)
        if brace is not None and brace.start() < thought.start():
            break
        if not thought[0].endswith(f"</{thought[1]}>"):
            return None
        text = text[: thought.start()] + text[thought.end() :]
    return text


def _found(text: str, keys: tuple[str, ...], reader: Reader) -> Repaired:
    """Return the value of the last region that is wanted."""
    regions = reader.objects() if keys else reader.outermost()
    wanted = [each for each in regions if not keys or _is_wanted(text, each, keys)]
    if reader.is_spent:
        return _RAW
    if not wanted:
        return _RAW
    last = wanted[-1]
    for region in wanted[:-1]:
        if region.end is None and _names(text[region.start : last.start], keys):
            return _CUT  # it begins inside one that does not end
    if last.end is None:
        return _CUT
    if last.how is not None:
        return _held(last.value, keys, last.how)
    return _guessed(last, keys)


def _is_wanted(text: str, region: Region, keys: tuple[str, ...]) -> bool:
    if region.how is not None:
        return _held(region.value, keys, region.how).how != "raw"
    return _names(text[region.start : region.end], keys)


def _names(text: str, keys: tuple[str, ...]) -> bool:
    return any(re.search(rf"""(?:["'“]|[{{,]\s*){re.escape(key)}["'”]?\s*:""", text) for key in keys)


def _guessed(region: Region, keys: tuple[str, ...]) -> Repaired:
    """Return what json_repair makes of a closed region, if that says exactly what is written there."""
    import json_repair

    if any(two in (",,", "::", "[,", "{,", ",:", ":,") for two in map("".join, pairwise(region.said))):
        return _RAW  # something is missing there
    try:
        written = [each if each in ("{", "[") else strict(each) for each in region.said if each not in "}],:"]
        value = json_repair.loads("".join(region.said))
    except (ValueError, RecursionError, IndexError):
        return _RAW
    if repr(list(_parts(value))) != repr(written):  # 1, 1.0 and True differ there
        return _RAW
    return _held(value, keys, "repaired")


def _parts(value: Any) -> Iterator[Any]:
    """Yield the opening of every object and list, every key and every plain value, in the order they are written."""
    if isinstance(value, dict):
        yield "{"
        for key, inner in value.items():
            yield key
            yield from _parts(inner)
    elif isinstance(value, list):
        yield "["
        for inner in value:
            yield from _parts(inner)
    else:
        yield value
