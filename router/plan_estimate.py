"""What a plan is expected to cost, call by call, before a cent is spent: `PlanEstimate`.

In: nothing. Out: frozen values. Invariant: nothing here decides or acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from router.assign import Assignment, Limits
from router.plan_value import Plan
from router.result import CallReceipt, Decision, Interval
from router.step import Step

Kind = Literal["fixed", "by_class", "by_plan", "candidates"]


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """One call of a plan: a step, the planning call or the merge.

    Args:
        decision: what would do it, with every candidate's numbers and why each lost.
        cost: expected cost with its 80 % interval, retries and cached reads in it, USD; None: a price is not known.
        why: why this one, in a few words.
        latency_s: how long it is expected to take, seconds: the median on record, else what is assumed.
        step: the step; None: the planning call or the merge.
    """

    decision: Decision
    cost: Interval | None
    why: str
    latency_s: float
    step: Step | None = None

    @property
    def name(self) -> str:
        """The step's id, "plan" or "merge"."""
        if self.step is not None:
            return self.step.step_id
        return self.decision.task_class


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """A plan with what is expected of it.

    Args:
        plan: its steps.
        task_text: the words of the task.
        configuration: what decided: a named configuration, or "candidates".
        kind: its policy.
        is_expected: whether the steps are drawn from the text's own list, and no orchestrator has been asked yet.
        steps: its steps' calls, in the plan's order.
        planning: the call that makes the plan; None: it was given, or made already.
        merge: the call that merges; None: there is none.
        cost: of all of them, with its 80 % interval, USD; None: a price is not known.
        quality: weighted mean of the steps' quality bounds, 0 to 1, over those that count; None: none does.
        latency_s: expected critical path, planning and merge included, seconds; None: nothing is known.
        limits: what was held.
        assignment: what the optimizer says; of another policy, what it says of that policy's own choice; where
            `cost` is None, its cost_usd says nothing.
        best_assignment: of another policy: what the optimizer would choose at the same floors; None: nothing better.
        saving_usd: what that is expected to save, USD; None: nothing, or nothing is known.
        single_cost: of one call that does it all; None: its price is not known, no one call could, or steps are given.
        is_worth_planning: whether the plan is expected to cost less than one call; None: nothing to compare.
        problem: which limit cannot be held; the plan is then the best that the budget allows, and where it allows none,
            the cheapest. None: all are held.
        is_over_budget: whether the plan is expected to cost more than the budget.
        frontier: assignments of which none is both cheaper and better than another, the cheapest first.
        notes: what a reader has to know.
        run_id: the run whose planning call made the plan; it is gone on with by `Router.resume`. None: none did.
        calls: receipts of what was paid for the plan.
    """

    plan: Plan
    task_text: str
    configuration: str
    kind: Kind
    is_expected: bool
    steps: tuple[CallEstimate, ...]
    planning: CallEstimate | None
    merge: CallEstimate | None
    cost: Interval | None
    quality: float | None
    latency_s: float | None
    limits: Limits
    assignment: Assignment
    best_assignment: Assignment | None = None
    saving_usd: Decimal | None = None
    single_cost: Interval | None = None
    is_worth_planning: bool | None = None
    problem: str | None = None
    is_over_budget: bool = False
    frontier: tuple[Assignment, ...] = ()
    notes: tuple[str, ...] = ()
    run_id: str | None = None
    calls: tuple[CallReceipt, ...] = ()

    @property
    def is_budget_unpriced(self) -> bool:
        """Whether there is a budget that cannot be held, since not every call has a known price."""
        return self.limits.budget_usd is not None and self.cost is None

    @property
    def rows(self) -> tuple[CallEstimate, ...]:
        """Every call, in the order they are made."""
        around = [self.planning] if self.planning else []
        return (*around, *self.steps, *([self.merge] if self.merge else []))
