"""One orchestrator, many workers: plan, run the steps in parallel, merge.

In: a task and a `Desk`. Out: a plan, the steps' texts, the merged answer. Invariant: a failing step never fails the
run; it is reported with its reason, and what did succeed is merged. A step runs when all it depends on has succeeded,
a bounded number at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from router.attempts import CallOutcome, CallSpec, Desk
from router.calls import events, perform
from router.errors import BudgetExceeded, PlanError, RouterError, RunFailed
from router.ledger.records import StepEnded, StepRow, StepStatus
from router.plan import PlanCut, merge_messages, parse_plan, planner_messages, worker_messages
from router.policy import NoCandidate
from router.settings import SwarmSettings
from router.task import CallReceipt, Decision, Plan, Step, Task
from router.tokens import estimate_tokens

PLAN_TRIES = 3
PLAN_OUTPUT_TOKENS = 4096
PLAN_OUTPUT_TOKENS_A_PART = 80
MERGE_WINDOW_SHARE = 0.6
UNKNOWN_WINDOW_TOKENS = 32_000

Decide = Callable[[Task, str], Decision]


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


async def make_plan(desk: Desk, task: Task, decide: Decide, bounds: SwarmSettings, log: RunLog, parts: int) -> Plan:
    """Return the orchestrator's plan; a cut one is asked again with twice the room, a broken one once more.

    Raises:
        PlanError: no usable plan in three tries.
        RunFailed: the orchestrator could not be reached.
    """
    room = max(PLAN_OUTPUT_TOKENS, PLAN_OUTPUT_TOKENS_A_PART * parts)
    problem: PlanError | None = None
    for sample in range(PLAN_TRIES):
        asked = task.model_copy(update={"messages": planner_messages(task.text), "task_class": "plan", "tools": ()})
        asked = asked.model_copy(update={"max_output_tokens": room, "json_output": False})
        spec = call_spec(decide(asked, "orchestrator"), asked, sample=sample)
        outcome = log.add(await perform(desk, spec))
        if outcome.error is not None:
            raise RunFailed(f"the orchestrator's plan failed: {outcome.error}", hint=outcome.error.hint)
        try:
            return parse_plan(outcome.text, outcome.finish_reason, max_steps=bounds.max_steps)
        except PlanCut as error:
            problem, room = error, room * 2
        except PlanError as error:
            problem = error
    raise PlanError(f"{problem}, in {PLAN_TRIES} tries", hint="use another orchestrator, or plan = never")


async def run_steps(
    desk: Desk, task: Task, plan: Plan, decide: Decide, bounds: SwarmSettings, log: RunLog
) -> tuple[dict[str, str], dict[str, str]]:
    """Run every step of the plan; return the texts and the reasons of failure, both by step id in plan order."""
    await desk.ledger.write(
        *(
            StepRow(desk.run_id, step.step_id, position, step.task_class, step.depends_on)
            for position, step in enumerate(plan.steps)
        )
    )
    places = asyncio.Semaphore(bounds.concurrency)
    running: dict[str, asyncio.Task[CallOutcome | str]] = {}

    async def one(step: Step) -> CallOutcome | str:
        results = {}
        for name in step.depends_on:
            earlier = await running[name]
            if isinstance(earlier, str) or earlier.error is not None:
                return f"not run: {name}, which it depends on, failed"
            results[name] = earlier.text
        async with places:
            return await _work(desk, task, step, results, decide, bounds)

    try:
        async with asyncio.TaskGroup() as group:
            for step in plan.steps:
                running[step.step_id] = group.create_task(one(step))
    except* RouterError as errors:
        raise errors.exceptions[0] from None
    texts: dict[str, str] = {}
    failed: dict[str, str] = {}
    ends: list[StepEnded] = []
    for step in plan.steps:
        outcome = running[step.step_id].result()
        status: StepStatus = "succeeded"
        if isinstance(outcome, str):
            status, failed[step.step_id] = "failed", outcome
        elif log.add(outcome).error is not None:
            status = "timed_out" if outcome.receipt.status == "timed_out" else "failed"
            failed[step.step_id] = str(outcome.error)
        else:
            texts[step.step_id] = outcome.text
        ends.append(StepEnded(desk.run_id, step.step_id, status, failed.get(step.step_id)))
    await desk.ledger.write(*ends)
    return texts, failed


async def _work(
    desk: Desk, task: Task, step: Step, results: Mapping[str, str], decide: Decide, bounds: SwarmSettings
) -> CallOutcome | str:
    room = min(bounds.step_max_output_tokens, task.max_output_tokens or bounds.step_max_output_tokens)
    asked = task.model_copy(
        update={
            "messages": worker_messages(step, results),
            "task_class": step.task_class,
            "max_output_tokens": room,
            "json_output": False,
        }
    )
    deadline = asyncio.get_running_loop().time() + bounds.step_timeout_s
    try:
        spec = replace(call_spec(decide(asked, "worker"), asked), step_id=step.step_id, deadline=deadline)
        return await perform(desk, spec)
    except (BudgetExceeded, NoCandidate) as error:
        return f"not run: {error}"


async def merge(
    desk: Desk, task: Task, texts: Mapping[str, str], decide: Decide, log: RunLog, *, stream: bool
) -> AsyncGenerator[str | CallOutcome, None]:
    """Merge the texts, in as many rounds as the orchestrator's context needs; yield the last call's text and outcome.

    Raises:
        RunFailed: a merge failed.
    """
    asked = task.model_copy(update={"task_class": "merge", "tools": ()})
    parts = list(texts.items())
    sample = 0
    while True:
        window = _merge_window(
            desk, decide(asked.model_copy(update={"messages": merge_messages(task.text, ())}), "orchestrator")
        )
        groups = _groups(parts, window - estimate_tokens(task.text))
        merged: list[tuple[str, str]] = []
        for group in groups:
            call = asked.model_copy(update={"messages": merge_messages(task.text, group)})
            spec = call_spec(decide(call, "orchestrator"), call, sample=sample)
            sample += 1
            last = len(groups) == 1
            async with aclosing(events(desk, spec, stream=stream and last)) as happening:
                async for event in happening:
                    if isinstance(event, str):
                        yield event
                        continue
                    outcome = log.add(event)
                    if outcome.error is not None:
                        raise RunFailed(f"merging failed: {outcome.error}", hint=outcome.error.hint)
                    if last:
                        yield outcome
                        return
                    merged.append((f"{group[0][0]} to {group[-1][0]}", outcome.text))
        parts = merged


def _merge_window(desk: Desk, decision: Decision) -> int:
    info = desk.market.info(decision.chosen.model, decision.chosen.price_list)
    window = info.context_window_tokens if info else None
    return int((window or UNKNOWN_WINDOW_TOKENS) * MERGE_WINDOW_SHARE)


def _groups(parts: Sequence[tuple[str, str]], room: int) -> list[list[tuple[str, str]]]:
    """Return the parts in order, in groups whose estimated size is at most `room` tokens, at least two to a group."""
    groups: list[list[tuple[str, str]]] = [[]]
    used = 0
    for part in parts:
        size = estimate_tokens(part[1]) + 16
        if used + size > room and len(groups[-1]) > 1:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += size
    return groups


def call_spec(decision: Decision, task: Task, sample: int = 0) -> CallSpec:
    """Return the call of a task as decided; `sample` tells tries with the same words apart."""
    return CallSpec(
        candidate=decision.chosen,
        role=decision.role,  # type: ignore[arg-type]  # a decision's role is one of records.Role
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
