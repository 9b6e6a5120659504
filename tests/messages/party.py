"""Processes that publish, subscribe or add: `python -m tests.messages.party` starts one for each line it reads.

A line is a JSON list of URL, folder and job, answered by the process's id; or an id, answered by its exit status once
it has ended. All are forked from one that has everything loaded and nothing open. What a subscriber is given and has
acknowledged stands in a file of its own, a line each, written at once: it survives a kill of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import router.ledger.bell
import router.ledger.message_read
import router.ledger.migrate
import router.ledger.reader
import router.ledger.writer  # noqa: F401 - loaded once, for all
from router.ledger.database import make_engine, parse_url
from router.messages import Board, Draft, Message

BATCH = 50
LONGEST_S = 60
"""Longest that a process works: where others have died, what it waits for never comes."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one process does: the writers' names, the subscribers' names, messages a writer, topics; additions."""

    writers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    each: int = 0
    total: int = 0
    topics: tuple[str, ...] = ("t0", "t1")
    additions: int = 0


async def write(board: Board, name: str, job: Job) -> None:
    """Publish a writer's messages, on the topics in turn; each has a key, so that a second go adds none."""
    numbers = range(job.each)
    drafts = [Draft(job.topics[n % len(job.topics)], [name, n], sender=name, key=f"{name} {n}") for n in numbers]
    for first in range(0, job.each, BATCH):
        await board.publish_many(drafts[first : first + BATCH])


def lines(word: str, messages: tuple[Message, ...]) -> bytes:
    return "".join(f"{word} {each.topic} {each.seq} {each.id}\n" for each in messages).encode()


async def subscribe(board: Board, name: str, job: Job, folder: Path) -> None:
    """Take all messages of all topics, and acknowledge them."""
    file = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen: dict[str, int] = dict.fromkeys(job.topics, 0)
    async with board.subscribe(job.topics, name) as subscription:
        while sum(seen.values()) < job.total:
            messages = await subscription.take(100, timeout_s=1)
            if not messages:  # nobody has published, or all was acknowledged before it was opened
                last = await asyncio.to_thread(board.ledger.messages.last_seqs, job.topics)
                if sum(last.values()) == job.total:
                    break
                continue
            os.write(file, lines("got", messages))
            await subscription.ack(*messages)
            os.write(file, lines("acked", messages))
            seen.update((each.topic, each.seq) for each in messages)
    os.close(file)


async def add(board: Board, job: Job) -> None:
    for _ in range(job.additions):
        await board.state.update("sum", lambda value: (value or 0) + 1)


async def work(url: str, folder: Path, job: Job) -> None:
    async with asyncio.timeout(LONGEST_S), Board(url) as board:
        await asyncio.gather(
            *(write(board, name, job) for name in job.writers),
            *(subscribe(board, name, job, folder) for name in job.subscribers),
            add(board, job),
        )


def fork(url: str, folder: str, job: dict[str, Any]) -> int:
    """Start a process of its own for a job; return its id."""
    if child := os.fork():
        return child
    status = 1
    try:
        asyncio.run(work(url, Path(folder), Job(**job)))
        status = 0
    except BaseException:  # noqa: BLE001 - the child ends here, and its parent must not go on in it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for url in ("sqlite:///never-opened.db", "postgresql://localhost/x"):
        make_engine(parse_url(url)).dialect  # noqa: B018 - its driver is loaded
    for line in sys.stdin:
        told = json.loads(line)
        answer = fork(*told) if isinstance(told, list) else os.waitpid(told, 0)[1]
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
