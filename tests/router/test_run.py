"""Tasks through a real server into a real ledger: answers, receipts, retries, streams, budgets, run keys."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import router as public
from router.calls import retry_wait_s
from router.endpoints.sandbox import Fault
from router.errors import BudgetExceeded, CallFailed, EndpointError, NoEndpoint, RunFailed, RunHeld, WrongUsage
from router.ledger import open_ledger
from router.ledger.records import AttemptRow
from router.result import Result
from router.settings import RetrySettings
from router.task import Task

Make = Callable[..., Any]
FIVE = "Name the capital of each:\n" + "\n".join(f"{number}. land {number}" for number in range(1, 6))


def attempts_of(bench: Any, result_or_id: Result | str) -> tuple[AttemptRow, ...]:
    run_id = result_or_id if isinstance(result_or_id, str) else result_or_id.run_id
    with bench.ledger() as ledger:
        rows: tuple[AttemptRow, ...] = ledger.reader.attempts(run_id)
        return rows


def all_attempts(bench: Any) -> tuple[AttemptRow, ...]:
    with bench.ledger() as ledger:
        runs = ledger.reader.runs(0, 2**62)
        return tuple(row for run in runs for row in ledger.reader.attempts(run.started.run_id))


async def test_one_task_is_one_request_one_row_and_its_exact_cost(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route("What is the capital of Portugal?")

    (request,) = made.requests
    (row,) = attempts_of(made, result)
    assert result.text
    assert row.ended is not None
    assert row.ended.usage == result.usage
    assert (result.usage.input_tokens, result.usage.output_tokens) == (request.input_tokens, request.output_tokens)
    by_hand = (Decimal(request.input_tokens) * 2 + Decimal(request.output_tokens) * 8) / 10**6  # gpt-4.1: 2 and 8
    assert result.cost.settled_usd == by_hand
    assert row.ended.list_cost is not None
    assert row.ended.list_cost.value == by_hand
    assert (result.cost.exact, result.cost.unknown) == (1, 0)


async def test_a_swarm_plans_works_and_merges(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(FIVE, configuration="hybrid", plan="always")

    assert result.plan is not None
    assert len(result.plan.steps) == 5
    assert [call.role for call in result.calls] == ["orchestrator", *["worker"] * 5, "orchestrator"]
    assert {call.model_served for call in result.calls if call.role == "worker"} == {"deepseek-v3.2"}
    assert len(made.requests) == 7 == len(attempts_of(made, result))
    with made.ledger() as ledger:
        assert [step.status for step in ledger.reader.steps(result.run_id)] == ["succeeded"] * 5
        run = ledger.reader.run(result.run_id)
    assert run is not None
    assert run.ended is not None
    assert run.ended.status == "succeeded"


async def test_the_total_is_the_sum_of_the_server_s_own_counts(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(FIVE, configuration="hybrid", plan="always")

    rates = {"kimi-k2": ("0.60", "0.15", "2.50"), "deepseek-v3.2": ("0.28", "0.028", "0.42")}
    total = Decimal(0)
    for entry in made.requests:
        fresh, cached, out = (Decimal(rate) for rate in rates[entry.model])
        uncached = entry.input_tokens - entry.cached_tokens
        total += (uncached * fresh + entry.cached_tokens * cached + entry.output_tokens * out) / 10**6
    assert result.cost.list_cost == (("USD", total),)


async def test_w1_hung_workers_are_marked_and_the_others_merged(bench: Make) -> None:
    hung = [Fault(match=f"part {number}", hang=True) for number in (2, 3, 4)]
    made = bench({"deepseek-v3.2": hung}, swarm={"step_timeout_s": 1.5})
    task = "Do:\n" + "\n".join(f"- part {number}" for number in range(1, 6))
    async with made.router as router:
        begun = time.monotonic()
        result = await router.route(task, configuration="hybrid", plan="always")

    assert time.monotonic() - begun < 20
    assert result.status == "partial"
    assert sorted(step.status for step in result.steps) == ["succeeded"] * 2 + ["timed_out"] * 3
    statuses = [call.status for call in result.calls if call.role == "worker"]
    assert sorted(statuses) == ["succeeded"] * 2 + ["timed_out"] * 3
    assert sorted(call.attempts for call in result.calls if call.role == "worker") == [1, 1, 2, 2, 2]  # run once more
    rows = [row for row in attempts_of(made, result) if row.started.role == "worker"]
    hanging = [row.ended for row in rows if row.ended and row.ended.status == "timed_out"]
    assert len(hanging) == 6
    assert all(ended.possibly_billed and ended.list_cost is None for ended in hanging)
    assert result.cost.possibly_billed_usd > 0


async def test_a_run_without_any_result_fails_with_the_first_reason(bench: Make) -> None:
    made = bench({"deepseek-v3.2": Fault(status=400)})
    async with made.router as router:
        with pytest.raises(RunFailed, match="none of 5 steps succeeded"):
            await router.route(FIVE, configuration="hybrid", plan="always")


async def test_429_is_retried_after_the_wait_it_asks_for(bench: Make) -> None:
    made = bench({"*": Fault(status=429, first=2, retry_after_s=0.2)})
    async with made.router as router:
        begun = time.monotonic()
        result = await router.route("hello")

    assert time.monotonic() - begun >= 0.4
    assert [entry.status for entry in made.requests] == [429, 429, 200]
    rows = attempts_of(made, result)
    assert [(row.started.number, row.ended.status if row.ended else None) for row in rows] == [
        (1, "failed"),
        (2, "failed"),
        (3, "succeeded"),
    ]
    assert result.calls[0].attempts == 3
    assert result.cost.unknown == 0  # a refused request is known to cost nothing


async def test_always_429_ends_after_the_attempts_that_are_allowed(bench: Make) -> None:
    made = bench({"*": Fault(status=429)}, retry={"attempts": 3, "base_s": 0.01, "max_s": 0.02})
    async with made.router as router:
        with pytest.raises(CallFailed, match="429"):
            await router.route("hello")

    assert len(made.requests) == 3


async def test_a_wait_that_is_too_long_is_not_waited_for_and_the_message_says_so(bench: Make) -> None:
    made = bench({"*": Fault(status=429, retry_after_s=3600)})
    async with made.router as router:
        with pytest.raises(
            CallFailed, match=r"HTTP 429.*; not tried again: it asks for a wait of 3,600 s, and .* is 60"
        ):
            await router.route("hello")

    assert len(made.requests) == 1


async def test_a_refusal_after_the_last_attempt_says_nothing_of_its_wait(bench: Make) -> None:
    made = bench({"*": Fault(status=429, retry_after_s=3600)}, retry={"attempts": 1})
    async with made.router as router:
        with pytest.raises(CallFailed, match="HTTP 429") as caught:
            await router.route("hello")

    assert "not tried again" not in str(caught.value)


async def test_a_call_that_the_end_of_the_run_cuts_off_names_the_run_s_time(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=3000)}, swarm={"run_timeout_s": 0.3})
    async with made.router as router:
        with pytest.raises(CallFailed, match="did not finish before the run's time-out") as caught:
            await router.route("hello")

    assert caught.value.hint == "raise [swarm] run_timeout_s, or lower the concurrency"


async def test_a_dropped_connection_is_on_record_and_tried_once_more(bench: Make) -> None:
    made = bench({"*": Fault(drop=True)})
    async with made.router as router:
        with pytest.raises(CallFailed):
            await router.route("hello")

    assert len(made.requests) == 2
    assert [row.ended.possibly_billed for row in all_attempts(made) if row.ended] == [True, True]


@pytest.mark.parametrize("upstream_id", [None, "", "always-the-same"])
async def test_r5_forty_answers_are_forty_rows(bench: Make, upstream_id: str | None) -> None:
    made = bench({"*": Fault(upstream_id=upstream_id)})
    async with made.router as router:
        await asyncio.gather(*(router.route(f"task {number}") for number in range(40)))

    assert len(all_attempts(made)) == 40 == len(made.requests)


async def test_r7_a_consumer_who_stops_leaves_one_estimated_row(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        flow = router.stream("Write a long story about a receipt.")
        pieces = 0
        async for event in flow:
            assert isinstance(event, str)
            pieces += 1
            if pieces == 6:
                break
        await flow.aclose()

    (row,) = all_attempts(made)
    assert row.ended is not None
    assert (row.ended.status, row.ended.cost_status, row.ended.usage_estimated) == ("stopped", "estimated", True)
    assert row.ended.usage is not None
    assert row.ended.usage.output_tokens > 0
    assert row.ended.list_cost is not None
    assert row.ended.list_cost.value > 0


async def test_r7_also_where_the_consumer_just_breaks_off(bench: Make) -> None:
    made = bench()

    async def leave() -> None:
        async for _ in made.router.stream("Write a long story about a receipt."):
            break

    await leave()
    for _ in range(100):
        await asyncio.sleep(0.02)
        if (rows := all_attempts(made)) and rows[0].ended:
            break
    await made.router.aclose()
    (row,) = all_attempts(made)
    assert row.ended is not None
    assert row.ended.status == "stopped"


async def test_r8_another_model_served_sets_the_price_and_warns(bench: Make) -> None:
    made = bench({"gpt-4o": Fault(served_model="gpt-4o-mini")})
    async with made.router as router:
        result = await router.route("hello", candidates=("gpt-4o",))

    (call,) = result.calls
    (request,) = made.requests
    by_hand = (Decimal(request.input_tokens) * 15 + Decimal(request.output_tokens) * 60) / 10**8  # 0.15 and 0.60
    assert (call.model_asked, call.model_served) == ("gpt-4o", "gpt-4o-mini")
    assert result.cost.settled_usd == by_hand
    assert result.warnings == ("asked for gpt-4o, sandbox served gpt-4o-mini",)


async def test_r9_a_cut_stream_is_an_error_to_the_caller(bench: Make) -> None:
    made = bench({"*": Fault(cut_after=3)})
    got: list[str] = []
    async with made.router as router:
        with pytest.raises(CallFailed, match="end"):
            async for event in router.stream("Write a long story about a receipt."):
                assert isinstance(event, str)
                got.append(event)

    assert got
    assert len(made.requests) == 1  # text was handed on, so it is not sent again
    (row,) = all_attempts(made)
    assert row.ended is not None
    assert (row.ended.status, row.ended.error_kind, row.ended.possibly_billed) == ("failed", "cut", True)


async def test_a_stream_yields_its_text_then_the_result(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        events = [event async for event in router.stream("Write two sentences about rain.")]

    *texts, result = events
    assert isinstance(result, Result)
    assert "".join(str(text) for text in texts) == result.text
    assert len(texts) > 3


async def test_missing_usage_is_unknown_never_zero(bench: Make) -> None:
    made = bench({"*": Fault(omit_usage=True)})
    async with made.router as router:
        result = await router.route("hello")

    (row,) = attempts_of(made, result)
    assert row.ended is not None
    assert (row.ended.usage, row.ended.list_cost, row.ended.cost_status) == (None, None, "unknown")
    assert result.cost.unknown == 1


async def test_a_budget_stops_before_money_is_spent(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        with pytest.raises(BudgetExceeded, match="budget: the next call may cost"):
            await router.route("hello", budget_usd="0.000001")

    assert made.requests == ()
    with made.ledger() as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
    assert run.ended is not None
    assert run.ended.status == "stopped"


async def test_a_broken_plan_is_repaired_and_a_cut_one_asked_again(bench: Make) -> None:
    made = bench({"kimi-k2": Fault(bad_plan="truncated", first=1)})
    async with made.router as router:
        result = await router.route(FIVE, configuration="hybrid", plan="always")

    assert result.plan is not None
    assert len(result.plan.steps) == 5
    assert sum(call.role == "orchestrator" for call in result.calls) == 3  # plan, plan again, merge


async def test_a_run_key_is_never_paid_twice(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        first = await router.route("hello", run_key="k")
        again = await router.route("hello", run_key="k")
        with pytest.raises(WrongUsage, match="another task or configuration"):
            await router.route("something else", run_key="k")

    assert len(made.requests) == 1
    assert (again.text, again.run_id, again.replayed) == (first.text, first.run_id, True)


async def test_two_at_once_with_one_run_key_call_once(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=300)})
    async with made.router as router:
        results = await asyncio.gather(*(router.route("hello", run_key="k") for _ in range(2)), return_exceptions=True)

    assert len(made.requests) == 1
    assert {type(each) for each in results} == {Result, RunHeld}


KILLED = """
import asyncio, sys
from router.client import Router
sys.path.insert(0, {tests!r})
from conftest import settings_for
async def main():
    async with Router(settings_for({url!r}, {database!r}), environ={{}}) as router:
        await router.route({task!r}, configuration="hybrid", plan="always", run_key="k")
asyncio.run(main())
"""


async def test_a_killed_run_resumes_without_paying_twice(bench: Make) -> None:
    made = bench({"deepseek-v3.2": [Fault(match="land 4", latency_ms=60_000), Fault(latency_ms=20)]})
    code = KILLED.format(tests=str(Path(__file__).parent), url=made.server.base_url, database=made.database, task=FIVE)
    child = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", code])
    try:
        for _ in range(600):
            await asyncio.sleep(0.05)
            if sum(entry.status == 200 for entry in made.requests) >= 5:
                break
        await asyncio.sleep(0.3)
    finally:
        child.kill()
        await asyncio.to_thread(child.wait)
    before = list(made.requests)
    await asyncio.to_thread(made.set_faults, {})
    async with made.router as router:
        result = await router.route(FIVE, configuration="hybrid", plan="always", run_key="k")

    again = made.requests[len(before) :]
    assert len(before) == 6  # the plan and five workers, one of them in flight
    assert len(again) == 2  # that worker and the merge
    assert sorted(call.attempts for call in result.calls) == [1, 1, 1, 1, 1, 1, 2]
    assert any("possibly billed before the interruption" in warning for warning in result.warnings)


def test_the_sync_call_works_inside_a_running_loop_too(
    bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench()
    config = tmp_path / "router.toml"
    config.write_text(
        f'default_configuration = "all-gpt-4.1"\n[database]\nurl = "{made.database}"\n'
        f'[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\nprice_list = "vendor"\n'
    )
    monkeypatch.setenv("ROUTER_CONFIG", str(config))
    outside = public.route("hello")

    async def inside() -> Result:
        return public.route("hello again")

    async def native() -> list[Any]:
        streamed = [event async for event in public.astream("hello once more")]
        return [await public.aroute("and again"), streamed[-1]]

    results = [outside, asyncio.run(inside()), *asyncio.run(native())]
    assert all(isinstance(each, Result) and each.text for each in results)
    assert len(made.requests) == 4
    assert public.decide("hello").chosen.endpoint == "sandbox"
    assert public.estimate("hello").calls == 1


def test_without_any_key_the_message_names_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoEndpoint, match="no endpoint is set") as caught:
        asyncio.run(public.aroute("hello"))

    assert "OPENAI_API_KEY" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("error", "number", "billed", "wait"),
    [
        (EndpointError("rate_limited", "429", retry_after_s=2), 1, 0, 2.0),
        (EndpointError("rate_limited", "429"), 1, 0, 0.25),
        (EndpointError("rate_limited", "429"), 3, 0, 1.0),
        (EndpointError("rate_limited", "429"), 4, 0, None),
        (EndpointError("rate_limited", "429", retry_after_s=61), 1, 0, None),
        (EndpointError("unauthorized", "401"), 1, 0, None),
        (EndpointError("rejected", "400"), 1, 0, None),
        (EndpointError("dropped", "…", possibly_billed=True), 1, 0, 0.25),
        (EndpointError("dropped", "…", possibly_billed=True), 2, 1, None),
    ],
)
def test_the_wait_before_a_retry(error: EndpointError, number: int, billed: int, wait: float | None) -> None:
    """Base 0.5 s doubles each time; half of it where the dice say 0.5; four attempts in all."""
    assert retry_wait_s(error, number, billed, RetrySettings(), 0.5) == wait


async def test_a_thousand_calls_are_a_thousand_rows(bench: Make) -> None:
    made = bench(endpoint={"concurrency": 64})
    async with made.router as router:
        await asyncio.gather(*(router.route(f"task {number}", plan="never") for number in range(1000)))

    assert len(made.requests) == 1000
    with open_ledger(made.database) as ledger:
        (group,) = ledger.reader.usage_groups(0, 2**62)
    assert group.sums["attempts"] == 1000


def test_a_task_is_checked_when_it_is_made() -> None:
    with pytest.raises(WrongUsage, match="task: the text is empty"):
        Task.of("  ")
    with pytest.raises(WrongUsage, match="budget_usd is '-1'"):
        Task.of("x", budget_usd="-1")
    with pytest.raises(WrongUsage, match="nonsense"):
        Task.of("x", nonsense=1)
    with pytest.raises(WrongUsage, match="role 'robot'"):
        Task.of([{"role": "robot", "content": "x"}])
