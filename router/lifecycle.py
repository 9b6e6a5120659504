"""One run from its first row to its last: claim, work, end.

In: a `Bench` (what is open), the task and its estimate. Out: a `Result`, its text said as it comes.
Invariant: a run that is on record is ended exactly once, whatever happens, with the reason; a run key that has finished
is answered from the record.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from decimal import Decimal
from functools import partial

from router.attempts import Desk, Say, now_us
from router.errors import LedgerError, PlanMade, RouterError, RunHeld, RunStopped
from router.estimation import decide_task, estimate_task
from router.heartbeat import Pulse
from router.holding import CALLER_LEFT, LEASE_S, claim_key, owner_id, take_run
from router.ledger.leases import final_answer_key
from router.ledger.records import Answer, RunEnded, RunStatus
from router.opening import Bench, as_of, can_resume, desk_of, resumed_desk, started_of
from router.progress import Counter, Watch
from router.recorded import final_message, kept_task, on_record, with_record
from router.result import Estimate, Result
from router.swarm import RunLog
from router.task import Task
from router.work import require_tools, work

__all__ = ["Bench", "resume_run", "run_task"]

LIMIT_CROSSED = 3


async def run_task(
    bench: Bench, task: Task, estimate: Estimate, say: Say | None = None, watch: Watch | None = None
) -> Result:
    """Do the task and return its result.

    Args:
        bench: what is open.
        task: the task.
        estimate: what was estimated of it.
        say: takes the answer's text as it streams; None: not streamed.
        watch: is told how far the run is; None: nobody is.

    Raises:
        WrongUsage: a tool of its is not allowed.
        CallFailed, RunFailed, RunStopped, PlanError, BudgetExceeded, RunHeld, LedgerError: see `router.Router.route`;
            the error carries the run's id and the receipts of the calls that were made.
    """
    require_tools(bench.settings, task)
    started = started_of(bench, task, estimate)
    if task.run_key is None:
        desk = desk_of(bench, task, started.run_id, started.lease_until_us if can_resume(task, estimate) else None)
        desk.opening.append(started)
        return await _attended(desk, bench, task, estimate, say, watch)
    claim = await claim_key(bench.ledger, started)
    if claim.kind == "finished":
        key = f"run key {started.run_key!r}"
        return await on_record(bench.ledger, bench.market, estimate.decision, claim.run_id, claim.answer, key)
    desk = desk_of(bench, task, claim.run_id, started.lease_until_us)
    if claim.kind == "resumed":
        bench = await as_of(bench, claim.run_id, claim.started_us)
        estimate = estimate_task(bench.market, bench.settings, task)
        desk = await resumed_desk(bench, desk)
    return await _attended(desk, bench, task, estimate, say, watch)


async def resume_run(
    bench: Bench,
    run_id: str,
    budget_usd: Decimal | None = None,
    say: Say | None = None,
    watch: Watch | None = None,
) -> Result:
    """Go on with a run that was stopped, killed, or succeeded only in part; what is finished is not paid again.

    Args:
        bench: what is open.
        run_id: the run.
        budget_usd: in the place of its own budget, what was spent before included, USD; None: its own.
        say: as for `run_task`.
        watch: alike.

    Raises:
        WrongUsage: there is no such run, its task is not kept, or a tool of it is not allowed any more.
        RunHeld: another process works on it.
        RunFailed: it has finished, and its answer is no longer kept; others as for `run_task`.
    """
    task, started_us = await kept_task(bench.ledger, run_id)
    require_tools(bench.settings, task)
    if budget_usd is not None:
        task = Task.of(task, budget_usd=budget_usd)
    bench = await as_of(bench, run_id, started_us)
    estimate = estimate_task(bench.market, bench.settings, task)
    until_us = now_us() + LEASE_S * 1_000_000
    claim = await take_run(bench.ledger, run_id)
    if claim.kind == "finished":
        result = await on_record(
            bench.ledger, bench.market, estimate.decision, run_id, claim.answer, f"run {run_id}: nothing to resume"
        )
        return replace(result, warnings=(f"run {run_id} has succeeded already: there was nothing to resume",))
    desk = await resumed_desk(bench, desk_of(bench, task, run_id, until_us))
    return await _attended(desk, bench, task, estimate, say, watch)


async def _attended(
    desk: Desk, bench: Bench, task: Task, estimate: Estimate, say: Say | None, watch: Watch | None
) -> Result:
    """Run with a sign of life; where somebody else has cancelled the run, say so.

    Raises:
        RunStopped: somebody has.
    """
    log = RunLog(Counter(desk.run_id, desk.budget, desk.gates, watch))
    pulse = bench.heart.begin(desk.run_id, desk.lease, desk.lease.until_us or now_us() + LEASE_S * 1_000_000)
    try:
        return await _run(desk, bench, task, estimate, log, say, pulse)
    except asyncio.CancelledError:
        worker = asyncio.current_task()
        if pulse.is_cancelled and worker is not None and not worker.uncancel():
            raise _stopped(desk, log) from None
        raise
    finally:
        bench.heart.end(pulse)


def _stopped(desk: Desk, log: RunLog) -> RunStopped:
    hint = f"router runs resume {desk.run_id}" if desk.keep_answers else None
    error = RunStopped(f"run {desk.run_id}: somebody has cancelled it", hint=hint)
    error.run_id, error.calls = desk.run_id, tuple(log.receipts)
    return error


async def _run(
    desk: Desk, bench: Bench, task: Task, estimate: Estimate, log: RunLog, say: Say | None, pulse: Pulse
) -> Result:
    """Work, and write how the run ended; its last call is completed in the same transaction."""
    is_ended = False
    try:
        outcome, result = await work(bench, desk, task, estimate, log, say)
        ended = RunEnded(desk.run_id, result.status, now_us(), None, owner_id())
        kept: tuple[Answer, ...] = ()
        if can_resume(task, estimate):
            kept = desk.answers(final_answer_key(desk.run_id), final_message(result), None)
        is_ended = True  # the rows are queued at once: a cancel while they are written does not take them back
        await desk.write(*outcome.unwritten, ended, *kept)
    except RouterError as error:
        is_stopped = error.exit_code == LIMIT_CROSSED or isinstance(error, PlanMade)
        status: RunStatus = "stopped" if is_stopped else "failed"
        if not isinstance(error, RunHeld):
            with contextlib.suppress(LedgerError):
                await desk.write(RunEnded(desk.run_id, status, now_us(), str(error), owner_id()))
        error.run_id, error.calls = desk.run_id, tuple(log.receipts)
        log.counter.over(status)
        raise
    except asyncio.CancelledError:
        if not is_ended:
            reason = "cancelled" if pulse.is_cancelled else CALLER_LEFT
            await desk.write(RunEnded(desk.run_id, "stopped", now_us(), reason, owner_id()))
            log.counter.over("stopped")
        raise
    log.counter.over(result.status)
    if bench.judge is not None:
        bench.judge.consider(desk, partial(decide_task, desk.market, bench.settings, role="judge"), task.text, outcome)
    return await with_record(bench.ledger, bench.market, result) if desk.resumed else result
