"""The statements that reports stand on, in SQL that SQLite, PostgreSQL, DuckDB and ClickHouse all read alike.

In: a span of instants and the columns to group by. Out: SQLAlchemy Core selects over the raw rows: what the rollups are
held to, and what is read where they cannot be written. Invariant: groups are plain columns, functions are SUM, COUNT,
MIN and CASE; no division, no rounding, no percentile is left to a database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.errors import unknown_name
from router.ledger.sums import AGGREGATED, COUNTED, GROUP_COLUMNS, SUM_NAMES, SUMMED
from router.ledger.tables import UNSETTLED, attempt_terms, attempts, usage_buckets

__all__ = [
    "GROUP_COLUMNS",
    "SUM_NAMES",
    "attempt_groups",
    "bucket_groups",
    "checked_groups",
    "latency_counts",
]

_CONDITIONS = {
    "calls": attempts.c.number == 1,
    "succeeded": attempts.c.status == "succeeded",
    "usage_unknown": attempts.c[BUCKETS[0]].is_(None),
    "cost_unknown": attempts.c.cost_micro.is_(None),
    "reported": attempts.c.reported_usd_micro.is_not(None),
    "timed": attempts.c.latency_us.is_not(None),
    "streamed": attempts.c.ttft_us.is_not(None),
    "inference_timed": attempts.c.inference_us.is_not(None),
    "network_timed": attempts.c.network_us.is_not(None),
    "state_timed": attempts.c.state_us.is_not(None),
}
_RETRIED = attempts.c.number > 1


def checked_groups(by: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns to group by.

    Raises:
        WrongUsage: a name is not in `GROUP_COLUMNS`; near misses are named.
    """
    for name in by:
        if name not in GROUP_COLUMNS:
            raise unknown_name("group", name, GROUP_COLUMNS)
    return tuple(by)


def attempt_groups(start_us: int, end_us: int, by: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of one row per group of raw attempts: the group's columns, then `SUM_NAMES`.

    Args:
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        by: names of `GROUP_COLUMNS`.
    """
    columns = _columns(by)
    sums: dict[str, sa.ColumnElement[int]] = {
        "records": sa.func.count(),
        "attempts": sa.func.count(),
        "requests": sa.func.count(),
        "requests_unknown": sa.func.sum(sa.literal_column("0")),
        **{name: _count_of(_CONDITIONS[name]) for name in COUNTED},
        "unsettled": _count_of(UNSETTLED),
        "unsettled_usd_micro": sa.func.sum(sa.case((UNSETTLED, attempts.c.reserved_usd_micro), else_=0)),
        "unsettled_usd_pico": sa.func.sum(sa.case((UNSETTLED, attempts.c.reserved_usd_pico), else_=0)),
        "retried_settled_micro": sa.func.sum(sa.case((_RETRIED, attempts.c.settled_micro), else_=0)),
        "retried_settled_pico": sa.func.sum(sa.case((_RETRIED, attempts.c.settled_pico), else_=0)),
        **{name: sa.func.sum(attempts.c[name]) for name in SUMMED},
    }
    query = sa.select(*columns, *(sums[name].label(f"sum_{name}") for name in SUM_NAMES))
    source = attempts.outerjoin(attempt_terms) if "terms_id" in by else attempts
    return query.select_from(source).where(*_within(start_us, end_us)).group_by(*columns)


def bucket_groups(start_us: int, end_us: int, by: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of one row per group of usage that others added up; see `attempt_groups`."""
    zero: sa.ColumnElement[int] = sa.func.sum(sa.literal_column("0"))
    table = usage_buckets.c
    sums: dict[str, sa.ColumnElement[int]] = {
        "records": sa.func.count(),
        "requests": sa.func.sum(table.requests),
        "requests_unknown": _count_of(table.requests.is_(None)),
        "usage_unknown": _count_of(table[BUCKETS[0]].is_(None)),
        "cost_unknown": _count_of(table.cost_micro.is_(None)),
        "reported": _count_of(table.reported_usd_micro.is_not(None)),
        **{name: sa.func.sum(table[name]) for name in SUMMED if name in table},
    }
    constant = {"origin": f"'{AGGREGATED}'", "possibly_billed": "FALSE"}
    grouped = [name for name in by if name in table]
    columns = [table[name] if name in table else sa.literal_column(constant.get(name, "NULL")) for name in by]
    query = sa.select(*columns, *(sums.get(name, zero).label(f"sum_{name}") for name in SUM_NAMES))
    within = (table.start_us >= start_us, table.start_us < end_us)
    return query.where(*within).group_by(*(table[name] for name in grouped))


def latency_counts(
    start_us: int, end_us: int, by: Sequence[str], column: str = "latency_bucket"
) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of how many raw attempts of each group have each value of a column of times.

    Args:
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        by: names of `GROUP_COLUMNS`.
        column: `latency_bucket`, or one in microseconds; attempts without it are left out.
    """
    columns = _columns(by)
    value = attempts.c[column]
    source = attempts.outerjoin(attempt_terms) if "terms_id" in by else attempts
    query = sa.select(*columns, value, sa.func.count()).select_from(source)
    return query.where(*_within(start_us, end_us), value.is_not(None)).group_by(*columns, value)


def _columns(by: Sequence[str]) -> list[sa.Column[Any]]:
    return [attempt_terms.c.terms_id if name == "terms_id" else attempts.c[name] for name in checked_groups(by)]


def _count_of(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _within(start_us: int, end_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return attempts.c.started_us >= start_us, attempts.c.started_us < end_us
