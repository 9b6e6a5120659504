"""The aiohttp endpoint against real servers: the stand-in one, and raw sockets for what no good server does."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from decimal import Decimal
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.usage import Usage
from router.endpoints import open_endpoint
from router.endpoints.openai_wire import OpenAIEndpoint
from router.endpoints.protocol import TextDelta, WireRequest, WireResponse
from router.endpoints.sandbox import Fault, Sandbox
from router.errors import ConfigError, EndpointError
from router.settings import EndpointSettings

KEY = "sk-planted-0123456789abcdef"
ASK = WireRequest("gpt-4.1", ({"role": "user", "content": "Summarise the harbour report."},))
ANSWER = {
    "id": "c1",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
}
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def opened(base_url: str, **settings: Any) -> AsyncIterator[OpenAIEndpoint]:
    """Open an endpoint that is closed at the end."""
    settings = {"read_timeout_s": 5, "connect_timeout_s": 5, "key_env": "BOX_KEY", **settings}
    endpoint = OpenAIEndpoint("box", EndpointSettings(base_url=base_url, **settings), key=lambda: KEY)
    try:
        yield endpoint
    finally:
        await endpoint.aclose()


class Raw:
    """A server that reads requests off a socket, counts them, and lets a script answer."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[bytes] = []
        self.connections = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b":0"
                )
                self.requests.append(head + await reader.readexactly(int(length.split(b":")[1])))
                await self._script(reader, writer)
                await writer.drain()
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve, and yield the base URL."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def says(*pieces: bytes, close: bool = False, pause_s: float = 0.0) -> Script:
    """Return a script that writes pieces, one packet each."""

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if close:
            writer.close()

    return script


def http(body: bytes, status: str = "200 OK", headers: str = "Content-Type: application/json\r\n") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(body: bytes, size: int) -> list[bytes]:
    """Return a body as HTTP chunks of a size."""
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def text_event(text: str) -> bytes:
    return event({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]})


FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
DONE = b"data: [DONE]\n\n"


async def failing_send(script: Script, **settings: Any) -> tuple[EndpointError, Raw]:
    raw = Raw(script)
    async with raw.running() as url, opened(url, **settings) as endpoint:
        with pytest.raises(EndpointError) as caught:
            await endpoint.send(ASK)
    return caught.value, raw


async def collect(endpoint: OpenAIEndpoint) -> tuple[str, WireResponse]:
    items = [item async for item in endpoint.stream(ASK)]
    *deltas, response = items
    assert isinstance(response, WireResponse)
    assert all(isinstance(item, TextDelta) for item in deltas)
    return "".join(item.text for item in deltas), response


async def failing_stream(script: Script, **settings: Any) -> tuple[EndpointError, str, Raw]:
    raw, text = Raw(script), ""
    async with raw.running() as url, opened(url, **settings) as endpoint:
        with pytest.raises(EndpointError) as caught:
            async for item in endpoint.stream(ASK):
                assert isinstance(item, TextDelta), "a clean end"
                text += item.text
    return caught.value, text, raw


# Good answers --------------------------------------------------------------------------------------------------------


async def test_send_and_stream_agree() -> None:
    async with Sandbox(key=KEY) as sandbox, opened(sandbox.base_url) as endpoint:
        whole = await endpoint.send(ASK)
        text, streamed = await collect(endpoint)
        assert await endpoint.models() == (
            "kimi-k2",
            "deepseek-v3.2",
            "gpt-4.1",
            "claude-sonnet-4.5",
            "gemini-2.5-flash",
        )
        assert [entry.client_stayed for entry in sandbox.log] == [True, True]
    assert whole.text == streamed.text == text != ""
    assert whole.usage == streamed.usage
    assert whole.usage is not None
    assert whole.usage.output_tokens == -(-len(text) // 4)
    assert whole.served_model == streamed.served_model == "gpt-4.1"
    assert whole.finish_reason == streamed.finish_reason == "stop"
    assert whole.timings.ttft_us is None
    assert streamed.timings.ttft_us is not None
    assert 0 < streamed.timings.ttft_us <= streamed.timings.latency_us
    for timings in (whole.timings, streamed.timings):
        assert timings.network_us + timings.inference_us == timings.latency_us


async def test_waiting_for_the_model_is_inference_not_network() -> None:
    faults = {"*": Fault(latency_ms=200)}
    async with Sandbox(faults=faults) as sandbox, opened(sandbox.base_url) as endpoint:
        timings = (await endpoint.send(ASK)).timings
        _, streamed = await collect(endpoint)
    assert timings.inference_us >= 199_000
    assert timings.network_us < timings.inference_us
    assert streamed.timings.inference_us >= 199_000


async def test_connections_are_kept_and_used_again() -> None:
    raw = Raw(says(http(json.dumps(ANSWER).encode())))
    async with raw.running() as url, opened(url) as endpoint:
        for _ in range(5):
            await endpoint.send(ASK)
    assert (len(raw.requests), raw.connections) == (5, 1)


async def test_a_streams_connection_is_kept_too() -> None:
    body = text_event("a") + FINISH + USAGE + DONE
    raw = Raw(says(STREAM_HEAD, *chunked(body, 50), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url) as endpoint:
        for _ in range(3):
            assert (await collect(endpoint))[0] == "a"
    assert raw.connections == 1


async def test_what_is_sent() -> None:
    raw = Raw(says(http(json.dumps(ANSWER).encode())))
    request = WireRequest("m", ASK.messages, {"temperature": 0}, {"Idempotency-Key": "k1", "X-Title": "t"})
    async with raw.running() as url, opened(f"{url}/", extra={"provider": "the caller's"}) as endpoint:
        await endpoint.send(request)
    head, body = raw.requests[0].split(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /v1/chat/completions http/1.1"
    assert f"authorization: bearer {KEY}" in lines
    assert "idempotency-key: k1" in lines
    assert json.loads(body) == {"temperature": 0, "model": "m", "messages": list(ASK.messages)}


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
async def test_a_stream_may_be_cut_into_packets_anywhere(size: int, newline: bytes) -> None:
    body = b": comment\n\n" + text_event("漢字 🚢") + text_event(" ok") + FINISH + USAGE + DONE
    raw = Raw(says(STREAM_HEAD, *chunked(body.replace(b"\n", newline), size), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url) as endpoint:
        text, response = await collect(endpoint)
    assert text == response.text == "漢字 🚢 ok"
    assert response.usage == Usage(uncached_input_tokens=3, plain_output_tokens=2)


async def test_a_server_that_answers_a_stream_request_with_one_object() -> None:
    raw = Raw(says(http(json.dumps(ANSWER).encode())))
    async with raw.running() as url, opened(url) as endpoint:
        text, response = await collect(endpoint)
    assert text == response.text == "yes"


async def test_the_end_marker_ends_a_stream_even_if_the_connection_stays_open() -> None:
    raw = Raw(says(STREAM_HEAD, *chunked(text_event("a") + FINISH + b"data: [DONE]\n", 4096), pause_s=0.01))
    async with raw.running() as url, opened(url) as endpoint:
        async with asyncio.timeout(2):
            assert (await collect(endpoint))[0] == "a"


# Bad ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "close", "text"),
    [
        pytest.param([text_event("a"), b""], False, "a", id="clean HTTP end in mid-answer"),
        pytest.param([text_event("a") + FINISH, b""], False, "a", id="clean HTTP end after the finish reason"),
        pytest.param([text_event("a") + FINISH + USAGE, b""], False, "a", id="only the end marker is missing"),
        pytest.param([text_event("a")[:-20], b""], False, "", id="clean HTTP end inside an event"),
        pytest.param([text_event("a")], True, "a", id="connection closed in mid-stream"),
        pytest.param([b""], False, "", id="nothing at all"),
    ],
)
async def test_a_stream_without_its_end_marker_is_an_error(pieces: list[bytes], close: bool, text: str) -> None:  # noqa: FBT001
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    error, got, raw = await failing_stream(says(STREAM_HEAD, *chunks, close=close))
    assert (error.kind, got, error.possibly_billed) == ("cut", text, True)
    assert len(raw.requests) == 1


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        ({"error": {"message": "boom", "code": 503}}, "overloaded"),
        ({"error": {"message": "boom", "type": "server_error"}}, "server_error"),
        ({"error": "boom"}, "server_error"),
    ],
)
async def test_an_error_object_inside_a_stream(inside: dict[str, Any], kind: str) -> None:
    body = text_event("a") + event(inside) + DONE
    error, text, _ = await failing_stream(says(STREAM_HEAD, *chunked(body, 4096), b"0\r\n\r\n"))
    assert (error.kind, text) == (kind, "a")
    assert "boom" in str(error)


@pytest.mark.parametrize("data", [b"data: {broken\n\n", b"data: 5\n\n", b"data: [DONE]\n\n"])
async def test_a_stream_of_nonsense_is_malformed(data: bytes) -> None:
    error, _, _ = await failing_stream(says(STREAM_HEAD, *chunked(data + DONE, 4096), b"0\r\n\r\n"))
    assert error.kind == "malformed"


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"{}", b'{"choices": []}', b"\xff\xfe", b"[" * 100_000])
async def test_a_2xx_that_is_no_answer_is_malformed(body: bytes) -> None:
    error, raw = await failing_send(says(http(body)))
    assert (error.kind, error.possibly_billed, len(raw.requests)) == ("malformed", True, 1)


async def test_an_error_object_in_a_2xx_answer() -> None:
    error, _ = await failing_send(says(http(b'{"error": {"message": "slow down", "code": 429}}')))
    assert (error.kind, error.possibly_billed) == ("rate_limited", False)


async def test_an_answer_that_is_not_http_is_malformed() -> None:
    error, _ = await failing_send(says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", close=True))
    assert error.kind == "malformed"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(says(close=True), id="before any answer"),
        pytest.param(says(http(b"{" * 100)[:-50], close=True), id="inside the answer"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\nContent-", close=True), id="inside the headers"),
    ],
)
async def test_a_connection_that_breaks_after_sending_is_dropped_and_not_sent_again(script: Script) -> None:
    error, raw = await failing_send(script)
    assert (error.kind, error.possibly_billed) == ("dropped", True)
    assert "RawResponse" not in str(error), "words, no values of the client library's"
    assert len(raw.requests) == 1


async def test_a_kept_connection_that_the_server_closes_is_never_used_to_send_twice() -> None:
    """The keep-alive race: the server closes just as the second request arrives on the kept connection."""
    seen = 0

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            writer.write(http(json.dumps(ANSWER).encode()))
        else:
            writer.transport.abort()

    raw = Raw(script)
    async with raw.running() as url, opened(url) as endpoint:
        await endpoint.send(ASK)
        with pytest.raises(EndpointError) as caught:
            await endpoint.send(ASK)
    assert caught.value.kind == "dropped"
    assert len(raw.requests) == 2, "one request a call"


async def test_a_kept_connection_that_was_closed_while_idle_is_replaced() -> None:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(json.dumps(ANSWER).encode()))
        await writer.drain()
        writer.close()

    raw = Raw(script)
    async with raw.running() as url, opened(url) as endpoint:
        for _ in range(3):
            await endpoint.send(ASK)
            await asyncio.sleep(0.02)
    assert (len(raw.requests), raw.connections) == (3, 3)


async def test_refused_before_anything_is_sent() -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    for base_url in (f"http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"):
        async with opened(base_url) as endpoint:
            with pytest.raises(EndpointError, match="endpoint box") as caught:
                await endpoint.send(ASK)
        assert (caught.value.kind, caught.value.possibly_billed) == ("refused", False)
        assert "base_url" in (caught.value.hint or "")


async def test_tls_to_a_plain_server_is_refused() -> None:
    async with Sandbox() as sandbox, opened(sandbox.base_url.replace("http:", "https:")) as endpoint:
        with pytest.raises(EndpointError) as caught:
            await endpoint.send(ASK)
        assert (caught.value.kind, caught.value.possibly_billed, sandbox.log) == ("refused", False, ())


async def test_no_connection_in_time() -> None:
    """A listening socket whose queue is full takes no further connection."""
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        port = listening.getsockname()[1]
        async with opened(f"http://127.0.0.1:{port}/v1", connect_timeout_s=0.2, read_timeout_s=9) as endpoint:
            with pytest.raises(EndpointError) as caught:
                await endpoint.send(ASK)
    assert (caught.value.kind, caught.value.possibly_billed) == ("connect_timeout", False)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="silence"),
        pytest.param([http(b"{" * 50)[:-10]], id="half an answer"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *[b"\n"] * 30], id="an answer in drips"),
    ],
)
async def test_no_answer_in_time(pieces: list[bytes]) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(*pieces, pause_s=0.03)(reader, writer)
        await asyncio.sleep(5)

    started = asyncio.get_running_loop().time()
    error, raw = await failing_send(script, read_timeout_s=0.3)
    assert (error.kind, error.possibly_billed, len(raw.requests)) == ("timeout", True, 1)
    assert asyncio.get_running_loop().time() - started < 2


@pytest.mark.parametrize("said", ["", "a"])
@pytest.mark.parametrize("idle", [b"", b": keep-alive\n\n"])
async def test_a_stream_that_falls_silent_times_out_though_comments_go_on(idle: bytes, said: str) -> None:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + b"".join(chunked(text_event(said) if said else b"", 4096)))
        for _ in range(60):
            writer.writelines(chunked(idle, 4096))
            await writer.drain()
            await asyncio.sleep(0.05)

    started = asyncio.get_running_loop().time()
    error, text, _ = await failing_stream(script, read_timeout_s=0.3)
    assert (error.kind, text) == ("timeout", said)
    assert asyncio.get_running_loop().time() - started < 2


async def test_a_slow_reader_is_no_silent_server() -> None:
    body = text_event("a") + text_event("b") + FINISH + DONE
    raw = Raw(says(STREAM_HEAD, *chunked(body, 100), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url, read_timeout_s=0.2) as endpoint:
        async for _ in endpoint.stream(ASK):
            await asyncio.sleep(0.15)


async def test_a_long_stream_outlasts_the_read_time_out() -> None:
    faults = {"*": Fault(per_token_ms=25)}
    request = WireRequest("m", ASK.messages, {"max_tokens": 24})
    async with Sandbox(faults=faults) as sandbox, opened(sandbox.base_url, read_timeout_s=0.4) as endpoint:
        items = [item async for item in endpoint.stream(request)]
    assert isinstance(items[-1], WireResponse)
    assert items[-1].timings.latency_us > 500_000


async def test_redirects_are_not_followed() -> None:
    other = Raw(says(http(json.dumps(ANSWER).encode())))
    async with other.running() as elsewhere:
        headers = f"Location: {elsewhere}\r\n"
        error, raw = await failing_send(says(http(b"", "307 Temporary Redirect", headers)))
    assert (error.kind, error.status, len(raw.requests), other.requests) == ("rejected", 307, 1, [])
    assert "base_url" in (error.hint or "")


async def test_a_body_beyond_all_bounds_is_given_up() -> None:
    head = b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n"
    error, _ = await failing_send(says(head, *chunked(b"x" * 200_000, 50_000), b"0\r\n\r\n"))
    assert (error.kind, error.status) == ("server_error", 500)


# Answers that nobody would write in good faith ----------------------------------------------------------------------

NESTED = b"[" * 60_000
TOO_LONG = 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(NESTED, "HTTP 500: [[[", id="nested without end"),
        pytest.param(b'{"error": {"message": ' + b"[" * 500 + b"]" * 500 + b"}}", "HTTP 500", id="nested deep"),
        pytest.param(b'{"error": {"code": ' + b"9" * 5000 + b"}}", "HTTP 500", id="a number of 5,000 digits"),
        pytest.param(b"<" * 60_000, "HTTP 500", id="tags without end"),
        pytest.param(b"<style " * 9_000, "HTTP 500", id="styles without end"),
    ],
)
async def test_an_error_body_of_any_content_has_the_kind_of_its_status(body: bytes, said: str) -> None:
    started = asyncio.get_running_loop().time()
    for error in (
        (await failing_send(says(http(body, "500 Oops"))))[0],
        (await failing_stream(says(http(body, "500 Oops"))))[0],
    ):
        assert (error.kind, error.status, error.possibly_billed) == ("server_error", 500, True)
        assert said in str(error)
        assert len(str(error)) < 400
    assert asyncio.get_running_loop().time() - started < 2, "read in linear time"


@pytest.mark.parametrize(
    "code", [b'"' + b"5" * 5000 + b'"', b"5" * 4000, b'"\xd9\xa4\xd9\xa2\xd9\xa9"', b"[[]]", b"1e999"]
)
async def test_an_error_object_with_a_code_that_is_none(code: bytes) -> None:
    inside = b'{"error": {"message": "boom", "code": %b}}' % code
    sent, _ = await failing_send(says(http(inside)))
    streamed, _, _ = await failing_stream(says(STREAM_HEAD, *chunked(b"data: " + inside + b"\n\n", 4096)))
    for error in (sent, streamed):
        assert (error.kind, error.possibly_billed) == ("server_error", True)
        assert "boom" in str(error)


@pytest.mark.parametrize(
    "header",
    [
        f"openai-processing-ms: {'9' * 5000}",
        "openai-processing-ms: 99999999999999999999",
        "openai-processing-ms: -5",
    ],
)
async def test_a_stated_duration_that_cannot_be_is_passed_over(header: str) -> None:
    raw = Raw(says(http(json.dumps(ANSWER).encode(), headers=f"Content-Type: application/json\r\n{header}\r\n")))
    async with raw.running() as url, opened(url) as endpoint:
        for response in (await endpoint.send(ASK), (await collect(endpoint))[1]):
            timings = response.timings
            assert timings.network_us + timings.inference_us == timings.latency_us < 2_000_000


@pytest.mark.parametrize(
    ("wait", "wait_s"),
    [
        ("Thu, 21 Oct 1999 07:28:30 +" + "9" * 30, None),
        ("Thu, 21 Oct 1999 07:28:30 +" + "9" * 5000, 0.0),  # read as a past date without an offset
        ("21 Oct " + "9" * 30 + " 07:28:30 GMT", None),
        ("21 Oct 1999 07:28:99999999999999999 GMT", None),
        ("21 Oct 1999 07:28:0 +2999999999999", None),
        ("9" * 5000, None),
    ],
)
async def test_a_wait_that_cannot_be_is_none(wait: str, wait_s: float | None) -> None:
    error, _ = await failing_send(says(http(b"", "429 Slow down", f"Retry-After: {wait}\r\n")))
    assert (error.kind, error.retry_after_s) == ("rate_limited", wait_s)


def piece(**fields: Any) -> bytes:
    return event({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": fields}]})


@pytest.mark.parametrize("index", [[0], {"a": 0}, [], {}, True, 0.5, "0"])
async def test_a_tool_call_with_an_index_that_is_none(index: object) -> None:
    body = b"".join(
        piece(tool_calls=[{"index": index, "function": {"name": "f", "arguments": part}}]) for part in ('{"x"', ":1}")
    )
    raw = Raw(says(STREAM_HEAD, *chunked(body + FINISH + DONE, 4096), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url) as endpoint:
        _, response = await collect(endpoint)
    (call,) = response.message["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"x":1}'}


async def test_a_field_that_changes_its_type_in_mid_stream() -> None:
    body = piece(details=5) + piece(details=[1]) + piece(details=[2]) + text_event("a") + DONE
    raw = Raw(says(STREAM_HEAD, *chunked(body, 4096), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url) as endpoint:
        assert (await collect(endpoint))[1].message["details"] == [1, 2]


async def test_a_usage_with_a_cost_in_a_choice_that_is_not_the_first() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cost": 0.25}
    choices = [{"index": 1, "delta": {}}, {"index": 0, "delta": {"content": "a"}, "usage": usage}]
    body = event({"choices": choices}) + DONE
    raw = Raw(says(STREAM_HEAD, *chunked(body, 4096), b"0\r\n\r\n"))
    async with raw.running() as url, opened(url) as endpoint:
        text, response = await collect(endpoint)
    assert (text, response.reported_cost_usd) == ("a", Decimal("0.25"))
    assert response.usage == Usage(uncached_input_tokens=3, plain_output_tokens=2)


@pytest.mark.parametrize("cost", ["1e30", "1e99999", "1e99999999999999999999", "NaN", "-1", "Infinity", "1e-99999"])
async def test_a_stated_cost_that_cannot_be_is_none(cost: str) -> None:
    usage = f'{{"prompt_tokens": 3, "completion_tokens": 2, "cost": {cost}}}'
    whole = json.dumps({**ANSWER, "usage": "?"}).replace('"?"', usage).encode()
    streamed = text_event("a") + b'data: {"choices": [], "usage": %b}\n\n' % usage.encode() + DONE
    for script in (says(http(whole)), says(STREAM_HEAD, *chunked(streamed, 4096), b"0\r\n\r\n")):
        raw = Raw(script)
        async with raw.running() as url, opened(url) as endpoint:
            _, response = await collect(endpoint)
        assert response.reported_cost_usd is None
        assert response.usage == Usage(uncached_input_tokens=3, plain_output_tokens=2)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(
            says(STREAM_HEAD, *chunked(b"data: " + b"x" * (17 * 1024 * 1024), 1 << 20)),
            "an event is longer than 16777216 bytes",
            id="a line",
        ),
        pytest.param(
            says(STREAM_HEAD, *chunked(text_event("x" * (1 << 20)), 2 << 20) * 65),
            f"longer than {TOO_LONG} characters",
            id="a text",
        ),
        pytest.param(
            says(STREAM_HEAD, *chunked(piece(reasoning="x" * (1 << 20)), 2 << 20) * 65),
            f"longer than {TOO_LONG} characters",
            id="reasoning",
        ),
        pytest.param(
            says(STREAM_HEAD, *chunked(piece(tool_calls=[{"function": {"arguments": "x" * (1 << 20)}}]), 2 << 20) * 65),
            f"longer than {TOO_LONG} characters",
            id="arguments",
        ),
        pytest.param(
            says(STREAM_HEAD, *chunked(piece(details=["x" * (1 << 20)]), 2 << 20) * 65),
            f"longer than {TOO_LONG} characters",
            id="lists",
        ),
        pytest.param(
            says(STREAM_HEAD, *chunked(event({"x": "x" * (1 << 20)}), 2 << 20) * 257),
            "a stream longer than 268435456 bytes",
            id="what is not kept",
        ),
        pytest.param(
            says(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                *chunked(b" " * (1 << 20), 1 << 20) * 65,
            ),
            f"an answer longer than {TOO_LONG} bytes",
            id="one object in place of a stream",
        ),
    ],
)
async def test_a_stream_beyond_all_bounds_is_given_up(script: Script, said: str) -> None:
    error, _, _ = await failing_stream(script)
    assert (error.kind, error.possibly_billed) == ("malformed", True)
    assert said in str(error)


async def test_one_object_in_place_of_a_stream_has_one_time_out() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    started = asyncio.get_running_loop().time()
    error, _, _ = await failing_stream(says(head, *[b" "] * 60, pause_s=0.05), read_timeout_s=0.3)
    assert (error.kind, error.possibly_billed) == ("timeout", True)
    assert asyncio.get_running_loop().time() - started < 2


@pytest.mark.parametrize("drip", [b"x", b"data: x\n", b"event: ping\n\n"])
async def test_bytes_that_make_no_event_are_silence(drip: bytes) -> None:
    started = asyncio.get_running_loop().time()
    script = says(STREAM_HEAD, *chunked(text_event("a"), 4096), *chunked(drip, 4096) * 60, pause_s=0.05)
    error, text, _ = await failing_stream(script, read_timeout_s=0.3)
    assert (error.kind, text) == ("timeout", "a")
    assert asyncio.get_running_loop().time() - started < 2


async def test_an_answer_nested_deep_is_malformed_though_python_could_read_it() -> None:
    """What is kept must be written as JSON again, from wherever in the program."""
    deep = {**ANSWER, "choices": [{"message": {"content": "a", "x": json.loads("[" * 150 + "]" * 150)}}]}
    sent, _ = await failing_send(says(http(json.dumps(deep).encode())))
    body = piece(content="a", x=json.loads("[" * 150 + "]" * 150)) + DONE
    streamed, _, _ = await failing_stream(says(STREAM_HEAD, *chunked(body, 4096), b"0\r\n\r\n"))
    assert [error.kind for error in (sent, streamed)] == ["malformed", "malformed"]


async def test_names_are_cut_and_hold_nothing_that_cannot_be_printed() -> None:
    """A line break, an escape, a bidi override, half a surrogate pair; a name of 300 signs."""
    name = "m\n\x1b[31m\u202eX\ud800" + "y" * 300
    clean = "m??[31m?X?" + "y" * 190
    answer = {**ANSWER, "id": name, "model": name, "service_tier": name}
    answer["choices"] = [{**ANSWER["choices"][0], "finish_reason": name}]  # type: ignore[dict-item]
    chunk = {**answer, "choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": name}]}
    body = b"data: " + json.dumps(chunk).encode() + b"\n\n" + DONE
    for script in (
        says(http(json.dumps(answer).encode())),
        says(STREAM_HEAD, *chunked(body, 4096), b"0\r\n\r\n"),
    ):
        raw = Raw(script)
        async with raw.running() as url, opened(url) as endpoint:
            _, found = await collect(endpoint)
        assert {found.served_model, found.upstream_id, found.service_tier, found.finish_reason} == {clean}
        assert len(clean) == 200
    raw = Raw(says(http(json.dumps({"data": [{"id": name}]}).encode())))
    async with raw.running() as url, opened(url) as endpoint:
        assert await endpoint.models() == (clean,)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("choices", "index", "delta", "message", "content", "tool_calls", "function", "name", "arguments"),
                    *("id", "model", "finish_reason", "error", "code", "type", "text"),
                    *("usage", "prompt_tokens", "completion_tokens", "cost", "cost_details", "is_byok"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@hypothesis.settings(max_examples=150, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@given(st.lists(_JSON, min_size=1, max_size=3), _JSON, _JSON)
def test_law_any_json_is_an_answer_or_an_endpoint_error(events: list[Any], delta: Any, usage: Any) -> None:
    """Law: an endpoint raises nothing but `EndpointError`, and what may have been billed says so."""
    events = [*events, {"choices": [{"index": 0, "delta": delta}], "usage": usage}]
    whole = json.dumps({"choices": [{"message": delta}], "usage": usage}).encode()

    async def tell(endpoint: OpenAIEndpoint) -> None:
        try:
            told = [each async for each in endpoint.stream(ASK)]
        except EndpointError as error:
            assert error.kind == "malformed" or error.status == 200  # noqa: PT017 - it need not fail
        else:
            assert isinstance(told[-1], WireResponse)
            assert not any(isinstance(each, WireResponse) for each in told[:-1])

    async def run() -> None:
        stream = says(STREAM_HEAD, *chunked(b"".join(map(event, events)) + DONE, 4096), b"0\r\n\r\n")
        for script in (stream, says(http(whole)), says(http(json.dumps(events[0]).encode()))):
            raw = Raw(script)
            async with raw.running() as url, opened(url) as endpoint:
                await tell(endpoint)

    asyncio.run(run())


# Leaving, keys, sessions ---------------------------------------------------------------------------------------------


async def test_a_consumer_that_leaves_closes_the_connection() -> None:
    """R7: the consumer stops after 6 chunks, and the upstream notices."""
    faults = {"*": Fault(per_token_ms=5)}
    async with Sandbox(faults=faults) as sandbox, opened(sandbox.base_url) as endpoint:
        async with aclosing(endpoint.stream(ASK)) as stream:
            for _ in range(6):
                assert isinstance(await anext(stream), TextDelta)
        await until(lambda: sandbox.log[0].client_stayed is not None)
    assert sandbox.log[0].client_stayed is False
    assert sandbox.log[0].output_tokens < 40


async def test_cancelling_closes_the_connection() -> None:
    async with Sandbox(faults={"*": Fault(hang=True)}) as sandbox, opened(sandbox.base_url) as endpoint:
        task = asyncio.ensure_future(endpoint.send(ASK))
        await until(lambda: len(sandbox.log) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: sandbox.log[0].client_stayed is not None)
    assert sandbox.log[0].client_stayed is False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(3):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("key", [None, "", "  \n"])
async def test_a_missing_key_is_told_before_anything_is_sent(key: str | None) -> None:
    async with Sandbox() as sandbox:
        settings = EndpointSettings(base_url=sandbox.base_url, key_env="BOX_KEY")
        endpoint = OpenAIEndpoint("box", settings, key=lambda: key)
        for call in (endpoint.send(ASK), endpoint.models(), anext(endpoint.stream(ASK))):
            with pytest.raises(EndpointError, match="environment variable BOX_KEY is not set") as caught:
                await call
            assert (caught.value.kind, caught.value.possibly_billed) == ("unauthorized", False)
        assert sandbox.log == ()


async def test_the_key_is_read_from_its_variable_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox(key="second") as sandbox:
        endpoint = open_endpoint("box", EndpointSettings(base_url=sandbox.base_url, key_env="BOX_KEY"))
        monkeypatch.setenv("BOX_KEY", "first")
        with pytest.raises(EndpointError, match="HTTP 401") as caught:
            await endpoint.send(ASK)
        assert caught.value.hint == "the key in BOX_KEY was refused: mend BOX_KEY in the environment or in .env"
        monkeypatch.setenv("BOX_KEY", "second")
        assert (await endpoint.send(ASK)).text
        await endpoint.aclose()


async def test_a_server_that_needs_no_key_is_sent_none() -> None:
    raw = Raw(says(http(json.dumps(ANSWER).encode())))
    async with raw.running() as url:
        endpoint = open_endpoint("box", EndpointSettings(base_url=url))
        await endpoint.send(ASK)
        await endpoint.aclose()
    assert b"authorization" not in raw.requests[0].lower()


async def test_a_key_is_in_no_error_however_the_server_echoes_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"bad key {KEY}, header Bearer {KEY}"}}).encode()
    scripts = [
        says(http(echo, "401 Unauthorized")),
        says(http(echo)),
        says(http(KEY.encode())),
        says(http(KEY.encode(), f"400 {KEY}")),
        says(f"HTTP/1.1 999999 {KEY}\r\n\r\n".encode(), close=True),
        says(f"{KEY}\r\n\r\n".encode(), close=True),
        says(close=True),
    ]
    for script in scripts:
        error, _ = await failing_send(script)
        shown = "".join(traceback.format_exception(error, chain=True))
        assert KEY not in f"{error!r} {error} {error.args} {error.hint} {error.__dict__} {shown}"
        assert error.__cause__ is None
        assert error.__context__ is None, "a cause would carry the request's headers"
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["sk-planted\nX-Evil: 1", "sk-planted\x00abc"])
async def test_a_key_that_no_header_can_carry(key: str) -> None:
    endpoint = OpenAIEndpoint(
        "box", EndpointSettings(base_url="http://127.0.0.1:9", key_env="BOX_KEY"), key=lambda: key
    )
    with pytest.raises(EndpointError, match="BOX_KEY has a line break") as caught:
        await endpoint.send(ASK)
    assert "sk-planted" not in str(caught.value)


async def test_a_header_with_a_line_break_is_refused() -> None:
    async with Sandbox() as sandbox, opened(sandbox.base_url) as endpoint:
        with pytest.raises(EndpointError) as caught:
            await endpoint.send(WireRequest("m", ASK.messages, {}, {"X-Title": "a\r\nX-Evil: 1"}))
        assert (caught.value.kind, sandbox.log) == ("rejected", ())


@pytest.mark.parametrize("base_url", [None, "", "localhost:8080/v1", "ftp://h/v1", "http://", "http://u:p@h/v1"])
def test_a_base_url_that_cannot_be_used(base_url: str | None) -> None:
    with pytest.raises(ConfigError, match=r"endpoints\.box\.base_url") as caught:
        OpenAIEndpoint("box", EndpointSettings.model_construct(base_url=base_url), key=lambda: None)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"data": [{"id": "a"}, {"id": "b"}, {"x": 1}]}', ("a", "b")),
        (b'[{"id": "a"}]', ("a",)),
        (b'{"data": []}', ()),
    ],
)
async def test_lists_of_models(body: bytes, names: tuple[str, ...]) -> None:
    raw = Raw(says(http(body)))
    async with raw.running() as url, opened(url) as endpoint:
        assert await endpoint.models() == names
    assert raw.requests[0].startswith(b"GET /v1/models ")


def test_one_endpoint_serves_one_event_loop_after_the_other(recwarn: pytest.WarningsRecorder) -> None:
    async def once(endpoint: OpenAIEndpoint) -> str:
        async with Sandbox(port=0) as sandbox:
            moved = OpenAIEndpoint("box", EndpointSettings(base_url=sandbox.base_url), key=lambda: None)
            await moved.send(ASK)
            await moved.aclose()
            await moved.aclose()
        with pytest.raises(EndpointError):
            await endpoint.send(ASK)
        return moved.name

    endpoint = OpenAIEndpoint("box", EndpointSettings(base_url="http://127.0.0.1:9/v1"), key=lambda: None)
    for _ in range(3):
        assert asyncio.run(once(endpoint)) == "box"
    asyncio.run(endpoint.aclose())
    del endpoint
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


async def test_concurrency_is_bounded() -> None:
    faults = {"*": Fault(latency_ms=30, max_in_flight=4)}
    async with Sandbox(faults=faults) as sandbox, opened(sandbox.base_url, concurrency=4) as endpoint:
        await asyncio.gather(*(endpoint.send(ASK) for _ in range(20)))
        assert {entry.status for entry in sandbox.log} == {200}
