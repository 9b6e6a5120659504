"""From a table to the best choice that time allows: greedy first, then HiGHS where greedy is not proven good enough.

In: a `Table`, an objective, `Terms`. Out: a `Found`: a choice that holds every limit, the best bound, how it was found;
or that there is none. Invariant: what is returned was measured anew (`standing`) and breaks no limit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from router.assign.exact import Solved, solve_exactly
from router.assign.found import Found
from router.assign.greedy import finished, greedy
from router.assign.problem import Problem
from router.assign.relaxed import bound_at, price_of_quality
from router.assign.solution import Objective
from router.assign.standing import better_of, gap_between, standing, standing_at, value_of
from router.assign.table import TOLERANCE, Table, tabled
from router.assign.terms import Deadline, Terms

# How often a choice that breaks a limit by rounding is forbidden and the solver asked again.
_TRIES = 8
# The least that is worth starting the solver for, seconds.
_LEAST_S = 0.01
# Of the time there is, what goes into the best quality; the rest into making it cheap.
_QUALITY_SHARE = 0.6


def best_found(problem: Problem, objective: Objective, terms: Terms) -> Found:
    """Return what is found for a checked problem; for quality, the cheapest of the equally good."""
    if objective == "cost":
        return solved(problem, objective, terms)
    first = Deadline(terms.deadline.at_s - (1 - _QUALITY_SHARE) * terms.deadline.left_s, terms.deadline.began_s)
    return cheapest_of_equals(solved(problem, objective, replace(terms, deadline=first)), terms)


def solved(problem: Problem, objective: Objective, terms: Terms) -> Found:
    """Return the best choice for a checked problem."""
    table = tabled(problem, objective)
    bound = bound_at(table, objective, price_of_quality(table, objective))
    choice = greedy(table, objective, terms.deadline)
    is_impossible = choice is None and _cannot_be(table, objective, bound)
    found = Found(table, objective, choice, bound, "greedy", is_impossible)
    return _asked(found, terms) if terms.is_exact and not _is_settled(found, terms.gap_share) else found


def cheapest_of_equals(found: Found, terms: Terms) -> Found:
    """Return what was found for quality, made as cheap as it can be without losing any of that quality."""
    if found.choice is None or found.choice.quality is None:
        return found
    problem = found.table.problem
    limits = replace(problem.limits, quality_floor=found.choice.quality)
    cheaper = solved(replace(problem, limits=limits), "cost", replace(terms, gap_share=0.0)).choice
    if cheaper is None or cheaper.units >= found.choice.units:
        return found
    return replace(found, choice=better_of("cost", found.choice, standing(found.table, cheaper.picks)))


def _asked(found: Found, terms: Terms) -> Found:
    """Return what was found, after the solver was asked as well."""
    forbidden: list[tuple[int, ...]] = []
    while len(forbidden) < _TRIES and terms.deadline.left_s > _LEAST_S:
        said = solve_exactly(
            found.table,
            found.objective,
            begin=found.choice,
            forbidden=forbidden,
            time_limit_s=terms.deadline.left_s,
            gap_share=terms.gap_share,
        )
        if said is None:
            return found
        found = _weighed(found, said, terms)
        if said.columns is None or not standing_at(found.table, said.columns).broken:
            return found
        forbidden.append(said.columns)
    return found


def _weighed(found: Found, said: Solved, terms: Terms) -> Found:
    """Return what was found, with the solver's word taken in as far as it stands up."""
    if said.is_impossible:
        return replace(found, is_impossible=found.choice is None)
    bound = _closer(found.objective, found.bound, said.bound)
    if said.columns is None:
        return replace(found, bound=bound)
    plain = standing_at(found.table, said.columns)
    polished = finished(found.table, found.objective, np.array(said.columns), terms.deadline)
    choice = better_of(found.objective, better_of(found.objective, found.choice, plain), polished)
    return replace(found, choice=choice, bound=bound, method="exact" if choice else found.method)


def _closer(objective: Objective, one: float | None, other: float | None) -> float | None:
    """Return the bound that says more."""
    known = [each for each in (one, other) if each is not None]
    if not known:
        return None
    return max(known) if objective == "cost" else min(known)


def _is_settled(found: Found, gap_share: float) -> bool:
    """Return whether there is nothing left to ask the solver."""
    if found.is_impossible:
        return True
    if found.choice is None or found.bound is None:
        return False
    value = value_of(found.table, found.objective, found.choice)
    return gap_between(found.objective, value, found.bound) <= gap_share


def _cannot_be(table: Table, objective: Objective, bound: float | None) -> bool:
    """Return whether the bound alone proves that no choice holds the limits."""
    if bound is None:
        return False
    if objective == "cost":
        return table.budget is not None and bound * (1 - TOLERANCE) > table.budget * table.unit_usd
    return table.floor is not None and bound < table.floor - 2 * TOLERANCE
