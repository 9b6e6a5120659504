"""What must hold whatever goes wrong: no run or attempt left open, no money twice, no storm, no silence."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.attempts import Lease, now_us
from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import BudgetExceeded, CallFailed, RouterError, RunFailed, RunHeld, WrongUsage
from router.holding import is_gone, owner_id
from router.ledger.records import RunEnded
from router.result import Result
from router.task import Task

Make = Callable[..., Any]
FOUR = "Do:\n" + "\n".join(f"- part {number}" for number in range(1, 5))


def open_rows(bench: Any) -> list[str]:
    """Return what is not ended in the ledger."""
    with bench.ledger() as ledger:
        runs = ledger.reader.runs(0, 2**62)
        attempts = [row for run in runs for row in ledger.reader.attempts(run.started.run_id)]
    return [f"run {run.started.run_id}" for run in runs if run.ended is None] + [
        f"attempt {row.started.attempt_id}" for row in attempts if row.ended is None
    ]


@pytest.mark.parametrize("options", [{}, {"run_key": "k"}, {"plan": "always"}], ids=["one call", "run key", "swarm"])
async def test_law_a_cancelled_run_leaves_nothing_open(bench: Make, options: dict[str, Any]) -> None:
    """Cancelled at many points of its course, a run and all its attempts are ended in the ledger."""
    made = bench({"*": Fault(latency_ms=15)})
    async with made.router as router:
        await router.route("warm up")
        for number in range(25):
            own = {**options, "run_key": f"k{number}"} if "run_key" in options else options
            running = asyncio.create_task(router.route(f"{number} {FOUR}", **own))
            await asyncio.sleep(number * 0.004)
            running.cancel()
            await asyncio.wait([running])

    assert open_rows(made) == []


async def test_w3_a_storm_is_held_back_by_all_together(bench: Make) -> None:
    """Five at once are allowed, fifty come: none fails, and the refusals stay few."""
    made = bench({"*": Fault(max_in_flight=5, retry_after_s=0.3, latency_ms=30)}, endpoint={"concurrency": 64})
    async with made.router as router:
        results = await asyncio.gather(*(router.route(f"task {number}") for number in range(50)))

    assert len(results) == 50
    assert sum(entry.status == 429 for entry in made.requests) <= 10


async def test_a_resumed_run_counts_what_was_spent_before(bench: Make) -> None:
    made = bench({"*": Fault(drop=True)})
    async with made.router as router:
        with pytest.raises(CallFailed):
            await router.route("hello", run_key="k", budget_usd="0.01", max_output_tokens=500)
        held = sum(
            (row.started.reserved_usd or Decimal(0) for row in _rows(made)), Decimal(0)
        )  # both attempts may have been billed
        made.set_faults({})
        with pytest.raises(BudgetExceeded, match="is left"):
            await router.route("hello", run_key="k", budget_usd="0.01", max_output_tokens=500)

    assert held == pytest.approx(Decimal("0.008"), abs=Decimal("0.001"))  # 2 · 500 tokens · 8 µ$
    assert len(made.requests) == 2


def _rows(bench: Any) -> list[Any]:
    with bench.ledger() as ledger:
        runs = ledger.reader.runs(0, 2**62)
        return [row for run in runs for row in ledger.reader.attempts(run.started.run_id)]


async def test_a_process_that_lost_its_run_cannot_end_it(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=400)})
    async with made.router as router:
        running = asyncio.create_task(router.route("hello", run_key="k"))
        while not made.requests:
            await asyncio.sleep(0.02)
        with made.ledger() as ledger:
            (run,) = ledger.reader.runs(0, 2**62)
            with pytest.raises(RouterError, match="another process's now"):
                await ledger.write(RunEnded(run.started.run_id, "failed", now_us(), "late", "elsewhere/1"))
        result = await running

    assert isinstance(result, Result)
    assert open_rows(made) == []


def test_a_lease_that_is_over_ends_the_sending() -> None:
    assert not Lease().is_over()
    assert not Lease(now_us() + 10**7).is_over()
    assert Lease(now_us() - 1).is_over()


def test_a_dead_process_is_told_from_a_live_one() -> None:
    here = owner_id().rpartition("/")[0]
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()

    assert is_gone(f"{here}/{child.pid}")
    assert not is_gone(owner_id())
    assert not is_gone(f"elsewhere/{child.pid}")


async def test_a_failed_run_names_itself_and_what_it_paid(bench: Make) -> None:
    made = bench({"deepseek-v3.2": Fault(status=400)})
    async with made.router as router:
        with pytest.raises(RunFailed) as caught:
            await router.route(FOUR, configuration="hybrid", plan="always")

    assert caught.value.run_id is not None
    assert len(caught.value.calls) == 5  # the plan, which was paid, and four refused workers


async def test_a_merge_that_fails_hands_the_results_on(bench: Make) -> None:
    made = bench({"kimi-k2": Fault(match="Merge the results below", status=400)})
    async with made.router as router:
        result = await router.route(FOUR, configuration="hybrid", plan="always")

    assert result.status == "partial"
    assert "[t1]" in result.text
    assert any("merging failed" in warning for warning in result.warnings)
    assert open_rows(made) == []


async def test_one_broken_answer_does_not_break_the_swarm(bench: Make) -> None:
    made = bench({"deepseek-v3.2": Fault(match="part 2", malformed=True)})
    async with made.router as router:
        result = await router.route(FOUR, configuration="hybrid", plan="always")

    assert [call.status for call in result.calls if call.role == "worker"].count("failed") == 1
    assert result.status == "partial"


async def test_an_answer_that_the_budget_cuts_says_so(bench: Make) -> None:
    """0.0002 $ pay for some 20 tokens at 8 µ$; a story wants more."""
    made = bench()
    async with made.router as router:
        result = await router.route(
            "Write a very long story.", budget_usd="0.0002", expected_output_tokens=10, expected_input_tokens=10
        )

    assert result.finish_reason == "length"
    assert any("what the budget can pay for" in warning for warning in result.warnings)
    assert result.cost.settled_usd <= Decimal("0.0002")


async def test_a_latency_objective_without_records_is_said(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route("hello", latency_objective_s=1)

    assert any("no latency is on record" in warning for warning in result.warnings)


async def test_explain_shows_what_run_does(bench: Make) -> None:
    made = bench(default_configuration="by_class")
    items = "Write a poem about each:\n" + "\n".join(f"- city {number}" for number in range(30))
    async with made.router as router:
        shown = router.decide(items)
        result = await router.route(items)

    assert result.decision.chosen.model == shown.chosen.model
    assert result.decision.chosen.output_tokens == shown.chosen.output_tokens


async def test_a_list_of_material_is_not_a_list_of_tasks(bench: Make) -> None:
    router = bench().router
    items = "\n".join(f"- change number {number}" for number in range(2000))
    found = router.estimate(f"Summarize this changelog in one line:\n{items}", configuration="hybrid")

    assert not found.planned
    assert found.cost is not None
    assert found.cost.expected_usd < Decimal("0.05")
    await router.aclose()


async def test_an_endpoint_whose_client_is_missing_breaks_no_other(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench()
    settings = made.router.settings.model_copy(
        update={
            "endpoints": {
                **made.router.settings.endpoints,
                "anthropic": type(made.router.settings.endpoints["sandbox"])(kind="litellm", key_env="X_API_KEY"),
            }
        }
    )
    monkeypatch.setattr("router.client._has_litellm", lambda: False)
    async with Router(settings, environ={"X_API_KEY": "set"}) as router:
        assert "anthropic" not in router.usable_endpoints
        assert (await router.route("hello")).text


async def test_a_router_on_a_second_loop_says_so(bench: Make) -> None:
    made = bench()
    await made.router.route("hello")

    def elsewhere() -> None:
        asyncio.run(made.router.route("hello"))

    with pytest.raises(WrongUsage, match="another event loop"):
        await asyncio.to_thread(elsewhere)
    await made.router.aclose()


def nested(levels: int) -> Any:
    """Return lists within one another, so many."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("work", [None, 5, ["a"], {"role": "user"}, "a\ud800b"])
def test_what_is_no_task_is_said_in_one_line(work: Any) -> None:
    with pytest.raises(WrongUsage, match="task: "):
        Task.of(work)
    with pytest.raises(WrongUsage, match="extra cannot be sent as JSON"):
        Task.of("x", extra={"a": object()})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"steps": [{"id": "a", "prompt": "x", "extra": {"top_p": math.nan}}]}, "steps cannot be sent as JSON"),
        ({"steps": [{"id": "a", "prompt": "x", "extra": {"stop": object()}}]}, "steps cannot be sent as JSON"),
        ({"steps": [{"id": "a", "prompt": "x", "mcp_tools": ["a__\ud800"]}]}, "steps holds half of a surrogate pair"),
        ({"steps": [{"id": "a", "prompt": "x\ud800"}]}, "steps.0.prompt is"),
        ({"steps": [{"id": "a", "prompt": "x", "extra": {"a": nested(98)}}]}, "steps cannot .* nested too deeply; 100"),
        ({"extra": {"a": nested(100)}}, "extra cannot be sent as JSON: it is nested too deeply; 100 levels"),
        (
            {"max_output_tokens": 10**9 + 1},
            "max_output_tokens is 1000000001; Input should be less",
        ),  # a database has 2⁶³
        ({"expected_input_tokens": 10**20}, "expected_input_tokens is 1000.*; Input should be less"),
        ({"expected_output_tokens": 10**20}, "expected_output_tokens is 1000.*; Input should be less"),
        ({"steps": [{"id": "a", "prompt": "x", "max_output_tokens": 10**20}]}, "steps.0.max_output_tokens is 1000"),
        ({"latency_objective_s": math.inf}, "latency_objective_s is inf; Input should be a finite number"),
        ({"shared": "x\ud800"}, "shared is"),
        ({"tenant": "x\ud800"}, "tenant holds half of a surrogate pair"),
        ({"tags": {"team": "x\ud800"}}, "tags holds half of a surrogate pair"),
    ],
)
def test_no_part_of_a_task_holds_what_json_cannot_carry(fields: dict[str, Any], said: str) -> None:
    """A run's task is kept as JSON, so the parts that no request carries are looked at, too."""
    with pytest.raises(WrongUsage, match=f"^task: {said}"):
        Task.of("x", **fields)


FORKED = """
import os, sys
import router
router.route("before the fork")
child = os.fork()
if child == 0:
    print(len(router.route("after the fork").text) > 0, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_child_can_route_too(bench: Make, tmp_path: Path) -> None:
    made = bench()
    config = tmp_path / "router.toml"
    config.write_text(
        f'default_configuration = "all-gpt-4.1"\n[database]\nurl = "{made.database}"\n'
        f'[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\nprice_list = "vendor"\n'
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        env={**os.environ, "ROUTER_CONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.stdout == "True\n", ended.stderr
    assert len(made.requests) == 2


def test_ctrl_c_in_a_sync_call_stops_it(bench: Make, tmp_path: Path) -> None:
    made = bench({"*": Fault(hang=True)})
    config = tmp_path / "router.toml"
    config.write_text(
        f'default_configuration = "all-gpt-4.1"\n[database]\nurl = "{made.database}"\n'
        f'[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\nprice_list = "vendor"\n'
    )
    child = subprocess.Popen(
        [sys.executable, "-c", "import router\ntry: router.route('x')\nexcept KeyboardInterrupt: print('stopped')"],
        env={**os.environ, "ROUTER_CONFIG": str(config)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not made.requests and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(2)
    out, err = child.communicate(timeout=30)

    assert (out, err) == ("stopped\n", "")
    assert open_rows(made) == []


async def test_two_holders_of_one_key_never_both_send(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=200)})
    async with made.router as router, Router(made.router.settings, environ={}) as other:
        results = await asyncio.gather(
            router.route("hello", run_key="k"), other.route("hello", run_key="k"), return_exceptions=True
        )

    assert {type(each) for each in results} == {Result, RunHeld}
    assert len(made.requests) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"max_output_tokens": True},
        {"expected_output_tokens": False},
        {"quality_floor": True},
        {"latency_objective_s": True},
        {"steps": [{"id": "a", "prompt": "x", "expected_input_tokens": True}]},
        {"steps": [{"id": "a", "prompt": "x", "quality_weight": True}]},
    ],
)
def test_a_boolean_is_no_number(fields: dict[str, Any]) -> None:
    with pytest.raises(WrongUsage, match=r"^task: \S+ is (True|False); Input should be a number, not a boolean"):
        Task.of("x", **fields)


@pytest.mark.parametrize("fields", [{"configuration": ""}, {"candidates": [""]}, {"tenant": ""}, {"mcp_tools": [""]}])
def test_a_name_that_is_empty_is_none(fields: dict[str, Any]) -> None:
    with pytest.raises(WrongUsage, match=r"^task: \S+ is ''; Input should be a name, not empty"):
        Task.of("x", **fields)
