"""One MCP server kept up: a task of its own enters and leaves its client; everybody else only calls.

In: a way to open a session. Out: results of calls. Invariant: a session is entered and left in one task; a caller that
is cancelled, or waits too long, harms no other; when a server dies, the calls under way get their error at once, and it
is started again, each time in vain a little later.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from router.errors import ToolRefused, ToolServerError
from router.tools.descriptors import Descriptor
from router.tools.results import Raw

LIVED_S = 10.0
"""A server that lived as long as this is started again at once; one that did not has its waits counted on."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
LEAVE_S = 10.0
"""Longest time that leaving a session may take, seconds."""
SILENT_CALLS = 3
"""Calls in a row without an answer in time, after which a server with nothing else under way is started again."""


class ConnectionLost(Exception):
    """The connection broke before there was a result. `may_have_run`: whether the tool may have done its work."""

    def __init__(self, message: str, *, may_have_run: bool = True) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ServerFault(Exception):
    """The server answered, but not with a result: it does not know the tool, or something is wrong inside it."""


class Session(Protocol):
    """One open connection to a server."""

    async def tools(self) -> tuple[Descriptor, ...]:
        """Return every tool that the server offers."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Raw:
        """Call a tool.

        Raises:
            ConnectionLost: the connection broke before there was a result.
            ServerFault: the server did not do it, or its answer is no result.
        """
        ...


Open = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]
"""Opens a session; what it is given is to be called when the connection is seen to have ended."""


@dataclass(frozen=True, slots=True)
class _Up:
    """A session that is open, with what it offers, by the tool's own name."""

    session: Session
    offered: tuple[Descriptor, ...]
    digests: Mapping[str, str]


class Link:
    """One connection to one server, made when it is first wanted.

    Args:
        name: the server's name.
        open_session: opens a session.
        connect_timeout_s: longest time until a session is open and has listed its tools, seconds.
        chance: source of the jitter.
    """

    def __init__(
        self, name: str, open_session: Open, connect_timeout_s: float, chance: random.Random | None = None
    ) -> None:
        self.name = name
        self._open = open_session
        self._connect_timeout_s = connect_timeout_s
        self._chance = chance or random.Random()  # noqa: S311 — jitter, no secret
        self._owner: asyncio.Task[None] | None = None
        self._state: asyncio.Future[_Up] | None = None
        self._wanted = asyncio.Event()
        self._under_way = self._silent = 0
        self._ended: asyncio.Event | None = None

    async def offered(self) -> tuple[Descriptor, ...]:
        """Return the tools that the server offers, once it is up.

        Raises:
            ToolServerError: it cannot be started or reached.
        """
        return (await self._up()).offered

    async def call(self, tool: str, sha256: str, arguments: Mapping[str, Any], started: Started) -> Raw:
        """Call a tool.

        Args:
            tool: its own name.
            sha256: digest of the descriptor that was approved.
            arguments: what it is called with.
            started: awaited when the server is up and the call is about to be sent.

        Raises:
            ToolServerError: the server cannot be started or reached.
            ToolRefused: the tool is gone, or is not the one that was approved, since the server was started again.
            ConnectionLost, ServerFault: see `Session.call`.
        """
        up = await self._up()
        if up.digests.get(tool) != sha256:
            message = f"tool server {self.name}: {tool} is no longer the tool that was approved"
            raise ToolRefused(message, hint=f"look at it, then: router tools approve {self.name}")
        await started()
        self._under_way += 1
        try:
            result = await up.session.call(tool, arguments)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._silent = 0
            raise
        else:
            self._silent = 0
            return result
        finally:
            self._under_way -= 1

    def was_silent(self) -> None:
        """Note that a call had no answer in time; a server that answers nobody is started again."""
        self._silent += 1
        if self._silent >= SILENT_CALLS and not self._under_way and self._ended is not None:
            self._silent = 0
            self._lost(self._ended)

    async def aclose(self) -> None:
        """Leave the session and stop; a second call does nothing."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        for _ in range(2):  # a second cancel breaks through a session that does not let itself be left
            owner.cancel()
            await asyncio.wait([owner], timeout=LEAVE_S)
            if owner.done():
                break

    async def _up(self) -> _Up:
        """Return the open session; where the last try failed, its error at once, and another try is asked for."""
        if self._owner is None or self._owner.done():
            self._state = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(), name=f"tool server {self.name}")
            self._owner.add_done_callback(self._owner_ended)
        self._wanted.set()
        while True:
            state = self._state
            assert state is not None  # noqa: S101 — set with the owner
            try:
                up = state.result() if state.done() else await asyncio.shield(state)
            except ToolServerError as error:  # one for each caller: an error takes on the traceback of who raises it
                raise ToolServerError(str(error), hint=error.hint) from None
            if state is self._state:  # else it was lost while this task waited for its turn
                return up

    def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        """Let nobody wait for an owner that is gone, whatever has ended it."""
        error = None if owner.cancelled() else owner.exception()
        is_replaced = self._owner is not None and self._owner is not owner
        if self._state is not None and not self._state.done() and not is_replaced:
            why = "is being closed" if error is None else f"its owner failed: {type(error).__name__}: {error}"
            self._fail(ToolServerError(f"tool server {self.name}: {why}"))

    async def _own(self) -> None:
        """Keep a session open; the one task that enters and leaves sessions of this server."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._wanted.clear()
            begun_s = loop.time()
            error = await self._one_session()
            failures = 0 if loop.time() - begun_s >= LIVED_S else failures + 1
            if error is None and failures <= 1:
                continue
            self._fail(error or ToolServerError(f"tool server {self.name}: ended again and again"))
            await asyncio.sleep(self._wait_s(failures))
            await self._wanted.wait()
            self._state = loop.create_future()

    async def _one_session(self) -> ToolServerError | None:
        """Open a session and stay until it ends; return why it could not be opened, None where it was open."""
        loop = asyncio.get_running_loop()
        ended = self._ended = asyncio.Event()
        was_up = False
        error: ToolServerError | None = None
        try:
            async with (
                asyncio.timeout(self._connect_timeout_s) as limit,
                self._open(lambda: self._lost(ended)) as session,
            ):
                offered = await session.tools()
                limit.reschedule(None)
                was_up = True
                self._succeed(session, offered, ended)
                await ended.wait()
                limit.reschedule(loop.time() + LEAVE_S)
        except TimeoutError:
            late = f"no answer within {self._connect_timeout_s:g} s of its start"
            error = ToolServerError(f"tool server {self.name}: {late}", hint="raise its connect_timeout_s")
        except ToolServerError as failed:
            error = failed
        finally:
            self._lost(ended)
        return None if was_up else error or ToolServerError(f"tool server {self.name}: ended before it answered")

    def _succeed(self, session: Session, offered: tuple[Descriptor, ...], ended: asyncio.Event) -> None:
        if self._state is not None and not self._state.done() and not ended.is_set():
            self._state.set_result(_Up(session, offered, {each.tool: each.sha256 for each in offered}))

    def _fail(self, error: ToolServerError) -> None:
        if self._state is None or self._state.done():
            self._state = asyncio.get_running_loop().create_future()
        self._state.set_exception(error)
        self._state.exception()  # it is nobody's fault if no call is waiting for it

    def _lost(self, ended: asyncio.Event) -> None:
        """Note that a session has ended: from now on calls wait for the next one."""
        if ended.is_set():
            return
        ended.set()
        if ended is self._ended and self._state is not None and self._state.done():
            with contextlib.suppress(RuntimeError):  # the loop is being closed
                self._state = asyncio.get_running_loop().create_future()

    def _wait_s(self, failures: int) -> float:
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failures - 1))
        return longest * (0.5 + 0.5 * self._chance.random())


class Started(Protocol):
    """Awaited just before a call is sent."""

    async def __call__(self) -> None:
        """Take note of it."""
        ...
