"""What the optimizer answers: an option for each step, or why there is none.

In: choices and what has been worked out about them. Out: values. Invariant: an `Assignment` that is returned holds
every limit of its problem; one that holds only the budget is met in `Infeasible.best` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from router.assign.problem import Option
from router.errors import LimitCrossed

Method: TypeAlias = Literal["exact", "greedy"]
Objective: TypeAlias = Literal["cost", "quality"]
Constraint: TypeAlias = Literal["quality_floor", "latency_s", "budget_usd"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """An option for each step.

    Args:
        choices: the option of each step, by step id, in the problem's order.
        cost_usd: the exact sum of the expected costs in USD, what is reserved included.
        quality: the weighted mean over the steps whose quality is known, 0 to 1; None where none is.
        latency_s: the critical path in seconds, what goes around the plan included; steps without a figure count as 0
            and are counted in `unknown_latency`; None where no chosen option has a figure.
        method: what found it: "exact" (branch and bound) or "greedy".
        gap_share: proven distance from the best, 0 to 1: (cost − bound) / cost of the steps, what is reserved left out;
            where quality was the objective, (bound − quality) / bound. None: nothing is proven.
        bound_usd: no assignment that holds the limits costs less, USD; None: not known, or quality was the objective.
        solve_s: seconds that solving took.
        is_proven: whether `gap_share` is known and within the gap that was asked for.
        bound_quality: no assignment that holds the limits is better, 0 to 1; None: not known, or cost was asked for.
        unknown_quality: how many steps have no known quality.
        unknown_latency: how many steps have no known latency.
    """

    choices: Mapping[str, Option]
    cost_usd: Decimal
    quality: float | None
    latency_s: float | None
    method: Method
    gap_share: float | None
    bound_usd: Decimal | None
    solve_s: float
    is_proven: bool
    bound_quality: float | None = None
    unknown_quality: int = 0
    unknown_latency: int = 0


class Infeasible(LimitCrossed):
    """No assignment holds every limit.

    Args:
        message: one line: the limit, the value that was asked for, the best that can be had.
        binding: the limits that cannot be held: one alone, or those that cannot be held together.
        best: the best quality that the budget allows, within the latency limit too where that is possible; None where
            even the cheapest assignment is above the budget.
        hint: what to do, or None.
    """

    def __init__(
        self, message: str, *, binding: tuple[Constraint, ...], best: Assignment | None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint)
        self.binding = binding
        self.best = best
