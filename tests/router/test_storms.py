"""Calls through gates into a real server: storms, pauses, pace, silence, and what a call may wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from router.asked import call_spec
from router.attempts import CallSpec, Desk, now_us
from router.budget import Budget
from router.calls import CallOutcome, perform
from router.endpoints.sandbox import Fault
from router.errors import CallFailed
from router.ledger.keys import new_id
from router.ledger.records import AttemptRow, RunStarted
from router.task import Task

Make = Callable[..., Any]


def rows_of(bench: Any) -> tuple[AttemptRow, ...]:
    with bench.ledger() as ledger:
        runs = ledger.reader.runs(0, 2**62)
        return tuple(row for run in runs for row in ledger.reader.attempts(run.started.run_id))


async def test_w3_a_storm_is_held_back_by_all_together(bench: Make) -> None:
    """Five at once are allowed, fifty come, `Retry-After: 2`: none fails, and at most 10 are refused."""
    made = bench({"*": Fault(max_in_flight=5, retry_after_s=2, latency_ms=30)})
    async with made.router as router:
        results = await asyncio.gather(*(router.route(f"task {number}") for number in range(50)))
        gate = router.gates()["sandbox"]
    assert len(results) == 50
    assert sum(entry.status == 429 for entry in made.requests) <= 10
    assert gate.course[0].limit == 8
    assert gate.limit in {4, 5, 6}


async def test_a_storm_without_retry_after_fails_nobody(bench: Make) -> None:
    """All are refused at first and nobody says for how long; 50 workers: under 20 refusals, then all 50 succeed."""
    made = bench({"*": Fault(status=429)}, retry={"base_s": 0.1, "max_s": 1})
    async with made.router as router:
        running = [asyncio.create_task(router.route(f"task {number}")) for number in range(50)]
        await asyncio.sleep(2.0)  # a tenth of the real base wait and an eighth of the longest: as 10 s would be
        await asyncio.to_thread(made.set_faults, {})
        results = await asyncio.gather(*running)
    assert len(results) == 50
    refused = sum(entry.status == 429 for entry in made.requests)
    assert 8 < refused < 20
    assert max(result.calls[0].attempts for result in results) <= 4
    assert len(made.requests) == 50 + refused


@pytest.mark.parametrize("calls", [1, 5])
async def test_always_429_is_exactly_three_requests_a_call(bench: Make, calls: int) -> None:
    made = bench({"*": Fault(status=429)}, retry={"attempts": 3, "base_s": 0.01, "max_s": 0.02})
    async with made.router as router:
        ends = await asyncio.gather(
            *(router.route(f"task {number}") for number in range(calls)), return_exceptions=True
        )
    assert [type(end) for end in ends] == [CallFailed] * calls
    assert len(made.requests) == 3 * calls


async def test_s11_the_limit_falls_from_fifty_and_recovers(bench: Make) -> None:
    """A start at 50; the server takes 5; the limit is told in numbers, and grows again when the server takes all."""
    made = bench(
        {"*": Fault(max_in_flight=5, retry_after_s=0.1, latency_ms=20)},
        endpoint={"concurrency": 50, "first_concurrency": 50},
        gates={"hold_pauses": 1},
    )
    async with made.router as router:
        await asyncio.gather(*(router.route(f"task {number}") for number in range(80)))
        low = router.gates()["sandbox"]
        await asyncio.to_thread(made.set_faults, {"*": {"latency_ms": 20}})
        high = low
        for wave in range(20):
            await asyncio.gather(*(router.route(f"{wave}: task {number}") for number in range(60)))
            if (high := router.gates()["sandbox"]).limit == 50:
                break
    assert low.course[0].limit == 50
    assert min(point.limit for point in low.course) in {3, 4, 5}
    assert low.limit <= 8
    assert high.limit == 50
    assert [point.at_s for point in high.course] == sorted(point.at_s for point in high.course)


async def test_rpm_and_tpm_of_the_settings_are_kept(bench: Make) -> None:
    """300 a minute are five a second, and five may go at once: ten calls take a second."""
    made = bench(endpoint={"rpm": 300, "tpm": 10_000})
    async with made.router as router:
        begun = time.monotonic()
        await asyncio.gather(*(router.route(f"task {number}", max_output_tokens=20) for number in range(10)))
        assert time.monotonic() - begun >= 0.99
        with pytest.raises(
            CallFailed, match=r"endpoint sandbox: the call may use 20,\d+ tokens, and tpm allows 10,000"
        ):
            await router.route("hello", max_output_tokens=20_000)
        with pytest.raises(CallFailed, match=r"may use 12,\d+ tokens"):  # three answers, each of up to 4,000
            await router.route("hello", max_output_tokens=4_000, extra={"n": 3})
    assert len(made.requests) == 10
    waits = sorted(row.started.queue_us for row in rows_of(made))
    assert waits[0] < 500_000 < waits[-1]


async def test_the_retry_budget_ends_a_storm_of_failures(bench: Make) -> None:
    """2 retries in any case and 10 % of 20 calls: 4 retries, then a failing call fails at once, and says so."""
    made = bench({"*": Fault(status=400)}, retry={"base_s": 0.01, "max_s": 0.02, "budget_floor": 2})
    await asyncio.to_thread(made.set_faults, {"*": {"status": 503, "share": 0}, "gpt-4.1": {"malformed": True}})
    async with made.router as router:
        ends = await asyncio.gather(*(router.route(f"task {number}") for number in range(20)), return_exceptions=True)
    assert all(isinstance(end, CallFailed) for end in ends)
    assert len(made.requests) == 20 + 4
    told = [end for end in ends if "not tried again: endpoint sandbox has used up its retries" in str(end)]
    assert len(told) == 20 - 4


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes single calls, as a runner does."""

    desk: Desk
    spec: CallSpec

    async def call(self, **more: Any) -> CallOutcome:
        """Make one; `in_s` is its deadline from now, seconds."""
        if (in_s := more.pop("in_s", None)) is not None:
            more["deadline_s"] = asyncio.get_running_loop().time() + in_s
        return await perform(self.desk, replace(self.spec, **more))


@asynccontextmanager
async def caller(bench: Any, budget_usd: str | None = None) -> AsyncIterator[Caller]:
    """Open a router's bench, and give what makes calls on it."""
    task = Task.of("Write a long story about a receipt.", max_output_tokens=200)
    async with bench.router as router:
        opened = await router._bench(router.market())  # noqa: SLF001 — what a runner is given
        budget = Budget(None if budget_usd is None else Decimal(budget_usd))
        run_id, at_us = new_id(), now_us()
        started = RunStarted(run_id=run_id, configuration="x", policy_version="x", started_us=at_us)
        desk = Desk(
            opened.ledger, opened.endpoints, opened.gates, opened.market, router.settings.retry, budget, run_id, "x",
            health=opened.health, opening=[started],
        )  # fmt: skip
        yield Caller(desk, call_spec(router.decide(task), task))


async def test_w2_silence_after_three_tokens_is_cut_off(bench: Make) -> None:
    """What came is estimated and booked; the call is not sent again by itself."""
    made = bench({"*": Fault(stall_after=3, first=1)})
    async with caller(made) as one:
        begun = time.monotonic()
        outcome = await one.call(idle_s=0.5)
        assert 0.5 <= time.monotonic() - begun < 10
        assert outcome.error is not None
        assert outcome.error.kind == "idle"
        assert str(outcome.error).endswith("gpt-4.1 sent no token for 0.5 s")
        assert (outcome.receipt.status, outcome.receipt.attempts) == ("timed_out", 1)
        assert outcome.receipt.cost_status == "estimated"
        again = await one.call(idle_s=5.0, sample=1)  # dispatched again, it succeeds
        assert again.error is None
        (first, *_) = one.desk.ledger.reader.attempts(one.desk.run_id)
    assert first.ended is not None
    assert (first.ended.status, first.ended.error_kind, first.ended.usage_estimated) == ("timed_out", "idle", True)
    assert first.ended.usage is not None
    assert first.ended.usage.output_tokens > 0
    assert len(made.requests) == 2


async def test_silence_from_the_start_is_possibly_billed(bench: Make) -> None:
    made = bench({"*": Fault(hang=True)})
    async with caller(made) as one:
        outcome = await one.call(idle_s=0.3)
        (row,) = one.desk.ledger.reader.attempts(one.desk.run_id)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.possibly_billed) == ("idle", True)
    assert outcome.receipt.possibly_billed_usd > 0
    assert row.ended is not None
    assert (row.ended.possibly_billed, row.ended.usage) == (True, None)


async def test_a_slow_but_steady_answer_is_no_silence(bench: Make) -> None:
    """A token every 20 ms for a second or more, and 0.4 s of patience."""
    made = bench({"*": Fault(per_token_ms=20)})
    async with caller(made) as one:
        begun = time.monotonic()
        outcome = await one.call(idle_s=0.4)
    assert outcome.error is None
    assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize("waits_for", ["gate", "pause", "pace", "budget", "retry", "retry after"])
async def test_no_wait_goes_beyond_the_deadline(bench: Make, waits_for: str) -> None:
    """Whatever a call waits for, it ends by its deadline, and says so."""
    faults: dict[str, Fault] = {"pause": Fault(status=429), "retry after": Fault(status=429, retry_after_s=30)}
    faults["retry"] = Fault(malformed=True)
    endpoint = {"concurrency": 1} if waits_for == "gate" else {"rpm": 1} if waits_for == "pace" else {}
    hang = {"*": Fault(hang=True)} if waits_for in {"gate", "budget"} else {}
    made = bench(
        {"*": faults[waits_for]} if waits_for in faults else hang, endpoint=endpoint, retry={"base_s": 30, "max_s": 60}
    )
    async with caller(made, "0.003" if waits_for == "budget" else None) as one:  # one call reserves 0.0016 and a little
        others = [asyncio.create_task(one.call()) for _ in range(waits_for in {"gate", "budget", "pause"})]
        if waits_for == "pace":
            await one.call()
        if others:
            while not made.requests:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
        begun = time.monotonic()
        outcome = await one.call(in_s=0.5)
        assert time.monotonic() - begun < 5
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        state = one.desk.gates["sandbox"].state
    assert outcome.error is not None
    assert outcome.error.kind == {"retry": "malformed", "retry after": "rate_limited"}.get(waits_for, "timeout")
    assert (state.in_flight, state.waiting) == (0, 0)
    assert one.desk.budget.reserved_usd == 0


async def test_law_a_cancelled_call_leaves_no_place_and_no_reservation(bench: Make) -> None:
    """Cancelled at many points of its course, in a crowd at a narrow gate."""
    made = bench({"*": Fault(latency_ms=5)}, endpoint={"concurrency": 2})
    async with caller(made, "1") as one:
        for number in range(20):
            crowd = [asyncio.create_task(one.call(sample=number * 10 + each)) for each in range(6)]
            await asyncio.sleep(number * 0.002)
            for each in crowd[::2]:
                each.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
            state = one.desk.gates["sandbox"].state
            assert (state.in_flight, state.waiting) == (0, 0)
            assert one.desk.budget.reserved_usd == 0


async def test_a_call_may_bring_its_own_fallbacks(bench: Make) -> None:
    made = bench({"gpt-4.1": Fault(malformed=True)})
    async with caller(made) as one:
        other = made.router.decide("x", candidates=("gpt-4.1-mini",)).chosen
        outcome = await one.call(fallbacks=(other,))
    assert (outcome.receipt.model_asked, outcome.receipt.model_served) == ("gpt-4.1", "gpt-4.1-mini")
    assert [entry.model for entry in made.requests] == ["gpt-4.1", "gpt-4.1-mini"]
    assert any("served by the fallback sandbox with gpt-4.1-mini" in warning for warning in outcome.warnings)


async def test_gate_states_tell_the_course_of_a_run(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=30)})
    async with made.router as router:
        assert router.gates() == router.health() == {}
        await asyncio.gather(*(router.route(f"task {number}") for number in range(40)))
        state, health = router.gates()["sandbox"], router.health()["sandbox"]
    assert (state.answered, state.refused, state.pauses, state.in_flight, state.waiting) == (40, 0, 0, 0, 0)
    assert (state.paused_s, state.per_s) == (0, None)
    assert state.course[0].limit == 8
    assert state.course[-1].limit == state.limit > 8
    assert (health.state, health.fallback) == ("up", None)
