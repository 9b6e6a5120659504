"""A problem as the optimizer works on it: the options that can matter, as arrays, and the limits in the same units.

In: a checked `Problem` and an objective. Out: a `Table`. Invariant: an option is left out only where another of the
same step is as good in all that counts, or where it cannot be part of any assignment that holds the latency limit; so
the best assignment of the table is the best of the problem. Costs are whole numbers of one unit: their sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from router.assign.paths import Graph, graph_of, rests, starts
from router.assign.problem import Problem, StepOptions
from router.assign.solution import Objective

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

# More digits than any sum of costs has: `checks` lets 10 before the point pass, and 60 after it.
EXACT = Context(prec=100)
# Sums of floats differ by about 1e-16 a term: what a floor or a latency limit is missed by less than this is rounding.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Table:
    """The options that can matter, a row for each step; rows are filled up with options that cost infinitely much.

    Args:
        problem: where it comes from.
        graph: who waits for whom.
        kept: the place of each column's option in its step's options, cheapest first.
        units: the exact costs of all options, those left out too, in units of 10^exponent USD.
        exponent: see `units`.
        cost: the same costs in USD, floats; infinite where there is no option.
        gain: what each option adds to the plan's quality, weight × quality / sum of weights; 0 where nothing is known.
        latency: seconds; 0 where not known, infinite where there is no option.
        is_tight: whether a step is part of a chain that can break the latency limit.
        floor: the least sum of gains, or None.
        span_s: the longest chain of steps, seconds, or None.
        budget: the most units for the steps, or None; negative where what is reserved is above the budget.
    """

    problem: Problem
    graph: Graph
    kept: tuple[tuple[int, ...], ...]
    units: tuple[tuple[int, ...], ...]
    exponent: int
    cost: Floats
    gain: Floats
    latency: Floats
    is_tight: tuple[bool, ...]
    floor: float | None
    span_s: float | None
    budget: int | None

    @property
    def unit_usd(self) -> float:
        """One unit in USD, a float: for the search, never for a sum that is told."""
        return float(Decimal((0, (1,), self.exponent)))

    def usd(self, units: int) -> Decimal:
        """Return units as exact USD, however many digits that takes."""
        return Decimal(f"{units}E{self.exponent}")

    @property
    def reserved(self) -> int:
        """What is spent whatever is chosen, in units."""
        return _units(self.problem.reserved_usd, self.exponent)


def tabled(problem: Problem, objective: Objective) -> Table:
    """Return the table of a checked problem.

    Args:
        problem: checked; where a floor stands or the objective is quality, options of unknown quality are out where the
            step has others; the same for latency where a latency limit stands.
        objective: "cost" or "quality".
    """
    limits = problem.limits
    graph = graph_of(problem.steps)
    exponent = _exponent(problem)
    span_s = None if limits.latency_s is None else limits.latency_s - problem.around_s
    counts_quality = objective == "quality" or limits.quality_floor is not None
    drawn = _Draft(problem.steps, exponent, counts_quality=counts_quality, counts_latency=span_s is not None)
    tight = drawn.prune(graph, span_s) if span_s is not None else [False] * len(problem.steps)
    kept = tuple(drawn.undominated(place, is_tight=each) for place, each in enumerate(tight))
    weight = math.fsum(step.weight for step in problem.steps if _is_rated(step)) if counts_quality else 0.0
    return Table(
        problem=problem,
        graph=graph,
        kept=kept,
        units=tuple(map(tuple, drawn.units)),
        exponent=exponent,
        cost=_filled(kept, drawn.units, math.inf) * float(Decimal((0, (1,), exponent))),
        gain=_filled(kept, _gains(problem.steps, weight), 0.0),
        latency=_filled(kept, [[each.latency_s or 0.0 for each in step.options] for step in problem.steps], math.inf),
        is_tight=tuple(tight),
        floor=limits.quality_floor,
        span_s=span_s,
        budget=None
        if limits.budget_usd is None
        else _units(limits.budget_usd, exponent) - _units(problem.reserved_usd, exponent),
    )


class _Draft:
    """The options of each step while they are being sifted."""

    def __init__(
        self, steps: tuple[StepOptions, ...], exponent: int, *, counts_quality: bool, counts_latency: bool
    ) -> None:
        self.steps = steps
        self.units = [[_units(option.cost_usd, exponent) for option in step.options] for step in steps]
        self.counts_quality = counts_quality
        self.left = [_allowed(step, counts_quality=counts_quality, counts_latency=counts_latency) for step in steps]

    def prune(self, graph: Graph, span_s: float) -> list[bool]:
        """Leave out what is too slow for the span wherever it stands; return which steps can still break the span."""
        fastest = [min(self._latencies(place)) for place in range(len(self.steps))]
        first, last = starts(graph, fastest), rests(graph, fastest)
        for place, options in enumerate(self.left):
            room = span_s - first[place] - last[place] + TOLERANCE
            fitting = [each for each in options if (self.steps[place].options[each].latency_s or 0.0) <= room]
            self.left[place] = fitting or options
        slowest = [max(self._latencies(place)) for place in range(len(self.steps))]
        first, last = starts(graph, slowest), rests(graph, slowest)
        return [begin + own + rest > span_s for begin, own, rest in zip(first, slowest, last, strict=True)]

    def undominated(self, place: int, *, is_tight: bool) -> tuple[int, ...]:
        """Return the options of a step of which no other is as cheap, as good and (where it counts) as fast."""
        options, units = self.steps[place].options, self.units[place]

        def rank(each: int) -> tuple[int, float, float, int]:
            quality, latency_s = options[each].quality, options[each].latency_s
            known = math.inf if latency_s is None else latency_s
            return units[each], 1.0 if quality is None else -quality, known, each

        found: list[tuple[int, float, float]] = []
        for each in sorted(self.left[place], key=rank):
            quality = (options[each].quality or 0.0) if self.counts_quality else 0.0
            latency_s = (options[each].latency_s or 0.0) if is_tight else 0.0
            if not any(other >= quality and fast <= latency_s for _, other, fast in found):
                found.append((each, quality, latency_s))
        return tuple(each for each, _, _ in found)

    def _latencies(self, place: int) -> list[float]:
        return [self.steps[place].options[each].latency_s or 0.0 for each in self.left[place]]


def _allowed(step: StepOptions, *, counts_quality: bool, counts_latency: bool) -> list[int]:
    """Return the options whose figures are known where they count, as far as the step has such."""
    found = list(range(len(step.options)))
    if counts_quality:
        found = [each for each in found if step.options[each].quality is not None] or found
    if counts_latency:
        found = [each for each in found if step.options[each].latency_s is not None] or found
    return found


def _is_rated(step: StepOptions) -> bool:
    return any(option.quality is not None for option in step.options)


def _gains(steps: tuple[StepOptions, ...], weight: float) -> list[list[float]]:
    """Return each option's part of the weighted mean; all 0 where the weight is."""
    shares = [step.weight / weight if weight else 0.0 for step in steps]
    return [
        [share * (option.quality or 0.0) for option in step.options] for share, step in zip(shares, steps, strict=True)
    ]


def _filled(kept: Sequence[Sequence[int]], rows: Sequence[Sequence[Any]], missing: float) -> Floats:
    """Return the kept numbers of each row as one array, filled up on the right."""
    found = np.full((len(kept), max(map(len, kept))), missing)
    for place, (keep, row) in enumerate(zip(kept, rows, strict=True)):
        found[place, : len(keep)] = [row[each] for each in keep]
    return found


def _exponent(problem: Problem) -> int:
    """Return the finest decimal place of any amount: -12 where the finest is a pico-USD."""
    amounts = [option.cost_usd for step in problem.steps for option in step.options]
    amounts += [problem.reserved_usd, problem.limits.budget_usd or Decimal(0)]
    return min(0, *(int(amount.as_tuple().exponent) for amount in amounts))


def _units(amount: Decimal, exponent: int) -> int:
    """Return an amount of USD as a whole number of units of 10^exponent USD, exactly."""
    return int(amount.scaleb(-exponent, EXACT))
