"""Processes that die: every answer stays with its step, nothing finished is paid again, what was in flight is listed.

The calls are counted in the stand-in server's own log.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from router.endpoints.sandbox import Fault
from router.errors import RunHeld
from router.ledger import Ledger
from router.ledger.records import AttemptRow
from router.result import Result
from tests.router.killed import Runners

Make = Callable[..., Any]
WORK = "Build it."
STEPS = [
    {
        "id": f"s{number}",
        "prompt": f"describe part {number} of the building",
        "depends_on": [f"s{need}" for need in {(number - 1) // 2, number - 3} if 0 <= need < number and number > 2],
    }
    for number in range(20)
]
"""20 steps, three of them free at first, each of the others with one or two it needs."""
SWARM = {"concurrency": 4}


@pytest.fixture(scope="module")
def runners() -> Iterator[Runners]:
    """Return what starts processes that can be killed."""
    with Runners() as started:
        yield started


async def until(is_so: Callable[[], bool], timeout_s: float = 30) -> None:
    """Wait until something is so, looking often."""
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await asyncio.sleep(0.002)


def rows_of(ledger: Ledger, known: frozenset[str] = frozenset()) -> tuple[AttemptRow, ...]:
    """Return every attempt on record, but for those of runs that are known."""
    runs = [run.started.run_id for run in ledger.reader.runs(0, 2**62)]
    return tuple(row for run_id in runs if run_id not in known for row in ledger.reader.attempts(run_id))


def texts(result: Result) -> dict[str, str]:
    """Return the answers by step."""
    assert {step.status for step in result.steps} == {"succeeded"}
    return {step.step_id: step.text for step in result.steps}


@pytest.mark.parametrize("seed", range(4))
async def test_law_killed_anywhere_a_graph_goes_on_without_paying_twice(
    bench: Make, runners: Runners, seed: int
) -> None:
    """Five kills each, at points drawn from the seed: after so many requests, and up to 40 ms more.

    A run without a key is resumed by its id. Each answer is what one undisturbed run has for the step, by the law of
    the stand-in server that its answer depends on model and prompt alone, so a step's answer vouches for its needs'.
    """
    chance = random.Random(seed)
    made = bench({"*": Fault(latency_ms=15, jitter_ms=15)}, swarm=SWARM)
    async with made.router as router, made.ledger() as ledger:
        undisturbed = texts(await router.route(WORK, steps=STEPS, merge=False))
        requests = len(made.requests)
        assert requests == 20
        known = frozenset(row.started.run_id or "" for row in rows_of(ledger))
        for kill in range(5):
            task = {"work": WORK, "steps": STEPS, "merge": False} | ({"run_key": f"k{kill}"} if kill % 2 else {})
            process = runners.start(made.server.base_url, made.database, task, swarm=SWARM)
            after, more_s = chance.randrange(0, 21), chance.random() * 0.04
            await until(lambda: len(made.requests) >= requests + after)  # noqa: B023 — waited for here
            await asyncio.sleep(more_s)
            os.kill(process, signal.SIGKILL)
            runners.wait(process)
            await until(lambda: all(each.client_stayed is not None for each in made.requests))
            before = rows_of(ledger, known)
            sent = len(made.requests)
            finished = {row.started.call_key for row in before if row.ended and row.ended.status == "succeeded"}
            flying = {row.started.attempt_id for row in before if row.ended is None}
            if before:
                run_id = before[0].started.run_id or ""
                result = await (router.resume(run_id) if kill % 2 == 0 else router.route(**task))
                assert result.run_id == run_id
            else:  # it died before its first request was on record: there is nothing to go on with
                result = await router.route(**task)

            assert texts(result) == undisturbed
            rows = rows_of(ledger, known)
            assert len(made.requests) - sent == 20 - len(finished)
            assert Counter(row.started.call_key for row in rows if row.started.call_key in finished) == dict.fromkeys(
                finished, 1
            )
            assert {row.started.attempt_id for row in rows if row.ended is None} == flying
            listed = [warning for warning in result.warnings if warning.startswith("possibly billed before")]
            assert len(listed) == (0 if result.replayed else len(flying))
            known |= {row.started.run_id or "" for row in rows}
            requests = len(made.requests)


async def test_w5_of_two_processes_with_one_key_only_one_calls(bench: Make, runners: Runners) -> None:
    made = bench({"*": Fault(latency_ms=150)}, swarm=SWARM)
    task = {"work": WORK, "steps": STEPS, "merge": False, "run_key": "k"}
    process = runners.start(made.server.base_url, made.database, task, swarm=SWARM)
    await until(lambda: len(made.requests) >= 2)
    async with made.router as router, made.ledger() as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
        with pytest.raises(RunHeld, match=rf"run key 'k': its run .* is going, held by .*/{process}"):
            await router.route(**task)
        with pytest.raises(RunHeld, match=rf"run {run.started.run_id} is going, held by .*/{process}"):
            await router.resume(run.started.run_id)
        assert runners.wait(process) == 0
        assert len(made.requests) == 20
        again = await router.route(**task)

    assert again.replayed
    assert len(texts(again)) == 20
    assert len(made.requests) == 20


async def test_a_run_is_killed_again_and_again_and_still_pays_once(bench: Make, runners: Runners) -> None:
    """Five processes in a row, each killed after three more answers; each step's answer is paid once."""
    made = bench({"*": Fault(latency_ms=15, jitter_ms=10)}, swarm={"concurrency": 2})
    task = {"work": WORK, "steps": STEPS, "merge": False, "run_key": "k"}
    for _ in range(5):
        sent = len(made.requests)
        process = runners.start(made.server.base_url, made.database, task, swarm={"concurrency": 2})
        await until(lambda: len(made.requests) >= sent + 4)  # noqa: B023 — waited for here
        os.kill(process, signal.SIGKILL)
        runners.wait(process)
    async with made.router as router, made.ledger() as ledger:
        result = await router.route(**task)
        rows = rows_of(ledger)

    assert len(texts(result)) == 20
    paid = Counter(row.started.call_key for row in rows if row.ended and row.ended.status == "succeeded")
    assert set(paid.values()) == {1}
    assert len(paid) == 20
    flew = sum(row.ended is None for row in rows)
    assert 20 <= len(made.requests) <= 20 + flew
    assert sum(warning.startswith("possibly billed before") for warning in result.warnings) == flew
