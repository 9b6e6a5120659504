"""Whole runs with tools: a call, and the steps of a plan, each with the tools that it may use and no others."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from router.endpoints.sandbox import Fault
from router.errors import RunFailed, WrongUsage
from tests.tools.conftest import PLAIN, Shop, talking

Make = Callable[..., Awaitable[Shop]]


def call(name: str, text: str) -> str:
    """Return the words that make the stand-in server call a tool."""
    return f'Call tool {name} with {{"text": "{text}"}}'


async def test_a_single_task_is_answered_with_what_its_tools_gave(shop: Make) -> None:
    made = await shop()
    async with talking(made) as talk:
        result = await talk.router.route(call("plain__echo", "hello"), mcp_tools=["plain__echo"])
        again = await talk.router.resume(result.run_id)

    assert "plain: hello" in result.text
    assert [message["role"] for message in result.messages] == ["assistant", "tool", "assistant"]
    assert len(result.calls) == 2
    assert made.calls() == [{"server": "plain", "tool": "echo", "arguments": {"text": "hello"}}]
    assert (again.replayed, again.text) == (True, result.text)


async def test_each_step_has_the_tools_of_its_own(shop: Make) -> None:
    made = await shop()
    steps = [
        {"id": "with", "prompt": call("plain__echo", "one"), "mcp_tools": ["plain__echo"]},
        {"id": "without", "prompt": call("plain__echo", "two")},
        {"id": "after", "prompt": "sum up", "depends_on": ["with"]},
    ]
    async with talking(made) as talk:
        result = await talk.router.route("x", steps=steps, merge=False)

    answers = {step.step_id: step.text for step in result.steps}
    assert "plain: one" in answers["with"]
    assert "plain: two" not in answers["without"]
    assert [each["arguments"]["text"] for each in made.calls()] == ["one"]


async def test_a_tool_that_is_not_allowed_is_said_before_anything_is_sent(shop: Make) -> None:
    made = await shop({"plain": {"allow": ["add"]}})
    steps = [{"id": "a", "prompt": "x", "mcp_tools": ["plain__echo"]}]
    async with talking(made) as talk:
        with pytest.raises(WrongUsage, match="mcp_tools: plain__echo is not allowed"):
            await talk.router.route("x", steps=steps)
        with pytest.raises(WrongUsage, match="tool server"):
            await talk.router.route("x", mcp_tools=["nobody__echo"])

    assert talk.sandbox.log == ()


async def test_a_server_that_does_not_start_fails_its_step_alone(shop: Make) -> None:
    absent: dict[str, Any] = {"command": "/no/such/program", "allow": ["*"]}
    made = await shop({"plain": {}, "absent": absent}, approved=False)
    await made.approve(["plain"])
    steps = [
        {"id": "good", "prompt": call("plain__echo", "one"), "mcp_tools": ["plain__*"]},
        {"id": "bad", "prompt": "x", "mcp_tools": ["absent__echo"]},
    ]
    async with talking(made) as talk:
        result = await talk.router.route("x", steps=steps, merge=False)

    good, bad = result.steps
    assert "plain: one" in good.text
    assert bad.status == "failed"
    assert bad.error is not None
    assert bad.error.startswith("not run: tool server absent")


async def test_a_step_s_time_covers_the_start_of_its_server_and_its_model(shop: Make) -> None:
    """Of 3 s the server's start takes 2: a model that hangs is cut off 1 s later, and not after 3 s of its own."""
    slowly = f"import time, runpy, sys; time.sleep(2); sys.argv = {[str(PLAIN), 'FOLDER', 'slow']!r}; "
    made = await shop({"slow": {}})
    server = made.settings.tools.servers["slow"]
    code = slowly.replace("FOLDER", server.args[3]) + f"runpy.run_path({str(PLAIN)!r}, run_name='__main__')"
    slow = server.model_copy(update={"args": ("-I", "-S", "-c", code)})
    tools = made.settings.tools.model_copy(update={"servers": {"slow": slow}})
    swarm = made.settings.swarm.model_copy(update={"step_timeout_s": 3.0, "idle_timeout_s": 0.0, "redispatch": 0})
    late = replace(made, settings=made.settings.model_copy(update={"tools": tools, "swarm": swarm}))
    async with talking(late) as talk:
        talk.sandbox.set_faults({"*": Fault(hang=True)})
        began_s = time.monotonic()
        with pytest.raises(RunFailed, match="did not finish before the step's time-out"):
            await talk.router.route("x", steps=[{"id": "a", "prompt": "x", "mcp_tools": ["slow__echo"]}], merge=False)
        took_s = time.monotonic() - began_s

    assert len(talk.sandbox.log) == 1
    assert 3 <= took_s < 4.5
