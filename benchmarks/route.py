"""What one call through `aroute` costs this process, beside bare aiohttp and litellm on the same stand-in server.

    python -m benchmarks.route [calls]     (from the project's root)

The answers are checked first: each way gets the same text, and the ledger has one row a call. Times are CPU seconds of
this process (the server is another one), medians of several rounds taken in turns.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from router.client import Router
from router.ledger import open_ledger
from router.settings import Settings

ROUTER = str(Path(sys.executable).with_name("router"))
CONCURRENCY = 8
ROUNDS = 5
MODEL = "gpt-4.1"
Call = Callable[[str], Awaitable[str]]


def settings_for(url: str, database: str) -> Settings:
    """Return settings whose only endpoint is the stand-in server."""
    return Settings.model_validate(
        {
            "database": {"url": database},
            "endpoints": {"sandbox": {"base_url": url, "price_list": "openai", "concurrency": CONCURRENCY}},
            "configurations": {"one": {"policy": "fixed", "orchestrator": MODEL, "worker": MODEL}},
            "default_configuration": "one",
        }
    )


def litellm_call(url: str) -> Call:
    """Return a call through `litellm.acompletion`, with its own retries off."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    async def call(text: str) -> str:
        answer: Any = await litellm.acompletion(
            model=f"openai/{MODEL}",
            api_base=url,
            api_key="none",
            max_retries=0,
            messages=[{"role": "user", "content": text}],
        )
        return str(answer.choices[0].message.content)

    return call


def aiohttp_call(url: str, session: aiohttp.ClientSession) -> Call:
    """Return a bare call: one POST, one JSON answer."""

    async def call(text: str) -> str:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            return str((await response.json())["choices"][0]["message"]["content"])

    return call


async def cpu_ms(call: Call, calls: int) -> float:
    """Return the CPU time a call, milliseconds, over `calls` calls at the benchmark's concurrency."""
    places = asyncio.Semaphore(CONCURRENCY)

    async def one(number: int) -> None:
        async with places:
            await call(f"task {number}")

    begun = time.process_time()
    await asyncio.gather(*(one(number) for number in range(calls)))
    return (time.process_time() - begun) / calls * 1000


async def measure(url: str, database: str, calls: int) -> dict[str, float]:
    """Return the median CPU time a call of each way, milliseconds."""
    async with Router(settings_for(url, database), environ={}) as router, aiohttp.ClientSession() as session:

        async def routed(text: str) -> str:
            return (await router.route(text, plan="never")).text

        ways: dict[str, Call] = {
            "aiohttp": aiohttp_call(url, session),
            "aroute": routed,
            "litellm.acompletion": litellm_call(url),
        }
        answers = {name: await call("What is a receipt?") for name, call in ways.items()}
        assert len(set(answers.values())) == 1, answers
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, call in ways.items():
                times[name].append(await cpu_ms(call, calls))
    return {name: statistics.median(each) for name, each in times.items()}


def main(calls: int) -> None:
    """Measure and print each way's CPU time a call, and what it adds to bare aiohttp."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/ledger.db"
        server = subprocess.Popen([ROUTER, "sandbox", "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            medians = asyncio.run(measure(server.stdout.readline().strip(), database, calls))
        finally:
            server.terminate()
            server.wait()
        with open_ledger(database) as ledger:
            (group,) = ledger.reader.usage_groups(0, 2**62)
        assert group.sums["attempts"] == calls * ROUNDS + 1
    bare = medians["aiohttp"]
    for name, median in medians.items():
        print(f"{name:<20} {median:6.2f} ms CPU a call  + {median - bare:5.2f} over aiohttp")
    added = (medians["litellm.acompletion"] - bare) / (medians["aroute"] - bare)
    print(f"litellm.acompletion adds {added:.1f} × what aroute adds, which also prices the call and keeps its row")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
