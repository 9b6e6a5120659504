"""What was worked out once, kept for as long as nothing it is made of changes.

In: keys, values, and until when each holds. Out: the values again. Invariant: a value is never given out for an instant
before the one it was worked out for, nor from the instant on at which it ends; of the oldest nothing is kept for ever.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Generic, TypeVar

MOST_KEPT = 2048
Value = TypeVar("Value")


class Memo(Generic[Value]):
    """Values by key, each with the span of instants that it holds for."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[datetime, datetime, Value]] = {}

    def get(self, key: Hashable, at: datetime) -> Value | None:
        """Return the value that was kept for a key and holds at an instant, or None.

        Args:
            key: the key.
            at: aware instant.
        """
        found = self._kept.get(key)
        return found[2] if found is not None and found[0] <= at < found[1] else None

    def keep(self, key: Hashable, value: Value, start: datetime, end: datetime) -> Value:
        """Keep a value, in the place of what was kept for the key, and return it.

        Args:
            key: the key.
            value: the value; not None.
            start: aware instant from which it holds.
            end: aware instant from which it no longer does.
        """
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (start, end, value)
        return value
