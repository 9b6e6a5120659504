"""The tool calls of a run, read back.

In: a connection, a run. Out: rows as they were written. Invariant: what was started and never completed has no end: the
tool may have done its work, and nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from router.ledger.tables import tool_calls
from router.ledger.tool_records import ToolCallEnded, ToolCallStarted

_STARTED = (
    "tool_call_id",
    "run_id",
    "call_key",
    "position",
    "server",
    "tool",
    "started_us",
    "argument_bytes",
    "step_id",
    "number",
    "queue_us",
)
_ENDED = ("tool_call_id", "status", "latency_us", "result_bytes", "is_raw", "error")


@dataclass(frozen=True, slots=True)
class ToolCallRow:
    """A tool call as the ledger has it: what it started with and, once it has ended, how."""

    started: ToolCallStarted
    ended: ToolCallEnded | None


def read_tool_calls(connection: sa.Connection, run_id: str) -> tuple[ToolCallRow, ...]:
    """Return a run's tool calls, oldest first."""
    mine = sa.select(tool_calls).where(tool_calls.c.run_id == run_id)
    query = mine.order_by(tool_calls.c.started_us, tool_calls.c.tool_call_id)
    return tuple(_row(row) for row in connection.execute(query).mappings())


def _row(row: sa.RowMapping) -> ToolCallRow:
    ended = None if row["status"] == "started" else ToolCallEnded(**{name: row[name] for name in _ENDED})
    return ToolCallRow(ToolCallStarted(**{name: row[name] for name in _STARTED}), ended)
