"""Results from the record: of runs that an earlier process has finished, or begun.

In: a run's rows in the ledger. Out: `Result`s. Invariant: nothing is called, and what is not kept any more is said.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from router.errors import RunFailed, WrongUsage
from router.holding import unknown_run
from router.ledger import Ledger
from router.ledger.records import Answer, StepRow
from router.policy import Market
from router.receipt import cost_of, receipts_of, usage_of
from router.result import Decision, Result, StepResult
from router.task import Task


def final_message(result: Result) -> dict[str, object]:
    """Return a final answer as it is kept for whoever asks for the run again."""
    message = result.messages[0] if result.messages else {"role": "assistant"}
    return {**message, "content": result.text, "run_status": result.status}


async def kept_task(ledger: Ledger, run_id: str) -> tuple[Task, int]:
    """Return the task of a run, in its configuration of then, and when it started, microseconds since 1970 UTC.

    Raises:
        WrongUsage: there is no such run, or its task is not kept; ids like it are listed.
    """
    state = await asyncio.to_thread(ledger.run_reader.state, run_id)
    if state is None:
        raise await asyncio.to_thread(unknown_run, ledger, run_id)
    document = await asyncio.to_thread(ledger.run_reader.request, run_id)
    started = state.row.started
    if document is None:
        message = f"run {run_id}: its task is not kept, so it cannot be resumed"
        hint = "the tasks of runs with steps or a run key are, until a day after their end; do it anew"
        raise WrongUsage(message, hint=hint)
    try:
        task = Task.model_validate_json(document)
    except ValueError:
        message = f"run {run_id}: its task was kept by another version and cannot be read"
        raise WrongUsage(message, hint="resume it with that version, or do it anew") from None
    if task.configuration is None and not task.candidates:
        task = task.model_copy(update={"configuration": started.configuration})
    return task, started.started_us


async def on_record(
    ledger: Ledger, market: Market, decision: Decision, run_id: str, answer: Answer | None, name: str
) -> Result:
    """Return a finished run's answer with its receipt.

    Args:
        ledger: where it is.
        market: for the rates of the days.
        decision: what would be decided on now.
        run_id: the run.
        answer: its final answer, or None.
        name: what it was asked for by, for the message.

    Raises:
        RunFailed: it is no longer kept; paying for it again takes another run key.
    """
    if answer is None:
        gone = f"{name}: its run {run_id} has finished, and its answer is no longer kept"
        raise RunFailed(gone, hint="use another run key to pay for it again; store_prompts keeps answers for good")
    message = dict(answer.message)
    status = message.pop("run_status", "succeeded")
    calls = receipts_of(await asyncio.to_thread(ledger.reader.attempts, run_id), market)
    steps = await asyncio.to_thread(_steps, ledger, run_id)
    text = str(message.get("content") or "")
    return Result(
        text=text,
        messages=(message,) if text or not steps else (),
        decision=decision,
        plan=None,
        calls=calls,
        usage=usage_of(calls),
        cost=cost_of(calls),
        run_id=run_id,
        status="partial" if status == "partial" else "succeeded",
        replayed=True,
        steps=steps,
    )


def _steps(ledger: Ledger, run_id: str) -> tuple[StepResult, ...]:
    rows = ledger.run_reader.steps(run_id)
    texts = ledger.run_reader.step_texts(run_id) if rows else {}
    return tuple(_step(step, error, texts.get(step.step_id, "")) for step, error in rows)


def _step(row: StepRow, error: str | None, text: str) -> StepResult:
    if row.status == "succeeded":
        return StepResult(row.step_id, "succeeded", text)
    return StepResult(row.step_id, "timed_out" if row.status == "timed_out" else "failed", error=error)


async def with_record(ledger: Ledger, market: Market, result: Result) -> Result:
    """Return a resumed run's result with the receipts of all its processes, and a warning for what was in flight."""
    rows = await asyncio.to_thread(ledger.reader.attempts, result.run_id)
    calls = receipts_of(rows, market)
    lost = [
        f"possibly billed before the interruption: {row.started.model_asked} at {row.started.endpoint}, "
        f"step {row.started.step_id or '-'}, attempt {row.started.attempt_id}"
        for row in rows
        if row.ended is None
    ]
    return replace(result, calls=calls, usage=usage_of(calls), cost=cost_of(calls), warnings=(*lost, *result.warnings))
