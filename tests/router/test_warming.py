"""A document that many workers read is paid once, and then as cached reads (S8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from pricing import FxTable, load_catalog
from router.endpoints.sandbox import Fault
from router.policy import Market, Offer
from router.result import Candidate, Interval
from router.sent import sent_messages
from router.settings import EndpointSettings
from router.task import Task, TaskStep
from router.warming import Warmer, fanout_cost, needs_warmup

Make = Callable[..., Any]
WORDS = "The harbour of Lisbon took in more goods this year than in any year before it, says the report. "
DOCUMENT = (WORDS * (200_000 // len(WORDS) + 1))[:200_000]  # 50,000 tokens as the sandbox counts: 4 characters each
RATE, READ_RATE = Decimal("0.28"), Decimal("0.028")  # deepseek-v3.2, USD per Mtok: a cached read is 10 %
WORKER = {"hundred": {"orchestrator": "deepseek-v3.2", "worker": "deepseek-v3.2"}}
AT = datetime(2026, 11, 30, tzinfo=UTC)


def many(count: int, *, document_last: bool = False) -> Task:
    """Return a task of `count` questions on the document, which stands first, or behind each question."""
    asked = [f"Question {number}: what does the report say of pier {number}?" for number in range(count)]
    steps = [
        TaskStep(id=f"q{number}", prompt=f"{text}\n\n{DOCUMENT}" if document_last else text)
        for number, text in enumerate(asked)
    ]
    shared = None if document_last else DOCUMENT
    return Task(
        messages=({"role": "user", "content": "Answer all questions."},),
        steps=tuple(steps),
        merge=False,
        shared=shared,
        configuration="hundred",
    )


def reads_of(bench: Any) -> Decimal:
    """Return how many full reads of the document the input of all requests cost, by the server's own counts."""
    spent = Decimal(0)
    for entry in bench.requests:
        spent += (entry.input_tokens - entry.cached_tokens) * RATE + entry.cached_tokens * READ_RATE
    return spent / (RATE * 50_000)


def bench_for(bench: Make, latency_ms: float = 300, **more: Any) -> Any:
    """Return a bench that takes a hundred calls at once."""
    return bench(
        {"*": Fault(latency_ms=latency_ms)},
        endpoint={"concurrency": 200, "first_concurrency": 200},
        swarm={"concurrency": 100, "step_timeout_s": 100, "idle_timeout_s": 100},
        configurations={"hundred": {"policy": "fixed", **WORKER["hundred"]}},
        default_configuration="hundred",
        **more,
    )


async def test_s8_a_hundred_workers_pay_one_read_and_99_cached_ones(bench: Make) -> None:
    made = bench_for(bench, context={"warmup_wait_s": 60})
    async with made.router as router:
        estimate = router.estimate(many(100))
        result = await router.route(many(100))

    assert len(made.requests) == 100
    assert all(step.status == "succeeded" for step in result.steps)
    assert [entry.cached_tokens > 0 for entry in made.requests] == [False] + [True] * 99
    assert reads_of(made) == pytest.approx(Decimal(1) + 99 * Decimal("0.1"), rel=Decimal("0.05"))
    by_hand = sum(
        (entry.input_tokens - entry.cached_tokens) * RATE
        + entry.cached_tokens * READ_RATE
        + entry.output_tokens * Decimal("0.42")
        for entry in made.requests
    ) / Decimal(10**6)
    assert result.cost.settled_usd == by_hand
    assert estimate.cost is not None
    # Our estimate of the document's tokens is not the sandbox's; without the cache it would be six times the cost.
    assert by_hand / 2 < estimate.cost.expected_usd < by_hand * 2


async def test_s8_without_the_warm_up_all_that_start_together_miss(bench: Make) -> None:
    made = bench_for(bench, 5_000, context={"warmup": False})  # all are on their way before the first is answered
    async with made.router as router:
        await router.route(many(30))

    assert [entry.cached_tokens for entry in made.requests] == [0] * 30
    assert reads_of(made) > 30


async def test_s8_a_document_behind_the_question_is_never_cached(bench: Make) -> None:
    made = bench_for(bench)
    async with made.router as router:
        await router.route(many(3, document_last=True), configuration="hundred")
        await router.route(many(3, document_last=True), configuration="hundred")

    first, again = made.requests[:3], made.requests[3:]
    assert [entry.cached_tokens for entry in first] == [0] * 3
    assert all(entry.cached_tokens > 49_000 for entry in again)  # the same prompts once more: the cache does work


# The decision --------------------------------------------------------------------------------------------------------


def market_of(price_list: str = "vendor") -> Market:
    endpoint = EndpointSettings(kind="litellm", price_list=price_list, last_list=True)
    return Market(load_catalog(), {"all": endpoint}, FxTable(()), AT)


def offer_of(market: Market, model: str) -> Offer:
    return market.offers(model)[0]


@pytest.mark.parametrize(
    ("model", "tokens", "workers", "pays", "reason"),
    [
        ("deepseek-v3.2", 50_000, 100, True, "99 cached reads"),
        ("deepseek-v3.2", 50_000, 1, False, "one worker"),
        ("gpt-4.1", 1_000, 100, False, "less than the 1024"),
        ("gpt-4.1", 1_024, 2, True, "1 cached reads"),
        ("claude-sonnet-4.5", 50_000, 2, True, "1 cached reads"),
    ],
)
def test_when_a_warm_up_pays(model: str, tokens: int, workers: int, *, pays: bool, reason: str) -> None:
    market = market_of()
    warmth = needs_warmup(market, offer_of(market, model), prefix_tokens=tokens, workers=workers)

    assert warmth.pays is pays
    assert reason in warmth.reason


def test_what_a_fan_out_costs() -> None:
    market = market_of()
    one = Interval(Decimal("0.014"), Decimal("0.015"), Decimal("0.016"))
    cost = fanout_cost(market, offer_of(market, "deepseek-v3.2"), one, prefix_tokens=50_000, workers=100)

    saved = 99 * 50_000 * (RATE - READ_RATE) / 10**6  # 1.2474
    # 100 calls with a correlation of 1/6: √(10,000 / 6 + 100 · 5 / 6) = √1,750 = 41.833001… times 0.001 on either side.
    off = Decimal("0.041833001327")
    assert cost == Interval(Decimal("1.5") - off - saved, Decimal("1.5") - saved, Decimal("1.5") + off)
    assert fanout_cost(market, offer_of(market, "gpt-4.1"), one, prefix_tokens=0, workers=1) == one


def test_writing_a_cache_is_paid_by_the_first() -> None:
    market = market_of()
    warmth = needs_warmup(market, offer_of(market, "claude-sonnet-4.5"), prefix_tokens=10_000, workers=3)

    # 3 × 3.00 against 3.75 for the write and 2 × 0.30, USD per Mtok, on 10,000 tokens
    assert warmth.saved_usd == (Decimal(9) - Decimal("3.75") - Decimal("0.6")) * 10_000 / 10**6


def test_only_a_vendor_that_charges_for_the_write_gets_a_mark() -> None:
    market = market_of()
    openai = EndpointSettings(base_url="http://localhost/v1")
    direct = Market(market.catalog, {"all": openai}, market.fx, AT)
    claude, gemini = (
        Candidate(offer_of(market, model), 1, (1, 1, 1), None) for model in ("claude-sonnet-4.5", "gemini-2.5-flash")
    )

    assert sent_messages(market, claude, READY)[1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert sent_messages(market, claude, READY[-1:]) == READY[-1:]
    assert sent_messages(market, gemini, READY) == READY
    assert sent_messages(direct, claude, READY) == READY


# Turns ---------------------------------------------------------------------------------------------------------------


SHARED = ({"role": "system", "content": "s"}, {"role": "user", "content": DOCUMENT})
READY = (*SHARED, {"role": "assistant", "content": "I have read the document."}, {"role": "user", "content": "q"})


async def let_others_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_first_goes_ahead_and_the_next_does_where_it_fails() -> None:
    market = market_of()
    offer, warmer = offer_of(market, "deepseek-v3.2"), Warmer(market, 5, wait_s=30)
    going: list[int] = []
    gates = [asyncio.Event() for _ in range(5)]

    async def call(number: int) -> None:
        async with warmer.turn(offer, READY, {}) as turn:
            going.append(number)
            await gates[number].wait()
            turn.is_answered = number != 0
            going.remove(number)

    calls = [asyncio.create_task(call(number)) for number in range(5)]
    await let_others_run()
    assert going == [0]
    gates[0].set()
    await calls[0]
    await let_others_run()
    assert going == [1]  # 0 failed
    gates[1].set()
    await calls[1]
    await let_others_run()
    assert going == [2, 3, 4]
    for gate in gates:
        gate.set()
    await asyncio.gather(*calls)


async def test_a_hung_first_call_holds_nobody_up_for_long() -> None:
    market = market_of()
    offer, warmer = offer_of(market, "deepseek-v3.2"), Warmer(market, 2, wait_s=0.05)
    hung = asyncio.Event()

    async def hang() -> None:
        async with warmer.turn(offer, READY, {}):
            await hung.wait()

    first = asyncio.create_task(hang())
    await asyncio.sleep(0)
    async with asyncio.timeout(10), warmer.turn(offer, READY, {}) as second:
        assert not first.done()
        assert not second.is_answered
    first.cancel()
    await asyncio.wait([first])
    async with asyncio.timeout(10), warmer.turn(offer, READY, {}) as turn:
        turn.is_answered = True


async def test_calls_that_share_no_cache_do_not_wait_for_each_other() -> None:
    market = market_of()
    warmer = Warmer(market, 4, wait_s=30)
    deepseek, gpt = offer_of(market, "deepseek-v3.2"), offer_of(market, "gpt-4.1")
    async with (
        asyncio.timeout(10),
        warmer.turn(deepseek, READY, {}),
        warmer.turn(gpt, READY, {}),
        warmer.turn(deepseek, READY, {"tools": [{"name": "x"}]}),
        warmer.turn(deepseek, READY[-1:], {}),
    ):
        alike = asyncio.create_task(warmer.turn(deepseek, READY, {}).__aenter__())
        await let_others_run()
        assert not alike.done()  # one that does share waits for the one ahead
        alike.cancel()
        await asyncio.wait([alike])


# One call, and an orchestrator's own plan ----------------------------------------------------------------------------


async def test_one_call_reads_the_document_before_its_question(bench: Make) -> None:
    made = bench_for(bench, 0)
    async with made.router as router:
        estimate = router.estimate("What of pier 3?", shared=DOCUMENT)
        await router.route([{"role": "system", "content": "Be brief."}, *asked("What of pier 3?")], shared=DOCUMENT)
        await router.route([{"role": "system", "content": "Be brief."}, *asked("What of pier 4?")], shared=DOCUMENT)

    first, second = made.requests
    assert first.input_tokens > 50_000
    assert (first.cached_tokens, second.cached_tokens > 49_000) == (0, True)
    assert estimate.decision.chosen.input_tokens > 35_000


async def test_workers_of_an_orchestrator_s_plan_share_the_document(bench: Make) -> None:
    made = bench_for(bench, 100)
    task = "Answer each:\n1. what of pier one?\n2. what of pier two?\n3. what of pier three?\n4. what of pier four?"
    async with made.router as router:
        result = await router.route(task, shared=DOCUMENT, plan="always")

    plan, *workers, merge = made.requests
    assert result.status == "succeeded"
    assert plan.input_tokens < 1_000
    assert merge.input_tokens < 5_000
    assert [entry.cached_tokens > 49_000 for entry in workers] == [False, True, True, True]


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]
