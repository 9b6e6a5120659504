"""An option for each step, or why there is none: what `router.assign.assign` does.

In: a `Problem` as the caller made it. Out: an `Assignment`, or `Infeasible`. Invariant: a problem is checked before it
is solved, and limits that cannot be held even alone are told without a search.
"""

from __future__ import annotations

from router.assign.checks import check_problem, check_solving
from router.assign.found import Found, assignment_of
from router.assign.infeasible import impossible_alone, why_not
from router.assign.problem import Problem
from router.assign.solution import Assignment, Objective
from router.assign.solve import cheapest_of_equals, solved
from router.assign.terms import Deadline, Terms

# Of the time for the best quality, what is kept for making it cheap.
_QUALITY_SHARE = 0.6


def assigned(
    problem: Problem, objective: Objective, *, time_limit_s: float, gap_share: float, is_exact: bool
) -> Assignment:
    """Return the assignment; see `router.assign.assign`."""
    check_problem(problem)
    check_solving(time_limit_s=time_limit_s, gap_share=gap_share)
    terms = Terms(Deadline.after(time_limit_s), gap_share, is_exact)

    def again() -> Terms:
        return Terms(Deadline.after(time_limit_s / 2), gap_share, is_exact)

    if impossible_alone(problem):
        raise why_not(problem, again)
    found = best_found(problem, objective, terms)
    if found.choice is None:
        raise why_not(problem, again)
    return assignment_of(found, found.choice, terms)


def best_found(problem: Problem, objective: Objective, terms: Terms) -> Found:
    """Return what is found for a checked problem; for quality, the cheapest of the equally good."""
    if objective == "cost":
        return solved(problem, objective, terms)
    first = Deadline(terms.deadline.at_s - (1 - _QUALITY_SHARE) * terms.deadline.left_s, terms.deadline.began_s)
    found = solved(problem, objective, Terms(first, terms.gap_share, terms.is_exact))
    return cheapest_of_equals(found, terms)
