"""Many workers at once: answers by step, bounds kept, what hangs run again, nothing twice, and in the end a summary."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from router.endpoints.sandbox import Fault, LogEntry
from router.errors import BudgetExceeded, RunFailed, WrongUsage
from router.progress import RunProgress
from router.result import Result

Make = Callable[..., Any]
CHEAP = "deepseek-v3.2"


def steps_of(count: int, prompt: str = "describe town {}", **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"s{number}", "prompt": prompt.format(number), **more} for number in range(count)]


def most_at_once(requests: Iterable[LogEntry]) -> int:
    """Return how many requests were at the server together, at most."""
    events = []
    for each in requests:
        begun = datetime.fromisoformat(each.received).timestamp()
        events += [(begun, 1), (begun + (each.seconds or 3600.0), -1)]
    at_once = most = 0
    for _, change in sorted(events):
        at_once += change
        most = max(most, at_once)
    return most


def statuses(result: Result) -> dict[str, str]:
    return {step.step_id: step.status for step in result.steps}


async def test_s7_a_hundred_workers_of_which_three_fail(bench: Make) -> None:
    """97 answers and 3 reasons; never more than 50 at once."""
    failing = [Fault(match=f"town {number}.", status=400) for number in (7, 42, 99)]
    made = bench(
        {"*": [*failing, Fault(latency_ms=600)]}, swarm={"concurrency": 50}, endpoint={"first_concurrency": 64}
    )
    async with made.router as router:
        result = await router.route(
            "Describe them.", steps=steps_of(100, "describe town {}."), merge=False, configuration="hybrid"
        )

    assert (result.status, result.text, result.messages) == ("partial", "", ())
    assert [step.step_id for step in result.steps] == [f"s{number}" for number in range(100)]
    answers = {step.step_id: step.text for step in result.steps if step.status == "succeeded"}
    assert len(answers) == 97
    assert all(answers.values())
    reasons = {step.step_id: step.error for step in result.steps if step.status == "failed"}
    assert reasons.keys() == {"s7", "s42", "s99"}
    assert all("400" in (reason or "") for reason in reasons.values())
    assert len(made.requests) == 100
    assert 20 <= most_at_once(made.requests) <= 50


async def test_an_answer_goes_to_those_that_depend_on_it_and_to_nobody_else(bench: Make) -> None:
    made = bench()
    steps = [
        {"id": "a", "prompt": "describe rivers"},
        {"id": "b", "prompt": "describe mountains"},
        {"id": "c", "prompt": "compare them", "depends_on": ["a", "b"]},
        {"id": "d", "prompt": "shorten it", "depends_on": ["c"]},
    ]
    async with made.router as router:
        result = await router.route("Do it.", steps=steps, merge=False)
        text = {step.step_id: step.text for step in result.steps}
        by_hand = [
            ("c", f"Result of a:\n{text['a']}\n\nResult of b:\n{text['b']}\n\ncompare them"),
            ("d", f"Result of c:\n{text['c']}\n\nshorten it"),
        ]
        for step_id, prompt in by_hand:  # the stand-in server's answer is a function of model and prompt
            alone = await router.route(prompt, plan="never", max_output_tokens=2048)
            assert text[step_id] == alone.text


async def test_steps_are_merged_unless_that_is_not_wanted(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route("Describe them.", steps=steps_of(3), configuration="hybrid")
        estimate = router.estimate("Describe them.", steps=steps_of(3), configuration="hybrid")
        unmerged = router.estimate("Describe them.", steps=steps_of(3), configuration="hybrid", merge=False)

    assert result.text.startswith("All 3 results taken together")
    assert [call.role for call in result.calls] == ["worker"] * 3 + ["orchestrator"]
    assert (estimate.planned, estimate.calls, unmerged.calls) == (True, 4, 3)
    assert estimate.cost is not None
    assert unmerged.cost is not None
    assert estimate.cost.expected_usd > unmerged.cost.expected_usd > 0


async def test_a_step_s_own_limit_and_extras_are_sent(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(
            "Do it.",
            steps=[*steps_of(1, max_output_tokens=5), {"id": "free", "prompt": "write a long story"}],
            merge=False,
        )

    short, free = result.steps
    assert len(short.text) <= 5 * 8 < len(free.text)
    assert result.calls[0].usage is not None
    assert result.calls[0].usage.output_tokens <= 5


async def test_steps_that_are_no_graph_open_nothing(bench: Make) -> None:
    made = bench()
    with pytest.raises(WrongUsage, match="steps: step id 's0' is used twice"):
        await made.router.route("x", steps=[*steps_of(1), *steps_of(1)])
    await made.router.aclose()
    assert made.requests == ()


async def test_what_depends_on_a_failed_step_is_not_run_and_says_why(bench: Make) -> None:
    made = bench({"*": [Fault(match="boom", status=400)]})
    steps = [
        {"id": "bad", "prompt": "boom"},
        {"id": "next", "prompt": "x", "depends_on": ["bad"]},
        {"id": "last", "prompt": "y", "depends_on": ["next"]},
        {"id": "good", "prompt": "z"},
    ]
    async with made.router as router:
        result = await router.route("x", steps=steps, merge=False)

    reasons = {step.step_id: step.error for step in result.steps}
    assert reasons["next"] == "not run: bad, which it depends on, failed"
    assert reasons["last"] == "not run: next, which it depends on, failed"
    assert reasons["good"] is None
    assert len(made.requests) == 2
    with made.ledger() as ledger:
        recorded = {step.step_id: (step.status, error) for step, error in ledger.run_reader.steps(result.run_id)}
    assert recorded == {step.step_id: (step.status, step.error) for step in result.steps}


async def test_s14_only_what_hung_is_run_again_and_with_less_concurrency(bench: Make) -> None:
    """Of 9 steps 6 hang once: they alone are run again, 9 · 1/3 = 3 at once, and what waited for one of them after."""
    hung = [Fault(match=f"town {number}.", hang=True, first=1) for number in range(6)]
    calm = [Fault(match=f"town {number}.", latency_ms=150) for number in range(6)]
    made = bench(
        {"*": [*hung, Fault(latency_ms=10)]},
        swarm={"concurrency": 9, "step_timeout_s": 1.5},
        endpoint={"first_concurrency": 64},
    )
    steps = [*steps_of(9, "describe town {}."), {"id": "end", "prompt": "the end", "depends_on": ["s0", "s8"]}]
    running = asyncio.create_task(made.router.route("x", steps=steps, merge=False))
    await until(lambda: len(made.requests) >= 9)
    await asyncio.to_thread(made.set_faults, {"*": [each.model_dump() for each in calm]})
    result = await running
    await made.router.aclose()

    assert set(statuses(result).values()) == {"succeeded"}
    again = made.requests[9:]
    assert len(again) == 7
    assert most_at_once(again) == 3
    assert [call.status for call in result.calls] == ["succeeded"] * 10
    assert sorted(call.attempts for call in result.calls) == [1] * 4 + [2] * 6
    assert result.cost.possibly_billed_usd > 0


async def test_w2_a_worker_that_falls_silent_is_cut_off_and_dispatched_again(bench: Make) -> None:
    """It streams three pieces and stalls: cut off after 0.5 s without a token, long before its time-out."""
    made = bench({"*": Fault(match="town 1.", stall_after=3, first=1)}, swarm={"idle_timeout_s": 0.5})
    begun = time.monotonic()
    async with made.router as router:
        result = await router.route("x", steps=steps_of(3, "describe town {}."), merge=False)
    with made.ledger() as ledger:
        rows = [row for row in ledger.reader.attempts(result.run_id) if row.started.step_id == "s1"]

    assert time.monotonic() - begun < 20
    assert set(statuses(result).values()) == {"succeeded"}
    assert len(made.requests) == 4
    ends = [(row.ended.status, row.ended.error_kind) for row in rows if row.ended]
    assert ends == [("timed_out", "idle"), ("succeeded", None)]
    assert [row.started.number for row in rows] == [1, 2]  # of one call
    assert len({row.started.call_key for row in rows}) == 1
    assert result.cost.possibly_billed_usd > 0 or rows[0].ended.usage_estimated


async def test_hung_steps_are_given_up_after_the_passes_that_are_set(bench: Make) -> None:
    made = bench({"*": Fault(match="town 0", hang=True)}, swarm={"step_timeout_s": 0.5, "redispatch": 0})
    async with made.router as router:
        result = await router.route("x", steps=steps_of(2), merge=False)

    assert statuses(result) == {"s0": "timed_out", "s1": "succeeded"}
    assert len(made.requests) == 2


async def test_what_is_not_done_in_the_run_s_time_is_stopped_and_the_rest_kept(bench: Make) -> None:
    """One at a time, 0.25 s each, 0.9 s in all: some succeed, one is cut off, the others and the merge never begin."""
    made = bench(
        {"*": Fault(latency_ms=250)}, swarm={"concurrency": 1, "run_timeout_s": 0.9}, endpoint={"concurrency": 4}
    )
    begun = time.monotonic()
    async with made.router as router:
        result = await router.route("x", steps=steps_of(12))

    assert time.monotonic() - begun < 6
    found = [step.status for step in result.steps]
    assert found == sorted(found)  # succeeded before timed_out
    assert 1 <= found.count("succeeded") <= 3
    assert len(made.requests) <= 5
    assert result.status == "partial"
    assert result.text.startswith("[s0]")
    assert result.steps[-1].error == "not run: the run's 0.9 s were over"
    assert any("merging failed: the run's 0.9 s were over" in warning for warning in result.warnings)


async def test_law_twenty_calls_at_once_never_cross_a_budget(bench: Make) -> None:
    """12,490 output tokens at 8 µ$ and some input hold just under 0.10 USD: ten of twenty fit into 1 USD.

    Their bills are unknown, so that what is held stays held.
    """
    made = bench({"*": Fault(drop=True)}, swarm={"concurrency": 20}, retry={"attempts": 1})
    async with made.router as router:
        with pytest.raises(RunFailed, match="none of 20 steps succeeded"):
            await router.route(
                "x",
                steps=steps_of(20, max_output_tokens=12_490, extra={"max_tokens": 12_490}),
                merge=False,
                budget_usd=1,
            )

    assert len(made.requests) == 10
    with made.ledger() as ledger:
        (state,) = ledger.run_reader.newest()
    assert Decimal("0.99") < state.sums.possibly_billed_usd <= 1


async def test_a_budget_below_the_first_call_sends_nothing(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        with pytest.raises(RunFailed, match="none of 2 steps succeeded; the first: not run: budget: "):
            await router.route("x", steps=steps_of(2), merge=False, budget_usd="0.0000001")
        with pytest.raises(BudgetExceeded):
            await router.route("x", steps=steps_of(2), budget_usd="0.0000001")

    assert made.requests == ()


async def test_who_watches_sees_every_step_and_the_money(bench: Make) -> None:
    made = bench({"*": [Fault(match="town 3", status=400), Fault(latency_ms=20)]}, swarm={"concurrency": 2})
    seen: list[RunProgress] = []
    async with made.router as router:
        result = await router.route("x", steps=steps_of(6), merge=False, budget_usd=5, watch=seen.append)

    last = seen[-1]
    assert (last.status, last.steps, last.done, last.failed, last.running) == ("partial", 6, 5, 1, 0)
    assert (last.calls, last.retries, last.run_id) == (6, 0, result.run_id)
    assert last.spent_usd == result.cost.settled_usd > 0
    assert last.budget_usd == 5
    assert max(now.running for now in seen) == 2
    assert max(now.reserved_usd for now in seen) > 0
    assert all(now.waiting >= 0 and now.done + now.failed + now.running + now.waiting == 6 for now in seen)
    assert seen[0].gate_limits.keys() == {"sandbox"}


async def test_what_running_calls_hold_is_seen_without_a_budget_too(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=20)}, swarm={"concurrency": 2})
    seen: list[RunProgress] = []
    async with made.router as router:
        await router.route("x", steps=steps_of(4), merge=False, watch=seen.append)

    assert {now.budget_usd for now in seen} == {None}
    assert max(now.reserved_usd for now in seen) > 0
    assert seen[-1].reserved_usd == 0


async def test_a_watcher_that_fails_breaks_nothing(bench: Make) -> None:
    made = bench()

    def watch(_: RunProgress) -> None:
        raise ZeroDivisionError

    async with made.router as router:
        result = await router.route("x", steps=steps_of(2), merge=False, watch=watch)

    assert result.status == "succeeded"
    assert "the watcher of its progress failed: ZeroDivisionError" in result.warnings


async def until(is_so: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait until something is so, looking often."""
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("bounds", "streamed"), [({}, True), ({"idle_timeout_s": 0}, False), ({"step_timeout_s": 10}, False)]
)
async def test_workers_are_streamed_only_where_silence_is_seen_earlier_for_it(
    bench: Make, bounds: dict[str, Any], *, streamed: bool
) -> None:
    made = bench(swarm=bounds)
    async with made.router as router:
        result = await router.route("x", steps=steps_of(2), merge=False)

    assert set(statuses(result).values()) == {"succeeded"}
    assert [each.streamed for each in made.requests] == [streamed] * 2
