"""One logical call: as many attempts as it takes, within the bounds that are set.

In: a `CallSpec`. Out: one `CallOutcome`, which may hold an error: a call that fails on the wire does not raise.
Invariant: a finished call on record is never made again; nobody but this module retries, and no wait of a call, for
budget, gate, pace or a retry, goes beyond its deadline.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pricing.usage import Usage
from router.alerts import Alert
from router.attempts import CallSpec, Desk, Ended, Say, Turn, attempt
from router.bill import bill
from router.errors import BudgetExceeded, BudgetUncounted, EndpointError, NoEndpoint
from router.fallback import fallback_candidates
from router.ledger.records import Answer
from router.limits import Gate, TurnedAway
from router.outcome import CallOutcome, Tally
from router.reservation import Reservation, answers_asked, output_cap, reservation
from router.result import Candidate
from router.retries import REFUSALS, RETRIED, may_retry, retry_wait_s, why_not_waited
from router.sent import sent_fields
from router.wave import Place

__all__ = ["Ask", "CallOutcome", "call_key", "perform", "retry_wait_s"]

Ask = Callable[[Desk, CallSpec, Say | None], Awaitable[CallOutcome]]
"""Makes one call of a model, as `perform` does."""

MOVED = RETRIED - {"rate_limited"}
"""Kinds of error after which the next attempt goes to the fallback, where there is one."""

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


def call_key(run_id: str, spec: CallSpec) -> str:
    """Return the key of a logical call: the same run, step, sample and request have the same one."""
    request = {"model": spec.candidate.model, "messages": list(spec.messages), "parameters": dict(spec.parameters)}
    body = _encode(request)
    parts = (run_id, spec.step_id or "", spec.role, str(spec.sample), body)
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


async def perform(desk: Desk, spec: CallSpec, say: Say | None = None) -> CallOutcome:
    """Make one logical call and return how it ended.

    Args:
        desk: what it is made with.
        spec: the call.
        say: takes its text as it streams; text that was handed on is never taken back by a retry. None: not streamed.

    Raises:
        NoEndpoint: no configured endpoint offers its model.
        BudgetExceeded: the next attempt could cross the budget; it was not sent.
        RunHeld: another process may have taken the run over; the next attempt was not sent.
        LedgerError: a row could not be committed; a request without its row is never sent.
    """
    if spec.candidate.endpoint is None:
        message = f"no endpoint is set that could serve {spec.candidate.model}"
        raise NoEndpoint(message, hint="set the key of one that offers it (router config check)")
    key = call_key(desk.run_id, spec)
    tally = Tally()
    if desk.resumed:
        if (on_record := await desk.ledger.find_answer(key)) is not None:
            return _recorded(spec, on_record)
        tally.before = await desk.ledger.last_number(key)
    call = _Call(desk, spec, key, tally, say, [spec.candidate])
    while True:
        ended = await call.next_attempt()
        if isinstance(ended, EndpointError):
            return call.not_sent(ended)
        wait_s = call.wait_s(ended)
        if not spec.is_last or ended.error is not None:  # else its caller writes it
            await desk.write(*ended.records)
        if wait_s is None:
            return call.outcome(ended)
        if wait_s:
            await asyncio.sleep(wait_s)


@dataclass(slots=True)
class _Call:
    """One call on its way: where it goes next, and what has come of it.

    `way` holds its own candidate and, once they are looked for (`is_whole`), the fallbacks; `at` is which of them is
    next (None: to be chosen), `spoken` whether text was handed on.
    """

    desk: Desk
    spec: CallSpec
    key: str
    tally: Tally
    say: Say | None
    way: list[Candidate]
    at: int | None = None
    is_new_there: bool = True
    is_whole: bool = False
    spoken: bool = False
    cap: int | None = None

    @property
    def candidate(self) -> Candidate:
        """Where the call is now."""
        at = self.at
        return self.way[at] if at else self.way[0]

    @property
    def gate(self) -> Gate:
        """The gate that it stands before."""
        return self.desk.gates[self.candidate.offer.endpoint or ""]

    async def next_attempt(self) -> Ended | EndpointError:
        """Reserve, wait for a place, send; an EndpointError: nothing was sent, and nothing will be."""
        if self.at is None:
            self.at = self._usable_from(0) or 0
        while True:
            try:
                return await self._attempt_here()
            except TurnedAway:  # the endpoint went down while the call waited at its gate
                self.at, self.is_new_there = self._usable_from(0) or 0, True

    async def _attempt_here(self) -> Ended | EndpointError:
        waited_ns = time.perf_counter_ns()
        parameters = sent_fields(self.desk.market, self.candidate, self.spec.parameters)
        held = self._reservation(parameters)
        self.cap = held.max_output_tokens
        tokens = self.candidate.input_tokens + held.usage.output_tokens
        if self.gate.pace is not None and (never := self.gate.pace.check(tokens)) is not None:
            return never
        entered = self._enter_now(held.amount_usd) or await self._enter(held.amount_usd, tokens)
        if entered is None:
            spec = self.spec
            return EndpointError("timeout", f"{spec.candidate.model}: no place before the {spec.whose_time}'s time-out")
        place, reserved_usd = entered
        queue_us = (time.perf_counter_ns() - waited_ns) // 1000
        number = self.tally.before + self.tally.attempts + 1
        return await self._sent(Turn(self.candidate, parameters, self.key, number, queue_us, held), place, reserved_usd)

    def _enter_now(self, amount_usd: Decimal | None) -> tuple[Place, Decimal] | None:
        """Return as `_enter` where nothing is waited for, at a fraction of its work; None: something may be."""
        if self.desk.budget.limit_usd is not None or self._too_late(0.0):
            return None
        place = self.gate.enter_now()
        held_usd = self.desk.budget.reserve_now(amount_usd) if place is not None else None
        return None if place is None or held_usd is None else (place, held_usd)

    async def _enter(self, amount_usd: Decimal | None, tokens: int) -> tuple[Place, Decimal] | None:
        """Return a place and what is reserved, or None where the deadline passes first."""
        deadline_s = self.spec.deadline_s
        if deadline_s is None:
            return await self._reserve_and_enter(amount_usd, tokens)
        if self._too_late(0.0):  # a time-out strikes where something is waited for, and a free place is not
            return None
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._reserve_and_enter(amount_usd, tokens)
        except TimeoutError:
            return None

    async def _reserve_and_enter(self, amount_usd: Decimal | None, tokens: int) -> tuple[Place, Decimal]:
        reserved_usd = await self.desk.budget.reserve(amount_usd)
        try:
            return await self.gate.enter(tokens, may_move=self._has_fallback()), reserved_usd
        except BaseException:
            self.desk.budget.settle(reserved_usd, Decimal(0))
            raise

    async def _sent(self, turn: Turn, place: Place, reserved_usd: Decimal) -> Ended:
        """Send, and let gate, pace and health know how it ended; the place is given back whatever happens."""
        tally, gate, health, name = self.tally, self.gate, self.desk.health, self.candidate.endpoint or ""
        tally.attempts += 1
        if self.is_new_there:
            self.is_new_there = False
            gate.retries.called(_now())
        cost_usd: Decimal | None = None  # from here on it may have been billed; what is not known stays held
        error: EndpointError | None = None
        is_known = False
        if health is not None:
            health.sent(name)
        try:
            try:
                ended = await attempt(self.desk, self.spec, turn, self._hear if self.say is not None else None)
            except BudgetUncounted:  # a monthly budget's count was taken away in between
                ended = await self._counted_anew(turn)
            error, is_known = ended.error, True
            self._tell_gate(gate, place, ended)
            cost_usd = ended.charged.settled_usd
            tally.add(ended, reserved_usd)
            return ended
        except BudgetExceeded:  # a monthly one: nothing was sent
            tally.attempts -= 1
            cost_usd = Decimal(0)
            raise
        finally:
            if health is not None:
                is_ours = error is not None and error.kind == "timeout" and self._too_late(0.0)
                health.ended(name, error, is_known=is_known and not is_ours)
            gate.leave(place)
            self.desk.budget.settle(reserved_usd, cost_usd)

    async def _counted_anew(self, turn: Turn) -> Ended:
        """Make the attempt once monthly budgets have been counted again."""
        if self.desk.monthly is not None:
            self.desk.monthly.forget()
        return await attempt(self.desk, self.spec, turn, self._hear if self.say is not None else None)

    async def _hear(self, text: str) -> None:
        """Hand text on, and remember that it was."""
        self.spoken = True
        if self.say is not None:
            await self.say(text)

    def _tell_gate(self, gate: Gate, place: Place, ended: Ended) -> None:
        error, response = ended.error, ended.response
        if error is None:
            # Its row was committed in its place: that wait, and ours for the loop, are not the endpoint's.
            gate.answered(place, None if response is None else response.timings.latency_us / 1e6)
        elif error.kind in REFUSALS:
            most = self.desk.retry.retry_after_max_s
            gate.refused(place, None if error.retry_after_s is None else min(error.retry_after_s, most))
        if gate.pace is not None and response is not None and response.usage is not None:
            gate.pace.used(place.tokens, response.usage.input_tokens + response.usage.output_tokens)

    def wait_s(self, ended: Ended) -> float | None:
        """Return the wait before the next attempt, seconds, None where there is none; say where that goes.

        A refused call waits at its gate, with all others, not by itself.
        """
        error, attempts, retry = ended.error, self.tally.attempts, self.desk.retry
        if error is None or self.spoken:
            return None
        billed = self.tally.billed - error.possibly_billed
        if not may_retry(error, attempts, billed, retry):
            return None
        if error.kind in MOVED and self._moves():
            return 0.0
        wait_s = retry_wait_s(error, attempts, billed, retry, self.desk.chance.random())
        if wait_s is None or self._too_late(wait_s):
            if error.kind in REFUSALS and self._moves():
                return 0.0
            self.tally.note = why_not_waited(error, retry)
            return None
        if error.kind in REFUSALS:
            return 0.0
        if self.gate.retries.take(_now()):
            return wait_s
        self.tally.note = self.gate.retries.used_up
        return None

    def _moves(self) -> bool:
        """Go on to the next fallback that is up, where there is one and time is left."""
        if not self._has_fallback() or self._too_late(0.0):
            return False
        after = self._usable_from((self.at or 0) + 1)
        if after is None:
            return False
        self.at, self.is_new_there = after, True
        return True

    def _has_fallback(self) -> bool:
        """Return whether there may be another candidate, without looking for it: few calls need one."""
        if len(self.way) > 1 or self.is_whole:
            return len(self.way) > 1
        return (
            bool(self.spec.fallbacks) or self.desk.market.endpoints[self.candidate.endpoint or ""].fallback is not None
        )

    def _usable_from(self, first: int) -> int | None:
        """Return the place on the way of the first candidate from there on whose endpoint takes calls now."""
        health = self.desk.health
        if first == 0 and not self._has_fallback():
            return 0
        at = first
        while at < len(self.way) or self._look_further():
            if health is None or health.takes(self.way[at].endpoint or ""):
                return at
            at += 1
        return None

    def _look_further(self) -> bool:
        """Put the fallbacks on the way, once; return whether there were any."""
        if self.is_whole:
            return False
        self.is_whole = True
        own = self.spec.candidate
        self.way += self.spec.fallbacks or fallback_candidates(self.desk.market, own)
        return len(self.way) > 1

    def _too_late(self, wait_s: float) -> bool:
        return self.spec.deadline_s is not None and _now() + wait_s >= self.spec.deadline_s

    def _reservation(self, parameters: Mapping[str, Any]) -> Reservation:
        candidate, market = self.candidate, self.desk.market
        held = reservation(
            market,
            candidate.offer,
            input_tokens=max(candidate.input_tokens, candidate.estimated_input_tokens),
            likely_output_tokens=max(candidate.output_tokens[2], candidate.prior_high_tokens),
            max_output_tokens=output_cap(parameters),
            left_usd=self.desk.budget.left_usd,
            answers=answers_asked(parameters),
        )
        tier = parameters.get("service_tier")
        if held.amount_usd is None or not isinstance(tier, str):
            return held
        # The tier that is served sets the price: the one that is asked for, or the plain one.
        dear_usd = bill(market, candidate.offer, served_name=None, usage=held.usage, service_tier=tier).settled_usd
        return held if dear_usd is None else replace(held, amount_usd=max(held.amount_usd, dear_usd))

    def not_sent(self, error: EndpointError) -> CallOutcome:
        """Return the outcome of a call that could not be sent (again)."""
        status = "timed_out" if error.kind == "timeout" else "failed"
        receipt = self.tally.receipt(self.spec, self.candidate.endpoint, status, str(error))
        return CallOutcome(receipt, error=error, warnings=tuple(self.tally.warnings))

    def outcome(self, ended: Ended) -> CallOutcome:
        """Return the outcome of a call whose last attempt has ended."""
        spec, tally, response = self.spec, self.tally, ended.response
        error = ended.error
        if error is not None and tally.note is not None:
            error = _with_note(error, tally.note)
        if response is None:
            status = "timed_out" if ended.row.status == "timed_out" else "failed"
            receipt = tally.receipt(spec, self.candidate.endpoint, status, str(error))
            return CallOutcome(receipt, error=error, warnings=tuple(tally.warnings))
        if response.usage_error:
            tally.warnings.append(f"{spec.candidate.model}: {response.usage_error}")
        if response.finish_reason == "length" and self.cap is not None:
            tally.warnings.append(
                f"{spec.candidate.model}: the answer was cut at {self.cap} tokens, what the budget can pay for"
            )
        if self.at:
            tally.warnings.append(self._served_by_fallback())
        return CallOutcome(
            tally.receipt(spec, self.candidate.endpoint, "succeeded"),
            response.message,
            response.text,
            response.finish_reason,
            warnings=tuple(tally.warnings),
            unwritten=ended.records if spec.is_last else (),
            call_key=self.key,
            task_class=spec.task_class,
        )

    def _served_by_fallback(self) -> str:
        """Say that a fallback has served the call, to the caller and to whoever is told of it."""
        asked, served = self.spec.candidate, self.candidate
        model = "" if served.model == asked.model else f" with {served.model}"
        words = f"{asked.model}: served by the fallback {served.endpoint}{model}, in place of {asked.endpoint}"
        if self.desk.health is not None:
            details = {"fallback": served.endpoint, "model_asked": asked.model, "model_served": served.model}
            self.desk.health.alerts.tell(Alert("fallback", asked.endpoint or "", "served", words, details))
        return words


def _with_note(error: EndpointError, note: str) -> EndpointError:
    return EndpointError(
        error.kind,
        f"{error}; {note}",
        status=error.status,
        retry_after_s=error.retry_after_s,
        possibly_billed=error.possibly_billed,
        hint=error.hint,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _recorded(spec: CallSpec, answer: Answer) -> CallOutcome:
    """Return the outcome of a call that an earlier process has made and paid."""
    receipt = Tally().receipt(spec, spec.candidate.endpoint, "succeeded")
    receipt = replace(receipt, model_served=spec.candidate.model, usage=Usage())
    return CallOutcome(receipt, answer.message, str(answer.message.get("content") or ""), answer.finish_reason)
