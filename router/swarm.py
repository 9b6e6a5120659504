"""One orchestrator, many workers: plan, run the steps in parallel, merge.

In: a task and a `Desk`. Out: a plan, the steps' texts, the merged answer. Invariant: a failing step never fails the
run; it is reported with its reason, and what did succeed is merged, or handed on as it is where the merge fails. A step
runs when all it depends on has succeeded, a bounded number at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from router.attempts import CallSpec, Desk, Say
from router.calls import CallOutcome, perform
from router.errors import BudgetExceeded, NoEndpoint, PlanError, RouterError, RunFailed
from router.forecast import forecast_output
from router.ledger.records import StepEnded, StepRow, StepStatus
from router.plan import PlanCut, merging_task, parse_plan, planning_task, step_task
from router.policy import NoCandidate
from router.result import CallReceipt, Decision, Plan, Step
from router.settings import SwarmSettings
from router.task import Role, Task
from router.tokens import estimate_tokens

PLAN_TRIES = 3
PLAN_OUTPUT_TOKENS = 4096
PLAN_OUTPUT_TOKENS_A_PART = 80
MERGE_WINDOW_SHARE = 0.6
UNKNOWN_WINDOW_TOKENS = 32_000

Decide = Callable[[Task, Role], Decision]
REFUSED = (BudgetExceeded, NoCandidate, NoEndpoint)
"""What keeps a call from being made, without anything being wrong with the run."""


@dataclass(slots=True)
class RunLog:
    """What a run's calls have come to so far; kept apart so that an error loses no receipt."""

    receipts: list[CallReceipt] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, outcome: CallOutcome) -> CallOutcome:
        """Keep a call's receipt and warnings; return the outcome."""
        self.receipts.append(outcome.receipt)
        self.warnings.extend(outcome.warnings)
        return outcome


@dataclass(frozen=True, slots=True)
class Swarm:
    """What a swarm works with: the desk, the whole task, how models are decided on, its bounds, and the log."""

    desk: Desk
    task: Task
    decide: Decide
    bounds: SwarmSettings
    log: RunLog


async def make_plan(swarm: Swarm, parts: int) -> Plan:
    """Return the orchestrator's plan; a cut one is asked again with twice the room, a broken one once more.

    Args:
        swarm: what it works with.
        parts: how many parts the task is seen to have.

    Raises:
        PlanError: no usable plan in three tries.
        RunFailed: the orchestrator could not be reached.
        BudgetExceeded, NoCandidate, NoEndpoint: the call could not be made.
    """
    room = max(PLAN_OUTPUT_TOKENS, PLAN_OUTPUT_TOKENS_A_PART * parts)
    problem = PlanError("plan: none was made")
    for sample in range(PLAN_TRIES):
        asked = planning_task(swarm.task, room)
        spec = call_spec(swarm.decide(asked, "orchestrator"), asked, sample=sample)
        outcome = swarm.log.add(await perform(swarm.desk, spec))
        if outcome.error is not None:
            raise RunFailed(f"the orchestrator's plan failed: {outcome.error}", hint=outcome.error.hint)
        try:
            return parse_plan(outcome.text, outcome.finish_reason, max_steps=swarm.bounds.max_steps)
        except PlanCut as error:
            problem, room = error, room * 2
        except PlanError as error:
            problem = error
    raise PlanError(f"{problem}, in {PLAN_TRIES} tries", hint="use another orchestrator, or plan = never")


async def run_steps(swarm: Swarm, plan: Plan) -> tuple[dict[str, str], dict[str, str]]:
    """Run every step of the plan; return the texts and the reasons of failure, both by step id in plan order.

    Raises:
        BudgetExceeded: what is left does not pay for the merge; no step was run.
        LedgerError, RunHeld: a row could not be written, or the run is another process's now.
    """
    run_id = swarm.desk.run_id
    rows = (
        StepRow(run_id, step.step_id, position, step.task_class, step.depends_on)
        for position, step in enumerate(plan.steps)
    )
    await swarm.desk.write(*rows)
    kept_usd = _keep_for_merge(swarm, plan)
    places = asyncio.Semaphore(swarm.bounds.concurrency)
    running: dict[str, asyncio.Task[str | _Failed]] = {}

    async def one(step: Step) -> str | _Failed:
        results: dict[str, str] = {}
        for name in step.depends_on:
            earlier = await running[name]
            if isinstance(earlier, _Failed):
                return await _end_step(swarm, step, _Failed(f"not run: {name}, which it depends on, failed"))
            results[name] = earlier
        async with places:
            return await _end_step(swarm, step, await _work(swarm, step, results))

    try:
        async with asyncio.TaskGroup() as group:
            for step in plan.steps:
                running[step.step_id] = group.create_task(one(step))
    except* RouterError as errors:
        raise errors.exceptions[0] from None
    finally:
        swarm.desk.budget.give_back(kept_usd)  # the merge now reserves for itself
    ends = {step.step_id: running[step.step_id].result() for step in plan.steps}
    texts = {name: end for name, end in ends.items() if isinstance(end, str)}
    return texts, {name: end.reason for name, end in ends.items() if isinstance(end, _Failed)}


def _keep_for_merge(swarm: Swarm, plan: Plan) -> Decimal:
    """Set aside what the merge is expected to cost, so that the steps cannot spend it; return the amount, USD.

    Raises:
        BudgetExceeded: it does not fit.
    """
    if swarm.desk.budget.limit_usd is None:
        return Decimal(0)
    most = swarm.bounds.step_max_output_tokens
    read_tokens = sum(forecast_output(step.task_class, 0, most).expected_tokens for step in plan.steps)
    asked = merging_task(swarm.task, ()).model_copy(update={"expected_input_tokens": read_tokens})
    cost = swarm.decide(asked, "orchestrator").chosen.cost
    return swarm.desk.budget.keep(cost.high_usd if cost else None)


@dataclass(frozen=True, slots=True)
class _Failed:
    """A step that failed, with its reason."""

    reason: str
    status: StepStatus = "failed"


async def _end_step(swarm: Swarm, step: Step, end: str | _Failed) -> str | _Failed:
    """Write how a step ended, as soon as it has."""
    reason = end.reason if isinstance(end, _Failed) else None
    status: StepStatus = end.status if isinstance(end, _Failed) else "succeeded"
    await swarm.desk.write(StepEnded(swarm.desk.run_id, step.step_id, status, reason))
    return end


async def _work(swarm: Swarm, step: Step, results: Mapping[str, str]) -> str | _Failed:
    most = swarm.bounds.step_max_output_tokens
    asked = step_task(swarm.task, step, results, min(most, swarm.task.max_output_tokens or most))
    deadline_s = asyncio.get_running_loop().time() + swarm.bounds.step_timeout_s
    try:
        spec = call_spec(swarm.decide(asked, "worker"), asked)
        outcome = await perform(swarm.desk, replace(spec, step_id=step.step_id, deadline_s=deadline_s))
    except REFUSED as error:
        return _Failed(f"not run: {error}")
    swarm.log.add(outcome)
    if outcome.error is None:
        return outcome.text
    return _Failed(str(outcome.error), "timed_out" if outcome.receipt.status == "timed_out" else "failed")


async def merge(swarm: Swarm, texts: Mapping[str, str], say: Say | None) -> CallOutcome:
    """Merge the texts, in as many rounds as the orchestrator's context needs; return the last call's outcome.

    Args:
        swarm: what it works with.
        texts: the results by step id.
        say: takes the last call's text as it streams; None: not streamed.

    Raises:
        BudgetExceeded, NoCandidate, NoEndpoint: a call could not be made.
        LedgerError, RunHeld: a row could not be written, or the run is another process's now.
    """
    parts = list(texts.items())
    sample = 0
    while True:
        groups = _groups(parts, _merge_window(swarm) - estimate_tokens(swarm.task.text))
        if len(groups) == 1:
            spec = replace(_merge_spec(swarm, groups[0], sample), is_last=True)
            return swarm.log.add(await perform(swarm.desk, spec, say))
        specs = [_merge_spec(swarm, group, sample + number) for number, group in enumerate(groups)]
        outcomes = await asyncio.gather(*(perform(swarm.desk, spec) for spec in specs))
        sample += len(specs)
        for outcome in outcomes:
            swarm.log.add(outcome)
        broken = next((outcome for outcome in outcomes if outcome.error is not None), None)
        if broken is not None:
            return broken
        names = [f"{group[0][0]} to {group[-1][0]}" for group in groups]
        parts = [(name, outcome.text) for name, outcome in zip(names, outcomes, strict=True)]


def _merge_spec(swarm: Swarm, group: Sequence[tuple[str, str]], sample: int) -> CallSpec:
    asked = merging_task(swarm.task, group)
    return call_spec(swarm.decide(asked, "orchestrator"), asked, sample=sample)


def _merge_window(swarm: Swarm) -> int:
    """Return how many tokens one merge may read."""
    chosen = swarm.decide(merging_task(swarm.task, ()), "orchestrator").chosen
    info = swarm.desk.market.info(chosen.model, chosen.price_list)
    window = info.context_window_tokens if info else None
    return int((window or UNKNOWN_WINDOW_TOKENS) * MERGE_WINDOW_SHARE)


def _groups(parts: Sequence[tuple[str, str]], room_tokens: int) -> list[list[tuple[str, str]]]:
    """Return the parts in order, in groups whose estimated size is at most `room_tokens`, at least two to a group."""
    groups: list[list[tuple[str, str]]] = [[]]
    used = 0
    for part in parts:
        size = estimate_tokens(part[1]) + 16
        if used + size > room_tokens and len(groups[-1]) > 1:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += size
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2].extend(groups.pop())  # one result alone needs no merging
    return groups


def call_spec(decision: Decision, task: Task, sample: int = 0) -> CallSpec:
    """Return the call of a task as decided; `sample` tells tries with the same words apart."""
    return CallSpec(
        candidate=decision.chosen,
        role=decision.role,
        task_class=decision.task_class,
        messages=task.messages,
        parameters=parameters_of(task),
        sample=sample,
    )


def parameters_of(task: Task) -> dict[str, Any]:
    """Return the body fields a task asks for; the vendor extras win."""
    parameters: dict[str, Any] = {}
    if task.max_output_tokens is not None:
        parameters["max_tokens"] = task.max_output_tokens
    if task.json_output:
        parameters["response_format"] = {"type": "json_object"}
    if task.tools:
        parameters["tools"] = list(task.tools)
    return {**parameters, **task.extra}
