"""A table as a mixed-integer program: numbers alone, as any solver takes them.

In: a `Table`, an objective. Out: a `Program`. Invariant: every choice that holds the limits is a point of the program;
one that breaks a limit by less than rounding may be one too. Rows are scaled so that a usual coefficient is about 1.

Binary x[step, option], one option a step; Σ gain·x ≥ floor; Σ cost·x ≤ budget; and, for the steps whose chains can
break the latency limit, an end for each: end ≥ Σ latency·x, end ≥ end of what it depends on + Σ latency·x, end ≤ the
limit less what still comes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from router.assign.paths import rests, starts
from router.assign.solution import Objective
from router.assign.table import Floats, Table

# How far a solver may miss a row and still take it for kept. The finest that HiGHS takes is 1e-10.
FEASIBILITY = 1e-9
_SHORTEST_S = 1e-3


@dataclass(slots=True)
class Rows:
    """The rows of a program as they are written down."""

    least: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    begins: list[int] = field(default_factory=lambda: [0])
    index: list[NDArray[np.int32]] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)

    def add(
        self, least: float, most: float, index: Sequence[int] | NDArray[np.int32], value: Sequence[float] | Floats
    ) -> None:
        """Add least ≤ Σ value·variable ≤ most."""
        self.least.append(least)
        self.most.append(most)
        self.begins.append(self.begins[-1] + len(index))
        self.index.append(np.asarray(index, dtype=np.int32))
        self.value.append(np.asarray(value, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Program:
    """A minimisation: a variable for each option, step after step, then one for the end of each tight step.

    Args:
        first: the variable of each step's first option.
        count: how many options each step has.
        ends: the variable of the end of each tight step.
        price: what one of each variable adds to the objective.
        least: each variable's lower bound.
        most: each variable's upper bound.
        rows: the constraints.
        scale: the objective times this is USD, or a quality.
        scale_s: an end times this is seconds.
    """

    first: tuple[int, ...]
    count: tuple[int, ...]
    ends: dict[int, int]
    price: Floats
    least: Floats
    most: Floats
    rows: Rows
    scale: float
    scale_s: float


def program_of(table: Table, objective: Objective, forbidden: Sequence[tuple[int, ...]]) -> Program:
    """Return the program of a table, without the choices that are forbidden."""
    count = [len(row) for row in table.kept]
    first = np.concatenate(([0], np.cumsum(count))).tolist()
    chosen = first.pop()
    exists = np.isfinite(table.cost)
    every = np.arange(chosen, dtype=np.int32)
    cost, gain = table.cost[exists], table.gain[exists]
    usual_usd = float(table.cost[:, 0].mean()) or float(cost.mean()) or 1.0
    rows = Rows()
    for begin, size in zip(first, count, strict=True):
        rows.add(1.0, 1.0, every[begin : begin + size], np.ones(size))
    if table.floor is not None:  # × steps: a step's coefficient is then about 1
        rows.add((table.floor - FEASIBILITY) * len(count), math.inf, every, gain * len(count))
    if table.budget is not None:
        rows.add(-math.inf, table.budget * table.unit_usd / usual_usd, every, cost / usual_usd)
    for columns in forbidden:
        index = [begin + column for begin, column in zip(first, columns, strict=True)]
        rows.add(-math.inf, len(index) - 1.0, index, np.ones(len(index)))
    ends, least, most = _add_ends(table, first, count, rows) if table.span_s is not None else ({}, [], [])
    scale = usual_usd if objective == "cost" else -1.0 / len(count)
    price = cost / usual_usd if objective == "cost" else -gain * len(count)
    return Program(
        first=tuple(first),
        count=tuple(count),
        ends=ends,
        price=np.concatenate((price, np.zeros(len(ends)))),
        least=np.concatenate((np.zeros(chosen), least)),
        most=np.concatenate((np.ones(chosen), most)),
        rows=rows,
        scale=scale,
        scale_s=_scale_s(table),
    )


def _add_ends(
    table: Table, first: Sequence[int], count: Sequence[int], rows: Rows
) -> tuple[dict[int, int], list[float], list[float]]:
    """Add the rows that chain the tight steps; return the variable of each one's end, and the ends' ranges."""
    span_s = table.span_s or 0.0
    scale_s = _scale_s(table)
    fastest = table.latency.min(axis=1)
    began, rest = starts(table.graph, fastest.tolist()), rests(table.graph, fastest.tolist())
    tight = [place for place in table.graph.order if table.is_tight[place]]
    ends = {place: first[-1] + count[-1] + number for number, place in enumerate(tight)}
    for place in tight:
        begin, size = first[place], count[place]
        own = (-table.latency[place, :size] / scale_s).tolist()
        index = [*range(begin, begin + size), ends[place]]
        needs = [need for need in table.graph.before[place] if need in ends]
        if not needs:
            rows.add(0.0, math.inf, index, [*own, 1.0])
        for need in needs:
            rows.add(0.0, math.inf, [*index, ends[need]], [*own, 1.0, -1.0])
    least = [(began[place] + fastest[place]) / scale_s for place in tight]
    most = [(span_s - rest[place]) / scale_s for place in tight]
    return ends, [min(pair) for pair in zip(least, most, strict=True)], most


def _scale_s(table: Table) -> float:
    """Return the seconds that ends are measured in: the span, where that is a time at all."""
    return max(table.span_s or 0.0, _SHORTEST_S)
