"""Forecasts beside what became of them: attempts and runs of a span, newest of them first where they are many.

In: a connection, a span. Out: `ForecastAttempt`s and `ForecastRun`s, oldest first. Invariant: however large the ledger
is, at most a stated number is read, by the index on their start.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

import sqlalchemy as sa

from pricing.money import join_amount
from router.experience import EndedAttempt, EndedRun
from router.ledger.past_work import READ, ended_attempt, has_ended, run_costs
from router.ledger.tables import EXPECTED_COST, EXPECTED_TOKENS, attempts, runs

MOST_ATTEMPTS: Final = 20_000
MOST_RUNS: Final = 5_000


class ForecastAttempt(NamedTuple):
    """One answered attempt whose size was forecast.

    Args:
        started_us: instant, microseconds since 1970 UTC.
        ended: what is learnt from it.
        input_tokens: forecast.
        output_tokens: forecast (low, expected, high).
        price_set_id: its prices, or None.
        cost: its list cost in the currency of its prices, or None.
    """

    started_us: int
    ended: EndedAttempt
    input_tokens: int
    output_tokens: tuple[int, int, int]
    price_set_id: str | None
    cost: Decimal | None


class ForecastRun(NamedTuple):
    """One run that succeeded, with its forecast and its cost; `has_record`: it was forecast with a record."""

    started_us: int
    has_record: bool
    ended: EndedRun


def forecast_attempts(connection: sa.Connection, start_us: int, end_us: int) -> tuple[ForecastAttempt, ...]:
    """Return the newest answered attempts of a span that had a forecast and whose tokens were counted, oldest first.

    Args:
        connection: of a ledger.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
    """
    table = attempts.c
    names = dict.fromkeys((*READ, *EXPECTED_TOKENS, "price_set_id", "cost_micro", "cost_pico"))
    query = sa.select(*(table[name] for name in names)).where(table.started_us >= start_us, table.started_us < end_us)
    rows = connection.execute(query.order_by(table.started_us.desc()).limit(MOST_ATTEMPTS)).mappings()
    found = [_attempt(row) for row in rows if row["expected_input_tokens"] is not None and has_ended(row)]
    return tuple(each for each in reversed(found) if each.ended.input_tokens and not each.ended.has_failed)


def _attempt(row: sa.RowMapping) -> ForecastAttempt:
    low, expected, high = (row[name] for name in EXPECTED_TOKENS[2:])
    cost = None if row["cost_micro"] is None else join_amount(row["cost_micro"], row["cost_pico"])
    sizes = (row["expected_input_tokens"], (low, expected, high))
    return ForecastAttempt(row["started_us"], ended_attempt(row), *sizes, row["price_set_id"], cost)


def forecast_runs(connection: sa.Connection, start_us: int, end_us: int) -> tuple[ForecastRun, ...]:
    """Return the newest runs of a span that succeeded, were forecast, and cost a known amount of USD, oldest first.

    Args:
        connection: of a ledger.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
    """
    names = ("run_id", "status", "started_us", "experience_us", *EXPECTED_COST)
    at = runs.c.started_us
    query = sa.select(*(runs.c[name] for name in names)).where(at >= start_us, at < end_us)
    rows = connection.execute(query.order_by(at.desc()).limit(MOST_RUNS)).mappings().all()
    wanted = [row for row in reversed(rows) if row["status"] == "succeeded" and row["expected_usd_nano"] is not None]
    costs = dict(run_costs(connection, [row["run_id"] for row in wanted]))
    return tuple(_run(row, *costs[row["run_id"]]) for row in wanted if row["run_id"] in costs)


def _run(row: sa.RowMapping, is_planned: bool, actual_nano: int) -> ForecastRun:  # noqa: FBT001 - as it is read
    low, expected, high = (row[name] for name in EXPECTED_COST)
    ended = EndedRun(is_planned, low, expected, high, actual_nano)
    return ForecastRun(row["started_us"], row["experience_us"] is not None, ended)
