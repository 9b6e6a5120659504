"""A transaction that is written while the file is still being read.

In: pieces, from the thread that reads. Out: rows, written by the ledger's own thread; what became of them. Invariant:
all pieces of a feed are committed together or none is; whoever reads is stopped by what fails there, and the other way
round. SQLite works on a statement without keeping Python from running, so reading and writing take two cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Full, Queue
from threading import Event
from typing import TYPE_CHECKING

from router.errors import LedgerError, RouterError
from router.ledger.database import is_locked
from router.ledger.importers.sink import Piece, Sink
from router.ledger.store import Ledger

if TYPE_CHECKING:
    import sqlalchemy as sa

_PIECES = 2  # that wait to be written: they bound the memory
_SAID_AFTER_S = 2.0
_LONGEST_WAIT_S = 3_600.0
_LOOK_S = 0.2


class Feed:
    """One transaction of an import.

    Args:
        ledger: where rows go.
        sink: writes pieces.
        on_wait: told once where another process keeps the ledger locked; the feed waits for it, up to an hour.
    """

    def __init__(self, ledger: Ledger, sink: Sink, on_wait: Callable[[], None] | None) -> None:
        self._ledger, self._sink, self._on_wait = ledger, sink, on_wait
        self._queue: Queue[Piece | None] = Queue(_PIECES)
        self._begun, self._stopped = Event(), Event()
        self._since = time.monotonic()
        self._done: Future[tuple[int, int]] = ledger.begin(self._write)

    def put(self, piece: Piece | None) -> None:
        """Hand over a piece, or None: it was the last one; wait while enough are waiting.

        Raises:
            LedgerError: the transaction failed; nothing of it stays.
        """
        while True:
            self._look()
            try:
                self._queue.put(piece, timeout=_LOOK_S)
            except Full:
                continue
            return

    def end(self) -> tuple[int, int]:
        """Return, after COMMIT, how many rows were new, and how many are there with other counts.

        Raises:
            LedgerError: the transaction failed; nothing of it stays.
        """
        self.put(None)
        while True:
            self._look()
            if wait((self._done,), _LOOK_S).done and self._done.exception() is None:
                return self._done.result()

    def stop(self) -> None:
        """Roll the transaction back, and return when that is done."""
        self._stopped.set()
        with suppress(Full):  # then a piece is taken out before long, and it is seen
            self._queue.put_nowait(None)
        if self._begun.is_set():
            wait((self._done,))

    def _look(self) -> None:
        """Raise what the transaction failed with; begin again where it could not begin yet."""
        waited_s = time.monotonic() - self._since
        if not self._begun.is_set() and waited_s > _SAID_AFTER_S and self._on_wait is not None:
            self._on_wait()
            self._on_wait = None
        if not self._done.done():
            return
        error = self._done.exception()
        if isinstance(error, LedgerError) and is_locked(error) and not self._begun.is_set():
            if waited_s > _LONGEST_WAIT_S:
                raise error
            self._done = self._ledger.begin(self._write)
        elif error is not None:
            raise error

    def _write(self, connection: sa.Connection) -> tuple[int, int]:
        self._begun.set()
        added = differing = 0
        self._sink.begin(connection)
        while True:
            piece = self._queue.get()
            if self._stopped.is_set():
                raise RouterError("import: stopped")
            if piece is None:
                return added, differing
            new, others = self._sink.write(connection, piece)
            added, differing = added + new, differing + others
