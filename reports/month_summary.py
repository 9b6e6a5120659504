"""A period at a glance: each figure beside the one of the period before, and the change.

In: figures of the two, their tasks and what credit paid. Out: four tables, one a unit. Invariant: a change is between
two figures that are both known; of shares it is a difference in points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from reports.exchange import Exchange
from reports.figures import Figures
from reports.frames import LedgerReader
from reports.page import Cell, Column, Kind, Money, Note, Panel, Table
from reports.period import Period


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of a period: the runs that started in it, and those of them that succeeded. Both 0 where none is known."""

    runs: int
    succeeded: int


NO_TASKS = Tasks(0, 0)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two periods.

    Args:
        period: the period.
        figures: of all its rows; None: it has none.
        tasks: its tasks.
        ours: settled cost of the attempts that we made ourselves, which those tasks cost; None: none is known.
        credit: what free and prepaid credit paid of it; None: no endpoint has any.
    """

    period: Period
    figures: Figures | None = None
    tasks: Tasks = NO_TASKS
    ours: Money | None = None
    credit: Money | None = None


def tasks_of(reader: LedgerReader, period: Period) -> Tasks:
    """Return a period's tasks."""
    counts = reader.run_counts(period.start_us, period.end_us)
    return Tasks(sum(counts.values()), counts.get("succeeded", 0))


def summary_tables(this: Side, before: Side, exchange: Exchange) -> tuple[Table, ...]:
    """Return the tables: `summary` in the page's currency, `summary_volume`, `summary_shares` and `summary_times`.

    Args:
        this: the period of the page.
        before: the one that it is compared with.
        exchange: knows the page's currency.
    """
    currency = exchange.currency
    parts: tuple[tuple[str, str, Kind, tuple[Measure, ...]], ...] = (
        ("summary", f"At a glance: cost, {currency}", "money", _COSTS),
        ("summary_volume", "At a glance: volume", "tokens", _VOLUME),
        ("summary_shares", "At a glance: shares", "share", _SHARES),
        ("summary_times", "At a glance: times of answered attempts, ms", "duration_ms", _TIMES),
    )
    tables = (_table(*part, this, before) for part in parts)
    return tuple(table for table in tables if table.rows)


def summary_notes(this: Side, before: Side) -> tuple[Note, ...]:
    """Return what must be said of the comparison."""
    if before.figures is None:
        return ()
    notes = []
    if not before.period.is_month and this.period.is_month:
        notes.append(
            Note(
                "note",
                f"a month that is running is compared with the same days of the one before: {before.period.name}",
            )
        )
    if any(side.figures is not None and side.figures.unpriced for side in (this, before)):
        notes.append(
            Note("note", "where a cost is a lower bound, a change is between what is priced in the two periods")
        )
    return tuple(notes)


Measure = tuple[str, str, Callable[[Side], Cell]]


def _table(name: str, title: str, kind: Kind, measures: tuple[Measure, ...], this: Side, before: Side) -> Table:
    points = kind == "share"
    columns = (
        Column("measure", "Measure", "text"),
        Column("key", "Key", "text"),
        Column("this_period", this.period.name, kind),
        Column("period_before", before.period.name, kind),
        Column("change_points" if points else "change", "Change in points" if points else "Change", "change"),
    )
    rows = []
    for key, label, read in measures:
        now, then = read(this), read(before)
        if now is not None or then is not None:
            rows.append((label, key, now, then, _change(now, then, points=points)))
    return Table(name, title, columns, tuple(rows), panels=(Panel(title, tuple(column.key for column in columns[2:])),))


def _change(now: Cell, then: Cell, *, points: bool) -> Fraction | None:
    one, other = _number(now), _number(then)
    if one is None or other is None:
        return None
    if points:
        return one - other
    return (one - other) / other if other else None


def _number(cell: Cell) -> Fraction | None:
    if cell is None or isinstance(cell, str):
        return None
    return cell.value if isinstance(cell, Money) else Fraction(cell)


def _figure(name: str) -> Callable[[Side], Cell]:
    return lambda side: None if side.figures is None else getattr(side.figures, name)


def _each(count: Callable[[Side], int], cost: Callable[[Side], Money | None]) -> Callable[[Side], Cell]:
    def read(side: Side) -> Cell:
        amount, number = cost(side), count(side)
        return (
            None if amount is None or not number else Money(amount.value / number, amount.currency, amount.lower_bound)
        )

    return read


def _requests(found: Figures | None) -> int:
    """Return calls and requests added up by others; 0 where some are not counted, so that no mean can be drawn."""
    return 0 if found is None or found.uncounted else found.calls + found.added_up


def _known(count: Callable[[Side], int]) -> Callable[[Side], Cell]:
    return lambda side: count(side) or None if side.tasks.runs == 0 else count(side)


_COSTS: tuple[Measure, ...] = (
    ("settled_cost", "Settled", _figure("settled_cost")),
    ("list_cost", "List", _figure("list_cost")),
    ("reported_cost", "Reported by upstreams", _figure("reported_cost")),
    ("credit_used", "Paid from credit", lambda side: side.credit),
    ("cost_per_task", "Settled per task", _each(lambda side: side.tasks.runs, lambda side: side.ours)),
    (
        "cost_per_successful_task",
        "Settled per successful task",
        _each(lambda side: side.tasks.succeeded, lambda side: side.ours),
    ),
    (
        "cost_per_call",
        "Settled per call",
        _each(
            lambda side: _requests(side.figures),
            lambda side: None if side.figures is None else side.figures.settled_cost,
        ),
    ),
)
_VOLUME: tuple[Measure, ...] = (
    ("tasks", "Tasks", _known(lambda side: side.tasks.runs)),
    ("successful_tasks", "Successful tasks", _known(lambda side: side.tasks.succeeded)),
    ("calls", "Calls", _figure("calls")),
    ("attempts", "Attempts", _figure("attempts")),
    (
        "requests_added_up",
        "Requests added up by others",
        lambda side: side.figures.added_up or None if side.figures else None,
    ),
    ("input_tokens", "Input tokens", _figure("input_tokens")),
    ("cache_read_tokens", "of them from cache", _figure("cache_read_tokens")),
    ("cache_write_tokens", "of them written to cache", _figure("cache_write_tokens")),
    ("output_tokens", "Output tokens", _figure("output_tokens")),
    ("reasoning_tokens", "of them reasoning", _figure("reasoning_tokens")),
)
_SHARES: tuple[Measure, ...] = (
    ("cache_hit_share", "Input from cache", _figure("cache_hit_share")),
    ("success_share", "Answered attempts", _figure("success_share")),
    ("rate_limited_share", "Told to wait (429)", _figure("rate_limited_share")),
    (
        "task_success_share",
        "Successful tasks",
        lambda side: Fraction(side.tasks.succeeded, side.tasks.runs) if side.tasks.runs else None,
    ),
)
_TIMES: tuple[Measure, ...] = (
    ("p50_ms", "Latency p50", _figure("p50_ms")),
    ("p95_ms", "Latency p95", _figure("p95_ms")),
    ("p99_ms", "Latency p99", _figure("p99_ms")),
    ("ttft_p50_ms", "First token p50", _figure("ttft_p50_ms")),
    ("ttft_p95_ms", "First token p95", _figure("ttft_p95_ms")),
)
