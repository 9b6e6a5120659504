"""A subscription: the messages of one or more topics, as one subscriber has them.

In: topics, a subscriber's name, what headers must be. Out: messages, each topic's in its order, the highest priority
first, the topics in turn. Invariant: what is acknowledged is never delivered again to that subscriber, whatever process
asks; what is not is delivered again once the cursor is opened anew. Of two subscriptions of one name the later one has
the cursor; the earlier one learns so when it acknowledges.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from router.errors import CursorTaken, RouterError
from router.ledger import Ledger
from router.ledger.bell import Ear
from router.ledger.message_records import CursorMoved, CursorRow, MessageRow, Moved
from router.ledger.message_write import open_cursor
from router.messages.acks import Acks
from router.messages.lane import MOST_OPEN, PAGE, Lane
from router.messages.message import Message, Where, message_of
from router.messages.names import check_count, check_wait, run_of

_PASSED_OVER = 1000
"""Messages passed over after which the cursor is written, so that the next opening need not read them again."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a subscription begins.

    Args:
        from_start: with the first message that is there, or with the next; a cursor that is there goes on.
        after_seq: after this number, where there is no cursor; None: as `from_start` says.
        expires_us: when a run's topic that is made by it may be deleted, microseconds since 1970 UTC.
    """

    from_start: bool = True
    after_seq: int | None = None
    expires_us: int | None = None


class Subscription:
    """Messages as they come. `Board.subscribe` makes it; it is opened by `async with`, or by the first message.

        async with board.subscribe("orders", "billing") as subscription:
            async for message in subscription:
                …
                await message.ack()

    Several tasks may take from one subscription: each message is handed to one of them.

    Args:
        ledger: where the messages are.
        topics: the topics, at least one.
        subscriber: whose cursor moves; None: there is none, and nothing is acknowledged.
        where: what headers must be, or None.
        begin: where it begins.
    """

    def __init__(
        self,
        ledger: Ledger,
        topics: Sequence[str],
        subscriber: str | None,
        where: Where | None,
        begin: Begin,
    ) -> None:
        self.topics: Final = tuple(dict.fromkeys(topics))
        self.subscriber: Final = subscriber
        self._ledger = ledger
        self._where = where
        self._begin = begin
        self._lanes: deque[Lane] = deque()
        self._by_topic: dict[str, Lane] = {}
        self._epochs: dict[str, int] = {}
        self._ear: Ear | None = None
        self._reading = asyncio.Lock()
        self._open: set[tuple[str, int]] = set()
        self._closes = 0

    def __repr__(self) -> str:
        return f"Subscription({', '.join(self.topics)}; {self.subscriber or 'no cursor'})"

    async def open(self) -> None:
        """Take the cursors, and be told of messages from now on; a second call does nothing.

        Raises:
            LedgerError: the database cannot be read or written.
        """
        async with self._reading:
            await self._ensure_open()

    async def _ensure_open(self) -> Ear:
        if self._ear is not None:
            return self._ear
        ear = self._ledger.bell.listen(self.topics)
        lanes = await (self._with_cursors() if self.subscriber is not None else self._without())
        self._by_topic = {lane.topic: lane for lane in lanes}
        self._lanes.extend(lanes)
        self._ear = ear
        return ear

    async def _with_cursors(self) -> list[Lane]:
        subscriber, now_us = self.subscriber or "", time.time_ns() // 1000
        lanes = []
        for topic in self.topics:
            run_id = run_of("topic", topic)
            made = {"created_us": now_us, "run_id": run_id, "expires_us": self._begin.expires_us if run_id else None}
            opening = self._ledger.begin(
                lambda connection, topic=topic, made=made: open_cursor(  # type: ignore[misc]
                    connection, topic, subscriber, made, from_start=self._begin.from_start
                )
            )
            row: CursorRow = await asyncio.wrap_future(opening)
            acks = Acks(row.acked_seq, row.acked_beyond)
            self._epochs[topic] = row.epoch
            lanes.append(Lane(topic, acks, acks.low, self._where))
        return lanes

    async def _without(self) -> list[Lane]:
        after: dict[str, int] = {}
        if self._begin.after_seq is not None:
            after = dict.fromkeys(self.topics, self._begin.after_seq)
        elif not self._begin.from_start:
            after = dict(await asyncio.to_thread(self._ledger.messages.last_seqs, self.topics))
        return [Lane(topic, None, after.get(topic, 0), self._where) for topic in self.topics]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Return the next message, however long it takes; there is none once the subscription was closed meanwhile.

        Raises:
            LedgerError: the database cannot be read.
            RouterError: too many messages were handed out and not acknowledged.
        """
        while True:
            found = await self.take(1)
            if found:
                return found[0]
            if self._ear is None:
                raise StopAsyncIteration

    async def take(self, most: int = 100, timeout_s: float | None = None) -> tuple[Message, ...]:
        """Return messages that wait, or those that come first; none where none came in time, or before it was closed.

        Args:
            most: how many, at least 1.
            timeout_s: longest wait, seconds; None: however long.

        Raises:
            WrongUsage: most or timeout_s is not allowed.
            LedgerError: the database cannot be read.
            RouterError: too many messages were handed out and not acknowledged.
        """
        check_count("take: most", most, 1)
        check_wait("take", timeout_s)
        self._refuse_more()
        closes = self._closes
        loop = asyncio.get_running_loop()
        until_s = None if timeout_s is None else loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(until_s):
                await self._reading.acquire()
        except TimeoutError:
            return ()  # others wait, too, and nothing has come for them
        try:
            return await self._next(most, until_s) if self._closes == closes else ()
        finally:
            self._reading.release()

    async def _next(self, most: int, until_s: float | None) -> tuple[Message, ...]:
        ear = await self._ensure_open()
        while self._ear is ear:
            if not self._waits() or ear.urgent:
                ear.clear()
                await self._read(ear)
            if self._waits():
                found: list[Message] = []
                while len(found) < most and self._waits() and self._has_room():
                    found.append(self._pop())
                return tuple(found)
            left_s = None if until_s is None else until_s - asyncio.get_running_loop().time()
            if (left_s is not None and left_s <= 0) or not await ear.wait(left_s):
                break
        return ()

    def _refuse_more(self) -> None:
        if not self._has_room():
            message = f"subscriber {self.subscriber!r}: {MOST_OPEN:,} messages were handed out and not acknowledged"
            raise RouterError(f"{message}; no more may be", hint="await message.ack() for each that is done with")

    def _has_room(self) -> bool:
        return len(self._open) < MOST_OPEN

    def _waits(self) -> bool:
        return any(lane.priority >= 0 for lane in self._lanes)

    def _pop(self) -> Message:
        """Hand out the next message: of the highest priority, and then of the topic whose turn it is."""
        lane = max(self._lanes, key=lambda each: each.priority)  # of equals, the first
        self._lanes.remove(lane)
        self._lanes.append(lane)
        message = lane.pop()
        if lane.acks is not None:
            self._open.add((lane.topic, message.seq))
        return message

    async def _read(self, ear: Ear) -> None:
        """Read what has come since, of every topic."""
        ear.urgent.clear()
        rows = await asyncio.to_thread(self._rows)
        for lane, found in rows:
            lane.take_in(message_of(row, self._ack_one if lane.acks is not None else None) for row in found)
        if any(lane.passed_over >= _PASSED_OVER for lane in self._lanes):
            await self._write([lane for lane in self._lanes if lane.passed_over])

    def _rows(self) -> list[tuple[Lane, list[MessageRow]]]:
        reader = self._ledger.messages
        found = []
        for lane in list(self._lanes):
            rows = reader.urgent(lane.topic, lane.urgent_seq, lane.urgent_room) if lane.urgent_room > 0 else []
            if lane.ordinary_room == PAGE:
                rows += reader.ordinary(lane.topic, lane.ordinary_seq, PAGE)
            if rows:
                found.append((lane, rows))
        return found

    async def _ack_one(self, message: Message) -> None:
        await self.ack(message)

    async def ack(self, *messages: Message) -> None:
        """Acknowledge messages of this subscription; return once that is committed.

        Args:
            messages: in any order; one that is acknowledged already changes nothing.

        Raises:
            CursorTaken: another subscription of the same name has taken the cursor.
            LedgerError: the database cannot be written; a later acknowledgement holds these, too.
        """
        lanes: dict[str, Lane] = {}
        for message in messages:
            lane = self._by_topic.get(message.topic)
            if lane is not None and lane.acks is not None:
                lanes[lane.topic] = lane
                if lane.is_wide and self._ear is not None:
                    self._ear.tell(frozenset({lane.topic}))  # what had to wait for it may come now
                lane.acks.add(message.seq)
                self._open.discard((message.topic, message.seq))
        if lanes:
            await self._write(list(lanes.values()))

    async def _write(self, lanes: Sequence[Lane]) -> None:
        now_us = time.time_ns() // 1000
        moves = []
        for lane in lanes:
            if lane.acks is None or self.subscriber is None:
                continue
            lane.passed_over = 0
            where = (lane.topic, self.subscriber, self._epochs[lane.topic])
            moves.append(CursorMoved(*where, lane.acks.low, lane.acks.text(), now_us, Moved()))
        await self._ledger.write(*moves)
        for move in moves:
            if not move.moved.is_moved:
                message = f"subscriber {move.subscriber!r}: another subscription has taken its cursor on {move.topic!r}"
                raise CursorTaken(message, hint="give each subscriber a name of its own")

    async def aclose(self) -> None:
        """Stop, and let go whoever waits; the cursor stays where it is. A second call does nothing."""
        self._closes += 1
        ear, self._ear = self._ear, None
        self._lanes.clear()
        if ear is not None:
            ear.tell(frozenset())

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
