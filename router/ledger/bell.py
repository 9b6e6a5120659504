"""Wakes those who wait for a message: at once within a process, and soon where another one has published it.

In: topics that somebody waits for. Out: their ears are told which of them have something new. Invariant: an ear that is
there before a look into the database is told of all that is committed after that look; it may be told too often. A
look costs nothing while nobody waits.

PostgreSQL tells of other processes by NOTIFY. SQLite cannot, so one thread asks a file's `PRAGMA data_version` every
`LOOK_S` while somebody waits: it changes with every commit of another connection and is read from shared memory
(https://www.sqlite.org/pragma.html#pragma_data_version).
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa

from router.ledger.database import id_batches
from router.ledger.message_records import MessagePublished
from router.ledger.message_write import CHANNEL

LOOK_S: Final = 0.02
"""Between two looks at a SQLite file, seconds: the longest that a message of another process is not noticed."""
_HEAR_S: Final = 0.5
"""Longest single wait for a notice of PostgreSQL, seconds: how soon the thread ends once nobody is there."""
_IDLE_S: Final = 30.0
"""Longest single wait while nobody waits, seconds: how soon the thread of a file ends once nobody is there."""
_AGAIN_S: Final = 1.0
"""Until a lost connection is tried again, seconds."""
_CLOSE_TIMEOUT_S: Final = 5.0


class Ear:
    """Waits, on one event loop, for news of some topics. `Bell.listen` makes it; it counts as long as it is held.

    Args:
        bell: who tells it.
        topics: what it waits for.
    """

    def __init__(self, bell: Bell, topics: Iterable[str]) -> None:
        self.topics: Final = frozenset(topics)
        self.urgent: set[str] = set()
        """Topics that may have something of a higher priority; whoever has looked takes them out."""
        self._bell = bell
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def clear(self) -> None:
        """Forget what was told: the database is about to be looked into."""
        self._news.clear()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for news since `clear`; return whether there are any.

        Args:
            timeout_s: longest wait, seconds; None: however long.
        """
        if self._news.is_set():
            return True
        with self._bell.somebody_waiting():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True

    def tell(self, urgent: frozenset[str]) -> None:
        """Tell of news, from any thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            self._hear(urgent)
            return
        with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._hear, urgent)

    def _hear(self, urgent: frozenset[str]) -> None:
        self.urgent |= urgent
        self._news.set()


class Bell:
    """Tells ears of what is committed, in this process or another.

    Args:
        engine: of the ledger.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._ears: weakref.WeakSet[Ear] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._waiting = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._seen: dict[str, int] = {}

    def listen(self, topics: Iterable[str]) -> Ear:
        """Return an ear for some topics, on the running event loop."""
        ear = Ear(self, topics)
        with self._changed:
            self._ears.add(ear)
            if self._thread is None and not self._closed:  # it ends with the last ear
                self._thread = threading.Thread(target=self._watch, name="router-ledger-bell", daemon=True)
                self._thread.start()
        return ear

    @contextlib.contextmanager
    def somebody_waiting(self) -> Any:
        """Have other processes watched within the block."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def ring_for(self, committed: Iterable[object]) -> None:
        """Tell of the messages among records that have just been committed."""
        news: dict[str, int] = {}
        for each in committed:
            if type(each) is MessagePublished:
                news[each.topic] = max(each.priority, news.get(each.topic, 0))
        if news:
            self.ring(news)

    def ring(self, news: Mapping[str, int]) -> None:
        """Tell of topics that have something new, from any thread.

        Args:
            news: the highest priority of what is new, by topic.
        """
        with self._changed:
            ears = list(self._ears)
        urgent = {topic for topic, priority in news.items() if priority}
        for ear in ears:
            if not ear.topics.isdisjoint(news):
                ear.tell(ear.topics & urgent)

    def close(self) -> None:
        """Stop watching; a second call does nothing."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_CLOSE_TIMEOUT_S)

    def _listened(self) -> list[str]:
        with self._changed:
            return sorted({topic for ear in self._ears for topic in ear.topics})

    def _watch(self) -> None:
        watch = self._watch_file if self._engine.dialect.name == "sqlite" else self._watch_server
        while self._is_needed():
            with contextlib.suppress(sa.exc.SQLAlchemyError, OSError, sqlite3.Error, *_driver_errors(self._engine)):
                watch()
            self._ring_all()  # what was committed while nobody listened
            if self._ears:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, _AGAIN_S)

    def _is_needed(self) -> bool:
        """Return whether there is anybody to tell; if not, the thread ends, and the next ear starts another."""
        with self._changed:
            if self._closed or not self._ears:
                self._thread = None
                return False
            return True

    def _ring_all(self) -> None:
        self.ring(dict.fromkeys(self._listened(), 1))

    def _watch_file(self) -> None:
        """Look whether the file has changed, while somebody waits."""
        raw = self._engine.raw_connection()
        try:
            driver: Any = raw.driver_connection
            known: object = None
            while self._is_wanted():
                (version,) = driver.execute("PRAGMA data_version").fetchone()
                if version != known:
                    known = version
                    self._ring_changed(driver)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, LOOK_S)
        finally:
            raw.close()

    def _is_wanted(self) -> bool:
        """Wait until somebody waits; return whether that is so, and not the end."""
        with self._changed:
            while not self._closed and self._ears and not self._waiting:
                self._changed.wait(_IDLE_S)
            return not self._closed and len(self._ears) > 0

    def _ring_changed(self, driver: sqlite3.Connection) -> None:
        found: dict[str, int] = {}
        for some in id_batches(self._listened()):
            places = ", ".join("?" * len(some))
            query = f"SELECT topic, last_seq FROM topics WHERE topic IN ({places})"  # noqa: S608 - of question marks
            found.update(driver.execute(query, list(some)))
        news = {topic: 1 for topic, last_seq in found.items() if self._seen.get(topic) != last_seq}
        self._seen = found  # of topics that nobody waits for any more nothing is kept
        if news:
            self.ring(news)

    def _watch_server(self) -> None:
        """Hear what the server tells."""
        raw = self._engine.raw_connection()
        driver: Any = raw.driver_connection
        raw.detach()  # it is no connection of the pool's any more
        try:
            driver.autocommit = True
            driver.execute(f"LISTEN {CHANNEL}")
            self._ring_all()
            while not self._closed and self._ears:
                for notice in driver.notifies(timeout=_HEAR_S):
                    priority, _, topic = notice.payload.partition(" ")
                    self.ring({topic: int(priority)})
        finally:
            driver.close()


def _driver_errors(engine: sa.Engine) -> tuple[type[Exception], ...]:
    error = getattr(engine.dialect.dbapi, "Error", None)
    return (error,) if error is not None else ()
