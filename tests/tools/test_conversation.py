"""A model with tools: asked, called, told, until it stops; counted where it happens, in the servers' own logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from router.calls import call_key
from router.ledger.keys import named_id
from router.ledger.tool_records import ToolCallStarted
from router.tools.kit import Allowance

Make = Callable[..., Awaitable[Any]]
RAW = "[not JSON, though it should be: handed on as it came]"


def soon(seconds: float) -> float:
    """Return the time of the event loop in so many seconds."""
    return asyncio.get_running_loop().time() + seconds


def told(talk: Any, round_: int = -1) -> list[str]:
    """Return the tools' messages that a model was sent."""
    return [message["content"] for message in talk.sandbox.bodies[round_]["messages"] if message["role"] == "tool"]


async def test_a_tool_is_called_and_its_answer_told(talk: Make) -> None:
    made = await talk()
    desk = await made.desk()
    ended = await made.converse('Call tool plain__add with {"a": 2, "b": 40}', "plain__add", desk=desk)

    assert ended.outcome.text == 'The tools say:\n{"sum": 42}'
    assert made.shop.calls() == [{"server": "plain", "tool": "add", "arguments": {"a": 2, "b": 40}}]
    assert [message["role"] for message in ended.messages] == ["assistant", "tool", "assistant"]
    assert (ended.tool_calls, ended.failed, len(made.outcomes)) == (1, 0, 2)
    (row,) = await made.rows(desk)
    assert (row.started.server, row.started.tool, row.started.position, row.started.number) == ("plain", "add", 0, 1)
    assert row.ended is not None
    assert (row.ended.status, row.ended.result_bytes, row.ended.is_raw) == ("succeeded", len('{"sum": 42}'), False)
    assert row.started.argument_bytes == len('{"a": 2, "b": 40}')
    assert row.started.call_key == call_key(desk.run_id, first_spec(made))


def first_spec(made: Any) -> Any:
    """Return the first call as the conversation sends it: it is what the tool call's row points at."""
    body = made.sandbox.bodies[0]
    spec = made.spec(body["messages"][0]["content"], parameters={"tools": body["tools"]})
    return replace(spec, messages=tuple(spec.messages))


async def test_the_model_is_told_the_approved_tools_and_no_others(talk: Make) -> None:
    made = await talk()
    await made.converse("Say something.", "plain__add", "plain__echo")
    (body,) = made.sandbox.bodies
    assert [tool["function"]["name"] for tool in body["tools"]] == ["plain__add", "plain__echo"]
    assert body["tools"][1]["function"]["description"] == "The tool echo of plain."
    assert body["tools"][1]["function"]["parameters"]["required"] == ["text"]


async def test_many_calls_at_once_come_back_in_their_order_and_none_is_mixed_up(talk: Make) -> None:
    made = await talk(("one", "two", "three"))
    names = ("one", "two", "three")
    # The first ones answer last, so that an order of arrival would show.
    wanted = [(names[n % 3], f"item {n}", (29 - n) * 5) for n in range(30)]
    lines = [f'Call tool {name}__echo with {{"text": "{text}", "delay_ms": {delay}}}' for name, text, delay in wanted]
    ended = await made.converse("\n".join(lines), "one__echo", "two__echo", "three__echo")
    assert ended.outcome.text.splitlines()[1:] == [f"{name}: {text}" for name, text, _ in wanted]
    ids = [call["id"] for call in ended.messages[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in ended.messages[1:31]] == ids


async def test_rounds_go_on_until_the_model_stops(talk: Make) -> None:
    made = await talk()
    orders = [
        'Call tool plain__echo with {"text": "first"}',
        'Then call tool plain__echo with {"text": "second"}',
        'Then call tool plain__echo with {"text": "third"}',
    ]
    ended = await made.converse("\n".join(orders))
    assert [call["arguments"]["text"] for call in made.shop.calls()] == ["first", "second", "third"]
    assert ended.outcome.text.splitlines()[1:] == ["plain: first", "plain: second", "plain: third"]
    assert len(made.sandbox.bodies) == 4 == len(made.outcomes)
    assert all(outcome.receipt.attempts == 1 for outcome in made.outcomes)


async def test_a_model_that_never_stops_is_asked_once_without_tools(talk: Make) -> None:
    made = await talk(max_rounds=3)
    ended = await made.converse('Always call tool plain__echo with {"text": "more"}')
    assert len(made.shop.calls()) == 3
    assert len(made.sandbox.bodies) == 4
    assert [body.get("tool_choice") for body in made.sandbox.bodies] == [None, None, None, "none"]
    assert made.sandbox.bodies[3]["tools"] == made.sandbox.bodies[0]["tools"]  # the prefix stays the same
    assert ended.outcome.text.startswith("The tools say:")
    assert "tools were taken away after 3 rounds" in ended.outcome.warnings[-1]


async def test_a_demand_for_tools_is_for_the_first_answer_only(talk: Make) -> None:
    made = await talk()
    choice = {"type": "function", "function": {"name": "plain__echo"}}
    ended = await made.converse("Say hello.", "plain__echo", parameters={"tool_choice": choice})
    assert [body.get("tool_choice") for body in made.sandbox.bodies] == [choice, None]
    assert ended.tool_calls == 1


async def test_the_limit_of_a_run_ends_the_calls(talk: Make) -> None:
    made = await talk()
    orders = "\n".join(f'Call tool plain__echo with {{"text": "{n}"}}' for n in range(5))
    desk = await made.desk()
    ended = await made.converse(orders, allowance=Allowance(2), desk=desk)
    assert len(made.shop.calls()) == 2
    assert (ended.tool_calls, ended.failed) == (5, 3)
    assert sum("[tools] max_calls" in text for text in told(made)) == 3
    rows = await made.rows(desk)
    assert sorted(row.ended.status for row in rows if row.ended) == ["refused"] * 3 + ["succeeded"] * 2
    assert made.sandbox.bodies[-1]["tool_choice"] == "none"


BAD_ARGUMENTS = (
    ('{"a": 1', "not valid JSON"),
    ("a=1", "not valid JSON"),
    ('{"a": NaN, "b": 1}', "NaN is no JSON number"),
    ('{"a": 1e999, "b": 1}', "1e999 is no JSON number"),
    ('{"a": 1, "a": 2, "b": 3}', "'a' is written twice"),
    ("[1, 2]", "the arguments are a list; a JSON object is allowed"),
    ('{"a": 1}', "'b' is a required property"),
    ('{"a": "one", "b": 2}', "a: 'one' is not of type 'integer'"),
    (" ", "the arguments are empty"),
)


async def test_bad_arguments_are_told_to_the_model_and_never_sent(talk: Make) -> None:
    made = await talk()
    desk = await made.desk()
    orders = "\n".join(f"Call tool plain__add with {arguments}" for arguments, _ in BAD_ARGUMENTS)
    ended = await made.converse(orders, desk=desk)
    assert made.shop.calls() == []
    for text, (arguments, said) in zip(told(made), BAD_ARGUMENTS, strict=True):
        assert text.startswith("[tool error] plain__add was not called: "), arguments
        assert said in text
    assert ended.outcome.error is None
    rows = await made.rows(desk)
    assert [row.ended.status for row in rows if row.ended] == ["refused"] * len(BAD_ARGUMENTS)


async def test_a_tool_without_arguments_may_be_called_with_none(talk: Make) -> None:
    made = await talk()
    await made.converse("Call tool plain__picture with ")
    assert told(made) == ["[image image/png, 6 bytes: not shown]"]


async def test_a_name_that_is_made_up_is_told_to_the_model(talk: Make) -> None:
    made = await talk()
    names = ("plain__nope", "delete_everything", "other__echo", "echo")
    orders = "\n".join(f"Call tool {name} with {{}}" for name in names)
    await made.converse(orders, "plain__add", "plain__echo")
    there = "there are: plain__add, plain__echo"
    assert told(made) == [f"[tool error] there is no tool {name!r} here; {there}" for name in names]
    assert made.shop.calls() == []


async def test_a_tool_of_the_server_that_the_step_may_not_use_is_not_called(talk: Make) -> None:
    made = await talk()
    await made.converse('Call tool plain__echo with {"text": "x"}', "plain__add")
    assert told(made) == ["[tool error] there is no tool 'plain__echo' here; there are: plain__add"]
    assert made.shop.calls() == []


async def test_w4_a_tool_that_always_says_429_ends_with_what_there_is(talk: Make) -> None:
    made = await talk()
    items, attempts = 5, made.shop.settings.retry.attempts
    orders = [f'Call tool plain__limited with {{"item": {item}}}' for item in range(items)]
    orders.append('Call tool plain__echo with {"text": "works"}')
    desk = await made.desk()
    ended = await made.converse("\n".join(orders), desk=desk)
    limited = [call for call in made.shop.calls() if call["tool"] == "limited"]
    assert len(limited) == items  # the tool is not declared idempotent: nobody but the model tries it again
    assert len(limited) <= items * attempts
    assert "plain: works" in ended.outcome.text
    assert ended.outcome.text.count("429 Too Many Requests") == items
    assert f"{items} of {items + 1} tool calls failed" in ended.outcome.warnings[-1]


async def test_w4_a_stubborn_model_is_refused_after_as_many_tries_as_are_allowed(talk: Make) -> None:
    made = await talk(max_rounds=6)
    attempts = made.shop.settings.retry.attempts
    desk = await made.desk()
    ended = await made.converse('Always call tool plain__limited with {"item": 1}', desk=desk)
    assert len(made.shop.calls()) == attempts == 4
    assert f"this very call has failed {attempts} times" in told(made)[-1]
    assert len(made.sandbox.bodies) == 7
    assert ended.outcome.error is None


async def test_the_caller_s_own_tools_come_back_and_ours_are_called(talk: Make) -> None:
    made = await talk()
    own = {"type": "function", "function": {"name": "ask_a_person", "parameters": {"type": "object"}}}
    both = 'Call tool plain__echo with {"text": "ours"}\nCall tool ask_a_person with {"question": "ready?"}'
    ended = await made.converse(both, parameters={"tools": [own]})
    assert made.shop.calls() == [{"server": "plain", "tool": "echo", "arguments": {"text": "ours"}}]
    assert made.sandbox.bodies[0]["tools"][0] == own
    last = ended.outcome.message
    assert last is not None
    assert [call["function"]["name"] for call in last["tool_calls"]] == ["ask_a_person"]
    assert ended.messages[-1] == last
    # What is handed back is a conversation that can be gone on with: every tool call but the caller's has its answer.
    called = [call["id"] for message in ended.messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in ended.messages if message["role"] == "tool"]
    assert called == [*answered, last["tool_calls"][0]["id"]]
    assert len(made.sandbox.bodies) == 1


async def test_only_the_caller_s_own_tools_are_passed_through(talk: Make) -> None:
    made = await talk()
    own = {"type": "function", "function": {"name": "ask_a_person", "parameters": {"type": "object"}}}
    ended = await made.converse('Call tool ask_a_person with {"q": 1}', parameters={"tools": [own]})
    assert ended.outcome.finish_reason == "tool_calls"
    assert ended.outcome.message is not None
    assert ended.outcome.message["tool_calls"][0]["function"]["arguments"] == '{"q": 1}'
    assert ended.tool_calls == 0


async def test_a_hung_tool_is_cut_off_and_the_others_are_told(talk: Make) -> None:
    made = await talk({"plain": {"timeout_s": 0.5}})
    desk = await made.desk()
    orders = 'Call tool plain__hang with {}\nCall tool plain__echo with {"text": "quick"}'
    ended = await made.converse(orders, desk=desk)
    hung, quick = told(made)
    assert "did not answer within 0.5 s" in hung
    assert quick == "plain: quick"
    assert ended.outcome.text
    rows = {row.started.tool: row.ended for row in await made.rows(desk)}
    assert rows["hang"] is not None
    assert rows["hang"].status == "timed_out"
    assert 400_000 < rows["hang"].latency_us < 5_000_000


async def test_a_step_s_time_out_covers_model_tools_and_queue(talk: Make) -> None:
    made = await talk()
    desk = await made.desk()
    deadline_s = soon(1)
    ended = await made.converse("Call tool plain__hang with {}", deadline_s=deadline_s, desk=desk)
    assert soon(0) < deadline_s + 10  # the tool's own time-out is 30 s
    assert ended.outcome.error is not None
    assert ended.outcome.error.kind == "timeout"
    assert len(made.sandbox.bodies) == 1  # no time was left to ask the model again


async def test_a_cancelled_caller_leaves_its_rows_complete(talk: Make) -> None:
    made = await talk()
    desk = await made.desk()
    running = asyncio.create_task(made.converse("Call tool plain__hang with {}", desk=desk))
    while not made.shop.calls():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (row,) = await made.rows(desk)
    assert row.ended is not None
    assert (row.ended.status, row.ended.error) == ("stopped", "the caller left")


async def test_a_resumed_run_makes_no_finished_tool_call_again(talk: Make) -> None:
    made = await talk()
    orders = 'Call tool plain__echo with {"text": "once"}\nThen call tool plain__add with {"a": 1, "b": 1}'
    desk = await made.desk(keep_answers=True)
    first = await made.converse(orders, desk=desk)
    again = await made.converse(orders, desk=await made.desk(desk.run_id, keep_answers=True, resumed=True))
    assert again.outcome.text == first.outcome.text
    assert again.messages == first.messages
    assert len(made.shop.calls()) == 2
    assert len(made.sandbox.bodies) == 3
    assert len(await made.rows(desk)) == 2


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_a_tool_call_in_flight_at_a_kill_is_made_again_only_if_it_may_be(
    talk: Make, *, is_idempotent: bool
) -> None:
    made = await talk({"plain": {"idempotent": ["echo"] if is_idempotent else []}})
    order = 'Call tool plain__echo with {"text": "pay"}'
    desk = await made.desk(keep_answers=True)
    await made.converse(order, desk=desk)
    # The same run as a kill would have left it: the model's answer is on record, its tool call was started and no more.
    killed = await made.desk(keep_answers=True)
    answered = first_spec(made)
    key = call_key(killed.run_id, answered)
    known = await desk.ledger.find_answer(call_key(desk.run_id, answered))
    assert known is not None
    await killed.write(replace(known, call_key=key, run_id=killed.run_id))
    await killed.write(
        ToolCallStarted(named_id("tool call", key, 0, 1), killed.run_id, key, 0, "plain", "echo", 1, argument_bytes=15)
    )
    for _ in range(2):
        resumed = await made.desk(killed.run_id, keep_answers=True, resumed=True)
        ended = await made.converse(order, desk=resumed)
        rows = await made.rows(killed)
        if is_idempotent:
            assert ended.outcome.text.endswith("plain: pay")
            assert [(row.started.number, row.ended is not None) for row in rows] == [(1, False), (2, True)]
        else:
            assert "it may have done its work, and it is not made again" in ended.outcome.text
            assert [row.ended for row in rows] == [None]
    assert len(made.shop.calls()) == (2 if is_idempotent else 1)


async def test_an_idempotent_tool_is_tried_once_more_where_the_connection_breaks(talk: Make) -> None:
    made = await talk({"plain": {"idempotent": ["die"]}, "other": {}})
    desk = await made.desk()
    await made.converse(
        "Call tool plain__die with {}\nCall tool other__die with {}", "plain__die", "other__die", desk=desk
    )
    assert (len(made.shop.calls("plain")), len(made.shop.calls("other"))) == (2, 1)
    assert [text.partition(": ")[2] for text in told(made)] == [
        "the connection broke; it may have done its work all the same"
    ] * 2
    rows = await made.rows(desk)
    assert sorted((row.started.server, row.started.number) for row in rows) == [
        ("other", 1),
        ("plain", 1),
        ("plain", 2),
    ]


async def test_a_step_done_again_makes_none_of_its_tool_calls_twice(talk: Make) -> None:
    made = await talk()
    desk, allowance = await made.desk(), made.shop.toolbox.allowance()
    twice = 'Call tool plain__echo with {"text": "x"}'
    order = f"{twice}\n{twice}\nThen call tool plain__hang with {{}}"
    hung = await made.converse(order, desk=desk, allowance=allowance, deadline_s=soon(1.5))
    assert hung.outcome.error is not None
    assert hung.outcome.error.kind == "timeout"
    assert [call["tool"] for call in made.shop.calls()] == ["echo", "echo", "hang"]
    again = await made.converse(order, desk=desk, allowance=allowance, sample=1)
    assert [call["tool"] for call in made.shop.calls()] == ["echo", "echo", "hang"]
    assert "it may have done its work" in again.outcome.text
    assert again.outcome.text.count("plain: x") == 2
    assert allowance.results == {}


async def test_texts_stream_with_a_blank_line_between_answers(talk: Make) -> None:
    made = await talk()
    pieces: list[str] = []

    async def say(text: str) -> None:
        pieces.append(text)

    ended = await made.converse('Call tool plain__echo with {"text": "hi"}', say=say)
    assert "".join(pieces) == ended.outcome.text == "The tools say:\nplain: hi"


async def test_the_reservation_grows_with_what_the_tools_say(talk: Make) -> None:
    made = await talk(max_result_bytes=20_000)
    desk = await made.desk()
    await made.converse('Call tool plain__big with {"size": 9000}', desk=desk)
    rows = await asyncio.to_thread(desk.ledger.reader.attempts, desk.run_id)
    first, second = (row.started.reserved_usd for row in rows)
    assert first is not None
    assert second is not None
    assert second > first + 9000 // 4 * 2 // 10**6  # 9,000 letters are more than 2,250 tokens, at 2 USD per Mtok


OUTPUTS: tuple[tuple[str, Any, str, bool], ...] = (
    ("broken", {"text": '{"n": 1,}'}, '[the JSON was broken and has been mended]\n{"n": 1}', False),
    ("broken", {"text": '{"n": 1, "m'}, f'{RAW}\n{{"n": 1, "m', True),
    ("broken", {"text": "plain words"}, "plain words", False),
    ("broken", {"text": ""}, "[the tool gave back nothing]", False),
    ("promised", {"text": "plain words"}, f"{RAW}\nplain words", True),
    ("promised", {"text": '{"n": 7}'}, '{"n": 7}', False),
    ("promised", {"text": '{"n": "x"}'}, "[not JSON as the tool promised: n: 'x' is not of type 'integer']", True),
    ("limited", {"item": 1}, "[tool error]\n429 Too Many Requests", False),
)


async def test_broken_output_goes_on_with_a_mark(talk: Make) -> None:
    made = await talk()
    desk = await made.desk()
    orders = "\n".join(f"Call tool plain__{tool} with {json.dumps(given)}" for tool, given, _, _ in OUTPUTS)
    await made.converse(orders, desk=desk)
    raw = {row.started.position: row.ended.is_raw for row in await made.rows(desk) if row.ended}
    for position, (text, (_, given, expected, is_raw)) in enumerate(zip(told(made), OUTPUTS, strict=True)):
        assert text.startswith(expected), given
        assert raw[position] is is_raw, given


async def test_a_long_result_is_cut_at_whole_letters_with_a_mark(talk: Make) -> None:
    made = await talk(max_result_bytes=1000)
    desk = await made.desk()
    await made.converse('Call tool plain__big with {"size": 5000}', desk=desk)
    (text,) = told(made)
    assert len(text.encode()) <= 1000
    assert text.startswith("é" * 400)
    assert text.endswith("[cut: the result is 10000 bytes long, of which 1000 at most are shown]")
    (row,) = await made.rows(desk)
    assert row.ended is not None
    assert row.ended.result_bytes == 10_000


async def test_a_planted_secret_is_nowhere(talk: Make, capfd: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")
    made = await talk({"plain": {"env": ["PLAIN_TOKEN"]}})
    planted = made.shop.environ["PLAIN_TOKEN"]
    desk = await made.desk(keep_answers=True, for_good=True)
    orders = "Call tool plain__leak with {}\nCall tool plain__die with {}\nThen call tool plain__environment with {}"
    ended = await made.converse(orders, desk=desk)
    leak = told(made)[0]
    assert leak == "token [secret] is not valid"
    assert "PLAIN_TOKEN" in ended.outcome.text  # the server was given it, by name
    await desk.ledger.aclose()
    files = [path for path in made.shop.folder.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.db" for path in files)
    assert [path.name for path in files if planted.encode() in path.read_bytes()] == []
    out, err = capfd.readouterr()
    whole = [out, err, caplog.text, repr(ended), repr(made.shop.toolbox), json.dumps(made.sandbox.bodies)]
    assert [text for text in whole if planted in text] == []


async def test_a_server_is_given_no_more_of_the_environment_than_is_named(talk: Make) -> None:
    made = await talk()
    await made.converse("Call tool plain__environment with {}")
    given = set(told(made)[0].split())
    assert "PLAIN_TOKEN" not in given
    assert given <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE", "PWD", "SHLVL", "_"}
