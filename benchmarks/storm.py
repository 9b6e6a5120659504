"""1,500 calls at an endpoint that takes 20 at once and 150 a second, beside two usual ways of trying again.

    python -m benchmarks.storm [calls] [rounds]     (from the project's root)

The stand-in server runs in a process of its own; nobody is told its limits, but for `told`, which is the best that this
machine can do now: 20 workers over the bare endpoint, spaced to 150 a second. `gate` is the router's gate before the
bare endpoint, `router` the whole of `Router.route`, ledger included; the others are 100 workers over the bare endpoint,
each with its own retries: exponential back-off with full jitter (AWS Architecture Blog, 2015), and the server's
`Retry-After`, worker by worker. Answers are counted first. The clock runs from the first call to the last answer; the
ledger, a new file each time, is open by then. Medians of the rounds, all ways in turn.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.client import Router
from router.endpoints import open_endpoint
from router.endpoints.protocol import Endpoint, WireRequest
from router.errors import EndpointError, RouterError
from router.limits import Gate
from router.settings import EndpointSettings, Settings

ROUTER = str(Path(sys.executable).with_name("router"))
TAKES, PER_S, RETRY_AFTER_S = 20, 150, 0.5
WORKERS, TRIES = 100, 6
MODEL = "gpt-4.1"
Way = Callable[[str, int], Coroutine[Any, Any, tuple[float, int]]]
"""Makes so many calls at an address; wall seconds, and calls that failed."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What came of one way: wall seconds, requests refused of those sent, calls that failed."""

    wall_s: float
    refused: int
    sent: int
    failed: int


async def timed(calls: Iterable[Coroutine[Any, Any, None]]) -> float:
    """Make calls together; return how long that took, seconds."""
    begun = time.perf_counter()
    await asyncio.gather(*calls)
    return time.perf_counter() - begun


async def through_router(url: str, calls: int) -> tuple[float, int]:
    """Go through a router; the limit's course is kept in `COURSE`."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate(
            {
                "database": {"url": f"sqlite:///{folder}/ledger.db"},
                "endpoints": {"sandbox": {"base_url": url, "price_list": "openai", "concurrency": WORKERS}},
                "configurations": {"one": {"policy": "fixed", "orchestrator": MODEL, "worker": MODEL}},
                "default_configuration": "one",
            }
        )
        async with Router(settings, environ={}) as router:
            await router.board()  # opens ledger and endpoints

            async def one(number: int) -> None:
                nonlocal failed
                try:
                    await router.route(f"task {number}", plan="never")
                except RouterError:
                    failed += 1

            wall_s = await timed(one(number) for number in range(calls))
            COURSE[:] = [(point.at_s, point.limit) for point in router.gates()["sandbox"].course]
    return wall_s, failed


COURSE: list[tuple[float, int]] = []


def bare(url: str) -> Endpoint:
    """Return the endpoint without anything before it."""
    return open_endpoint("sandbox", EndpointSettings(base_url=url, concurrency=WORKERS), {})


def request(number: int) -> WireRequest:
    """Return one call's request."""
    return WireRequest(MODEL, [{"role": "user", "content": f"task {number}"}])


async def told(url: str, calls: int) -> tuple[float, int]:
    """Keep to the limits from the start."""
    from aiolimiter import AsyncLimiter

    endpoint, places, pace = bare(url), asyncio.Semaphore(TAKES), AsyncLimiter(1, 1.01 / PER_S)
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        async with places:
            await pace.acquire()
            try:
                await endpoint.send(request(number))
            except EndpointError:
                failed += 1

    wall_s = await timed(one(number) for number in range(calls))
    await endpoint.aclose()
    return wall_s, failed


async def through_gate(url: str, calls: int) -> tuple[float, int]:
    """Go through a gate."""
    endpoint, gate = bare(url), Gate(WORKERS)
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        for _ in range(TRIES):
            async with gate.slot() as place:
                try:
                    await endpoint.send(request(number))
                except EndpointError as error:
                    gate.refused(place, error.retry_after_s)
                else:
                    gate.answered(place)
                    return
        failed += 1

    wall_s = await timed(one(number) for number in range(calls))
    await endpoint.aclose()
    return wall_s, failed


def by_itself(wait_s: Callable[[EndpointError, int], float]) -> Way:
    """Return the way in which each worker waits for itself."""

    async def way(url: str, calls: int) -> tuple[float, int]:
        endpoint, places, failed = bare(url), asyncio.Semaphore(WORKERS), 0

        async def one(number: int) -> None:
            nonlocal failed
            async with places:
                for attempt in range(TRIES):
                    try:
                        await endpoint.send(request(number))
                    except EndpointError as error:
                        await asyncio.sleep(wait_s(error, attempt))
                    else:
                        return
            failed += 1

        wall_s = await timed(one(number) for number in range(calls))
        await endpoint.aclose()
        return wall_s, failed

    return way


WAYS: dict[str, Way] = {
    "told": told,
    "gate": through_gate,
    "router": through_router,
    "full jitter": by_itself(lambda _, attempt: random.random() * min(8.0, 0.5 * 2.0**attempt)),
    "Retry-After per worker": by_itself(lambda error, _: error.retry_after_s or 0.5),
}


def _ask(url: str, path: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(url.removesuffix("/v1") + path, body) as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())


def once(url: str, way: Way, calls: int, latency_ms: int) -> Storm:
    """Run one way on a server that has forgotten all before."""
    _ask(url, "/sandbox/reset", b"")
    fault: dict[str, Any] = {"max_in_flight": TAKES, "max_per_s": PER_S, "retry_after_s": RETRY_AFTER_S}
    _ask(url, "/sandbox/faults", json.dumps({"*": {**fault, "latency_ms": latency_ms}}).encode())
    wall_s, failed = asyncio.run(way(url, calls))
    log = [json.loads(line) for line in _ask(url, "/sandbox/log").splitlines()]
    assert sum(entry["status"] == 200 for entry in log) == calls - failed
    return Storm(wall_s, sum(entry["status"] == 429 for entry in log), len(log), failed)


def main(calls: int, rounds: int) -> None:
    """Run all ways in turn, print their medians, and the course of the limit in the last round."""
    server = subprocess.Popen([ROUTER, "sandbox", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for latency_ms in (130, 100):
            ideal_s = calls / min(PER_S, TAKES * 1000 / latency_ms)
            print(f"\n{calls} calls, {TAKES} at once, {PER_S}/s, {latency_ms} ms each; ideal {ideal_s:.1f} s")
            storms: dict[str, list[Storm]] = {name: [] for name in WAYS}
            for _ in range(rounds):
                for name, way in WAYS.items():
                    storms[name].append(once(url, way, calls, latency_ms))
            for name, each in storms.items():
                wall_s = statistics.median(storm.wall_s for storm in each)
                refused = statistics.median(storm.refused for storm in each)
                share = statistics.median(storm.refused / storm.sent for storm in each)
                failed = statistics.median(storm.failed for storm in each)
                print(
                    f"{name:<24} {wall_s:6.2f} s  {wall_s / ideal_s - 1:+6.1%} of the ideal"
                    f"  {refused:6.0f} 429s ({share:5.1%})  {failed:4.0f} failed"
                )
            print("limit:", " ".join(f"{at_s:.1f}s:{limit}" for at_s, limit in COURSE[:: max(1, len(COURSE) // 40)]))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(*(int(text) for text in [*sys.argv[1:3], "1500", "3"][:2]))
