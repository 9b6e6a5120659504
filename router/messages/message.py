"""A message: what is to be said, and what was.

In: what an agent says. Out: frozen values. Invariant: a `Message` is on record, for good, under its topic and number.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from router.ledger.message_records import MessagePublished, MessageRow, Placed
from router.messages.names import (
    MOST_BODY_BYTES,
    MOST_KEY_CHARS,
    checked_headers,
    checked_name,
    checked_priority,
    json_text,
    run_of,
)

Where = Mapping[str, str | Collection[str]]
"""What headers must be: name to value, or to the values of which it must be one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is to be published; see `Board.publish` for what its fields mean."""

    topic: str
    body: Any
    sender: str | None = None
    headers: Mapping[str, str] | None = None
    priority: int = 0
    reply_to: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message on record.

    Args:
        topic: its topic.
        seq: its number there: 1, 2, 3 … in the order of the commits.
        id: a UUID of its own.
        body: the JSON value that was published.
        published_us: when, microseconds since 1970 UTC, by the publisher's clock.
        sender: who said so, or None.
        headers: labels that subscribers choose by.
        priority: 0 to 9.
        reply_to: topic that replies are expected on, or None.
        key: what it is the only message of in its topic, or None.
    """

    topic: str
    seq: int
    id: str
    body: Any
    published_us: int
    sender: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    priority: int = 0
    reply_to: str | None = None
    key: str | None = None
    _acknowledge: Callable[[Message], Awaitable[None]] | None = field(default=None, repr=False, compare=False)

    async def ack(self) -> None:
        """Acknowledge it to the subscription it came from; return once that is committed.

        What no cursor has delivered is acknowledged already.

        Raises:
            CursorTaken: another subscription of the same name has taken the cursor.
            LedgerError: the database cannot be written.
        """
        if self._acknowledge is not None:
            await self._acknowledge(self)


def record_of(draft: Draft, message_id: str, at_us: int, expires_us: int | None) -> MessagePublished:
    """Return what the ledger is told of a draft.

    Args:
        draft: what is to be said.
        message_id: its id.
        at_us: instant, microseconds since 1970 UTC.
        expires_us: when a run's topic may be deleted, alike.

    Raises:
        WrongUsage: a name, a header, the priority or the body is not allowed.
    """
    topic = checked_name("topic", draft.topic)
    if draft.sender is not None:
        checked_name(f"topic {topic!r}: sender", draft.sender)
    if draft.reply_to is not None:
        checked_name(f"topic {topic!r}: reply_to", draft.reply_to)
    if draft.key is not None:
        checked_name(f"topic {topic!r}: key", draft.key, MOST_KEY_CHARS)
    run_id = run_of("topic", topic)
    return MessagePublished(
        topic,
        json_text(f"topic {topic!r}: body", draft.body, MOST_BODY_BYTES),
        Placed(message_id, at_us),
        key=draft.key,
        sender=draft.sender,
        headers=checked_headers(topic, draft.headers),
        priority=checked_priority(topic, draft.priority),
        reply_to=draft.reply_to,
        run_id=run_id,
        expires_us=expires_us if run_id else None,
    )


def published(record: MessagePublished) -> Message:
    """Return the message of a record that has been committed."""
    placed = record.placed
    more = (record.sender, record.headers, record.priority, record.reply_to, record.key)
    return Message(record.topic, placed.seq, placed.message_id, json.loads(record.body), placed.published_us, *more)


def message_of(row: MessageRow, acknowledge: Callable[[Message], Awaitable[None]] | None = None) -> Message:
    """Return the message of a row.

    Args:
        row: as it was read.
        acknowledge: what its `ack` does; None: nothing.
    """
    more = (row.sender, row.headers, row.priority, row.reply_to, row.key)
    return Message(
        row.topic, row.seq, row.message_id, json.loads(row.body), row.published_us, *more, _acknowledge=acknowledge
    )


def fits(headers: Mapping[str, str], where: Where | None) -> bool:
    """Return whether headers are what a subscriber wants."""
    if not where:
        return True
    return all(
        (found := headers.get(name)) is not None and (found == wanted if isinstance(wanted, str) else found in wanted)
        for name, wanted in where.items()
    )
