"""From a task to a decision and an estimate, before a cent is spent.

In: a `Market`, settings, a task. Out: `Decision`, `Estimate`. Invariant: pure.

A plan is made only where it pays: its planning call, its steps and its merge are expected to cost less than one call
that does it all, or no one call could hold the answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from router.context import shared_messages
from router.efforts import decide_by_ways
from router.errors import NoEndpoint, WrongUsage, unknown_name
from router.extras import configured_extra, expected_thinking, thinking_tokens, with_thinking
from router.forecast import OutputForecast
from router.graph import given_plan
from router.plan import answer_tokens, merging_task, planning_task, prompt_tokens, separable_parts, step_task
from router.policy import Market, Need, NoCandidate, decide, decide_among, need_of
from router.policy.need import DEFAULT_CLASS
from router.result import Decision, Estimate, Interval, Plan, Step
from router.settings import ConfigurationSettings, FixedSettings, Settings
from router.settings_plan import ByPlanSettings
from router.spread import in_all, moved
from router.task import Role, Task
from router.tokens import estimate_message_tokens, estimate_tokens, message_script
from router.warming import fanout_cost

LEAST_PARTS = 3
DIVISIBLE = frozenset({"write", "code", "math", "reason", "research", "chat", "plan"})
"""Classes whose listed items are questions; elsewhere a list is the material of one answer."""
PARTS_IF_UNSEEN = 3
PLAN_TOKENS_A_STEP = 60


def configuration_of(settings: Settings, task: Task) -> tuple[str, ConfigurationSettings]:
    """Return the name and the rule of the task's configuration.

    Raises:
        WrongUsage: it does not exist; near misses are listed.
    """
    name = task.configuration or settings.default_configuration
    if name not in settings.configurations:
        raise unknown_name("configuration", name, settings.configurations)
    return name, settings.configurations[name]


def decide_task(
    market: Market, settings: Settings, task: Task, role: Role = "single", input_tokens: int | None = None
) -> Decision:
    """Return the decision for one call of the task.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the task, or the task that a step of a plan is.
        role: single, orchestrator or worker.
        input_tokens: our own estimate of its input where its text is not known yet, tokens; None: that of its text.

    Raises:
        WrongUsage: an unknown configuration, class or model.
        NoCandidate: no candidate fits.
        NoEndpoint: no configured endpoint offers any of them.
    """
    name, configuration = configuration_of(settings, task)
    need = _need(task, configuration, role)
    if input_tokens is not None:
        need = replace(need, input_tokens=input_tokens, script=message_script(task.messages))
    return _decide_need(market, task, name, configuration, need)


def _need(task: Task, configuration: ConfigurationSettings, role: Role) -> Need:
    default = DEFAULT_CLASS if isinstance(configuration, FixedSettings) else configuration.default_class
    return need_of(task, role, default)


def _decide_need(market: Market, task: Task, name: str, configuration: ConfigurationSettings, need: Need) -> Decision:
    if isinstance(configuration, ByPlanSettings) and not task.candidates:
        return decide_by_ways(market, name, configuration, need, task.extra)
    extra = {} if task.candidates else configured_extra(configuration, need.role, need.task_class)
    if thinking := thinking_tokens({**extra, **task.extra}):
        need = replace(need, output=with_thinking(need.output, thinking), thinking=expected_thinking(thinking))
    if task.candidates:
        return decide_among(market, need, task.candidates)
    decision = decide(market, need, name, configuration)
    return replace(decision, extra=extra) if extra else decision


def loosened(task: Task, configuration: ConfigurationSettings) -> Task:
    """Return the task whose parts are calls of their own: under `by_plan`, floor and latency hold for the whole plan.

    Args:
        task: the whole task.
        configuration: its configuration.
    """
    if not isinstance(configuration, ByPlanSettings) or task.candidates:
        return task
    return task.model_copy(update={"quality_floor": None, "latency_objective_s": None})


def with_own_budget(settings: Settings, task: Task) -> Task:
    """Return the task with the budget that its configuration sets, where it has none of its own."""
    configuration = settings.configurations.get(task.configuration or settings.default_configuration)
    if task.budget_usd is not None or task.candidates or not isinstance(configuration, ByPlanSettings):
        return task
    budget_usd = configuration.budget_usd
    return task if budget_usd is None else task.model_copy(update={"budget_usd": budget_usd})


def merge_decision(market: Market, settings: Settings, task: Task, results_tokens: int) -> Decision:
    """Return the decision for the merge; where it is too much for one, that for the first of several.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the whole task.
        results_tokens: length of what it merges, beside the task's own words, tokens.

    Raises:
        NoCandidate, NoEndpoint: it has no model.
    """
    merging = merging_task(task, ())
    read_tokens = estimate_message_tokens(task.messages) + results_tokens
    with contextlib.suppress(NoCandidate):
        return decide_task(market, settings, merging, "orchestrator", read_tokens)
    return decide_task(market, settings, merging, "orchestrator")


def planning_decision(market: Market, settings: Settings, task: Task, steps: int) -> Decision:
    """Return the decision for the call that makes a plan of so many steps.

    Args:
        market: what is on offer.
        settings: the named configurations.
        task: the whole task.
        steps: how many steps the plan is expected to have.

    Raises:
        NoCandidate, NoEndpoint: it has no model.
    """
    asked = planning_task(task).model_copy(update={"expected_output_tokens": PLAN_TOKENS_A_STEP * steps})
    return decide_task(market, settings, asked, "orchestrator")


def require_models(market: Market, plan: Plan) -> None:
    """Refuse a plan with a step that names a model as a candidate which nobody knows.

    Args:
        market: knows the models' names.
        plan: the plan.

    Raises:
        WrongUsage: there is one; the message names the step.
    """
    for step in plan.steps:
        for name in step.candidates:
            try:
                market.model(name)
            except WrongUsage as error:
                message = f"steps: step {step.step_id!r}: candidates: {error}"
                raise WrongUsage(message, hint=error.hint) from None


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
    given = given_plan(task, settings.swarm.max_steps)
    part = loosened(task, configuration_of(settings, task)[1])
    estimate = (
        _estimate_open(market, settings, task, part)
        if given is None
        else _estimate_given(market, settings, part, given)
    )
    widths = market.experience.planned if estimate.calls > 1 else market.experience.single
    if not widths.runs or estimate.cost is None:
        return estimate
    return replace(estimate, cost=moved(estimate.cost, widths.low_milli, widths.high_milli), uncorrected=estimate.cost)


def _estimate_open(market: Market, settings: Settings, task: Task, part: Task) -> Estimate:
    """Return the estimate of a task whose plan, if it takes one, is still to be made; `part`: as its parts see it.

    Raises:
        WrongUsage, NoCandidate, NoEndpoint: see `decide_task`.
    """
    name, configuration = configuration_of(settings, task)
    need = _need(task, configuration, "single")
    parts = separable_parts(task.text) if need.task_class in DIVISIBLE or task.plan == "always" else 0
    if parts >= LEAST_PARTS:
        need = replace(need, output=_times(need.output, parts, task.max_output_tokens), answers=parts)
    try:
        single = _decide_need(market, task, name, configuration, need)
    except NoCandidate:
        if task.plan == "never" or parts < LEAST_PARTS:
            raise
        single = None
    plan = None
    if task.plan == "always" or (task.plan == "auto" and parts >= LEAST_PARTS):
        try:
            plan = _plan_cost(market, settings, part, parts or PARTS_IF_UNSEEN)
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
        orchestrator = decide_task(market, settings, planning_task(part), "orchestrator")
        calls = (parts or PARTS_IF_UNSEEN) + 2
        return Estimate(plan, planned, calls, orchestrator, need.task_class, alone, plan)
    return Estimate(alone, planned, 1, single, need.task_class, alone, plan)


def _estimate_given(market: Market, settings: Settings, task: Task, plan: Plan) -> Estimate:
    """Return what the caller's own steps are expected to cost: steps alike are decided on once, at their mean size.

    Raises:
        WrongUsage, NoCandidate, NoEndpoint: see `decide_task`.
    """
    require_models(market, plan)
    most = settings.swarm.step_max_output_tokens
    answers = {step.step_id: answer_tokens(step, most, market.experience) for step in plan.steps}
    alike: dict[object, list[tuple[Step, int]]] = {}
    for step in plan.steps:
        read_tokens = prompt_tokens(task, step, answers, settings.context.step_input_tokens)
        alike.setdefault(_kind(step), []).append((step, read_tokens))
    decided = []
    for some in alike.values():
        first = some[0][0]
        mean_tokens = sum(tokens for _, tokens in some) // len(some)
        asked = step_task(task, first, {}, first.max_output_tokens or most)
        if asked.expected_input_tokens is None:
            decision = decide_task(market, settings, asked, "worker", mean_tokens)
        else:
            stated = asked.model_copy(update={"expected_input_tokens": mean_tokens})
            decision = decide_task(market, settings, stated, "worker")
        decided.append((decision, len(some)))
    if task.merge:
        decided.insert(0, (merge_decision(market, settings, task, sum(answers.values())), 1))
    cost = _total(market, prefix_tokens_of(settings, task), decided)
    calls = len(plan.steps) + task.merge
    decision = decided[0][0]
    if not task.candidates:  # a step may name its own: the run still is the configuration's
        decision = replace(decision, configuration=configuration_of(settings, task)[0])
    return Estimate(
        cost,
        planned=True,
        calls=calls,
        decision=decision,
        task_class=need_of(task).task_class,
        single_cost=None,
        plan_cost=cost,
    )


def _kind(step: Step) -> object:
    """Return what steps that are decided on alike have in common: all but their words, and what they read."""
    alike = replace(step, step_id="", prompt="", depends_on=(), extra={}, expected_input_tokens=None)
    return alike, step.expected_input_tokens is None, repr(sorted(step.extra.items()))


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
    some = Step("part", need_of(task).task_class, task.text)
    step = step_task(task, some, {}, settings.swarm.step_max_output_tokens)
    shared_tokens = estimate_tokens(task.shared) if task.shared else 0
    work = decide_task(market, settings, step, "worker", shared_tokens + max(1, text_tokens // parts))
    results_tokens = parts * work.chosen.output_tokens[1]
    decided = (
        (planning_decision(market, settings, task, parts), 1),
        (work, parts),
        (decide_task(market, settings, merging_task(task, ()), "orchestrator", text_tokens + results_tokens), 1),
    )
    return _total(market, prefix_tokens_of(settings, task), decided)


def _total(market: Market, prefix_tokens: int, decided: Iterable[tuple[Decision, int]]) -> Interval | None:
    """Return what calls cost in all, given each decision and how many are made alike; None where a price is unknown."""
    costs = [_fanned(market, prefix_tokens, decision, count) for decision, count in decided]
    known = [cost for cost in costs if cost is not None]
    return in_all(known) if len(known) == len(costs) else None


def prefix_tokens_of(settings: Settings, task: Task) -> int:
    """Return how many tokens the prompts of all steps begin with alike, where one of them goes ahead; else 0."""
    if task.shared is None or not settings.context.warmup:
        return 0
    return estimate_message_tokens(shared_messages(task.shared))


def _fanned(market: Market, prefix_tokens: int, decision: Decision, count: int) -> Interval | None:
    """Return what many calls cost that are decided on alike, or None where a price is unknown."""
    cost = decision.chosen.cost
    if cost is None or decision.role != "worker":
        return cost
    return fanout_cost(market, decision.chosen.offer, cost, prefix_tokens=prefix_tokens, workers=count)
