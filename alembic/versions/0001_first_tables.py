"""The first tables: runs, their plans, attempts, answers, the prices and rates used, and imports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
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


def _money(name: str) -> tuple[sa.Column[int], sa.Column[int]]:
    return (
        sa.Column(f"{name}_micro", sa.BigInteger(), nullable=True),
        sa.Column(f"{name}_pico", sa.BigInteger(), nullable=True),
    )


def _money_check(name: str, constraint: str) -> sa.CheckConstraint:
    micro, pico = f"{name}_micro", f"{name}_pico"
    rule = f"({micro} IS NULL) = ({pico} IS NULL) AND {micro} >= 0 AND {pico} >= 0 AND {pico} < 1000000"
    return sa.CheckConstraint(rule, name=op.f(constraint))


def _one_of(column: str, names: tuple[str, ...], constraint: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(" OR ".join(f"{column} = '{name}'" for name in names), name=op.f(constraint))


def _create_fx_rates() -> None:
    op.create_table(
        "fx_rates",
        sa.Column("fx_rate_id", sa.Text(), nullable=False),
        sa.Column("base", sa.String(length=3), nullable=False),
        sa.Column("quote", sa.String(length=3), nullable=False),
        sa.Column("rate", sa.Text(), nullable=False),
        sa.Column("as_of_day", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("fx_rate_id", name=op.f("pk_fx_rates")),
    )
    op.create_index(op.f("ix_fx_rates_base_quote_as_of_day"), "fx_rates", ["base", "quote", "as_of_day"], unique=False)


def _create_imports() -> None:
    op.create_table(
        "imports",
        sa.Column("import_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("file_sha256", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("price_list", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=True),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("import_id", name=op.f("pk_imports")),
    )


def _create_price_sets() -> None:
    op.create_table(
        "price_sets",
        sa.Column("price_set_id", sa.Text(), nullable=False),
        sa.Column("price_list", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("price_set_id", name=op.f("pk_price_sets")),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=True),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=True),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        *_money("budget_usd"),
        sa.Column("prompt", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(status = 'running') = (ended_us IS NULL)", name=op.f("ck_runs_ended")),
        _one_of("status", ("running", "succeeded", "partial", "failed", "stopped"), "ck_runs_status"),
        _money_check("budget_usd", "ck_runs_budget_usd"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_key", name=op.f("uq_runs_run_key")),
    )
    op.create_index(op.f("ix_runs_started_us"), "runs", ["started_us"], unique=False)


def _create_answers() -> None:
    op.create_table(
        "answers",
        sa.Column("call_key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_answers_runs")),
        sa.PrimaryKeyConstraint("call_key", name=op.f("pk_answers")),
    )
    op.create_index(op.f("ix_answers_expires_us"), "answers", ["expires_us"], unique=False)
    op.create_index(op.f("ix_answers_run_id"), "answers", ["run_id"], unique=False)


def _create_plan_steps() -> None:
    op.create_table(
        "plan_steps",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("step_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=False),
        sa.Column("depends_on", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        _one_of("status", ("waiting", "running", "succeeded", "failed", "timed_out"), "ck_plan_steps_status"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_plan_steps_runs")),
        sa.PrimaryKeyConstraint("run_id", "step_id", name=op.f("pk_plan_steps")),
    )


def _create_price_rows() -> None:
    op.create_table(
        "price_rows",
        sa.Column("price_set_id", sa.Text(), nullable=False),
        sa.Column("price_row_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("checked", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["price_set_id"], ["price_sets.price_set_id"], name=op.f("fk_price_rows_price_sets")),
        sa.PrimaryKeyConstraint("price_set_id", "price_row_id", name=op.f("pk_price_rows")),
    )


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("step_id", sa.Text(), nullable=True),
        sa.Column("call_key", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("import_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("configuration", sa.Text(), nullable=True),
        sa.Column("task_class", sa.Text(), nullable=True),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("price_list", sa.Text(), nullable=False),
        sa.Column("model_asked", sa.Text(), nullable=False),
        sa.Column("model_served", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("upstream_id", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("service_tier", sa.Text(), nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("quarter_hour", sa.Integer(), nullable=False),
        sa.Column("queue_us", sa.BigInteger(), nullable=False),
        sa.Column("state_us", sa.BigInteger(), nullable=True),
        sa.Column("network_us", sa.BigInteger(), nullable=True),
        sa.Column("inference_us", sa.BigInteger(), nullable=True),
        sa.Column("latency_us", sa.BigInteger(), nullable=True),
        sa.Column("ttft_us", sa.BigInteger(), nullable=True),
        sa.Column("latency_bucket", sa.Integer(), nullable=True),
        *(sa.Column(bucket, sa.BigInteger(), nullable=True) for bucket in _BUCKETS),
        sa.Column("usage_estimated", sa.Boolean(), nullable=False),
        sa.Column("context_tier", sa.Integer(), nullable=True),
        sa.Column("price_set_id", sa.Text(), nullable=True),
        sa.Column("cost_status", sa.Text(), nullable=True),
        sa.Column("cost_currency", sa.String(length=3), nullable=True),
        *_money("cost"),
        sa.Column("settled_currency", sa.String(length=3), nullable=True),
        *_money("settled"),
        *_money("reported_usd"),
        *_money("reserved_usd"),
        sa.Column("possibly_billed", sa.Boolean(), nullable=False),
        sa.CheckConstraint("(origin = 'imported') = (import_id IS NOT NULL)", name=op.f("ck_attempts_import")),
        sa.CheckConstraint("(status = 'started') = (cost_status IS NULL)", name=op.f("ck_attempts_completed")),
        _one_of("cost_status", ("exact", "estimated", "partial", "unknown"), "ck_attempts_cost_status"),
        _one_of("origin", ("routed", "imported"), "ck_attempts_origin"),
        _one_of("role", ("single", "orchestrator", "worker"), "ck_attempts_role"),
        _one_of("status", ("started", "succeeded", "failed", "timed_out", "stopped"), "ck_attempts_status"),
        sa.CheckConstraint("(cost_currency IS NULL) = (cost_micro IS NULL)", name=op.f("ck_attempts_cost_currency")),
        _money_check("cost", "ck_attempts_cost"),
        _money_check("reported_usd", "ck_attempts_reported_usd"),
        _money_check("reserved_usd", "ck_attempts_reserved_usd"),
        sa.CheckConstraint(
            "(settled_currency IS NULL) = (settled_micro IS NULL)", name=op.f("ck_attempts_settled_currency")
        ),
        _money_check("settled", "ck_attempts_settled"),
        sa.CheckConstraint(_WHOLE_USAGE, name=op.f("ck_attempts_whole_usage")),
        sa.CheckConstraint("number >= 1", name=op.f("ck_attempts_number")),
        sa.CheckConstraint(_USAGE, name=op.f("ck_attempts_usage")),
        sa.ForeignKeyConstraint(["import_id"], ["imports.import_id"], name=op.f("fk_attempts_imports")),
        sa.ForeignKeyConstraint(["price_set_id"], ["price_sets.price_set_id"], name=op.f("fk_attempts_price_sets")),
        sa.ForeignKeyConstraint(
            ["run_id", "step_id"], ["plan_steps.run_id", "plan_steps.step_id"], name=op.f("fk_attempts_plan_steps")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_attempts_runs")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("call_key", "number", name=op.f("uq_attempts_call_key_number")),
    )
    op.create_index(op.f("ix_attempts_run_id"), "attempts", ["run_id"], unique=False)
    op.create_index(op.f("ix_attempts_started_us"), "attempts", ["started_us"], unique=False)


def upgrade() -> None:
    """Make the tables, each after those it refers to."""
    _create_fx_rates()
    _create_imports()
    _create_price_sets()
    _create_runs()
    _create_answers()
    _create_plan_steps()
    _create_price_rows()
    _create_attempts()


def downgrade() -> None:
    """Drop the tables, each before those it refers to."""
    op.drop_table("attempts")
    op.drop_table("price_rows")
    op.drop_table("plan_steps")
    op.drop_table("answers")
    op.drop_table("runs")
    op.drop_table("price_sets")
    op.drop_table("imports")
    op.drop_table("fx_rates")
