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

from router.budget import Budget
from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import BudgetExceeded
from router.presets import BUILT_IN_CONFIGURATIONS
from router.reservation import reservation
from router.settings import Settings

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
