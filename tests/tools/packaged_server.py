"""An MCP server made with the package, over each of its transports.

Usage: packaged_server.py stdio|sse|streamable-http [TOKEN]. Over HTTP it listens on a free port of this machine, which
it prints, and wants TOKEN as a bearer token.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("packaged", log_level="ERROR")


class Sum(BaseModel):
    """A sum."""

    total: int


@server.tool()
async def echo(text: str, delay_ms: int = 0) -> str:
    """Return the text."""
    await asyncio.sleep(delay_ms / 1000)
    return f"packaged: {text}"


@server.tool()
def add(a: int, b: int) -> Sum:
    """Return the sum of two numbers."""
    return Sum(total=a + b)


@server.tool()
def parts(n: int) -> list[str]:
    """Return some texts."""
    return [f"part {number}" for number in range(n)]


@server.tool()
async def hang() -> str:
    """Never return."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def fail() -> str:
    """Fail."""
    message = "it went wrong"
    raise ValueError(message)


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


def guarded(app: Any, token: str) -> Any:
    """Refuse every request without the token."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guard


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run()
        return
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(guarded(app, sys.argv[2]), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


main()
