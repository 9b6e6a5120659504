"""One topic as one subscription reads it: what was read ahead, what was handed out, what is acknowledged.

In: messages in the order of their numbers. Out: the next one: the highest priority first, then the lowest number.
Invariant: each message is handed out once, and none that is acknowledged. What is kept is bounded: read ahead are at
most `PAGE` ordinary messages and `MOST_URGENT` of a higher priority; spans beyond the low-water mark come from those
and from what was handed out and not acknowledged, of which there may be `MOST_OPEN`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Final

from router.messages.acks import Acks
from router.messages.message import Message, Where, fits

PAGE: Final = 200
"""Ordinary messages read at once."""
MOST_URGENT: Final = 500
"""Messages of a higher priority that wait here at once; of what is beyond them, none overtakes."""
MOST_OPEN: Final = 1000
"""Messages of a subscription that may be handed out and not acknowledged at once."""


class Lane:
    """A topic of a subscription.

    Args:
        topic: its name.
        acks: what its cursor has acknowledged; None: there is no cursor, and nothing is.
        after_seq: the number after which it is read.
        where: what headers must be; what does not fit is passed over, and counts as acknowledged.
    """

    def __init__(self, topic: str, acks: Acks | None, after_seq: int, where: Where | None) -> None:
        self.topic: Final = topic
        self.acks: Final = acks
        self.ordinary_seq = after_seq
        """The number up to which ordinary messages were read."""
        self.urgent_seq = after_seq
        """The number up to which those of a higher priority were read."""
        self.passed_over = 0
        """Messages passed over since the cursor was last written."""
        self._where = where
        self._ordinary: deque[Message] = deque()
        self._urgent: list[tuple[int, int, Message]] = []

    @property
    def is_wide(self) -> bool:
        """Whether so many are acknowledged out of their order that no more may overtake."""
        return self.acks is not None and self.acks.spans > MOST_URGENT

    @property
    def urgent_room(self) -> int:
        """How many messages of a higher priority may be read now."""
        return 0 if self.is_wide else MOST_URGENT - len(self._urgent)

    @property
    def ordinary_room(self) -> int:
        """How many ordinary messages may be read now."""
        return PAGE - len(self._ordinary)

    def take_in(self, messages: Iterable[Message]) -> None:
        """Take messages that were read, in the order of their numbers."""
        for message in messages:
            if message.priority:
                self.urgent_seq = message.seq
            else:
                self.ordinary_seq = message.seq
            if self.acks is not None and message.seq in self.acks:
                continue
            if not fits(message.headers, self._where):
                self._pass_over(message)
            elif message.priority:
                heapq.heappush(self._urgent, (-message.priority, message.seq, message))
            else:
                self._ordinary.append(message)

    def _pass_over(self, message: Message) -> None:
        if self.acks is not None:
            self.acks.add(message.seq)
            self.passed_over += 1

    @property
    def priority(self) -> int:
        """The priority of the next message; -1: none waits here."""
        if self._urgent:
            return -self._urgent[0][0]
        return 0 if self._ordinary else -1

    def pop(self) -> Message:
        """Hand out the next message."""
        return heapq.heappop(self._urgent)[2] if self._urgent else self._ordinary.popleft()
