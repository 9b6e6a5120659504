"""Labels of attempts, usage that others have added up, budgets, and frozen business cases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# A migration is frozen: it repeats what the code of its day said, and never imports it.
_BUCKETS = (
    "uncached_input_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "audio_input_tokens",
    "image_input_tokens",
    "plain_output_tokens",
    "reasoning_tokens",
    "audio_output_tokens",
    "image_output_tokens",
    "web_searches",
)
_USAGE = " AND ".join(f"{bucket} >= 0" for bucket in _BUCKETS)
_WHOLE_USAGE = " AND ".join(f"({_BUCKETS[0]} IS NULL) = ({bucket} IS NULL)" for bucket in _BUCKETS[1:])
_ROLES = "role = 'single' OR role = 'orchestrator' OR role = 'worker'"
_COST_STATUSES = " OR ".join(f"cost_status = '{name}'" for name in ("exact", "estimated", "partial", "unknown"))
_SCOPES = " OR ".join(f"scope = '{name}'" for name in ("all", "tenant", "class", "model"))


def _money(name: str) -> tuple[sa.Column[int], sa.Column[int]]:
    return (
        sa.Column(f"{name}_micro", sa.BigInteger(), nullable=True),
        sa.Column(f"{name}_pico", sa.BigInteger(), nullable=True),
    )


def _money_checks(table: str, name: str) -> sa.CheckConstraint:
    micro, pico = f"{name}_micro", f"{name}_pico"
    rule = f"({micro} IS NULL) = ({pico} IS NULL) AND {micro} >= 0 AND {pico} >= 0 AND {pico} < 1000000"
    return sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}"))


def _currency_check(table: str, name: str) -> sa.CheckConstraint:
    rule = f"({name}_currency IS NULL) = ({name}_micro IS NULL)"
    return sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}_currency"))


def upgrade() -> None:
    op.create_table(
        "tag_sets",
        sa.Column("tags_id", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tags_id", name=op.f("pk_tag_sets")),
    )
    # Not alembic's batch, which would copy the whole table on SQLite; both databases read this alike.
    op.execute(
        "ALTER TABLE attempts ADD COLUMN tags_id TEXT CONSTRAINT fk_attempts_tag_sets REFERENCES tag_sets (tags_id)"
    )
    _create_usage_buckets()
    op.create_table(
        "budgets",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("set_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_budgets")),
        sa.CheckConstraint(_SCOPES, name=op.f("ck_budgets_scope")),
    )
    op.create_table(
        "cases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("frozen_us", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cases")),
    )


def _create_usage_buckets() -> None:
    table = "usage_buckets"
    op.create_table(
        table,
        sa.Column("bucket_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("import_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("quarter_hour", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("role", "configuration", "task_class", "tenant")),
        sa.Column("tags_id", sa.Text(), nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("endpoint", "price_list", "model_asked")),
        sa.Column("model_served", sa.Text(), nullable=True),
        sa.Column("service_tier", sa.Text(), nullable=True),
        sa.Column("requests", sa.BigInteger(), nullable=True),
        *(sa.Column(bucket, sa.BigInteger(), nullable=True) for bucket in _BUCKETS),
        sa.Column("usage_estimated", sa.Boolean(), nullable=False),
        sa.Column("price_set_id", sa.Text(), nullable=True),
        sa.Column("cost_status", sa.Text(), nullable=False),
        sa.Column("cost_currency", sa.String(length=3), nullable=True),
        *_money("cost"),
        sa.Column("settled_currency", sa.String(length=3), nullable=True),
        *_money("settled"),
        *_money("reported_usd"),
        sa.PrimaryKeyConstraint("bucket_id", name=op.f("pk_usage_buckets")),
        sa.ForeignKeyConstraint(["import_id"], ["imports.import_id"], name=op.f("fk_usage_buckets_imports")),
        sa.ForeignKeyConstraint(["tags_id"], ["tag_sets.tags_id"], name=op.f("fk_usage_buckets_tag_sets")),
        sa.ForeignKeyConstraint(
            ["price_set_id"], ["price_sets.price_set_id"], name=op.f("fk_usage_buckets_price_sets")
        ),
        *(_money_checks(table, name) for name in ("cost", "settled", "reported_usd")),
        *(_currency_check(table, name) for name in ("cost", "settled")),
        sa.CheckConstraint(_ROLES, name=op.f("ck_usage_buckets_role")),
        sa.CheckConstraint(_COST_STATUSES, name=op.f("ck_usage_buckets_cost_status")),
        sa.CheckConstraint("end_us > start_us", name=op.f("ck_usage_buckets_span")),
        sa.CheckConstraint("requests >= 0", name=op.f("ck_usage_buckets_requests")),
        sa.CheckConstraint(_USAGE, name=op.f("ck_usage_buckets_usage")),
        sa.CheckConstraint(_WHOLE_USAGE, name=op.f("ck_usage_buckets_whole_usage")),
    )
    op.create_index(op.f("ix_usage_buckets_start_us"), table, ["start_us"], unique=False)


def downgrade() -> None:
    op.drop_table("cases")
    op.drop_table("budgets")
    op.drop_table("usage_buckets")
    with op.batch_alter_table("attempts") as attempts:
        attempts.drop_column("tags_id")
    op.drop_table("tag_sets")
