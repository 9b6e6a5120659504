"""Choosing: the cheapest for this request that is good enough, every loser with its reason."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Usage, load_catalog, price_call
from router.client import Router
from router.errors import NoEndpoint, WrongUsage
from router.policy import NoCandidate, replay_model
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from router.task import Task

CHECKED = date(2026, 11, 1)


def paper(prices: list[dict[str, Any]] | None = None, **more: Any) -> Router:
    """Return a router without endpoints: it compares lists and sends nothing."""
    rows = {"prices": [{"source": "contract", "checked": CHECKED, **row} for row in prices or []]}
    tables = {"configurations": dict(BUILT_IN_CONFIGURATIONS), "prices": rows if prices else {}, **more}
    return Router(Settings.model_validate(tables), environ={})


def test_r1_the_cheapest_of_prefixed_names_is_found_every_time() -> None:
    router = paper()
    names = ("openai/gpt-4o", "openai/gpt-4o-mini", "openai/gpt-4.1-nano")

    chosen = {
        router.decide("Say hello.", candidates=order).chosen.model
        for order in (names, names[::-1], (names[1], names[2], names[0]))
        for _ in range(20)
    }

    assert chosen == {"gpt-4.1-nano"}


def test_r2_a_dear_model_that_stands_first_is_not_taken() -> None:
    router = paper(
        [{"model": "dear", "input": "10", "output": "10"}, {"model": "cheap", "input": "0.1", "output": "0.1"}]
    )

    assert router.decide("Say hello.", candidates=("dear", "cheap")).chosen.model == "cheap"


def test_r3_the_request_decides_not_the_sum_of_the_rates() -> None:
    """X at 1/10 costs 20,000·1 + 20·10 = 20,200 µ$; Y at 3/5 costs 20,000·3 + 20·5 = 60,100 µ$, though 1+10 > 3+5."""
    router = paper([{"model": "x", "input": "1", "output": "10"}, {"model": "y", "input": "3", "output": "5"}])

    decision = router.decide(
        "Read this.", candidates=("y", "x"), expected_input_tokens=20_000, expected_output_tokens=20
    )

    by_model = {each.model: each.cost.expected_usd for each in decision.candidates if each.cost}
    assert decision.chosen.model == "x"
    assert by_model == {"x": Decimal("0.0202"), "y": Decimal("0.0601")}


@given(
    rates=st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=2, max_size=5),
    sent=st.integers(0, 10**6),
    got=st.integers(0, 10**5),
)
def test_law_no_candidate_that_fits_is_cheaper_than_the_chosen_one(
    rates: list[tuple[int, int]], sent: int, got: int
) -> None:
    names = [f"m{number}" for number in range(len(rates))]
    router = paper([{"model": m, "input": str(i), "output": str(o)} for m, (i, o) in zip(names, rates, strict=True)])

    decision = router.decide("x", candidates=tuple(names), expected_input_tokens=sent, expected_output_tokens=got)

    costs = {name: Decimal(i * sent + o * got) / 10**6 for name, (i, o) in zip(names, rates, strict=True)}
    assert decision.chosen.cost is not None
    assert decision.chosen.cost.expected_usd == costs[decision.chosen.model] == min(costs.values())


def test_every_loser_says_why() -> None:
    decision = paper().decide("Write a Python function that sorts a list.", configuration="by_class")

    assert decision.task_class == "code"
    assert decision.class_source == "classified"
    assert decision.chosen.lost is None
    assert all(each.lost for each in decision.candidates[1:])
    assert {each.model: each.lost for each in decision.candidates}["kimi-k2"] == (
        "no price: moonshot retired it on 2026-05-25"
    )


def test_a_floor_is_held_by_the_bound_not_by_the_score() -> None:
    decision = paper().decide("…", task_class="code", configuration="by_class", quality_floor=0.5)

    assert decision.chosen.quality_bound is not None
    assert decision.chosen.quality_bound >= 0.5
    lost = {each.model: each.lost or "" for each in decision.candidates}
    assert "below the floor 0.500" in lost["gpt-4.1"]


def test_no_candidate_lists_every_reason() -> None:
    with pytest.raises(NoCandidate, match=r"gpt-4\.1: quality bound .* is below the floor 0\.990") as caught:
        paper().decide("…", task_class="reason", configuration="by_class", quality_floor=0.99)

    assert "lower the quality floor" in (caught.value.hint or "")


def test_a_context_that_is_too_small_loses() -> None:
    decision = paper().decide("…", candidates=("gpt-4o-mini", "gpt-4.1"), expected_input_tokens=200_000)

    assert decision.chosen.model == "gpt-4.1"
    assert "context of 128,000 tokens is less" in (decision.candidates[1].lost or "")


def test_an_unknown_class_is_the_default_and_says_so() -> None:
    decision = paper().decide("hm", configuration="by_class")

    assert (decision.task_class, decision.class_source) == ("chat", "default")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"configuration": "hybird"}, r"configuration: 'hybird' does not exist; did you mean hybrid"),
        ({"task_class": "cod"}, r"task class: 'cod' does not exist; did you mean code"),
        ({"candidates": ("gpt-4.2",)}, r"model: 'gpt-4.2' does not exist; did you mean .*gpt-4\.1"),
    ],
)
def test_unknown_names_list_near_misses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        paper().decide("hello", **options)


def test_a_model_no_endpoint_offers_is_never_chosen() -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "price_list": "openai"}
    router = paper(endpoints={"only-openai": endpoint})

    decision = router.decide("hello", candidates=("claude-sonnet-4.5", "gpt-4.1"))

    assert decision.chosen.model == "gpt-4.1"
    assert decision.candidates[1].lost == "no configured endpoint offers it"
    with pytest.raises(NoEndpoint, match="no configured endpoint offers it"):
        router.decide("hello", candidates=("claude-sonnet-4.5",))


def test_settled_cost_ranks_not_list_cost() -> None:
    """The same list price costs a seventh where a dollar of it is sold for a yuan."""
    prices = {"base_url": "http://127.0.0.1:9/v1", "price_list": "openai"}
    router = paper(
        endpoints={"vendor": prices, "yuan": {**prices, "settlement": {"currency": "CNY", "rate": "1"}}},
    )

    decision = router.decide("hello", candidates=("gpt-4.1",))

    assert [each.endpoint for each in decision.candidates] == ["yuan", "vendor"]


def test_an_unpriced_offer_never_beats_a_priced_one() -> None:
    """The relay publishes no input price, so its cost is not known."""
    router = paper(
        endpoints={
            "relay": {"base_url": "http://127.0.0.1:9/v1", "price_list": "relay"},
            "openai": {"base_url": "http://127.0.0.1:9/v1", "price_list": "openai"},
        }
    )

    decision = router.decide("hello", candidates=("gpt-4.1",))

    assert decision.chosen.endpoint == "openai"
    assert decision.candidates[1].cost is None


def test_a_fixed_pair_gives_workers_the_worker_and_the_rest_the_orchestrator() -> None:
    catalog = load_catalog()
    at = paper().market().at
    hybrid = BUILT_IN_CONFIGURATIONS["hybrid"]
    models = [
        replay_model(hybrid, role=role, task_class=None, usage=Usage(), catalog=catalog, price_list="vendor", at=at)
        for role in ("orchestrator", "worker", "single", None)
    ]

    assert models == ["kimi-k2", "deepseek-v3.2", "kimi-k2", "kimi-k2"]


def test_the_expected_cost_is_the_engine_s() -> None:
    router = paper()
    market = router.market()
    decision = router.decide("hello", candidates=("gpt-4o",), expected_input_tokens=1000, expected_output_tokens=100)

    prices = router.catalog.price_set("gpt-4o", "openai", market.at)
    cost = price_call(Usage(uncached_input_tokens=1000, plain_output_tokens=100), prices, at=market.at)
    assert decision.chosen.cost is not None
    assert decision.chosen.cost.expected_usd == cost.total == Decimal("0.0035")


def test_a_plan_is_made_only_where_it_pays() -> None:
    """The pair's worker is cheap enough to pay for plan and merge; the same model for both roles never is."""
    items = "\n".join(f"{number}. describe city {number}" for number in range(1, 41))
    router = paper(
        [{"model": "dear", "input": "10", "output": "40"}, {"model": "cheap", "input": "0.1", "output": "0.4"}],
        configurations={
            "pair": {"policy": "fixed", "orchestrator": "dear", "worker": "cheap"},
            "one": {"policy": "fixed", "orchestrator": "dear", "worker": "dear"},
        },
    )
    pair, one = (router.estimate(Task.of(items, configuration=name)) for name in ("pair", "one"))

    assert pair.planned
    assert pair.calls == 42
    assert pair.plan_cost is not None
    assert pair.single_cost is not None
    assert pair.plan_cost.expected_usd < pair.single_cost.expected_usd
    assert not one.planned
    assert not router.estimate(Task.of("Name one city.", configuration="pair")).planned
