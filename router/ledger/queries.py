"""The statements that reports stand on, in SQL that SQLite, PostgreSQL, DuckDB and ClickHouse all read alike.

In: a span of instants and the columns to group by. Out: SQLAlchemy Core selects. Invariant: groups are plain columns,
functions are SUM, COUNT, MIN and CASE; no division, no rounding, no percentile is left to a database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.errors import unknown_name
from router.ledger.tables import attempts

GROUP_COLUMNS = (
    "day",
    "quarter_hour",
    "role",
    "task_class",
    "configuration",
    "tenant",
    "endpoint",
    "price_list",
    "model_asked",
    "model_served",
    "service_tier",
    "context_tier",
    "price_set_id",
    "cost_status",
    "cost_currency",
    "settled_currency",
    "usage_estimated",
    "possibly_billed",
    "status",
    "error_kind",
    "origin",
)
"""What attempts can be grouped by. `day` counts days, and `quarter_hour` quarter hours, since 1970-01-01 00:00 UTC."""

_SUMMED = (
    *BUCKETS,
    "cost_micro",
    "cost_pico",
    "settled_micro",
    "settled_pico",
    "reported_usd_micro",
    "reported_usd_pico",
    "queue_us",
    "state_us",
    "network_us",
    "inference_us",
    "latency_us",
    "ttft_us",
)
_COUNTED = {
    "calls": attempts.c.number == 1,
    "succeeded": attempts.c.status == "succeeded",
    "usage_unknown": attempts.c[BUCKETS[0]].is_(None),
    "cost_unknown": attempts.c.cost_micro.is_(None),
    "reported": attempts.c.reported_usd_micro.is_not(None),
    "timed": attempts.c.latency_us.is_not(None),
    "streamed": attempts.c.ttft_us.is_not(None),
}
_UNSETTLED = sa.or_(attempts.c.status == "started", attempts.c.possibly_billed)

SUM_NAMES = ("attempts", *_COUNTED, "unsettled", "unsettled_usd_micro", "unsettled_usd_pico", *_SUMMED)
"""The sums of every group, all whole numbers.

    attempts            requests on the wire (or imported records of them)
    calls               of them first attempts, so logical calls
    succeeded           of them answered
    usage_unknown       of them without token counts
    cost_unknown        of them without a list cost
    reported            of them with a cost stated by the upstream (`reported_usd_*` sums those)
    timed, streamed     of them with a latency, with a time to first token (those `latency_us`, `ttft_us` sum)
    unsettled           of them possibly billed: ended without usage after the request was sent, or never ended at all
    unsettled_usd_*     what was reserved for those
    *_tokens, web_searches   usage by bucket, over attempts whose usage is known
    cost_*, settled_*   list and settled cost: `pricing.money.join_amount(micro, pico)`, in the group's currency, so
                        group by `cost_currency` or `settled_currency` where there may be several
    *_us                microseconds
"""


def grouped_columns(by: Sequence[str]) -> list[sa.Column[object]]:
    """Return the columns to group by.

    Raises:
        WrongUsage: a name is not in `GROUP_COLUMNS`; near misses are named.
    """
    for name in by:
        if name not in GROUP_COLUMNS:
            raise unknown_name("group", name, GROUP_COLUMNS)
    return [attempts.c[name] for name in by]


def usage_groups(start_us: int, end_us: int, by: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of one row per group: the group's columns, then `SUM_NAMES`.

    Args:
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        by: names of `GROUP_COLUMNS`.
    """
    columns = grouped_columns(by)
    sums = [
        sa.func.count().label("attempts"),
        *(_sum(sa.case((condition, 1), else_=0), name) for name, condition in _COUNTED.items()),
        _sum(sa.case((_UNSETTLED, 1), else_=0), "unsettled"),
        *(
            _sum(sa.case((_UNSETTLED, attempts.c[f"reserved_usd_{part}"]), else_=0), f"unsettled_usd_{part}")
            for part in ("micro", "pico")
        ),
        *(_sum(attempts.c[name], f"sum_{name}") for name in _SUMMED),
    ]
    return sa.select(*columns, *sums).where(*_within(start_us, end_us)).group_by(*columns)


def latency_counts(
    start_us: int, end_us: int, by: Sequence[str], column: str, statuses: Sequence[str]
) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of how many attempts of each group fell in each latency bucket."""
    columns = grouped_columns(by)
    bucket = attempts.c[column]
    where = (*_within(start_us, end_us), bucket.is_not(None), attempts.c.status.in_(statuses))
    return sa.select(*columns, bucket, sa.func.count()).where(*where).group_by(*columns, bucket)


def _within(start_us: int, end_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return attempts.c.started_us >= start_us, attempts.c.started_us < end_us


def _sum(column: sa.ColumnElement[int], name: str) -> sa.Label[int]:
    return sa.func.sum(column).label(name)
