"""What solving came to, and the assignment that is told of it.

In: a `Table`, a `Standing`, bounds. Out: a `Found`, an `Assignment`. Invariant: a gap is told only with the bound that
proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from router.assign.solution import Assignment, Method, Objective
from router.assign.standing import Standing, gap_between, options_of, value_of
from router.assign.table import Table
from router.assign.terms import Terms


@dataclass(frozen=True, slots=True)
class Found:
    """What solving came to.

    Args:
        table: what was solved.
        objective: "cost" or "quality".
        choice: the best choice that holds the limits; None where none was found.
        bound: the best bound (USD, the steps alone, or 0 to 1); None: not known.
        method: "exact" where the solver's word is in the choice or the bound, else "greedy".
        is_impossible: whether it is proven that there is no choice that holds the limits.
    """

    table: Table
    objective: Objective
    choice: Standing | None
    bound: float | None
    method: Method
    is_impossible: bool = False


def assignment_of(found: Found, choice: Standing, terms: Terms) -> Assignment:
    """Return the assignment of a choice: the problem's own options, exact sums, and what is proven of it."""
    table, objective, bound = found.table, found.objective, found.bound
    chosen = options_of(table, choice.picks)
    value = value_of(table, objective, choice)
    gap_share = None if bound is None else gap_between(objective, value, bound)
    unknown_latency = sum(option.latency_s is None for option in chosen)
    cost_usd, bound_usd = table.usd(choice.units + table.reserved), None
    if bound is not None and objective == "cost":
        bound_usd = cost_usd if gap_share == 0 else Decimal(str(bound)) + table.problem.reserved_usd
    return Assignment(
        choices=MappingProxyType(
            {step.step_id: option for step, option in zip(table.problem.steps, chosen, strict=True)}
        ),
        cost_usd=cost_usd,
        quality=choice.quality,
        latency_s=None if unknown_latency == len(chosen) else choice.latency_s + table.problem.around_s,
        method=found.method,
        gap_share=gap_share,
        bound_usd=bound_usd,
        solve_s=terms.deadline.spent_s,
        is_proven=gap_share is not None and gap_share <= terms.gap_share,
        bound_quality=None if bound is None or objective == "cost" else max(bound, value),
        unknown_quality=sum(option.quality is None for option in chosen),
        unknown_latency=unknown_latency,
    )
