"""From a task to a decision and an estimate, before a cent is spent.

In: a `Market`, settings, a task. Out: `Decision`, `Estimate`. Invariant: pure.

A plan is made only where it pays: its planning call, its steps and its merge are expected to cost less than one call
that does it all, or no one call could hold the answer.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial

from router.context import shared_messages
from router.errors import NoEndpoint, unknown_name
from router.extras import configured_extra, thinking_tokens, with_thinking
from router.forecast import OutputForecast, forecast_output
from router.graph import given_plan
from router.plan import merging_task, planning_task, separable_parts, step_task
from router.policy import Market, Need, NoCandidate, decide, decide_among, need_of
from router.policy.need import DEFAULT_CLASS
from router.result import NOTHING, Decision, Estimate, Interval, Plan, Step
from router.settings import ByClassSettings, ConfigurationSettings, Settings
from router.task import Role, Task
from router.tokens import estimate_message_tokens, estimate_tokens
from router.warming import fanout_cost

LEAST_PARTS = 3
DIVISIBLE = frozenset({"write", "code", "math", "reason", "research", "chat", "plan"})
"""Classes whose listed items are questions; elsewhere a list is the material of one answer."""
PARTS_IF_UNSEEN = 3
PLAN_TOKENS_A_PART = 60


def configuration_of(settings: Settings, task: Task) -> tuple[str, ConfigurationSettings]:
    """Return the name and the rule of the task's configuration.

    Raises:
        WrongUsage: it does not exist; near misses are listed.
    """
    name = task.configuration or settings.default_configuration
    if name not in settings.configurations:
        raise unknown_name("configuration", name, settings.configurations)
    return name, settings.configurations[name]


def decide_task(market: Market, settings: Settings, task: Task, role: Role = "single") -> Decision:
    """Return the decision for one call of the task.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the task, or the task that a step of a plan is.
        role: single, orchestrator or worker.

    Raises:
        WrongUsage: an unknown configuration, class or model.
        NoCandidate: no candidate fits.
        NoEndpoint: no configured endpoint offers any of them.
    """
    name, configuration = configuration_of(settings, task)
    return _decide_need(market, task, name, configuration, _need(task, configuration, role))


def _need(task: Task, configuration: ConfigurationSettings, role: Role) -> Need:
    default = configuration.default_class if isinstance(configuration, ByClassSettings) else DEFAULT_CLASS
    return need_of(task, role, default)


def _decide_need(market: Market, task: Task, name: str, configuration: ConfigurationSettings, need: Need) -> Decision:
    extra = {} if task.candidates else configured_extra(configuration, need.role, need.task_class)
    if thinking := thinking_tokens({**extra, **task.extra}):
        need = replace(need, output=with_thinking(need.output, thinking))
    if task.candidates:
        return decide_among(market, need, task.candidates)
    decision = decide(market, need, name, configuration)
    return replace(decision, extra=extra) if extra else decision


def estimate_task(market: Market, settings: Settings, task: Task) -> Estimate:
    """Return what the task is expected to cost, in one call or planned, whichever would be done.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the task.

    Raises:
        WrongUsage: the task's own steps are no graph that can be run.
        WrongUsage, NoCandidate, NoEndpoint: see `decide_task`.
    """
    if (given := given_plan(task, settings.swarm.max_steps)) is not None:
        return _estimate_given(market, settings, task, given)
    name, configuration = configuration_of(settings, task)
    need = _need(task, configuration, "single")
    parts = separable_parts(task.text) if need.task_class in DIVISIBLE or task.plan == "always" else 0
    if parts >= LEAST_PARTS:
        need = replace(need, output=_times(need.output, parts, task.max_output_tokens))
    try:
        single = _decide_need(market, task, name, configuration, need)
    except NoCandidate:
        if task.plan == "never" or parts < LEAST_PARTS:
            raise
        single = None
    plan = None
    if task.plan == "always" or (task.plan == "auto" and parts >= LEAST_PARTS):
        try:
            plan = _plan_cost(market, settings, task, parts or PARTS_IF_UNSEEN)
        except (NoCandidate, NoEndpoint):
            if task.plan == "always" or single is None:
                raise
    alone = single.chosen.cost if single else None
    planned = (
        task.plan == "always"
        or single is None
        or (plan is not None and alone is not None and plan.expected_usd < alone.expected_usd)
    )
    if planned or single is None:
        orchestrator = decide_task(market, settings, planning_task(task), "orchestrator")
        calls = (parts or PARTS_IF_UNSEEN) + 2
        return Estimate(plan, planned, calls, orchestrator, need.task_class, alone, plan)
    return Estimate(alone, planned, 1, single, need.task_class, alone, plan)


def _estimate_given(market: Market, settings: Settings, task: Task, plan: Plan) -> Estimate:
    """Return what the caller's own steps are expected to cost: steps alike are decided on once, at their mean size.

    Raises:
        WrongUsage, NoCandidate, NoEndpoint: see `decide_task`.
    """
    most = settings.swarm.step_max_output_tokens
    answers = {step.step_id: forecast_output(step.task_class, 0, step.max_output_tokens or most) for step in plan.steps}
    alike: dict[tuple[str, int | None, str], list[tuple[Step, int]]] = {}
    for step in plan.steps:
        read_tokens = estimate_tokens(step.prompt) + sum(answers[name].expected_tokens for name in step.depends_on)
        key = (step.task_class, step.max_output_tokens, repr(sorted(step.extra.items())))
        alike.setdefault(key, []).append((step, read_tokens))
    shared_tokens = estimate_tokens(task.shared) if task.shared else 0
    decided = []
    for some in alike.values():
        first = some[0][0]
        size = {"expected_input_tokens": shared_tokens + sum(tokens for _, tokens in some) // len(some)}
        asked = step_task(task, first, {}, first.max_output_tokens or most).model_copy(update=size)
        decided.append((decide_task(market, settings, asked, "worker"), len(some)))
    if task.merge:
        results_tokens = sum(each.expected_tokens for each in answers.values())
        size = {"expected_input_tokens": estimate_message_tokens(task.messages) + results_tokens}
        merging = decide_task(market, settings, merging_task(task, ()), "orchestrator")
        with contextlib.suppress(NoCandidate):  # too much for one merge: it is done in several, each within the window
            merging = decide_task(market, settings, merging_task(task, ()).model_copy(update=size), "orchestrator")
        decided.insert(0, (merging, 1))
    fanned = partial(_fanned, market, _prefix_tokens(settings, task))
    cost: Interval | None = NOTHING
    for decision, count in decided:
        cost = None if cost is None or (each := fanned(decision, count)) is None else cost + each
    calls = len(plan.steps) + task.merge
    return Estimate(
        cost,
        planned=True,
        calls=calls,
        decision=decided[0][0],
        task_class=need_of(task).task_class,
        single_cost=None,
        plan_cost=cost,
    )


def _times(output: OutputForecast, parts: int, cap: int | None) -> OutputForecast:
    """Return the forecast of one answer that holds `parts` answers."""

    def capped(tokens: int) -> int:
        return tokens * parts if cap is None else min(tokens * parts, cap)

    return OutputForecast(
        capped(output.low_tokens), capped(output.expected_tokens), capped(output.high_tokens), output.source
    )


def _plan_cost(market: Market, settings: Settings, task: Task, parts: int) -> Interval | None:
    """Return the expected cost of plan, steps and merge, or None where a price is unknown.

    Raises:
        NoCandidate, NoEndpoint: one of the roles has no model.
    """
    text_tokens = estimate_message_tokens(task.messages)
    planning = planning_task(task).model_copy(update={"expected_output_tokens": PLAN_TOKENS_A_PART * parts})
    some = Step("part", need_of(task).task_class, task.text)
    step = step_task(task, some, {}, settings.swarm.step_max_output_tokens)
    shared_tokens = estimate_tokens(task.shared) if task.shared else 0
    size = {"expected_input_tokens": shared_tokens + max(1, text_tokens // parts)}
    work = decide_task(market, settings, step.model_copy(update=size), "worker")
    results_tokens = parts * work.chosen.output_tokens[1]
    merging = merging_task(task, ()).model_copy(update={"expected_input_tokens": text_tokens + results_tokens})
    total = NOTHING
    for decision, count in (
        (decide_task(market, settings, planning, "orchestrator"), 1),
        (work, parts),
        (decide_task(market, settings, merging, "orchestrator"), 1),
    ):
        cost = _fanned(market, _prefix_tokens(settings, task), decision, count)
        if cost is None:
            return None
        total += cost
    return total


def _prefix_tokens(settings: Settings, task: Task) -> int:
    """Return how many tokens the prompts of all workers begin with alike, where one of them goes ahead; else 0."""
    if task.shared is None or not settings.context.warmup:
        return 0
    return estimate_message_tokens(shared_messages(task.shared))


def _fanned(market: Market, prefix_tokens: int, decision: Decision, count: int) -> Interval | None:
    """Return what many calls cost that are decided on alike, or None where a price is unknown."""
    cost = decision.chosen.cost
    if cost is None or decision.role != "worker":
        return cost
    return fanout_cost(market, decision.chosen.offer, cost, prefix_tokens=prefix_tokens, workers=count)
