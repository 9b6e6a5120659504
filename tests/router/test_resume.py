"""Runs by their id: gone on with, cancelled, kept for a day after their end."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.attempts import Lease, now_us
from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import LedgerError, RunFailed, RunHeld, RunStopped, WrongUsage
from router.heartbeat import Heartbeat
from router.holding import LEASE_S, cancel_run, owner_id
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.records import RunEnded, RunStarted
from router.result import Result
from tests.router.conftest import settings_for

Make = Callable[..., Any]
STEPS = [
    {"id": "a", "prompt": "describe rivers"},
    {"id": "b", "prompt": "describe boom"},
    {"id": "c", "prompt": "compare", "depends_on": ["a", "b"]},
]
ANYWHERE: dict[str, Any] = {"steps": STEPS, "merge": False}


async def until(is_so: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait until something is so, looking often."""
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await asyncio.sleep(0.01)


async def stopped_run(made: Any, router: Router, **task: Any) -> str:
    """Return the id of a run that was stopped while its first calls were on the wire."""
    await asyncio.to_thread(made.set_faults, {"*": {"hang": True}})
    sent = len(made.requests)
    running = asyncio.create_task(router.route("Do it.", **{**ANYWHERE, **task}))
    await until(lambda: len(made.requests) >= sent + 2)
    running.cancel()
    await asyncio.wait([running])
    await asyncio.to_thread(made.set_faults, {})
    with made.ledger() as ledger:
        return str(ledger.run_reader.newest()[0].row.started.run_id)


async def test_a_partial_run_goes_on_with_what_failed_alone(bench: Make) -> None:
    made = bench({"*": Fault(match="boom", status=400)})
    async with made.router as router:
        first = await router.route("Do it.", **ANYWHERE)
        assert [step.status for step in first.steps] == ["succeeded", "failed", "failed"]
        await asyncio.to_thread(made.set_faults, {})
        again = await router.resume(first.run_id)
        third = await router.resume(first.run_id)

    assert len(made.requests) == 2 + 2  # b again, and c
    assert (again.run_id, again.status, again.replayed) == (first.run_id, "succeeded", False)
    assert again.steps[0].text == first.steps[0].text
    assert (third.replayed, third.steps) == (True, again.steps)
    assert third.warnings == (f"run {first.run_id} has succeeded already: there was nothing to resume",)
    assert third.cost.settled_usd == again.cost.settled_usd > first.cost.settled_usd > 0


async def test_a_merged_run_that_is_resumed_merges_anew(bench: Make) -> None:
    made = bench({"*": Fault(match="boom", status=400)})
    async with made.router as router:
        first = await router.route("Do it.", steps=STEPS[:2], run_key="k")
        same = await router.route("Do it.", steps=STEPS[:2], run_key="k")
        await asyncio.to_thread(made.set_faults, {})
        again = await router.resume(first.run_id)
        last = await router.route("Do it.", steps=STEPS[:2], run_key="k")

    assert (same.replayed, same.text, same.status) == (True, first.text, "partial")
    assert again.text.startswith("All 2 results taken together")
    assert (last.replayed, last.text, last.status) == (True, again.text, "succeeded")


async def test_a_stopped_run_without_a_key_goes_on_by_its_id(bench: Make) -> None:
    """Two of its calls were cut off: they are tried again, once each, and stay possibly billed."""
    made = bench()
    async with made.router as router:
        run_id = await stopped_run(made, router)
        result = await router.resume(run_id)

    assert [step.status for step in result.steps] == ["succeeded"] * 3
    assert len(made.requests) == 2 + 3
    assert sorted(call.attempts for call in result.calls) == [1, 2, 2]
    assert result.cost.possibly_billed_usd > 0


async def test_a_planned_run_is_resumed_with_the_plan_that_was_made(bench: Make) -> None:
    five = "Name the capital of each:\n" + "\n".join(f"{number}. land {number}" for number in range(1, 6))
    made = bench({"deepseek-v3.2": Fault(match="land 4", status=400)})
    async with made.router as router:
        first = await router.route(five, configuration="hybrid", plan="always")
        await asyncio.to_thread(made.set_faults, {})
        sent = len(made.requests)
        again = await router.resume(first.run_id)

    assert (first.status, again.status) == ("partial", "succeeded")
    assert len(made.requests) - sent == 2  # one worker, and a merge of five results
    assert [step.step_id for step in again.steps] == [f"t{number}" for number in range(1, 6)]


async def test_a_run_goes_on_with_the_models_of_its_beginning(bench: Make, tmp_path: Path) -> None:
    """`early` was cheap until an hour ago, when the run began two hours ago; now `late` is. What was paid stays found.

    Each is dear, 9 USD per Mtok, while the other is cheap, at 1.
    """
    turn = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    cheap_first = (("early", "1", "9"), ("late", "9", "1"))
    rows = [
        {"model": model, "input": amount, "output": amount, "source": "us", "checked": date(2026, 11, 1), **when}
        for model, before, after in cheap_first
        for amount, when in ((before, {"effective_to": turn}), (after, {"effective_from": turn}))
    ]
    made = bench(prices={"prices": rows}, endpoint={"price_list": "custom"})
    async with made.router as router:
        run_id = await stopped_run(made, router, candidates=("early", "late"))
        assert {each.model for each in made.requests} == {"late"}
        began_us = int((turn - timedelta(hours=1)).timestamp()) * 1_000_000
        with sqlite3.connect(tmp_path / "ledger.db") as database:
            database.execute("UPDATE runs SET started_us = ?", (began_us,))
        sent = len(made.requests)
        result = await router.resume(run_id)

    assert result.status == "succeeded"
    assert {each.model for each in made.requests[sent:]} == {"early"}
    outputs = sum(each.output_tokens + each.input_tokens for each in made.requests[sent:])
    assert (
        result.cost.settled_usd == Decimal(9) * outputs / 10**6
    )  # decided by the prices of then, paid by those of now


async def test_a_budget_that_stopped_a_run_can_be_raised(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        with pytest.raises(RunFailed) as caught:
            await router.route("Do it.", budget_usd="0.0000001", **ANYWHERE)
        assert caught.value.run_id is not None
        result = await router.resume(caught.value.run_id, budget_usd=Decimal(1))

    assert result.status == "succeeded"
    with made.ledger() as ledger:
        assert ledger.run_reader.state(result.run_id).sums.attempts == 3


async def test_what_cannot_be_resumed_says_why(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        single = await router.route("hello")
        keyed = await router.route("hello", run_key="k")
        with pytest.raises(WrongUsage, match=f"run {single.run_id}: its task is not kept"):
            await router.resume(single.run_id)
        with pytest.raises(WrongUsage, match=f"is not in this ledger; did you mean .*{keyed.run_id}") as caught:
            await router.resume(keyed.run_id[:-4])
        assert caught.value.hint == "router runs list shows the last ones"
        with pytest.raises(WrongUsage, match=r"run: 'nonsense' is not in this ledger$"):
            await router.resume("nonsense")
        assert (await router.resume(keyed.run_id)).text == keyed.text

    assert len(made.requests) == 2


async def test_a_run_that_is_going_is_nobody_else_s(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=400)})
    async with made.router as router, Router(made.router.settings, environ={}) as other:
        running = asyncio.create_task(router.route("Do it.", **ANYWHERE))
        await until(lambda: len(made.requests) == 2)
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest(("running",))
        with pytest.raises(RunHeld, match=f"run {state.row.started.run_id} is going, held by "):
            await other.resume(state.row.started.run_id)
        result = await running

    assert result.status == "succeeded"
    assert len(made.requests) == 3


async def test_who_lost_the_lease_cannot_end_the_run(bench: Make) -> None:
    """Somebody else takes the run while its process is suspended: what that one writes of its end is refused."""
    made = bench({"*": Fault(latency_ms=300)})
    async with made.router as router, made.ledger() as ledger:
        running = asyncio.create_task(router.route("Do it.", **ANYWHERE))
        await until(lambda: len(made.requests) == 2)
        (state,) = ledger.run_reader.newest(("running",))
        late_us = now_us() + 2 * LEASE_S * 1_000_000
        claim = await ledger.take_run(state.row.started.run_id, "elsewhere", late_us, late_us + 1)
        assert claim is not None
        assert claim.kind == "resumed"
        renewed = await ledger.renew_leases([claim.run_id], owner_id(), late_us)
        assert renewed == frozenset()
        with pytest.raises(LedgerError, match="another process's now"):
            await running


async def test_a_cancel_stops_a_run_within_seconds(bench: Make) -> None:
    made = bench({"*": Fault(hang=True)})
    async with made.router as router:
        running = asyncio.create_task(router.route("Do it.", **ANYWHERE))
        await until(lambda: len(made.requests) == 2)
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest(("running",))
            run_id = state.row.started.run_id
            assert await asyncio.to_thread(cancel_run, ledger, run_id) == "asked"
            async with asyncio.timeout(10):
                with pytest.raises(RunStopped, match=f"run {run_id}: somebody has cancelled it") as caught:
                    await running
            assert not running.cancelled()
            ended = ledger.run_reader.state(run_id)
            assert (ended.row.ended.status, ended.row.ended.error) == ("stopped", "cancelled")
            assert ended.sums.possibly_billed == 2
            assert await asyncio.to_thread(cancel_run, ledger, run_id) == "over"
        assert caught.value.hint == f"router runs resume {run_id}"
        await asyncio.to_thread(made.set_faults, {})
        assert (await router.resume(run_id)).status == "succeeded"


async def test_a_plain_call_can_be_cancelled_too(bench: Make) -> None:
    made = bench({"*": Fault(hang=True)})
    async with made.router as router:
        running = asyncio.create_task(router.route("hello"))
        await until(lambda: len(made.requests) == 1)
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest(("running",))
            assert await asyncio.to_thread(cancel_run, ledger, state.row.started.run_id) == "asked"
        with pytest.raises(RunStopped) as caught:
            await running
    assert caught.value.hint is None  # its task is not kept


async def test_a_cancel_from_outside_stays_a_cancel(bench: Make) -> None:
    made = bench({"*": Fault(hang=True)})
    async with made.router as router:
        running = asyncio.create_task(router.route("Do it.", **ANYWHERE))
        await until(lambda: len(made.requests) == 2)
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


async def test_a_dead_owner_s_run_is_ended_by_whoever_cancels_it(bench: Make) -> None:
    made = bench()
    await made.router.aclose()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")
    await child.wait()
    owner = f"{owner_id().rpartition('/')[0]}/{child.pid}"
    run_id, at_us = new_id(), now_us()
    with made.ledger() as ledger:
        await ledger.write(RunStarted(run_id, "x", "1", at_us, owner=owner, lease_until_us=at_us + 30_000_000))
        assert await asyncio.to_thread(cancel_run, ledger, run_id) == "ended"
        state = ledger.run_reader.state(run_id)
        assert state is not None
        assert state.row.ended is not None
        assert state.row.ended.status == "stopped"


async def test_a_heartbeat_renews_what_is_its_own_and_lets_go_of_the_rest(bench: Make) -> None:
    made = bench()
    await made.router.aclose()
    with made.ledger() as ledger:
        at_us = now_us()
        soon_us = at_us + 5_000_000
        mine, other = (
            RunStarted(new_id(), "x", "1", at_us, owner=owner, lease_until_us=soon_us)
            for owner in (owner_id(), "other")
        )
        await ledger.write(mine, other)
        heart = Heartbeat(ledger, beat_s=0.05)
        leases = {each.run_id: Lease(soon_us) for each in (mine, other)}
        pulses = [heart.begin(run_id, lease, soon_us) for run_id, lease in leases.items()]
        await until(lambda: leases[other.run_id].is_over() and leases[mine.run_id].until_us != soon_us)
        for pulse in pulses:
            heart.end(pulse)
        row = ledger.reader.run(mine.run_id)
        await heart.aclose()

    assert row is not None
    until_us = row.started.lease_until_us
    assert until_us is not None
    assert until_us == leases[mine.run_id].until_us
    assert until_us > at_us + (LEASE_S - 5) * 1_000_000


async def test_tasks_are_kept_for_good_where_prompts_are(bench: Make) -> None:
    made = bench(store_prompts=True)
    async with made.router as router:
        result: Result = await router.route("Do it.", **ANYWHERE)
    with made.ledger() as ledger:
        await ledger.write(RunStarted(later := new_id(), "x", "1", now_us()), RunEnded(later, "failed", now_us()))
        await _prune_in_a_year(ledger)
        assert ledger.run_reader.request(result.run_id) is not None
        assert len(ledger.run_reader.step_texts(result.run_id)) == 3


async def _prune_in_a_year(ledger: Ledger) -> None:
    await ledger.prune(now_us() + 365 * 86_400 * 1_000_000)


async def test_on_postgresql_runs_are_resumed_and_cancelled_alike(bench: Make, postgres_ledger_url: str) -> None:
    made = bench({"*": Fault(match="boom", status=400)})
    await made.router.aclose()
    settings = settings_for(made.server.base_url, postgres_ledger_url)
    async with Router(settings, environ={}) as router:
        first = await router.route("Do it.", **ANYWHERE)
        await asyncio.to_thread(made.set_faults, {})
        again = await router.resume(first.run_id)
        third = await router.resume(first.run_id)
        await asyncio.to_thread(made.set_faults, {"*": {"hang": True}})
        running = asyncio.create_task(router.route("Do it.", **ANYWHERE))
        await until(lambda: len(made.requests) == 6)
        with open_ledger(postgres_ledger_url) as ledger:
            (state,) = await asyncio.to_thread(ledger.run_reader.newest, ("running",))
            assert await asyncio.to_thread(cancel_run, ledger, state.row.started.run_id) == "asked"
            with pytest.raises(RunStopped):
                await running
            ended = await asyncio.to_thread(ledger.run_reader.state, state.row.started.run_id)

    assert (first.status, again.status) == ("partial", "succeeded")
    assert third.steps == again.steps
    assert ended is not None
    assert ended.sums.possibly_billed == 2
    assert ended.is_kept
