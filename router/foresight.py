"""What a plan would cost under a configuration, worked out before a cent is spent.

In: a market, settings, a task, perhaps its plan. Out: a `PlanEstimate`. Invariant: pure; nothing is sent. The models
are those that the run would ask: the policy's own, or for `by_plan` the optimizer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from router.assign import Infeasible, frontier
from router.assigned_plan import Found, of_optimizer, saved_each
from router.classify import classify
from router.errors import NoEndpoint
from router.estimation import PARTS_IF_UNSEEN, configuration_of, estimate_task, loosened, require_models
from router.graph import given_plan
from router.plan import listed_parts
from router.plan_estimate import CallEstimate, PlanEstimate
from router.plan_value import Plan
from router.planning import StepChoices, latency_of, option_key, retries_milli
from router.policy import Market, NoCandidate, need_of
from router.policy_plan import of_policy
from router.result import Candidate, Decision, Interval
from router.settings import Settings
from router.settings_plan import ByPlanSettings
from router.spread import ALIKE, in_all, moved
from router.step import Step
from router.task import Task
from router.tokens import estimate_message_tokens

POINTS = 12


def estimate_plan(
    market: Market,
    settings: Settings,
    task: Task,
    plan: Plan | None = None,
    *,
    with_frontier: bool = False,
) -> PlanEstimate:
    """Return what a task's plan is expected to cost, with the model of each step.

    Args:
        market: what is on offer.
        settings: the named configurations and bounds.
        task: the task; steps of its own are its plan.
        plan: a plan that was made for it; None: its own steps, else what its text lists.
        with_frontier: whether the frontier of cost and quality is worked out, too.

    Raises:
        WrongUsage: steps that are no graph, an unknown configuration, class or model.
        NoCandidate, NoEndpoint: a call has no model that fits.
    """
    made = plan or given_plan(task, settings.swarm.max_steps)
    is_expected = made is None
    drawn = made or drawn_plan(task, settings)
    require_models(market, drawn)
    if made is not None and plan is None:
        task = task.model_copy(update={"merge": made.merges})
    name, configuration = configuration_of(settings, task)
    single = _single_cost(market, settings, task) if not task.steps else None
    part = task if task.candidates else loosened(task, configuration)
    if isinstance(configuration, ByPlanSettings) and not task.candidates:
        found = of_optimizer(market, settings, task, drawn, (name, configuration), is_expected=is_expected)
    else:
        found = of_policy(market, settings, part, drawn, name, is_expected=is_expected)
    estimate = _whole(market, settings, part, drawn, found, is_expected=is_expected)
    is_worth = None if estimate.cost is None or single is None else estimate.cost.expected_usd < single.expected_usd
    estimate = replace(estimate, task_text=task.text, single_cost=single, is_worth_planning=is_worth)
    if estimate.kind != "by_plan":  # the optimizer holds it itself
        estimate = replace(estimate, problem=_over_budget(task, estimate))
    budget_usd = estimate.limits.budget_usd
    if estimate.problem is not None and budget_usd is not None and estimate.cost is not None:
        held_usd = found.assignment.cost_usd if estimate.kind == "by_plan" else estimate.cost.expected_usd
        estimate = replace(estimate, is_over_budget=held_usd > budget_usd)
    return _with_frontier(estimate, found) if with_frontier else estimate


def _with_frontier(estimate: PlanEstimate, found: Found) -> PlanEstimate:
    """Return the estimate with the frontier of cost and quality, or with a note why there is none."""
    if not found.workbook.is_priced:
        words = "there is no frontier of cost and quality: not every call has a known price"
        return replace(estimate, notes=(*estimate.notes, words))
    problem = found.workbook.problem
    try:
        return replace(estimate, frontier=frontier(problem, points=POINTS))
    except Infeasible:
        free = frontier(problem.without_limits(), points=POINTS)
        words = "the frontier of cost and quality is that without the limits, which cannot be held"
        return replace(estimate, frontier=free, notes=(*estimate.notes, words))


def _over_budget(task: Task, estimate: PlanEstimate) -> str | None:
    """Return why a plan cannot be held to the task's budget, in words, or None: it is, or there is none."""
    if task.budget_usd is None:
        return None
    start, cost = f"budget_usd: {task.budget_usd:f} USD", estimate.cost
    if cost is None:
        unpriced = sum(row.cost is None for row in estimate.rows)
        return f"{start} cannot be held; of {len(estimate.rows)} calls, {unpriced} have no known price"
    if cost.expected_usd <= task.budget_usd:
        return None
    return f"{start} is not enough; the plan is expected to cost {cost.expected_usd:.6f} USD"


def drawn_plan(task: Task, settings: Settings) -> Plan:
    """Return the plan that a text's own list suggests; where it lists nothing, three steps that share its words."""
    parts = listed_parts(task.text)[: settings.swarm.max_steps]
    task_class = need_of(task).task_class
    if not parts:
        size = max(1, estimate_message_tokens(task.messages) // PARTS_IF_UNSEEN)
        steps = (
            Step(f"part{number}", task_class, task.text, expected_input_tokens=size)
            for number in range(1, PARTS_IF_UNSEEN + 1)
        )
        return Plan(tuple(steps), task.merge)
    steps = (
        Step(f"part{number}", task.task_class or classify(words).task_class or task_class, words)
        for number, words in enumerate(parts, 1)
    )
    return Plan(tuple(steps), task.merge)


def _whole(
    market: Market, settings: Settings, task: Task, plan: Plan, found: Found, *, is_expected: bool
) -> PlanEstimate:
    """Return the estimate with every call's interval and their total."""
    shared = saved_each(market, settings, task, [decision.chosen for decision, _ in found.decisions.values()])
    steps = tuple(
        CallEstimate(
            decision,
            _interval(market, found.workbook.steps[step.step_id], decision.chosen, shared),
            why,
            latency_of(decision.chosen),
            step,
        )
        for step in plan.steps
        for decision, why in (found.decisions[step.step_id],)
    )
    planning = _around(found.workbook.planning, "makes the plan")
    merge = _around(found.workbook.merge, "merges")
    rows = [*([planning] if planning else []), *steps, *([merge] if merge else [])]
    cost = _total(market, rows)
    best = found.best
    return PlanEstimate(
        plan=plan,
        task_text="",
        configuration=found.name,
        kind=found.kind,
        is_expected=is_expected,
        steps=steps,
        planning=planning,
        merge=merge,
        cost=cost,
        quality=found.assignment.quality,
        latency_s=found.assignment.latency_s,
        limits=found.workbook.problem.limits,
        assignment=found.assignment,
        best_assignment=best,
        saving_usd=None if best is None else found.assignment.cost_usd - best.cost_usd,
        problem=found.problem,
        notes=tuple(_notes(task, market, rows, is_expected=is_expected)),
    )


def _around(decision: Decision | None, why: str) -> CallEstimate | None:
    """Return the estimate of the planning call or the merge; None: there is none."""
    if decision is None:
        return None
    return CallEstimate(decision, decision.chosen.cost, why, latency_of(decision.chosen))


def _interval(market: Market, choices: StepChoices, chosen: Candidate, saved: Mapping[str, Decimal]) -> Interval | None:
    """Return what a step's call costs, retries and cached reads in it, USD; None: a price is not known."""
    cost = chosen.cost
    if cost is None:
        return None
    less, times = saved.get(option_key(chosen), Decimal(0)), retries_milli(market, choices.need, chosen)
    low, expected = (max(Decimal(0), each - less) * times / 1000 for each in (cost.low_usd, cost.expected_usd))
    return Interval(low, expected, cost.high_usd * times / 1000)


def _total(market: Market, rows: Iterable[CallEstimate]) -> Interval | None:
    """Return what all calls cost; those of one model and class are short or long together to some extent."""
    kinds: dict[tuple[str, str], list[Interval]] = {}
    for row in rows:
        if row.cost is None:
            return None
        kinds.setdefault((row.decision.chosen.model, row.decision.task_class), []).append(row.cost)
    total = in_all(in_all(alike, ALIKE) for alike in kinds.values())
    widths = market.experience.planned
    return moved(total, widths.low_milli, widths.high_milli) if widths.runs else total


def _single_cost(market: Market, settings: Settings, task: Task) -> Interval | None:
    """Return what one call that does it all would cost; None: none could, or its price is not known."""
    try:
        return estimate_task(market, settings, task.model_copy(update={"plan": "never"})).cost
    except (NoCandidate, NoEndpoint):
        return None


def _notes(task: Task, market: Market, rows: list[CallEstimate], *, is_expected: bool) -> Iterable[str]:
    if is_expected and not listed_parts(task.text):
        yield f"the text lists no parts: {PARTS_IF_UNSEEN} like ones are assumed"
    elif is_expected:
        yield "the steps are drawn from the text's own list; the orchestrator's plan may differ (--ask)"
    unknown = sum(row.decision.chosen.latency_s is None for row in rows)
    if unknown:
        yield f"no latency is on record for {unknown} of {len(rows)} calls: that of such an answer elsewhere is assumed"
    if not market.endpoints:
        yield "no endpoint has a key, so vendors' lists are priced; nothing could be sent"
    if not market.experience.attempts:
        yield "nothing is on record yet: lengths are of public traces, and no retries are counted"
    warnings = (row.decision.chosen.warning for row in rows)
    yield from dict.fromkeys(words for words in warnings if words and "no latency is on record" not in words)
