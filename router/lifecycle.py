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
from functools import cache
from pathlib import Path
from typing import Any

from router.attempts import CallOutcome, Desk
from router.calls import events
from router.endpoints.protocol import Endpoint
from router.errors import CallFailed, PlanError, RouterError, RunFailed, RunHeld
from router.estimation import decide_task
from router.ledger import Ledger
from router.ledger.keys import new_id
from router.ledger.leases import ClaimResult, final_answer_key
from router.ledger.records import Answer, RunEnded, RunStarted, RunStatus
from router.limits import Budget, Gate
from router.plan import separable_parts
from router.policy import Market
from router.receipt import cost_of, usage_of
from router.settings import Settings
from router.swarm import RunLog, call_spec, make_plan, merge, run_steps
from router.task import Decision, Estimate, Plan, Result, Task

LEASE_S = 30
"""How long a run stays its process's after the last sign of life, seconds."""
ANSWER_KEPT_S = 24 * 3600
FOR_GOOD_S = 100 * 365 * 24 * 3600


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
    return f"{_machine()}/{os.getpid()}"


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    booted = boot.read_text(encoding="ascii").strip() if boot.is_file() else "-"
    return f"{socket.gethostname()}/{booted}"


def is_gone(owner: str) -> bool:
    """Return whether an owner is a process of this machine, since it was started, that no longer runs."""
    place, _, process = owner.rpartition("/")
    if place != _machine() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


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
    claim = await _claim(bench.ledger, started)
    if claim.kind == "finished":
        yield _on_record(about, started, claim)
        return
    desk = _desk(bench, settings, about, claim)
    log = RunLog()
    if claim.kind == "resumed":
        log.warnings.extend(await _in_flight(bench.ledger, claim.run_id))
    status: RunStatus = "failed"
    problem: str | None = "it ended without a result"
    try:
        async with (
            _held(bench.ledger, desk, kept=started.run_key is not None),
            aclosing(_work(desk, settings, about, log, stream=stream)) as happening,
        ):
            async for event in happening:
                if isinstance(event, Result):
                    problem = None
                    ended = RunEnded(claim.run_id, event.status, _now_us(), None)
                    await _end(bench.ledger, ended, *_answer_to_keep(desk, event))
                yield event
    except RouterError as error:
        problem = str(error)
        status = "stopped" if error.exit_code == 3 else "failed"
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


async def _claim(ledger: Ledger, started: RunStarted) -> ClaimResult:
    """Return what became of the claim; a dead process of this machine is not waited for.

    Raises:
        RunHeld: another process works on the run.
        WrongUsage: the run key belongs to another task or configuration.
    """
    claim = await ledger.claim_run(started)
    if claim.kind == "held" and claim.owner is not None and is_gone(claim.owner):
        claim = await ledger.claim_run(started, dead_owner=claim.owner)
    if claim.kind == "held":
        raise RunHeld(
            f"run key {started.run_key!r}: its run {claim.run_id} is going, held by {claim.owner}",
            hint="wait for it to end; a run whose machine has died can be taken over when its lease has ended",
        )
    return claim


async def _in_flight(ledger: Ledger, run_id: str) -> list[str]:
    """Return a warning for each request that was on the wire when the run was interrupted."""
    return [
        f"possibly billed before the interruption: {row.started.model_asked} at {row.started.endpoint}, "
        f"step {row.started.step_id or '-'}, attempt {row.started.attempt_id}"
        for row in await ledger.in_flight(run_id)
    ]


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


def _desk(bench: Bench, settings: Settings, about: RunAbout, claim: ClaimResult) -> Desk:
    answer_kept_s = ANSWER_KEPT_S if about.task.run_key is not None else None
    return Desk(
        ledger=bench.ledger,
        endpoints=bench.endpoints,
        gates=bench.gates,
        market=bench.market,
        retry=settings.retry,
        budget=Budget(about.task.budget_usd),
        run_id=claim.run_id,
        configuration=about.configuration,
        tenant=about.task.tenant,
        answer_kept_s=FOR_GOOD_S if settings.store_prompts else answer_kept_s,
        resumed=claim.kind == "resumed",
    )


@asynccontextmanager
async def _held(ledger: Ledger, desk: Desk, *, kept: bool) -> AsyncIterator[None]:
    """Renew the lease of a run that has a key while the block runs."""

    async def renew() -> None:
        while not desk.lease.lost:
            await asyncio.sleep(LEASE_S / 3)
            until_us = _now_us() + LEASE_S * 1_000_000
            desk.lease.lost = not await ledger.renew_lease(desk.run_id, owner_id(), until_us)

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
    decision = about.estimate.decision
    if about.estimate.planned:
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
        raise RunFailed(
            f"none of {len(plan.steps)} steps succeeded; the first: {reason}", hint="see: router config check"
        )
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


def _answer_to_keep(desk: Desk, result: Result) -> list[Answer]:
    """Return the final answer as it is kept, or nothing where answers are not kept."""
    if desk.answer_kept_s is None:
        return []
    expires_us = _now_us() + desk.answer_kept_s * 1_000_000
    message = {**result.messages[0], "content": result.text, "run_status": result.status}
    return [Answer(final_answer_key(result.run_id), result.run_id, message, None, expires_us)]


def _on_record(about: RunAbout, started: RunStarted, claim: ClaimResult) -> Result:
    """Return a finished run's answer.

    Raises:
        RunFailed: it is no longer kept; paying for it again takes another run key.
    """
    if claim.answer is None:
        gone = f"run key {started.run_key!r}: its run {claim.run_id} has finished, and its answer is no longer kept"
        raise RunFailed(gone, hint="use another run key to pay for it again; store_prompts keeps answers for good")
    message = dict(claim.answer.message)
    status = message.pop("run_status", "succeeded")
    return Result(
        text=str(message.get("content") or ""),
        messages=(message,),
        decision=about.estimate.decision,
        plan=None,
        calls=(),
        usage=usage_of(()),
        cost=cost_of(()),
        run_id=claim.run_id,
        status="partial" if status == "partial" else "succeeded",
        replayed=True,
    )
