"""Reads messages, cursors and state; it is the reader's counterpart for agents.

In: topics, numbers, keys. Out: frozen values. Invariant: nothing is written; what is returned of a topic has no gap
within it but for messages of the other priority, since a number is visible no earlier than those before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from router.ledger.database import database_errors, id_batches
from router.ledger.message_records import CursorRow, MessageRow, SnapshotRow, TopicRow, ValueRow
from router.ledger.message_tables import (
    IS_URGENT,
    cursors,
    messages,
    state,
    state_snapshot_entries,
    state_snapshots,
    state_spaces,
    topics,
)


class MessageReader:
    """Reads one database. Calls block; they may come from any thread.

    Args:
        engine: of a database at the current revision.

    Every call raises `LedgerError` where the database cannot be read.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return connection.execute(query).all()

    def ordinary(self, topic: str, after_seq: int, most: int) -> list[MessageRow]:
        """Return messages of priority 0 after a number, in the order of their numbers."""
        where = (messages.c.topic == topic, messages.c.seq > after_seq, messages.c.priority == 0)
        return self._messages(sa.select(messages).where(*where).order_by(messages.c.seq).limit(most))

    def urgent(self, topic: str, after_seq: int, most: int) -> list[MessageRow]:
        """Return messages of a higher priority after a number, in the order of their numbers."""
        where = (messages.c.topic == topic, messages.c.seq > after_seq, IS_URGENT)
        return self._messages(sa.select(messages).where(*where).order_by(messages.c.seq).limit(most))

    def newest(self, topic: str, most: int) -> list[MessageRow]:
        """Return the newest messages, in the order of their numbers."""
        query = sa.select(messages).where(messages.c.topic == topic).order_by(messages.c.seq.desc()).limit(most)
        return self._messages(query)[::-1]

    def of_key(self, topic: str, key: str) -> MessageRow | None:
        """Return the message of a key, or None."""
        found = self._messages(sa.select(messages).where(messages.c.topic == topic, messages.c.key == key))
        return found[0] if found else None

    def _messages(self, query: sa.Select[Any]) -> list[MessageRow]:
        return [_message(row) for row in self._rows(query)]

    def last_seqs(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return the last numbers of those of some topics that exist."""
        found: dict[str, int] = {}
        for some in id_batches(list(names)):
            found.update(self._rows(sa.select(topics.c.topic, topics.c.last_seq).where(topics.c.topic.in_(some))))
        return found

    def topic_names(self) -> list[str]:
        """Return the names of all topics but those of runs."""
        return [row.topic for row in self._rows(sa.select(topics.c.topic).where(topics.c.run_id.is_(None)))]

    def topics(self, name: str | None = None, *, of_runs: bool = True, most: int = 10_000) -> list[TopicRow]:
        """Return topics, those with the newest message first.

        Args:
            name: only this one; None: all.
            of_runs: whether those of runs are among them.
            most: how many.
        """
        of_topic = messages.c.topic == topics.c.topic
        first = sa.select(sa.func.min(messages.c.seq)).where(of_topic).scalar_subquery()
        last_us = sa.select(messages.c.published_us).where(of_topic, messages.c.seq == topics.c.last_seq)
        count = sa.select(sa.func.count()).select_from(cursors).where(cursors.c.topic == topics.c.topic)
        latest = last_us.scalar_subquery().label("last_us")
        query = sa.select(
            topics, first.label("first_seq"), latest, count.scalar_subquery().label("subscribers")
        ).order_by(sa.func.coalesce(latest, topics.c.created_us).desc(), topics.c.topic)
        if name is not None:
            query = query.where(topics.c.topic == name)
        if not of_runs:
            query = query.where(topics.c.run_id.is_(None))
        return [_topic(row) for row in self._rows(query.limit(most))]

    def cursors(self, topic: str) -> list[CursorRow]:
        """Return the cursors of a topic, by the names of their subscribers."""
        query = sa.select(cursors).where(cursors.c.topic == topic).order_by(cursors.c.subscriber)
        return [
            CursorRow(row.topic, row.subscriber, row.epoch, row.acked_seq, row.acked_beyond)
            for row in self._rows(query)
        ]

    def value(self, namespace: str, key: str) -> ValueRow | None:
        """Return a value of a namespace, or None."""
        found = self._rows(sa.select(state).where(state.c.namespace == namespace, state.c.key == key))
        return _value(found[0]) if found else None

    def values(self, namespace: str, prefix: str = "", snapshot: str | None = None) -> list[ValueRow]:
        """Return the values of keys with a prefix, at one instant, in the order of their keys.

        Args:
            namespace: which.
            prefix: of the keys.
            snapshot: of this snapshot of the namespace; None: as it is now.
        """
        if snapshot is None:
            query, key = sa.select(state).where(state.c.namespace == namespace), state.c.key
        else:
            entries = state_snapshot_entries
            query, key = sa.select(entries, sa.literal(0).label("changed_us")), entries.c.key
            query = query.where(entries.c.namespace == namespace, entries.c.name == snapshot)
        if prefix:
            query = query.where(sa.func.substr(key, 1, len(prefix)) == prefix)
        return sorted(map(_value, self._rows(query)), key=lambda row: row.key)

    def snapshots(self, namespace: str) -> list[SnapshotRow]:
        """Return the snapshots of a namespace, the oldest first."""
        table, entries = state_snapshots, state_snapshot_entries
        of_snapshot = (entries.c.namespace == table.c.namespace, entries.c.name == table.c.name)
        keys = sa.select(sa.func.count()).select_from(entries).where(*of_snapshot).scalar_subquery().label("keys")
        query = sa.select(table, keys).where(table.c.namespace == namespace).order_by(table.c.taken_us, table.c.name)
        return [SnapshotRow(row.namespace, row.name, row.version, row.taken_us, row.keys) for row in self._rows(query)]

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces."""
        return [
            row.namespace for row in self._rows(sa.select(state_spaces.c.namespace).order_by(state_spaces.c.namespace))
        ]


def _message(row: Any) -> MessageRow:
    headers = {} if row.headers is None else json.loads(row.headers)
    texts = (row.key, row.sender, headers, row.reply_to)
    return MessageRow(row.topic, row.seq, row.message_id, row.body, row.priority, row.published_us, *texts)


def _topic(row: Any) -> TopicRow:
    first = row.last_seq + 1 if row.first_seq is None else row.first_seq
    more = (row.run_id, row.expires_us, row.subscribers)
    return TopicRow(row.topic, first, row.last_seq, row.created_us, row.last_us, *more)


def _value(row: Any) -> ValueRow:
    return ValueRow(row.key, row.value, row.version, row.changed_us)
