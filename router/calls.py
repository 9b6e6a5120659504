"""One logical call: as many attempts as it takes, within the bounds that are set.

In: a `CallSpec`. Out: text as it streams, then one `CallOutcome` (which may hold an error: a failed call never raises).
Invariant: a finished call on record is never made again; nobody but this module retries.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from router.attempts import TIMED_OUT, CallOutcome, CallSpec, Desk, Tally, attempt
from router.errors import EndpointError
from router.ledger.records import Answer
from router.settings import RetrySettings

RETRIED = frozenset(
    {
        "refused",
        "connect_timeout",
        "rate_limited",
        "overloaded",
        "server_error",
        "timeout",
        "dropped",
        "cut",
        "malformed",
    }
)


def call_key(run_id: str, spec: CallSpec) -> str:
    """Return the key of a logical call: the same run, step, sample and request have the same one."""
    request = {"model": spec.candidate.model, "messages": list(spec.messages), "parameters": dict(spec.parameters)}
    body = json.dumps(request, sort_keys=True, ensure_ascii=False, default=str)
    parts = (run_id, spec.step_id or "", spec.role, str(spec.sample), body)
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def retry_wait_s(
    error: EndpointError, number: int, billed_before: int, retry: RetrySettings, chance: float
) -> float | None:
    """Return how long to wait before the next attempt, seconds; None: there is none.

    Exponential back-off with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015); a stated
    `Retry-After` is the least wait. A request that may have been billed is sent again at most once.

    Args:
        error: how the attempt failed.
        number: which attempt it was, from 1.
        billed_before: earlier attempts of the call that may have been billed.
        retry: the settings.
        chance: uniform in 0 to 1.
    """
    if number >= retry.attempts or error.kind not in RETRIED:
        return None
    if error.possibly_billed and billed_before >= 1:
        return None
    asked = error.retry_after_s or 0.0
    if asked > retry.retry_after_max_s:
        return None
    return max(asked, chance * min(retry.max_s, retry.base_s * 2.0 ** (number - 1)))


async def perform(desk: Desk, spec: CallSpec) -> CallOutcome:
    """Make one logical call and return its outcome; see `events` for what may be raised."""
    async with aclosing(events(desk, spec, stream=False)) as happening:
        async for event in happening:
            if isinstance(event, CallOutcome):
                return event
    raise AssertionError("a call always ends in an outcome")  # pragma: no cover


async def events(desk: Desk, spec: CallSpec, *, stream: bool) -> AsyncGenerator[str | CallOutcome, None]:
    """Make one logical call; yield its text as it streams, then its outcome.

    Args:
        desk: what it is made with.
        spec: the call.
        stream: whether to stream; text that was already handed on is never taken back by a retry.

    Raises:
        BudgetExceeded: the next attempt could cross the budget; it was not sent.
        LedgerError: a row could not be committed; a request without its row is never sent.
    """
    key = call_key(desk.run_id, spec)
    if desk.resumed and (on_record := await desk.ledger.find_answer(key)) is not None:
        yield _recorded(spec, on_record)
        return
    tally, billed = Tally(before=await desk.ledger.last_number(key) if desk.resumed else 0), 0
    gate = desk.gates[spec.candidate.endpoint or ""]
    while True:
        said = False
        async with gate.slot() as queue_us:
            if _too_late(spec, 0.0):
                late = EndpointError("timeout", f"{spec.candidate.model}: no place before the step's time-out")
                yield CallOutcome(tally.receipt(spec, "timed_out", str(late)), error=late)
                return
            tally.attempts += 1
            outcome: CallOutcome | EndpointError | None = None
            async with aclosing(attempt(desk, spec, key, tally, queue_us, stream=stream)) as happening:
                async for event in happening:
                    if isinstance(event, str):
                        said = True
                        yield event
                    else:
                        outcome = event
        if isinstance(outcome, CallOutcome):
            yield outcome
            return
        if outcome is None:  # pragma: no cover — an attempt always ends in one of the two
            raise AssertionError("an attempt ended without an outcome")
        wait = None if said else retry_wait_s(outcome, tally.attempts, billed, desk.retry, desk.chance.random())
        if wait is None or _too_late(spec, wait):
            status = "timed_out" if outcome.kind in TIMED_OUT else "failed"
            yield CallOutcome(tally.receipt(spec, status, str(outcome)), error=outcome, warnings=tuple(tally.warnings))
            return
        billed += outcome.possibly_billed
        if outcome.retry_after_s:
            gate.pause(outcome.retry_after_s)
        await asyncio.sleep(wait)


def _too_late(spec: CallSpec, wait_s: float) -> bool:
    return spec.deadline is not None and asyncio.get_running_loop().time() + wait_s >= spec.deadline


def _recorded(spec: CallSpec, answer: Answer) -> CallOutcome:
    receipt = Tally(cost_status="exact", model_served=spec.candidate.model).receipt(spec, "succeeded")
    return CallOutcome(receipt, answer.message, str(answer.message.get("content") or ""), answer.finish_reason)
