"""Fifty tool calls at once over three stdio MCP servers whose tool takes 20 ms: how long each takes.

Three ways, one after the other in every repetition, against servers that cost next to nothing (see servers/sleeper.py),
the answers compared first: the package's own client called directly; our toolbox; and our toolbox with the two rows of
each call committed to a ledger (SQLite, synchronous=FULL). The target is p95 <= 60 ms with none mixed up, on a machine
with nothing else to do. The medians of the repetitions are printed, with the processor time that all fifty calls took
in this process and the time that a bare commit takes on this disk.

Run: python -m benchmarks.tools [repetitions]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from mcp import Client, StdioServerParameters

from benchmarks.disk import bare_commit_s
from router.ledger import new_id, open_ledger
from router.ledger.records import RunStarted
from router.ledger.tool_records import ToolCallEnded, ToolCallStarted
from router.settings import Settings
from router.tools import Toolbox
from router.tools.approval import LOCK_NAME, approval, lock_text
from router.tools.kit import Kit, Ready

CALLS, SERVERS, TOOL_MS = 50, 3, 20
SERVER = Path(__file__).parent / "servers" / "sleeper.py"
Call = Callable[[int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Times:
    """How long fifty calls took, milliseconds.

    Args:
        each: each call, in order of size.
        whole: all of them.
        processor: of this process, meanwhile.
    """

    each: Sequence[float]
    whole: float
    processor: float


async def timed(call: Call) -> Times:
    """Make all calls at once; return how long they took."""
    took: list[float] = []

    async def one(number: int) -> None:
        begun = time.perf_counter()
        answer = await call(number)
        took.append((time.perf_counter() - begun) * 1000)
        assert answer == f"s{number % SERVERS} n{number}", answer

    begun, begun_processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(CALLS)))
    whole, processor = time.perf_counter() - begun, time.process_time() - begun_processor
    return Times(sorted(took), whole * 1000, processor * 1000)


def direct(clients: Sequence[Client]) -> Call:
    """Return a call of the package's own client."""

    async def call(number: int) -> str:
        result = await clients[number % SERVERS].call_tool("work", {"text": f"n{number}"})
        return str(getattr(result.content[0], "text", ""))

    return call


def ours(kit: Kit, started: Callable[[int, int], Awaitable[None]], ended: Callable[[int], Awaitable[None]]) -> Call:
    """Return a call of our kit, arguments as a model writes them."""

    async def call(number: int) -> str:
        async def start(queue_us: int) -> None:
            await started(number, queue_us)

        ready = kit.prepared(f"s{number % SERVERS}__work", json.dumps({"text": f"n{number}"}))
        assert isinstance(ready, Ready)
        answer = await kit.call(ready, None, start)
        await ended(number)
        return answer.told.text

    return call


async def measured(folder: Path, repetitions: int) -> None:
    """Measure the three ways and print their medians."""
    names = [f"s{number}" for number in range(SERVERS)]
    arguments = {name: ["-I", "-S", str(SERVER), name, str(TOOL_MS)] for name in names}
    more = {"command": sys.executable, "allow": ["*"], "concurrency": CALLS}
    servers = {name: {"args": arguments[name], **more} for name in names}
    settings = Settings.model_validate({"source": folder / "router.toml", "tools": {"servers": servers}})
    toolbox = Toolbox(settings, os.environ)
    offered = [each for name in servers for each in await toolbox.offered(name)]
    (folder / LOCK_NAME).write_text(lock_text(map(approval, offered)))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(toolbox.aclose)
        clients = [
            await stack.enter_async_context(Client(StdioServerParameters(command=sys.executable, args=arguments[name])))
            for name in servers
        ]
        kit = await stack.enter_async_context(toolbox.kit([f"{name}__*" for name in servers]))
        assert kit is not None
        ledger = stack.enter_context(open_ledger(f"sqlite:///{folder / 'ledger.db'}"))
        run_id, ids = new_id(), [""] * CALLS
        await ledger.write(RunStarted(run_id, "bench", "1", 1))

        async def nothing(*_: object) -> None:
            pass

        async def started(number: int, queue_us: int) -> None:
            ids[number] = new_id()
            server = f"s{number % SERVERS}"
            await ledger.write(
                ToolCallStarted(ids[number], run_id, ids[number], 0, server, "work", 1, 14, queue_us=queue_us)
            )

        async def ended(number: int) -> None:
            await ledger.write(ToolCallEnded(ids[number], "succeeded", 20_000, 6))

        ways: dict[str, Call] = {
            "the package's client": direct(clients),
            "our toolbox": ours(kit, nothing, nothing),
            "our toolbox, rows committed": ours(kit, started, ended),
        }
        found: dict[str, list[Times]] = {name: [] for name in ways}
        for turn in range(repetitions + 1):
            for name, call in ways.items():
                result = await timed(call)
                if turn:  # the first round warms up
                    found[name].append(result)
    print(f"{CALLS} calls at once over {SERVERS} stdio servers, a tool of {TOOL_MS} ms; medians of {repetitions}, ms")
    print(f"{'':30}{'p50':>8}{'p95':>8}{'all':>8}{'processor':>12}")
    for name, results in found.items():
        p50 = statistics.median(times.each[CALLS // 2] for times in results)
        p95 = statistics.median(times.each[int(CALLS * 0.95)] for times in results)
        whole = statistics.median(times.whole for times in results)
        processor = statistics.median(times.processor for times in results)
        print(f"{name:30}{p50:8.1f}{p95:8.1f}{whole:8.1f}{processor:12.1f}")
    print(f"a bare commit on this disk: {bare_commit_s(folder) * 1000:.2f} ms; none mixed up")


def main() -> None:
    """Run it in a folder of its own."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory(prefix="farebox-bench-") as folder:
        asyncio.run(measured(Path(folder), repetitions))


if __name__ == "__main__":
    main()
