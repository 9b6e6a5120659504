"""Tool calls that a prompt orders of the stand-in server."""

from __future__ import annotations

import json
from typing import Any

from router.endpoints.sandbox.answers import answer
from router.endpoints.sandbox.calling import ordered_calls, read_turn, told_by_tools
from router.endpoints.sandbox.prompts import read_prompt

TOOLS = [{"type": "function", "function": {"name": "s__echo", "parameters": {"type": "object"}}}]
ORDERS = """Please:
Call tool s__echo with {"n": 1}
- Call tool s__gone with {broken
Then call tool s__echo with {"n": 2}
3. Then call tool s__echo with {"n": 3}
"""


def body(text: str = ORDERS, *later: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}, *later], "tools": TOOLS, **more}


def asked(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["function"]["name"], each["function"]["arguments"]) for each in ordered_calls(request)]


def after(request: dict[str, Any], *results: str) -> dict[str, Any]:
    """Return the request with the calls it asks for, and these results."""
    calls = list(ordered_calls(request))
    told = [{"role": "tool", "content": text} for text in results]
    return {**request, "messages": [*request["messages"], {"role": "assistant", "tool_calls": calls}, *told]}


def test_orders_are_called_turn_by_turn_then_told() -> None:
    first = body()
    assert asked(first) == [("s__echo", '{"n": 1}'), ("s__gone", "{broken")]
    second = after(first, "one", "no such tool")
    assert asked(second) == [("s__echo", '{"n": 2}')]
    third = after(second, "two")
    assert asked(third) == [("s__echo", '{"n": 3}')]
    last = after(third, "three")
    assert asked(last) == []
    said = answer("m", last, read_prompt(last))
    assert (said.text, said.finish_reason) == ("The tools say:\none\nno such tool\ntwo\nthree", "stop")


def test_ids_are_the_same_each_time_and_differ_within_a_turn() -> None:
    twice = body("Call tool s__echo with {}\nCall tool s__echo with {}")
    ids = [call["id"] for call in ordered_calls(twice)]
    assert len(set(ids)) == 2
    assert [call["id"] for call in ordered_calls(json.loads(json.dumps(twice)))] == ids


def test_no_tool_is_called_where_none_may_be() -> None:
    assert asked(body(tool_choice="none")) == []
    assert asked({key: value for key, value in body().items() if key != "tools"}) == []
    assert asked(body("call tool s__echo with {}")) == []
    assert told_by_tools(body()) is None


def test_always_is_each_time() -> None:
    request = body('Always call tool s__echo with {"x": 1}')
    for _ in range(3):
        assert asked(request) == [("s__echo", '{"x": 1}')]
        request = after(request, "y")
    assert read_turn(request).answers == 3


def test_a_new_message_of_the_user_begins_a_new_turn() -> None:
    request = after(body("Call tool s__echo with {}"), "old")
    later = {**request, "messages": [*request["messages"], {"role": "user", "content": "Thanks."}]}
    assert asked(later) == []
    assert told_by_tools(later) is None
