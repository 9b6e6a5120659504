"""What forecasts learn from: a bounded sample of the attempts and runs that have ended.

In: a connection, an instant. Out: `EndedAttempt`s and `EndedRun`s. Invariant: however large the ledger is, at most
`NEWEST` and `OF_ALL_DAYS` attempts and `MOST_RUNS` runs are read, each by the index on its start; the same instant
gives the same sample, whenever it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from pricing.usage import INPUT_BUCKETS, OUTPUT_BUCKETS
from router.experience import EndedAttempt, EndedRun
from router.ledger.database import id_batches
from router.ledger.row_values import DAY_US
from router.ledger.tables import EXPECTED_COST, attempts, runs

NEWEST: Final = 2_000
OF_ALL_DAYS: Final = 6_000
"""Most attempts beside the newest, as many of each day, so that what runs once a night is there, too."""
OF_A_KIND: Final = 2_000
"""Most attempts of one model at one class."""
MOST_RUNS: Final = 1_000
SETTLING_US: Final = 10_000_000
"""How long before the instant a record must have ended: its row is committed within that, so that it is there for
whoever reads the same instant later, and was for whoever did so first."""
_FAILED: Final = ("failed", "timed_out")
_ENDED: Final = ("succeeded", *_FAILED)
READ: Final = (
    *("attempt_id", "model_asked", "task_class", "status", "script", "estimated_input_tokens", "started_us"),
    *("state_us", "latency_us", "ttft_us", "usage_estimated", *INPUT_BUCKETS, *OUTPUT_BUCKETS),
)
"""Columns of `attempts` that `ended_attempt` needs."""
MOST_TOKENS: Final = 20_000_000
"""Of one attempt that is learnt from, input and output: twice the longest context that is sold. More is a damaged
report, and one such would make every later estimate absurd."""


def past_attempts(connection: sa.Connection, as_of_us: int, days: int) -> tuple[EndedAttempt, ...]:
    """Return the newest attempts that had ended, and of each of the last days the newest ones of that day.

    Args:
        connection: of a ledger.
        as_of_us: the instant, microseconds since 1970 UTC.
        days: how many days back, ≥ 1.
    """
    found: list[EndedAttempt] = []
    kinds: Counter[tuple[str, str | None]] = Counter()
    for row in _sampled(connection, as_of_us, days):
        kind = (row["model_asked"], row["task_class"])
        if kinds[kind] < OF_A_KIND and _had_ended(row, as_of_us):
            kinds[kind] += 1
            found.append(ended_attempt(row))
    return tuple(found)


def _sampled(connection: sa.Connection, as_of_us: int, days: int) -> Iterator[sa.RowMapping]:
    """Yield rows, newest first: the newest of all, then of each day the newest that are older than those."""
    newest = _span(connection, as_of_us - days * DAY_US, as_of_us, NEWEST)
    yield from newest
    if len(newest) < NEWEST:  # they are all there is
        return
    before_us = newest[-1]["started_us"]
    for day in range(days):
        end_us = as_of_us - day * DAY_US
        yield from _span(connection, end_us - DAY_US, min(end_us, before_us), OF_ALL_DAYS // days)


def _span(connection: sa.Connection, start_us: int, end_us: int, limit: int) -> Sequence[sa.RowMapping]:
    if start_us >= end_us:
        return ()
    at = attempts.c.started_us
    query = sa.select(*(attempts.c[name] for name in READ)).where(at >= start_us, at < end_us)
    return connection.execute(query.order_by(at.desc(), attempts.c.attempt_id).limit(limit)).mappings().all()


def has_ended(row: sa.RowMapping) -> bool:
    """Return whether an attempt was answered, failed, or timed out: one that its caller stopped says nothing."""
    return row["status"] in _ENDED


def _had_ended(row: sa.RowMapping, as_of_us: int) -> bool:
    took_us = (row["state_us"] or 0) + (row["latency_us"] or 0)
    return has_ended(row) and row["started_us"] + took_us < as_of_us - SETTLING_US


def ended_attempt(row: sa.RowMapping) -> EndedAttempt:
    """Return what is learnt from an attempt, given a row of `READ`."""
    is_counted = row[INPUT_BUCKETS[0]] is not None and not row["usage_estimated"]
    is_counted = is_counted and sum(row[name] for name in (*INPUT_BUCKETS, *OUTPUT_BUCKETS)) <= MOST_TOKENS
    return EndedAttempt(
        model=row["model_asked"],
        task_class=row["task_class"],
        has_failed=row["status"] in _FAILED,
        script=row["script"],
        estimated_input_tokens=row["estimated_input_tokens"],
        input_tokens=sum(row[name] for name in INPUT_BUCKETS) if is_counted else None,
        output_tokens=sum(row[name] for name in OUTPUT_BUCKETS) if is_counted else None,
        reasoning_tokens=row["reasoning_tokens"] if is_counted else 0,
        latency_us=row["latency_us"],
        ttft_us=row["ttft_us"],
    )


def past_runs(connection: sa.Connection, as_of_us: int, days: int) -> tuple[EndedRun, ...]:
    """Return the newest runs that had succeeded, whose cost was forecast, and is known and in USD.

    Args:
        connection: of a ledger.
        as_of_us: the instant, microseconds since 1970 UTC.
        days: how many days back, ≥ 1.
    """
    names = ("run_id", "status", "ended_us", "experience_us", *EXPECTED_COST)
    at = runs.c.started_us
    newest = sa.select(*(runs.c[name] for name in names)).where(at >= as_of_us - days * DAY_US, at < as_of_us)
    rows = connection.execute(newest.order_by(at.desc(), runs.c.run_id).limit(MOST_RUNS)).mappings().all()
    forecast = {row["run_id"]: row for row in rows if _is_forecast(row) and row["ended_us"] < as_of_us - SETTLING_US}
    costs = dict(run_costs(connection, tuple(forecast)))
    return tuple(_ended_run(row, *costs[run_id]) for run_id, row in forecast.items() if run_id in costs)


def _ended_run(row: sa.RowMapping, is_planned: bool, actual_nano: int) -> EndedRun:  # noqa: FBT001 - as it is yielded
    low, expected, high = (row[name] for name in EXPECTED_COST)
    return EndedRun(is_planned, low, expected, high, actual_nano)


def _is_forecast(row: sa.RowMapping) -> bool:
    """Return whether a run can be learnt from: a forecast without a record is no measure of those with one."""
    has_both = row["expected_usd_nano"] is not None and row["experience_us"] is not None
    return row["status"] == "succeeded" and has_both


def run_costs(connection: sa.Connection, run_ids: Sequence[str]) -> Iterator[tuple[str, tuple[bool, int]]]:
    """Yield of each run whether it took several calls, and its cost in 1e-9 USD; what is not known is left out."""
    table = attempts.c
    unknown = sa.case((sa.or_(table.settled_micro.is_(None), table.settled_currency != "USD"), 1), else_=0)
    first = sa.case((table.number == 1, 1), else_=0)
    sums = (sa.func.sum(each) for each in (unknown, first, table.settled_micro, table.settled_pico))
    for some in id_batches(run_ids):
        query = sa.select(table.run_id, *sums).where(table.run_id.in_(some)).group_by(table.run_id)
        for run_id, unknowns, calls, micro, pico in connection.execute(query):
            if not int(unknowns):
                yield run_id, (int(calls) > 1, int(micro) * 1_000 + int(pico) // 1_000)
