"""Estimated against actual cost of 500 runs: the first half is learnt from, the second half is measured."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from router.client import Router
from router.endpoints.sandbox import Sandbox, SandboxThread
from router.experience import NO_EXPERIENCE, Experience
from router.ledger import open_ledger
from router.ledger.past_work import SETTLING_US
from router.result import Estimate, Result
from router.settings import Settings
from router.task import Task
from tests.new_ledger import new_ledger
from tests.router.conftest import settings_for

RUNS = 500
AT_ONCE = 16
WORDS = (
    *("harbour", "copper", "ledger", "orchid", "glacier", "sonata", "tariff", "vaccine", "lantern", "saffron"),
    *("monsoon", "granite", "violin", "turbine", "meadow", "quarry", "falcon", "cinnamon", "estuary", "parliament"),
)
KINDS = (
    ("classify", "Classify the mood of this note as good or bad: {}"),
    ("extract", "Extract the names in this text: {}"),
    ("summarize", "Summarise this in a few lines: {}"),
    ("code", "Implement a function for this: {}"),
)
Measured = tuple[Estimate, Result]


def text_of(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(8, 60)))


def task_of(number: int, chance: random.Random) -> Task:
    """Return four single calls of as many classes, then a plan of two to five steps, and so on."""
    if number % 5 < 4:
        task_class, asked = KINDS[number % 5]
        return Task.of(asked.format(text_of(chance)), task_class=task_class, plan="never")
    steps: list[dict[str, Any]] = [
        {"id": f"s{at}", "task_class": KINDS[at % 4][0], "prompt": KINDS[at % 4][1].format(text_of(chance))}
        for at in range(chance.randint(2, 5))
    ]
    return Task.of(f"Do the steps on {text_of(chance)}.", task_class="write", steps=tuple(steps))


async def measured(settings: Settings, tasks: Sequence[Task], experience: Experience) -> list[Measured]:
    """Return what each task was expected to cost, and its result."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with Router(settings, environ={}, experience=experience) as router:

        async def one(task: Task) -> Measured:
            async with gate:
                return router.estimate(task), await router.route(task)

        return list(await asyncio.gather(*map(one, tasks)))


def held_share(found: Sequence[Measured]) -> float:
    held = 0
    for estimate, result in found:
        assert estimate.cost is not None
        held += estimate.cost.low_usd <= result.cost.settled_usd <= estimate.cost.high_usd
    return held / len(found)


def bias(found: Sequence[Measured]) -> float:
    expected = sum(estimate.cost.expected_usd for estimate, _ in found if estimate.cost)
    return float(expected / sum(result.cost.settled_usd for _, result in found)) - 1


def test_the_80_percent_interval_covers_what_runs_cost(tmp_path: Path) -> None:
    """Nominal is 80 %: 75 to 88 % must hold. Before the record, the public priors are three times too high."""
    database = new_ledger(tmp_path / "ledger.db")
    chance = random.Random(7)
    tasks = [task_of(number, chance) for number in range(RUNS)]
    with SandboxThread(Sandbox()) as server:
        pair = {"policy": "fixed", "orchestrator": "gpt-4.1", "worker": "deepseek-v3.2"}
        more = {"configurations": {"pair": pair}, "default_configuration": "pair", "forecast": {"learn": False}}
        settings = settings_for(server.base_url, database, **more)
        first = asyncio.run(measured(settings, tasks[: RUNS // 2], NO_EXPERIENCE))
        with open_ledger(database) as ledger:
            experience = ledger.run_reader.experience(time.time_ns() // 1000 + SETTLING_US + 1_000_000, 30)
        second = asyncio.run(measured(settings, tasks[RUNS // 2 :], experience))

    covered = held_share(second)
    print(f"80 % interval of the cost of {len(second)} runs: held {covered:.1%}, bias {bias(second):+.1%}")
    assert bias(first) > 1
    assert abs(bias(second)) < 0.05
    assert 0.75 <= covered <= 0.88
