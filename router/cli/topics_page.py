"""Topics, messages and state as pages.

In: what `router.ledger.message_read` has read. Out: `Page`s, lines. Invariant: a message takes one line; its body is
JSON, whole where the format is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.page import Column, Fact, Page, Table
from router.cli.output import one_line
from router.cli.runs_page import instant

if TYPE_CHECKING:
    from router.ledger.message_records import CursorRow, MessageRow, SnapshotRow, TopicRow, ValueRow
    from router.messages import Message


def topics_page(topics: Sequence[TopicRow]) -> Page:
    """Return a page of topics, a line each.

    Args:
        topics: as they are to be shown.
    """
    columns = (
        Column("topic", "topic", "text", whole=True),
        Column("messages", "messages", "count"),
        Column("last_seq", "last no.", "count"),
        Column("last", "last (UTC)", "text", optional=True),
        Column("subscribers", "subscribers", "count"),
    )
    rows = tuple(
        (
            each.topic,
            each.messages,
            each.last_seq,
            None if each.last_us is None else instant(each.last_us),
            each.subscribers,
        )
        for each in topics
    )
    table = Table("topics", "topics", columns, rows)
    return Page("topics", "Topics", (), (table,), (), (Fact("topics", "topics", len(rows), "count"),))


def topic_page(topic: TopicRow, messages: Sequence[MessageRow], cursors: Sequence[CursorRow]) -> Page:
    """Return a page of one topic.

    Args:
        topic: the topic.
        messages: those that are shown, in their order.
        cursors: its subscribers.
    """
    columns = (
        Column("seq", "no.", "count"),
        Column("published", "published (UTC)", "text"),
        Column("sender", "by", "text", optional=True),
        Column("headers", "headers", "text", optional=True),
        Column("priority", "priority", "count", optional=True),
        Column("key", "key", "text", optional=True),
        Column("body", "body", "text"),
    )
    rows = tuple(
        (
            each.seq,
            instant(each.published_us),
            each.sender,
            _headers(each.headers),
            each.priority or None,
            each.key,
            each.body,
        )
        for each in messages
    )
    tables = [Table("messages", "messages", columns, rows)]
    if cursors:
        of_cursor = (
            Column("subscriber", "subscriber", "text"),
            Column("acked_seq", "all up to", "count"),
            Column("behind", "behind", "count"),
        )
        lines = tuple((each.subscriber, each.acked_seq, topic.last_seq - each.acked_seq) for each in cursors)
        tables.append(Table("cursors", "subscribers", of_cursor, lines))
    footer = (
        Fact("shown", "shown", len(rows), "count"),
        Fact("messages", "messages", topic.messages, "count"),
        Fact("last_seq", "last number", topic.last_seq, "count"),
    )
    return Page("topic", f"Topic {one_line(topic.topic)}", (), tuple(tables), (), footer)


def state_page(namespace: str, values: Sequence[ValueRow], snapshots: Sequence[SnapshotRow]) -> Page:
    """Return a page of the state of one namespace.

    Args:
        namespace: its name.
        values: what it holds.
        snapshots: of it.
    """
    columns = (
        Column("key", "key", "text", whole=True),
        Column("version", "version", "count"),
        Column("changed", "changed (UTC)", "text"),
        Column("value", "value", "text"),
    )
    rows = tuple((each.key, each.version, instant(each.changed_us), each.value) for each in values)
    tables = [Table("state", "state", columns, rows)]
    if snapshots:
        of_snapshot = (
            Column("name", "snapshot", "text"),
            Column("taken", "taken (UTC)", "text"),
            Column("version", "version", "count"),
            Column("keys", "keys", "count"),
        )
        lines = tuple((each.name, instant(each.taken_us), each.version, each.keys) for each in snapshots)
        tables.append(Table("snapshots", "snapshots", of_snapshot, lines))
    footer = (Fact("keys", "keys", len(rows), "count"),)
    return Page("state", f"State of {one_line(namespace)}", (), tuple(tables), (), footer)


def message_line(message: Message, *, is_json: bool) -> str:
    """Return a message on one line.

    Args:
        message: the message.
        is_json: as JSON, all of it; else as text.
    """
    if is_json:
        whole = {"seq": message.seq, "id": message.id, "sender": message.sender, "headers": dict(message.headers)}
        more = {"priority": message.priority, "key": message.key, "published_us": message.published_us}
        return json.dumps({**whole, **more, "body": message.body})
    parts = (str(message.seq), instant(message.published_us), message.sender, json.dumps(message.body))
    return one_line("  ".join(part for part in parts if part))


def _headers(headers: object) -> str | None:
    return (
        ", ".join(f"{name}={value}" for name, value in headers.items()) or None if isinstance(headers, dict) else None
    )
