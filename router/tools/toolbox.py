"""Every MCP server of a router: started when first wanted, and closed with it.

In: settings, names of tools. Out: `Kit`s. Invariant: what is not allowed by its server, not allowed for the task, or
not approved as it is now, is in no kit; a server is started only if a task may use one of its tools.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.errors import ToolServerError, WrongUsage, unknown_name
from router.settings import Settings
from router.settings_tools import EVERY, JOINT, ToolServerSettings, ToolSettings
from router.tools.approval import Lock, lock_path, read_lock
from router.tools.descriptors import Descriptor, tool_name
from router.tools.link import Link
from router.tools.secrets import secrets_of

if TYPE_CHECKING:
    from router.tools.choosing import Shelf
    from router.tools.kit import Allowance, Kit, Tool
    from router.tools.link import Session

INSTALL = "pip install 'farebox[mcp]'"


def wanted_tools(settings: ToolSettings, names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the tools that names stand for, by server, as their allow-lists have them; `("*",)`: all that is allowed.

    Args:
        settings: the servers, and what every task may use.
        names: what the task or step may use besides: `server__tool` or `server__*`.

    Raises:
        WrongUsage: a name of another form, of a server that is not set, or of a tool that its server's allow lacks.
    """
    wanted: dict[str, list[str]] = {}
    for name in dict.fromkeys([*settings.allow, *names]):
        server, joint, tool = name.partition(JOINT)
        if not joint or not tool:
            raise WrongUsage(f"mcp_tools: {name[:80]!r} is no tool", hint=_forms(settings))
        if server not in settings.servers:
            raise unknown_name("tool server", server, settings.servers)
        wanted.setdefault(server, []).append(_own_name(server, tool, settings.servers[server]))
    return {server: (EVERY,) if EVERY in tools else tuple(tools) for server, tools in wanted.items()}


def _own_name(server: str, tool: str, settings: ToolServerSettings) -> str:
    """Return a tool's own name, from its own or from the one that models see.

    Raises:
        WrongUsage: the server's allow-list does not hold it.
    """
    if tool == EVERY and settings.allow:
        return EVERY
    seen = f"{server}{JOINT}{tool}"
    own = next((each for each in settings.allow if each == tool or tool_name(server, each) == seen), None)
    if own is None and EVERY in settings.allow:
        own = tool
    if own is None:
        listed = ", ".join(settings.allow) or "none"
        raise WrongUsage(
            f"mcp_tools: {seen} is not allowed", hint=f"[tools.servers.{server}] allow holds: {listed}; add it there"
        )
    return own


def _forms(settings: ToolSettings) -> str:
    return f"names look like server__tool or server__*; servers that exist: {', '.join(settings.servers) or 'none'}"


class Toolbox:
    """Every MCP server of a router. It belongs to one event loop; nothing is started before it is wanted.

    Args:
        settings: what is set.
        environ: where the servers' variables are read from.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings.tools
        self._source = settings.source
        self._environ = environ
        keys = (each.key_env for each in settings.endpoints.values())
        self._secrets = secrets_of(settings.tools.servers.values(), keys, environ)
        self._links: dict[str, Link] = {}
        self._places: dict[str, asyncio.Semaphore] = {}
        self._is_loaded = False
        self._lock_read: tuple[tuple[int, int, int], Lock] | None = None

    @cached_property
    def _shelf(self) -> Shelf:
        from router.tools.choosing import Shelf

        return Shelf()

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._settings.servers)})"

    def allowance(self) -> Allowance:
        """Return how many tool calls a new run may make."""
        from router.tools.kit import Allowance

        return Allowance(self._settings.max_calls)

    @asynccontextmanager
    async def kit(
        self,
        names: Iterable[str],
        allowance: Allowance | None = None,
        own: Sequence[Mapping[str, Any]] = (),
        deadline_s: float | None = None,
    ) -> AsyncIterator[Kit | None]:
        """Give the tools that a task or step may use, their servers up; None where it may use none.

        Servers whose sessions are one for each worker get theirs here; they are closed when the block ends.

        Args:
            names: `server__tool` or `server__*`, beside what [tools] allow gives to every task.
            allowance: what its run may still call; None: it is a run of its own.
            own: the task's own OpenAI-style tools, which its caller answers.
            deadline_s: time of the event loop until which a server is waited for, seconds; None: no such time.

        Raises:
            WrongUsage: a tool is not allowed, or has the name of one of the task's own.
            ToolServerError: a server cannot be started or reached in time, or the package `mcp` is missing.
            ToolRefused: a tool is not offered, not approved, or has changed since it was.
        """
        wanted = wanted_tools(self._settings, names)
        if not wanted:
            yield None
            return
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline_s):
                    tools = await self._tools(wanted, stack)
            except TimeoutError:
                names_of = ", ".join(wanted)
                raise ToolServerError(f"tool server {names_of}: not ready before the step's time-out") from None
            from router.tools.choosing import refuse_same_names
            from router.tools.kit import Kit

            refuse_same_names(tools, own)
            settings, hide = self._settings, self._secrets.hide
            yield Kit(tools, allowance or self.allowance(), settings.max_rounds, settings.max_result_bytes, hide)

    async def _tools(self, wanted: Mapping[str, tuple[str, ...]], stack: AsyncExitStack) -> dict[str, Tool]:
        """Return the tools wanted, by name; what is to be closed after their use goes onto the stack."""
        lock = self._lock()
        await self._load()
        from router.tools.choosing import chosen

        links = {name: await self._link_for(name, stack) for name in sorted(wanted)}  # one order: no two wait in a ring
        offered = dict(zip(links, await asyncio.gather(*(link.offered() for link in links.values())), strict=True))
        return {
            each.name: self._tool(each, links[server])
            for server, asked in wanted.items()
            for each in chosen(server, asked, offered[server], self._settings.servers[server], lock)
        }

    def _lock(self) -> Lock:
        """Return what is approved, read again where the file has changed."""
        path = lock_path(self._source)
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            stamp = (0, 0, 0)
        if self._lock_read is None or self._lock_read[0] != stamp:
            self._lock_read = (stamp, read_lock(path))
        return self._lock_read[1]

    async def offered(self, server: str) -> tuple[Descriptor, ...]:
        """Return every tool that a server offers, allowed or not.

        Raises:
            WrongUsage: there is no such server.
            ToolServerError: it cannot be started or reached, or the package `mcp` is missing.
        """
        if server not in self._settings.servers:
            raise unknown_name("tool server", server, self._settings.servers)
        await self._load()
        return await self._shared_link(server).offered()

    async def aclose(self) -> None:
        """Leave every server; those that were started end. A second call does nothing."""
        links, self._links = list(self._links.values()), {}
        await _closed(links)

    async def _load(self) -> None:
        """Import the package `mcp` in a thread: it takes seconds.

        Raises:
            ToolServerError: it is not installed.
        """
        if self._is_loaded:
            return
        if not _has_mcp():
            raise ToolServerError("tools: the package mcp is not installed", hint=INSTALL)
        await asyncio.to_thread(importlib.import_module, "router.tools.mcp_wire")
        self._is_loaded = True

    async def _link_for(self, server: str, stack: AsyncExitStack) -> Link:
        """Return the link of a server: everybody's, or one for this worker alone as soon as there is a place."""
        settings = self._settings.servers[server]
        if settings.session == "shared":
            return self._shared_link(server)
        await stack.enter_async_context(self._places_of(server))
        link = self._new_link(server)
        stack.push_async_callback(_closed, [link])
        return link

    def _places_of(self, server: str) -> asyncio.Semaphore:
        concurrency = self._settings.servers[server].concurrency
        return self._places.setdefault(server, asyncio.Semaphore(concurrency))

    def _shared_link(self, server: str) -> Link:
        if server not in self._links:
            self._links[server] = self._new_link(server)
        return self._links[server]

    def _new_link(self, server: str) -> Link:
        settings = self._settings.servers[server]
        folder = self._source.parent if self._source is not None else Path.cwd()

        def opened(ended: Callable[[], None]) -> AbstractAsyncContextManager[Session]:
            from router.tools.mcp_wire import opened

            return opened(server, settings, folder, self._environ, self._secrets.hide, ended)

        return Link(server, opened, settings.connect_timeout_s)

    def _tool(self, descriptor: Descriptor, link: Link) -> Tool:
        from router.tools.kit import Tool

        settings = self._settings.servers[descriptor.server]
        is_shared = settings.session == "shared"
        sound = self._shelf.sound(descriptor)
        return Tool(
            descriptor=descriptor,
            link=link,
            places=self._places_of(descriptor.server) if is_shared else asyncio.Semaphore(settings.concurrency),
            check=sound.check,
            output=sound.output,
            is_idempotent=settings.repeats(descriptor.tool),
            timeout_s=settings.timeout_s,
        )


async def _closed(links: Iterable[Link]) -> None:
    """Close links to the end, also where the caller is cancelled meanwhile."""
    closing = asyncio.gather(*(link.aclose() for link in links), return_exceptions=True)
    await asyncio.shield(closing)


@cache
def _has_mcp() -> bool:
    return importlib.util.find_spec("mcp") is not None and importlib.util.find_spec("jsonschema") is not None
