"""One run from its first row to its last: claim, work, end.

In: a `Bench` (what is open) and what the run is about. Out: text as it streams, then a `Result`.
Invariant: a run that was started is ended exactly once, whatever happens, with the reason; a run key that has finished
is answered from the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.calls import CallOutcome, Desk, events
from router.endpoints.protocol import Endpoint
from router.errors import CallFailed, PlanError, RouterError, RunFailed, RunHeld
from router.estimation import decide_task
from router.ledger import Ledger
from router.ledger.keys import new_id
from router.ledger.leases import final_answer_key
from router.ledger.records import Answer, RunEnded, RunStarted, RunStatus
from router.limits import Budget, Gate
from router.plan import separable_parts
from router.policy import Market
from router.receipt import cost_of, usage_of
from router.settings import Settings
from router.swarm import RunLog, call_spec, make_plan, merge, run_steps
from router.task import Decision, Estimate, Plan, Result, Task

LEASE_S = 30
ANSWER_KEPT_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Bench:
    """What is open: the ledger, the endpoints with their gates, and the market of the moment."""

    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    gates: Mapping[str, Gate]
    market: Market


@dataclass(frozen=True, slots=True)
class RunAbout:
    """What a run is about: the task, its estimate, its configuration's name and the policy's version."""

    task: Task
    estimate: Estimate
    configuration: str
    policy_version: str


def owner_id() -> str:
    """Return who this process is: host, boot and process id, so that a dead owner can be told from a live one."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    booted = boot.read_text(encoding="ascii").strip() if boot.is_file() else "-"
    return f"{socket.gethostname()}/{booted}/{os.getpid()}"


async def run_events(
    bench: Bench, settings: Settings, about: RunAbout, *, stream: bool
) -> AsyncGenerator[str | Result, None]:
    """Do the task; yield its text as it streams, then its Result.

    Args:
        bench: what is open.
        settings: bounds, retries, configurations.
        about: the task and what was estimated of it.
        stream: whether to stream the answer.

    Raises:
        CallFailed, RunFailed, PlanError, BudgetExceeded, RunHeld, LedgerError: see `router.Router.route`.
    """
    started = _started(settings, about)
    claim = await bench.ledger.claim_run(started)
    if claim.kind == "held":
        raise RunHeld(
            f"run key {started.run_key!r}: its run {claim.run_id} is going, held by {claim.owner}",
            hint="wait for it to end; a dead process's run can be taken over when its lease has ended",
        )
    if claim.kind == "finished" and claim.answer is not None:
        yield _on_record(about, claim.run_id, claim.answer)
        return
    desk = _desk(bench, settings, about, claim.run_id, resumed=claim.kind == "resumed")
    log = RunLog()
    status: RunStatus = "failed"
    problem: str | None = "it ended without a result"
    extra: list[Answer] = []
    try:
        async with _lease(bench.ledger, claim.run_id, kept=started.run_key is not None):
            async with aclosing(_work(desk, settings, about, log, stream=stream)) as happening:
                async for event in happening:
                    if isinstance(event, Result):
                        status, problem = event.status, None
                        extra = _answer_to_keep(settings, about, event)
                        await _end(bench.ledger, RunEnded(claim.run_id, status, _now_us(), None), *extra)
                    yield event
    except RouterError as error:
        problem = str(error)
        status = "stopped" if error.exit_code == 3 else "failed"  # noqa: PLR2004 — a limit was crossed
        raise
    except (asyncio.CancelledError, GeneratorExit):
        if problem is not None:
            status, problem = "stopped", "the caller left"
        raise
    finally:
        if problem is not None:
            await _end(bench.ledger, RunEnded(claim.run_id, status, _now_us(), problem))


async def _end(ledger: Ledger, *records: RunEnded | Answer) -> None:
    await asyncio.shield(asyncio.ensure_future(ledger.write(*records)))


def _now_us() -> int:
    return time.time_ns() // 1000


def _started(settings: Settings, about: RunAbout) -> RunStarted:
    task, now_us = about.task, _now_us()
    work = task.model_dump_json(exclude={"run_key", "tags", "tenant", "budget_usd"})
    return RunStarted(
        run_id=new_id(),
        configuration=about.configuration,
        policy_version=about.policy_version,
        started_us=now_us,
        run_key=task.run_key,
        request_hash=hashlib.sha256(f"{about.configuration}\x1f{work}".encode("utf-8", "surrogatepass")).hexdigest(),
        task_class=about.estimate.task_class,
        tenant=task.tenant,
        tags=task.tags,
        budget_usd=task.budget_usd,
        prompt=task.text if settings.store_prompts else None,
        owner=owner_id(),
        lease_until_us=now_us + LEASE_S * 1_000_000,
    )


def _desk(bench: Bench, settings: Settings, about: RunAbout, run_id: str, *, resumed: bool) -> Desk:
    return Desk(
        ledger=bench.ledger,
        endpoints=bench.endpoints,
        gates=bench.gates,
        market=bench.market,
        retry=settings.retry,
        budget=Budget(about.task.budget_usd),
        run_id=run_id,
        configuration=about.configuration,
        tenant=about.task.tenant,
        keep_answers=about.task.run_key is not None,
        resumed=resumed,
    )


@asynccontextmanager
async def _lease(ledger: Ledger, run_id: str, *, kept: bool) -> AsyncIterator[None]:
    """Renew the lease of a run that has a key while the block runs."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            await ledger.renew_lease(run_id, owner_id(), _now_us() + LEASE_S * 1_000_000)

    task = asyncio.create_task(renew()) if kept else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RouterError):
                await task


async def _work(
    desk: Desk, settings: Settings, about: RunAbout, log: RunLog, *, stream: bool
) -> AsyncGenerator[str | Result, None]:
    plan: Plan | None = None
    if about.estimate.planned:
        try:
            plan = await _plan(desk, settings, about, log)
        except (PlanError, RunFailed) as error:
            if about.task.plan == "always":
                raise
            log.warnings.append(f"done in one call, since planning failed: {error}")
    doing = _single(desk, settings, about, log, stream=stream)
    if plan is not None:
        doing = _swarm(desk, settings, about, plan, log, stream=stream)
    async with aclosing(doing) as happening:
        async for event in happening:
            yield event


async def _plan(desk: Desk, settings: Settings, about: RunAbout, log: RunLog) -> Plan:
    parts = separable_parts(about.task.text)
    return await make_plan(desk, about.task, _decide(desk, settings), settings.swarm, log, parts)


def _decide(desk: Desk, settings: Settings) -> Any:
    return lambda task, role: decide_task(desk.market, settings, task, role)


async def _single(
    desk: Desk, settings: Settings, about: RunAbout, log: RunLog, *, stream: bool
) -> AsyncGenerator[str | Result, None]:
    """Do the task in one call.

    Raises:
        CallFailed: it failed for good.
    """
    decision = decide_task(desk.market, settings, about.task)
    async with aclosing(events(desk, call_spec(decision, about.task), stream=stream)) as happening:
        async for event in happening:
            if isinstance(event, str):
                yield event
                continue
            log.add(event)
            if event.error is not None:
                raise CallFailed(str(event.error), event.error, hint=event.error.hint)
            yield _result(desk, decision, None, log, event, {})


async def _swarm(
    desk: Desk, settings: Settings, about: RunAbout, plan: Plan, log: RunLog, *, stream: bool
) -> AsyncGenerator[str | Result, None]:
    """Run the plan's steps and merge their texts.

    Raises:
        RunFailed: no step succeeded, or the merge failed.
    """
    decide = _decide(desk, settings)
    texts, failed = await run_steps(desk, about.task, plan, decide, settings.swarm, log)
    if not texts:
        reason = next(iter(failed.values()))
        raise RunFailed(f"none of {len(plan.steps)} steps succeeded; the first: {reason}", hint="see: router config check")
    async with aclosing(merge(desk, about.task, texts, decide, log, stream=stream)) as happening:
        async for event in happening:
            if isinstance(event, str):
                yield event
            else:
                yield _result(desk, about.estimate.decision, plan, log, event, failed)


def _result(
    desk: Desk, decision: Decision, plan: Plan | None, log: RunLog, last: CallOutcome, failed: Mapping[str, str]
) -> Result:
    calls = tuple(log.receipts)
    noted = dict.fromkeys([*log.warnings, *([decision.chosen.warning] if decision.chosen.warning else [])])
    return Result(
        text=last.text,
        messages=(last.message or {"role": "assistant", "content": last.text},),
        decision=decision,
        plan=plan,
        calls=calls,
        usage=usage_of(calls),
        cost=cost_of(calls),
        run_id=desk.run_id,
        status="partial" if failed else "succeeded",
        warnings=tuple(noted),
    )


def _answer_to_keep(settings: Settings, about: RunAbout, result: Result) -> list[Answer]:
    """Return the final answer as it is kept for the run key, or nothing where there is no key."""
    if about.task.run_key is None:
        return []
    expires_us = _now_us() + ANSWER_KEPT_S * 1_000_000
    message = {**result.messages[0], "content": result.text, "run_status": result.status}
    return [Answer(final_answer_key(result.run_id), result.run_id, message, None, expires_us)]


def _on_record(about: RunAbout, run_id: str, answer: Answer) -> Result:
    message = dict(answer.message)
    status = message.pop("run_status", "succeeded")
    return Result(
        text=str(message.get("content") or ""),
        messages=(message,),
        decision=about.estimate.decision,
        plan=None,
        calls=(),
        usage=usage_of(()),
        cost=cost_of(()),
        run_id=run_id,
        status="partial" if status == "partial" else "succeeded",
        replayed=True,
    )
