"""One logical call: its attempts on the wire, each a row in the ledger before and after.

In: a `CallSpec`. Out: text as it streams, then one `CallOutcome` (which may hold an error: a failed call never raises).
Invariant: an attempt's row is committed before its request is sent and completed exactly once after it; a finished call
on record is never made again; nobody but this module retries.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.usage import Usage
from router.bill import Bill, bill
from router.endpoints.protocol import Endpoint, TextDelta, WireRequest, WireResponse
from router.errors import EndpointError
from router.ledger.keys import new_id
from router.ledger.records import Answer, AttemptEnded, AttemptStarted, AttemptStatus, Role
from router.limits import Budget, Gate
from router.policy import Market, Offer
from router.settings import RetrySettings
from router.task import CallReceipt, Candidate
from router.tokens import estimate_message_tokens, estimate_tokens

if TYPE_CHECKING:
    from router.ledger import Ledger

RETRIED = frozenset(
    {"refused", "connect_timeout", "rate_limited", "overloaded", "server_error", "timeout", "dropped", "cut", "malformed"}
)
ANSWER_KEPT_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Desk:
    """What calls are made with: shared by all calls of one run.

    Args:
        ledger: where rows go.
        endpoints: open endpoints by name.
        gates: their gates by name.
        market: catalogue, endpoint settings and rates; its instant is replaced by each attempt's.
        retry: how failed attempts are tried again.
        budget: what the run may still spend.
        run_id, configuration, tenant: written into each row.
        keep_answers: whether answers are kept for a resume.
        resumed: whether answers on record are looked up first.
    """

    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    gates: Mapping[str, Gate]
    market: Market
    retry: RetrySettings
    budget: Budget
    run_id: str
    configuration: str
    tenant: str | None = None
    keep_answers: bool = False
    resumed: bool = False
    chance: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One logical call.

    Args:
        candidate: the model and endpoint decided on; its endpoint is not None.
        role: single, orchestrator or worker.
        task_class: class of the call.
        messages: what is sent.
        parameters: further body fields (max_tokens, tools, response_format, vendor extras).
        step_id: its plan step, or None.
        sample: 0, or n for the n-th try with the same words.
        deadline: loop time after which it is cut off, or None.
    """

    candidate: Candidate
    role: Role
    task_class: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_id: str | None = None
    sample: int = 0
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended: its message and receipt, and the error where it failed for good."""

    receipt: CallReceipt
    message: Mapping[str, Any] | None = None
    text: str = ""
    finish_reason: str | None = None
    error: EndpointError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    """What a call's attempts add up to."""

    attempts: int = 0
    list_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_usd: Decimal | None = None
    possibly_billed_usd: Decimal = Decimal(0)
    cost_status: str = "unknown"
    model_served: str | None = None
    usage: Usage | None = None
    latency_us: int | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, ended: AttemptEnded, attempt_bill: Bill, reserved_usd: Decimal) -> None:
        for sums, amount in ((self.list_cost, ended.list_cost), (self.settled_cost, ended.settled_cost)):
            if amount is not None:
                sums[amount.currency] = sums.get(amount.currency, Decimal(0)) + amount.value
        if attempt_bill.settled_usd is not None:
            self.settled_usd = (self.settled_usd or Decimal(0)) + attempt_bill.settled_usd
        if ended.possibly_billed:
            self.possibly_billed_usd += reserved_usd
        self.cost_status, self.latency_us = ended.cost_status, ended.latency_us
        self.model_served, self.usage = ended.model_served, ended.usage
        if attempt_bill.warning:
            self.warnings.append(attempt_bill.warning)

    def receipt(self, spec: CallSpec, status: str, error: str | None = None) -> CallReceipt:
        return CallReceipt(
            role=spec.role,
            step_id=spec.step_id,
            model_asked=spec.candidate.model,
            model_served=self.model_served,
            endpoint=spec.candidate.endpoint or "",
            attempts=self.attempts,
            status=status,
            usage=self.usage,
            cost_status=self.cost_status,
            list_cost=tuple(sorted(self.list_cost.items())),
            settled_cost=tuple(sorted(self.settled_cost.items())),
            settled_usd=self.settled_usd,
            possibly_billed_usd=self.possibly_billed_usd,
            latency_s=None if self.latency_us is None else self.latency_us / 1e6,
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
    tally, billed = _Tally(), 0
    gate = desk.gates[spec.candidate.endpoint or ""]
    while True:
        said = False
        async with gate.slot() as queue_us:
            tally.attempts += 1
            outcome: CallOutcome | EndpointError | None = None
            async with aclosing(_attempt(desk, spec, key, tally, queue_us, stream=stream)) as happening:
                async for event in happening:
                    if isinstance(event, str):
                        said = True
                        yield event
                    else:
                        outcome = event
        if isinstance(outcome, CallOutcome):
            yield outcome
            return
        assert isinstance(outcome, EndpointError)
        wait = None if said else retry_wait_s(outcome, tally.attempts, billed, desk.retry, desk.chance.random())
        if wait is None or _too_late(spec, wait):
            status = "timed_out" if outcome.kind in {"timeout", "connect_timeout"} else "failed"
            yield CallOutcome(tally.receipt(spec, status, str(outcome)), error=outcome, warnings=tuple(tally.warnings))
            return
        billed += outcome.possibly_billed
        if outcome.retry_after_s:
            gate.pause(outcome.retry_after_s)
        await asyncio.sleep(wait)


def _too_late(spec: CallSpec, wait_s: float) -> bool:
    return spec.deadline is not None and asyncio.get_running_loop().time() + wait_s >= spec.deadline


def _recorded(spec: CallSpec, answer: Answer) -> CallOutcome:
    receipt = _Tally(cost_status="exact", model_served=spec.candidate.model).receipt(spec, "succeeded")
    return CallOutcome(receipt, answer.message, str(answer.message.get("content") or ""), answer.finish_reason)


async def _attempt(
    desk: Desk, spec: CallSpec, key: str, tally: _Tally, queue_us: int, *, stream: bool
) -> AsyncGenerator[str | CallOutcome | EndpointError, None]:
    """Send one request; yield its text as it streams, then an outcome or the error."""
    candidate = spec.candidate
    reserved = desk.budget.reserve(candidate.cost.high_usd if candidate.cost else None)
    now = time.time_ns() // 1000
    record = _Record(desk, spec, replace(desk.market, at=datetime.fromtimestamp(now / 1e6, UTC)), new_id(), tally, reserved)
    begun = time.perf_counter_ns()
    try:
        await desk.ledger.write(record.started(key, now, queue_us))
    except BaseException:
        desk.budget.settle(reserved, Decimal(0))
        raise
    record.state_us = (time.perf_counter_ns() - begun) // 1000
    record.begun_ns = time.perf_counter_ns()
    said: list[str] = []
    try:
        async with aclosing(_exchange(desk, spec, stream=stream)) as happening:
            async for event in happening:
                if isinstance(event, WireResponse):
                    yield await record.succeeded(event, key)
                else:
                    said.append(event.text)
                    yield event.text
    except EndpointError as error:
        await _despite_cancel(record.failed(error))
        yield error
    except (asyncio.CancelledError, GeneratorExit):
        if not record.done:
            await _despite_cancel(record.stopped("".join(said)))
        raise


async def _despite_cancel(writing: Any) -> None:
    """Await a write to its end even where the caller is being cancelled."""
    await asyncio.shield(asyncio.ensure_future(writing))


async def _exchange(desk: Desk, spec: CallSpec, *, stream: bool) -> AsyncGenerator[TextDelta | WireResponse, None]:
    """Send the request; cut it off at the deadline.

    Raises:
        EndpointError: the attempt failed; kind "timeout" where the deadline passed.
    """
    name = spec.candidate.endpoint or ""
    parameters = {**desk.market.endpoints[name].extra, **spec.parameters}
    request = WireRequest(spec.candidate.wire_id, spec.messages, parameters)
    endpoint = desk.endpoints[name]
    try:
        if not stream:
            async with asyncio.timeout_at(spec.deadline):
                response = await endpoint.send(request)
            yield response
            return
        flow = endpoint.stream(request)
        try:
            while (event := await _next(flow, spec.deadline)) is not None:
                yield event
        finally:
            await flow.aclose()  # type: ignore[attr-defined]  # every endpoint's stream is an async generator
    except TimeoutError:
        raise EndpointError(
            "timeout",
            f"endpoint {name}: {spec.candidate.model} did not finish before the step's time-out",
            possibly_billed=True,
            hint="raise [swarm] step_timeout_s, or lower the concurrency",
        ) from None


async def _next(
    flow: AsyncIterator[TextDelta | WireResponse], deadline: float | None
) -> TextDelta | WireResponse | None:
    async with asyncio.timeout_at(deadline):
        return await anext(flow, None)


@dataclass(slots=True)
class _Record:
    """One attempt's two writes: started, and its one completion."""

    desk: Desk
    spec: CallSpec
    market: Market
    attempt_id: str
    tally: _Tally
    reserved_usd: Decimal
    state_us: int = 0
    begun_ns: int = 0
    done: bool = False

    @property
    def offer(self) -> Offer:
        chosen = self.spec.candidate
        found = self.market.offers(chosen.model)
        return next(each for each in found if each.endpoint == chosen.endpoint)

    def started(self, key: str, now_us: int, queue_us: int) -> AttemptStarted:
        spec, candidate = self.spec, self.spec.candidate
        return AttemptStarted(
            attempt_id=self.attempt_id,
            call_key=key,
            number=self.tally.attempts,
            configuration=self.desk.configuration,
            endpoint=candidate.endpoint or "",
            price_list=candidate.price_list,
            model_asked=candidate.model,
            started_us=now_us,
            run_id=self.desk.run_id,
            step_id=spec.step_id,
            role=spec.role,
            task_class=spec.task_class,
            tenant=self.desk.tenant,
            queue_us=queue_us,
            reserved_usd=candidate.cost.high_usd if candidate.cost else None,
        )

    async def succeeded(self, response: WireResponse, key: str) -> CallOutcome:
        charged = bill(
            self.market,
            self.offer,
            served_name=response.served_model,
            usage=response.usage,
            service_tier=response.service_tier,
        )
        ended = replace(
            self._ended("succeeded", charged, response.usage),
            http_status=response.http_status,
            upstream_id=response.upstream_id,
            finish_reason=response.finish_reason,
            service_tier=response.service_tier,
            reported_cost_usd=response.reported_cost_usd,
            possibly_billed=response.usage is None,
            latency_us=response.timings.latency_us,
            ttft_us=response.timings.ttft_us,
            network_us=response.timings.network_us,
            inference_us=response.timings.inference_us,
        )
        extra: list[Answer] = []
        if self.desk.keep_answers:
            expires = time.time_ns() // 1000 + ANSWER_KEPT_S * 1_000_000
            extra.append(Answer(key, self.desk.run_id, response.message, response.finish_reason, expires))
        if response.usage_error:
            self.tally.warnings.append(f"{self.spec.candidate.model}: {response.usage_error}")
        await self._close(ended, charged, *extra)
        return CallOutcome(
            self.tally.receipt(self.spec, "succeeded"),
            response.message,
            response.text,
            response.finish_reason,
            warnings=tuple(self.tally.warnings),
        )

    async def failed(self, error: EndpointError) -> None:
        usage = None if error.possibly_billed else Usage()
        charged = bill(self.market, self.offer, served_name=None, usage=usage)
        status: AttemptStatus = "timed_out" if error.kind in {"timeout", "connect_timeout"} else "failed"
        ended = replace(
            self._ended(status, charged, usage),
            model_served=None,
            error_kind=error.kind,
            http_status=error.status,
            possibly_billed=error.possibly_billed,
        )
        await self._close(ended, charged)

    async def stopped(self, text: str) -> None:
        """The consumer left: what was used is estimated from what was sent and what came; with no text it is unknown."""
        usage = None
        if text:
            sent = estimate_message_tokens(self.spec.messages, self.spec.parameters.get("tools") or ())
            usage = Usage(uncached_input_tokens=sent, plain_output_tokens=estimate_tokens(text))
        charged = bill(self.market, self.offer, served_name=None, usage=usage, estimated=True)
        ended = replace(self._ended("stopped", charged, usage), usage_estimated=bool(text), possibly_billed=not text)
        await self._close(ended, charged)

    def _ended(self, status: AttemptStatus, charged: Bill, usage: Usage | None) -> AttemptEnded:
        return AttemptEnded(
            attempt_id=self.attempt_id,
            status=status,
            cost_status=charged.status,
            latency_us=(time.perf_counter_ns() - self.begun_ns) // 1000,
            model_served=charged.model_served,
            usage=usage,
            list_cost=charged.list_cost,
            settled_cost=charged.settled_cost,
            price_set_id=charged.prices.id if charged.prices and usage is not None else None,
            state_us=self.state_us,
        )

    async def _close(self, ended: AttemptEnded, charged: Bill, *extra: Answer) -> None:
        self.done = True
        self.tally.add(ended, charged, self.reserved_usd)
        self.desk.budget.settle(self.reserved_usd, charged.settled_usd)
        prices = [charged.prices] if charged.prices and ended.price_set_id else []
        await self.desk.ledger.write(*prices, ended, *extra)
