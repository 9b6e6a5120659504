"""Deletes messages and state whose time is over.

In: instants, runs. Out: fewer rows. Invariant: of a topic the oldest messages go first, so that what stays has no gap;
its numbers go on from where they were. What a run owns goes with its answers, under the lock that its writers take:
what is written at that instant goes along, or is the first of a new topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from router.ledger.message_tables import (
    cursors,
    messages,
    state,
    state_snapshot_entries,
    state_snapshots,
    state_spaces,
    topics,
)

_OF_TOPICS = (messages, cursors, topics)
_OF_SPACES = (state, state_snapshot_entries, state_snapshots, state_spaces)


@dataclass(frozen=True, slots=True)
class PrunedMessages:
    """What was deleted.

    Args:
        messages: messages.
        topics: topics they were of; a topic itself stays, and its numbers go on.
        unread: of the messages, those that a subscriber of their topic had not acknowledged.
    """

    messages: int
    topics: int
    unread: int


def delete_of_runs(connection: sa.Connection, run_ids: sa.Select[Any]) -> None:
    """Delete the messages and the state of some runs.

    Args:
        connection: in a transaction.
        run_ids: gives their ids.
    """
    _delete(connection, topics.c.run_id.in_(run_ids), state_spaces.c.run_id.in_(run_ids))


def delete_expired(connection: sa.Connection, now_us: int, run_ids: sa.Select[Any]) -> None:
    """Delete the messages and the state of some runs, as far as their own time is over, too.

    Args:
        connection: in a transaction.
        now_us: the instant, microseconds since 1970 UTC.
        run_ids: gives the ids of runs that are over.
    """
    of_topics, of_spaces = (
        sa.and_(table.c.expires_us <= now_us, table.c.run_id.in_(run_ids)) for table in (topics, state_spaces)
    )
    _delete(connection, of_topics, of_spaces)


def _delete(connection: sa.Connection, of_topics: sa.ColumnElement[bool], of_spaces: sa.ColumnElement[bool]) -> None:
    for tables, name, which in ((_OF_TOPICS, "topic", of_topics), (_OF_SPACES, "namespace", of_spaces)):
        home = tables[-1]
        gone = connection.execute(sa.select(home.c[name]).where(which)).scalars()
        for each in sorted(gone):  # a database's own order is not that of `publish`; mostly there are none
            own = sa.select(home.c[name]).where(home.c[name] == each, which).with_for_update()
            for table in tables if connection.execute(own).first() else ():
                connection.execute(sa.delete(table).where(table.c[name] == each))


def prune_messages(connection: sa.Connection, before_us: int, topic: str | None = None) -> PrunedMessages:
    """Delete messages that were published before an instant, of topics that no run owns.

    Args:
        connection: in a transaction of its own.
        before_us: the instant, microseconds since 1970 UTC.
        topic: only of this one; None: of all.
    """
    own = sa.select(topics.c.topic).where(topics.c.run_id.is_(None))
    if topic is not None:
        own = own.where(topics.c.topic == topic)
    count = touched = unread = 0
    for name in sorted(connection.execute(own).scalars()):  # a database's own order is not that of `publish`
        lock = sa.select(topics.c.last_seq).where(topics.c.topic == name).with_for_update()
        last_seq = connection.execute(lock).scalar_one()
        stays = sa.select(sa.func.min(messages.c.seq))
        stays = stays.where(messages.c.topic == name, messages.c.published_us >= before_us)
        first = connection.execute(stays).scalar()
        of_topic = (messages.c.topic == name, messages.c.seq < (last_seq + 1 if first is None else first))
        lowest = sa.select(sa.func.min(cursors.c.acked_seq)).where(cursors.c.topic == name)
        if (acked := connection.execute(lowest).scalar()) is not None:
            late = sa.select(sa.func.count()).select_from(messages).where(*of_topic, messages.c.seq > acked)
            unread += connection.execute(late).scalar_one()
        deleted = connection.execute(sa.delete(messages).where(*of_topic)).rowcount
        count, touched = count + deleted, touched + (deleted > 0)
    return PrunedMessages(count, touched, unread)
