"""Answers that can be used: cut ones asked for again with more room, broken JSON mended or marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from router.answering import with_room
from router.asked import call_spec
from router.estimation import decide_task
from router.outcome import CallOutcome, Tally
from router.task import Task, TaskStep

Make = Callable[..., Any]


def echo(text: str) -> str:
    """Return a task that the stand-in server answers with exactly this text."""
    return f"Reply with exactly this:\n{text}"


LONG = '{"items": ["' + "x" * 1_000 + '"]}'  # 1,014 characters: 254 tokens as the sandbox counts


async def test_a_cut_json_answer_is_asked_for_again_with_twice_the_room(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo(LONG), json_output=True, max_output_tokens=100)

    assert [entry.fields["max_tokens"] for entry in made.requests] == [100, 200, 400]
    assert result.text == LONG
    assert result.finish_reason == "stop"
    assert len(result.calls) == 3  # every try is on the receipt
    by_hand = sum(entry.input_tokens * 2 + entry.output_tokens * 8 for entry in made.requests) / Decimal(10**6)
    assert result.cost.settled_usd == by_hand
    with made.ledger() as ledger:
        rows = ledger.reader.attempts(result.run_id)
    assert len({row.started.call_key for row in rows}) == 3
    assert all(row.ended is not None for row in rows)


async def test_three_tries_are_the_most(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo(LONG), json_output=True, max_output_tokens=20)

    assert [entry.fields["max_tokens"] for entry in made.requests] == [20, 40, 80]
    assert result.text == LONG[:320]
    assert any("is cut, and there is no more room for it" in warning for warning in result.warnings)


async def test_more_room_than_the_budget_pays_for_is_not_asked_for(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo(LONG), json_output=True, max_output_tokens=100, budget_usd="0.0035")

    assert [entry.fields["max_tokens"] for entry in made.requests] == [100]  # 0.0008 + 0.0027 … the next is 0.0016 more
    assert any("is cut" in warning for warning in result.warnings)
    assert result.cost.settled_usd <= Decimal("0.0035")


async def test_a_cut_text_goes_on_with_a_warning(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo("word " * 200), max_output_tokens=10)

    assert len(made.requests) == 1
    assert result.text == ("word " * 200)[:40]
    assert "gpt-4.1: the answer was cut at its limit: raise max_output_tokens for the rest of it" in result.warnings


@pytest.mark.parametrize(
    ("said", "text", "warning"),
    [
        ('{"a": 1}', '{"a": 1}', None),
        ('Sure:\n```json\n{"a": 1}\n```', '{"a": 1}', None),
        ("{'a': [1, 2,], 'b': None} // done", '{"a": [1, 2], "b": null}', "was broken, and was repaired"),
    ],
)
async def test_broken_json_is_mended_and_said(bench: Make, said: str, text: str, warning: str | None) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo(said), json_output=True)

    assert len(made.requests) == 1
    assert result.text == text
    assert result.messages[0]["content"] == text
    assert any(warning in each for each in result.warnings) if warning else not result.warnings


@pytest.mark.parametrize("said", ["I cannot do that.", "[1, 2]", '{"a": NaN}'])
async def test_what_is_no_json_is_asked_for_once_more_and_goes_on_marked(bench: Make, said: str) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route(echo(said), json_output=True)

    assert len(made.requests) == 2
    assert result.text == said
    assert "gpt-4.1: the answer is no JSON object: it stands as raw text" in result.warnings


async def test_a_json_answer_is_said_when_it_is_whole(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        flow = [each async for each in router.stream(echo("{'a': 1}"), json_output=True)]

    assert flow[:-1] == ['{"a": 1}']
    assert flow[-1].text == '{"a": 1}'


async def test_a_run_key_finds_the_tries_again(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        await router.route(echo(LONG), json_output=True, max_output_tokens=100, run_key="k")
        again = await router.route(echo(LONG), json_output=True, max_output_tokens=100, run_key="k")

    assert len(made.requests) == 3
    assert again.replayed
    assert again.text == LONG


async def test_the_room_ends_at_the_model_s_own_limit(bench: Make) -> None:
    router = bench().router
    market = router.market()
    task = Task(messages=({"role": "user", "content": "x"},), max_output_tokens=30_000)
    spec = call_spec(decide_task(market, router.settings, task), task)
    outcome = CallOutcome(Tally().receipt(spec, "sandbox", "succeeded"))
    more = with_room(market, spec, outcome)

    assert more is not None
    assert more.parameters["max_tokens"] == 32_768  # gpt-4.1
    assert more.sample == 1
    assert with_room(market, more, outcome) is None
    assert with_room(market, replace(spec, parameters={}), outcome) is None  # nothing is known of its limit


async def test_a_step_s_answer_that_was_cut_is_said_once(bench: Make) -> None:
    made = bench()
    steps = tuple(TaskStep(id=name, prompt=echo("word " * 200), max_output_tokens=10) for name in "abc")
    async with made.router as router:
        result = await router.route("Do all.", steps=steps, merge=False, configuration="all-gpt-4.1")

    assert [step.text for step in result.steps] == [("word " * 200)[:40]] * 3
    assert result.warnings == ("gpt-4.1: the answer was cut at its limit: raise max_output_tokens for the rest of it",)


async def test_no_merge_reads_more_than_it_may(bench: Make) -> None:
    made = bench(context={"max_tokens": 1_000})
    steps = tuple(TaskStep(id=f"t{number}", prompt=echo("word " * 200)) for number in range(12))
    async with made.router as router:
        result = await router.route("Do all.", steps=steps, configuration="all-gpt-4.1")

    merges = [call for call in result.calls if call.role == "orchestrator"]
    assert len(result.calls) == 12 + len(merges)
    assert len(merges) == 4  # 12 results of about 210 tokens, four to a prompt; then three
    # The stand-in server counts 5 characters of "word " as 1.25 tokens, our estimate as 1.
    assert all(call.usage is not None and call.usage.input_tokens <= 1_250 for call in merges)


async def test_a_merge_with_hardly_any_room_ends(bench: Make) -> None:
    made = bench(context={"max_tokens": 256})
    steps = tuple(TaskStep(id=name, prompt=echo("word " * 50)) for name in "ab")
    task = "Do all. " + "Mind every detail. " * 100
    async with made.router as router:
        result = await router.route(task, steps=steps, configuration="all-gpt-4.1")

    assert result.status in {"succeeded", "partial"}
    assert "word" in result.text


async def test_a_plan_that_was_cut_is_asked_for_again_with_more_room(bench: Make) -> None:
    made = bench()
    listed = "Do each of these:\n" + "\n".join(f"{number}. " + "word " * 300 for number in range(12))
    async with made.router as router:
        result = await router.route(listed, plan="always", merge=False, configuration="all-gpt-4.1")

    rooms = [entry.fields["max_tokens"] for entry in made.requests if entry.fields.get("max_tokens", 0) > 2048]
    assert rooms == [4096, 8192]  # the plan repeats each item: 12 × 1,500 characters are 4,500 tokens there
    assert len(result.steps) == 12
