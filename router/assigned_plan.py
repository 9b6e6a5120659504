"""The optimizer's answer for a plan, as decisions: which model does each step, and why no other.

In: a market, settings, a task, its plan. Out: `Found`. Invariant: pure, but for the optimizer's clock; the assignment
holds every limit, or the page that shows it says which one it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from router.assign import Assignment, Infeasible, Problem, assign
from router.estimation import prefix_tokens_of
from router.plan_estimate import Kind
from router.plan_value import Plan
from router.planning import (
    ALL_LEFT,
    Left,
    StepChoices,
    Workbook,
    option_key,
    saved_usd,
    workbook_of,
)
from router.policy import Market
from router.policy.by_plan import VERSION
from router.result import Candidate, Decision
from router.settings import Settings
from router.settings_plan import ByPlanSettings
from router.task import Task

ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Found:
    """What was decided on for each step, and what that rests on."""

    name: str
    kind: Kind
    workbook: Workbook
    assignment: Assignment
    decisions: Mapping[str, tuple[Decision, str]]
    best: Assignment | None = None
    problem: str | None = None


def of_optimizer(
    market: Market, settings: Settings, task: Task, plan: Plan, named: tuple[str, ByPlanSettings], *, is_expected: bool
) -> Found:
    """Return what the optimizer puts on the steps; where a limit cannot be held, the best that the budget allows.

    Where the budget allows none, it is the cheapest.

    Args:
        market: what is on offer.
        settings: bounds of a plan's execution.
        task: the whole task, with its own limits.
        plan: its plan.
        named: the configuration and its name.
        is_expected: whether the plan is still to be made.

    Raises:
        NoCandidate, WrongUsage: see `router.planning.workbook_of`.
    """
    name, rules = named
    problem = None
    try:
        workbook, assignment = solved_plan(market, settings, task, plan, rules, is_expected=is_expected)
    except Infeasible as error:
        workbook = workbook_of(market, settings, task, plan, rules, is_expected=is_expected)
        assignment, problem = error.best or _cheapest(workbook.problem, rules), str(error)
    decisions = {}
    for step_id, option in assignment.choices.items():
        choices = workbook.steps[step_id]
        decisions[step_id] = decision_of(choices, option.key, name), _why(choices, option.key)
    return Found(name, "by_plan", workbook, assignment, decisions, problem=problem)


def solved_plan(
    market: Market,
    settings: Settings,
    task: Task,
    plan: Plan,
    rules: ByPlanSettings,
    *,
    is_expected: bool = False,
    left: Left = ALL_LEFT,
) -> tuple[Workbook, Assignment]:
    """Return a plan's workbook and the optimizer's answer to it.

    A step's cached reads are priced as if all steps were on its model. Where they are not, and the budget does not bear
    the difference, it is solved again without cached reads.

    Args:
        market: what is on offer.
        settings: bounds of a plan's execution.
        task: the whole task, with its own limits.
        plan: its plan.
        rules: the configuration.
        is_expected: whether the plan is still to be made.
        left: what of it is still to be done.

    Raises:
        Infeasible: no assignment holds the limits, or what goes around the steps has no price to hold a budget with.
        NoCandidate, WrongUsage: see `router.planning.workbook_of`.
    """
    workbook = workbook_of(market, settings, task, plan, rules, is_expected=is_expected, left=left)
    _require_prices(workbook)
    assignment = solved(workbook.problem, rules)
    budget_usd = workbook.problem.limits.budget_usd
    if budget_usd is None or not (tokens := prefix_tokens_of(settings, task)):
        return workbook, assignment
    chosen = [workbook.steps[step_id].fit[option.key] for step_id, option in assignment.choices.items()]
    real = saved_each(market, settings, task, chosen)
    missing = sum((saved_usd(market, each, tokens, len(plan.steps)) - real[option_key(each)] for each in chosen), ZERO)
    if assignment.cost_usd + missing <= budget_usd:
        return workbook, assignment
    cold = settings.model_copy(update={"context": settings.context.model_copy(update={"warmup": False})})
    workbook = workbook_of(market, cold, task, plan, rules, is_expected=is_expected, left=left)
    return workbook, solved(workbook.problem, rules)


def solved(problem: Problem, rules: ByPlanSettings) -> Assignment:
    """Return the optimizer's answer under a configuration's objective, time limit and gap.

    Raises:
        Infeasible: no assignment holds the limits.
    """
    return assign(problem, objective=rules.objective, time_limit_s=rules.time_limit_s, gap_share=rules.gap_share)


def _require_prices(workbook: Workbook) -> None:
    """Refuse to hold a budget without every price: the steps would be paid, and the merge then not be sent.

    Raises:
        Infeasible: there is a budget, and the planning call or the merge has no price; steps always have one.
    """
    budget_usd = workbook.problem.limits.budget_usd
    around = {"planning call": workbook.planning, "merge": workbook.merge}
    unpriced = [name for name, each in around.items() if each is not None and each.chosen.cost is None]
    if budget_usd is not None and unpriced:
        message = f"budget_usd: {budget_usd:f} USD cannot be held; the {' and the '.join(unpriced)} has no known price"
        hint = "add its price (router.toml, price_files), or leave the budget out"
        raise Infeasible(message, binding=("budget_usd",), best=None, hint=hint)


def _cheapest(problem: Problem, rules: ByPlanSettings) -> Assignment:
    """Return the cheapest assignment of all."""
    return assign(problem.without_limits(), time_limit_s=rules.time_limit_s, gap_share=rules.gap_share)


def decision_of(choices: StepChoices, key: str, name: str) -> Decision:
    """Return a step's decision as the assignment has it, with why every other candidate was left.

    Args:
        choices: what the step could be done by.
        key: the option that was taken.
        name: the configuration's name.
    """
    chosen = choices.fit[key]
    own_usd = choices.costs[key]
    others = [
        replace(candidate, lost=_left_for(choices.costs[other], own_usd))
        for other, candidate in choices.fit.items()
        if other != key
    ]
    need = choices.need
    return Decision(
        configuration=name,
        policy_version=VERSION,
        role="worker",
        task_class=need.task_class,
        class_source=need.class_source,
        quality_floor=need.quality_floor,
        chosen=chosen,
        candidates=(chosen, *others, *choices.lost),
        extra=choices.ways.body_fields(chosen),
    )


def _left_for(cost: Decimal, own: Decimal) -> str:
    if cost < own:
        return "cheaper here, but the whole plan then misses a limit or costs more elsewhere"
    return f"{cost / own:.2f} × the cost, and the plan does without" if own else "dearer, and the plan does without"


def _why(choices: StepChoices, key: str) -> str:
    """Return why a step is on this option, in a few words."""
    cheapest, own = min(choices.costs.values()), choices.costs[key]
    if own <= cheapest:
        return "cheapest that fits"
    times = f"{own / cheapest:.1f} × the cheapest" if cheapest else "dearer than the cheapest"
    return f"{times}, for the plan's limits"


def saved_each(market: Market, settings: Settings, task: Task, chosen: Sequence[Candidate]) -> dict[str, Decimal]:
    """Return what one step on each model saves by the shared document's cached reads, by option key, USD.

    Each model has a cache of its own, so here only the steps that are on it share.
    """
    tokens = prefix_tokens_of(settings, task)
    counts: dict[str, int] = {}
    for each in chosen:
        counts[option_key(each)] = counts.get(option_key(each), 0) + 1
    return {key: saved_usd(market, each, tokens, counts[key]) for each in chosen for key in (option_key(each),)}
