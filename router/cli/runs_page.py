"""Runs as pages: the list of them, and one with all its steps and calls.

In: what `router.ledger.run_reader` has read. Out: `Page`s. Invariant: a run whose process is gone is not shown as
running, and what may have been billed is shown apart from what was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from reports.page import Cell, Column, Fact, Money, Note, Page, Table
from router.holding import is_gone

if TYPE_CHECKING:
    from router.ledger.records import AttemptRow, RunRow, StepRow
    from router.ledger.run_reader import RunState
    from router.ledger.tool_calls import ToolCallRow

LOST = "interrupted"
"""How a run stands that is not ended on record, and that nobody works on."""
OPEN = "never completed"
"""How a request or a tool call stands that has no end on record: it is in flight, or was when its process died."""


def standing(row: RunRow, now: datetime) -> str:
    """Return how a run stands: its status, or "interrupted" where its process is gone."""
    if row.ended is not None:
        return row.ended.status
    owner, until_us = row.started.owner, row.started.lease_until_us or 0
    is_over = until_us < now.timestamp() * 1_000_000
    return LOST if is_over or (owner is not None and is_gone(owner)) else "running"


def list_page(states: Sequence[RunState], now: datetime | None = None) -> Page:
    """Return a page of runs, a line each.

    Args:
        states: the runs, as they are to be shown.
        now: the instant; None: the clock's.
    """
    columns = (
        Column("run_id", "run", "text", whole=True),
        Column("status", "status", "text"),
        Column("started", "started (UTC)", "text"),
        Column("run_key", "key", "text", optional=True),
        Column("configuration", "configuration", "text"),
        Column("steps_done", "done", "count", optional=True),
        Column("steps", "steps", "count", optional=True),
        Column("attempts", "attempts", "count"),
        Column("settled", "paid", "text"),
        Column("possibly_billed_usd", "possibly billed USD", "money", optional=True),
        Column("error", "why", "text", optional=True),
    )
    at = now or datetime.now(UTC)
    rows = tuple(_line(state, at) for state in states)
    notes = [Note("note", f"{LOST}: its process is gone; router runs resume RUN goes on with it")]
    lost = any(row[1] == LOST for row in rows)
    return Page("runs", "Runs", (), (Table("runs", "runs", columns, rows),), tuple(notes * lost), (_count(len(rows)),))


def _line(state: RunState, now: datetime) -> tuple[Cell, ...]:
    row, steps = state.row, state.steps
    return (
        row.started.run_id,
        standing(row, now),
        instant(row.started.started_us),
        row.started.run_key,
        row.started.configuration,
        steps.get("succeeded", 0) if steps else None,
        sum(steps.values()) if steps else None,
        state.sums.attempts,
        _paid(state.sums.settled_cost),
        _usd(state.sums.possibly_billed_usd),
        row.ended.error if row.ended else None,
    )


def run_page(
    state: RunState,
    steps: Sequence[tuple[StepRow, str | None]],
    attempts: Sequence[AttemptRow],
    tool_calls: Sequence[ToolCallRow],
    now: datetime | None = None,
) -> Page:
    """Return a page of one run.

    Args:
        state: the run.
        steps: its plan, each step with why it failed, or None.
        attempts: its requests.
        tool_calls: its tool calls.
        now: the instant; None: the clock's.
    """
    started, stands = state.row.started, standing(state.row, now or datetime.now(UTC))
    facts = [
        Fact("run_id", "run", started.run_id),
        Fact("status", "status", stands),
        Fact("run_key", "run key", started.run_key),
        Fact("configuration", "configuration", started.configuration),
        Fact("started", "started (UTC)", instant(started.started_us)),
        Fact("ended", "ended (UTC)", instant(state.row.ended.ended_us) if state.row.ended else None),
        Fact("owner", "worked on by", started.owner),
        Fact("error", "why it ended", state.row.ended.error if state.row.ended else None),
    ]
    tables = [_attempts_table(attempts)]
    if steps:
        tables.insert(0, _steps_table(steps))
    if tool_calls:
        tables.append(_tools_table(tool_calls))
    footer = (
        Fact("attempts", "requests", state.sums.attempts, "count"),
        Fact("in_flight", "never completed", state.sums.in_flight, "count"),
        Fact("settled", "paid", _paid(state.sums.settled_cost)),
        Fact("possibly_billed", "requests possibly billed", state.sums.possibly_billed, "count"),
        Fact("possibly_billed_usd", "reserved for them, USD", _usd(state.sums.possibly_billed_usd), "money"),
    )
    known = tuple(fact for fact in facts if fact.value is not None)
    return Page("run", f"Run {started.run_id}", known, tuple(tables), tuple(_notes(state, stands)), footer)


def _notes(state: RunState, stands: str) -> list[Note]:
    notes = []
    if state.cancel_us is not None and stands == "running":
        notes.append(Note("note", "somebody has asked it to stop"))
    if stands == LOST:
        notes.append(Note("warning", "its process is gone; requests that were never completed are possibly billed"))
    if stands not in {"succeeded", "running"} and state.is_kept:
        notes.append(Note("note", f"router runs resume {state.row.started.run_id} goes on with it"))
    return notes


def _steps_table(steps: Sequence[tuple[StepRow, str | None]]) -> Table:
    columns = (
        Column("step_id", "step", "text"),
        Column("class", "class", "text"),
        Column("depends_on", "after", "text", optional=True),
        Column("status", "status", "text"),
        Column("error", "why", "text", optional=True),
    )
    rows = tuple(
        (step.step_id, step.task_class, ", ".join(step.depends_on) or None, step.status, error) for step, error in steps
    )
    return Table("steps", "steps", columns, rows)


def _attempts_table(attempts: Sequence[AttemptRow]) -> Table:
    columns = (
        Column("attempt_id", "attempt", "text"),
        Column("role", "role", "text"),
        Column("step_id", "step", "text", optional=True),
        Column("number", "no.", "count"),
        Column("model_asked", "asked", "text"),
        Column("endpoint", "endpoint", "text"),
        Column("status", "status", "text"),
        Column("error", "why", "text", optional=True),
        Column("settled", "paid", "text"),
        Column("possibly_billed_usd", "possibly billed USD", "money", optional=True),
    )
    return Table("attempts", "requests", columns, tuple(_attempt(row) for row in attempts))


def _attempt(row: AttemptRow) -> tuple[Cell, ...]:
    started, ended = row.started, row.ended
    is_open = ended is None or ended.possibly_billed
    settled = ended.settled_cost if ended else None
    return (
        started.attempt_id,
        started.role,
        started.step_id,
        started.number,
        started.model_asked,
        started.endpoint,
        ended.status if ended else OPEN,
        ended.error_kind if ended else None,
        None if settled is None else _paid(((settled.currency, settled.value),)),
        _usd(started.reserved_usd) if is_open and started.reserved_usd is not None else None,
    )


def _tools_table(calls: Sequence[ToolCallRow]) -> Table:
    columns = (
        Column("tool", "tool", "text"),
        Column("step_id", "step", "text", optional=True),
        Column("status", "status", "text"),
        Column("latency_ms", "time", "duration_ms"),
        Column("error", "why", "text", optional=True),
    )
    return Table("tool_calls", "tool calls", columns, tuple(_tool_call(row) for row in calls))


def _tool_call(row: ToolCallRow) -> tuple[Cell, ...]:
    started, ended = row.started, row.ended
    return (
        f"{started.server}__{started.tool}",
        started.step_id,
        ended.status if ended else OPEN,
        Fraction(ended.latency_us, 1000) if ended else None,
        ended.error if ended else None,
    )


def _count(number: int) -> Fact:
    return Fact("runs", "runs", number, "count")


def instant(at_us: int) -> str:
    """Return how an instant is shown, UTC; it is given in microseconds since 1970."""
    return f"{datetime.fromtimestamp(at_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _paid(sums: Sequence[tuple[str, Decimal]]) -> str | None:
    return ", ".join(f"{amount.normalize():f} {currency}" for currency, amount in sums) or None


def _usd(amount: Decimal) -> Cell:
    return Money(Fraction(amount), "USD") if amount else None
