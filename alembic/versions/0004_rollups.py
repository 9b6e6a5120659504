"""Sums by quarter hour, three hours and day, and the marks of what has still to be added up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# A migration is frozen: it repeats what the code of its day said, and never imports it.
_TEXT_KEYS = (
    *("role", "task_class", "configuration", "tenant", "tags_id", "endpoint", "price_list", "model_asked"),
    *("model_served", "service_tier", "price_set_id", "terms_id", "cost_status", "cost_currency", "settled_currency"),
    *("status", "error_kind", "origin"),
)
_SUMS = (
    *("records", "attempts", "requests", "requests_unknown"),
    *("calls", "succeeded", "usage_unknown", "cost_unknown", "reported", "timed", "streamed"),
    *("inference_timed", "network_timed", "state_timed"),
    *("unsettled", "unsettled_usd_micro", "unsettled_usd_pico"),
    *("retried_settled_micro", "retried_settled_pico"),
    *("uncached_input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens"),
    *("audio_input_tokens", "image_input_tokens", "plain_output_tokens", "reasoning_tokens"),
    *("audio_output_tokens", "image_output_tokens", "web_searches"),
    *("cost_micro", "cost_pico", "settled_micro", "settled_pico", "reported_usd_micro", "reported_usd_pico"),
    *("queue_us", "state_us", "network_us", "inference_us", "latency_us", "ttft_us"),
)


def _texts(*names: str, nullable: bool = True) -> tuple[sa.Column[str], ...]:
    return tuple(sa.Column(name, sa.Text(), nullable=nullable) for name in names)


def _integers(*names: str) -> tuple[sa.Column[int], ...]:
    return tuple(sa.Column(name, sa.Integer(), nullable=False) for name in names)


def _counts(*names: str) -> tuple[sa.Column[int], ...]:
    return tuple(sa.Column(name, sa.BigInteger(), nullable=False) for name in names)


def upgrade() -> None:
    for column in ("start_digest", "end_digest"):  # not alembic's batch, which would copy the whole table on SQLite
        op.execute(f"ALTER TABLE attempts ADD COLUMN {column} BIGINT")
    op.create_table(
        "rollup_keys",
        *_integers("key_id"),
        *_texts("digest", nullable=False),
        *_texts(*_TEXT_KEYS),
        *(sa.Column(name, sa.Integer(), nullable=True) for name in ("context_tier", "http_status")),
        *(sa.Column(name, sa.Boolean(), nullable=True) for name in ("usage_estimated", "possibly_billed")),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_rollup_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_rollup_keys_digest")),
    )
    op.create_table(
        "attempts_rollup",
        *_integers("width", "quarter_hour", "key_id", "prune_id", "day"),
        *_counts(*_SUMS),
        *(sa.Column(name, sa.LargeBinary(), nullable=True) for name in ("latencies", "ttfts")),
        sa.PrimaryKeyConstraint("width", "quarter_hour", "key_id", "prune_id", name=op.f("pk_attempts_rollup")),
        sqlite_with_rowid=False,
    )
    _create_rollups_of_runs()
    op.create_table(
        "rollup_marks",
        sa.Column("mark_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        *_integers("quarter_hour"),
        sa.PrimaryKeyConstraint("mark_id", name=op.f("pk_rollup_marks")),
    )
    op.create_index(op.f("ix_rollup_marks_quarter_hour"), "rollup_marks", ["quarter_hour"], unique=False)
    op.create_table(
        "prunes",
        *_integers("prune_id", "before_day"),
        *_counts("pruned_us", "attempts", "runs"),
        sa.PrimaryKeyConstraint("prune_id", name=op.f("pk_prunes")),
    )
    _mark_what_is_there()


def _create_rollups_of_runs() -> None:
    op.create_table(
        "runs_rollup",
        *_integers("width", "quarter_hour", "prune_id", "day"),
        *_texts("configuration", nullable=False),
        *_texts("task_class", "tenant", "tags_id"),
        *_texts("status", nullable=False),
        *_counts("runs"),
    )
    op.create_index(op.f("ix_runs_rollup_width_quarter_hour"), "runs_rollup", ["width", "quarter_hour"], unique=False)
    op.create_table(
        "dearest_runs",
        *_integers("quarter_hour"),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *_integers("prune_id"),
        *_counts("started_us"),
        *_texts("configuration", nullable=False),
        *_texts("task_class", "tenant"),
        *_counts("attempts", "settled_micro", "settled_pico"),
        sa.PrimaryKeyConstraint("quarter_hour", "currency", "run_id", name=op.f("pk_dearest_runs")),
    )


def _mark_what_is_there() -> None:
    """Mark every quarter hour that has rows. Whole numbers divide to whole numbers on both databases."""
    op.execute(
        "INSERT INTO rollup_marks (quarter_hour) SELECT quarter_hour FROM attempts "
        "UNION SELECT quarter_hour FROM usage_buckets "
        "UNION SELECT CAST((started_us - started_us % 900000000) / 900000000 AS INTEGER) FROM runs"
    )


def downgrade() -> None:
    for table in ("prunes", "rollup_marks", "dearest_runs", "runs_rollup", "attempts_rollup", "rollup_keys"):
        op.drop_table(table)
    for column in ("start_digest", "end_digest"):
        op.execute(f"ALTER TABLE attempts DROP COLUMN {column}")
