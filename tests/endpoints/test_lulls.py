"""Streams that are read in lulls: the same answer, the same errors, in fewer pieces; and nothing is late for it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.endpoints.openai_wire import OpenAIEndpoint
from router.endpoints.protocol import TextDelta, Timings, WireRequest, WireResponse
from router.endpoints.sandbox import Fault, Sandbox
from router.errors import EndpointError
from router.exchange import Bounds, exchange
from router.settings import EndpointSettings

ASK = WireRequest("gpt-4.1", ({"role": "user", "content": "Summarise the harbour report."},))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
UNTIMED = Timings(0)
Outcome = tuple[str, WireResponse | tuple[str, str]]


def endpoint_at(url: str, **settings: Any) -> OpenAIEndpoint:
    given_settings = EndpointSettings(base_url=url, read_timeout_s=5, connect_timeout_s=5, **settings)
    return OpenAIEndpoint("box", given_settings, key=lambda: None)


@asynccontextmanager
async def serving(write: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[OpenAIEndpoint]:
    """Serve one answer to each request, and yield an endpoint that asks there."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):  # a client may leave
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))  # type: ignore[index]
            await write(writer)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        endpoint = endpoint_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        try:
            yield endpoint
        finally:
            await endpoint.aclose()


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def piece(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


async def outcome(endpoint: OpenAIEndpoint, lull_s: float) -> tuple[Outcome, int]:
    """Return the text and the answer without its times, or the error in words; and in how many pieces it came."""
    texts: list[str] = []
    try:
        async for item in endpoint.stream(ASK, lull_s):
            if isinstance(item, WireResponse):
                return ("".join(texts), replace(item, timings=UNTIMED)), len(texts)
            texts.append(item.text)
    except EndpointError as error:
        return ("", (error.kind, str(error))), len(texts)
    raise AssertionError("a stream without an end")


_FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(("find", "fetch")), "arguments": st.text(max_size=4)}
)
_CALL = st.fixed_dictionaries({"index": st.integers(0, 1), "function": _FUNCTION}, optional={"id": st.text(max_size=2)})
_DELTA = st.one_of(
    st.fixed_dictionaries({"content": st.text(max_size=6)}),
    st.fixed_dictionaries({}, optional={"role": st.just("assistant"), "content": st.none() | st.text(max_size=3)}),
    st.fixed_dictionaries({"reasoning_content": st.text(max_size=6)}),
    st.fixed_dictionaries({"tool_calls": st.lists(_CALL, min_size=1, max_size=2)}),
)
_CHOICE = st.fixed_dictionaries(
    {"delta": _DELTA}, optional={"index": st.integers(0, 1), "finish_reason": st.sampled_from((None, "stop", "length"))}
)
_USAGE = st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)})
_CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(_CHOICE, max_size=2)},
    optional={"id": st.text(max_size=3), "model": st.just("m"), "usage": _USAGE},
)
_EVENT = st.one_of(
    *([_CHUNK.map(lambda payload: b"data: " + json.dumps(payload).encode() + b"\n\n")] * 8),
    st.just(b": a comment\n\n"),
    st.sampled_from((b'data: {"error": {"code": 429, "message": "slow down"}}\n\n', b"data: no JSON\n\n")),
)


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@given(st.lists(_EVENT, max_size=12), st.sampled_from((7, 60, 4096)), st.booleans())
def test_law_lulls_change_nothing_but_the_pieces(events: list[bytes], size: int, is_done: bool) -> None:  # noqa: FBT001 - drawn
    """Law: with lulls or without, a stream is the same text and the same answer, or the same error."""
    body = b"".join(events) + (DONE if is_done else b"")
    parts = [chunk(body[start : start + size]) for start in range(0, len(body), size)]

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(parts) + END)

    async def run() -> None:
        async with serving(write) as endpoint:
            plain, pieces = await outcome(endpoint, 0.0)
            lulled, fewer = await outcome(endpoint, 0.01)
        assert lulled == plain
        assert fewer <= pieces

    asyncio.run(run())


async def test_what_comes_in_a_lull_is_one_piece_and_the_first_token_is_not_late() -> None:
    """A role, a first token, 19 within the lull, and the end: two pieces, and the end ends a lull of four seconds."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'))
        await writer.drain()
        await asyncio.sleep(0.02)  # no token yet, so no lull
        for number in range(20):
            writer.write(chunk(piece(f"{number} ")))
            await writer.drain()
            await asyncio.sleep(0.005)
        writer.write(chunk(DONE) + END)

    begun = time.monotonic()
    async with serving(write) as endpoint:
        endpoint._settings = endpoint._settings.model_copy(update={"read_timeout_s": 60})  # noqa: SLF001 - an eighth bounds it
        items = [item async for item in endpoint.stream(ASK, 4.0)]
    assert time.monotonic() - begun < 3
    *deltas, answer = items
    assert isinstance(answer, WireResponse)
    assert answer.text == "".join(f"{number} " for number in range(20))
    assert len(deltas) <= 3
    assert answer.timings.ttft_us is not None
    assert answer.timings.ttft_us < answer.timings.latency_us - 50_000  # 19 × 5 ms lie between them


@pytest.mark.parametrize("lull_s", [0.0, 0.02])
async def test_a_connection_that_breaks_cuts_the_stream(lull_s: float) -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(piece("half")))
        await writer.drain()
        await asyncio.sleep(0.1)

    async with serving(write) as endpoint:
        (_, told), pieces = await outcome(endpoint, lull_s)
    assert isinstance(told, tuple)
    assert (told[0], pieces) == ("cut", 1)


async def test_an_end_marker_without_an_end_is_seen_after_the_lull() -> None:
    """The server keeps the connection open behind `[DONE]`: the answer is there after the lull, not at a time-out."""
    left = asyncio.Event()

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(piece("all")))
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(chunk(DONE))
        await left.wait()

    async with serving(write) as endpoint:
        begun = time.monotonic()
        (text, answer), _ = await outcome(endpoint, 0.05)
        assert time.monotonic() - begun < 2
        left.set()
    assert text == "all"
    assert isinstance(answer, WireResponse)


@pytest.mark.parametrize("keeps_alive", [b": alive\n\n", b'data: {"choices": [{"delta": {"content": ""}}]}\n\n'])
async def test_neither_comments_nor_empty_deltas_break_the_silence(keeps_alive: bytes) -> None:
    """Three tokens, then a sign every 30 ms that holds none, and 0.3 s of patience: cut off, with what came."""
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(chunk(piece(text)) for text in ("a", "b", "c")))
        for _ in range(100):
            writer.write(chunk(keeps_alive))
            await writer.drain()
            await asyncio.sleep(0.03)

    begun = time.monotonic()
    async with serving(write) as endpoint:
        with pytest.raises(EndpointError, match=r"sent no token for 0\.3 s") as caught:
            await exchange(endpoint, ASK, hear, Bounds("box", idle_s=0.3, is_heard=False))
        assert 0.3 <= time.monotonic() - begun < 2
    assert caught.value.kind == "idle"
    assert "".join(heard) == "abc"


async def test_tokens_keep_a_slow_stream_alive_in_lulls() -> None:
    """A token every 20 ms, 0.4 s of patience, lulls of 40 ms: no silence, however long the stream is."""
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    async with Sandbox(faults={"*": Fault(per_token_ms=20)}) as sandbox:
        endpoint = endpoint_at(sandbox.base_url)
        answer = await exchange(endpoint, ASK, hear, Bounds("box", idle_s=0.4, is_heard=False))
        await endpoint.aclose()
    assert answer.text == "".join(heard)
    assert answer.timings.latency_us > 400_000


@pytest.mark.parametrize(
    ("bounds", "lull_s"),
    [
        (Bounds("box", idle_s=30), 0.0),
        (Bounds("box", is_heard=False), 0.0),
        (Bounds("box", idle_s=30, is_heard=False), 0.05),
        (Bounds("box", idle_s=0.2, is_heard=False), 0.02),
    ],
)
def test_lulls_are_for_streams_that_nobody_hears_and_short_beside_the_silence(bounds: Bounds, lull_s: float) -> None:
    assert bounds.lull_s() == pytest.approx(lull_s)


async def test_a_delta_is_text() -> None:
    """A reader in lulls is handed the same kinds of items."""
    async with Sandbox() as sandbox:
        endpoint = endpoint_at(sandbox.base_url)
        *deltas, answer = [item async for item in endpoint.stream(ASK, 0.01)]
        await endpoint.aclose()
    assert all(isinstance(item, TextDelta) for item in deltas)
    assert isinstance(answer, WireResponse)
    assert answer.usage is not None
