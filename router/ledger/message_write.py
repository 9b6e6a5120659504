"""Writes messages and moves cursors, within the transaction of whatever else is written.

In: rows of `router.ledger.rows`. Out: numbered messages. Invariant: a topic's numbers are taken under the lock of its
row, which is kept until the commit: who sees number n sees all before it. Topics are locked in the order of their
names, so that two transactions never wait for each other. What each row has come to is put into its slip.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from router.ledger.driver import Prepared, fetch, insert_if_absent, once_for_each, prepare, prepare_named, run
from router.ledger.message_records import CursorRow, Placed
from router.ledger.message_tables import cursors, messages, topics

CHANNEL = "farebox_messages"
"""Of PostgreSQL's NOTIFY; a notice is the highest priority that was published, a blank, and the topic."""
MESSAGE_COLUMNS = tuple(column.name for column in messages.columns)
_TOPIC_COLUMNS = tuple(column.name for column in topics.columns)
Written = Mapping[str, Any]


def named(name: str) -> sa.BindParameter[Any]:
    """Return a parameter of a statement; its type is that of what it stands beside."""
    return sa.bindparam(name)


class _Statements:
    """What is run, in the words of one database."""

    def __init__(self, dialect: sa.Dialect) -> None:
        topic, key = named("topic"), named("key")
        of_topic = topics.c.topic == topic
        self.lock = prepare_named(sa.select(topics.c.last_seq).where(of_topic).with_for_update(), dialect)
        self.make = prepare(insert_if_absent(dialect.name, topics), dialect, _TOPIC_COLUMNS)
        known = sa.select(messages.c.seq, messages.c.message_id, messages.c.published_us)
        self.find = prepare_named(known.where(messages.c.topic == topic, messages.c.key == key), dialect)
        self.insert = prepare(sa.insert(messages), dialect, MESSAGE_COLUMNS)
        last = named("last")
        self.count = prepare_named(sa.update(topics).where(of_topic).values(last_seq=last), dialect)
        mine = (cursors.c.topic == named("at_topic"), cursors.c.subscriber == named("at_subscriber"))
        moved = {name: named(f"to_{name}") for name in ("acked_seq", "acked_beyond", "changed_us")}
        update = sa.update(cursors).where(*mine, cursors.c.epoch == named("at_epoch")).values(**moved)
        self.move = prepare_named(update, dialect)


_statements = once_for_each(_Statements)


def publish(connection: sa.Connection, rows: Sequence[Written]) -> int:
    """Write messages, each with the next number of its topic; return how many were new.

    Args:
        connection: in a transaction.
        rows: as `router.ledger.rows` makes them, in the order in which they are to stand.
    """
    by_topic: defaultdict[str, list[Written]] = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    return sum(_publish(connection, topic, by_topic[topic]) for topic in sorted(by_topic))


def _publish(connection: sa.Connection, topic: str, rows: Sequence[Written]) -> int:
    statements = _statements(connection)
    last = first = lock_topic(connection, topic, rows[0])
    new: list[dict[str, Any]] = []
    of_batch: dict[str, Placed] = {}
    for row in rows:
        placed: Placed = row["placed"]
        if (key := row["key"]) is not None and _is_known(connection, statements.find, row, of_batch.get(key)):
            continue
        last += 1
        placed.seq, placed.is_new = last, True
        if key is not None:
            of_batch[key] = placed
        own = {"seq": last, "message_id": placed.message_id, "published_us": placed.published_us}
        new.append({name: own[name] if name in own else row[name] for name in MESSAGE_COLUMNS})
    if last > first:
        run(connection, statements.insert, new)
        run(connection, statements.count, [{"topic": topic, "last": last}])
        _notify(connection, topic, max(row["priority"] for row in new))
    return last - first


def lock_topic(connection: sa.Connection, topic: str, row: Written) -> int:
    """Make a topic where there is none, keep others from it until the commit, and return its last number.

    Args:
        connection: in a transaction.
        topic: its name.
        row: has what it is made with: `created_us`, `run_id`, `expires_us`.
    """
    statements = _statements(connection)
    made = {"topic": topic, "last_seq": 0, **{name: row[name] for name in ("created_us", "run_id", "expires_us")}}
    while not (found := fetch(connection, statements.lock, made)):  # mostly once: it may be deleted as it is made
        run(connection, statements.make, [made])
    return int(found[0][0])


def _is_known(connection: sa.Connection, find: Prepared, row: Written, in_batch: Placed | None) -> bool:
    """Return whether a message of the key is there; if so, the row's slip says where."""
    placed: Placed = row["placed"]
    if in_batch is not None:
        known = (in_batch.seq, in_batch.message_id, in_batch.published_us)
    else:
        found = fetch(connection, find, {"topic": row["topic"], "key": row["key"]})
        if not found:
            return False
        known = (int(found[0][0]), str(uuid.UUID(str(found[0][1]))), int(found[0][2]))
    placed.seq, placed.message_id, placed.published_us = known
    placed.is_new = False
    return True


def _notify(connection: sa.Connection, topic: str, priority: int) -> None:
    if connection.dialect.name == "postgresql":
        cursor: Any = connection.connection.cursor()
        cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{priority} {topic}"))
        cursor.close()


def move_cursors(connection: sa.Connection, rows: Sequence[Written]) -> int:
    """Move cursors whose epoch is still the one on record; return how many were.

    Args:
        connection: in a transaction.
        rows: as `router.ledger.rows` makes them; of one cursor the last one counts, which holds all before it.
    """
    statement = _statements(connection).move
    by_cursor: defaultdict[tuple[str, str, int], list[Written]] = defaultdict(list)
    for row in rows:
        by_cursor[row["at_topic"], row["at_subscriber"], row["at_epoch"]].append(row)
    count = 0
    for cursor in sorted(by_cursor):
        of_cursor = by_cursor[cursor]
        is_moved = run(connection, statement, [of_cursor[-1]]) == 1
        count += is_moved
        for row in of_cursor:
            row["moved"].is_moved = is_moved
    return count


def open_cursor(
    connection: sa.Connection, topic: str, subscriber: str, made: Written, *, from_start: bool
) -> CursorRow:
    """Take a cursor, or make it; whoever had it before cannot move it any more.

    Args:
        connection: in a transaction of its own.
        topic: of which topic.
        subscriber: whose.
        made: what a topic is made with where there is none, see `lock_topic`.
        from_start: whether a new cursor begins with the first message, or after the last one.
    """
    last_seq = lock_topic(connection, topic, made)
    of_cursor = (cursors.c.topic == topic, cursors.c.subscriber == subscriber)
    known = connection.execute(sa.select(cursors).where(*of_cursor)).mappings().one_or_none()
    first = connection.execute(sa.select(sa.func.min(messages.c.seq)).where(messages.c.topic == topic)).scalar()
    gone = last_seq if first is None else first - 1  # what was pruned will not come any more
    if known is None:
        acked = gone if from_start else last_seq
        row = CursorRow(topic, subscriber, 1, acked, None)
        connection.execute(sa.insert(cursors).values(**_columns(row), changed_us=made["created_us"]))
        return row
    acked = max(gone, known["acked_seq"])
    row = CursorRow(topic, subscriber, known["epoch"] + 1, acked, known["acked_beyond"])
    changed = {**_columns(row), "changed_us": made["created_us"]}
    connection.execute(sa.update(cursors).where(*of_cursor).values(**changed))
    return row


def _columns(row: CursorRow) -> dict[str, Any]:
    names = ("topic", "subscriber", "epoch", "acked_seq", "acked_beyond")
    return {name: getattr(row, name) for name in names}
