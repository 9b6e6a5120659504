"""The tables of messages and state between agents; what they promise is in `docs/messages.md`.

    topics ── messages           state_spaces ── state
      └────── cursors                 └───────── state_snapshots ── state_snapshot_entries

Invariant: a topic's messages are numbered 1, 2, 3 … in the order of their commits: the number is taken under the lock
of the topic's row. A namespace's versions only grow, under the lock of its row: a version names one value for ever.
Topics and namespaces of a run have its `run_id`, and go with its answers; `expires_us` NULL: kept until it is pruned.
"""

from __future__ import annotations

import sqlalchemy as sa

from router.ledger.columns import count_column, id_column, metadata, text_column
from router.ledger.message_records import URGENT_MOST

topics = sa.Table(
    "topics",
    metadata,
    text_column("topic", primary_key=True),
    count_column("last_seq", nullable=False),
    count_column("created_us", nullable=False),
    id_column("run_id"),
    count_column("expires_us"),
    sa.Index(None, "run_id"),
    sa.Index(None, "expires_us"),
    sqlite_with_rowid=False,
)

messages = sa.Table(
    "messages",
    metadata,
    text_column("topic", sa.ForeignKey("topics.topic"), primary_key=True),
    count_column("seq", primary_key=True, autoincrement=False),
    id_column("message_id", nullable=False),
    text_column("key"),
    text_column("sender"),
    text_column("headers"),
    text_column("body", nullable=False),
    sa.Column("priority", sa.Integer(), nullable=False),
    text_column("reply_to"),
    count_column("published_us", nullable=False),
    sa.CheckConstraint("seq >= 1", name="seq"),
    sa.CheckConstraint(f"priority >= 0 AND priority <= {URGENT_MOST}", name="priority"),
)

HAS_KEY = messages.c.key.is_not(None)
IS_URGENT = messages.c.priority > sa.literal_column("0")
# Both hold few of the rows; of the most, there is nothing to look up.
sa.Index(None, messages.c.topic, messages.c.key, unique=True, sqlite_where=HAS_KEY, postgresql_where=HAS_KEY)
sa.Index(None, messages.c.topic, messages.c.seq, sqlite_where=IS_URGENT, postgresql_where=IS_URGENT)

# All up to `acked_seq` is acknowledged, and beyond it what `acked_beyond` says: spans of numbers, as JSON; NULL: none.
# Whoever opens a cursor takes the next `epoch`: what an earlier holder says from then on is refused.
cursors = sa.Table(
    "cursors",
    metadata,
    text_column("topic", sa.ForeignKey("topics.topic"), primary_key=True),
    text_column("subscriber", primary_key=True),
    count_column("epoch", nullable=False),
    count_column("acked_seq", nullable=False),
    text_column("acked_beyond"),
    count_column("changed_us", nullable=False),
    sqlite_with_rowid=False,
)

state_spaces = sa.Table(
    "state_spaces",
    metadata,
    text_column("namespace", primary_key=True),
    count_column("last_version", nullable=False),
    id_column("run_id"),
    count_column("expires_us"),
    sa.Index(None, "run_id"),
    sa.Index(None, "expires_us"),
    sqlite_with_rowid=False,
)

state = sa.Table(
    "state",
    metadata,
    text_column("namespace", sa.ForeignKey("state_spaces.namespace"), primary_key=True),
    text_column("key", primary_key=True),
    count_column("version", nullable=False),
    text_column("value", nullable=False),
    count_column("changed_us", nullable=False),
)

state_snapshots = sa.Table(
    "state_snapshots",
    metadata,
    text_column("namespace", sa.ForeignKey("state_spaces.namespace"), primary_key=True),
    text_column("name", primary_key=True),
    count_column("version", nullable=False),
    count_column("taken_us", nullable=False),
    sqlite_with_rowid=False,
)

state_snapshot_entries = sa.Table(
    "state_snapshot_entries",
    metadata,
    text_column("namespace", primary_key=True),
    text_column("name", primary_key=True),
    text_column("key", primary_key=True),
    count_column("version", nullable=False),
    text_column("value", nullable=False),
    sa.ForeignKeyConstraint(["namespace", "name"], ["state_snapshots.namespace", "state_snapshots.name"]),
)
