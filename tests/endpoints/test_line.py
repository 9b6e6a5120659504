"""The short way of a plain request: its bytes, what is kept of it, and its time-out."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from yarl import URL

from router.endpoints.line import head
from router.endpoints.openai_wire import OpenAIEndpoint
from router.endpoints.protocol import WireRequest
from router.errors import EndpointError
from router.settings import EndpointSettings

ANSWER = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}).encode()
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Served:
    """A server whose script sees each connection from its first byte."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while not writer.is_closing():
                    await self._script(reader, writer)
                    await writer.drain()
        finally:
            writer.close()

    @asynccontextmanager
    async def opened(self, read_timeout_s: float = 5) -> AsyncIterator[OpenAIEndpoint]:
        """Serve, and yield an endpoint that speaks to it."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = EndpointSettings(base_url=f"http://127.0.0.1:{port}/v1", read_timeout_s=read_timeout_s)
        endpoint = OpenAIEndpoint("box", settings, key=lambda: None)
        async with server:
            try:
                yield endpoint
            finally:
                await endpoint.aclose()


def asked(text: str = "hello", **headers: str) -> WireRequest:
    return WireRequest("m", ({"role": "user", "content": text},), headers=headers)


async def taken(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body of the next request."""
    said = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in said.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return said, await reader.readexactly(int(length.split(b":")[1]))


def answer(body: bytes = ANSWER, headers: str = "", status: str = "200 OK") -> bytes:
    lines = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return lines.encode() + body


def test_the_head_of_a_request_is_that_of_http() -> None:
    url = URL("https://api.example.com:8443/v1/chat/completions")
    assert head(url, {"Accept": "application/json", "Authorization": "Bearer k"}) == (
        b"POST /v1/chat/completions HTTP/1.1\r\n"
        b"Host: api.example.com:8443\r\n"
        b"Accept-Encoding: gzip, deflate\r\n"
        b"Accept: application/json\r\n"
        b"Authorization: Bearer k\r\n"
        b"Content-Length: "
    )


async def test_the_same_is_sent_the_short_way_and_the_long_way() -> None:
    """A request with headers of its own goes by a session of aiohttp."""
    seen: list[tuple[list[bytes], bytes]] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said, body = await taken(reader)
        fields = sorted(line for line in said.split(b"\r\n") if line)
        mine = [line for line in fields if not line.lower().startswith((b"x-own", b"accept-encoding"))]
        seen.append((mine, body))
        writer.write(answer())

    async with Served(script).opened() as endpoint:
        await endpoint.send(asked())
        await endpoint.send(asked(**{"X-Own": "1"}))
    short, long = seen
    assert short == long


async def test_an_answer_in_gzip_is_read() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken(reader)
        writer.write(answer(gzip.compress(ANSWER), "Content-Encoding: gzip\r\n"))

    async with Served(script).opened() as endpoint:
        assert (await endpoint.send(asked())).text == "yes"


async def test_interim_answers_are_passed_over() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken(reader)
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer())

    async with Served(script).opened() as endpoint:
        assert (await endpoint.send(asked())).text == "yes"


async def test_a_connection_is_kept_only_where_the_request_was_written_to_its_end() -> None:
    """An answer that comes before (413) leaves the rest of the body in the way of the next request."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.readuntil(b"\r\n\r\n")
        length = int(said.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if length > 1_000_000:
            writer.write(answer(b"{}", status="413 Payload Too Large"))
            await writer.drain()
            await asyncio.sleep(0.5)  # the rest is not read; the test is over sooner
            return
        await reader.readexactly(length)
        writer.write(answer())

    served = Served(script)
    async with served.opened() as endpoint:
        await endpoint.send(asked())
        await endpoint.send(asked())
        assert served.connections == 1
        with pytest.raises(EndpointError, match="HTTP 413"):
            await endpoint.send(asked("x" * 64_000_000))
        assert (await endpoint.send(asked())).text == "yes"
        assert served.connections == 2


@pytest.mark.parametrize("begun", [b"", answer()[:-10]], ids=["before its headers", "in its body"])
async def test_each_answer_has_its_own_time(begun: bytes) -> None:
    """Two requests 0.1 s apart, 0.3 s each: the second is not cut off with the first, though one timer serves both."""
    loop = asyncio.get_running_loop()
    waiting = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken(reader)
        writer.write(begun)
        await waiting.wait()

    async def time_of(endpoint: OpenAIEndpoint) -> tuple[str, float]:
        begun_s = loop.time()
        with pytest.raises(EndpointError) as caught:
            await endpoint.send(asked())
        return caught.value.kind, loop.time() - begun_s

    async with Served(script).opened(read_timeout_s=0.3) as endpoint:
        first = asyncio.create_task(time_of(endpoint))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(time_of(endpoint))
        ends = [await first, await second]
        waiting.set()
    for kind, took_s in ends:
        assert kind == "timeout"
        assert 0.29 <= took_s < 2.0


async def test_what_is_not_http_is_malformed() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    async with Served(script).opened() as endpoint:
        with pytest.raises(EndpointError, match="not an HTTP answer") as caught:
            await endpoint.send(asked())
    assert caught.value.kind == "malformed"
