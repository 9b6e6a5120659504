"""An option for each step, or why there is none: what `router.assign.assign` does.

In: a `Problem` as the caller made it. Out: an `Assignment`, or `Infeasible`. Invariant: a problem is checked before it
is solved, and limits that cannot be held even alone are told without a search.
"""

from __future__ import annotations

from router.assign.checks import check_problem, check_solving
from router.assign.found import assignment_of
from router.assign.infeasible import impossible_alone, why_not
from router.assign.problem import Problem
from router.assign.solution import Assignment, Objective
from router.assign.solve import best_found
from router.assign.terms import Deadline, Terms


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
