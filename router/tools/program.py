"""A program that is spoken to over its standard streams in JSON-RPC 2.0, one message a line (MCP's transport `stdio`).

In: a command; requests. Out: the reply to each; all that is no reply to a request made here goes to `other`. Invariant:
a reply reaches the request with its id and no other; when the program's output ends, every waiting request has its
`ConnectionLost` at once; when `stop` returns, the program has ended, and, where it had to be asked to, all of its
process group with it.
Nothing here knows the package `mcp`, whose own client takes ten times as long for a call (docs/decisions/0018).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from router.tools.link import ConnectionLost

FIRST_ID = 1_000_000_000
"""Ids of requests made here count from this on; others', which share the connection, count from 1. Fits 32 bits."""
EXIT_S = 2.0
"""See `Program`; three times it is less than what leaving a session may take (`router.tools.link.LEAVE_S`)."""
POLL_S = 0.01
"""How often it is looked whether a program that is to end has ended, seconds."""
SAID_BYTES = 2000
"""How much of what a program says on its standard error is remembered, for the message if it does not start."""
LAST_WORDS_S = 0.2
"""Longest wait for the rest of that, once the program has ended, seconds."""
_INPUT, _ERRORS = 0, 2
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Program(asyncio.SubprocessProtocol):
    """One program, started once.

    Args:
        ended: called once, as soon as the connection is seen to have ended.
        other: takes a message that is no reply to a request made here, as it came.
        exit_s: longest wait for it to end once its input is closed, then once it was asked to, then once it was
            killed, seconds.
    """

    def __init__(self, ended: Callable[[], None], other: Callable[[bytes], None], exit_s: float = EXIT_S) -> None:
        self._ended, self._other, self._exit_s = ended, other, exit_s
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._waiting: dict[object, asyncio.Future[Mapping[str, Any]]] = {}
        self._last_id = FIRST_ID
        self._begun: list[bytes] = []  # pieces of a line whose end has not come yet
        self._unsent: list[bytes] = []
        self._said = b""
        self._is_over = False
        self._has_exited, self._has_said_all = asyncio.Event(), asyncio.Event()

    async def start(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        """Start the program, in a process group of its own.

        Raises:
            OSError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        started = await loop.subprocess_exec(lambda: self, *command, cwd=cwd, env=environ, start_new_session=True)
        self._transport = started[0]
        self._input = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(_INPUT))

    async def reply(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and return the whole reply; the program is told where the caller leaves before.

        Raises:
            ConnectionLost: the connection broke before there was one.
            ValueError: the parameters are not JSON.
        """
        if self._is_over:
            raise ConnectionLost("the connection broke")
        number = self._last_id = self._last_id + 1
        self._say({"id": number, "method": method, "params": params})
        waiting: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            left = {"requestId": number, "reason": "caller cancelled"}
            self._say({"method": "notifications/cancelled", "params": left})
            raise
        finally:
            self._waiting.pop(number, None)

    def _say(self, message: Mapping[str, Any]) -> None:
        self.write(_JSON.encode({"jsonrpc": "2.0", **message}).encode())

    def write(self, message: bytes) -> None:
        """Send a message, a line of JSON without its end; none is sent once the connection has ended.

        Those of one turn of the event loop are written together: each write would wake the program, and it would take
        the processor from whoever has the next one to send.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        if self._input is not None and not self._is_over:
            self._input.write(b"\n".join([*self._unsent, b""]))
        self._unsent.clear()

    def last_line(self) -> str:
        """Return the last line with anything on it of its standard error, made printable and short."""
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        return "".join(sign if sign.isprintable() else "?" for sign in lines[-1])[:200] if lines else ""

    # What asyncio calls -------------------------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: D102 — the protocol's
        if fd == _ERRORS:  # read, so that it neither blocks nor reaches the terminal
            self._said = (self._said + data)[-SAID_BYTES:]
            return
        self._begun.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._begun).split(b"\n")
            self._begun = [rest] if rest else []
            for line in lines:
                self._take(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002, D102 — the protocol's
        if fd == _ERRORS:
            self._has_said_all.set()
        else:
            self._end()

    def process_exited(self) -> None:  # noqa: D102 — the protocol's
        self._has_exited.set()

    def _take(self, line: bytes) -> None:
        """Give a line to who waits for it; what is no JSON is left, as programs print greetings."""
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        waiting = self._waiting.get(_number(message["id"])) if _is_reply(message) else None
        if waiting is None:
            self._other(line)
        elif not waiting.done():
            waiting.set_result(message)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost("the connection broke"))
        self._ended()

    # Ending it ----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End the program as MCP has it: close its input, then ask it to end, then kill it.

        (modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle, "Shutdown", checked 2026-11-30.)
        """
        self._flush()
        self._end()
        transport = self._transport
        if transport is None or self._input is None:
            return
        try:
            self._input.close()
            if not await _within(self._has_exited, self._exit_s):
                await self._kill(transport.get_pid())
            await _within(self._has_said_all, LAST_WORDS_S)  # what it said last is what tells why it ended
        finally:  # also where a second cancel breaks through
            if not self._has_exited.is_set():
                _signal(transport.get_pid(), signal.SIGKILL)
            with contextlib.suppress(PermissionError):
                transport.close()

    async def _kill(self, group: int) -> None:
        """Ask every process of a group to end; kill those that have not in time."""
        _signal(group, signal.SIGTERM)
        deadline_s = asyncio.get_running_loop().time() + self._exit_s
        while _signal(group, 0) and asyncio.get_running_loop().time() < deadline_s:  # noqa: ASYNC110 — nobody tells
            await asyncio.sleep(POLL_S)
        _signal(group, signal.SIGKILL)
        await _within(self._has_exited, self._exit_s)


def _is_reply(message: object) -> bool:
    return isinstance(message, dict) and "method" not in message and isinstance(message.get("id"), int | str)


def _number(answered: int | str) -> object:
    """Return the id that a reply names; some programs write a number as a text. None of ours has 20 digits."""
    return int(answered) if isinstance(answered, str) and answered.isdecimal() and len(answered) < 20 else answered


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group, 0 to look only; return whether there is still one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # some of it is not ours to end, or macOS has a dead one there: it proves nothing
        return True
    return True


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether something has happened in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
