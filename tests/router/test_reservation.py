"""A budget holds because the most a request can cost is held before it is sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.attempts import CallSpec
from router.budget import Budget
from router.calls import perform
from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import BudgetExceeded, NoEndpoint, WrongUsage
from router.presets import BUILT_IN_CONFIGURATIONS
from router.reservation import answers_asked, output_cap, reservation
from router.settings import Settings
from router.task import Task

PAPER = Router(Settings.model_validate({"configurations": dict(BUILT_IN_CONFIGURATIONS)}), environ={}).market()
(GPT_41,) = PAPER.offers("gpt-4.1")  # 2.00 in, 8.00 out per Mtok


def held(max_output_tokens: int | None, left_usd: str | None) -> tuple[Decimal | None, int | None]:
    found = reservation(
        PAPER,
        GPT_41,
        input_tokens=1000,
        likely_output_tokens=500,
        max_output_tokens=max_output_tokens,
        left_usd=None if left_usd is None else Decimal(left_usd),
    )
    return found.amount_usd, found.max_output_tokens


def test_a_request_with_a_cap_holds_its_cap() -> None:
    """1,000 · 1.3 + 1 = 1,301 tokens in at 2 µ$, 4,096 out at 8 µ$."""
    assert held(4096, "1") == (Decimal("0.03537"), None)


def test_without_a_budget_nine_answers_in_ten_are_held() -> None:
    assert held(None, None) == (Decimal("0.006602"), None)  # 2,602 + 500 · 8 µ$


def test_with_a_budget_the_cap_is_what_it_can_pay_for() -> None:
    """0.02 − 0.002602 = 0.017398 $ pay for 2,174 tokens; the model itself stops at 32,768."""
    assert held(None, "0.02") == (Decimal("0.019994"), 2174)
    assert held(None, "100") == (Decimal("0.264746"), 32768)


@pytest.mark.parametrize(
    ("body", "cap", "answers"),
    [
        ({}, None, 1),
        ({"max_tokens": 5}, 5, 1),
        ({"max_tokens": 5, "max_completion_tokens": 100_000}, 100_000, 1),  # an endpoint may heed either
        ({"max_completion_tokens": 7, "n": 50}, 7, 50),
        ({"max_tokens": True, "n": True}, None, 1),
        ({"max_tokens": -4, "n": 0}, None, 1),
    ],
)
def test_what_a_body_allows(body: dict[str, Any], cap: int | None, answers: int) -> None:
    assert (output_cap(body), answers_asked(body)) == (cap, answers)


def test_many_answers_hold_as_many_times_as_much() -> None:
    """50 · 100 tokens at 8 µ$ and the input's 2,602 µ$; of 0.02 USD, 2,174 tokens, a fiftieth is 43."""
    sizes = {"input_tokens": 1000, "likely_output_tokens": 10, "answers": 50}
    capped = reservation(PAPER, GPT_41, max_output_tokens=100, left_usd=None, **sizes)
    assert capped.amount_usd == Decimal("0.042602")
    free = reservation(PAPER, GPT_41, max_output_tokens=None, left_usd=Decimal("0.02"), **sizes)
    assert (free.max_output_tokens, free.amount_usd) == (43, Decimal("0.019802"))


@pytest.mark.parametrize(
    ("extra", "least"),
    [
        ({"max_tokens": 5, "max_completion_tokens": 1000}, "0.008"),  # 1,000 tokens at 8 µ$
        ({"max_tokens": 100, "n": 20}, "0.016"),  # 20 · 100
        ({"max_tokens": 1000, "service_tier": "priority"}, "0.014"),  # 1,000 at the priority rate of 14 µ$
    ],
)
async def test_what_the_vendor_s_fields_allow_is_held(
    bench: Callable[..., Any], extra: dict[str, Any], least: str
) -> None:
    made = bench()
    async with made.router as router:
        result = await router.route("hello", extra=extra)
    with made.ledger() as ledger:
        (row,) = ledger.reader.attempts(result.run_id)
    assert row.started.reserved_usd is not None
    assert Decimal(least) <= row.started.reserved_usd < Decimal(least) + Decimal("0.001")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n"])
@pytest.mark.parametrize("value", [0, -5, True, "7", 1.5, 10**10])
def test_counts_among_the_vendor_s_fields_are_counts(name: str, value: object) -> None:
    with pytest.raises(WrongUsage, match=rf"{name} is .*; a whole number from 1 to 1,000,000,000 is allowed"):
        Task.of("hello", extra={name: value})
    with pytest.raises(WrongUsage, match=rf"{name} is "):
        Task.of("hello", steps=[{"id": "a", "prompt": "b", "extra": {name: value}}])


@pytest.mark.parametrize("name", ["messages", "model", "stream"])
def test_what_a_request_sets_itself_is_no_vendor_s_field(name: str) -> None:
    with pytest.raises(WrongUsage, match=rf"extra is .*; .*{name} is set by the router; other body fields are allowed"):
        Task.of("hello", extra={name: True})
    with pytest.raises(WrongUsage, match=rf"steps\.0\.extra is .*{name} is set by the router"):
        Task.of("hello", steps=[{"id": "a", "prompt": "b", "extra": {name: True}}])


async def test_a_budget_below_a_likely_answer_is_refused() -> None:
    amount, _ = held(None, "0.003")
    with pytest.raises(BudgetExceeded, match=r"may cost 0\.006602 USD, 0\.003"):
        await Budget(Decimal("0.003")).reserve(amount)


async def test_what_fits_once_running_calls_have_ended_waits_for_them() -> None:
    budget = Budget(Decimal(10))
    running = await budget.reserve(Decimal(8))
    waiting = asyncio.create_task(budget.reserve(Decimal(5)))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.settle(running, Decimal(4))

    assert await waiting == 5
    budget.settle(Decimal(5), Decimal(5))
    with pytest.raises(BudgetExceeded):  # 9 are spent and nothing is held: there is nothing to wait for
        await asyncio.wait_for(budget.reserve(Decimal(7)), 1)


async def test_what_is_held_is_known_without_a_limit_too() -> None:
    """3 + 2 are held; then the first costs 1, and the second's bill is never known: its 2 count as spent."""
    budget = Budget(None)
    first, second = await budget.reserve(Decimal(3)), await budget.reserve(Decimal(2))
    assert await budget.reserve(None) == 0
    assert budget.reserved_usd == 5
    assert budget.left_usd is None
    budget.settle(first, Decimal(1))
    assert [budget.reserved_usd, budget.spent_usd] == [2, 1]
    budget.settle(second, None)
    assert [budget.reserved_usd, budget.spent_usd] == [0, 3]


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100)), max_size=30))
def test_law_what_is_spent_and_reserved_never_exceeds_the_budget(calls: list[tuple[int, int]]) -> None:
    budget = Budget(Decimal(200))

    async def one(most: int, cost: int) -> None:
        try:
            reserved = await budget.reserve(Decimal(most))
        except BudgetExceeded:
            return
        assert budget.spent_usd + budget.reserved_usd <= 200
        await asyncio.sleep(0)
        budget.settle(reserved, Decimal(min(most, cost)))
        assert budget.spent_usd + budget.reserved_usd <= 200

    async def all_at_once() -> None:
        await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(all_at_once())
    assert budget.reserved_usd == 0


async def test_a_swarm_stops_at_its_budget(bench: Callable[..., Any]) -> None:
    """Forty workers at once, a budget that cannot pay for all: the server's own counts stay within it."""
    made = bench({"*": Fault(latency_ms=20)}, swarm={"step_max_output_tokens": 200})
    task = "Do each:\n" + "\n".join(f"- item {number}" for number in range(40))
    async with made.router as router:
        with contextlib.suppress(BudgetExceeded):
            result = await router.route(task, plan="always", configuration="all-gpt-4.1", budget_usd="0.045")
            assert result.status == "partial"

    spent = sum((entry.input_tokens * 2 + entry.output_tokens * 8 for entry in made.requests), 0)
    assert 3 < len(made.requests) < 42
    assert Decimal(spent) / 10**6 <= Decimal("0.045")


async def test_a_call_that_no_endpoint_serves_is_refused_in_words() -> None:
    decision = Router(Settings.model_validate({"configurations": dict(BUILT_IN_CONFIGURATIONS)}), environ={}).decide(
        "hello", configuration="all-gpt-4.1"
    )
    spec = CallSpec(decision.chosen, "worker", "chat", ({"role": "user", "content": "hello"},))
    nobody: Any = None  # nothing of the desk is looked at
    with pytest.raises(NoEndpoint, match=r"no endpoint is set that could serve gpt-4\.1"):
        await perform(nobody, spec)
