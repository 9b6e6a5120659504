"""What quality costs in a plan: assignments of which none beats another in both.

In: a `Problem`. Out: assignments, the cheapest first. Invariant: cost and quality both rise from each to the next; each
holds the budget and the latency limit.

The two ends come first: the least cost, the best quality. Then the widest gap between two neighbours (quality, and
the logarithm of cost, both as shares of the whole range) is halved: by the least cost at the quality between them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Final

from router.assign.assigning import assigned
from router.assign.checks import check_problem, check_solving
from router.assign.found import assignment_of
from router.assign.infeasible import best_quality
from router.assign.problem import Problem
from router.assign.solution import Assignment, Objective
from router.assign.solve import best_found
from router.assign.table import TOLERANCE
from router.assign.terms import Deadline, Terms
from router.errors import WrongUsage

_ENDS: Final[tuple[Objective, ...]] = ("cost", "quality")
# A gap is halved so often, towards its cheaper end, where nothing is found in it; none is looked for in finer ones.
_HALVINGS, _FINEST = 3, 1e-4
_FREE_USD = 1e-9
_LEAST_S = 0.05


def frontier_of(
    problem: Problem, points: int, *, time_limit_s: float, gap_share: float, is_exact: bool
) -> tuple[Assignment, ...]:
    """Return the frontier; see `router.assign.frontier`."""
    if points < 2:
        raise WrongUsage(f"points: {points} is not allowed; it is at least 2")
    check_problem(problem)
    check_solving(time_limit_s=time_limit_s, gap_share=gap_share)
    drawn = _Curve(problem, Terms(Deadline.after(time_limit_s), gap_share, is_exact), points)
    if best_quality(problem) is None or not drawn.ends():
        alone = replace(problem, limits=replace(problem.limits, quality_floor=None))
        return (assigned(alone, "cost", time_limit_s=time_limit_s, gap_share=gap_share, is_exact=is_exact),)
    drawn.between()
    return tuple(drawn.found)


class _Curve:
    """A frontier while it is being drawn.

    Args:
        problem: checked; some quality in it is known.
        terms: for all points together.
        points: how many at most.
    """

    def __init__(self, problem: Problem, terms: Terms, points: int) -> None:
        self.problem = problem
        self.terms = terms
        self.points = points
        self.found: list[Assignment] = []
        self._halved: Counter[tuple[Decimal, Decimal]] = Counter()

    def ends(self) -> bool:
        """Find the cheapest and the best; return whether there is any."""
        for objective in _ENDS:
            self._ask(objective, 0.0)
        return bool(self.found)

    def between(self) -> None:
        """Find what lies between the ends, as long as there are gaps, and time."""
        while len(self.found) < self.points and self.terms.deadline.left_s > 0:
            gap = self._widest()
            if gap is None:
                return
            low, high = gap
            name = (low.cost_usd, high.cost_usd)
            self._halved[name] += 1
            from_low = (_quality(high) - _quality(low)) / 2 ** self._halved[name]
            self._ask("cost", _quality(low) + from_low)

    def _ask(self, objective: Objective, floor: float) -> None:
        """Take one more assignment in, and leave out what is no longer on the frontier."""
        limits = replace(self.problem.limits, quality_floor=floor)
        left = max(1, self.points - len(self.found))
        terms = replace(self.terms, deadline=Deadline.after(max(_LEAST_S, self.terms.deadline.left_s / left)))
        found = best_found(replace(self.problem, limits=limits), objective, terms)
        if found.choice is None:
            return
        kept: list[Assignment] = []
        for each in sorted([*self.found, assignment_of(found, found.choice, terms)], key=_place):
            if not kept or _quality(each) > _quality(kept[-1]) + TOLERANCE:
                kept.append(each)
        self.found = kept

    def _widest(self) -> tuple[Assignment, Assignment] | None:
        """Return the neighbours that are farthest apart, of those not halved often; None where none is left."""
        low, high = self.found[0], self.found[-1]
        qualities = _quality(high) - _quality(low) or 1.0
        magnitudes = _magnitude(high) - _magnitude(low) or 1.0

        def width(pair: tuple[Assignment, Assignment]) -> float:
            one, other = pair
            better = (_quality(other) - _quality(one)) / qualities
            dearer = (_magnitude(other) - _magnitude(one)) / magnitudes
            return math.hypot(better, dearer) / (1 << self._halved[one.cost_usd, other.cost_usd])

        pairs = [
            pair
            for pair in pairwise(self.found)
            if self._halved[pair[0].cost_usd, pair[1].cost_usd] < _HALVINGS
            and _quality(pair[1]) - _quality(pair[0]) > _FINEST
        ]
        return max(pairs, key=width, default=None)


def _quality(found: Assignment) -> float:
    return found.quality or 0.0


def _magnitude(found: Assignment) -> float:
    """Return the logarithm of the cost; that of a free assignment is set far below any price."""
    return math.log(max(float(found.cost_usd), _FREE_USD))


def _place(found: Assignment) -> tuple[Decimal, float]:
    return found.cost_usd, -_quality(found)
