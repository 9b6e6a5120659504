"""What one call through `aroute` costs this process, beside bare aiohttp and litellm on the same stand-in server.

    python -m benchmarks.route [calls]     (from the project's root)

The answers are checked first: each way gets the same text, and the ledger has one row a call. Times are CPU seconds of
this process, the ledger's writing thread included (the server is another process); each round measures every way, so
that what else the machine does meets all of them, and what is printed are medians over the rounds. The ledger is a
SQLite file at synchronous=FULL. "request and rows" is the least that a recorded call can take here: the same request,
and the same four rows in the same two commits, with nothing decided, priced, checked or returned. With eight calls at
once commits are shared; one after another each call has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.disk import bare_commit_s
from pricing.usage import Usage
from router.client import Router
from router.endpoints import open_endpoint
from router.endpoints.protocol import Endpoint, WireRequest
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.records import AttemptEnded, AttemptStarted, RunEnded, RunStarted
from router.settings import Settings

ROUTER = str(Path(sys.executable).with_name("router"))
AT_ONCE = (8, 1)
ROUNDS = 15
MODEL = "gpt-4.1"
BARE, LEAST, OURS, LITELLM = "aiohttp", "request and rows", "aroute", "litellm.acompletion"
Call = Callable[[str], Awaitable[str]]
Times = Mapping[str, Sequence[float]]


def settings_for(url: str, database: str) -> Settings:
    """Return settings whose only endpoint is the stand-in server."""
    return Settings.model_validate(
        {
            "database": {"url": database},
            "endpoints": {"sandbox": {"base_url": url, "price_list": "openai", "concurrency": max(AT_ONCE)}},
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


def least_call(endpoint: Endpoint, ledger: Ledger) -> Call:
    """Return the request of `aroute` between the two commits of its four rows."""
    usage = Usage(uncached_input_tokens=10, plain_output_tokens=10)

    async def call(text: str) -> str:
        run_id, attempt_id, at_us = new_id(), new_id(), time.time_ns() // 1000
        run = RunStarted(run_id, "one", "1", at_us)
        attempt = AttemptStarted(attempt_id, attempt_id, 1, "one", "sandbox", "openai", MODEL, at_us, run_id)
        await ledger.write(run, attempt)
        answer = await endpoint.send(WireRequest(MODEL, ({"role": "user", "content": text},), {}))
        ended = AttemptEnded(attempt_id, "succeeded", "unknown", 1000, MODEL, usage=usage)
        await ledger.write(ended, RunEnded(run_id, "succeeded", time.time_ns() // 1000))
        return answer.text

    return call


async def cpu_ms(call: Call, calls: int, at_once: int) -> float:
    """Return the CPU time a call, milliseconds, over `calls` calls of which so many are made at once."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with places:
            await call(f"task {number}")

    begun = time.process_time()
    await asyncio.gather(*(one(number) for number in range(calls)))
    return (time.process_time() - begun) / calls * 1000


async def measure(url: str, database: str, least: Ledger, calls: int) -> dict[int, Times]:
    """Return the CPU time a call of each way in each round, milliseconds, by how many are made at once."""
    settings = settings_for(url, database)
    endpoint = open_endpoint("sandbox", settings.endpoints["sandbox"], {})
    async with (
        Router(settings, environ={}) as router,
        aiohttp.ClientSession() as session,
        contextlib.aclosing(endpoint),
    ):

        async def routed(text: str) -> str:
            return (await router.route(text, plan="never")).text

        ways: dict[str, Call] = {
            BARE: aiohttp_call(url, session),
            LEAST: least_call(endpoint, least),
            OURS: routed,
            LITELLM: litellm_call(url),
        }
        answers = {name: await call("What is a receipt?") for name, call in ways.items()}
        assert len(set(answers.values())) == 1, answers
        times: dict[int, dict[str, list[float]]] = {at_once: {name: [] for name in ways} for at_once in AT_ONCE}
        for _ in range(ROUNDS):
            for at_once, of in times.items():
                for name, call in ways.items():
                    of[name].append(await cpu_ms(call, calls, at_once))
    return {at_once: dict(of) for at_once, of in times.items()}


def main(calls: int) -> None:
    """Measure and print each way's CPU time a call, and what it adds to bare aiohttp."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/ledger.db"
        server = subprocess.Popen([ROUTER, "sandbox", "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            with open_ledger(f"sqlite:///{folder}/least.db") as least:
                found = asyncio.run(measure(server.stdout.readline().strip(), database, least, calls))
        finally:
            server.terminate()
            server.wait()
        with open_ledger(database) as ledger:
            (group,) = ledger.reader.usage_groups(0, 2**62)
        assert group.sums["attempts"] == calls * ROUNDS * len(AT_ONCE) + 1
        print(f"a bare commit on this disk takes {bare_commit_s(Path(folder)) * 1000:.2f} ms")
    for at_once, times in found.items():
        _print(at_once, times)


def _print(at_once: int, times: Times) -> None:
    print(f"\n{at_once} at once" if at_once > 1 else "\none after another")
    added = {name: _median_more(times[name], times[BARE]) for name in times}
    for name, of in times.items():
        print(f"{name:<20} {statistics.median(of):6.2f} ms CPU a call  + {added[name]:5.2f} over {BARE}")
    print(f"{LITELLM} adds {added[LITELLM] / added[OURS]:.1f} × what {OURS} adds, which also keeps and prices the call")


def _median_more(of: Sequence[float], bare: Sequence[float]) -> float:
    """Return the median over the rounds of what a way takes more than the bare one did in the same round."""
    return statistics.median(each - other for each, other in zip(of, bare, strict=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
