"""Counts over the last so many seconds.

In: instants and columns. Out: how often each column was counted in the window. Invariant: pure but for its own counts;
an instant is what the caller says it is.
"""

from __future__ import annotations

from collections import deque

PARTS = 12


class Window:
    """Counts that are forgotten as they grow old, in twelve parts of the window.

    Args:
        window_s: how far back is counted, seconds; the oldest twelfth leaves as a whole.
        columns: how many things are counted apart.
    """

    __slots__ = ("_columns", "_part_s", "_parts", "_totals")

    def __init__(self, window_s: float, columns: int) -> None:
        self._part_s = window_s / PARTS
        self._columns = columns
        self._parts: deque[tuple[int, list[int]]] = deque()
        self._totals = [0] * columns

    def add(self, now_s: float, column: int) -> None:
        """Count one of a column at an instant, seconds of any steady clock."""
        self._forget(now_s)
        number = int(now_s / self._part_s)
        if not self._parts or self._parts[-1][0] != number:
            self._parts.append((number, [0] * self._columns))
        self._parts[-1][1][column] += 1
        self._totals[column] += 1

    def totals(self, now_s: float) -> tuple[int, ...]:
        """Return the counts of the window that ends now, by column."""
        self._forget(now_s)
        return tuple(self._totals)

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._totals = [0] * self._columns

    def _forget(self, now_s: float) -> None:
        oldest = int(now_s / self._part_s) - PARTS
        while self._parts and self._parts[0][0] <= oldest:
            for column, count in enumerate(self._parts.popleft()[1]):
                self._totals[column] -= count
