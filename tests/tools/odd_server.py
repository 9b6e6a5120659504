"""An MCP server without the package that talks back: it asks its client things, and answers in ways of its own.

Usage: odd_server.py FOLDER. In FOLDER it writes `said`, a line for each message that it was sent; where `modern` is
there, it speaks the version of MCP that has no handshake. Its one tool, `do`, takes the name of an act.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
IS_MODERN = (FOLDER / "modern").exists()
TOOL = {"name": "do", "inputSchema": {"type": "object", "properties": {"act": {"type": "string"}}}}
asked: dict[str, int] = {}  # which call of the tool each question of ours is asked for


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def send(message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def say(number: Any, text: str) -> None:
    more = {"resultType": "complete"} if IS_MODERN else {}
    send({"id": number, "result": {"content": [{"type": "text", "text": text}], **more}})


def ask(number: int, method: str, **params: Any) -> None:
    asked[method] = number
    send({"id": method, "method": method, "params": params})


def in_pieces(number: int) -> None:
    text = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "aéb"}]}}
    for byte in json.dumps(text, ensure_ascii=False).encode() + b"\n":
        write(bytes([byte]))


def in_halves(number: int) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "whole"}]}})
    write(b'{"jsonrpc": "2.0", "method": "notifications/odd"}\n' + text[:40].encode())
    time.sleep(0.05)
    write(text[40:].encode() + b"\n")


def greet(number: int) -> None:
    write(b'Listening\xff on nothing.\n\n[1, 2]\n{"jsonrpc": "2.0", "method": "notifications/odd"}\n')
    send({"method": "notifications/message", "params": {"level": "info", "data": "working"}})
    send({"id": 7, "result": {"content": [{"type": "text", "text": "to nobody"}]}})
    say(number, "after the noise")


def shout(number: int) -> None:
    os.write(2, b"noise\n" * 200_000)
    say(number, "heard")


def die_halfway(number: int) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"res' % number)
    os._exit(0)


NO_TEXT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\xffb"}]}}\n'
AS_TEXT = {"type": "text", "text": "as in 1.0"}
ACTS: dict[str, Callable[[int], object]] = {
    "ping": lambda number: ask(number, "ping"),
    "roots": lambda number: ask(number, "roots/list"),
    "sampling": lambda number: ask(number, "sampling/createMessage", messages=[], maxTokens=1),
    "text id": lambda number: say(str(number), "the id came back as a text"),
    "pieces": in_pieces,
    "halves": in_halves,
    "greeting": greet,
    "bytes": lambda number: write(NO_TEXT % number),
    "list": lambda number: send({"id": number, "result": ["no result"]}),
    "no content": lambda number: send({"id": number, "result": {"content": "no list"}}),
    "error": lambda number: send({"id": number, "error": {"code": -32602, "message": "unknown\n tool"}}),
    "no error": lambda number: send(
        {"id": number, "error": None, "result": {"content": [{"type": "text", "text": "as in 1.0"}]}}
    ),
    "odd error": lambda number: send({"id": number, "error": "just a text"}),
    "loud": shout,
    "half": die_halfway,
}


def act(number: int, name: str, params: dict[str, Any]) -> None:
    if name == "envelope":
        say(number, json.dumps(params.get("_meta")))
    elif name.startswith("big "):
        say(number, str(len(name)) + "x" * 5_000_000)
    elif name in ACTS:  # any other is never answered
        ACTS[name](number)


def take(message: dict[str, Any]) -> None:
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        said = {key: message[key] for key in ("result", "error") if key in message}
        say(asked[message["id"]], json.dumps(said))
    elif method == "server/discover" and IS_MODERN:
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        send({"id": number, "result": {**found, "ttlMs": 0, "cacheScope": "private"}})
    elif method == "initialize":
        server = {"serverInfo": {"name": "odd", "version": "1"}, "capabilities": {"tools": {}}}
        send({"id": number, "result": {"protocolVersion": params["protocolVersion"], **server}})
    elif method == "tools/list":
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {}
        send({"id": number, "result": {"tools": [TOOL], **more}})
    elif method == "tools/call":
        act(message["id"], params["arguments"].get("act", ""), params)
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


for line in sys.stdin:
    with (FOLDER / "said").open("a") as log:
        log.write(line if len(line) < 1000 else '{"method": "long"}\n')
    take(json.loads(line))
