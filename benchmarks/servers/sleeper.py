"""An MCP server over standard streams with one tool, `work`, that takes a while and says who it is.

In: its name and the tool's time, milliseconds, as arguments; JSON-RPC, a line a message, on standard input. Out: an
answer to every request on standard output. Invariant: calls wait side by side, and each is answered by its own id.

It does what MCP asks of a server of tools (initialize, ping, tools/list, tools/call, an error for whatever else) and no
more, for 0.05 ms of processor time a call, so that a benchmark of clients measures clients. With the server class of
the package `mcp` a call takes 2 to 3 ms, for which fifty calls at once would wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

TOOL = {
    "name": "work",
    "description": "Work for a while.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
NO_SUCH_METHOD, WRONG_PARAMETERS = -32601, -32602


class Server:
    """Answers requests.

    Args:
        name: what its answers begin with.
        tool_ms: how long its tool takes, milliseconds.
    """

    def __init__(self, name: str, tool_ms: float) -> None:
        self._name, self._tool_s = name, tool_ms / 1000
        self._begun = b""
        self._loop = asyncio.new_event_loop()

    def run(self) -> None:
        """Answer until the input ends."""
        self._loop.add_reader(0, self._read)
        self._loop.run_forever()

    def _read(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self._loop.stop()
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for message in map(json.loads, lines):
            if "id" in message and "method" in message:
                self._answer(message["id"], message["method"], message.get("params") or {})

    def _answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "tools/call" and params.get("name") == "work":
            text = f"{self._name} {params['arguments']['text']}"
            self._loop.call_later(self._tool_s, self._say, number, {"content": [{"type": "text", "text": text}]})
        elif method == "tools/call":
            self._refuse(number, WRONG_PARAMETERS, f"no tool {params.get('name')!r}")
        elif method == "tools/list":
            self._say(number, {"tools": [TOOL]})
        elif method == "initialize":
            server = {"serverInfo": {"name": self._name, "version": "1"}, "capabilities": {"tools": {}}}
            self._say(number, {"protocolVersion": params["protocolVersion"], **server})
        elif method == "ping":
            self._say(number, {})
        else:
            self._refuse(number, NO_SUCH_METHOD, f"no method {method!r}")

    def _say(self, number: Any, result: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": number, "result": result})

    def _refuse(self, number: Any, code: int, message: str) -> None:
        self._write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _write(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]


if __name__ == "__main__":
    Server(sys.argv[1], float(sys.argv[2])).run()
