"""One logical call: as many attempts as it takes, within the bounds that are set.

In: a `CallSpec`. Out: one `CallOutcome`, which may hold an error: a call that fails on the wire does not raise.
Invariant: a finished call on record is never made again; nobody but this module retries.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.usage import Usage
from router.attempts import CallSpec, Desk, Ended, Say, attempt
from router.errors import EndpointError
from router.ledger.records import Answer
from router.reservation import Reservation, reservation
from router.result import CallReceipt
from router.settings import RetrySettings

if TYPE_CHECKING:
    from router.ledger.rows import Record

REFUSALS = frozenset({"rate_limited", "overloaded"})
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


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended.

    Args:
        receipt: what was asked, what answered, what it cost.
        message: the assistant message, or None where it failed.
        text: its text.
        finish_reason: as the upstream gave it.
        error: why it failed for good, or None.
        warnings: one line each.
        unwritten: rows that its caller writes, where it succeeded as the run's last call.
    """

    receipt: CallReceipt
    message: Mapping[str, Any] | None = None
    text: str = ""
    finish_reason: str | None = None
    error: EndpointError | None = None
    warnings: tuple[str, ...] = ()
    unwritten: tuple[Record, ...] = ()


@dataclass(slots=True)
class _Tally:
    """What a call's attempts add up to."""

    before: int = 0
    attempts: int = 0
    billed: int = 0
    list_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_usd: Decimal | None = None
    possibly_billed_usd: Decimal = Decimal(0)
    last: Ended | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, ended: Ended, reserved_usd: Decimal) -> None:
        """Add an attempt: its costs by currency, and what may have been billed besides."""
        row = ended.row
        for sums, amount in ((self.list_cost, row.list_cost), (self.settled_cost, row.settled_cost)):
            if amount is not None:
                sums[amount.currency] = sums.get(amount.currency, Decimal(0)) + amount.value
        if ended.charged.settled_usd is not None:
            self.settled_usd = (self.settled_usd or Decimal(0)) + ended.charged.settled_usd
        if row.possibly_billed:
            self.possibly_billed_usd += reserved_usd
        self.last = ended
        if ended.charged.warning:
            self.warnings.append(ended.charged.warning)

    def receipt(self, spec: CallSpec, status: str, error: str | None = None) -> CallReceipt:
        """Return the call's receipt so far."""
        row = self.last.row if self.last else None
        return CallReceipt(
            role=spec.role,
            step_id=spec.step_id,
            model_asked=spec.candidate.model,
            model_served=row.model_served if row else None,
            endpoint=spec.candidate.endpoint or "",
            attempts=self.attempts,
            status=status,
            usage=row.usage if row else None,
            cost_status=row.cost_status if row else "exact",
            list_cost=tuple(sorted(self.list_cost.items())),
            settled_cost=tuple(sorted(self.settled_cost.items())),
            settled_usd=self.settled_usd,
            possibly_billed_usd=self.possibly_billed_usd,
            latency_s=None if row is None or row.latency_us is None else row.latency_us / 1e6,
            error=error,
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


async def perform(desk: Desk, spec: CallSpec, say: Say | None = None) -> CallOutcome:
    """Make one logical call and return how it ended.

    Args:
        desk: what it is made with.
        spec: the call.
        say: takes its text as it streams; text that was handed on is never taken back by a retry. None: not streamed.

    Raises:
        BudgetExceeded: the next attempt could cross the budget; it was not sent.
        RunHeld: another process may have taken the run over; the next attempt was not sent.
        LedgerError: a row could not be committed; a request without its row is never sent.
    """
    endpoint = spec.candidate.endpoint or ""
    parameters = {**desk.market.endpoints[endpoint].extra, **spec.parameters}
    key = call_key(desk.run_id, spec)
    spec = replace(spec, parameters=parameters)
    tally = _Tally()
    if desk.resumed:
        if (on_record := await desk.ledger.find_answer(key)) is not None:
            return _recorded(spec, on_record)
        tally.before = await desk.ledger.last_number(key)
    spoken = _Spoken(say)
    while True:
        ended, held = await _next_attempt(desk, spec, key, tally, spoken)
        if ended is None:
            late = EndpointError("timeout", f"{spec.candidate.model}: no place before the step's time-out")
            return CallOutcome(tally.receipt(spec, "timed_out", str(late)), error=late)
        wait_s = _wait_s(desk, spec, tally, ended, spoken)
        if ended.error is None or wait_s is None:
            if not spec.is_last or ended.error is not None:
                await desk.write(*ended.records)
            return _outcome(spec, tally, ended, held)
        await desk.write(*ended.records)
        tally.billed += ended.row.possibly_billed
        await asyncio.sleep(wait_s)


@dataclass(slots=True)
class _Spoken:
    """Hands text on, and remembers that it did."""

    say: Say | None
    any: bool = False

    async def __call__(self, text: str) -> None:
        self.any = True
        if self.say is not None:
            await self.say(text)


async def _next_attempt(
    desk: Desk, spec: CallSpec, key: str, tally: _Tally, spoken: _Spoken
) -> tuple[Ended | None, Reservation]:
    """Reserve, wait for a place, send; None: the deadline passed before there was a place."""
    waited_ns = time.perf_counter_ns()
    held = _reservation(desk, spec)
    reserved_usd = await desk.budget.reserve(held.amount_usd)
    cost_usd: Decimal | None = Decimal(0)
    try:
        async with desk.gates[spec.candidate.endpoint or ""].slot():
            if _too_late(spec, 0.0):
                return None, held
            tally.attempts += 1
            queue_us = (time.perf_counter_ns() - waited_ns) // 1000
            cost_usd = None  # from here on it may have been billed; what is not known stays held
            number = tally.before + tally.attempts
            ended = await attempt(desk, spec, key, number, queue_us, held, spoken if spoken.say else None)
        cost_usd = ended.charged.settled_usd
        tally.add(ended, reserved_usd)
        return ended, held
    finally:
        desk.budget.settle(reserved_usd, cost_usd)


def _reservation(desk: Desk, spec: CallSpec) -> Reservation:
    cap = spec.parameters.get("max_tokens", spec.parameters.get("max_completion_tokens"))
    return reservation(
        desk.market,
        spec.candidate.offer,
        input_tokens=spec.candidate.input_tokens,
        likely_output_tokens=spec.candidate.output_tokens[2],
        max_output_tokens=cap if isinstance(cap, int) else None,
        left_usd=desk.budget.left_usd,
    )


def _wait_s(desk: Desk, spec: CallSpec, tally: _Tally, ended: Ended, spoken: _Spoken) -> float | None:
    """Return the wait before the next attempt, None where there is none; a stated wait holds everybody back."""
    error = ended.error
    gate = desk.gates[spec.candidate.endpoint or ""]
    if error is None:
        gate.answered()
        return None
    if error.kind in REFUSALS:
        gate.refused(min(error.retry_after_s or 0.0, desk.retry.retry_after_max_s))
    if spoken.any:
        return None
    wait_s = retry_wait_s(error, tally.attempts, tally.billed, desk.retry, desk.chance.random())
    return None if wait_s is None or _too_late(spec, wait_s) else wait_s


def _too_late(spec: CallSpec, wait_s: float) -> bool:
    return spec.deadline_s is not None and asyncio.get_running_loop().time() + wait_s >= spec.deadline_s


def _outcome(spec: CallSpec, tally: _Tally, ended: Ended, held: Reservation) -> CallOutcome:
    response = ended.response
    if response is None:
        status = "timed_out" if ended.row.status == "timed_out" else "failed"
        receipt = tally.receipt(spec, status, str(ended.error))
        return CallOutcome(receipt, error=ended.error, warnings=tuple(tally.warnings))
    if response.usage_error:
        tally.warnings.append(f"{spec.candidate.model}: {response.usage_error}")
    if response.finish_reason == "length" and held.max_output_tokens is not None:
        cap = held.max_output_tokens
        tally.warnings.append(
            f"{spec.candidate.model}: the answer was cut at {cap} tokens, what the budget can pay for"
        )
    return CallOutcome(
        tally.receipt(spec, "succeeded"),
        response.message,
        response.text,
        response.finish_reason,
        warnings=tuple(tally.warnings),
        unwritten=ended.records if spec.is_last else (),
    )


def _recorded(spec: CallSpec, answer: Answer) -> CallOutcome:
    """Return the outcome of a call that an earlier process has made and paid."""
    receipt = replace(_Tally().receipt(spec, "succeeded"), model_served=spec.candidate.model, usage=Usage())
    return CallOutcome(receipt, answer.message, str(answer.message.get("content") or ""), answer.finish_reason)
