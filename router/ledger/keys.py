"""The ledger's own keys: UUIDs as text, because upstream ids repeat or are missing.

In: the clock and the system's random source, or a name. Out: a UUID's 36 characters. Invariant: ids of one process rise
in the order they were made, so new rows land at the end of an index.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Sequence

# Namespace of our name-based ids; drawn at random once, never to change: an import made twice must give the same ids.
_NAMESPACE = uuid.UUID("8c2f2f0e-6f0b-4d53-9b5e-3f5d2a1c7e64")
_MASK_74 = (1 << 74) - 1
_RANDOM_BYTES = 10
_DRAWN = 256  # at once: asking the system costs more than the rest of an id
_lock = threading.Lock()
_last = 0
_random = b""
_used = 0


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits.

    Within a process each is greater than the one before (section 6.2, method 2: the random part is counted on).
    """
    global _last, _random, _used  # noqa: PLW0603 - the one before is what "monotonic" is measured against
    with _lock:
        if _used == len(_random):
            _random, _used = os.urandom(_RANDOM_BYTES * _DRAWN), 0
        drawn = int.from_bytes(_random[_used : _used + _RANDOM_BYTES], "big") & _MASK_74
        _used += _RANDOM_BYTES
        _last = value = max(time.time_ns() // 1_000_000 << 74 | drawn, _last + 1)
    milliseconds, random_bits = value >> 74, value & _MASK_74
    bits = milliseconds << 80 | 7 << 76 | (random_bits >> 62) << 64 | 2 << 62 | random_bits & ((1 << 62) - 1)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _forget() -> None:
    """A forked child draws numbers of its own: with those of its parent it would make the same ids."""
    global _random, _used, _lock
    _random, _used, _lock = b"", 0, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def named_id(*parts: str | int) -> str:
    """Return the name-based UUID (RFC 9562, version 5) of these parts: the same parts always give the same id."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(map(str, parts))))


class DayNames:
    """Makes name-based ids that sort by the UTC day they are of, so that imports append to an index.

    They are UUIDs of version 8 (RFC 9562, section 5.8): 48 bits of Unix milliseconds, of the day's start; then 72 bits
    of a BLAKE2b digest of the name. A name has the same id in every process; its time within the day does not matter,
    so that exports which round their instants differently agree.

    Args:
        parts: what all the names belong to.
    """

    def __init__(self, *parts: str | int) -> None:
        space = "\x1f".join(map(str, parts)).encode()
        self._digest = hashlib.blake2b(_NAMESPACE.bytes + space + b"\x1e", digest_size=9)
        self._heads: dict[int, str] = {}

    def id(self, day: int, name: str) -> str:
        """Return the id of a name.

        Args:
            day: the UTC day, in days since 1970.
            name: the name, unique within `parts`.
        """
        return self.ids((day,), (name,))[0]

    def ids(self, days: Sequence[int], names: Sequence[str]) -> list[str]:
        """Return the id of each name.

        Args:
            days: of each the UTC day, in days since 1970.
            names: each unique within `parts`.
        """
        begun, heads = self._digest.copy, self._heads
        for day in set(days) - heads.keys():
            milliseconds = f"{day * 86_400_000:012x}"
            heads[day] = f"{milliseconds[:8]}-{milliseconds[8:]}-8"
        digests = []
        for name in names:
            digest = begun()
            digest.update(name.encode("utf-8", "surrogatepass"))
            digests.append(digest.digest())
        text = b"".join(digests).hex()
        return [
            f"{heads[day]}{text[at : at + 3]}-8{text[at + 3 : at + 6]}-{text[at + 6 : at + 18]}"
            for day, at in zip(days, range(0, len(text), 18), strict=True)
        ]
