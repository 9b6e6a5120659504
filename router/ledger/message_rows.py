"""Messages, moves of cursors and new values as rows: pure functions, for `router.ledger.rows`.

In: the values of `router.ledger.message_records`. Out: columns, and the slip that the writer fills in. Invariant: equal
records give equal rows.
"""

from __future__ import annotations

from typing import Any

from router.ledger.message_records import CursorMoved, MessagePublished, StateChanged
from router.ledger.row_values import checked_id, tags_text


def message_row(message: MessagePublished) -> dict[str, Any]:
    """Return a message's row; its number comes in the transaction.

    Raises:
        ValueError: the id of its run is none.
    """
    return {
        "topic": message.topic,
        "key": message.key,
        "sender": message.sender,
        "headers": tags_text(message.headers) if message.headers else None,
        "body": message.body,
        "priority": message.priority,
        "reply_to": message.reply_to,
        "run_id": checked_id(message.run_id),
        "expires_us": message.expires_us,
        "created_us": message.placed.published_us,
        "placed": message.placed,
    }


def cursor_row(move: CursorMoved) -> dict[str, Any]:
    """Return the row of a cursor's move."""
    return {
        "at_topic": move.topic,
        "at_subscriber": move.subscriber,
        "at_epoch": move.epoch,
        "to_acked_seq": move.acked_seq,
        "to_acked_beyond": move.acked_beyond,
        "to_changed_us": move.changed_us,
        "moved": move.moved,
    }


def value_row(change: StateChanged) -> dict[str, Any]:
    """Return the row of a new value; its version comes in the transaction.

    Raises:
        ValueError: the id of its run is none.
    """
    names = ("namespace", "key", "value", "expected", "changed_us", "changed", "expires_us")
    return {**{name: getattr(change, name) for name in names}, "run_id": checked_id(change.run_id)}
