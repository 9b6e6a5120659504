"""Tool calls, tasks that can be resumed, scores, cancelled runs, budgets that stop; roles of judge and shadow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None

# A migration is frozen: it repeats what the code of its day said, and never imports it.
_OLD = "role = 'single' OR role = 'orchestrator' OR role = 'worker'"
_NEW = f"{_OLD} OR role = 'judge' OR role = 'shadow'"
_WITH_ROLE = ("attempts", "usage_buckets")


def _texts(*names: str, nullable: bool = True) -> tuple[sa.Column[str], ...]:
    return tuple(sa.Column(name, sa.Text(), nullable=nullable) for name in names)


def _counts(*names: str, nullable: bool = False) -> tuple[sa.Column[int], ...]:
    return tuple(sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names)


def upgrade() -> None:
    _let_roles_be(_OLD, _NEW)
    op.execute("ALTER TABLE runs ADD COLUMN cancel_us BIGINT")
    rule = "CONSTRAINT ck_budgets_mode CHECK (mode = 'soft' OR mode = 'hard')"
    op.execute(f"ALTER TABLE budgets ADD COLUMN mode TEXT DEFAULT 'soft' NOT NULL {rule}")
    op.create_table(
        "tool_calls",
        sa.Column("tool_call_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *_texts("step_id"),
        *_texts("call_key", nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        *_texts("server", "tool", "status", nullable=False),
        *_counts("started_us", "queue_us"),
        *_counts("latency_us", nullable=True),
        *_counts("argument_bytes"),
        *_counts("result_bytes", nullable=True),
        sa.Column("is_raw", sa.Boolean(), nullable=False),
        *_texts("error"),
        sa.CheckConstraint(
            "status = 'started' OR status = 'succeeded' OR status = 'failed' OR status = 'timed_out' "
            "OR status = 'stopped' OR status = 'refused'",
            name=op.f("ck_tool_calls_status"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_tool_calls_runs")),
        sa.PrimaryKeyConstraint("tool_call_id", name=op.f("pk_tool_calls")),
        sa.UniqueConstraint("call_key", "position", "number", name=op.f("uq_tool_calls_call_key_position_number")),
    )
    op.create_index(op.f("ix_tool_calls_run_id"), "tool_calls", ["run_id"], unique=False)
    op.create_index(op.f("ix_tool_calls_started_us"), "tool_calls", ["started_us"], unique=False)
    op.create_table(
        "run_requests",
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *_texts("document", nullable=False),
        *_counts("expires_us", nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_run_requests_runs")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_requests")),
    )
    op.create_table(
        "outcomes",
        sa.Column("outcome_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("run_id", sa.Uuid(as_uuid=False), nullable=False),
        *_texts("step_id", "task_class", "model"),
        *_texts("call_key", "scorer", nullable=False),
        sa.Column("score_ppm", sa.Integer(), nullable=False),
        *_counts("at_us"),
        sa.CheckConstraint("score_ppm >= 0 AND score_ppm <= 1000000", name=op.f("ck_outcomes_score")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_outcomes_runs")),
        sa.PrimaryKeyConstraint("outcome_id", name=op.f("pk_outcomes")),
    )
    op.create_index(op.f("ix_outcomes_run_id"), "outcomes", ["run_id"], unique=False)
    op.create_index(op.f("ix_outcomes_at_us"), "outcomes", ["at_us"], unique=False)
    op.create_table(
        "budget_use",
        *_texts("scope", "name", nullable=False),
        *_counts("month_start_us"),
        sa.Column("currency", sa.String(length=3), nullable=False),
        *_counts("used_nano"),
        sa.PrimaryKeyConstraint("scope", "name", "month_start_us", name=op.f("pk_budget_use")),
    )


def downgrade() -> None:
    for table in ("budget_use", "outcomes", "run_requests", "tool_calls"):
        op.drop_table(table)
    with op.batch_alter_table("budgets") as budgets:
        budgets.drop_constraint(op.f("ck_budgets_mode"), type_="check")
        budgets.drop_column("mode")
    op.execute("ALTER TABLE runs DROP COLUMN cancel_us")
    _let_roles_be(_NEW, _OLD)


def _let_roles_be(before: str, after: str) -> None:
    """Change which roles there are.

    On SQLite only the table's text is changed, as its documentation describes for rules that the stored rows keep
    (https://www.sqlite.org/lang_altertable.html, section 8): a copy of millions of rows would take minutes.
    """
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        for table in _WITH_ROLE:
            op.drop_constraint(op.f(f"ck_{table}_role"), table, type_="check")
            op.create_check_constraint(op.f(f"ck_{table}_role"), table, after)
        return
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    for table in _WITH_ROLE:
        changed = connection.exec_driver_sql(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ? AND instr(sql, ?)",
            (f"CHECK ({before})", f"CHECK ({after})", table, f"CHECK ({before})"),
        )
        if changed.rowcount != 1:
            message = f"table {table}: its rule of roles was not found"
            raise RuntimeError(message)
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = OFF")
