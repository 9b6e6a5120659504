"""What the ledger is told of messages, cursors and state, and what it says of them.

In: facts of agents. Out: the rows of `router.ledger.message_tables`. Invariant: what only the transaction can know (a
message's number, whether a version was still the one on record) is put by the writer into the record's own slip, which
may be read once the record's `write` has returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

RUN_PREFIX: Final = "run/"
"""What topics and namespaces of a run begin with; its id follows."""
URGENT_MOST: Final = 9
"""The highest priority of a message; 0 is the ordinary one."""
ANY: Final = "any"
"""In the place of a version: whatever is there, or nothing."""
Expected = int | Literal["any"] | None


@dataclass(slots=True, eq=False)
class Placed:
    """Where a message has come to stand.

    Args:
        message_id: its id; that of the first one where its key was there already.
        published_us: alike.
        seq: its number in its topic, from 1; 0 before the commit.
        is_new: whether it is this very message, and not an earlier one of the same key.
    """

    message_id: str
    published_us: int
    seq: int = 0
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class MessagePublished:
    """A message for a topic, which is made with its first one.

    Args:
        topic: its topic.
        body: JSON text in ASCII.
        placed: takes where it comes to stand, and has its id and instant.
        key: of one topic, there is one message of a key: a second one is not written; None: it has none.
        sender: who says so, or None.
        headers: labels that subscribers choose by.
        priority: 0 to 9.
        reply_to: topic that replies are expected on, or None.
        run_id: the run the topic belongs to, or None.
        expires_us: when a topic that is made by it may be deleted, microseconds since 1970 UTC; None: never.
    """

    topic: str
    body: str
    placed: Placed
    key: str | None = None
    sender: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    priority: int = 0
    reply_to: str | None = None
    run_id: str | None = None
    expires_us: int | None = None


@dataclass(slots=True, eq=False)
class Moved:
    """Whether a cursor was moved: not where somebody else has taken it since."""

    is_moved: bool = False


@dataclass(frozen=True, slots=True)
class CursorMoved:
    """What a subscriber has acknowledged, all of it.

    Args:
        topic, subscriber: whose cursor.
        epoch: which opening of it.
        acked_seq: all up to it is acknowledged.
        acked_beyond: spans of numbers beyond it, as JSON, or None.
        changed_us: instant, microseconds since 1970 UTC.
        moved: takes whether it was.
    """

    topic: str
    subscriber: str
    epoch: int
    acked_seq: int
    acked_beyond: str | None
    changed_us: int
    moved: Moved


@dataclass(slots=True, eq=False)
class Changed:
    """Whether a value was changed, and which version is on record now, or None."""

    is_changed: bool = False
    version: int | None = None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """A new value of a key, if the version on record is the one that is expected.

    Args:
        namespace, key: which value.
        value: JSON text in ASCII; None: the key is deleted.
        expected: the version that must be on record; None: there must be none; `ANY`: nothing is expected.
        changed_us: instant, microseconds since 1970 UTC.
        changed: takes what came of it.
        run_id: the run the namespace belongs to, or None.
        expires_us: as for `MessagePublished`.
    """

    namespace: str
    key: str
    value: str | None
    expected: Expected
    changed_us: int
    changed: Changed
    run_id: str | None = None
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as the ledger has it; fields as of `MessagePublished` and `Placed`."""

    topic: str
    seq: int
    message_id: str
    body: str
    priority: int
    published_us: int
    key: str | None = None
    sender: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as the ledger has it.

    Args:
        topic: its name.
        first_seq: number of the oldest message that is still there; `last_seq` + 1: none is.
        last_seq: number of the newest message there ever was.
        created_us: instant, microseconds since 1970 UTC.
        last_us: instant of the newest message, or None.
        run_id: the run it belongs to, or None.
        expires_us: when it may be deleted, or None.
        subscribers: how many cursors it has.
    """

    topic: str
    first_seq: int
    last_seq: int
    created_us: int
    last_us: int | None
    run_id: str | None
    expires_us: int | None
    subscribers: int

    @property
    def messages(self) -> int:
        """How many messages it has: numbers have no gaps, and the oldest go first."""
        return self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class CursorRow:
    """A cursor as the ledger has it; fields as of `CursorMoved`."""

    topic: str
    subscriber: str
    epoch: int
    acked_seq: int
    acked_beyond: str | None


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A value as the ledger has it: JSON text, and the version that wrote it."""

    key: str
    value: str
    version: int
    changed_us: int


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A snapshot of a namespace: what it was once its version was `version`."""

    namespace: str
    name: str
    version: int
    taken_us: int
    keys: int
