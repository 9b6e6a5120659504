"""A run's own topic, and `router topics` and `router state` on it: what agents have told one another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.endpoints.sandbox import Fault
from router.ledger import Ledger
from router.messages import Board, Draft

STEPS = [
    {"id": "a", "prompt": "describe rivers"},
    {"id": "b", "prompt": "describe boom"},
    {"id": "c", "prompt": "compare", "depends_on": ["b"]},
]
BROKEN = {"*": Fault(match="boom", status=400)}
Router = Callable[..., tuple[int, str, str]]


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Router) -> Router:
    """Return a function that runs the command line in a folder of its own, on the bench's ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", f"sqlite:///{tmp_path}/ledger.db")
    return command_line


def ends(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Return what a run says of its steps, the last word of each."""
    return {row.headers["step_id"]: json.loads(row.body) for row in ledger.messages.ordinary(f"run/{run_id}", 0, 100)}


async def test_each_step_s_end_is_on_the_run_s_topic_with_where_its_answer_is(bench: Callable[..., Any]) -> None:
    made = bench(BROKEN)
    async with made.router as router:
        result = await router.route("Do.", steps=STEPS, merge=False)
        board = await router.board()
        said = ends(board.ledger, result.run_id)
        assert {name: each["status"] for name, each in said.items()} == {"a": "succeeded", "b": "failed", "c": "failed"}
        assert said["c"]["error"] == "not run: b, which it depends on, failed"
        answer = await board.ledger.find_answer(said["a"]["call_key"])
        assert answer is not None
        assert answer.message["content"] == result.steps[0].text
        assert "rivers" not in json.dumps(said["a"])  # a text is on record once
        # What failed is tried again and succeeds; what had succeeded is not said again.
        made.set_faults({})
        again = await router.resume(result.run_id)
        assert again.status == "succeeded"
        rows = board.ledger.messages.ordinary(f"run/{result.run_id}", 0, 100)
        assert sorted((row.headers["step_id"], row.headers["status"]) for row in rows) == [
            ("a", "succeeded"),
            ("b", "failed"),
            ("b", "succeeded"),
            ("c", "failed"),
            ("c", "succeeded"),
        ]


async def test_another_process_may_follow_a_run_while_it_goes_on(bench: Callable[..., Any]) -> None:
    made = bench({"*": Fault(match="slow", latency_ms=300)})
    steps = [{"id": "fast", "prompt": "x"}, {"id": "slow", "prompt": "slow", "depends_on": ["fast"]}]
    seen: list[str] = []

    def watch(progress: Any) -> None:
        seen.append(progress.run_id)

    async with made.router as router, Board(made.database) as board:
        running = asyncio.create_task(router.route("Do.", steps=steps, merge=False, watch=watch))
        async with asyncio.timeout(20):
            while not seen:
                await asyncio.sleep(0.005)
            async for message in board.subscribe(f"run/{seen[0]}"):
                assert (message.body["step_id"], running.done()) == ("fast", False)
                break
            await running


def test_a_run_s_topic_by_hand(bench: Callable[..., Any], router: Router) -> None:
    made = bench(BROKEN)

    async def run() -> str:
        async with made.router as opened:
            return str((await opened.route("Do.", steps=STEPS, merge=False)).run_id)

    run_id = asyncio.run(run())
    code, out, _ = router("topics", "list", "--runs")
    assert (code, f"run/{run_id}" in out) == (0, True)
    assert router("topics", "list")[1].splitlines()[-1].split() == ["topics:", "0"]
    code, out, _ = router("topics", "show", f"run/{run_id}", "--format", "json")
    assert code == 0
    assert [row["seq"] for row in json.loads(out)["tables"]["messages"]["rows"]] == [1, 2, 3]
    code, out, err = router("topics", "show", f"run/{run_id}", "--follow", "--last", "2", "--format", "json")
    assert (code, err) == (0, "")  # the run has ended, and so does this
    lines = [json.loads(line) for line in out.splitlines()]
    assert [each["seq"] for each in lines] == [2, 3]
    assert {each["body"]["status"] for each in lines} <= {"succeeded", "failed"}


def test_topics_and_state_by_hand(router: Router, tmp_path: Path) -> None:
    async def speak() -> None:
        async with Board(f"sqlite:///{tmp_path}/ledger.db") as board:
            await board.publish_many([Draft("orders", {"n": number}, sender="shop") for number in range(3)])
            async with board.subscribe("orders", "billing") as subscription:
                await subscription.ack(*await subscription.take(2))
            await board.state.put("position", [1, 2])
            await board.state.snapshot("start")

    asyncio.run(speak())
    code, out, _ = router("topics", "show", "orders", "--last", "1")
    assert code == 0
    shown = [line.split() for line in out.splitlines() if line.lstrip().startswith(("3 ", "billing"))]
    assert [(line[0], *line[-2:]) for line in shown] == [("3", "shop", '{"n":2}'), ("billing", "2", "1")]
    code, _, err = router("topics", "show", "oders")
    assert (code, err.splitlines()) == (
        2,
        ["error: topic: 'oders' does not exist; did you mean orders?", "hint: router topics list shows those that do"],
    )
    code, out, _ = router("state", "show", "--format", "json")
    assert code == 0
    tables = json.loads(out)["tables"]
    assert [(row["key"], row["version"], row["value"]) for row in tables["state"]["rows"]] == [("position", 1, "[1,2]")]
    assert [(row["name"], row["keys"]) for row in tables["snapshots"]["rows"]] == [("start", 1)]
    code, _, err = router("state", "show", "share")
    assert (code, err.splitlines()[0]) == (2, "error: namespace: 'share' does not exist; did you mean shared?")
    code, out, err = router("topics", "prune", "--before", "2200-01-01", "--topic", "orders")
    assert (code, out) == (0, "messages deleted: 3\nof topics: 1\n")
    assert err == "note: 1 of them had not been acknowledged by every subscriber\n"
    assert router("topics", "prune", "--before", "2200-01-01", "--topic", "oders")[0] == 2
