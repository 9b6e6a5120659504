"""Messages and state between agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# A migration is frozen: it repeats what the code of its day said, and never imports it.


def _texts(*names: str, nullable: bool = True) -> tuple[sa.Column[str], ...]:
    return tuple(sa.Column(name, sa.Text(), nullable=nullable) for name in names)


def _counts(*names: str, nullable: bool = False) -> tuple[sa.Column[int], ...]:
    return tuple(sa.Column(name, sa.BigInteger(), nullable=nullable, autoincrement=False) for name in names)


def _of_a_run() -> tuple[sa.Column[str], sa.Column[int]]:
    return sa.Column("run_id", sa.Uuid(as_uuid=False)), sa.Column("expires_us", sa.BigInteger())


def upgrade() -> None:
    _make_messages()
    _make_state()


def _make_messages() -> None:
    op.create_table(
        "topics",
        *_texts("topic", nullable=False),
        *_counts("last_seq", "created_us"),
        *_of_a_run(),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_topics")),
        sqlite_with_rowid=False,
    )
    _index_of_runs("topics")
    op.create_table(
        "messages",
        *_texts("topic", nullable=False),
        *_counts("seq"),
        sa.Column("message_id", sa.Uuid(as_uuid=False), nullable=False),
        *_texts("key", "sender", "headers"),
        *_texts("body", nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        *_texts("reply_to"),
        *_counts("published_us"),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_messages_seq")),
        sa.CheckConstraint("priority >= 0 AND priority <= 9", name=op.f("ck_messages_priority")),
        sa.ForeignKeyConstraint(["topic"], ["topics.topic"], name=op.f("fk_messages_topics")),
        sa.PrimaryKeyConstraint("topic", "seq", name=op.f("pk_messages")),
    )
    _index_of_some("ix_messages_topic_key", ["topic", "key"], "key IS NOT NULL", unique=True)
    _index_of_some("ix_messages_topic_seq", ["topic", "seq"], "priority > 0", unique=False)
    op.create_table(
        "cursors",
        *_texts("topic", "subscriber", nullable=False),
        *_counts("epoch", "acked_seq"),
        *_texts("acked_beyond"),
        *_counts("changed_us"),
        sa.ForeignKeyConstraint(["topic"], ["topics.topic"], name=op.f("fk_cursors_topics")),
        sa.PrimaryKeyConstraint("topic", "subscriber", name=op.f("pk_cursors")),
        sqlite_with_rowid=False,
    )


def _make_state() -> None:
    op.create_table(
        "state_spaces",
        *_texts("namespace", nullable=False),
        *_counts("last_version"),
        *_of_a_run(),
        sa.PrimaryKeyConstraint("namespace", name=op.f("pk_state_spaces")),
        sqlite_with_rowid=False,
    )
    _index_of_runs("state_spaces")
    op.create_table(
        "state",
        *_texts("namespace", "key", nullable=False),
        *_counts("version"),
        *_texts("value", nullable=False),
        *_counts("changed_us"),
        sa.ForeignKeyConstraint(["namespace"], ["state_spaces.namespace"], name=op.f("fk_state_state_spaces")),
        sa.PrimaryKeyConstraint("namespace", "key", name=op.f("pk_state")),
    )
    op.create_table(
        "state_snapshots",
        *_texts("namespace", "name", nullable=False),
        *_counts("version", "taken_us"),
        sa.ForeignKeyConstraint(
            ["namespace"], ["state_spaces.namespace"], name=op.f("fk_state_snapshots_state_spaces")
        ),
        sa.PrimaryKeyConstraint("namespace", "name", name=op.f("pk_state_snapshots")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "state_snapshot_entries",
        *_texts("namespace", "name", "key", nullable=False),
        *_counts("version"),
        *_texts("value", nullable=False),
        sa.ForeignKeyConstraint(
            ["namespace", "name"],
            ["state_snapshots.namespace", "state_snapshots.name"],
            name=op.f("fk_state_snapshot_entries_state_snapshots"),
        ),
        sa.PrimaryKeyConstraint("namespace", "name", "key", name=op.f("pk_state_snapshot_entries")),
    )


def _index_of_runs(table: str) -> None:
    op.create_index(op.f(f"ix_{table}_run_id"), table, ["run_id"], unique=False)
    op.create_index(op.f(f"ix_{table}_expires_us"), table, ["expires_us"], unique=False)


def _index_of_some(name: str, columns: list[str], which: str, *, unique: bool) -> None:
    where = sa.text(which)
    op.create_index(op.f(name), "messages", columns, unique=unique, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    of_state = ("state_snapshot_entries", "state_snapshots", "state", "state_spaces")
    for table in (*of_state, "cursors", "messages", "topics"):
        op.drop_table(table)
