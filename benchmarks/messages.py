"""What a message and a state write cost, beside the disk's own commit and a queue that commits each row.

    python -m benchmarks.messages [messages] [rounds]     (from the project's root)

One after the other: `publish` and `state.put`, each durable when it returns, beside bare commits of one short row that
are interleaved with them: the disk of the moment is the same for all. In batches: `publish_many`, beside a plain table
that commits each row, and what four subscribers take and acknowledge. Answers are checked: every subscriber has every
message once, in the one order, and the state has the last value.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.disk import commit_times
from router.messages import Board, Draft

BATCH = 500
SUBSCRIBERS = 4
BODY = {"step": "s12", "status": "done", "text": "x" * 200}


def p99(times: list[float]) -> float:
    """Return the 99th percentile, in the unit of the times."""
    return sorted(times)[int(len(times) * 0.99) - 1]


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    """Return how long an act takes, seconds."""
    begun = time.perf_counter()
    await act()
    return time.perf_counter() - begun


async def one_by_one(board: Board, folder: Path, key: str, count: int) -> dict[str, list[float]]:
    """Return the times of publishes, state writes and bare commits, seconds, taken in turn."""
    times: dict[str, list[float]] = {"bare commit": [], "publish": [], "state write": []}
    bare = commit_times(folder / "bare.db")
    version: int | None = None

    async def put() -> None:
        nonlocal version
        version = await board.state.put(key, len(times["state write"]), version)

    for _ in range(count):
        times["bare commit"].append(next(bare))
        times["publish"].append(await timed(lambda: board.publish("one", BODY, sender="a")))
        times["state write"].append(await timed(put))
    bare.close()
    entry = await board.state.get(key)
    assert entry is not None
    assert entry.value == count - 1
    return times


async def in_batches(board: Board, topic: str, count: int) -> tuple[float, float]:
    """Return messages a second published in batches, and deliveries a second to subscribers who acknowledge them."""
    begun = time.perf_counter()
    for first in range(0, count, BATCH):
        await board.publish_many(Draft(topic, {**BODY, "n": n}, sender="a") for n in range(first, first + BATCH))
    published_s = time.perf_counter() - begun

    async def take(name: str) -> list[int]:
        found: list[int] = []
        async with board.subscribe(topic, name) as subscription:
            while len(found) < count:
                messages = await subscription.take(BATCH)
                await subscription.ack(*messages)
                found += [message.body["n"] for message in messages]
        return found

    begun = time.perf_counter()
    taken = await asyncio.gather(*(take(f"s{number}") for number in range(SUBSCRIBERS)))
    taken_s = time.perf_counter() - begun
    assert all(each == list(range(count)) for each in taken)
    return count / published_s, SUBSCRIBERS * count / taken_s


def a_commit_a_row(path: Path, count: int) -> float:
    """Return messages a second of a plain table with a number a row, each row committed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS queue (number INTEGER PRIMARY KEY, body TEXT)")
    begun = time.perf_counter()
    for _ in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO queue (body) VALUES (?)", ("x" * 260,))
        connection.execute("COMMIT")
    rate = count / (time.perf_counter() - begun)
    connection.close()
    return rate


async def main(count: int, rounds: int) -> None:
    """Measure, and print medians over the rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Board(f"sqlite:///{folder}/ledger.db") as board:
            await board.publish("one", BODY)
            ratios: dict[str, list[float]] = {}
            rates: dict[str, list[float]] = {"published": [], "taken": [], "a commit a row": []}
            for number in range(rounds):
                times = await one_by_one(board, folder, f"round {number}", 400)
                for way, of in times.items():
                    ratios.setdefault(way, []).append(p99(of) / p99(times["bare commit"]))
                    middle, high = statistics.median(of) * 1000, p99(of) * 1000
                    print(f"{way:<14} median {middle:6.2f} ms   p99 {high:6.2f} ms")
                published, taken = await in_batches(board, f"many {number}", count)
                rates["published"].append(published)
                rates["taken"].append(taken)
                rates["a commit a row"].append(a_commit_a_row(folder / "plain.db", 500))
    print(f"medians of {rounds} rounds:")
    for way, each in ratios.items():
        print(f"{way:<14} p99 is {statistics.median(each):5.2f} × that of a bare commit")
    for way, each in rates.items():
        print(f"{way:<14} {statistics.median(each):9,.0f} messages/s")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5))
