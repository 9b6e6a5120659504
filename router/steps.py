"""The steps of a plan on many workers at once.

In: a `Swarm` and its `Plan`. Out: how each step ended, in the plan's order. Invariant: a step runs when all it depends
on has succeeded, and its answer is committed before one that depends on it is sent; a failing step never fails the run.
There are never more workers than steps at once, however many steps there are, and a step's prompt lives as long as its
call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from router.answering import Want, asking, said
from router.asked import call_spec
from router.calls import CallOutcome
from router.conversation import converse
from router.errors import BudgetExceeded, RouterError, ToolRefused, ToolServerError, WrongUsage
from router.graph import Frontier
from router.ledger.records import StepEnded
from router.ledger.run_topics import step_ended
from router.plan import step_task, step_tools
from router.receipt import joined
from router.result import CallReceipt, Plan, Step, StepResult
from router.swarm import REFUSED, Swarm
from router.task import Task
from router.tooling import equipped, fitting, kit_of
from router.tools.kit import Kit
from router.warming import Warmer

HUNG = frozenset({"timeout", "idle"})
"""Kinds of error of a step that is run again: it was silent for too long."""


async def run_steps(swarm: Swarm, plan: Plan, done: Iterable[StepResult] = ()) -> dict[str, StepResult]:
    """Run the steps of the plan; return how each ended, by id, in the plan's order.

    Args:
        swarm: what it works with.
        plan: its steps are in the ledger.
        done: how those ended that have succeeded already; they are not run.

    Raises:
        LedgerError, RunHeld: a row could not be written, or the run is another process's now.
    """
    crew = _Crew(swarm, plan, {end.step_id: end for end in done})
    await crew.run()
    return {step.step_id: crew.ends[step.step_id] for step in plan.steps}


class _Crew:
    """The workers of one plan: they take what is ready until nothing is, and then what has hung once more."""

    def __init__(self, swarm: Swarm, plan: Plan, done: dict[str, StepResult]) -> None:
        self.ends = done
        self._swarm = swarm
        self._steps = {step.step_id: step for step in plan.steps}
        self._answer = None if swarm.task.merge else plan.last
        self._frontier = Frontier(plan)
        free = [*self._frontier.first(), *(each for step_id in done for each in self._frontier.succeeded(step_id))]
        self._ready: deque[str] = deque(step_id for step_id in free if step_id not in done)
        self._hung: list[str] = []
        self._receipts: dict[str, CallReceipt] = {}
        self._desk = swarm.desk
        self._limit = swarm.bounds.concurrency
        self._workers = 0
        self._pass = 0
        bounds, context = swarm.bounds, swarm.context
        # Streamed only for what it is good for: to see silence before the step's whole time is over.
        self._idle_s = bounds.idle_timeout_s if 0 < bounds.idle_timeout_s < bounds.step_timeout_s else None
        workers = len(plan.steps) - len(done) if context.warmup else 1
        self._warmer = Warmer(swarm.desk.market, workers, context.warmup_wait_s)

    async def run(self) -> None:
        """Run all that can be run.

        Raises:
            LedgerError, RunHeld: a row could not be written, or the run is another process's now.
        """
        while self._ready:
            try:
                async with asyncio.TaskGroup() as group:
                    self._hire(group)
            except* RouterError as errors:
                raise errors.exceptions[0] from None
            self._ready.extend(self._hung)
            self._hung.clear()
            self._pass += 1
            self._desk = replace(self._swarm.desk, resumed=True)  # what hung is the same call still: it is looked up
            self._limit = max(1, int(self._limit * self._swarm.bounds.redispatch_concurrency_share))

    def _hire(self, group: asyncio.TaskGroup) -> None:
        """Have a worker for each step that is ready, as far as there may be more."""
        for _ in range(min(self._limit - self._workers, len(self._ready))):
            self._workers += 1
            group.create_task(self._work(group))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        """Do one step after the other until none is ready."""
        try:
            while self._ready:
                step = self._steps[self._ready.popleft()]
                if self._ready:
                    self._hire(group)
                await self._do(step)
        finally:
            self._workers -= 1

    async def _do(self, step: Step) -> None:
        counter = self._swarm.log.counter
        if self._swarm.is_over():
            await self._end(step, StepResult(step.step_id, "timed_out", error=f"not run: {self._swarm.over_reason}"))
            return
        counter.begun()
        end, outcome = await self._outcome(step)
        is_hung = outcome is not None and outcome.error is not None and outcome.error.kind in HUNG
        if outcome is not None and is_hung and self._pass < self._swarm.bounds.redispatch and not self._swarm.is_over():
            self._hung.append(step.step_id)
            self._receipts[step.step_id] = self._swarm.log.take_back(outcome.receipt)
            counter.paused()
            return
        if end.status != "succeeded" and outcome is not None and await self._is_moved(step, str(end.error)):
            end, outcome = await self._outcome(step)
        counter.running -= 1
        await self._end(step, end, outcome)
        await self._tell_placer(step, end, outcome)

    async def _is_moved(self, step: Step, reason: str) -> bool:
        """Put a step that has failed on another model, where there is one; it is tried once more."""
        placer = self._swarm.placer
        return placer is not None and not self._swarm.is_over() and await placer.again(step.step_id, reason)

    async def _tell_placer(self, step: Step, end: StepResult, outcome: CallOutcome | None) -> None:
        placer = self._swarm.placer
        if placer is None:
            return
        if end.status == "succeeded" and outcome is not None:
            await placer.succeeded(step.step_id, outcome)
        else:
            placer.failed(step_id for step_id, each in self.ends.items() if each.status != "succeeded")

    async def _end(self, step: Step, end: StepResult, outcome: CallOutcome | None = None) -> None:
        """Write how a step ended, with its last attempt's end, and let those that wait for it run or fail with it."""
        run_id, counter = self._swarm.desk.run_id, self._swarm.log.counter
        self.ends[step.step_id] = end
        if (hung := self._receipts.pop(step.step_id, None)) is not None:  # it was not called again
            self._swarm.log.keep(hung)
        unwritten, for_good = outcome.unwritten if outcome else (), self._swarm.desk.for_good
        said_of_it = step_ended(run_id, step.step_id, end.status, end.error, unwritten, for_good=for_good)
        rows = [*unwritten, StepEnded(run_id, step.step_id, end.status, end.error), said_of_it]
        if end.status == "succeeded":
            await self._swarm.desk.write(*rows)
            self._ready.extend(self._frontier.succeeded(step.step_id))
            counter.settled(done=1)
            return
        lost = self._frontier.lost(step.step_id)
        for step_id, need in lost:
            reason = f"not run: {need}, which it depends on, failed"
            self.ends[step_id] = StepResult(step_id, "failed", error=reason)
            rows += StepEnded(run_id, step_id, "failed", reason), step_ended(run_id, step_id, "failed", reason)
        await self._swarm.desk.write(*rows)
        counter.settled(failed=1 + len(lost))

    def _keep(self, outcome: CallOutcome) -> CallOutcome:
        """Keep the receipt of a step's call; where the call has hung before, that is part of it."""
        step_id = outcome.receipt.step_id or ""
        if outcome.receipt.attempts and (hung := self._receipts.pop(step_id, None)) is not None:
            outcome = replace(outcome, receipt=joined(hung, outcome.receipt))
        return self._swarm.log.add(outcome)

    def _deadline_s(self) -> float | None:
        """Return the time of the event loop at which a step that begins now is cut off, seconds."""
        return self._swarm.until(asyncio.get_running_loop().time() + self._swarm.bounds.step_timeout_s)

    async def _outcome(self, step: Step) -> tuple[StepResult, CallOutcome | None]:
        """Make a step's call, or those it takes with tools; return how the step ended."""
        try:
            outcome = await self._called(step)
        except (*REFUSED, ToolServerError, ToolRefused, WrongUsage) as error:
            self._swarm.log.is_out_of_budget |= isinstance(error, BudgetExceeded)
            return StepResult(step.step_id, "failed", error=f"not run: {error}"), None
        if outcome.error is None:
            return StepResult(step.step_id, "succeeded", outcome.text), outcome
        status: Literal["timed_out", "failed"] = "timed_out" if outcome.receipt.status == "timed_out" else "failed"
        return StepResult(step.step_id, status, error=str(outcome.error)), outcome

    async def _called(self, step: Step) -> CallOutcome:
        """Make a step's call, or those it takes with tools; the time-out covers servers, model and tools."""
        swarm = self._swarm
        results = {name: self.ends[name].text for name in step.depends_on}
        names = step_tools(swarm.task, step)
        deadline_s = self._deadline_s()
        async with kit_of(swarm, names, deadline_s) as kit:
            asked = _asked(swarm, step, results, is_answer=step is self._answer)
            return await self._conversed(step, asked, kit, deadline_s)

    async def _conversed(self, step: Step, asked: Task, kit: Kit | None, deadline_s: float | None) -> CallOutcome:
        """Make a step's call, in its turn where all share a document."""
        swarm = self._swarm
        whole = equipped(asked, kit)
        decision = swarm.decide(whole, "worker") if swarm.placer is None else await swarm.placer.decide(step, whole)
        own: dict[str, Any] = {"step_id": step.step_id, "idle_s": self._idle_s}
        spec = call_spec(decision, asked, is_last=True, deadline_s=deadline_s, **own)
        fit = fitting(swarm, decision, kit)
        ask = asking(Want(json=True), swarm.log.add) if asked.json_output else said
        if kit is None and swarm.task.shared is None:
            return self._keep(await ask(self._desk, spec, None))
        loop = asyncio.get_running_loop()
        came_s = loop.time()
        async with self._warmer.turn(spec.candidate.offer, spec.messages, spec.parameters) as turn:
            if deadline_s is not None:  # waiting for a warm cache is no part of its time
                spec = replace(spec, deadline_s=swarm.until(deadline_s + loop.time() - came_s))
            outcome = (await converse(self._desk, spec, kit, self._keep, ask=ask, fit=fit)).outcome
            turn.is_answered = outcome.error is None and outcome.receipt.attempts > 0
        return outcome


def _asked(swarm: Swarm, step: Step, results: Mapping[str, str], *, is_answer: bool) -> Task:
    """Return what a step's worker is asked; `is_answer`: its answer is the whole task's."""
    most = step.max_output_tokens or swarm.task.max_output_tokens or swarm.bounds.step_max_output_tokens
    if step.max_output_tokens is None:
        most = min(most, swarm.bounds.step_max_output_tokens)
    return step_task(swarm.task, step, results, most, swarm.context.step_input_tokens, is_answer=is_answer)
