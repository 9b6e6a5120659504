"""A choice that is being changed, one step at a time, and what may be changed about it.

In: a `Table` and a column for each step. Out: moves. Invariant: what is told is what the choice comes to; a move
that is offered keeps the latency limit, where the choice keeps it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from router.assign.paths import longest_chain, longest_s, rests, starts
from router.assign.relaxed import picked
from router.assign.table import TOLERANCE, Floats, Places, Table


class Search:
    """One choice.

    Args:
        table: what there is to choose from.
        columns: the column of each step; copied.

    `units` is its exact cost, in the table's units.
    """

    def __init__(self, table: Table, columns: Places) -> None:
        self.table = table
        self.columns = columns.copy()
        self.units = sum(self.units_of(place, int(column)) for place, column in enumerate(columns))
        self._latency: list[float] = picked(table.latency, columns).tolist()
        self._room: Floats | None = None

    def units_of(self, place: int, column: int) -> int:
        """Return the exact cost of an option, in the table's units."""
        return self.table.units[place][self.table.kept[place][column]]

    def is_affordable(self, place: int, column: int) -> bool:
        """Return whether the budget allows another option on a step, to the last digit."""
        more = self.units_of(place, column) - self.units_of(place, int(self.columns[place]))
        return self.table.budget is None or self.units + more <= self.table.budget

    @property
    def cost_usd(self) -> float:
        """The cost of the steps, USD."""
        return float(picked(self.table.cost, self.columns).sum())

    @property
    def gain(self) -> float:
        """The quality, 0 to 1."""
        return float(picked(self.table.gain, self.columns).sum())

    @property
    def is_in_time(self) -> bool:
        """Whether the latency limit is kept."""
        span_s = self.table.span_s
        return span_s is None or longest_s(self.table.graph, self._latency) <= span_s + TOLERANCE / 2

    def take(self, place: int, column: int) -> None:
        """Put another option on a step."""
        self.units += self.units_of(place, column) - self.units_of(place, int(self.columns[place]))
        self.columns[place] = column
        latency_s = float(self.table.latency[place, column])
        if latency_s > self._latency[place] and self.table.is_tight[place]:
            self._room = None  # where a step gets faster, what the others had room for they have room for still
        self._latency[place] = latency_s

    def changes(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return by how much each option would change cost (USD) and gain, and whether the latency allows it."""
        table = self.table
        dearer = table.cost - picked(table.cost, self.columns)[:, None]
        better = table.gain - picked(table.gain, self.columns)[:, None]
        if table.span_s is None:
            return dearer, better, np.isfinite(table.cost)
        return dearer, better, table.latency <= self._room_s()[:, None]

    def late(self) -> NDArray[np.bool_]:
        """Return which steps are part of a chain that takes too long."""
        graph, span_s = self.table.graph, self.table.span_s or 0.0
        whole = np.array(starts(graph, self._latency)) + self._latency + rests(graph, self._latency)
        found: NDArray[np.bool_] = whole > span_s + TOLERANCE / 2
        return found

    def chain(self) -> tuple[float, list[int]]:
        """Return how long the plan takes, seconds, and the steps of one chain that takes as long."""
        return longest_chain(self.table.graph, self._latency)

    def _room_s(self) -> Floats:
        """Return how long each step may take while the others stay as they are, at least what it takes now."""
        if self._room is None:
            graph, span_s = self.table.graph, self.table.span_s or 0.0
            first = np.array(starts(graph, self._latency))
            last = np.array(rests(graph, self._latency))
            room = np.maximum(span_s + TOLERANCE / 2 - first - last, np.array(self._latency))
            room[~np.array(self.table.is_tight)] = math.inf
            self._room = np.minimum(room, np.finfo(np.float64).max)
        return self._room
