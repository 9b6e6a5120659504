"""One run from its first row to its last: claim, work, end.

In: a `Bench` (what is open), the task and its estimate. Out: a `Result`, its text said as it comes.
Invariant: a run that is on record is ended exactly once, whatever happens, with the reason; a run key that has finished
is answered from the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path

from router.attempts import Desk, Say, now_us
from router.calls import CallOutcome, perform
from router.endpoints.protocol import Endpoint
from router.errors import CallFailed, LedgerError, PlanError, RouterError, RunFailed, RunHeld
from router.estimation import decide_task
from router.ledger import Ledger
from router.ledger.keys import new_id
from router.ledger.leases import ClaimResult, final_answer_key
from router.ledger.records import Answer, RunEnded, RunStarted, RunStatus
from router.limits import Budget, Gate
from router.plan import separable_parts
from router.policy import Market
from router.receipt import cost_of, receipts_of, spent_usd, usage_of
from router.result import CallReceipt, Decision, Estimate, Plan, Result
from router.settings import Settings
from router.swarm import REFUSED, RunLog, Swarm, call_spec, make_plan, merge, run_steps
from router.task import Role, Task

LEASE_S = 30
"""How long a run stays its process's after the last sign of life, seconds."""
LIMIT_CROSSED = 3


@dataclass(frozen=True, slots=True)
class Bench:
    """What is open: the ledger, the endpoints with their gates, the market of the moment, and the settings."""

    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    gates: Mapping[str, Gate]
    market: Market
    settings: Settings


async def run_task(bench: Bench, task: Task, estimate: Estimate, say: Say | None = None) -> Result:
    """Do the task and return its result.

    Args:
        bench: what is open.
        task: the task.
        estimate: what was estimated of it.
        say: takes the answer's text as it streams; None: not streamed.

    Raises:
        CallFailed, RunFailed, PlanError, BudgetExceeded, RunHeld, LedgerError: see `router.Router.route`; the error
            carries the run's id and the receipts of the calls that were made.
    """
    started = _started(bench.settings, task, estimate)
    if task.run_key is None:
        desk = replace(_desk(bench, task, started.run_id), opening=[started])
        return await _run(desk, bench, task, estimate, say)
    claim = await _claim(bench.ledger, started)
    if claim.kind == "finished":
        return await _on_record(bench, estimate, started, claim)
    desk = _desk(bench, task, claim.run_id)
    desk.lease.until_us = started.lease_until_us
    if claim.kind == "resumed":
        desk = await _resumed(bench, desk, task)
    async with _held(desk):
        return await _run(desk, bench, task, estimate, say)


async def _run(desk: Desk, bench: Bench, task: Task, estimate: Estimate, say: Say | None) -> Result:
    """Work, and write how the run ended; its last call is completed in the same transaction."""
    log = RunLog()
    is_ended = False
    try:
        outcome, result = await _work(desk, bench.settings, task, estimate, log, say)
        ended = RunEnded(desk.run_id, result.status, now_us(), None, owner_id())
        kept = desk.answers(final_answer_key(desk.run_id), _final_message(result), None) if task.run_key else ()
        is_ended = True  # the rows are queued at once: a cancel while they are written does not take them back
        await desk.write(*outcome.unwritten, ended, *kept)
    except RouterError as error:
        status: RunStatus = "stopped" if error.exit_code == LIMIT_CROSSED else "failed"
        if not isinstance(error, RunHeld):
            with contextlib.suppress(LedgerError):
                await desk.write(RunEnded(desk.run_id, status, now_us(), str(error), owner_id()))
        error.run_id, error.calls = desk.run_id, tuple(log.receipts)
        raise
    except asyncio.CancelledError:
        if not is_ended:
            await desk.write(RunEnded(desk.run_id, "stopped", now_us(), "the caller left", owner_id()))
        raise
    return await _with_record(bench, desk, result) if desk.resumed else result


async def _work(
    desk: Desk, settings: Settings, task: Task, estimate: Estimate, log: RunLog, say: Say | None
) -> tuple[CallOutcome, Result]:
    def decide(part: Task, role: Role) -> Decision:
        return decide_task(desk.market, settings, part, role)

    swarm = Swarm(desk, task, decide, settings.swarm, log)
    if estimate.planned:
        try:
            plan = await make_plan(swarm, separable_parts(task.text))
        except (PlanError, RunFailed, *REFUSED) as error:
            if task.plan == "always":
                raise
            log.warnings.append(f"done in one call, since planning failed: {error}")
        else:
            return await _swarm(swarm, plan, estimate.decision, say)
    decision = decide(task, "single") if estimate.planned else estimate.decision
    outcome = log.add(await perform(desk, replace(call_spec(decision, task), is_last=True), say))
    if outcome.error is not None:
        raise CallFailed(str(outcome.error), outcome.error, hint=outcome.error.hint)
    return outcome, _result(desk, decision, None, log, outcome)


async def _swarm(swarm: Swarm, plan: Plan, decision: Decision, say: Say | None) -> tuple[CallOutcome, Result]:
    """Run the plan's steps and merge their texts; where the merge fails they are handed on as they are.

    Raises:
        RunFailed: no step succeeded.
    """
    texts, failed = await run_steps(swarm, plan)
    if not texts:
        reason = next(iter(failed.values()))
        raise RunFailed(f"none of {len(plan.steps)} steps succeeded; the first: {reason}", hint="router config check")
    try:
        outcome = await merge(swarm, texts, say)
        problem: str | None = str(outcome.error) if outcome.error else None
    except REFUSED as error:
        outcome, problem = CallOutcome(_no_call(decision)), str(error)
    if problem is not None:
        swarm.log.warnings.append(f"the results stand unmerged, since merging failed: {problem}")
        unmerged = "\n\n".join(f"[{name}]\n{text}" for name, text in texts.items())
        outcome = replace(outcome, text=unmerged, message={"role": "assistant", "content": unmerged})
        if say is not None:
            await say(unmerged)
    result = _result(swarm.desk, decision, plan, swarm.log, outcome)
    return outcome, replace(result, status="partial") if failed or problem is not None else result


def _no_call(decision: Decision) -> CallReceipt:
    nothing = Decimal(0)
    model, endpoint = decision.chosen.model, decision.chosen.endpoint or ""
    return CallReceipt(
        "orchestrator", None, model, None, endpoint, 0, "failed", None, "exact", (), (), None, nothing, None
    )


def _result(desk: Desk, decision: Decision, plan: Plan | None, log: RunLog, last: CallOutcome) -> Result:
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
        finish_reason=last.finish_reason,
        warnings=tuple(noted),
    )


def _started(settings: Settings, task: Task, estimate: Estimate) -> RunStarted:
    decision, at_us = estimate.decision, now_us()
    return RunStarted(
        run_id=new_id(),
        configuration=decision.configuration,
        policy_version=decision.policy_version,
        started_us=at_us,
        run_key=task.run_key,
        request_hash=_request_hash(task, decision) if task.run_key is not None else None,
        task_class=estimate.task_class,
        tenant=task.tenant,
        tags=task.tags,
        budget_usd=task.budget_usd,
        prompt=task.text if settings.store_prompts else None,
        owner=owner_id(),
        lease_until_us=at_us + LEASE_S * 1_000_000,
    )


def _request_hash(task: Task, decision: Decision) -> str:
    fields = task.model_dump(exclude={"run_key", "tags", "tenant", "budget_usd"})
    work = json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(f"{decision.configuration}\x1f{work}".encode("utf-8", "surrogatepass")).hexdigest()


def _desk(bench: Bench, task: Task, run_id: str) -> Desk:
    decision_name = task.configuration or bench.settings.default_configuration
    return Desk(
        ledger=bench.ledger,
        endpoints=bench.endpoints,
        gates=bench.gates,
        market=bench.market,
        retry=bench.settings.retry,
        budget=Budget(task.budget_usd),
        run_id=run_id,
        configuration="candidates" if task.candidates else decision_name,
        tenant=task.tenant,
        tags=task.tags,
        keep_answers=task.run_key is not None or bench.settings.store_prompts,
        for_good=bench.settings.store_prompts,
    )


async def _resumed(bench: Bench, desk: Desk, task: Task) -> Desk:
    """Return the desk of a run that an earlier process has begun: what that has spent counts."""
    rows = await asyncio.to_thread(bench.ledger.reader.attempts, desk.run_id)
    return replace(desk, resumed=True, budget=Budget(task.budget_usd, spent_usd(rows, bench.market)))


async def _with_record(bench: Bench, desk: Desk, result: Result) -> Result:
    """Return a resumed run's result with the receipts of all its processes, and a warning for what was in flight."""
    rows = await asyncio.to_thread(bench.ledger.reader.attempts, desk.run_id)
    calls = receipts_of(rows, bench.market)
    lost = [
        f"possibly billed before the interruption: {row.started.model_asked} at {row.started.endpoint}, "
        f"step {row.started.step_id or '-'}, attempt {row.started.attempt_id}"
        for row in rows
        if row.ended is None
    ]
    return replace(result, calls=calls, usage=usage_of(calls), cost=cost_of(calls), warnings=(*lost, *result.warnings))


def _final_message(result: Result) -> dict[str, object]:
    """Return the final answer as it is kept for the run key."""
    return {**result.messages[0], "content": result.text, "run_status": result.status}


async def _on_record(bench: Bench, estimate: Estimate, started: RunStarted, claim: ClaimResult) -> Result:
    """Return a finished run's answer with its receipt.

    Raises:
        RunFailed: it is no longer kept; paying for it again takes another run key.
    """
    answer: Answer | None = claim.answer
    if answer is None:
        gone = f"run key {started.run_key!r}: its run {claim.run_id} has finished, and its answer is no longer kept"
        raise RunFailed(gone, hint="use another run key to pay for it again; store_prompts keeps answers for good")
    message = dict(answer.message)
    status = message.pop("run_status", "succeeded")
    calls = receipts_of(await asyncio.to_thread(bench.ledger.reader.attempts, claim.run_id), bench.market)
    return Result(
        text=str(message.get("content") or ""),
        messages=(message,),
        decision=estimate.decision,
        plan=None,
        calls=calls,
        usage=usage_of(calls),
        cost=cost_of(calls),
        run_id=claim.run_id,
        status="partial" if status == "partial" else "succeeded",
        replayed=True,
    )


async def _claim(ledger: Ledger, started: RunStarted) -> ClaimResult:
    """Return what became of the claim; a dead process of this machine is not waited for.

    Raises:
        RunHeld: another process works on the run.
        WrongUsage: the run key belongs to another task or configuration.
    """
    claiming = asyncio.ensure_future(ledger.claim_run(started))
    try:
        claim = await asyncio.shield(claiming)
        if claim.kind == "held" and claim.owner is not None and is_gone(claim.owner):
            claiming = asyncio.ensure_future(ledger.claim_run(started, dead_owner=claim.owner))
            claim = await asyncio.shield(claiming)
    except asyncio.CancelledError:
        claim = await claiming
        if claim.kind in {"new", "resumed"}:
            await ledger.write(RunEnded(claim.run_id, "stopped", now_us(), "the caller left", owner_id()))
        raise
    if claim.kind == "held":
        raise RunHeld(
            f"run key {started.run_key!r}: its run {claim.run_id} is going, held by {claim.owner}",
            hint="wait for it to end; a run whose machine has died can be taken over when its lease has ended",
        )
    return claim


@asynccontextmanager
async def _held(desk: Desk) -> AsyncIterator[None]:
    """Renew the run's lease while the block runs; where that fails it ends by itself, and so does the sending."""

    async def renew() -> None:
        while not desk.lease.is_over():
            await asyncio.sleep(LEASE_S / 3)
            until_us = now_us() + LEASE_S * 1_000_000
            with contextlib.suppress(LedgerError):
                desk.lease.until_us = (
                    until_us if await desk.ledger.renew_lease(desk.run_id, owner_id(), until_us) else 0
                )

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing


def owner_id() -> str:
    """Return who this process is: host, boot, process space and id, so that a dead owner can be told apart."""
    return f"{_machine()}/{os.getpid()}"


@cache
def _machine() -> str:
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    booted = boot.read_text(encoding="ascii").strip() if boot.is_file() else "-"
    spaced = str(space.readlink()) if space.is_symlink() else "-"
    return f"{socket.gethostname()}/{booted}/{spaced}"


def is_gone(owner: str) -> bool:
    """Return whether an owner is a process of this machine, since it was started, that no longer runs."""
    place, _, process = owner.rpartition("/")
    if os.name != "posix" or place != _machine() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
