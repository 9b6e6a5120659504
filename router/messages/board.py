"""The board: topics that agents publish on and subscribe to, and the state that they share.

In: what agents say. Out: messages, in one order for all. Invariant: what `publish` returns is on record; of one topic
everybody sees the same messages in the same order, which is that of their commits. Nothing here needs an endpoint, a
key or a model.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from router.errors import MessageTimeout, WrongUsage
from router.ledger import Ledger, default_url, new_id, open_ledger
from router.ledger.message_prune import PrunedMessages, prune_messages
from router.ledger.records import ANSWER_KEPT_US
from router.messages.message import Draft, Message, Where, message_of, published, record_of
from router.messages.names import check_count, check_wait, checked_name, run_of
from router.messages.state import State
from router.messages.subscription import Begin, Subscription

MOST_AT_ONCE = 10_000
"""Messages of one `publish_many`: they are one transaction, and others wait meanwhile."""


class Board:
    """Messages and state between agents, on the ledger's database. It belongs to one event loop.

        async with Board() as board:
            await board.publish("findings", {"page": 3}, sender="reader")

    Args:
        ledger: an open ledger, which stays open when the board is closed; or a database URL; None: the database that
            is set, or the user's own.

    Raises:
        ConfigError: the settings are wrong.
    """

    def __init__(self, ledger: Ledger | str | None = None) -> None:
        self._given = ledger
        self._ledger: Ledger | None = ledger if isinstance(ledger, Ledger) else None

    def __repr__(self) -> str:
        return f"Board({self._ledger or self._given or 'not open'})"

    @property
    def ledger(self) -> Ledger:
        """The ledger.

        Raises:
            WrongUsage: the board is not open.
        """
        if self._ledger is None:
            raise WrongUsage("board: it is not open", hint="async with Board() as board: …, or await router.board()")
        return self._ledger

    @property
    def state(self) -> State:
        """The state that all agents share; `state.of(namespace)` is that of one agent or run."""
        return State(self.ledger)

    async def publish(
        self,
        topic: str,
        body: Any,
        *,
        sender: str | None = None,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
        reply_to: str | None = None,
        key: str | None = None,
    ) -> Message:
        """Publish a message, and return it once it is on record. A topic is made with its first message.

        Args:
            topic: 1 to 200 characters that can be printed. `run/RUN…` is a run's: it goes with the run's answers.
            body: any JSON value, at most 256 KiB of it.
            sender: who says so.
            headers: up to 20 labels that subscribers choose by.
            priority: 0 to 9; higher ones overtake what waits.
            reply_to: topic that replies are expected on.
            key: a second message of the same key is not written; the first one is returned.

        Raises:
            WrongUsage: something of it is not allowed.
            LedgerError: the database cannot be written; nothing was.
        """
        (message,) = await self.publish_many([Draft(topic, body, sender, headers, priority, reply_to, key)])
        return message

    async def publish_many(self, drafts: Iterable[Draft]) -> tuple[Message, ...]:
        """Publish messages in one transaction, all or none, in their order; return them once they are on record.

        Args:
            drafts: at most 10,000, of any topics.

        Raises:
            WrongUsage: something of one is not allowed, or they are too many; nothing was written.
            LedgerError: the database cannot be written; nothing was.
        """
        now_us = _now_us()
        records = [record_of(draft, new_id(), now_us, now_us + ANSWER_KEPT_US) for draft in drafts]
        if len(records) > MOST_AT_ONCE:
            raise WrongUsage(f"publish: {len(records):,} messages at once; at most {MOST_AT_ONCE:,} are allowed")
        await self.ledger.write(*records)
        messages = [published(record) for record in records]
        for at, record in enumerate(records):
            if not record.placed.is_new and (known := await self._of_key(record.topic, record.key or "")) is not None:
                messages[at] = known
        return tuple(messages)

    async def _of_key(self, topic: str, key: str) -> Message | None:
        row = await asyncio.to_thread(self.ledger.messages.of_key, topic, key)
        return None if row is None else message_of(row)

    def subscribe(
        self,
        topics: str | Sequence[str],
        subscriber: str | None = None,
        *,
        where: Where | None = None,
        from_start: bool = True,
        after_seq: int | None = None,
    ) -> Subscription:
        """Return the messages of a topic, or of several in turn, for a subscriber; see `Subscription`.

        Args:
            topics: one that does not exist yet is waited for.
            subscriber: whose cursor remembers what was acknowledged, across processes; None: nothing is remembered.
            where: what headers must be, name to value or values; other messages are passed over.
            from_start: where a new subscriber begins: with the first message that is there, or with the next.
            after_seq: the number after which to begin, without a subscriber; None: as `from_start` says.

        Raises:
            WrongUsage: a name is not allowed, there is no topic, or a subscriber begins where its cursor is not.
        """
        if not isinstance(topics, str | Iterable):
            raise WrongUsage(f"subscribe: topics of type {type(topics).__name__} are not allowed; names are")
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise WrongUsage("subscribe: no topic was given", hint='board.subscribe("findings", "writer")')
        for name in names:
            run_of("topic", checked_name("topic", name))
        if after_seq is not None:
            check_count("subscribe: after_seq", after_seq, 0)
        if where is not None and not isinstance(where, Mapping):
            raise WrongUsage(f"subscribe: where of type {type(where).__name__} is not allowed; a mapping of headers is")
        if subscriber is not None:
            checked_name("subscriber", subscriber)
            if after_seq is not None:
                message = f"subscriber {subscriber!r}: after_seq is not allowed: it begins where its cursor is"
                raise WrongUsage(message, hint="leave one of them out")
        begins = Begin(from_start, after_seq, _now_us() + ANSWER_KEPT_US)
        return Subscription(self.ledger, names, subscriber, where, begins)

    async def require_topic(self, topic: str) -> None:
        """Refuse a topic on which nothing was ever published, and that nobody has subscribed to.

        Raises:
            WrongUsage: there is none; topics like it are named.
            LedgerError: the database cannot be read.
        """
        if topic not in await asyncio.to_thread(self.ledger.messages.last_seqs, [topic]):
            raise unknown_topic(topic, await asyncio.to_thread(self.ledger.messages.topic_names))

    async def gather(
        self, topic: str, count: int, timeout_s: float | None = None, *, where: Where | None = None
    ) -> tuple[Message, ...]:
        """Return the first messages of a topic that fit, in their order, once there are so many: a fan-in.

        Args:
            topic: which.
            count: how many, at least 1.
            timeout_s: longest wait, seconds; None: however long.
            where: as for `subscribe`.

        Raises:
            MessageTimeout: there were fewer when the time was over.
            WrongUsage: a name or the count is not allowed.
            LedgerError: the database cannot be read.
        """
        check_count("gather: count", count, 1)
        check_wait("gather", timeout_s)
        loop = asyncio.get_running_loop()
        until_s = None if timeout_s is None else loop.time() + timeout_s
        found: list[Message] = []
        async with self.subscribe(topic, where=where) as subscription:
            while len(found) < count:
                left_s = None if until_s is None else max(0.0, until_s - loop.time())
                some = await subscription.take(count - len(found), left_s)
                if not some:
                    message = f"topic {topic!r}: {len(found)} of {count} messages within {timeout_s:g} s"
                    raise MessageTimeout(message, hint="wait longer, or see who has not spoken: router topics show")
                found += some
        return tuple(sorted(found, key=lambda each: each.seq))

    async def ask(self, topic: str, body: Any, *, timeout_s: float, **options: Any) -> Message:
        """Publish a message and return the reply to it, which `reply` has published.

        Args:
            topic: where somebody listens who replies.
            body: as for `publish`.
            timeout_s: longest wait for the reply, seconds.
            options: of `publish`; `reply_to` is `TOPIC/replies` unless given. With a `key`, asking again after a
                crash asks nobody twice, and finds the reply that has come meanwhile.

        Raises:
            MessageTimeout: no reply came in time; the message stays on record.
            WrongUsage, LedgerError: as for `publish`.
        """
        draft = Draft(topic, body, **options)
        if draft.reply_to is None:
            draft = replace(draft, reply_to=f"{topic}/replies")
        reply_to = checked_name("reply_to", draft.reply_to or "")
        check_wait("ask", timeout_s)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        ear = self.ledger.bell.listen([reply_to])
        (message,) = await self.publish_many([draft])
        while True:
            ear.clear()
            if (reply := await self._of_key(reply_to, _reply_key(message))) is not None:
                return reply
            left_s = until_s - loop.time()
            if left_s <= 0 or not await ear.wait(left_s):
                text = f"topic {topic!r}: no reply to message {message.seq} within {timeout_s:g} s"
                raise MessageTimeout(text, hint=f"is there a subscriber of {topic!r} that replies on {reply_to!r}?")

    async def reply(self, message: Message, body: Any, **options: Any) -> Message:
        """Reply to a message, on the topic it names; of several replies, the first one counts and is returned.

        Args:
            message: one with a `reply_to`.
            body: as for `publish`.
            options: `sender`, `headers` and `priority` of `publish`.

        Raises:
            WrongUsage: the message does not ask for a reply.
            LedgerError: the database cannot be written.
        """
        if message.reply_to is None:
            text = f"topic {message.topic!r}: message {message.seq} asks for no reply: it has no reply_to"
            raise WrongUsage(text, hint="board.ask publishes one that does")
        return await self.publish(message.reply_to, body, key=_reply_key(message), **options)

    async def prune(self, before: datetime, topic: str | None = None) -> PrunedMessages:
        """Delete messages that were published before an instant; topics of runs go with their runs.

        Args:
            before: an aware instant.
            topic: only of this one; None: of all.

        Raises:
            WrongUsage: the instant has no time zone.
            LedgerError: the database cannot be written.
        """
        if before.tzinfo is None:
            raise WrongUsage(f"before: {before.isoformat()} has no time zone", hint="datetime.now(UTC) has one")
        from router.ledger.reader import instant_us

        before_us = instant_us(before)
        pruning = self.ledger.begin(lambda connection: prune_messages(connection, before_us, topic))
        return await asyncio.wrap_future(pruning)

    async def open(self) -> Self:
        """Open the ledger, unless an open one was given, and return the board.

        Raises:
            LedgerError: the database cannot be opened.
        """
        if self._ledger is None:
            given = self._given
            self._ledger = given if isinstance(given, Ledger) else await asyncio.to_thread(_opened, given)
        return self

    async def aclose(self) -> None:
        """Close the ledger, if the board has opened it; a second call does nothing."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None and ledger is not self._given:
            await ledger.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # at the interpreter's exit no thread can be had any more
            await self.aclose()


def _opened(url: str | None) -> Ledger:
    if url is None:
        from router.settings_file import load_settings

        url = default_url(load_settings())
    return open_ledger(url)


def _now_us() -> int:
    return time.time_ns() // 1000


def _reply_key(message: Message) -> str:
    return f"reply {message.id}"


def unknown_topic(topic: str, names: Sequence[str]) -> WrongUsage:
    """Return the error for a topic that is not there, with those it may have meant.

    Args:
        topic: what was asked for.
        names: what there is, those of runs left out.
    """
    near = difflib.get_close_matches(topic, names, n=3, cutoff=0.5)
    shown = f"; did you mean {', '.join(near)}?" if near else ""
    return WrongUsage(f"topic: {topic[:80]!r} does not exist{shown}", hint="router topics list shows those that do")
