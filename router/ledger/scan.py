"""Every record of a span, one by one, in memory that does not grow with their number.

In: an engine, a span. Out: chunks of tuples of `SCANNED`: attempts in the order of time, then usage that somebody else
has added up. Invariant: rows are read through a cursor of the database's own; what a kind of record has no column for
is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.ledger.database import database_errors
from router.ledger.sums import AGGREGATED
from router.ledger.tables import attempt_terms, attempts, tag_sets, usage_buckets

ROWS_AT_ONCE = 2_000

SCANNED = (
    *("record_id", "import_id", "run_id", "step_id", "number", "requests", "origin", "started_us", "ended_us"),
    *("role", "configuration", "task_class", "tenant", "tags", "endpoint", "price_list", "model_asked"),
    *("model_served", "status", "error_kind", "http_status", "finish_reason", "service_tier", "upstream_id"),
    *(*BUCKETS, "usage_estimated", "context_tier", "price_set_id", "terms_id", "cost_status"),
    *("cost_currency", "cost_micro", "cost_pico", "settled_currency", "settled_micro", "settled_pico"),
    *("reported_usd_micro", "reported_usd_pico", "reserved_usd_micro", "reserved_usd_pico", "possibly_billed"),
    *("queue_us", "network_us", "inference_us", "state_us", "latency_us", "ttft_us"),
)
"""What is read of each record. `record_id` is the attempt's or the bucket's; `requests` is 1 for an attempt, and None
for a bucket that does not say; `ended_us` is a bucket's end; `tags` is a JSON text, or None for none."""


def scan(engine: sa.Engine, start_us: int, end_us: int) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the records of a span in chunks.

    Args:
        engine: of a database at the current revision.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.

    Raises:
        LedgerError: the database cannot be read.
    """
    with database_errors(engine, "read"), engine.connect() as connection:
        streaming = connection.execution_options(stream_results=True, max_row_buffer=ROWS_AT_ONCE)
        for query in (_attempts(start_us, end_us), _buckets(start_us, end_us)):
            yield from streaming.execute(query).partitions(ROWS_AT_ONCE)


def _attempts(start_us: int, end_us: int) -> sa.Select[*tuple[Any, ...]]:
    given: dict[str, sa.ColumnElement[Any]] = {
        "record_id": attempts.c.attempt_id,
        "requests": sa.literal_column("1"),
        "tags": tag_sets.c.document,
        "terms_id": attempt_terms.c.terms_id,
    }
    source = attempts.outerjoin(attempt_terms).outerjoin(tag_sets)
    at = attempts.c.started_us
    query = sa.select(*_columns(attempts, given)).select_from(source).where(at >= start_us, at < end_us)
    return query.order_by(at, attempts.c.attempt_id)


def _buckets(start_us: int, end_us: int) -> sa.Select[*tuple[Any, ...]]:
    given: dict[str, sa.ColumnElement[Any]] = {
        "record_id": usage_buckets.c.bucket_id,
        "origin": sa.literal_column(f"'{AGGREGATED}'"),
        "started_us": usage_buckets.c.start_us,
        "ended_us": usage_buckets.c.end_us,
        "tags": tag_sets.c.document,
    }
    at = usage_buckets.c.start_us
    source = usage_buckets.outerjoin(tag_sets)
    query = sa.select(*_columns(usage_buckets, given)).select_from(source).where(at >= start_us, at < end_us)
    return query.order_by(at, usage_buckets.c.bucket_id)


def _columns(table: sa.Table, given: dict[str, sa.ColumnElement[Any]]) -> list[sa.ColumnElement[Any]]:
    missing: sa.ColumnElement[Any] = sa.literal_column("NULL")
    return [given.get(name, table.c.get(name, missing)).label(name) for name in SCANNED]
