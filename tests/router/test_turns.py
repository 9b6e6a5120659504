"""Turns: of many who begin at once, a few a pass of the event loop."""

from __future__ import annotations

import asyncio
import time

from router.turns import A_PASS, REST_S, Turns


async def test_many_begin_in_order_and_what_is_ready_is_done_in_between() -> None:
    """Eight a pass: who is ready after them comes before the ninth."""
    turns, begun = Turns(), []

    async def one(name: str) -> None:
        await turns.take()
        begun.append(name)

    names = [str(number) for number in range(20)]
    tasks = [asyncio.create_task(one(name)) for name in names]
    tasks.append(asyncio.create_task(_noted(begun)))
    await asyncio.gather(*tasks)
    assert [name for name in begun if name != "other"] == names
    assert begun.index("other") == A_PASS


async def _noted(begun: list[str]) -> None:
    begun.append("other")


async def test_one_alone_does_not_wait_and_one_who_left_takes_no_turn() -> None:
    turns = Turns()
    for _ in range(3):
        await asyncio.wait_for(turns.take(), 0.1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    tasks = [asyncio.create_task(turns.take()) for _ in range(3 * A_PASS)]
    await asyncio.sleep(0)
    for task in tasks[A_PASS : 2 * A_PASS]:
        task.cancel()
    await asyncio.wait(tasks, timeout=1)
    assert [task.cancelled() for task in tasks] == [False] * A_PASS + [True] * A_PASS + [False] * A_PASS
    async with asyncio.timeout(1):
        while turns._is_passing:  # noqa: SLF001 — nobody waits, and nothing runs on
            await asyncio.sleep(REST_S)
    assert turns._left == A_PASS  # noqa: SLF001


async def test_between_two_passes_other_threads_have_a_moment() -> None:
    """Passes that follow each other at once would keep the interpreter from the ledger's thread for 5 ms at a time."""
    turns = Turns()
    begun = time.perf_counter()
    async with asyncio.timeout(5):
        await asyncio.gather(*(turns.take() for _ in range(5 * A_PASS)))
    assert time.perf_counter() - begun >= 4 * REST_S


def test_a_loop_that_ends_between_two_passes_leaves_nobody_waiting() -> None:
    turns = Turns()
    for _ in range(2 * A_PASS):
        asyncio.run(asyncio.wait_for(turns.take(), 5))
