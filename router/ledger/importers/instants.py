"""A whole column of instants at once, where all are written alike.

In: a column's values as they stand in a file. Out: microseconds since 1970 UTC, or None: each is to be read by itself.
Invariant: what is returned is what `router.ledger.importers.values.instant` returns of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.ledger.importers.values import FIRST_US, LAST_US

_DAY_S = 86_400
_SIGNS = ((4, "-"), (7, "-"), (13, ":"), (16, ":"))
_SECONDS_END = 19  # characters of "2026-10-01T08:00:00"
_PARTS = {"year": (0, 4), "month": (5, 7), "day": (8, 10), "hour": (11, 13), "minute": (14, 16), "second": (17, 19)}
_MOST = {"month": 12, "day": 31, "hour": 23, "minute": 59, "second": 59}
_UNITS = ((1_000_000, 1), (1_000, 1), (1, 1), (1, 1_000))  # seconds, milliseconds, microseconds, nanoseconds

Digits = NDArray[np.int64]


def plain_instants(values: Sequence[Any], zone: tzinfo | None) -> list[int] | None:
    """Return a column of instants, all ISO 8601 texts of one form or all whole numbers of one unit; else None.

    Args:
        values: a column's values, at least one.
        zone: as for `router.ledger.importers.values.instant`.
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        return _of_numbers(values)
    if kinds != {str} or len(set(map(len, values))) != 1:
        return None
    text = "".join(values)
    if not text.isascii():
        return None
    if text.isdigit():
        return _of_numbers(list(map(int, values))) if len(values[0]) <= 19 else None
    return _of_texts(text, values[0], len(values), zone)


def _of_numbers(numbers: Sequence[int]) -> list[int] | None:
    least, most = min(numbers), max(numbers)
    for factor, divisor in _UNITS:
        if least * factor // divisor >= FIRST_US and most * factor < LAST_US * divisor:
            return [number * factor // divisor for number in numbers]
    return None


def _of_texts(text: str, first: str, rows: int, zone: tzinfo | None) -> list[int] | None:
    digits, ends = 0, first[_SECONDS_END:]
    if ends.startswith("."):
        digits = len(ends) - len(ends[1:].lstrip("0123456789")) - 1
        ends = ends[1 + digits :]
        if digits not in (3, 6):
            return None
    if len(first) < _SECONDS_END or first[10] not in "T ":
        return None
    if ends not in {"Z", "+00:00"} and (ends or zone is not UTC):
        return None
    signs = np.frombuffer(text.encode("ascii"), np.uint8).reshape(rows, len(first))
    fixed = [(10, first[10]), *_SIGNS, *([(_SECONDS_END, ".")] if digits else [])]
    fixed += [(len(first) - len(ends) + place, sign) for place, sign in enumerate(ends)]
    if any((signs[:, place] != ord(sign)).any() for place, sign in fixed):
        return None
    parts = {name: _number(signs, *span) for name, span in _PARTS.items()}
    fraction = _number(signs, _SECONDS_END + 1, _SECONDS_END + 1 + digits) if digits else np.zeros(rows, np.int64)
    if any(part is None for part in (*parts.values(), fraction)):
        return None
    return _joined({name: part for name, part in parts.items() if part is not None}, fraction, 10 ** (6 - digits))


def _number(signs: NDArray[np.uint8], start: int, end: int) -> Digits | None:
    """Return the whole number in some characters of each row; None: they are no digits."""
    found: Digits = np.zeros(len(signs), np.int64)
    for place in range(start, end):
        digit = signs[:, place].astype(np.int64) - ord("0")
        if digit.min() < 0 or digit.max() > 9:
            return None
        found = found * 10 + digit
    return found


def _joined(parts: dict[str, Digits], fraction: Any, scale: int) -> list[int] | None:
    if any(parts[name].max() > most for name, most in _MOST.items()) or parts["month"].min() < 1:
        return None
    months = (parts["year"] * 12 + parts["month"] - 1 - 1970 * 12).astype("datetime64[M]")
    month_days = months.astype("datetime64[D]").astype(np.int64)
    days = month_days + parts["day"] - 1
    if parts["day"].min() < 1 or (days >= (months + 1).astype("datetime64[D]").astype(np.int64)).any():
        return None
    seconds = days * _DAY_S + parts["hour"] * 3_600 + parts["minute"] * 60 + parts["second"]
    at_us = seconds * 1_000_000 + fraction * scale
    if at_us.min() < FIRST_US or at_us.max() >= LAST_US:
        return None
    found: list[int] = at_us.tolist()
    return found
