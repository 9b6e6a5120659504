"""One orchestrator, many workers: what they share, the plan, the merge. `router.steps` runs what is between.

In: a task and a `Desk`. Out: a plan, the merged answer. Invariant: no receipt of a call is lost, however the run ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pricing.quick import quick
from router.answering import TRIES, Want, answered
from router.asked import call_spec
from router.attempts import CallSpec, Desk, Say
from router.calls import CallOutcome, perform
from router.errors import BudgetExceeded, ContextTooSmall, NoEndpoint, PlanError, RunFailed
from router.ledger.records import Answer
from router.merging import merge_room, merge_round, merged_name
from router.plan import PlanCut, merging_task, parse_plan, planning_task, usable_tools
from router.policy import NoCandidate
from router.progress import Counter
from router.replanning import Course, parse_rest, replanner_messages, unfinished
from router.result import CallReceipt, Decision, Plan, StepResult
from router.settings import SwarmSettings
from router.settings_context import ContextSettings
from router.step import Step
from router.task import Messages, Role, Task
from router.tools import Toolbox
from router.tools.kit import Allowance

PLAN_TRIES = 3
PLAN_OUTPUT_TOKENS = 4096
PLAN_OUTPUT_TOKENS_A_PART = 80

Made = TypeVar("Made")
Decide = Callable[[Task, Role], Decision]
REFUSED = (BudgetExceeded, ContextTooSmall, NoCandidate, NoEndpoint)
"""What keeps a call from being made, without anything being wrong with the run."""


@dataclass(slots=True)
class RunLog:
    """What a run's calls have come to so far; kept apart so that an error loses no receipt.

    `is_out_of_budget`: a budget has kept a step from being sent.
    """

    counter: Counter
    receipts: list[CallReceipt] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_out_of_budget: bool = False

    def add(self, outcome: CallOutcome) -> CallOutcome:
        """Keep a call's receipt and warnings; return the outcome."""
        self.warnings.extend(outcome.warnings)
        self.keep(outcome.receipt)
        return outcome

    def keep(self, receipt: CallReceipt) -> None:
        """Keep a receipt."""
        self.receipts.append(receipt)
        self.counter.called(receipt)

    def take_back(self, receipt: CallReceipt) -> CallReceipt:
        """Return a receipt that is kept, and keep it no more: its call will be gone on with."""
        at = next(at for at in range(len(self.receipts) - 1, -1, -1) if self.receipts[at] is receipt)
        del self.receipts[at]
        self.counter.called(receipt, sign=-1)
        return receipt


class Placing(Protocol):
    """Decides on the calls of a plan's steps together; see `router.placing.Placer`."""

    async def decide(self, step: Step, asked: Task) -> Decision:
        """Return the decision for the call of a step that begins now."""

    async def succeeded(self, step_id: str, outcome: CallOutcome) -> None:
        """Take a step's answer."""

    def failed(self, step_ids: Iterable[str]) -> None:
        """Take which steps have failed for good, or can never run."""

    async def again(self, step_id: str, reason: str) -> bool:
        """Put a step that has failed on another model; return whether there is one."""

    async def extend(self, plan: Plan) -> tuple[Answer, ...]:
        """Put the new steps of a plan that takes the first one's place on models; return the rows that say so."""


@quick
@dataclass(frozen=True, slots=True)
class Swarm:
    """What a swarm works with: the desk, the whole task, how models are decided on, its bounds, and the log.

    `over_at_s` is the time of the event loop at which the run's own time is over, seconds; None: never. `tools` are the
    servers of tools, and what the run may still call. `placer` decides on steps together; None: each by itself.
    """

    desk: Desk
    task: Task
    decide: Decide
    bounds: SwarmSettings
    log: RunLog
    over_at_s: float | None = None
    context: ContextSettings = field(default_factory=ContextSettings)
    tools: tuple[Toolbox, Allowance] | None = None
    placer: Placing | None = None

    def is_over(self) -> bool:
        """Return whether the run's own time is over."""
        return self.over_at_s is not None and asyncio.get_running_loop().time() >= self.over_at_s

    def until(self, at_s: float | None) -> float | None:
        """Return the earlier of a time of the event loop and the end of the run's own, seconds; None: neither."""
        ends = [each for each in (at_s, self.over_at_s) if each is not None]
        return min(ends, default=None)

    @property
    def over_reason(self) -> str:
        """What is said of that which was not done in time."""
        return f"the run's {self.bounds.run_timeout_s:g} s were over" if self.bounds.run_timeout_s else ""


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
    most, tools = swarm.bounds.max_steps, usable_tools(swarm.task)

    def read(text: str, finish_reason: str | None) -> Plan:
        return parse_plan(text, finish_reason, max_steps=most, tools=tools)

    return replace(await _asked(swarm, parts, None, read), merges=swarm.task.merge)


async def make_rest(swarm: Swarm, course: Course, ends: Mapping[str, StepResult]) -> tuple[Step, ...]:
    """Return the orchestrator's plan of what is left; none: nothing is. Its tries are no samples of an earlier plan's.

    Args:
        swarm: what it works with.
        course: the plan so far.
        ends: how the steps that hold have ended, by id.

    Raises:
        PlanError, RunFailed, BudgetExceeded, NoCandidate, NoEndpoint: see `make_plan`.
    """
    most, tools = swarm.bounds.max_steps, usable_tools(swarm.task)

    def read(text: str, finish_reason: str | None) -> tuple[Step, ...]:
        return parse_rest(text, finish_reason, course, ends, max_steps=most, tools=tools)

    messages = replanner_messages(swarm.task, course.plan, ends)
    return await _asked(swarm, len(unfinished(ends)), messages, read, PLAN_TRIES * (course.replans + 1))


async def _asked(
    swarm: Swarm, parts: int, messages: Messages | None, read: Callable[[str, str | None], Made], first: int = 0
) -> Made:
    """Return what an orchestrator's answer is read as; see `make_plan`. `first`: number of the first sample."""
    room = max(PLAN_OUTPUT_TOKENS, PLAN_OUTPUT_TOKENS_A_PART * parts)
    problem = PlanError("plan: none was made")
    for sample in range(first, first + PLAN_TRIES):
        spec = replace(_plan_spec(swarm, messages, room, sample), deadline_s=swarm.until(None))
        outcome = swarm.log.add(await perform(swarm.desk, spec))
        if outcome.error is not None:
            raise RunFailed(f"the orchestrator's plan failed: {outcome.error}", hint=outcome.error.hint)
        try:
            return read(outcome.text, outcome.finish_reason)
        except PlanCut as error:
            problem, room = error, room * 2
        except PlanError as error:
            problem = error
    raise PlanError(f"{problem}, in {PLAN_TRIES} tries", hint="use another orchestrator, or plan = never")


def _plan_spec(swarm: Swarm, messages: Messages | None, room: int, sample: int) -> CallSpec:
    """Return the call that asks for a plan, with no more room than its model has."""
    asked = planning_task(swarm.task, room, messages)
    decision = swarm.decide(asked, "orchestrator")
    info = swarm.desk.market.info(decision.chosen.model, decision.chosen.price_list)
    if info is not None and info.max_output_tokens is not None and room > info.max_output_tokens:
        asked = planning_task(swarm.task, info.max_output_tokens, messages)
    return call_spec(decision, asked, sample=sample)


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
        merging = merge_round(swarm.task.text, parts, _merge_room(swarm))
        if merging.cut:
            swarm.log.warnings.append(f"{merging.cut} results were cut for the merge: each alone was too long for it")
        if merging.is_last:
            spec = _merge_spec(swarm, merging.groups[0], merging.task_text, sample, is_last=True)
            want = Want(json=swarm.task.json_output)
            return swarm.log.add((await answered(swarm.desk, spec, want, swarm.log.add, say)).outcome)
        specs = [
            _merge_spec(swarm, group, merging.task_text, sample + number)
            for number, group in enumerate(merging.groups)
            if len(group) > 1
        ]
        outcomes = await asyncio.gather(
            *(answered(swarm.desk, spec, Want(whole=True), swarm.log.add) for spec in specs)
        )
        sample += TRIES * len(specs)
        merged = [swarm.log.add(each.outcome) for each in outcomes]
        broken = next((outcome for outcome in merged if outcome.error is not None), None)
        if broken is not None:
            return broken
        texts_merged = iter(outcome.text for outcome in merged)
        parts = [
            (merged_name(group), next(texts_merged) if len(group) > 1 else group[0][1]) for group in merging.groups
        ]


def _merge_spec(
    swarm: Swarm, group: Sequence[tuple[str, str]], task_text: str, sample: int, *, is_last: bool = False
) -> CallSpec:
    asked = merging_task(swarm.task, group, task_text)
    if not is_last:
        asked = asked.model_copy(update={"json_output": False})  # what is merged once more is text
    spec = call_spec(swarm.decide(asked, "orchestrator"), asked, sample=sample, is_last=is_last)
    return replace(spec, deadline_s=swarm.until(None))


def _merge_room(swarm: Swarm) -> int:
    """Return how many tokens the prompt of one merge may have."""
    chosen = swarm.decide(merging_task(swarm.task, ()), "orchestrator").chosen
    info = swarm.desk.market.info(chosen.model, chosen.price_list)
    return merge_room(info.context_window_tokens if info else None, swarm.context.max_tokens)
