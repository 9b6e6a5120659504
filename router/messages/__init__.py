"""Messages and state between agents, on the ledger's own database.

    Board ── publish, ask, reply ──► topics ──► Subscription (acks, lane)
      └───── State: values with versions, snapshots

Its one invariant: what one agent has been told is on record, and everybody else sees it in the same order. See
`docs/messages.md`.
"""

from __future__ import annotations

from router.messages.board import Board
from router.messages.message import Draft, Message
from router.messages.state import Entry, Snapshot, State
from router.messages.subscription import Subscription

__all__ = ["Board", "Draft", "Entry", "Message", "Snapshot", "State", "Subscription"]
