"""What the ledger is told of tool calls: frozen values, one when it starts and one when it has ended.

In: facts of a tool call. Out: a row of `tool_calls`. Invariant: it is inserted before the tool is called, and completed
by exactly one `ToolCallEnded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ToolCallStatus = Literal["started", "succeeded", "failed", "timed_out", "stopped", "refused"]


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A tool about to be called for a model.

    Args:
        tool_call_id: our UUIDv7, as text.
        run_id: its run.
        call_key: key of the model's call that asked for it.
        position: which of that answer's tool calls, from 0.
        server, tool: the MCP server's name here and the tool's own.
        started_us: instant, microseconds since 1970 UTC.
        argument_bytes: size of the arguments as the model wrote them.
        step_id: its plan step, or None.
        number: 1, or 2 where it was tried again.
        queue_us: time it waited for its server before, microseconds.
    """

    tool_call_id: str
    run_id: str
    call_key: str
    position: int
    server: str
    tool: str
    started_us: int
    argument_bytes: int
    step_id: str | None = None
    number: int = 1
    queue_us: int = 0


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """How a tool call ended: its one update.

    Args:
        tool_call_id: the started row.
        status: succeeded, failed (the tool's own error, or the server's), timed_out, stopped (the caller left) or
            refused (not allowed, or not as it was approved).
        latency_us: from start to end, microseconds.
        result_bytes: size of the result before it was cut; None: there was none.
        is_raw: whether the result went on as raw text, since it is not the JSON it should be.
        error: one line, or None.
    """

    tool_call_id: str
    status: ToolCallStatus
    latency_us: int
    result_bytes: int | None = None
    is_raw: bool = False
    error: str | None = None
