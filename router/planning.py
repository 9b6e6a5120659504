"""From a plan to what the optimizer is asked: each step's options, and what is spent whatever is chosen.

In: a market, settings, a task, its plan. Out: a `Workbook`: per step the candidates with their numbers, and the
`assign.Problem` made of them. Invariant: pure; a step is weighed as its call will be made.

A step reads its own words, the task's where it sees them, the shared document, and the answers it builds on, each at
its class's expected length whatever model writes it: lengths differ less between models than between classes, and with
lengths of the chosen models the costs would depend on the choice that they are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from router.assign import Limits, Option, Problem, StepOptions
from router.efforts import Pin, Ways, ways_for
from router.estimation import merge_decision, planning_decision, prefix_tokens_of
from router.forecast import assumed_latency_s
from router.plan import answer_tokens, prompt_tokens, step_task, step_tools
from router.plan_value import Plan
from router.policy import Market, Need, NoCandidate, need_of
from router.policy.by_plan import rule_of
from router.result import Candidate, Decision, Interval
from router.settings import Settings
from router.settings_plan import ByPlanSettings
from router.step import Step
from router.task import Task
from router.tokens import message_script
from router.warming import needs_warmup

_MILLI = 1000
NO_TOKENS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StepChoices:
    """One step and what it may be done by.

    Args:
        step: the step.
        need: what its call has to be given; the output holds no thinking.
        ways: models and efforts, with what is sent.
        fit: candidates that may be chosen, by option key, the cheapest first.
        lost: the others, each with the reason.
        costs: expected cost of each that fits, retries and the shared document's cached reads in it, USD.
        floor: what its class asks of it, 0 to 1, or None.
    """

    step: Step
    need: Need
    ways: Ways
    fit: Mapping[str, Candidate]
    lost: tuple[Candidate, ...]
    costs: Mapping[str, Decimal]
    floor: float | None


@dataclass(frozen=True, slots=True)
class Workbook:
    """A plan with the numbers of all its calls.

    Args:
        steps: by step id, in the plan's order.
        planning: the call that makes the plan; None: it is made already, or was given.
        merge: the call that merges; None: there is none.
        problem: what the optimizer is asked.
    """

    steps: Mapping[str, StepChoices]
    planning: Decision | None
    merge: Decision | None
    problem: Problem

    @property
    def is_priced(self) -> bool:
        """Whether each step has a candidate with a price, and planning and merge have one: else no total is known."""
        around = (each.chosen.cost for each in (self.planning, self.merge) if each is not None)
        return None not in around and all(step.options for step in self.problem.steps)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a plan that has begun; the default: all of it.

    Args:
        skipped: ids of steps that are done, running or lost: they are not put on anything any more.
        answers: tokens of the answers that are there, by step id.
        barred: option keys that a step may not be put on again, by step id.
        floor: mean quality that the rest has to reach, 0 to 1; None: that of the whole plan.
        spent_usd: what has been spent, and is expected of what runs, USD.
        elapsed_s: seconds since the plan was begun; where the latency limit is missed already, it is not held any more.
    """

    skipped: frozenset[str] = frozenset()
    answers: Mapping[str, int] = field(default_factory=lambda: NO_TOKENS)
    barred: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    floor: float | None = None
    spent_usd: Decimal = Decimal(0)
    elapsed_s: float = 0.0


ALL_LEFT = Left()


def workbook_of(
    market: Market,
    settings: Settings,
    task: Task,
    plan: Plan,
    rules: ByPlanSettings,
    *,
    is_expected: bool = False,
    left: Left = ALL_LEFT,
    needs_fit: bool = True,
) -> Workbook:
    """Return a plan's steps with their candidates, and the problem of putting models on them.

    Args:
        market: what is on offer.
        settings: bounds of a plan's execution, the context's limits.
        task: the whole task; its own floor, latency objective and budget stand in place of the rules'.
        plan: its plan.
        rules: what steps may be given to.
        is_expected: whether the plan is still to be made, so that its call is to be paid, too.
        left: what of it is still to be done.
        needs_fit: whether each step has to have a candidate that fits and has a price; else it may have none.

    Raises:
        NoCandidate: a step has no candidate that fits.
        WrongUsage: a model or class that nobody knows.
    """
    answers: dict[str, int] = {}
    steps: dict[str, StepChoices] = {}
    shared_tokens = prefix_tokens_of(settings, task)
    for step in plan.steps:
        most = room_of(settings, task, step)
        answers[step.step_id] = left.answers.get(step.step_id) or answer_tokens(step, most, market.experience)
        if step.step_id not in left.skipped:
            need = _need(settings, task, step, answers, rules)
            barred = left.barred.get(step.step_id, frozenset())
            choices = _choices(market, step, need, task, rules, barred, (shared_tokens, len(plan.steps)))
            if needs_fit and not choices.fit:
                raise _nothing_fits(choices)
            steps[step.step_id] = choices
    merge = merge_decision(market, settings, task, sum(answers.values())) if task.merge else None
    planning = planning_decision(market, settings, task, len(plan.steps)) if is_expected else None
    problem = _problem(task, rules, steps, [each for each in (planning, merge) if each is not None], left)
    return Workbook(steps, planning, merge, problem)


def room_of(settings: Settings, task: Task, step: Step) -> int:
    """Return the limit of a step's answer, tokens: as its worker is asked."""
    bound = settings.swarm.step_max_output_tokens
    return step.max_output_tokens or min(task.max_output_tokens or bound, bound)


def _need(settings: Settings, task: Task, step: Step, answers: Mapping[str, int], rules: ByPlanSettings) -> Need:
    """Return what a step's call has to be given; floor and latency of the task are the whole plan's, not the step's."""
    asked = step_task(task, step, {}, room_of(settings, task, step))
    need = need_of(asked, "worker", rules.default_class)
    read_tokens = prompt_tokens(task, step, answers, settings.context.step_input_tokens)
    able = need.capabilities | ({"tools"} if step_tools(task, step) else set())
    is_given = step.expected_input_tokens is not None
    script = None if is_given else message_script(asked.messages)
    return replace(
        need,
        input_tokens=read_tokens,
        script=script,
        capabilities=able,
        quality_floor=step.quality_floor,
        latency_objective_s=None,
    )


def _choices(
    market: Market,
    step: Step,
    need: Need,
    task: Task,
    rules: ByPlanSettings,
    barred: frozenset[str],
    shared: tuple[int, int],
) -> StepChoices:
    """Return what a step may be done by, if anything."""
    ways = ways_for(market, rules, need, step.candidates, {**task.extra, **step.extra})
    fit: dict[str, tuple[Decimal, Candidate]] = {}
    lost: list[Candidate] = []
    for candidate in ways.weighed(market, need):
        key = option_key(candidate)
        reason = candidate.lost or ("its price is not known" if candidate.cost is None else None)
        if reason is None and key in barred:
            reason = "it has failed"
        if reason is not None or candidate.cost is None:
            lost.append(replace(candidate, lost=reason))
        else:
            fit.setdefault(key, (_cost(market, need, candidate, candidate.cost, shared), candidate))
    ranked = dict(sorted(fit.items(), key=lambda each: each[1][0]))
    floor = rule_of(rules, need.task_class).quality_floor if step.quality_floor is None else step.quality_floor
    return StepChoices(
        step,
        need,
        ways,
        {key: candidate for key, (_, candidate) in ranked.items()},
        tuple(lost),
        {key: cost for key, (cost, _) in ranked.items()},
        floor,
    )


def _nothing_fits(choices: StepChoices) -> NoCandidate:
    step, reasons = choices.step, "; ".join(f"{option_key(each)}: {each.lost}" for each in choices.lost)
    hint = "lower the step's floor, add candidates, or shorten its input"
    return NoCandidate(
        f"step {step.step_id!r}: no model fits a call of class {choices.need.task_class}: {reasons}", hint=hint
    )


def option_key(candidate: Candidate | Pin) -> str:
    """Return the name of a candidate among a step's options: model@endpoint:effort; of a pin, that of what it names."""
    effort = f":{candidate.effort}" if candidate.effort else ""
    return f"{candidate.model}@{candidate.endpoint or '-'}{effort}"


def latency_of(candidate: Candidate) -> float:
    """Return how long a candidate takes, seconds: its median on record, else what is assumed for such an answer."""
    known = candidate.latency_s
    return assumed_latency_s(candidate.output_tokens[1]) if known is None else known


def _cost(market: Market, need: Need, candidate: Candidate, cost: Interval, shared: tuple[int, int]) -> Decimal:
    """Return what a candidate is expected to cost, USD: cached reads off, what of its attempts fails on top."""
    saved = saved_usd(market, candidate, *shared)
    return max(Decimal(0), cost.expected_usd - saved) * retries_milli(market, need, candidate) / _MILLI


def saved_usd(market: Market, candidate: Candidate, prefix_tokens: int, workers: int) -> Decimal:
    """Return what one of the workers on a shared document saves by reading it from the cache, USD.

    Args:
        market: prices.
        candidate: the model and the endpoint, taken to be that of all of them.
        prefix_tokens: size of what their prompts begin with, tokens; 0: nothing is shared.
        workers: how many they are.
    """
    if not prefix_tokens:
        return Decimal(0)
    warmth = needs_warmup(market, candidate.offer, prefix_tokens=prefix_tokens, workers=workers)
    return warmth.saved_usd / workers


def retries_milli(market: Market, need: Need, candidate: Candidate) -> int:
    """Return how many attempts a call takes on average, thousandths: 1 / (1 − failure share on record)."""
    share = market.experience.failure_share(candidate.model, need.task_class)
    return _MILLI if not share else round(_MILLI / (1 - min(share, 0.9)))


def _problem(
    task: Task, rules: ByPlanSettings, steps: Mapping[str, StepChoices], around: list[Decision], left: Left
) -> Problem:
    asked = task.quality_floor if task.quality_floor is not None else rules.quality_floor
    counts_all = asked is not None or rules.objective == "quality"
    options = tuple(
        StepOptions(
            each.step.step_id,
            tuple(
                Option(key, each.costs[key], _quality(each, candidate, counts_all=counts_all), latency_of(candidate))
                for key, candidate in each.fit.items()
            ),
            tuple(name for name in each.step.depends_on if name in steps),
            each.step.quality_weight,
        )
        for each in steps.values()
    )
    floor = None if rules.objective == "quality" else asked if counts_all else class_floor(steps)
    latency_s = task.latency_objective_s or rules.latency_objective_s
    around_s = left.elapsed_s + sum(latency_of(each.chosen) for each in around)
    limits = Limits(
        quality_floor=floor if floor is None or left.floor is None else left.floor,
        latency_s=None if latency_s is not None and left.elapsed_s and around_s >= latency_s else latency_s,
        budget_usd=task.budget_usd or rules.budget_usd,
    )
    costs = (each.chosen.cost for each in around)
    reserved_usd = left.spent_usd + sum((cost.expected_usd for cost in costs if cost), Decimal(0))
    return Problem(options, limits, reserved_usd, around_s)


def _quality(choices: StepChoices, candidate: Candidate, *, counts_all: bool) -> float | None:
    """Return a candidate's quality; None where only classes with a floor are asked of, and this has none."""
    return candidate.quality_bound if counts_all or choices.floor is not None else None


def class_floor(steps: Mapping[str, StepChoices]) -> float | None:
    """Return the weighted mean of the floors of the steps that have one and some figure to hold it against, 0 to 1."""
    known = [
        (Fraction(each.step.quality_weight), Fraction(each.floor))
        for each in steps.values()
        if each.floor is not None and any(one.quality_bound is not None for one in each.fit.values())
    ]
    weight = sum(weight for weight, _ in known)
    return float(sum(weight * floor for weight, floor in known) / weight) if weight else None
