"""What the runner adds to a swarm's wall time: 1,000 steps of 50 ms, a hundred at once, beside plain asyncio.gather.

    python -m benchmarks.runner [steps] [rounds]     (from the project's root)

Every way sends the same prompts to a stand-in server in a process of its own. The runner decides on a model for each
step, holds its cost, writes it down before it is sent and after it has ended (SQLite, synchronous=FULL) and prices it;
gather sends, and nothing else; "a commit a row" is gather that writes four rows a step down, each in a transaction of
its own, as a runner without group commit would; "gather and rows" is the least that a runner can take here: gather
whose calls stand between two commits of four rows, which all share, with nothing decided, held, priced or checked;
"gather, openai" is gather over that package's own client, as most swarms are written. Answers are checked: each step
has that of its own prompt, a few words long. "runner, streamed" is the runner with its own idle time-out: workers'
answers are streamed, so that silence is noticed, and read in lulls; the runner beside it does not stream, as gather
does not. An endpoint has to show that it takes a hundred calls at once, so the first round of the runner is printed
apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
from openai import AsyncOpenAI

from benchmarks.disk import bare_commit_s
from benchmarks.route import least_call
from router.client import Router
from router.endpoints import open_endpoint
from router.endpoints.protocol import Endpoint
from router.endpoints.sandbox.answers import ECHO_MARK
from router.ledger import Ledger, open_ledger
from router.settings import Settings

ROUTER = str(Path(sys.executable).with_name("router"))
AT_ONCE = 100
STEP_MS = 50
ROWS_A_STEP = 4
MODEL = "gpt-4.1"
Way = Callable[[list[str]], Awaitable[list[str]]]


def settings_for(url: str, database: str, *, streamed: bool = False) -> Settings:
    """Return settings whose only endpoint is the stand-in server; streamed: with the idle time-out of the settings."""
    swarm: dict[str, int] = {"concurrency": AT_ONCE, "max_steps": 10_000}
    return Settings.model_validate(
        {
            "database": {"url": database},
            "endpoints": {"sandbox": {"base_url": url, "price_list": "openai", "concurrency": AT_ONCE}},
            "configurations": {"one": {"policy": "fixed", "orchestrator": MODEL, "worker": MODEL}},
            "default_configuration": "one",
            "swarm": swarm if streamed else {**swarm, "idle_timeout_s": 0},
        }
    )


def runner(router: Router) -> Way:
    """Return the runner: the prompts are the steps of one task."""

    async def run(prompts: list[str]) -> list[str]:
        steps = [{"id": str(number), "prompt": prompt} for number, prompt in enumerate(prompts)]
        result = await router.route("Do every step.", steps=steps, merge=False)
        assert result.status == "succeeded", result.warnings
        return [step.text for step in result.steps]

    return run


def gather(url: str, session: aiohttp.ClientSession, note: Callable[[], Awaitable[None]] | None = None) -> Way:
    """Return bare calls, so many at once; `note` is awaited for every row before and after each; None: nothing is."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(prompt: str) -> str:
        async with places:
            for _ in range(ROWS_A_STEP // 2 if note else 0):
                await note()  # type: ignore[misc]
            body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
            async with session.post(f"{url}/chat/completions", json=body) as response:
                text = str((await response.json())["choices"][0]["message"]["content"])
            for _ in range(ROWS_A_STEP // 2 if note else 0):
                await note()  # type: ignore[misc]
            return text

    async def run(prompts: list[str]) -> list[str]:
        return list(await asyncio.gather(*map(one, prompts)))

    return run


def gather_openai(client: AsyncOpenAI) -> Way:
    """Return calls through the vendor's own client, so many at once."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(prompt: str) -> str:
        async with places:
            answer = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": prompt}])
            return str(answer.choices[0].message.content)

    async def run(prompts: list[str]) -> list[str]:
        return list(await asyncio.gather(*map(one, prompts)))

    return run


def gather_with_rows(endpoint: Endpoint, ledger: Ledger) -> Way:
    """Return calls between the commits of their rows, so many at once: the least that a runner can take here."""
    places, call = asyncio.Semaphore(AT_ONCE), least_call(endpoint, ledger)

    async def one(prompt: str) -> str:
        async with places:
            return await call(prompt)

    async def run(prompts: list[str]) -> list[str]:
        return list(await asyncio.gather(*map(one, prompts)))

    return run


def one_by_one(path: Path, thread: ThreadPoolExecutor) -> Callable[[], Awaitable[None]]:
    """Return what commits one row of an attempt's size, in a transaction of its own."""

    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS t (number INTEGER PRIMARY KEY, text TEXT)")
        return connection

    connection = thread.submit(opened).result()

    def write() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (text) VALUES (?)", ("x" * 300,))
        connection.execute("COMMIT")

    async def note() -> None:
        await asyncio.get_running_loop().run_in_executor(thread, write)

    return note


async def measure(url: str, folder: Path, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the wall times of each way in each round, seconds."""
    times: dict[str, list[float]] = {}
    with ThreadPoolExecutor(1) as thread, contextlib.ExitStack() as stack:
        settings = settings_for(url, f"sqlite:///{folder}/ledger.db")
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        streaming = settings_for(url, f"sqlite:///{folder}/streamed.db", streamed=True)
        async with (
            Router(settings, environ={}) as router,
            Router(streaming, environ={}) as streamer,
            aiohttp.ClientSession(connector=connector) as session,
            AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client,
            contextlib.aclosing(open_endpoint("sandbox", settings.endpoints["sandbox"], {})) as endpoint,
        ):
            least = stack.enter_context(open_ledger(f"sqlite:///{folder}/least.db"))
            note = one_by_one(folder / "rows.db", thread)
            ways = {
                "runner": runner(router),
                "runner, streamed": runner(streamer),
                "gather": gather(url, session),
                "gather and rows": gather_with_rows(endpoint, least),
                "a commit a row": gather(url, session, note),
                "gather, openai": gather_openai(client),
            }
            for number in range(rounds):
                prompts = [f"{ECHO_MARK}step {step} of round {number}" for step in range(steps)]
                answers: set[tuple[str, ...]] = set()
                for name, way in ways.items():
                    begun = time.perf_counter()
                    answers.add(tuple(await way(prompts)))
                    times.setdefault(name, []).append(time.perf_counter() - begun)
                assert answers == {tuple(prompt.removeprefix(ECHO_MARK) for prompt in prompts)}, "a wrong answer"
    return times


def main(steps: int, rounds: int) -> None:
    """Measure, and print each way's wall time and what it is of gather's."""
    fault = f"*:latency_ms={STEP_MS}"
    with tempfile.TemporaryDirectory() as name:
        command = [ROUTER, "sandbox", "--port", "0", "--fault", fault]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            times = asyncio.run(measure(server.stdout.readline().strip(), Path(name), steps, rounds))
        finally:
            server.terminate()
            server.wait()
        print(f"a bare commit on this disk takes {bare_commit_s(Path(name)) * 1000:.2f} ms")
    ideal = steps / AT_ONCE * STEP_MS / 1000
    print(f"{steps} steps of {STEP_MS} ms, {AT_ONCE} at once: {ideal:.2f} s if nothing else took any time")
    bare = statistics.median(times["gather"][1:])
    print(f"{'runner, first round':<20} {times['runner'][0]:6.2f} s")
    for way, of in times.items():
        wall = statistics.median(of[1:])
        print(f"{way:<20} {wall:6.2f} s   {wall / bare:5.2f} × gather")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 6)
