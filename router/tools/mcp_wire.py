"""The door to MCP: the one module that knows the package `mcp`.

In: a server's settings. Out: a `Session` of ours, open while its block lasts: its tools, and calls of them. Invariant:
whoever enters the block leaves it, in the same task; a call raises nothing but the errors of this module (and
CancelledError); no message holds a secret.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import DEFAULT_CLIENT_INFO
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from router.errors import ToolServerError
from router.tools.descriptors import Descriptor
from router.tools.link import ConnectionLost, ServerFault
from router.tools.program import Program
from router.tools.results import Block, Raw

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from router.settings_tools import ToolServerSettings

MOST_PAGES = 100
"""Pages of tools that are read: a list that never ends cannot hang a start."""
MOST_EVENT_BYTES = 64 * 1024 * 1024
HINT = "router tools check tries every server"
NO_RESULT = "the server's answer is not a tool's result"

# Without a handler of the user's, Python prints warnings and tracebacks of a library to the terminal.
for _name in ("mcp", "client", "mcp_types", "httpx2", "httpcore2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class McpSession:
    """One open connection to a server. See `router.tools.link.Session`, whose protocol it keeps.

    Args:
        name: the server's name.
        client: has agreed with it on a version of MCP.
        ended: called as soon as the connection is seen to have ended.
        program: the server, where it was started here: its tools are called past the client, which takes 0.5 ms of
            processor time for what takes 0.03.
    """

    def __init__(self, name: str, client: Client, ended: Callable[[], None], program: Program | None) -> None:
        self._name = name
        self._client = client
        self._ended = ended
        self._program = program
        self._version = client.session.protocol_version or LATEST_HANDSHAKE_VERSION
        self._envelope = _envelope(self._version)

    async def tools(self) -> tuple[Descriptor, ...]:
        """Return every tool that the server offers, in its order."""
        found: list[Descriptor] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="refresh")
            found += [
                Descriptor(self._name, tool.name, tool.description or "", tool.input_schema, tool.output_schema)
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Raw:
        """Call a tool and return its result.

        The package's own `call_tool` refuses a result that is not as the tool promised; here it is for us to mark it.

        Raises:
            ConnectionLost: the connection broke before there was a result.
            ServerFault: the server did not do it, or its answer is no result.
        """
        try:
            if self._program is None:
                params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
                answer = await self._client.session.send_request(types.CallToolRequest(params=params), _ANSWER)
            else:
                answer = await self._told(self._program, {"name": tool, "arguments": arguments, **self._envelope})
        except MCPError as error:
            raise self._failed(error) from None
        except ValidationError:
            raise ServerFault(NO_RESULT) from None
        except (RuntimeError, ValueError, OSError) as error:
            raise ServerFault(f"{type(error).__name__}: {error}") from None
        if isinstance(answer, types.InputRequiredResult):
            raise ServerFault("the tool asks for input of a person, which is not possible here")
        return _raw(answer)

    async def _told(
        self, program: Program, params: Mapping[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        reply = await program.reply("tools/call", params)
        if (error := reply.get("error")) is not None:  # JSON-RPC 1.0 says null where there is a result
            raise MCPError.from_error_data(types.ErrorData.model_validate(error))
        result = reply.get("result")
        if isinstance(result, dict):  # as the package does: by the version that was agreed on, then by its own types
            with contextlib.suppress(KeyError):
                validate_server_result("tools/call", self._version, result)
        return _ANSWER.validate_python(result, by_name=False)

    def _failed(self, error: MCPError) -> ConnectionLost | ServerFault:
        words = " ".join(error.message.split())
        if error.code == types.INVALID_REQUEST and words == "Session terminated":  # the server has begun anew since
            self._ended()
            return ConnectionLost("the server no longer knows the session", may_have_run=False)
        if error.code == types.CONNECTION_CLOSED:
            return ConnectionLost("the connection broke")
        return ServerFault(words)


def _envelope(version: str) -> Mapping[str, Any]:
    """Return what the parameters of every request hold besides, in a version of MCP that has no handshake."""
    if version not in MODERN_PROTOCOL_VERSIONS:
        return {}
    client = DEFAULT_CLIENT_INFO.model_dump(by_alias=True, mode="json", exclude_none=True)
    keys = (types.PROTOCOL_VERSION_META_KEY, types.CLIENT_INFO_META_KEY, types.CLIENT_CAPABILITIES_META_KEY)
    return {"_meta": dict(zip(keys, (version, client, {}), strict=True))}


def _raw(answer: types.CallToolResult) -> Raw:
    blocks = tuple(_block(piece) for piece in answer.content)
    return Raw(blocks, answer.structured_content, bool(answer.is_error))


def _block(piece: types.ContentBlock) -> Block:
    match piece:
        case types.TextContent():
            return Block("text", piece.text)
        case types.ImageContent() | types.AudioContent():
            return Block(piece.type, mime=piece.mime_type, size=len(piece.data) * 3 // 4)
        case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
            return Block("text", inner.text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as inner):
            return Block("resource", str(inner.uri), inner.mime_type, len(inner.blob) * 3 // 4)
        case types.ResourceLink():
            return Block("link", str(piece.uri), piece.mime_type)
    return Block("resource", type(piece).__name__)


@asynccontextmanager
async def opened(
    name: str,
    settings: ToolServerSettings,
    folder: Path,
    environ: Mapping[str, str],
    hide: Callable[[str], str],
    ended: Callable[[], None],
) -> AsyncIterator[McpSession]:
    """Start or reach a server, and give its session; leave it at the block's end.

    Args:
        name: the server's name.
        settings: its settings.
        folder: what its working directory is relative to.
        environ: where variables are read from.
        hide: takes secrets out of a text.
        ended: called once, as soon as the connection is seen to have ended.

    Raises:
        ToolServerError: it cannot be started, reached or spoken with.
    """
    _require_variables(name, settings, environ)
    piped = _Piped(settings, folder, environ, ended) if settings.command is not None else None
    program = piped.program if piped is not None else None
    status: list[int] = []
    try:
        transport = piped or _Watched(_address(settings, environ, status), ended)
        # Nothing is cached: a tool's list is read anew where it is read at all.
        async with Client(transport, cache=None) as client:
            yield McpSession(name, client, ended, program)
    except ToolServerError:
        raise
    except Exception as error:  # noqa: BLE001 — whatever the package meets, groups of errors included
        why = hide(_why(settings, _first(error), program, status))
        raise ToolServerError(f"tool server {name}: {why}", hint=f"mend [tools.servers.{name}]; {HINT}") from None


def _require_variables(name: str, settings: ToolServerSettings, environ: Mapping[str, str]) -> None:
    """Refuse to start a server without what it is to be given.

    Raises:
        ToolServerError: a variable that its settings name is not set.
    """
    key = (settings.key_env,) if settings.key_env is not None else ()
    for variable in (*settings.env, *key, *settings.header_env.values()):
        if variable not in environ:
            message = f"tool server {name}: the variable {variable}, which it is to be given, is not set"
            raise ToolServerError(message, hint="set it in the environment or in .env")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _why(settings: ToolServerSettings, error: BaseException, program: Program | None, status: list[int]) -> str:
    """Return why a server could not be spoken with, in words."""
    if program is not None:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return f"{settings.command!r} cannot be started: {error.strerror or error}"
        words = program.last_line()
        return f"{settings.command!r} ended before it answered{f'; it said: {words}' if words else ''}"
    if status and status[-1] in (401, 403):
        return f"{settings.url} refuses the key (status {status[-1]})"
    if status and status[-1] >= 400:
        return f"{settings.url} answers with status {status[-1]}"
    if isinstance(error, httpx2.TransportError | OSError):
        return f"{settings.url} cannot be reached: {' '.join(str(error).split()) or type(error).__name__}"
    return f"{settings.url} does not speak MCP over {settings.transport}: {' '.join(str(error).split())[:200]}"


# Transports ----------------------------------------------------------------------------------------------------------


class _Piped:
    """A program's standard streams as a transport of the package, which sees all but the calls of tools.

    Args:
        settings: say how it is started.
        folder: what its working directory is relative to.
        environ: where the variables that it is given are read from.
        ended: called as soon as the connection is seen to have ended.
    """

    def __init__(
        self, settings: ToolServerSettings, folder: Path, environ: Mapping[str, str], ended: Callable[[], None]
    ) -> None:
        self._command = (settings.command or "", *settings.args)
        self._cwd = folder / settings.cwd if settings.cwd is not None else folder
        self._environ = get_default_environment() | {name: environ[name] for name in settings.env}
        self._ended = ended
        self.program = Program(self._lost, self._take)

    async def __aenter__(self) -> TransportStreams:
        # Without a bound, as what fills it cannot wait: the package takes each message at once.
        self._incoming, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        try:
            await self.program.start(self._command, self._cwd, self._environ)
        except BaseException:
            self._incoming.close()
            incoming.close()
            raise
        return incoming, _Outgoing(self.program)

    async def __aexit__(self, *error: object) -> None:
        await self.program.stop()

    def _take(self, line: bytes) -> None:
        with contextlib.suppress(ValidationError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            self._incoming.send_nowait(SessionMessage(message))

    def _lost(self) -> None:
        self._incoming.close()
        self._ended()


class _Outgoing:
    """Writes the package's own messages."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def send(self, item: SessionMessage, /) -> None:
        self._program.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def aclose(self) -> None:
        """Leave the program's input open, which is closed with the program."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


def _address(
    settings: ToolServerSettings, environ: Mapping[str, str], status: list[int]
) -> AbstractAsyncContextManager[TransportStreams]:
    headers = {header: environ[name] for header, name in settings.header_env.items()}
    if settings.key_env is not None:
        headers["Authorization"] = f"Bearer {environ[settings.key_env]}"
    url = settings.url or ""

    async def note(response: httpx2.Response) -> None:
        status[:] = [response.status_code]

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 — the package's own idea of it
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        # How long a call may take is for its caller to say: a stream may be silent as long as the tool works.
        waits = httpx2.Timeout(settings.connect_timeout_s, read=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=settings.concurrency)
        hooks = {"response": [note]}
        return httpx2.AsyncClient(
            headers=headers, timeout=waits, limits=limits, event_hooks=hooks, auth=auth, trust_env=False
        )

    if settings.transport == "sse":
        return sse_client(url, headers=headers, httpx_client_factory=client)
    return _streamable(url, client(headers))


@asynccontextmanager
async def _streamable(url: str, client: httpx2.AsyncClient) -> AsyncIterator[TransportStreams]:
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MOST_EVENT_BYTES) as streams,
    ):
        yield streams


class _Watched:
    """A transport that tells when its incoming stream ends, which the package keeps to itself."""

    def __init__(self, transport: AbstractAsyncContextManager[TransportStreams], ended: Callable[[], None]) -> None:
        self._transport = transport
        self._ended = ended

    async def __aenter__(self) -> TransportStreams:
        incoming, outgoing = await self._transport.__aenter__()
        return _Incoming(incoming, self._ended), outgoing

    async def __aexit__(self, *error: object) -> bool | None:
        self._ended()
        return await self._transport.__aexit__(*error)  # type: ignore[arg-type]


class _Incoming:
    """A stream of messages that calls `ended` when there are no more."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # `last_context`, where there is one

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Literal[False]:
        self._ended()
        await self._stream.__aexit__(*error)
        return False
