"""Plans on real HTTP: chains of roles, their prompts and models; what the steps of an orchestrator may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from router import Plan, Result, Router
from router.endpoints.sandbox import Fault, Sandbox, SandboxThread
from router.endpoints.sandbox.answers import PLAN_MARK
from router.errors import RunFailed
from tests.router.conftest import settings_for

EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"
QUESTION = "Which heat pump suits an old house with radiators?"
CHAIN = Plan.chain(
    {"role": "search", "candidates": ["deepseek-v3.2"]},
    {"role": "analysis", "candidates": ["kimi-k2"]},
    {"role": "report", "candidates": ["gpt-4.1"]},
)


class Server(Sandbox):
    """The stand-in server, with every body that it was sent; its first plans are scripted."""

    def __init__(self, *plans: str) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self._plans = list(plans)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.bodies.append(body)
        if not self._plans or PLAN_MARK not in str(body["messages"][0]["content"]):
            return await super()._complete(request)
        message = {"role": "assistant", "content": self._plans.pop(0)}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "x", "model": body["model"], "choices": [choice], "usage": usage})

    def asked(self) -> list[str]:
        """Return the user's last words in each body."""
        return [str(body["messages"][-1]["content"]) for body in self.bodies]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as started:
        yield started


def router_on(server: Server, folder: Path, **more: Any) -> Router:
    return Router(settings_for(server.base_url, f"sqlite:///{folder / 'ledger.db'}", **more), environ={})


async def test_s19_each_role_sees_the_task_and_all_earlier_results(server: Server, tmp_path: Path) -> None:
    async with router_on(server, tmp_path) as router:
        result = await router.route(QUESTION, plan=CHAIN)

    search, analysis, report = (step.text for step in result.steps)
    words = [step.prompt for step in CHAIN.steps]
    assert server.asked() == [
        f"Task:\n{QUESTION}\n\n{words[0]}",
        f"Task:\n{QUESTION}\n\nResult of search:\n{search}\n\n{words[1]}",
        f"Task:\n{QUESTION}\n\nResult of search:\n{search}\n\nResult of analysis:\n{analysis}\n\n{words[2]}",
    ]
    assert [body["model"] for body in server.bodies] == ["deepseek-v3.2", "kimi-k2", "gpt-4.1"]
    assert (result.text, result.messages) == (report, ({"role": "assistant", "content": report},))
    assert (result.status, len(result.calls)) == ("succeeded", 3)


async def test_s19_prompts_between_agents_stay_under_1500_tokens(server: Server, tmp_path: Path) -> None:
    """Two answers of 1,400 of its tokens each are handed on; one is four characters to the server, and 3.7 to us."""
    said = "The heat pump takes 21 units in and gives 65 units out. " * 100
    echo = {"prompt": f"Reply with exactly this:\n{said}", "max_output_tokens": 3000, "max_input_tokens": 4000}
    chain = Plan.chain({"id": "search", **echo}, {"id": "analysis", **echo}, "review", "report")
    async with router_on(server, tmp_path) as router:
        result = await router.route(QUESTION, plan=chain)

    assert [len(step.text) for step in result.steps[:2]] == [len(said)] * 2
    review, report = server.log[2:]
    assert 1000 < review.input_tokens < 1500
    assert 1000 < report.input_tokens < 1500
    assert all(text.startswith(f"Task:\n{QUESTION}\n\nResult of search:\nThe heat") for text in server.asked()[2:])
    assert all("Result of analysis:\nThe heat" in text for text in server.asked()[2:])


async def test_a_chain_is_replayed_and_streamed_with_its_answer(server: Server, tmp_path: Path) -> None:
    async with router_on(server, tmp_path) as router:
        first = await router.route(QUESTION, plan=CHAIN, run_key="k")
        again = await router.route(QUESTION, plan=CHAIN, run_key="k")
        streamed = [event async for event in router.stream(QUESTION, plan=CHAIN)]

    assert (again.replayed, again.text, len(server.bodies)) == (True, first.text, 6)
    assert streamed[:-1] == [first.text]
    assert isinstance(streamed[-1], Result)


async def test_a_last_role_that_fails_leaves_what_was_found_and_no_answer(server: Server, tmp_path: Path) -> None:
    server.set_faults({"gpt-4.1": Fault(status=400)})
    async with router_on(server, tmp_path) as router:
        result = await router.route(QUESTION, plan=CHAIN)
        server.set_faults({})
        again = await router.resume(result.run_id)

    assert (result.status, result.text, result.messages) == ("partial", "", ())
    assert [step.status for step in result.steps] == ["succeeded", "succeeded", "failed"]
    assert (again.status, again.text) == ("succeeded", again.steps[2].text)
    assert [body["model"] for body in server.bodies] == ["deepseek-v3.2", "kimi-k2", "gpt-4.1", "gpt-4.1"]


async def test_a_first_role_that_fails_is_an_error(server: Server, tmp_path: Path) -> None:
    server.set_faults({"deepseek-v3.2": Fault(status=400)})
    async with router_on(server, tmp_path) as router:
        with pytest.raises(RunFailed, match="none of 3 steps succeeded; the first: endpoint sandbox"):
            await router.route(QUESTION, plan=CHAIN)


async def test_the_last_role_alone_answers_in_json(server: Server, tmp_path: Path) -> None:
    async with router_on(server, tmp_path) as router:
        result = await router.route(QUESTION, plan=CHAIN, json_output=True)

    assert [body.get("response_format") for body in server.bodies] == [None, None, {"type": "json_object"}]
    assert list(json.loads(result.text)) == ["answer"]


def test_the_sizes_that_steps_state_are_what_is_estimated(tmp_path: Path) -> None:
    """gpt-4.1 is 2.00 and 8.00 USD per Mtok: 1,000 × 2.00 + 100 × 8.00 = 2,800; the second reads 500 and writes 100."""
    sizes = {"candidates": ("gpt-4.1",), "expected_output_tokens": 100}
    plan = Plan.graph(
        {
            "a": {"prompt": "x", "expected_input_tokens": 1000, **sizes},
            "b": {"prompt": "y", "expected_input_tokens": 500, "depends_on": ["a"], **sizes},
        },
        merge=False,
    )
    router = Router(settings_for("http://127.0.0.1:9/v1", f"sqlite:///{tmp_path / 'ledger.db'}"), environ={})
    cost = router.estimate("x", plan=plan).cost

    assert cost is not None
    assert (cost.low_usd, cost.expected_usd, cost.high_usd) == (Decimal("0.0046"),) * 3


CLOCK, MAP = ({"type": "function", "function": {"name": name, "parameters": {}}} for name in ("clock", "map"))


def told(**fields: Any) -> str:
    return json.dumps({"tasks": [{"id": "a", "prompt": "do a", **fields}, {"id": "b", "prompt": "do b"}], "n_tasks": 2})


async def test_an_orchestrator_s_step_has_the_tools_it_names_and_an_unknown_one_is_asked_again(tmp_path: Path) -> None:
    scripted = Server(told(tools=["watch"]), told(tools=["clock"], output_tokens=60, weight=2))
    async with scripted as server, router_on(server, tmp_path) as router:
        result = await router.route("Do it.", plan="always", tools=(CLOCK, MAP))

    assert result.plan is not None
    assert [(step.tools, step.expected_output_tokens, step.quality_weight) for step in result.plan.steps] == [
        (("clock",), 60, 2.0),
        (None, None, 1.0),
    ]
    tools = {body["messages"][-1]["content"]: body.get("tools") for body in server.bodies}
    assert (tools["do a"], tools["do b"]) == ([CLOCK], [CLOCK, MAP])
    assert "There are tools: clock, map." in server.bodies[0]["messages"][0]["content"]
    assert len(server.bodies) == 5  # two plans, two steps, one merge


def test_the_example_of_a_chain_runs_against_the_stand_in_server(tmp_path: Path) -> None:
    with SandboxThread(Sandbox()) as server:
        toml = (EXAMPLES / "sandbox.toml").read_text(encoding="utf-8")
        (tmp_path / "router.toml").write_text(toml.replace("http://127.0.0.1:8080/v1", server.base_url))
        ended = subprocess.run(
            [sys.executable, EXAMPLES / "chain.py", QUESTION],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        log = server.log

    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout) > 100
    said = [line.partition(":")[0] for line in ended.stderr.splitlines()]
    assert said == ["expected", "search", "analysis", "report", "cost"]
    assert [entry.model for entry in log] == ["deepseek-v3.2", "deepseek-v3.2", "kimi-k2"]
    assert max(entry.input_tokens for entry in log) < 1500
