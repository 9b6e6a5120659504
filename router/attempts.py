"""One attempt on the wire: a row before, a request, a row after.

In: a `Desk`, a `CallSpec`. Out: text as it streams, then a `CallOutcome` or the `EndpointError`.
Invariant: the row is committed before the request is sent, and completed exactly once after it, also where the caller
leaves in between.
"""

from __future__ import annotations

import asyncio
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
from router.errors import EndpointError, RunHeld
from router.ledger.keys import new_id
from router.ledger.records import Answer, AttemptEnded, AttemptStarted, AttemptStatus, Role
from router.limits import Budget, Gate
from router.policy import Market, Offer
from router.reservation import reservation
from router.settings import RetrySettings
from router.task import CallReceipt, Candidate
from router.tokens import estimate_message_tokens, estimate_tokens

if TYPE_CHECKING:
    from router.ledger import Ledger

TIMED_OUT = frozenset({"timeout", "connect_timeout"})


@dataclass(slots=True)
class Lease:
    """Whether a run is still this process's; once lost, no further request is sent."""

    lost: bool = False


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
        answer_kept_s: how long answers are kept for a resume, seconds; None: they are not kept.
        resumed: whether the run was started before, so that answers on record are looked up first.
        lease: says whether the run is still this process's.
        chance: source of the jitter.
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
    answer_kept_s: int | None = None
    resumed: bool = False
    lease: Lease = field(default_factory=Lease)
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
class Tally:
    """What a call's attempts add up to."""

    before: int = 0
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
        """Add an attempt: its costs by currency, and what may have been billed besides."""
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
        """Return the call's receipt so far."""
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


async def attempt(
    desk: Desk, spec: CallSpec, key: str, tally: Tally, queue_us: int, *, stream: bool
) -> AsyncGenerator[str | CallOutcome | EndpointError, None]:
    """Send one request; yield its text as it streams, then an outcome or the error.

    Args:
        desk: what it is made with.
        spec: the call.
        key: the call's key.
        tally: the call's attempts so far; this one is counted there already.
        queue_us: time waited at the gate, microseconds.
        stream: whether to stream.

    Raises:
        BudgetExceeded: it could cross the budget; nothing was sent.
        RunHeld: another process has taken the run over; nothing was sent.
        LedgerError: its row could not be committed; nothing was sent, or its completion could not be.
    """
    if desk.lease.lost:
        raise RunHeld(f"run {desk.run_id}: another process has taken it over", hint="follow it there")
    now_us = time.time_ns() // 1000
    market = replace(desk.market, at=datetime.fromtimestamp(now_us / 1e6, UTC))
    offer = market.offer(spec.candidate.model, spec.candidate.endpoint)
    parameters, held = _with_reservation(desk, spec, market, offer)
    record = _Record(desk, spec, market, offer, new_id(), tally, held, await desk.budget.reserve(held))
    begun_ns = time.perf_counter_ns()
    try:
        await desk.ledger.write(record.started(key, now_us, queue_us))
    except asyncio.CancelledError:
        await _despite_cancel(record.unsent())  # the row is on its way all the same
        raise
    except BaseException:
        await desk.budget.settle(record.reserved_usd, Decimal(0))
        raise
    record.begun_ns = time.perf_counter_ns()
    record.state_us = (record.begun_ns - begun_ns) // 1000
    said: list[str] = []
    try:
        async with aclosing(_exchange(desk, spec, parameters, stream=stream)) as happening:
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


def _with_reservation(
    desk: Desk, spec: CallSpec, market: Market, offer: Offer
) -> tuple[Mapping[str, Any], Decimal | None]:
    """Return the body fields to send, and the most that the request can cost, USD; None: not known."""
    parameters = {**desk.market.endpoints[spec.candidate.endpoint or ""].extra, **spec.parameters}
    cap = parameters.get("max_tokens", parameters.get("max_completion_tokens"))
    held = reservation(
        market,
        offer,
        input_tokens=spec.candidate.input_tokens,
        likely_output_tokens=spec.candidate.output_tokens[2],
        max_output_tokens=cap if isinstance(cap, int) else None,
        left_usd=desk.budget.left_usd,
    )
    if held.max_output_tokens is not None:
        parameters["max_tokens"] = held.max_output_tokens
    return parameters, held.amount_usd


async def _exchange(
    desk: Desk, spec: CallSpec, parameters: Mapping[str, Any], *, stream: bool
) -> AsyncGenerator[TextDelta | WireResponse, None]:
    """Send the request; cut it off at the deadline.

    Raises:
        EndpointError: the attempt failed; kind "timeout" where the deadline passed.
    """
    name = spec.candidate.endpoint or ""
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
    offer: Offer
    attempt_id: str
    tally: Tally
    held_usd: Decimal | None
    reserved_usd: Decimal
    state_us: int = 0
    begun_ns: int = 0
    done: bool = False

    def started(self, key: str, now_us: int, queue_us: int) -> AttemptStarted:
        spec, candidate = self.spec, self.spec.candidate
        return AttemptStarted(
            attempt_id=self.attempt_id,
            call_key=key,
            number=self.tally.before + self.tally.attempts,
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
            reserved_usd=self.held_usd,
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
        if self.desk.answer_kept_s is not None:
            expires = time.time_ns() // 1000 + self.desk.answer_kept_s * 1_000_000
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
        status: AttemptStatus = "timed_out" if error.kind in TIMED_OUT else "failed"
        ended = replace(
            self._ended(status, charged, usage),
            model_served=None,
            error_kind=error.kind,
            http_status=error.status,
            possibly_billed=error.possibly_billed,
        )
        await self._close(ended, charged)

    async def stopped(self, text: str) -> None:
        """The consumer left: what was used is estimated from what was sent and came; with no text it is unknown."""
        usage = None
        if text:
            sent = estimate_message_tokens(self.spec.messages, self.spec.parameters.get("tools") or ())
            usage = Usage(uncached_input_tokens=sent, plain_output_tokens=estimate_tokens(text))
        charged = bill(self.market, self.offer, served_name=None, usage=usage, estimated=True)
        ended = replace(self._ended("stopped", charged, usage), usage_estimated=bool(text), possibly_billed=not text)
        await self._close(ended, charged)

    async def unsent(self) -> None:
        """The caller left before anything was sent: nothing was used, and that is known."""
        charged = bill(self.market, self.offer, served_name=None, usage=Usage())
        await self._close(replace(self._ended("stopped", charged, Usage()), model_served=None, latency_us=0), charged)

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
        await self.desk.budget.settle(self.reserved_usd, charged.settled_usd)
        prices = [charged.prices] if charged.prices and ended.price_set_id else []
        await self.desk.ledger.write(*prices, ended, *extra)
