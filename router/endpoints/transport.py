"""The door to aiohttp: sessions, time-outs by phase, and every way an exchange can break.

In: a URL, headers, bytes. Out: an open response, or an exception that `broken` turns into an `EndpointError`.
Invariant: a request is sent at most once. aiohttp itself sends only idempotent methods again after a kept connection
turned out closed, and a POST is none of them (RFC 9110, 9.2.2); redirects are not followed, so the key stays here.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from time import perf_counter
from types import SimpleNamespace

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from router.endpoints.failures import Sender
from router.endpoints.line import NO_TIMEOUT, Deadlines, Line, Reply
from router.endpoints.protocol import Timings
from router.errors import EndpointError

_IDLE_TAIL_S = 0.05
_MILLISECONDS = re.compile(r"[0-9]{1,9}")


class Watch:
    """One exchange's clock: which phase it is in, when each began, and the time-out of the phase.

    Args:
        connect_s: longest wait for a connection, seconds; waiting for a free one of the pool is not counted.
        read_s: longest wait from then to the whole answer (to the headers, where it is streamed), seconds.
    """

    __slots__ = (
        *("_connect_s", "_read_s", "answered_s", "connected_s", "is_connecting", "sent_s", "started_s"),
        *("timer", "was_sent"),
    )

    def __init__(self, connect_s: float, read_s: float) -> None:
        self._connect_s, self._read_s, self.connected_s = connect_s, read_s, 0.0
        self.started_s = self.sent_s = self.answered_s = perf_counter()
        self.is_connecting = False
        self.was_sent = False
        self.timer = asyncio.timeout(None)

    def connecting(self) -> None:
        """A connection is being opened."""
        self.is_connecting = True
        self._allow(self._connect_s)

    def connected(self) -> None:
        """There is a connection, and the time of the answer begins."""
        self.is_connecting = False
        self.connected_s = asyncio.get_running_loop().time()
        self._allow(self._read_s)

    def sent(self) -> None:
        """A part of the request is on its way."""
        self.was_sent = True
        self.sent_s = perf_counter()

    def answered(self) -> None:
        """The answer's headers have come."""
        self.answered_s = perf_counter()

    def _allow(self, seconds: float) -> None:
        if not self.timer.expired():
            self.timer.reschedule(asyncio.get_running_loop().time() + seconds)

    def timings(self, ended_s: float, stated_ms: str | None, first_token_s: float | None, *, streamed: bool) -> Timings:
        """Return where the time went.

        Waiting for the model lasts from the request's last byte to the answer's headers, and in a stream to its end;
        a duration the upstream states (`openai-processing-ms`) takes the place of the part before the headers.

        Args:
            ended_s: when the answer was whole, as of `perf_counter`.
            stated_ms: the header's value, or None.
            first_token_s: when the first token of a stream came, or None.
            streamed: whether the answer was streamed.
        """
        latency_us = _us(ended_s - self.started_s)
        waited_us = _us(self.answered_s - self.sent_s)
        if stated_ms is not None and _MILLISECONDS.fullmatch(stated_ms.strip()):
            waited_us = int(stated_ms) * 1000
        inference_us = min(waited_us + (_us(ended_s - self.answered_s) if streamed else 0), latency_us)
        ttft_us = None if first_token_s is None else _us(first_token_s - self.started_s)
        return Timings(latency_us, ttft_us, latency_us - inference_us, inference_us)


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


class Transport:
    """Kept-alive connections to one server.

    Args:
        url: where its plain requests go.
        concurrency: most connections at once.
        keepalive_s: how long an idle connection is kept, seconds.
        read_s: longest wait from a connection to the whole answer, seconds.
    """

    def __init__(self, url: URL, concurrency: int, keepalive_s: float, read_s: float) -> None:
        self._url, self._proxy = url, proxy_of(url)
        self._concurrency, self._keepalive_s = concurrency, keepalive_s
        self._deadlines = Deadlines(read_s)
        self._session: aiohttp.ClientSession | None = None
        self._line: Line | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def has_proxy(self) -> bool:
        """Whether the server is reached by a proxy."""
        return self._proxy is not None

    async def post(self, request: bytes, watch: Watch) -> Reply:
        """Write one request, head and body, and return its reply with the headers read, the body not.

        Where the server is reached by a proxy, `open` is to be used.

        Raises:
            Exception: as of `open`.
        """
        session = self._current()
        if self._line is None:
            self._line = Line(session, self._url, self._deadlines, asyncio.get_running_loop())
        return await self._line.open(request, watch)

    async def open(self, method: str, url: URL, headers: dict[str, str], body: bytes | None, watch: Watch) -> Reply:
        """Send one request of any kind and return its reply with the headers read, the body not.

        Raises:
            Exception: whatever aiohttp or the system raise; `broken` knows them.
        """
        async with watch.timer:
            response = await self._current().request(
                method, url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=watch
            )
        watch.answered()
        reply = Reply(self._deadlines, response)
        reply.take(response.status, response.headers, response.content)
        if not response.content.is_eof():
            self._deadlines.add(reply, watch.connected_s, asyncio.get_running_loop())
            response.content.on_eof(reply.untimed)
        return reply

    def _current(self) -> aiohttp.ClientSession:
        """Return this loop's session; one of another loop is let go of, since its connections belong there."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._abandon()
            self._session, self._loop, self._line = self._new(), loop, None
        return self._session

    def _new(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._concurrency, keepalive_timeout=self._keepalive_s, ttl_dns_cache=300
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=NO_TIMEOUT,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_tracing()],
            proxy=self._proxy,
        )

    def _abandon(self) -> None:
        session, self._session = self._session, None
        self._deadlines.clear()
        if session is None or session.closed or self._loop is None:
            return
        if self._loop.is_closed():
            # Its sockets died with the loop; only the objects are left, and they must not complain.
            connector = session.connector
            session.detach()
            if connector is not None:
                connector._closed = True  # noqa: SLF001 - aiohttp has no way to let go of a dead loop's connector
        else:
            self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(session.close()))

    async def aclose(self) -> None:
        """Close kept connections; a second call does nothing."""
        if self._session is not None and self._loop is asyncio.get_running_loop():
            session, self._session = self._session, None
            self._deadlines.clear()
            await session.close()
        else:
            self._abandon()


def proxy_of(url: URL) -> str | None:
    """Return the proxy that the environment names for a server; never one for this machine itself."""
    host = url.host or ""
    if host in ("localhost", "::1") or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _tracing() -> aiohttp.TraceConfig:
    """Return the hooks that tell a `Watch` which phase its exchange is in."""

    async def connecting(_session: object, context: SimpleNamespace, _parameters: object) -> None:
        context.trace_request_ctx.connecting()

    async def connected(_session: object, context: SimpleNamespace, _parameters: object) -> None:
        context.trace_request_ctx.connected()

    async def sent(_session: object, context: SimpleNamespace, _parameters: object) -> None:
        context.trace_request_ctx.sent()

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_start.append(connecting)
    tracing.on_connection_create_end.append(connected)
    tracing.on_connection_reuseconn.append(connected)
    tracing.on_request_headers_sent.append(sent)
    tracing.on_request_chunk_sent.append(sent)
    return tracing


async def read_bounded(response: Reply, most_bytes: int) -> bytes | None:
    """Return a response's whole body, or None (and close the connection) where it is longer than the bound."""
    parts: list[bytes] = []
    size = 0
    while part := await response.content.readany():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            response.close()
            return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def drain(response: Reply) -> None:
    """Read what follows a stream's end marker, so that the connection can be kept; close it where it goes on."""
    try:
        async with asyncio.timeout(_IDLE_TAIL_S):
            while await response.content.readany():
                pass
    except Exception:  # noqa: BLE001 - the answer is whole; whatever is wrong behind it costs the connection alone
        response.close()


class Lull:
    """Lets a response's bytes gather unread for a while: a hundred small ones are read as fast as one.

    Args:
        response: whose; its end ends a lull, while a connection that breaks is noticed after it.
        most_s: how long one lasts at most, seconds.
    """

    def __init__(self, response: Reply, most_s: float) -> None:
        self._content, self._most_s = response.content, most_s
        self._over: asyncio.Future[None] | None = None
        self._content.on_eof(self._end)

    async def last(self) -> None:
        """Wait until the time is over, or the response."""
        if self._content.is_eof():
            return
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        timer = loop.call_later(self._most_s, self._end)
        try:
            await self._over
        finally:
            timer.cancel()

    def _end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


def broken(sender: Sender, error: Exception, watch: Watch) -> EndpointError:
    """Return the error for an exchange that broke: by whether anything was sent, and whether it was a time-out."""
    if isinstance(error, TimeoutError):
        if watch.is_connecting or isinstance(error, aiohttp.ConnectionTimeoutError):
            return sender.failure(
                "connect_timeout", "no connection in time", "raise connect_timeout_s, or check base_url"
            )
        return sender.failure("timeout", "no answer in time; it may have been billed", "raise read_timeout_s")
    what = reason(error)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return sender.failure("refused", what, f"check base_url of endpoint {sender.name}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return sender.failure("refused", f"the proxy answered HTTP {error.status}", "check HTTPS_PROXY and NO_PROXY")
    if not watch.was_sent:
        return sender.failure("refused", what)
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):  # an answer that is not HTTP
        return sender.failure("malformed", f"not an HTTP answer: {what}")
    return sender.failure("dropped", f"the connection broke after the request was sent: {what}")


def reason(error: Exception) -> str:
    """Return an exception in words, without the request it may carry (which holds the key)."""
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return error.message or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):  # the head it sent
        return "Server disconnected in the middle of its answer"
    return str(error) or type(error).__name__
