"""Servers made with the package `mcp`, over standard streams, SSE and streamable HTTP on this machine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from router.errors import ToolServerError
from router.tools.kit import Answer, Kit, Ready

SERVER = Path(__file__).with_name("packaged_server.py")
TOKEN = "tok-planted-9f8e7d6c5b4a"
PATHS = {"sse": "sse", "streamable-http": "mcp"}
Make = Callable[..., Awaitable[Any]]


@contextmanager
def listening(transport: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Give a server's process and its port."""
    command = [sys.executable, str(SERVER), transport, TOKEN, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def reached(transport: str, port: int, **more: Any) -> dict[str, Any]:
    """Return the settings of a server that listens on a port."""
    url = f"http://127.0.0.1:{port}/{PATHS[transport]}"
    return {"url": url, "transport": transport, "key_env": "PLAIN_TOKEN", "allow": ["*"], "timeout_s": 20, **more}


async def call(kit: Kit, name: str, **arguments: Any) -> Answer:
    waits_us: list[int] = []

    async def started(queue_us: int) -> None:
        assert queue_us >= 0
        waits_us.append(queue_us)

    ready = kit.prepared(name, json.dumps(arguments))
    if not isinstance(ready, Ready):
        return ready
    answer = await kit.call(ready, None, started)
    assert len(waits_us) == 1
    return answer


async def check_whole(kit: Kit) -> None:
    """See that tools answer, many at once, one that hangs is cut off, and errors are told."""
    texts = [f"n{number}" for number in range(20)]
    answers = await asyncio.gather(*(call(kit, "packaged__echo", text=text, delay_ms=20) for text in texts))
    assert [each.told.text for each in answers] == [f"packaged: {text}" for text in texts]
    assert json.loads((await call(kit, "packaged__add", a=2, b=40)).told.text) == {"total": 42}
    assert (await call(kit, "packaged__parts", n=3)).told.text == "part 0\npart 1\npart 2"
    failed = await call(kit, "packaged__fail")
    assert (failed.status, failed.told.is_error) == ("failed", True)
    waiting = asyncio.create_task(call(kit, "packaged__hang"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await call(kit, "packaged__echo", text="after")).told.text == "packaged: after"


async def test_over_standard_streams(shop: Make) -> None:
    server = {"command": sys.executable, "args": [str(SERVER), "stdio"], "allow": ["*"], "timeout_s": 20}
    made = await shop({"packaged": server})
    async with made.toolbox.kit(["packaged__*"]) as kit:
        await check_whole(kit)


@pytest.mark.parametrize("transport", PATHS)
async def test_over_http(shop: Make, transport: str) -> None:
    with listening(transport) as (process, port):
        made = await shop({"packaged": reached(transport, port)})
        async with made.toolbox.kit(["packaged__*"]) as kit:
            await check_whole(kit)
            # The server dies in mid-call: the waiting call has its error at once, and a new server is found again.
            waiting = asyncio.create_task(call(kit, "packaged__hang"))
            await asyncio.sleep(0.2)
            begun_s = asyncio.get_running_loop().time()
            process.kill()
            answer = await waiting
            assert answer.status == "failed"
            assert asyncio.get_running_loop().time() - begun_s < 10
            process.wait()
            with listening(transport, port):
                async with asyncio.timeout(30):
                    while (back := await call(kit, "packaged__echo", text="back")).status != "succeeded":
                        await asyncio.sleep(0.1)
                assert back.told.text == "packaged: back"


async def test_a_key_that_is_refused_is_one_line_that_does_not_show_it(shop: Make) -> None:
    with listening("streamable-http") as (_, port):
        wrong = {**reached("streamable-http", port), "key_env": "HOME"}
        made = await shop({"packaged": wrong}, approved=False)
        with pytest.raises(ToolServerError, match=r"/mcp refuses the key \(status 401\)$"):
            await made.toolbox.offered("packaged")
        wrong_place = {**reached("streamable-http", port), "url": f"http://127.0.0.1:{port}/elsewhere"}
        made = await shop({"packaged": wrong_place}, approved=False)
        with pytest.raises(ToolServerError, match=r"/elsewhere answers with status 404$"):
            await made.toolbox.offered("packaged")


async def test_headers_are_taken_from_variables(shop: Make) -> None:
    with listening("streamable-http") as (_, port):
        by_header = {**reached("streamable-http", port), "header_env": {"Authorization": "WHOLE"}}
        del by_header["key_env"]
        made = await shop({"packaged": by_header}, approved=False)
        made.environ["WHOLE"] = f"Bearer {TOKEN}"
        assert len(await made.toolbox.offered("packaged")) == 6
        assert TOKEN not in repr(made.settings)
