"""The tables of sums that reports read, and of what has still to be added up.

    rollup_keys ── attempts_rollup      runs_rollup   dearest_runs      rollup_marks   prunes

A row of a rollup covers `width` quarter hours (one of `WIDTHS`) from `quarter_hour` on, within one UTC day. Invariant:
rows of one width cover each record once, so a span of time is the sum of the widest rows that fit in it. `prune_id` is
0 in rows that the raw rows give; others keep the sums of raw rows that `prunes` says were deleted, and never change.
"""

from __future__ import annotations

import sqlalchemy as sa

from router.ledger.columns import count_column, id_column, metadata, text_column
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES

WIDTHS = (1, 12, 96)
"""Quarter hours of a row: a quarter hour, three hours, a UTC day; each is a whole number of the one before. The middle
one is there for days of other time zones, which no UTC day fits into."""

_INTEGERS = ("context_tier", "http_status")
_BOOLEANS = ("usage_estimated", "possibly_billed")


def _key_column(name: str) -> sa.Column[object]:
    kind = sa.Integer() if name in _INTEGERS else sa.Boolean() if name in _BOOLEANS else sa.Text()
    return sa.Column(name, kind)


rollup_keys = sa.Table(
    "rollup_keys",
    metadata,
    sa.Column("key_id", sa.Integer(), primary_key=True, autoincrement=False),
    text_column("digest", nullable=False, unique=True),
    *(_key_column(name) for name in KEY_COLUMNS),
)

attempts_rollup = sa.Table(
    "attempts_rollup",
    metadata,
    sa.Column("width", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("quarter_hour", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("key_id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("prune_id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("day", sa.Integer(), nullable=False),
    *(count_column(name, nullable=False) for name in SUM_NAMES),
    # Counts per latency bucket of `router.ledger.latency`, packed by `router.ledger.histograms`; NULL: none.
    sa.Column("latencies", sa.LargeBinary()),
    sa.Column("ttfts", sa.LargeBinary()),
    sqlite_with_rowid=False,  # its rows lie in the order in which they are read
)

runs_rollup = sa.Table(
    "runs_rollup",
    metadata,
    sa.Column("width", sa.Integer(), nullable=False),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    sa.Column("prune_id", sa.Integer(), nullable=False),
    sa.Column("day", sa.Integer(), nullable=False),
    text_column("configuration", nullable=False),
    text_column("task_class"),
    text_column("tenant"),
    text_column("tags_id"),
    text_column("status", nullable=False),
    count_column("runs", nullable=False),
    sa.Index(None, "width", "quarter_hour"),
)

# Of each quarter hour of a run's start and each currency it was settled in, the ten that cost most.
dearest_runs = sa.Table(
    "dearest_runs",
    metadata,
    sa.Column("quarter_hour", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("currency", sa.String(3), primary_key=True),
    id_column("run_id", primary_key=True),
    sa.Column("prune_id", sa.Integer(), nullable=False),
    count_column("started_us", nullable=False),
    text_column("configuration", nullable=False),
    text_column("task_class"),
    text_column("tenant"),
    count_column("attempts", nullable=False),
    count_column("settled_micro", nullable=False),
    count_column("settled_pico", nullable=False),
)

# A quarter hour whose raw rows have changed. Only ever added, in the transaction of the change, and deleted by the
# refresh that has read it: so a writer that commits later is never overlooked.
rollup_marks = sa.Table(
    "rollup_marks",
    metadata,
    sa.Column("mark_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    sa.Index(None, "quarter_hour"),
)

prunes = sa.Table(
    "prunes",
    metadata,
    sa.Column("prune_id", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("before_day", sa.Integer(), nullable=False),
    count_column("pruned_us", nullable=False),
    count_column("attempts", nullable=False),
    count_column("runs", nullable=False),
)
