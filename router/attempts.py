"""One attempt on the wire: a row before, a request, a row after.

In: a `Desk`, a `CallSpec`, what is held for it. Out: an `Ended`: answer or error, and the rows that complete it.
Invariant: the row is committed before the request is sent, and completed exactly once after it, also where the caller
is cancelled in between.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.usage import Usage
from router.bill import Bill, bill
from router.endpoints.protocol import Endpoint, TextDelta, WireRequest, WireResponse
from router.errors import EndpointError, RouterError, RunHeld
from router.ledger.keys import new_id
from router.ledger.records import Answer, AttemptEnded, AttemptStarted, AttemptStatus, RunStarted
from router.limits import Budget, Gate
from router.policy import Market
from router.reservation import Reservation
from router.result import Candidate
from router.settings import RetrySettings
from router.task import Role
from router.tokens import estimate_message_tokens, estimate_tokens

if TYPE_CHECKING:
    from router.ledger import Ledger
    from router.ledger.rows import Record

TIMED_OUT = frozenset({"timeout", "connect_timeout"})
ANSWER_KEPT_US = 24 * 3600 * 1_000_000
"""How long answers are kept for a resume, microseconds."""

Say = Callable[[str], Awaitable[None]]
"""Takes a piece of the answer's text; nothing more is read from the model until it has."""


@dataclass(slots=True)
class Lease:
    """Until when a run is this process's; after it nothing is sent. None: it has no key, so nobody takes it."""

    until_us: int | None = None

    def is_over(self) -> bool:
        """Return whether another process may have taken the run over."""
        return self.until_us is not None and now_us() >= self.until_us


@dataclass(frozen=True, slots=True)
class Desk:
    """What the calls of one run are made with.

    Args:
        ledger: where rows go.
        endpoints: open endpoints by name.
        gates: their gates by name.
        market: catalogue, endpoint settings and rates; its instant is replaced by each attempt's.
        retry: how failed attempts are tried again.
        budget: what the run may still spend.
        run_id, configuration, tenant, tags: written into each row.
        opening: rows that are written with the run's first: its own, where it has no run key.
        keep_answers: whether answers are kept for a resume.
        for_good: whether they are kept without end.
        resumed: whether the run was started before, so that answers on record are looked up first.
        lease: whether the run is still this process's.
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
    tags: Mapping[str, str] = field(default_factory=dict)
    opening: list[RunStarted] = field(default_factory=list)
    keep_answers: bool = False
    for_good: bool = False
    resumed: bool = False
    lease: Lease = field(default_factory=Lease)
    chance: random.Random = field(default_factory=random.Random)

    async def write(self, *records: Record) -> None:
        """Commit records, the run's opening rows before the first of them."""
        opening, self.opening[:] = tuple(self.opening), ()
        if opening or records:
            await self.ledger.write(*opening, *records)

    def answers(self, key: str, message: Mapping[str, Any], finish_reason: str | None) -> tuple[Answer, ...]:
        """Return an answer as it is kept, or nothing where answers are not kept."""
        if not self.keep_answers:
            return ()
        expires_us = None if self.for_good else now_us() + ANSWER_KEPT_US
        return (Answer(key, self.run_id, message, finish_reason, expires_us),)


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
        deadline_s: time of the event loop after which it is cut off, seconds, or None.
        is_last: whether the run ends with it, so that its completion is written with the run's.
    """

    candidate: Candidate
    role: Role
    task_class: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_id: str | None = None
    sample: int = 0
    deadline_s: float | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: the answer or the error, its bill, and the rows that are still to be written."""

    row: AttemptEnded
    charged: Bill
    records: tuple[Record, ...]
    response: WireResponse | None = None
    error: EndpointError | None = None


def now_us() -> int:
    """Return the instant, microseconds since 1970 UTC."""
    return time.time_ns() // 1000


async def attempt(
    desk: Desk, spec: CallSpec, key: str, number: int, queue_us: int, held: Reservation, say: Say | None
) -> Ended:
    """Send one request and return how it ended; its completion is not written yet.

    Args:
        desk: what it is made with.
        spec: the call.
        key: the call's key.
        number: 1 for the call's first attempt.
        queue_us: time waited at our own gates, microseconds.
        held: what is reserved for it, and the cap on its output that makes that hold.
        say: takes the text as it comes; None: it is not streamed.

    Raises:
        RunHeld: another process may have taken the run over; nothing was sent.
        LedgerError: its row could not be committed; nothing was sent.
        CancelledError: the caller left; the row is completed as stopped.
    """
    if desk.lease.is_over():
        raise RunHeld(f"run {desk.run_id}: its lease is over, another process may have it", hint="run it again")
    started_us = now_us()
    market = replace(desk.market, at=datetime.fromtimestamp(started_us // 1_000_000, UTC))
    record = _Record(spec, market, new_id(), time.perf_counter_ns())
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)
        if say is not None:
            await say(text)

    is_sent = False
    try:
        await desk.write(record.started(desk, key, number, started_us, queue_us, held.amount_usd))
        record.state_us, record.begun_ns = record.elapsed_us(), time.perf_counter_ns()
        is_sent = True
        return record.succeeded(desk, key, await _exchange(desk, spec, held, hear if say is not None else None))
    except EndpointError as error:
        return record.failed(error)
    except RouterError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever an answer does to its reader, the attempt has ended
        return record.failed(_unread(spec, error))
    except asyncio.CancelledError:
        # `write` queues its rows before it waits, so a second cancel cannot lose them, and the first row is there.
        await desk.write(*record.stopped("".join(heard), is_sent=is_sent).records)
        raise


def _unread(spec: CallSpec, error: Exception) -> EndpointError:
    """Return the error of an answer that broke its reader."""
    words = f"endpoint {spec.candidate.endpoint}: the answer could not be read: {type(error).__name__}"
    return EndpointError(
        "malformed", words, possibly_billed=True, hint="another endpoint, or report it with the answer"
    )


async def _exchange(desk: Desk, spec: CallSpec, held: Reservation, hear: Say | None) -> WireResponse:
    """Send the request and return its answer; cut it off at the deadline.

    Raises:
        EndpointError: the attempt failed; kind "timeout" where the deadline passed.
    """
    name = spec.candidate.endpoint or ""
    parameters = dict(spec.parameters)
    if held.max_output_tokens is not None:
        parameters["max_tokens"] = held.max_output_tokens
    request = WireRequest(spec.candidate.wire_id, spec.messages, parameters)
    try:
        async with asyncio.timeout_at(spec.deadline_s):
            if hear is None:
                return await desk.endpoints[name].send(request)
            return await _listen(desk.endpoints[name], request, hear)
    except TimeoutError:
        raise EndpointError(
            "timeout",
            f"endpoint {name}: {spec.candidate.model} did not finish before the step's time-out",
            possibly_billed=True,
            hint="raise [swarm] step_timeout_s, or lower the concurrency",
        ) from None


async def _listen(endpoint: Endpoint, request: WireRequest, hear: Say) -> WireResponse:
    async with aclosing(endpoint.stream(request)) as flow:  # type: ignore[type-var]  # streams are async generators
        async for event in flow:
            if isinstance(event, TextDelta):
                await hear(event.text)
            else:
                return event
    raise RouterError("an endpoint's stream ended without its answer")  # pragma: no cover — the protocol forbids it


@dataclass(slots=True)
class _Record:
    """One attempt's two rows: started, and its one completion."""

    spec: CallSpec
    market: Market
    attempt_id: str
    begun_ns: int
    state_us: int = 0

    def elapsed_us(self) -> int:
        return (time.perf_counter_ns() - self.begun_ns) // 1000

    def started(
        self, desk: Desk, key: str, number: int, started_us: int, queue_us: int, reserved_usd: Decimal | None
    ) -> AttemptStarted:
        spec, candidate = self.spec, self.spec.candidate
        return AttemptStarted(
            attempt_id=self.attempt_id,
            call_key=key,
            number=number,
            configuration=desk.configuration,
            endpoint=candidate.endpoint or "",
            price_list=candidate.price_list,
            model_asked=candidate.model,
            started_us=started_us,
            run_id=desk.run_id,
            step_id=spec.step_id,
            role=spec.role,
            task_class=spec.task_class,
            tenant=desk.tenant,
            queue_us=queue_us,
            reserved_usd=reserved_usd,
            tags=desk.tags,
        )

    def succeeded(self, desk: Desk, key: str, response: WireResponse) -> Ended:
        charged = self._bill(response.usage, served_name=response.served_model, service_tier=response.service_tier)
        timings = response.timings
        row = replace(
            self._ended("succeeded", charged, response.usage),
            http_status=response.http_status,
            upstream_id=response.upstream_id,
            finish_reason=response.finish_reason,
            service_tier=response.service_tier,
            reported_cost_usd=response.reported_cost_usd,
            possibly_billed=response.usage is None,
            latency_us=timings.latency_us,
            ttft_us=timings.ttft_us,
            network_us=timings.network_us,
            inference_us=timings.inference_us,
        )
        kept = desk.answers(key, response.message, response.finish_reason)
        return Ended(row, charged, (*_prices(charged, row), row, *kept), response=response)

    def failed(self, error: EndpointError) -> Ended:
        usage = None if error.possibly_billed else Usage()
        charged = self._bill(usage)
        status: AttemptStatus = "timed_out" if error.kind in TIMED_OUT else "failed"
        row = replace(
            self._ended(status, charged, usage),
            model_served=None,
            error_kind=error.kind,
            http_status=error.status,
            possibly_billed=error.possibly_billed,
        )
        return Ended(row, charged, (*_prices(charged, row), row), error=error)

    def stopped(self, text: str, *, is_sent: bool) -> Ended:
        """The caller left: what was used is estimated from the text that came, else unknown, or nothing if unsent."""
        usage: Usage | None = None if is_sent else Usage()
        if text:
            sent = estimate_message_tokens(self.spec.messages, self.spec.parameters.get("tools") or ())
            usage = Usage(uncached_input_tokens=sent, plain_output_tokens=estimate_tokens(text))
        charged = self._bill(usage, estimated=bool(text))
        row = replace(
            self._ended("stopped", charged, usage), usage_estimated=bool(text), possibly_billed=is_sent and not text
        )
        return Ended(row, charged, (*_prices(charged, row), row))

    def _bill(
        self,
        usage: Usage | None,
        *,
        served_name: str | None = None,
        service_tier: str | None = None,
        estimated: bool = False,
    ) -> Bill:
        return bill(
            self.market,
            self.spec.candidate.offer,
            served_name=served_name,
            usage=usage,
            estimated=estimated,
            service_tier=service_tier,
        )

    def _ended(self, status: AttemptStatus, charged: Bill, usage: Usage | None) -> AttemptEnded:
        return AttemptEnded(
            attempt_id=self.attempt_id,
            status=status,
            cost_status=charged.status,
            latency_us=self.elapsed_us(),
            model_served=charged.model_served,
            usage=usage,
            list_cost=charged.list_cost,
            settled_cost=charged.settled_cost,
            price_set_id=charged.prices.id if charged.prices and usage is not None else None,
            terms=charged.terms,
            state_us=self.state_us,
        )


def _prices(charged: Bill, row: AttemptEnded) -> tuple[Record, ...]:
    """Return the price set that the row refers to, which is written before it."""
    return (charged.prices,) if charged.prices is not None and row.price_set_id is not None else ()
