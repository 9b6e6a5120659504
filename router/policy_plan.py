"""What a policy that decides step by step puts on a plan, and what the optimizer would at the same floors.

In: a market, settings, a task, its plan. Out: `Found`. Invariant: pure; both are measured in the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from router.assign import Assignment, Infeasible, Limits, Option, Problem, StepOptions, assign
from router.assigned_plan import Found, solved
from router.estimation import decide_task
from router.plan import answer_tokens, prompt_tokens, step_task
from router.plan_estimate import Kind
from router.plan_value import Plan
from router.planning import Workbook, latency_of, option_key, retries_milli, room_of, workbook_of
from router.policy import Market
from router.policy.by_class import BUILT_IN_RULES
from router.result import Decision
from router.settings import ByClassSettings, FixedSettings, Settings
from router.settings_plan import ByPlanSettings, CandidateSettings, PlanRule
from router.task import Task

LIKELY_GAP = Decimal("0.0001")
"""Smallest saving that is worth a word, share of the cost."""


def of_policy(market: Market, settings: Settings, task: Task, plan: Plan, name: str, *, is_expected: bool) -> Found:
    """Return what the policy puts on each step by itself, and what the optimizer would at the same floors."""
    decisions = _one_by_one(market, settings, task, plan)
    configuration = settings.configurations[name]
    rules = _counterpart(configuration, [decision.chosen.model for decision in decisions.values()])
    free = task.model_copy(update={"quality_floor": None, "latency_objective_s": None, "candidates": ()})
    steps = tuple(replace(each, candidates=each.candidates or task.candidates) for each in plan.steps)
    whole = replace(plan, steps=steps)
    workbook = workbook_of(market, settings, free, whole, rules, is_expected=is_expected, needs_fit=False)
    workbook = replace(workbook, problem=_comparable(workbook.problem, decisions))
    own = _as_problem(market, workbook, decisions)
    assignment = assign(own)
    limits = workbook.problem.limits
    if isinstance(configuration, FixedSettings):  # it has no floors: the quality that it reaches is the floor
        limits = replace(limits, quality_floor=assignment.quality)
    workbook = replace(workbook, problem=replace(workbook.problem, limits=limits))
    best: Assignment | None = None
    if workbook.is_priced and all(decision.chosen.cost is not None for decision in decisions.values()):
        with contextlib.suppress(Infeasible):
            best = solved(workbook.problem, rules)
    kind: Kind = "fixed" if isinstance(configuration, FixedSettings) else "by_class"
    words = {
        step_id: (decision, "the fixed worker" if kind == "fixed" else "cheapest that fits")
        for step_id, decision in decisions.items()
    }
    kind = "candidates" if task.candidates else kind
    if best is not None and best.cost_usd >= assignment.cost_usd * (1 - LIKELY_GAP):
        best = None
    return Found("candidates" if task.candidates else name, kind, workbook, assignment, words, best)


def _one_by_one(market: Market, settings: Settings, task: Task, plan: Plan) -> dict[str, Decision]:
    """Return the decision for each step as its run would make it.

    Raises:
        NoCandidate, NoEndpoint: a step has no model that fits.
    """
    answers = {
        step.step_id: answer_tokens(step, room_of(settings, task, step), market.experience) for step in plan.steps
    }
    decisions = {}
    for step in plan.steps:
        read_tokens = prompt_tokens(task, step, answers, settings.context.step_input_tokens)
        asked = step_task(task, step, {}, room_of(settings, task, step))
        is_given = asked.expected_input_tokens is not None
        decisions[step.step_id] = decide_task(market, settings, asked, "worker", None if is_given else read_tokens)
    return decisions


def _counterpart(configuration: object, models: Iterable[str]) -> ByPlanSettings:
    """Return the rules that the optimizer would choose by, in the place of a policy: the same floors and candidates.

    A fixed pair names one model: it is held against the built-in candidates of each class, its own among them.
    """
    if isinstance(configuration, ByPlanSettings):
        return configuration
    if isinstance(configuration, ByClassSettings):
        classes = {
            task_class: PlanRule(
                quality_floor=rule.quality_floor,
                candidates=tuple(CandidateSettings(model=model) for model in rule.candidates),
                extra=rule.extra,
            )
            for task_class, rule in configuration.classes.items()
        }
        default = configuration.default_class
        return ByPlanSettings(policy="by_plan", default_class=default, classes=classes, extra=configuration.extra)
    own = tuple(dict.fromkeys(models))
    classes = {
        task_class: PlanRule(
            candidates=tuple(CandidateSettings(model=model) for model in dict.fromkeys((*own, *rule.candidates)))
        )
        for task_class, rule in BUILT_IN_RULES.items()
    }
    return ByPlanSettings(policy="by_plan", classes=classes, quality_floor=0.0)  # every figure counts


def _comparable(problem: Problem, decisions: Mapping[str, Decision]) -> Problem:
    """Return the problem without the quality of steps whose own choice has no figure: there is nothing to reach."""
    steps = (
        step
        if decisions[step.step_id].chosen.quality_bound is not None
        else replace(step, options=tuple(replace(option, quality=None) for option in step.options))
        for step in problem.steps
    )
    return replace(problem, steps=tuple(steps))


def _as_problem(market: Market, workbook: Workbook, decisions: Mapping[str, Decision]) -> Problem:
    """Return the problem whose only answer is what was decided, so that it is measured as the optimizer's is.

    Quality and latency are measured even where a price is not known. A 0 stands for it, and no amount is told of the
    answer then.
    """
    options = []
    known = {step.step_id: step for step in workbook.problem.steps}
    for step_id, decision in decisions.items():
        choices, chosen = workbook.steps[step_id], decision.chosen
        key = option_key(chosen)
        cost = choices.costs.get(key)
        if cost is None:
            cost = chosen.cost.expected_usd if chosen.cost else Decimal(0)
            cost = cost * retries_milli(market, choices.need, chosen) / 1000
        same = next((each for each in known[step_id].options if each.key == key), None)
        only = same or Option(key, cost, chosen.quality_bound, latency_of(chosen))
        options.append(StepOptions(step_id, (only,), known[step_id].depends_on, known[step_id].weight))
    return replace(workbook.problem, steps=tuple(options), limits=Limits())
