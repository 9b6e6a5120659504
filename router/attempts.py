"""One attempt on the wire: a row before, a request, a row after.

In: a `Desk`, a `CallSpec`, what is held for it. Out: an `Ended`: answer or error, and the rows that complete it.
Invariant: the row is committed before the request is sent, and completed exactly once after it, also where the caller
is cancelled in between.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.quick import quick
from pricing.usage import Usage
from router.bill import Bill, bill
from router.desk import CallSpec, Desk, Lease, Turn, now_us
from router.endpoints.protocol import WireRequest, WireResponse
from router.errors import EndpointError, RouterError, RunHeld
from router.exchange import Bounds, Say, exchange
from router.ledger.budget_records import BudgetUse
from router.ledger.keys import new_id
from router.ledger.records import AttemptEnded, AttemptStarted, AttemptStatus
from router.monthly import MonthlyBudgets
from router.policy import Market
from router.sent import sent_messages
from router.tokens import estimate_message_tokens, estimate_tokens

if TYPE_CHECKING:
    from router.ledger.rows import Record

TIMED_OUT = frozenset({"timeout", "connect_timeout", "idle"})

__all__ = ["CallSpec", "Desk", "Ended", "Lease", "Say", "Turn", "attempt", "now_us"]


@quick
@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: the answer or the error, its bill, and the rows that are still to be written."""

    row: AttemptEnded
    charged: Bill
    records: tuple[Record, ...]
    response: WireResponse | None = None
    error: EndpointError | None = None


async def attempt(desk: Desk, spec: CallSpec, turn: Turn, say: Say | None) -> Ended:
    """Send one request and return how it ended; its completion is not written yet.

    Args:
        desk: what it is made with.
        spec: the call.
        turn: the attempt.
        say: takes the text as it comes; None: nobody hears it.

    Raises:
        RunHeld: another process may have taken the run over; nothing was sent.
        BudgetExceeded: it could cross a monthly budget; nothing was sent.
        BudgetUncounted: the count of a monthly budget was taken away; nothing was sent, and it can be tried again.
        LedgerError: its row could not be committed; nothing was sent.
        CancelledError: the caller left; the row is completed as stopped.
    """
    if desk.lease.is_over():
        raise RunHeld(f"run {desk.run_id}: its lease is over, another process may have it", hint="run it again")
    started_us = now_us()
    market, second = desk.market, started_us // 1_000_000
    if int(market.at.timestamp()) != second:  # within a second no price changes
        market = market.moved_to(datetime.fromtimestamp(second, UTC))
    record = _Record(spec, turn, market, new_id(), time.perf_counter_ns())
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)
        if say is not None and text:
            await say(text)

    started = record.started(desk, started_us)
    if desk.monthly is not None:
        record.monthly, record.uses = desk.monthly, await desk.monthly.hold(started)
    is_sent = False
    try:
        await desk.write(*record.uses, started)
        record.state_us, record.begun_ns = record.elapsed_us(), time.perf_counter_ns()
        is_sent = True
        return record.succeeded(desk, await _send(desk, spec, turn, hear, is_heard=say is not None))
    except EndpointError as error:
        return record.failed(error, "".join(heard))
    except RouterError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever an answer does to its reader, the attempt has ended
        return record.failed(_unread(turn, error), "")
    except asyncio.CancelledError:
        # `write` queues its rows before it waits, so a second cancel cannot lose them, and the first row is there.
        await desk.write(*record.stopped("".join(heard), is_sent=is_sent).records)
        raise


def _unread(turn: Turn, error: Exception) -> EndpointError:
    """Return the error of an answer that broke its reader."""
    words = f"endpoint {turn.candidate.endpoint}: the answer could not be read: {type(error).__name__}"
    return EndpointError(
        "malformed", words, possibly_billed=True, hint="another endpoint, or report it with the answer"
    )


async def _send(desk: Desk, spec: CallSpec, turn: Turn, hear: Say, *, is_heard: bool) -> WireResponse:
    """Send the request; it is streamed where its text is heard, or its silence is to be noticed."""
    parameters = turn.parameters
    if turn.held.max_output_tokens is not None:
        parameters = {**parameters, "max_tokens": turn.held.max_output_tokens}
    messages = sent_messages(desk.market, turn.candidate, spec.messages)
    request, name = WireRequest(turn.candidate.wire_id, messages, parameters), turn.candidate.endpoint or ""
    is_streamed = is_heard or spec.idle_s is not None
    if not is_streamed and spec.deadline_s is None:
        return await desk.endpoints[name].send(request)
    bounds = Bounds(name, spec.deadline_s, spec.idle_s, is_heard=is_heard, whose=spec.whose_time)
    return await exchange(desk.endpoints[name], request, hear if is_streamed else None, bounds)


@dataclass(slots=True)
class _Record:
    """One attempt's two rows: started, and its one completion."""

    spec: CallSpec
    turn: Turn
    market: Market
    attempt_id: str
    begun_ns: int
    state_us: int = 0
    monthly: MonthlyBudgets | None = None
    uses: tuple[BudgetUse, ...] = ()

    def elapsed_us(self) -> int:
        return (time.perf_counter_ns() - self.begun_ns) // 1000

    def started(self, desk: Desk, started_us: int) -> AttemptStarted:
        spec, turn = self.spec, self.turn
        low, expected, high = turn.candidate.output_tokens
        return AttemptStarted(
            attempt_id=self.attempt_id,
            call_key=turn.key,
            number=turn.number,
            configuration=desk.configuration,
            endpoint=turn.candidate.endpoint or "",
            price_list=turn.candidate.price_list,
            model_asked=spec.candidate.model,
            started_us=started_us,
            run_id=desk.run_id,
            step_id=spec.step_id,
            role=spec.role,
            task_class=spec.task_class,
            tenant=desk.tenant,
            queue_us=turn.queue_us,
            reserved_usd=turn.held.amount_usd,
            tags=desk.tags,
            script=turn.candidate.script,
            estimated_input_tokens=turn.candidate.estimated_input_tokens if turn.candidate.script else None,
            expected_input_tokens=turn.candidate.input_tokens,
            expected_output_low_tokens=low,
            expected_output_tokens=expected,
            expected_output_high_tokens=high,
        )

    def succeeded(self, desk: Desk, response: WireResponse) -> Ended:
        charged = self._bill(response.usage, served_name=response.served_model, service_tier=response.service_tier)
        timings = response.timings
        row = self._ended(
            "succeeded",
            charged,
            response.usage,
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
        kept = desk.answers(self.turn.key, response.message, response.finish_reason)
        return Ended(row, charged, (*self._rows(charged, row), *kept), response=response)

    def failed(self, error: EndpointError, text: str) -> Ended:
        """It failed: nothing was used, or it is not known; after silence it is estimated from the text that came."""
        usage = None if error.possibly_billed else Usage()
        is_estimated = error.kind == "idle" and bool(text)
        if is_estimated:
            usage = self._used(text)
        charged = self._bill(usage, estimated=is_estimated)
        status: AttemptStatus = "timed_out" if error.kind in TIMED_OUT else "failed"
        row = self._ended(
            status,
            charged,
            usage,
            model_served=None,
            error_kind=error.kind,
            http_status=error.status,
            usage_estimated=is_estimated,
            possibly_billed=error.possibly_billed and not is_estimated,
        )
        return Ended(row, charged, self._rows(charged, row), error=error)

    def stopped(self, text: str, *, is_sent: bool) -> Ended:
        """The caller left: what was used is estimated from the text that came, else unknown, or nothing if unsent."""
        usage: Usage | None = None if is_sent else Usage()
        if text:
            usage = self._used(text)
        charged = self._bill(usage, estimated=bool(text))
        row = self._ended("stopped", charged, usage, usage_estimated=bool(text), possibly_billed=is_sent and not text)
        return Ended(row, charged, self._rows(charged, row))

    def _used(self, text: str) -> Usage:
        """Return what an answer that broke off has used, estimated from the text that came."""
        sent = estimate_message_tokens(self.spec.messages, self.turn.parameters.get("tools") or ())
        return Usage(uncached_input_tokens=sent, plain_output_tokens=estimate_tokens(text))

    def _rows(self, charged: Bill, row: AttemptEnded) -> tuple[Record, ...]:
        """Return the end's rows: the price set it refers to, before it, and what it gives back to the budgets."""
        prices: tuple[Record, ...] = ()
        if charged.prices is not None and row.price_set_id is not None:
            prices = (charged.prices,)
        if self.monthly is None or not self.uses:
            return (*prices, row)
        cost_usd = Decimal(0) if row.usage == Usage() else charged.settled_usd
        return (*prices, row, *self.monthly.ended(self.uses, cost_usd, self.market.at.date()))

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
            self.turn.candidate.offer,
            served_name=served_name,
            usage=usage,
            estimated=estimated,
            service_tier=service_tier,
        )

    def _ended(self, status: AttemptStatus, charged: Bill, usage: Usage | None, **more: Any) -> AttemptEnded:
        columns: dict[str, Any] = {
            "latency_us": self.elapsed_us(),
            "model_served": charged.model_served,
            "usage": usage,
            "list_cost": charged.list_cost,
            "settled_cost": charged.settled_cost,
            "price_set_id": charged.prices.id if charged.prices and usage is not None else None,
            "terms": charged.terms,
            "state_us": self.state_us,
        }
        columns.update(more)
        return AttemptEnded(self.attempt_id, status, charged.status, **columns)
