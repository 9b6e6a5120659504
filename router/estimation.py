"""From a task to a decision and an estimate, before a cent is spent.

In: a `Market`, settings, a task. Out: `Decision`, `Estimate`. Invariant: pure.

A plan is made only where it pays: its planning call, its steps and its merge are expected to cost less than one call
that does it all, or no one call could hold the answer.
"""

from __future__ import annotations

from dataclasses import replace

from router.errors import NoEndpoint, unknown_name
from router.forecast import OutputForecast
from router.plan import merging_task, planning_task, separable_parts, step_task
from router.policy import Market, Need, NoCandidate, decide, decide_among, need_of
from router.policy.need import DEFAULT_CLASS
from router.result import NOTHING, Decision, Estimate, Interval, Step
from router.settings import ByClassSettings, ConfigurationSettings, Settings
from router.task import Role, Task
from router.tokens import estimate_message_tokens

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
    if task.candidates:
        return decide_among(market, need, task.candidates)
    return decide(market, need, name, configuration)


def estimate_task(market: Market, settings: Settings, task: Task) -> Estimate:
    """Return what the task is expected to cost, in one call or planned, whichever would be done.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the task.

    Raises:
        WrongUsage, NoCandidate, NoEndpoint: see `decide_task`.
    """
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
    work = decide_task(
        market, settings, step.model_copy(update={"expected_input_tokens": max(1, text_tokens // parts)}), "worker"
    )
    results_tokens = parts * work.chosen.output_tokens[1]
    merging = merging_task(task, ()).model_copy(update={"expected_input_tokens": text_tokens + results_tokens})
    total = NOTHING
    for decision, count in (
        (decide_task(market, settings, planning, "orchestrator"), 1),
        (work, parts),
        (decide_task(market, settings, merging, "orchestrator"), 1),
    ):
        if decision.chosen.cost is None:
            return None
        total += decision.chosen.cost.times(count)
    return total
