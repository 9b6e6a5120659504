"""Memory of a large batch: an answer is held once, and nothing else of a step stays."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

ANSWER_BYTES = 2000
FEW, MANY, JOBS = 200, 1200, 10_000
MOST_MB = 300

CHILD = """
import asyncio, re, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from router.client import Router
from tests.router.conftest import settings_for

async def main():
    swarm = {{"concurrency": 50, "max_steps": 10_000, "idle_timeout_s": 0}}
    settings = settings_for({url!r}, {database!r}, swarm=swarm)
    async with Router(settings, environ={{}}) as router:
        for count in ({few}, {many}):
            steps = [{{"id": f"s{{n}}", "prompt": f"job {{n}} of {{count}}"}} for n in range(count)]
            result = await router.route("x", steps=steps, merge=False)
            assert sum(len(step.text) for step in result.steps) == count * {size}
            del steps, result
            # Not getrusage: its peak is that of whoever started this process, where that was larger.
            print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], flush=True)

asyncio.run(main())
"""


@pytest.fixture
def server() -> Iterator[str]:
    """Return the root of a server whose answers have two kilobytes each, no two alike."""

    async def complete(request: web.Request) -> web.Response:
        prompt = json.loads(await request.read())["messages"][-1]["content"]
        text = (f"{prompt}: " * ANSWER_BYTES)[:ANSWER_BYTES]
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 5, "completion_tokens": 500, "total_tokens": 505}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "1", "model": "gpt-4.1", "choices": [choice], "usage": usage})

    loop = asyncio.new_event_loop()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(application, access_log=None)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    port = asyncio.run_coroutine_threadsafe(start(), loop).result()
    yield f"http://127.0.0.1:{port}/v1"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_ten_thousand_jobs_of_two_kilobytes_stay_within_300_mb(server: str, tmp_path: Path) -> None:
    """What a thousand more jobs take, ten thousand take ten times over (all of them: 125 MB, November 2026)."""
    code = CHILD.format(
        folder=str(Path(__file__).parents[2]),
        url=server,
        database=f"sqlite:///{tmp_path / 'ledger.db'}",
        few=FEW,
        many=MANY,
        size=ANSWER_BYTES,
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)

    assert ended.returncode == 0, ended.stderr
    few_kb, many_kb = map(int, ended.stdout.split())
    grown_kb = (many_kb - few_kb) / (MANY - FEW)
    assert grown_kb < 4 * ANSWER_BYTES / 1000, "more than four times its answer is held for each job"
    assert few_kb + grown_kb * JOBS < MOST_MB * 1024
