"""Body fields for vendors: who wins, what reaches the wire, and what thinking counts for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.cli.show import decision_page
from router.client import Router
from router.estimation import decide_task
from router.extras import body_fields, bounded, configured_extra, thinking_tokens, with_thinking
from router.forecast import OutputForecast
from router.plan import parse_plan
from router.settings import ByClassSettings, FixedSettings, Settings
from router.settings_file import load_settings
from router.task import Task, TaskStep

Make = Callable[..., Any]
ASKED = ({"role": "user", "content": "x"},)


def task_of(**fields: Any) -> Task:
    return Task(messages=ASKED, **fields)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, 0),
        ({"temperature": 0}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, 4096),
        ({"thinking": {"type": "disabled"}}, 0),
        ({"thinking_budget": 512, "enable_thinking": True}, 512),
        ({"reasoning": {"max_tokens": 2000}}, 2000),
        ({"reasoning": {"effort": "high"}}, 24_576),
        ({"reasoning_effort": "low"}, 1_024),
        ({"reasoning_effort": "Medium"}, 8_192),
        ({"reasoning_effort": "none"}, 0),
        ({"reasoning_effort": "something new"}, 0),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 800}}}}, 800),
        ({"thinking_budget": -1}, 0),
        ({"thinking_budget": True}, 0),
        ({"metadata": {"budget_tokens": 9}}, 0),
    ],
)
def test_the_thinking_that_body_fields_allow(fields: Mapping[str, Any], tokens: int) -> None:
    assert thinking_tokens(fields) == tokens


def test_the_nearer_to_the_call_wins() -> None:
    pair = FixedSettings(orchestrator="a", worker="b", extra={"x": 1, "y": 1, "z": 1}, worker_extra={"y": 2, "z": 2})

    assert configured_extra(pair, "worker", "chat") == {"x": 1, "y": 2, "z": 2}
    assert configured_extra(pair, "single", "chat") == {"x": 1, "y": 1, "z": 1}
    assert body_fields(task_of(extra={"z": 3}), configured_extra(pair, "worker", "chat")) == {"x": 1, "y": 2, "z": 3}


def test_a_class_has_its_own_fields() -> None:
    rule = {"candidates": ("gpt-4.1",), "extra": {"y": 2}}
    policy = ByClassSettings.model_validate({"policy": "by_class", "extra": {"x": 1}, "classes": {"code": rule}})

    assert configured_extra(policy, "single", "code") == {"x": 1, "y": 2}
    assert configured_extra(policy, "single", "chat") == {"x": 1}


def test_thinking_comes_on_top_of_the_answer_s_limit() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4000}}

    assert body_fields(task_of(max_output_tokens=500), thinking)["max_tokens"] == 4500
    assert body_fields(task_of(max_output_tokens=500, extra={"max_tokens": 300}), thinking)["max_tokens"] == 300
    assert body_fields(task_of(max_output_tokens=500), {"max_tokens": 9})["max_tokens"] == 500
    assert body_fields(task_of(), {"max_tokens": 9})["max_tokens"] == 9
    assert "max_tokens" not in body_fields(task_of(), thinking)


def test_a_limit_with_thinking_is_none_that_the_model_refuses() -> None:
    asked = {"max_tokens": 25_000, "reasoning_effort": "high"}

    assert bounded(asked, 8_192) == {"max_tokens": 8_192, "reasoning_effort": "high"}
    assert bounded(asked, None) == asked
    assert bounded({"max_tokens": 25_000}, 8_192) == {"max_tokens": 25_000}  # the caller's own word


def test_the_forecast_has_the_thinking_in_it() -> None:
    found = with_thinking(OutputForecast(10, 100, 200, "on record"), 4_000)

    assert (found.low_tokens, found.expected_tokens, found.high_tokens) == (10, 2_100, 4_200)
    assert "assumption" in found.source


def test_explain_shows_what_the_configuration_sets() -> None:
    extra = {"orchestrator": "gpt-4.1", "worker": "gpt-4.1-mini", "orchestrator_extra": {"reasoning_effort": "high"}}
    pair = {"policy": "fixed", "extra": {"seed": 2}, **extra}
    router = Router(
        Settings.model_validate({"default_configuration": "pair", "configurations": {"pair": pair}}), environ={}
    )
    shown = decision_page(router.decide("x", configuration="pair"), None, on_paper=True)
    plain = decision_page(router.decide("x", candidates=("gpt-4.1",)), None, on_paper=True)

    facts = {fact.key: fact.value for fact in shown.footer}
    assert facts["extra"] == '{"seed": 2, "reasoning_effort": "high"}'
    assert "extra" not in {fact.key for fact in plain.footer}


async def test_what_reaches_the_wire(bench: Make) -> None:
    pair = {
        "policy": "fixed",
        "orchestrator": "gpt-4.1",
        "worker": "deepseek-v3.2",
        "extra": {"seed": 2, "user": "pair"},
        "worker_extra": {"seed": 3, "top_p": 0.3},
    }
    made = bench(endpoint={"extra": {"seed": 1, "logprobs": False, "user": "endpoint"}}, configurations={"pair": pair})
    steps = (
        TaskStep(id="a", prompt="one"),
        TaskStep(id="b", prompt="two", extra={"seed": 5}, max_output_tokens=99),
    )
    async with made.router as router:
        await router.route(task_of(configuration="pair", steps=steps, merge=False, extra={"top_p": 0.4}))
        await router.route(task_of(configuration="pair"))

    first, second, single = (
        {name: value for name, value in entry.fields.items() if not name.startswith("stream")}
        for entry in made.requests
    )
    by_model = {"model": "deepseek-v3.2", "logprobs": False, "user": "pair", "top_p": 0.4}
    first, second = sorted((first, second), key=lambda fields: fields["seed"])
    assert first == {**by_model, "seed": 3, "max_tokens": 2048}
    assert second == {**by_model, "seed": 5, "max_tokens": 99}
    assert single == {"model": "gpt-4.1", "logprobs": False, "user": "pair", "seed": 2}


async def test_thinking_is_reserved_for_and_forecast(bench: Make) -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4000}}
    made = bench(configurations={"plain": pair_of("gpt-4.1"), "deep": {**pair_of("gpt-4.1"), "extra": thinking}})
    async with made.router as router:
        plain = await router.route("hello", configuration="plain", max_output_tokens=100)
        deep = await router.route("hello", configuration="deep", max_output_tokens=100)
        plain_cost = router.estimate("hello", configuration="plain").cost
        deep_cost = router.estimate("hello", configuration="deep").cost
    with made.ledger() as ledger:
        held = [ledger.reader.attempts(result.run_id)[0].started.reserved_usd for result in (plain, deep)]

    assert [entry.fields["max_tokens"] for entry in made.requests] == [100, 4100]
    assert held[1] - held[0] == Decimal(4000) * 8 / 10**6  # gpt-4.1: 8 USD per Mtok of output
    assert plain_cost is not None
    assert deep_cost is not None
    assert deep_cost.expected_usd - plain_cost.expected_usd == Decimal(2000) * 8 / 10**6
    assert deep_cost.high_usd - plain_cost.high_usd == Decimal(4000) * 8 / 10**6


def pair_of(model: str) -> dict[str, Any]:
    return {"policy": "fixed", "orchestrator": model, "worker": model}


def test_an_orchestrator_s_own_plan_sets_no_body_field() -> None:
    text = '{"tasks": [{"id": "a", "class": "chat", "prompt": "x", "extra": {"seed": 1}}], "n_tasks": 1}'

    assert parse_plan(text, "stop", max_steps=5).steps[0].extra == {}


def test_the_file_s_numbers_are_numbers_of_json(tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text(
        "[configurations.pair]\norchestrator = 'gpt-4.1'\nworker = 'gpt-4.1'\nworker_extra = { top_p = 0.5 }\n"
        "[configurations.policy]\npolicy = 'by_class'\n"
        "classes.code = { candidates = ['gpt-4.1'], quality_floor = 0.5, extra = { a = { b = [0.25] } } }\n",
        encoding="utf-8",
    )
    found = load_settings(tmp_path, {}).configurations
    pair, policy = found["pair"], found["policy"]

    assert isinstance(pair, FixedSettings)
    assert isinstance(policy, ByClassSettings)
    assert repr(pair.worker_extra) == "{'top_p': 0.5}"
    assert repr(policy.classes["code"].extra) == "{'a': {'b': [0.25]}}"


async def test_a_decision_says_what_its_configuration_sets(bench: Make) -> None:
    made = bench(configurations={"deep": {**pair_of("gpt-4.1"), "orchestrator_extra": {"reasoning_effort": "low"}}})
    router = made.router
    market, settings = router.market(), router.settings

    assert decide_task(market, settings, task_of(configuration="deep")).extra == {"reasoning_effort": "low"}
    assert decide_task(market, settings, task_of(configuration="deep"), "worker").extra == {}
    assert decide_task(market, settings, task_of(candidates=("gpt-4.1",), configuration="deep")).extra == {}
