"""One request over a kept connection, without what a session does around it.

In: a request's bytes. Out: a `Reply`, its headers read, its body not. Invariant: a request is written at most once, a
connection is kept only where request and answer are whole, and no answer outlives its time-out.

aiohttp connects, keeps connections and parses, as it does for its sessions; what a session adds to each request (a
request and a response object, cookies, redirects, payload types, hooks) took longer than all of that together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from router.endpoints.transport import Watch

NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class Deadlines:
    """One timer for all answers that are waited for with the same time-out.

    Args:
        wait_s: the time-out, seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._waits: dict[Reply, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, reply: Reply, since_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Let an answer's time begin at an instant of its loop."""
        until_s = self._waits[reply] = since_s + self._wait_s
        if self._timer is not None:
            if self._timer.when() <= until_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(until_s, self._fire, loop)

    def remove(self, reply: Reply) -> None:
        """Let an answer's time be over: it has come, or is not waited for any more."""
        self._waits.pop(reply, None)

    def clear(self) -> None:
        """Wait for none any more."""
        self._waits.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now_s = loop.time()
        for reply in [reply for reply, until_s in self._waits.items() if until_s <= now_s]:
            del self._waits[reply]
            reply.expire()
        if self._waits:
            self._timer = loop.call_at(min(self._waits.values()), self._fire, loop)


class Reply:
    """An answer whose headers have come.

    Args:
        deadlines: where its time-out is kept.
        owner: the connection or response that it is read from; closed with it.
        protocol: whose waiters are told where its time-out strikes before its headers came; None: none.
    """

    __slots__ = ("_deadlines", "_owner", "_protocol", "content", "headers", "status")

    def __init__(self, deadlines: Deadlines, owner: Any, protocol: Any = None) -> None:
        self._deadlines, self._owner, self._protocol = deadlines, owner, protocol
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.content: Any = None

    @property
    def content_type(self) -> str:
        """The answer's media type, in lower case, without parameters; "" where none is stated."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def take(self, status: int, headers: Mapping[str, str], content: Any) -> None:
        """Take the headers of the answer and the stream of its body."""
        self.status, self.headers, self.content = status, headers, content

    def whole(self) -> None:
        """Let the connection be used again: the body has come to its end."""
        self._deadlines.remove(self)
        owner, self._owner = self._owner, None
        if owner is None:
            return
        transport = owner.transport
        if transport is None or transport.get_write_buffer_size():  # it was answered before it was written
            owner.close()
        else:
            owner.release()

    def timed(self, since_s: float) -> None:
        """Let a time-out begin at an instant of the loop, where it is read again."""
        self._deadlines.add(self, since_s, asyncio.get_running_loop())

    def untimed(self) -> None:
        """Let its time-out be over."""
        self._deadlines.remove(self)

    def expire(self) -> None:
        """Tell whoever reads it that its time is over."""
        for each in (self._protocol, self.content):
            if each is not None:
                each.set_exception(TimeoutError())

    def close(self) -> None:
        """Close the connection, unless the body was read to its end; a second call does nothing."""
        self._deadlines.remove(self)
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.close()


class _Phases:
    """What aiohttp's connector calls its hooks on: tells a `Watch` when a connection is being opened."""

    __slots__ = ("_watch",)

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def send_connection_create_start(self) -> None:
        self._watch.connecting()

    async def send_connection_reuseconn(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("send_"):
            return _pass
        raise AttributeError(name)


async def _pass(*_: object) -> None:
    pass


class Line:
    """Kept connections for one kind of request to one server, without a proxy.

    Args:
        session: whose connector opens and keeps them.
        url: where each request goes.
        deadlines: time-outs from a connection to the whole answer.
        loop: the session's.
    """

    def __init__(
        self, session: aiohttp.ClientSession, url: URL, deadlines: Deadlines, loop: asyncio.AbstractEventLoop
    ) -> None:
        connector = session.connector
        if connector is None:
            raise RuntimeError("the session is closed")
        self._connector: aiohttp.BaseConnector = connector
        # All requests of a line have the same connection key, so one of them stands for all.
        self._key = aiohttp.ClientRequest("POST", url, loop=loop, session=session)
        self._loop, self._deadlines = loop, deadlines

    async def open(self, request: bytes, watch: Watch) -> Reply:
        """Write a request and return its reply, with the headers read, the body not.

        Raises:
            Exception: whatever aiohttp or the system raise; `router.endpoints.transport.broken` knows them.
        """
        phases: Any = _Phases(watch)
        async with watch.timer:
            connection = await self._connector.connect(self._key, [phases], NO_TIMEOUT)
        watch.is_connecting = False
        reply = Reply(self._deadlines, connection, connection.protocol)
        try:
            await self._ask(connection.protocol, request, reply, watch)
        except BaseException:
            reply.close()
            raise
        return reply

    async def _ask(self, protocol: Any, request: bytes, reply: Reply, watch: Watch) -> None:
        """Write the request and read the headers; interim answers (1xx) are passed over."""
        protocol.set_response_params(read_until_eof=True, auto_decompress=True)
        transport = protocol.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("the connection was closed")
        self._deadlines.add(reply, self._loop.time(), self._loop)
        watch.sent()
        transport.write(request)
        while True:
            message, content = await protocol.read()
            if not 100 <= message.code < 200 or message.code == 101:
                break
        watch.answered()
        reply.take(message.code, message.headers, content)
        content.on_eof(reply.whole)


def head(url: URL, headers: Mapping[str, str]) -> bytes:
    """Return the head of a POST up to the number of its `Content-Length`, which comes last.

    Args:
        url: where it goes, http or https.
        headers: names and values without control characters.
    """
    given = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    start = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
    return f"{start}Accept-Encoding: gzip, deflate\r\n{given}Content-Length: ".encode()
