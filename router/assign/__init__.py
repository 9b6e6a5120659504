"""Puts a model on each step of a plan: the cheapest, or the best, that holds the limits of the whole.

In: a `Problem`. Out: an `Assignment`, or `Infeasible`. Invariant: pure; no clock but for the time limit, no network, no
SQL, no settings, nothing on stdout or stderr.
"""

from __future__ import annotations

from router.assign.problem import Limits, Option, Problem, StepOptions
from router.assign.solution import Assignment, Constraint, Infeasible, Method, Objective

# Long enough for a hundred steps; see docs/assignment.md for what was measured.
_TIME_LIMIT_S = 2.0
_GAP_SHARE = 0.005

__all__ = [
    "Assignment",
    "Constraint",
    "Infeasible",
    "Limits",
    "Method",
    "Objective",
    "Option",
    "Problem",
    "StepOptions",
    "assign",
    "frontier",
]


def assign(
    problem: Problem,
    *,
    objective: Objective = "cost",
    time_limit_s: float = _TIME_LIMIT_S,
    gap_share: float = _GAP_SHARE,
    is_exact: bool = True,
) -> Assignment:
    """Return an option for each step, so that the limits of the whole are held.

    Where a floor stands or quality is the objective, options of unknown quality are out for a step that has others; a
    step that has none is left out of the mean and takes what is cheapest. The same holds for unknown latencies where a
    latency limit stands.

    Args:
        problem: the steps, their options, the limits.
        objective: "cost": the least cost; "quality": the best quality, and of the equally good the cheapest.
        time_limit_s: seconds to search for; it may be passed by what the solver does between two looks at its clock.
        gap_share: how far from the best is good enough, 0 to 1: the search ends when it is proven; 0: the best.
        is_exact: False: greedy alone, without the solver.

    Returns:
        The assignment. Budget and cost are compared exactly, floor and latency to 1e-9.

    Raises:
        Infeasible: no assignment holds the limits, or none was found in time; it names the limits that are binding.
        WrongUsage: an empty, cyclic or dangling plan, a name used twice, a number out of range.
    """
    from router.assign.assigning import assigned

    return assigned(problem, objective, time_limit_s=time_limit_s, gap_share=gap_share, is_exact=is_exact)


def frontier(
    problem: Problem,
    *,
    points: int = 12,
    time_limit_s: float = 2 * _TIME_LIMIT_S,
    gap_share: float = _GAP_SHARE,
    is_exact: bool = True,
) -> tuple[Assignment, ...]:
    """Return assignments of which none is both cheaper and better than another, the cheapest first.

    Args:
        problem: as for `assign`; its quality floor is not looked at, its budget and latency limit are held.
        points: how many at most, at least 2; fewer where the plan has fewer, or time ends.
        time_limit_s: seconds for all of them together.
        gap_share: as for `assign`, for each.
        is_exact: as for `assign`.

    Returns:
        Assignments of rising cost and rising quality; one where all choices are equally good, or none has a quality.

    Raises:
        Infeasible: no assignment holds budget and latency limit.
        WrongUsage: as for `assign`, or fewer than 2 points.
    """
    from router.assign.curve import frontier_of

    return frontier_of(problem, points, time_limit_s=time_limit_s, gap_share=gap_share, is_exact=is_exact)
