"""Why no assignment holds the limits: which of them, asked for how much, and what can be had.

In: a `Problem` of which `solve` found no assignment. Out: an `Infeasible` that names the smallest set of limits that
cannot be held, and carries the best assignment within the budget. Invariant: "cannot" is said only where it is proven;
else the message says what was found in the time there was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import TypeAlias

from router.assign.found import Found, assignment_of
from router.assign.paths import graph_of, longest_s
from router.assign.problem import Limits, Problem
from router.assign.solution import Assignment, Constraint, Infeasible, Objective
from router.assign.solve import best_found, solved
from router.assign.table import EXACT, TOLERANCE
from router.assign.terms import Terms

_OBJECTIVES: tuple[Objective, ...] = ("quality", "cost")

Again: TypeAlias = Callable[[], Terms]
"""Gives the terms for one more question, with a time limit of its own."""

Reason: TypeAlias = tuple[tuple[Constraint, ...], str]
"""Limits that cannot be held, and the line that says so."""


def why_not(problem: Problem, again: Again) -> Infeasible:
    """Return the error for a checked problem whose limits cannot be held, or were not in the time there was."""
    alone = impossible_alone(problem)
    hopeless = {name for names, _ in alone for name in names}
    reasons = alone or [_in_pairs(problem, again) or _all_three(problem, again)]
    best = None if "budget_usd" in hopeless else _best(problem, again, can_be_fast="latency_s" not in hopeless)
    binding = tuple(name for names, _ in reasons for name in names)
    return Infeasible("; ".join(line for _, line in reasons), binding=binding, best=best, hint=_hint(problem, best))


def impossible_alone(problem: Problem) -> list[Reason]:
    """Return the limits that cannot be held even alone."""
    limits, found = problem.limits, list[Reason]()
    if limits.quality_floor is not None:
        best = best_quality(problem)
        if best is None:
            found.append(
                (("quality_floor",), f"quality_floor: {limits.quality_floor} cannot be shown; no quality is known")
            )
        elif best < limits.quality_floor - TOLERANCE:
            told = f"quality_floor: {limits.quality_floor} cannot be reached; the best options reach {_share(best)}"
            found.append((("quality_floor",), told))
    if limits.latency_s is not None and (least_s := shortest_s(problem)) > limits.latency_s + TOLERANCE:
        told = f"latency_s: {limits.latency_s:g} s cannot be kept; the fastest options take {_seconds(least_s)} s"
        found.append((("latency_s",), told))
    if limits.budget_usd is not None and (least_usd := _cheapest_usd(problem)) > limits.budget_usd:
        asked_usd = _plain(limits.budget_usd)
        told = f"budget_usd: {asked_usd} USD is not enough; the cheapest options cost {_usd(least_usd)} USD"
        found.append((("budget_usd",), told))
    return found


def _in_pairs(problem: Problem, again: Again) -> Reason | None:
    """Return the first two limits that cannot be held together; None where each two of them can."""
    limits = problem.limits
    if limits.latency_s is not None and limits.quality_floor is not None:
        found = solved(replace(problem, limits=Limits(latency_s=limits.latency_s)), "quality", again())
        if found.choice is None or (found.choice.quality or 0.0) < limits.quality_floor - TOLERANCE:
            return _too_slow_to_be_good(limits, found)
    if limits.budget_usd is None:
        return None
    if limits.quality_floor is not None and (
        told := _too_dear(problem, Limits(quality_floor=limits.quality_floor), again)
    ):
        return ("quality_floor", "budget_usd"), told
    if limits.latency_s is not None and (told := _too_dear(problem, Limits(latency_s=limits.latency_s), again)):
        return ("latency_s", "budget_usd"), told
    return None


def _all_three(problem: Problem, again: Again) -> Reason:
    """Return that the limits cannot be held all together."""
    names: dict[Constraint, object] = {
        "quality_floor": problem.limits.quality_floor,
        "latency_s": problem.limits.latency_s,
        "budget_usd": problem.limits.budget_usd,
    }
    binding = tuple(name for name, value in names.items() if value is not None)
    told = None
    if problem.limits.budget_usd is not None:
        told = _too_dear(problem, replace(problem.limits, budget_usd=None), again)
    return binding, told or f"{', '.join(binding)}: no assignment that holds them was found in the time there was"


def _too_slow_to_be_good(limits: Limits, found: Found) -> Reason:
    start = f"quality_floor: {limits.quality_floor} was not reached within latency_s {limits.latency_s:g} s"
    if found.choice is None or found.bound is None:
        return ("quality_floor", "latency_s"), f"{start}; nothing that holds it was found in the time there was"
    if found.bound < (limits.quality_floor or 0.0) - TOLERANCE:
        start = start.replace("was not reached", "cannot be reached")
    return ("quality_floor", "latency_s"), f"{start}; the best found is {_share(found.choice.quality or 0.0)}"


def _too_dear(problem: Problem, others: Limits, again: Again) -> str | None:
    """Return the line that the budget is too small for the other limits; None where they are held within it."""
    budget_usd = problem.limits.budget_usd or Decimal(0)
    found = solved(replace(problem, limits=others), "cost", again())
    aim = _aim(others)
    if found.choice is None:
        return f"budget_usd: nothing that holds {aim} was found in the time there was"
    cost_usd = found.table.usd(found.choice.units + found.table.reserved)
    if cost_usd <= budget_usd:
        return None
    within = solved(replace(problem, limits=replace(others, budget_usd=budget_usd)), "cost", again())
    if within.choice is not None:  # the cheapest found was within the gap that was asked for, and not the cheapest
        return None
    told = f"is not enough for {aim}" if within.is_impossible else f"was not enough for {aim} in the time there was"
    return f"budget_usd: {_plain(budget_usd)} USD {told}; the cheapest found costs {_usd(cost_usd)} USD"


def _aim(limits: Limits) -> str:
    parts = [] if limits.quality_floor is None else [f"quality_floor {limits.quality_floor}"]
    return " and ".join(parts + ([] if limits.latency_s is None else [f"latency_s {limits.latency_s:g} s"]))


def _best(problem: Problem, again: Again, *, can_be_fast: bool) -> Assignment | None:
    """Return the best quality within the budget, and within the latency limit where that is possible."""
    limits = replace(problem.limits, quality_floor=None)
    slow = replace(limits, latency_s=None)
    for each in dict.fromkeys((limits, slow) if can_be_fast else (slow,)):
        for objective in _OBJECTIVES:
            terms = again()
            found = best_found(replace(problem, limits=each), objective, terms)
            if found.choice is not None:
                return assignment_of(found, found.choice, terms)
    return None


def best_quality(problem: Problem) -> float | None:
    """Return the quality of the best options, 0 to 1; None where nothing is known of any."""
    best = [
        (step.weight, max(known))
        for step in problem.steps
        if (known := [option.quality for option in step.options if option.quality is not None])
    ]
    if not best:
        return None
    return math.fsum(weight * quality for weight, quality in best) / math.fsum(weight for weight, _ in best)


def shortest_s(problem: Problem) -> float:
    """Return how long the plan takes with the fastest options, what goes around it included, seconds."""
    fastest = [
        min((option.latency_s for option in step.options if option.latency_s is not None), default=0.0)
        for step in problem.steps
    ]
    return longest_s(graph_of(problem.steps), fastest) + problem.around_s


def _cheapest_usd(problem: Problem) -> Decimal:
    """Return the exact cost of the cheapest options, what is reserved included, USD."""
    amounts = [min(option.cost_usd for option in step.options) for step in problem.steps]
    with localcontext(EXACT):
        return sum(amounts, problem.reserved_usd)


def _hint(problem: Problem, best: Assignment | None) -> str | None:
    if best is None:
        return "raise the budget" if problem.limits.budget_usd is not None else None
    held = "within the budget " if problem.limits.budget_usd is not None else ""
    quality = "unknown" if best.quality is None else _share(best.quality)
    seconds = "" if best.latency_s is None else f" and takes {_seconds(best.latency_s)} s"
    return f"the best assignment {held}has a quality of {quality}, costs {_usd(best.cost_usd)} USD{seconds}"


def _share(share: float) -> str:
    """Return a share rounded down, so that it can be asked for."""
    return f"{math.floor(share * 10_000) / 10_000:.4g}"


def _seconds(seconds: float) -> str:
    """Return seconds rounded up to 3 decimals, so that they can be asked for."""
    return f"{math.ceil(seconds * 1000) / 1000:.10g}"


def _usd(amount: Decimal) -> str:
    """Return an amount rounded up to 4 digits, so that it can be asked for."""
    if not amount:
        return "0"
    return _plain(amount.quantize(Decimal(1).scaleb(amount.adjusted() - 3), rounding=ROUND_CEILING))


def _plain(amount: Decimal) -> str:
    return format(amount, "f")
