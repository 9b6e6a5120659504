"""The experience in force: when it is read, that a resumed run decides by the one of then, and who does without."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from router.experience import NO_EXPERIENCE
from router.learner import Learner, as_of_us, recorded_experience
from router.ledger.past_work import SETTLING_US
from router.ledger.records import RunStarted
from router.settings_forecast import ForecastSettings

Make = Callable[..., Any]


def age(bench: Any, seconds: int) -> None:
    """Move all attempts that far into the past."""
    with sqlite3.connect(bench.database.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE attempts SET started_us = started_us - ?", (seconds * 1_000_000,))
    connection.close()


async def test_what_was_expected_stands_in_the_rows(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        estimate = router.estimate("What is the capital of Portugal?")
        result = await router.route("What is the capital of Portugal?")
    chosen = estimate.decision.chosen
    with made.ledger() as ledger:
        [row] = ledger.reader.attempts(result.run_id)
        run = ledger.reader.run(result.run_id)
    started = row.started
    assert (started.script, started.estimated_input_tokens) == ("latin", chosen.input_tokens)
    assert started.expected_input_tokens == chosen.input_tokens
    outputs = (started.expected_output_low_tokens, started.expected_output_tokens, started.expected_output_high_tokens)
    assert outputs == chosen.output_tokens
    assert (run.started.expected_low_usd, run.started.expected_usd, run.started.expected_high_usd) == (
        estimate.cost.low_usd,
        estimate.cost.expected_usd,
        estimate.cost.high_usd,
    )


async def test_the_next_router_knows_what_the_last_one_learnt(bench: Make) -> None:
    made = bench(forecast={"refresh_s": 1})
    async with made.router as router:
        for number in range(7):
            await router.route(f"What is the capital of country {number}?", task_class="chat")
        before = await router.route("What is the capital of Portugal?", task_class="chat")
    age(made, 60)
    settings = made.router.settings
    known = recorded_experience(settings)
    assert known.attempts == 8
    async with type(made.router)(settings, environ={}) as router:
        result = await router.route("What is the capital of Portugal?", task_class="chat")
        assert router.market().experience.attempts == 8
    with made.ledger() as ledger:
        run = ledger.reader.run(result.run_id)
        assert run.started.experience_us is not None
        [row] = ledger.reader.attempts(result.run_id)
        [unlearnt] = ledger.reader.attempts(before.run_id)
        then = ledger.run_reader.experience(run.started.experience_us, 30)
    assert row.started.expected_output_tokens == then.lengths("gpt-4.1", "chat").whole.expected_tokens
    # The forecast is shorter now, and what is held against budgets is not less for it.
    assert row.started.expected_output_high_tokens < unlearnt.started.expected_output_high_tokens
    assert row.started.reserved_usd >= unlearnt.started.reserved_usd


async def test_a_resumed_run_decides_by_the_record_of_then(bench: Make) -> None:
    """Its own instant is that of its row, whatever has been learnt since; None: it decided without a record."""
    made = bench(forecast={"refresh_s": 1})
    async with made.router as router:
        first = await router.route("What is the capital of Portugal?", task_class="chat")
    age(made, 60)
    with made.ledger() as ledger:
        learner = Learner(ledger, ForecastSettings(refresh_s=1))
        await learner.open()
        then_us = ledger.reader.run(first.run_id).started.experience_us
        then = await learner.at(then_us)
        assert learner.experience.attempts == 1
        assert (then.as_of_us, then) == (then_us, ledger.run_reader.experience(then_us, 30))
        assert await learner.at(None) is NO_EXPERIENCE


async def test_it_is_read_again_when_its_time_has_come_and_not_before(bench: Make) -> None:
    made = bench()
    async with made.router as router:
        await router.route("What is the capital of Portugal?")
    age(made, 60)
    with made.ledger() as ledger:
        for refresh_s, is_again in ((600.0, False), (1.0, True)):
            learner = Learner(ledger, ForecastSettings(refresh_s=refresh_s))
            await learner.open()
            before = learner.experience
            await asyncio.sleep(1.05 if is_again else 0)
            learner.look()
            await learner.aclose()
            assert (learner.experience is not before) == is_again


async def test_who_does_not_want_to_learn_does_not(bench: Make) -> None:
    made = bench(forecast={"learn": False})
    async with made.router as router:
        result = await router.route("What is the capital of Portugal?")
        assert router.market().experience is NO_EXPERIENCE
    with made.ledger() as ledger:
        run: RunStarted = ledger.reader.run(result.run_id).started
    assert run.experience_us is None
    assert await asyncio.to_thread(recorded_experience, made.router.settings) is NO_EXPERIENCE


def test_the_instant_is_the_start_of_an_interval() -> None:
    now_us = time.time_ns() // 1000
    found = as_of_us(ForecastSettings(refresh_s=600))
    assert found % 600_000_000 == 0
    assert 0 <= now_us - found < 601_000_000
    assert SETTLING_US == 10_000_000
