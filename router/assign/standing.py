"""What a choice of options comes to, worked out from the problem itself, and which limits it breaks.

In: a `Table` and an option for each step. Out: exact sums, broken limits. Invariant: nothing that the
search believed of its own choice is trusted here: costs are added as whole numbers, quality and latency anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from router.assign.paths import longest_s
from router.assign.problem import Option
from router.assign.solution import Constraint, Objective
from router.assign.table import TOLERANCE, Table


@dataclass(frozen=True, slots=True)
class Standing:
    """A choice and what it comes to.

    Args:
        picks: the place of each step's option among the step's own, so that it is the same in every table of a plan.
        units: the exact cost of the steps, in the table's units.
        quality: the weighted mean over the steps whose quality is known; None where none is.
        latency_s: the longest chain, seconds, without what goes around the plan.
        broken: the limits it breaks.
    """

    picks: tuple[int, ...]
    units: int
    quality: float | None
    latency_s: float
    broken: tuple[Constraint, ...]


def standing_at(table: Table, columns: Iterable[int]) -> Standing:
    """Return what the choice of a column for each step comes to."""
    return standing(table, [keep[column] for keep, column in zip(table.kept, columns, strict=True)])


def standing(table: Table, picks: Sequence[int]) -> Standing:
    """Return what the choice of an option for each step comes to."""
    chosen = options_of(table, picks)
    units = sum(row[pick] for row, pick in zip(table.units, picks, strict=True))
    quality = _quality(table, chosen)
    latency_s = longest_s(table.graph, [option.latency_s or 0.0 for option in chosen])
    broken: list[Constraint] = []
    if table.floor is not None and (quality is None or quality < table.floor - TOLERANCE):
        broken.append("quality_floor")
    if table.span_s is not None and latency_s > table.span_s + TOLERANCE:
        broken.append("latency_s")
    if table.budget is not None and units > table.budget:
        broken.append("budget_usd")
    return Standing(tuple(picks), units, quality, latency_s, tuple(broken))


def better_of(objective: Objective, one: Standing | None, other: Standing | None) -> Standing | None:
    """Return the better of the choices that break no limit, the first of equals; None where none is left."""
    if other is None or other.broken:
        return None if one is None or one.broken else one
    if one is None or one.broken:
        return other
    return other if _rank(objective, other) < _rank(objective, one) else one


def _rank(objective: Objective, found: Standing) -> tuple[float, float]:
    quality = -(found.quality or 0.0)
    return (found.units, quality) if objective == "cost" else (quality, found.units)


def value_of(table: Table, objective: Objective, found: Standing) -> float:
    """Return what was to be small (USD, the steps alone) or large (0 to 1)."""
    return found.units * table.unit_usd if objective == "cost" else found.quality or 0.0


def gap_between(objective: Objective, value: float, bound: float) -> float:
    """Return how far a value may be from the best: a share of the cost, or of the best quality there may be."""
    most, least = (value, bound) if objective == "cost" else (bound, value)
    if most <= 0 or most - least <= TOLERANCE * most:
        return 0.0
    return min(1.0, (most - least) / most)


def options_of(table: Table, picks: Sequence[int]) -> list[Option]:
    """Return the options that are chosen, in the problem's order."""
    return [step.options[pick] for step, pick in zip(table.problem.steps, picks, strict=True)]


def _quality(table: Table, chosen: Sequence[Option]) -> float | None:
    pairs = [
        (step.weight, option.quality)
        for step, option in zip(table.problem.steps, chosen, strict=True)
        if option.quality is not None
    ]
    if not pairs:
        return None
    return math.fsum(weight * quality for weight, quality in pairs) / math.fsum(weight for weight, _ in pairs)
