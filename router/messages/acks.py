"""Which numbers of a topic one subscriber has acknowledged.

In: numbers, in any order. Out: a low-water mark, up to which all are, and spans beyond it. Invariant: spans are sorted,
do not touch one another nor the mark, and a number once acknowledged stays so.
"""

from __future__ import annotations

import json
from bisect import bisect_right


class Acks:
    """The acknowledged numbers of one cursor.

    Args:
        low: all up to it are acknowledged.
        beyond: spans beyond it as `text` gives them, or None; what is at or below `low` of them is forgotten.
    """

    def __init__(self, low: int = 0, beyond: str | None = None) -> None:
        self.low = low
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in json.loads(beyond or "[]"):
            if last > low:
                self._firsts.append(max(first, low + 1))
                self._lasts.append(last)
        self._sink()

    @property
    def spans(self) -> int:
        """How many spans there are beyond the mark."""
        return len(self._firsts)

    def text(self) -> str | None:
        """Return the spans beyond the mark as JSON, or None."""
        pairs = zip(self._firsts, self._lasts, strict=True)
        return json.dumps([list(pair) for pair in pairs], separators=(",", ":")) if self._firsts else None

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._firsts, seq) - 1
        return seq <= self.low or (at >= 0 and seq <= self._lasts[at])

    def add(self, seq: int) -> None:
        """Acknowledge a number."""
        if seq == self.low + 1 and not self._firsts:  # what mostly happens
            self.low = seq
            return
        if seq in self:
            return
        at = bisect_right(self._firsts, seq)  # the span that begins after it
        joins_before = at > 0 and self._lasts[at - 1] == seq - 1
        joins_after = at < len(self._firsts) and self._firsts[at] == seq + 1
        if joins_before and joins_after:
            self._lasts[at - 1] = self._lasts[at]
            del self._firsts[at], self._lasts[at]
        elif joins_before:
            self._lasts[at - 1] = seq
        elif joins_after:
            self._firsts[at] = seq
        else:
            self._firsts.insert(at, seq)
            self._lasts.insert(at, seq)
        self._sink()

    def _sink(self) -> None:
        """Take what touches the mark into it."""
        if self._firsts and self._firsts[0] <= self.low + 1:
            self.low = self._lasts[0]
            del self._firsts[0], self._lasts[0]
