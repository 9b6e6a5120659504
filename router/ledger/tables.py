"""The ledger's tables, as SQLAlchemy Core metadata. The migrations in `alembic/` make exactly these.

    runs ── plan_steps, tool_calls, run_requests, outcomes
      └───── attempts ── price_sets ── price_rows        answers   fx_rates   imports
                ├─────── attempt_terms ── terms
                └─────── tag_sets      usage_buckets   budgets   budget_use   cases

Those of `rollup_tables` and `message_tables` are beside them.

Invariant: nothing here that PostgreSQL cannot do. Amounts of money are two integers (`x_micro`: whole millionths of the
currency's unit; `x_pico`: the rest, 0 to 999,999 of 1e-12), so that a SUM overflows on no database. What reports group
by (`day`, `quarter_hour`, `latency_bucket`, `context_tier`) is stored as an integer when the row is written. Unknown is
NULL. Documents (tags, messages, price rows) are JSON as ASCII text.
"""

from __future__ import annotations

from typing import get_args

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.ledger import budget_records, message_tables, records, rollup_tables, tool_records
from router.ledger.columns import count_column, currency_with, id_column, metadata, money_columns, one_of, text_column
from router.task import Role

EXPECTED_COST = ("expected_low_usd_nano", "expected_usd_nano", "expected_high_usd_nano")
EXPECTED_TOKENS = (
    *("estimated_input_tokens", "expected_input_tokens"),
    *("expected_output_low_tokens", "expected_output_tokens", "expected_output_high_tokens"),
)

__all__ = ["message_tables", "metadata", "rollup_tables"]  # one metadata has all tables, those of the two modules too

runs = sa.Table(
    "runs",
    metadata,
    id_column("run_id", primary_key=True),
    text_column("run_key", unique=True),
    text_column("request_hash"),
    text_column("configuration", nullable=False),
    text_column("policy_version", nullable=False),
    text_column("task_class"),
    text_column("tenant"),
    text_column("tags", nullable=False),
    text_column("status", nullable=False),
    count_column("started_us", nullable=False),
    count_column("ended_us"),
    text_column("error"),
    *money_columns("budget_usd"),
    text_column("prompt"),
    text_column("owner"),
    count_column("lease_until_us"),
    count_column("cancel_us"),
    # What it was expected to cost, in 1e-9 USD: a forecast has no more digits than that. NULL: no price, or not noted.
    *(count_column(name) for name in EXPECTED_COST),
    # As of when the record was that it decided with (`router.experience`); NULL: with none.
    count_column("experience_us"),
    one_of("status", get_args(records.RunStatus)),
    sa.CheckConstraint("(status = 'running') = (ended_us IS NULL)", name="ended"),
    sa.Index(None, "started_us"),
)

plan_steps = sa.Table(
    "plan_steps",
    metadata,
    id_column("run_id", sa.ForeignKey("runs.run_id"), primary_key=True),
    text_column("step_id", primary_key=True),
    sa.Column("position", sa.Integer(), nullable=False),
    text_column("task_class", nullable=False),
    text_column("depends_on", nullable=False),
    text_column("status", nullable=False),
    text_column("error"),
    one_of("status", get_args(records.StepStatus)),
)

price_sets = sa.Table(
    "price_sets",
    metadata,
    text_column("price_set_id", primary_key=True),
    text_column("price_list", nullable=False),
    text_column("model", nullable=False),
    sa.Column("currency", sa.String(3), nullable=False),
    text_column("document", nullable=False),
)

price_rows = sa.Table(
    "price_rows",
    metadata,
    text_column("price_set_id", sa.ForeignKey("price_sets.price_set_id"), primary_key=True),
    text_column("price_row_id", primary_key=True),
    sa.Column("position", sa.Integer(), nullable=False),
    text_column("component", nullable=False),
    text_column("unit", nullable=False),
    text_column("amount", nullable=False),
    text_column("url", nullable=False),
    text_column("source", nullable=False),
    text_column("checked", nullable=False),
)

fx_rates = sa.Table(
    "fx_rates",
    metadata,
    text_column("fx_rate_id", primary_key=True),
    sa.Column("base", sa.String(3), nullable=False),
    sa.Column("quote", sa.String(3), nullable=False),
    text_column("rate", nullable=False),
    sa.Column("as_of_day", sa.Integer(), nullable=False),
    text_column("source", nullable=False),
    sa.Index(None, "base", "quote", "as_of_day"),
)

imports = sa.Table(
    "imports",
    metadata,
    id_column("import_id", primary_key=True),
    text_column("format", nullable=False),
    text_column("file_name", nullable=False),
    text_column("file_sha256", nullable=False),
    text_column("model", nullable=False),
    text_column("price_list", nullable=False),
    text_column("configuration"),
    count_column("start_us", nullable=False),
)

tag_sets = sa.Table(
    "tag_sets",
    metadata,
    text_column("tags_id", primary_key=True),
    text_column("document", nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    id_column("attempt_id", primary_key=True),
    id_column("run_id", sa.ForeignKey("runs.run_id")),
    text_column("step_id"),
    text_column("call_key", nullable=False),
    sa.Column("number", sa.Integer(), nullable=False),
    text_column("origin", nullable=False),
    id_column("import_id", sa.ForeignKey("imports.import_id")),
    text_column("role"),
    text_column("configuration"),
    text_column("task_class"),
    text_column("tenant"),
    text_column("endpoint", nullable=False),
    text_column("price_list", nullable=False),
    text_column("model_asked", nullable=False),
    text_column("model_served"),
    text_column("status", nullable=False),
    text_column("error_kind"),
    sa.Column("http_status", sa.Integer()),
    text_column("upstream_id"),
    text_column("finish_reason"),
    text_column("service_tier"),
    count_column("started_us", nullable=False),
    sa.Column("day", sa.Integer(), nullable=False),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    count_column("queue_us", nullable=False),
    count_column("state_us"),
    count_column("network_us"),
    count_column("inference_us"),
    count_column("latency_us"),
    count_column("ttft_us"),
    sa.Column("latency_bucket", sa.Integer()),
    *(count_column(bucket) for bucket in BUCKETS),
    sa.Column("usage_estimated", sa.Boolean(), nullable=False),
    sa.Column("context_tier", sa.Integer()),
    text_column("price_set_id", sa.ForeignKey("price_sets.price_set_id")),
    text_column("cost_status"),
    sa.Column("cost_currency", sa.String(3)),
    *money_columns("cost"),
    sa.Column("settled_currency", sa.String(3)),
    *money_columns("settled"),
    *money_columns("reported_usd"),
    *money_columns("reserved_usd"),
    sa.Column("possibly_billed", sa.Boolean(), nullable=False),
    text_column("tags_id", sa.ForeignKey("tag_sets.tags_id")),
    # Digests of what the attempt is grouped by (`router.ledger.digests`); NULL: written before there were any.
    count_column("start_digest"),
    count_column("end_digest"),
    # What was expected of it before it was sent; NULL: not noted, or not ours.
    text_column("script"),
    *(count_column(name) for name in EXPECTED_TOKENS),
    currency_with("cost"),
    currency_with("settled"),
    one_of("status", get_args(records.AttemptStatus)),
    one_of("role", get_args(Role)),
    one_of("cost_status", get_args(records.CostStatusName)),
    one_of("origin", get_args(records.Origin)),
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

UNSETTLED = sa.or_(attempts.c.status == "started", attempts.c.possibly_billed)
"""Whether nobody knows an attempt's bill: it has not ended, or ended without usage after its request was sent."""

terms = sa.Table(
    "terms",
    metadata,
    text_column("terms_id", primary_key=True),
    text_column("document", nullable=False),
)

# Apart from `attempts`, since most endpoints have no terms: an attempt without a row here was settled at its list cost.
attempt_terms = sa.Table(
    "attempt_terms",
    metadata,
    id_column("attempt_id", sa.ForeignKey("attempts.attempt_id"), primary_key=True),
    text_column("terms_id", sa.ForeignKey("terms.terms_id"), nullable=False),
)

# What somebody else has already added up: requests of a span of time, of which no single one is known.
usage_buckets = sa.Table(
    "usage_buckets",
    metadata,
    id_column("bucket_id", primary_key=True),
    id_column("import_id", sa.ForeignKey("imports.import_id"), nullable=False),
    count_column("start_us", nullable=False),
    count_column("end_us", nullable=False),
    sa.Column("day", sa.Integer(), nullable=False),
    sa.Column("quarter_hour", sa.Integer(), nullable=False),
    text_column("role"),
    text_column("configuration"),
    text_column("task_class"),
    text_column("tenant"),
    text_column("tags_id", sa.ForeignKey("tag_sets.tags_id")),
    text_column("endpoint", nullable=False),
    text_column("price_list", nullable=False),
    text_column("model_asked", nullable=False),
    text_column("model_served"),
    text_column("service_tier"),
    count_column("requests"),
    *(count_column(bucket) for bucket in BUCKETS),
    sa.Column("usage_estimated", sa.Boolean(), nullable=False),
    text_column("price_set_id", sa.ForeignKey("price_sets.price_set_id")),
    text_column("cost_status", nullable=False),
    sa.Column("cost_currency", sa.String(3)),
    *money_columns("cost"),
    sa.Column("settled_currency", sa.String(3)),
    *money_columns("settled"),
    *money_columns("reported_usd"),
    currency_with("cost"),
    currency_with("settled"),
    one_of("role", get_args(Role)),
    one_of("cost_status", get_args(records.CostStatusName)),
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
    text_column("scope", primary_key=True),
    text_column("name", primary_key=True),
    sa.Column("currency", sa.String(3), nullable=False),
    text_column("amount", nullable=False),
    count_column("set_us", nullable=False),
    text_column("mode", nullable=False, server_default="soft"),
    one_of("scope", get_args(budget_records.BudgetScope)),
    one_of("mode", get_args(budget_records.BudgetMode)),
)

# What a month's calls hold and have used of the budgets that stop, kept in the transactions of the calls themselves.
budget_use = sa.Table(
    "budget_use",
    metadata,
    text_column("scope", primary_key=True),
    text_column("name", primary_key=True),
    count_column("month_start_us", primary_key=True, autoincrement=False),
    sa.Column("currency", sa.String(3), nullable=False),
    count_column("used_nano", nullable=False),
)

tool_calls = sa.Table(
    "tool_calls",
    metadata,
    id_column("tool_call_id", primary_key=True),
    id_column("run_id", sa.ForeignKey("runs.run_id"), nullable=False),
    text_column("step_id"),
    text_column("call_key", nullable=False),
    sa.Column("position", sa.Integer(), nullable=False),
    sa.Column("number", sa.Integer(), nullable=False),
    text_column("server", nullable=False),
    text_column("tool", nullable=False),
    text_column("status", nullable=False),
    count_column("started_us", nullable=False),
    count_column("queue_us", nullable=False),
    count_column("latency_us"),
    count_column("argument_bytes", nullable=False),
    count_column("result_bytes"),
    sa.Column("is_raw", sa.Boolean(), nullable=False),
    text_column("error"),
    one_of("status", get_args(tool_records.ToolCallStatus)),
    sa.UniqueConstraint("call_key", "position", "number"),
    sa.Index(None, "run_id"),
    sa.Index(None, "started_us"),
)

run_requests = sa.Table(
    "run_requests",
    metadata,
    id_column("run_id", sa.ForeignKey("runs.run_id"), primary_key=True),
    text_column("document", nullable=False),
    count_column("expires_us"),
)

outcomes = sa.Table(
    "outcomes",
    metadata,
    id_column("outcome_id", primary_key=True),
    id_column("run_id", sa.ForeignKey("runs.run_id"), nullable=False),
    text_column("step_id"),
    text_column("call_key", nullable=False),
    text_column("task_class"),
    text_column("model"),
    sa.Column("score_ppm", sa.Integer(), nullable=False),
    text_column("scorer", nullable=False),
    count_column("at_us", nullable=False),
    sa.CheckConstraint("score_ppm >= 0 AND score_ppm <= 1000000", name="score"),
    sa.Index(None, "run_id"),
    sa.Index(None, "at_us"),
)

cases = sa.Table(
    "cases",
    metadata,
    text_column("name", primary_key=True),
    count_column("frozen_us", nullable=False),
    text_column("document", nullable=False),
)

answers = sa.Table(
    "answers",
    metadata,
    text_column("call_key", primary_key=True),
    id_column("run_id", sa.ForeignKey("runs.run_id"), nullable=False),
    text_column("message", nullable=False),
    text_column("finish_reason"),
    count_column("expires_us"),
    sa.Index(None, "run_id"),
    sa.Index(None, "expires_us"),
)
