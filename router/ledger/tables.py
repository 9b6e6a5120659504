"""The ledger's tables, as SQLAlchemy Core metadata. The migrations in `alembic/` make exactly these.

    runs ── plan_steps
      └───── attempts ── price_sets ── price_rows        answers   fx_rates   imports
                ├─────── attempt_terms ── terms
                └─────── tag_sets      usage_buckets   budgets   cases

Invariant: nothing here that PostgreSQL cannot do. Amounts of money are two integers (`x_micro`: whole millionths of the
currency's unit; `x_pico`: the rest, 0 to 999,999 of 1e-12), so that a SUM overflows on no database. What reports group
by (`day`, `quarter_hour`, `latency_bucket`, `context_tier`) is stored as an integer when the row is written. Unknown is
NULL. Documents (tags, messages, price rows) are JSON as ASCII text.
"""

from __future__ import annotations

from typing import Any, get_args

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.ledger import records
from router.task import Role

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = sa.MetaData(naming_convention=NAMING)


def _id(name: str, *args: Any, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Uuid(as_uuid=False), *args, **options)


def _text(name: str, *args: Any, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), *args, **options)


def _count(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), **options)


def _money(name: str) -> tuple[sa.Column[int], sa.Column[int], sa.CheckConstraint]:
    micro, pico = f"{name}_micro", f"{name}_pico"
    rule = f"({micro} IS NULL) = ({pico} IS NULL) AND {micro} >= 0 AND {pico} >= 0 AND {pico} < 1000000"
    return _count(micro), _count(pico), sa.CheckConstraint(rule, name=name)


def _one_of(column: str, allowed: tuple[str, ...]) -> sa.CheckConstraint:
    # Not IN (…): SQLite would build a table of the names for every row that is written.
    rule = " OR ".join(f"{column} = '{name}'" for name in allowed)
    return sa.CheckConstraint(rule, name=column)


def _currency_with(prefix: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"({prefix}_currency IS NULL) = ({prefix}_micro IS NULL)", name=f"{prefix}_currency")


runs = sa.Table(
    "runs",
    metadata,
    _id("run_id", primary_key=True),
    _text("run_key", unique=True),
    _text("request_hash"),
    _text("configuration", nullable=False),
    _text("policy_version", nullable=False),
    _text("task_class"),
    _text("tenant"),
    _text("tags", nullable=False),
    _text("status", nullable=False),
    _count("started_us", nullable=False),
    _count("ended_us"),
    _text("error"),
    *_money("budget_usd"),
    _text("prompt"),
    _text("owner"),
    _count("lease_until_us"),
    _one_of("status", get_args(records.RunStatus)),
    sa.CheckConstraint("(status = 'running') = (ended_us IS NULL)", name="ended"),
    sa.Index(None, "started_us"),
)

plan_steps = sa.Table(
    "plan_steps",
    metadata,
    _id("run_id", sa.ForeignKey("runs.run_id"), primary_key=True),
    _text("step_id", primary_key=True),
    sa.Column("position", sa.Integer(), nullable=False),
    _text("task_class", nullable=False),
    _text("depends_on", nullable=False),
    _text("status", nullable=False),
    _text("error"),
    _one_of("status", get_args(records.StepStatus)),
)

price_sets = sa.Table(
    "price_sets",
    metadata,
    _text("price_set_id", primary_key=True),
    _text("price_list", nullable=False),
    _text("model", nullable=False),
    sa.Column("currency", sa.String(3), nullable=False),
    _text("document", nullable=False),
)

price_rows = sa.Table(
    "price_rows",
    metadata,
    _text("price_set_id", sa.ForeignKey("price_sets.price_set_id"), primary_key=True),
    _text("price_row_id", primary_key=True),
    sa.Column("position", sa.Integer(), nullable=False),
    _text("component", nullable=False),
    _text("unit", nullable=False),
    _text("amount", nullable=False),
    _text("url", nullable=False),
    _text("source", nullable=False),
    _text("checked", nullable=False),
)

fx_rates = sa.Table(
    "fx_rates",
    metadata,
    _text("fx_rate_id", primary_key=True),
    sa.Column("base", sa.String(3), nullable=False),
    sa.Column("quote", sa.String(3), nullable=False),
    _text("rate", nullable=False),
    sa.Column("as_of_day", sa.Integer(), nullable=False),
    _text("source", nullable=False),
    sa.Index(None, "base", "quote", "as_of_day"),
)

imports = sa.Table(
    "imports",
    metadata,
    _id("import_id", primary_key=True),
    _text("format", nullable=False),
    _text("file_name", nullable=False),
    _text("file_sha256", nullable=False),
    _text("model", nullable=False),
    _text("price_list", nullable=False),
    _text("configuration"),
    _count("start_us", nullable=False),
)

tag_sets = sa.Table(
    "tag_sets",
    metadata,
    _text("tags_id", primary_key=True),
    _text("document", nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    _id("attempt_id", primary_key=True),
    _id("run_id", sa.ForeignKey("runs.run_id")),
    _text("step_id"),
    _text("call_key", nullable=False),
    sa.Column("number", sa.Integer(), nullable=False),
    _text("origin", nullable=False),
    _id("import_id", sa.ForeignKey("imports.import_id")),
    _text("role"),
    _text("configuration"),
    _text("task_class"),
    _text("tenant"),
    _text("endpoint", nullable=False),
    _text("price_list", nullable=False),
    _text("model_asked", nullable=False),
    _text("model_served"),
    _text("status", nullable=False),
    _text("error_kind"),
    sa.Column("http_status", sa.Integer()),
    _text("upstream_id"),
    _text("finish_reason"),
    _text("service_tier"),
    _count("started_us", nullable=False),
    sa.Column("day", sa.Integer(), nullable=False),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    _count("queue_us", nullable=False),
    _count("state_us"),
    _count("network_us"),
    _count("inference_us"),
    _count("latency_us"),
    _count("ttft_us"),
    sa.Column("latency_bucket", sa.Integer()),
    *(_count(bucket) for bucket in BUCKETS),
    sa.Column("usage_estimated", sa.Boolean(), nullable=False),
    sa.Column("context_tier", sa.Integer()),
    _text("price_set_id", sa.ForeignKey("price_sets.price_set_id")),
    _text("cost_status"),
    sa.Column("cost_currency", sa.String(3)),
    *_money("cost"),
    sa.Column("settled_currency", sa.String(3)),
    *_money("settled"),
    *_money("reported_usd"),
    *_money("reserved_usd"),
    sa.Column("possibly_billed", sa.Boolean(), nullable=False),
    _text("tags_id", sa.ForeignKey("tag_sets.tags_id")),
    _currency_with("cost"),
    _currency_with("settled"),
    _one_of("status", get_args(records.AttemptStatus)),
    _one_of("role", get_args(Role)),
    _one_of("cost_status", get_args(records.CostStatusName)),
    _one_of("origin", get_args(records.Origin)),
    sa.CheckConstraint("number >= 1", name="number"),
    sa.CheckConstraint("(status = 'started') = (cost_status IS NULL)", name="completed"),
    sa.CheckConstraint("(origin = 'imported') = (import_id IS NOT NULL)", name="import"),
    sa.CheckConstraint(" AND ".join(f"{bucket} >= 0" for bucket in BUCKETS), name="usage"),
    sa.CheckConstraint(
        " AND ".join(f"({BUCKETS[0]} IS NULL) = ({bucket} IS NULL)" for bucket in BUCKETS[1:]), name="whole_usage"
    ),
    sa.ForeignKeyConstraint(["run_id", "step_id"], ["plan_steps.run_id", "plan_steps.step_id"]),
    # A call's attempt of one number is made once, whatever process makes it; a resumed call goes on counting.
    sa.UniqueConstraint("call_key", "number"),
    sa.Index(None, "started_us"),
    sa.Index(None, "run_id"),
)

terms = sa.Table(
    "terms",
    metadata,
    _text("terms_id", primary_key=True),
    _text("document", nullable=False),
)

# Apart from `attempts`, since most endpoints have no terms: an attempt without a row here was settled at its list cost.
attempt_terms = sa.Table(
    "attempt_terms",
    metadata,
    _id("attempt_id", sa.ForeignKey("attempts.attempt_id"), primary_key=True),
    _text("terms_id", sa.ForeignKey("terms.terms_id"), nullable=False),
)

# What somebody else has already added up: requests of a span of time, of which no single one is known.
usage_buckets = sa.Table(
    "usage_buckets",
    metadata,
    _id("bucket_id", primary_key=True),
    _id("import_id", sa.ForeignKey("imports.import_id"), nullable=False),
    _count("start_us", nullable=False),
    _count("end_us", nullable=False),
    sa.Column("day", sa.Integer(), nullable=False),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    _text("role"),
    _text("configuration"),
    _text("task_class"),
    _text("tenant"),
    _text("tags_id", sa.ForeignKey("tag_sets.tags_id")),
    _text("endpoint", nullable=False),
    _text("price_list", nullable=False),
    _text("model_asked", nullable=False),
    _text("model_served"),
    _text("service_tier"),
    _count("requests"),
    *(_count(bucket) for bucket in BUCKETS),
    sa.Column("usage_estimated", sa.Boolean(), nullable=False),
    _text("price_set_id", sa.ForeignKey("price_sets.price_set_id")),
    _text("cost_status", nullable=False),
    sa.Column("cost_currency", sa.String(3)),
    *_money("cost"),
    sa.Column("settled_currency", sa.String(3)),
    *_money("settled"),
    *_money("reported_usd"),
    _currency_with("cost"),
    _currency_with("settled"),
    _one_of("role", get_args(Role)),
    _one_of("cost_status", get_args(records.CostStatusName)),
    sa.CheckConstraint("end_us > start_us", name="span"),
    sa.CheckConstraint("requests >= 0", name="requests"),
    sa.CheckConstraint(" AND ".join(f"{bucket} >= 0" for bucket in BUCKETS), name="usage"),
    sa.CheckConstraint(
        " AND ".join(f"({BUCKETS[0]} IS NULL) = ({bucket} IS NULL)" for bucket in BUCKETS[1:]), name="whole_usage"
    ),
    sa.Index(None, "start_us"),
)

budgets = sa.Table(
    "budgets",
    metadata,
    _text("scope", primary_key=True),
    _text("name", primary_key=True),
    sa.Column("currency", sa.String(3), nullable=False),
    _text("amount", nullable=False),
    _count("set_us", nullable=False),
    _one_of("scope", get_args(records.BudgetScope)),
)

cases = sa.Table(
    "cases",
    metadata,
    _text("name", primary_key=True),
    _count("frozen_us", nullable=False),
    _text("document", nullable=False),
)

answers = sa.Table(
    "answers",
    metadata,
    _text("call_key", primary_key=True),
    _id("run_id", sa.ForeignKey("runs.run_id"), nullable=False),
    _text("message", nullable=False),
    _text("finish_reason"),
    _count("expires_us"),
    sa.Index(None, "run_id"),
    sa.Index(None, "expires_us"),
)
