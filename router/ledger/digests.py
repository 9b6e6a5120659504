"""A number for what an attempt is grouped by, so that its rollup is grouped by two integers and not by 22 texts.

In: the values of `START_COLUMNS` or `END_COLUMNS`. Out: a digest of 64 bits. Invariant: equal values give equal digests
on every machine; unequal ones differ but for a chance of 1 in 10^11 among ten thousand of them, which `verify` finds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from router.ledger.sums import END_COLUMNS, START_COLUMNS

_STARTED = {"status": "started", "usage_estimated": False, "possibly_billed": False}


@lru_cache(maxsize=16_384)
def digest(values: tuple[str | int | None, ...]) -> int:
    """Return the digest of some values, as a signed integer of 64 bits.

    Args:
        values: texts as they are stored, numbers, flags (as 0 and 1 or as bool), or None.
    """
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    found = hashlib.blake2b(json.dumps(plain, separators=(",", ":")).encode(), digest_size=8)
    return int.from_bytes(found.digest(), "big", signed=True)


def start_digest(row: Mapping[str, Any]) -> int:
    """Return the digest of a row's `START_COLUMNS`; one that is not there is None."""
    return digest(tuple(map(row.get, START_COLUMNS)))


def end_digest(row: Mapping[str, Any]) -> int:
    """Return the digest of a row's `END_COLUMNS`; one that is not there is None."""
    return digest(tuple(map(row.get, END_COLUMNS)))


STARTED_DIGEST = end_digest(_STARTED)
"""That of an attempt that has not ended."""


def pair_of(key: Sequence[Any]) -> tuple[int, int]:
    """Return both digests of the values of `KEY_COLUMNS`."""
    first = len(START_COLUMNS)
    return digest(tuple(key[:first])), digest(tuple(key[first:]))


def pair_text(pair: tuple[int, int]) -> str:
    """Return both digests as 32 hexadecimal digits."""
    return b"".join(each.to_bytes(8, "big", signed=True) for each in pair).hex()


def pair_from_text(text: str) -> tuple[int, int]:
    """Return both digests from `pair_text`."""
    both = bytes.fromhex(text)
    return int.from_bytes(both[:8], "big", signed=True), int.from_bytes(both[8:], "big", signed=True)
