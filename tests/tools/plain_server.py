"""An MCP server in a hundred lines, without the package: it starts at once, and misbehaves on request.

Usage: plain_server.py FOLDER [NAME]. It speaks JSON-RPC, one message a line, on its standard streams. In FOLDER it
writes `calls` (a line a call, before it is answered) and `pids` (a line a start); `describe.json` there replaces
descriptions by tool, and `silent` there makes it never answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
NAME = sys.argv[2] if len(sys.argv) > 2 else "plain"
SCHEMAS: dict[str, Any] = {
    "echo": {"properties": {"text": {"type": "string"}, "delay_ms": {"type": "integer"}}, "required": ["text"]},
    "add": {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
    "hang": {},
    "die": {"properties": {"text": {"type": "string"}}},
    "limited": {"properties": {"item": {"type": "integer"}}},
    "broken": {"properties": {"text": {"type": "string"}}},
    "promised": {"properties": {"text": {"type": "string"}}},
    "big": {"properties": {"size": {"type": "integer"}}},
    "leak": {},
    "picture": {},
    "environment": {},
}
PROMISES = {
    "promised": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "add": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
}


def tools() -> list[dict[str, Any]]:
    path = FOLDER / "describe.json"
    described = json.loads(path.read_text()) if path.exists() else {}
    found = []
    for name, schema in SCHEMAS.items():
        tool = {
            "name": name,
            "description": described.get(name, f"The tool {name} of {NAME}."),
            "inputSchema": {"type": "object", **schema},
        }
        if name in PROMISES:
            tool["outputSchema"] = PROMISES[name]
        found.append(tool)
    return found


async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with (FOLDER / "calls").open("a") as log:
        log.write(json.dumps({"server": NAME, "tool": name, "arguments": arguments}) + "\n")
    text: Any = arguments.get("text", "")
    if name == "echo":
        await asyncio.sleep(arguments.get("delay_ms", 0) / 1000)
        return said(f"{NAME}: {text}")
    if name == "add":
        total = {"sum": arguments["a"] + arguments["b"]}
        return {**said(json.dumps(total)), "structuredContent": total}
    if name == "hang":
        await asyncio.Event().wait()
    if name == "die":
        print("the secret is", os.environ.get("PLAIN_TOKEN"), file=sys.stderr, flush=True)
        os._exit(3)
    if name == "limited":
        return {**said("429 Too Many Requests"), "isError": True}
    if name in ("broken", "promised"):
        return said(text)
    if name == "big":
        return said("é" * arguments["size"])
    if name == "leak":
        return said(f"token {os.environ.get('PLAIN_TOKEN')} is not valid")
    if name == "picture":
        return {"content": [{"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"}]}
    return said(" ".join(sorted(os.environ)))


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params") or {}
    result: dict[str, Any] | None = None
    if method == "initialize":
        version = params["protocolVersion"]
        result = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": tools()}
    elif method == "tools/call" and params["name"] in SCHEMAS:
        result = await call(params["name"], params.get("arguments") or {})
    if "id" not in message:
        return
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": f"no method {method}"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)


async def main() -> None:
    with (FOLDER / "pids").open("a") as log:
        log.write(f"{os.getpid()}\n")
    if (FOLDER / "silent").exists():
        await asyncio.Event().wait()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: dict[Any, asyncio.Task[None]] = {}
    while line := await reader.readline():
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            known = running.get(message["params"]["requestId"])
            if known:
                known.cancel()
        elif "method" in message:
            running[message.get("id")] = asyncio.create_task(answer(message))


asyncio.run(main())
