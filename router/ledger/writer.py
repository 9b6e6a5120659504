"""The only SQL writer: one thread that commits together whatever has queued up while it was committing.

In: rows, and small jobs that need a transaction of their own. Out: a future per unit of work, settled after COMMIT.
Invariant: a unit is committed whole or fails whole, alone; a settled future means that its rows survive a kill.
Cancelling the one who waits does not take the rows back.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any

import sqlalchemy as sa

from pricing.quick import quick
from router.errors import LedgerError, RouterError
from router.ledger.database import BEGIN_WRITING, as_ledger_error, is_of_database, is_passing
from router.ledger.rows import Row
from router.ledger.statements import execute_rows, is_plain

_TRIES = 5  # of a transaction that met another one's locks
_MOST_UNITS = 1000  # in one transaction: bounds how long the first of them waits
_GATHER_S = 0.001
"""Least time from one transaction to the next while several write at once, seconds: a commit costs the same for one row
as for a hundred. After PostgreSQL's commit_delay and commit_siblings."""
_ALONE = 16  # so many transactions of one unit each, one after another, come from one who waits for each
_CLOSE_TIMEOUT_S = 60.0  # twice the database's busy time-out: an exit never hangs on a lock

Job = Callable[[sa.Connection], Any]


@quick
@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """Rows or a job, and who waits for it: a future of `loop`, or of threads where `loop` is None."""

    rows: Sequence[Row]
    job: Job | None
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | Future[Any]


_Outcome = tuple[_Unit, Any, BaseException | None]


class Writer:
    """Owns the writing thread of one engine; it starts with the first unit and stops with `close` or the process.

    Args:
        engine: its transactions take the write lock when they begin (`router.ledger.database.for_writing`).
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        # A file is not lost as a server is: its connection is held from one transaction to the next.
        self._keeps = engine.dialect.name == "sqlite"
        self._connection: sa.Connection | None = None
        self._queue: SimpleQueue[_Unit | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pid = os.getpid()
        self._ended_s, self._singles = 0.0, _ALONE  # when the last transaction ended; how many had one unit only

    def submit(self, rows: Sequence[Row] = (), job: Job | None = None) -> Future[Any]:
        """Queue a unit of work and return its future, for threads.

        Args:
            rows: written in one transaction, with others; or
            job: called with a connection, in a transaction of its own.

        Raises:
            LedgerError: the writer is closed, or belongs to another process.
        """
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._put(_Unit(rows, job, None, future))
        return future

    def submit_async(self, rows: Sequence[Row] = (), job: Job | None = None) -> asyncio.Future[Any]:
        """Queue a unit of work and return its future, for the running event loop; see `submit`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Unit(rows, job, loop, future))
        return future

    def close(self) -> None:
        """Write what is queued, then stop; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        atexit.unregister(self.close)
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _put(self, unit: _Unit) -> None:
        with self._lock:
            if self._closed:
                raise LedgerError("ledger: it is closed, nothing can be written any more")
            if self._pid != os.getpid():
                raise LedgerError(f"ledger: it was opened by process {self._pid}", hint="open it again after a fork")
            if self._thread is None:
                # A daemon, so that an exit does not wait for it; the exit hook flushes and stops it.
                self._thread = threading.Thread(target=self._run, name="router-ledger-writer", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._queue.put(unit)

    def _run(self) -> None:
        last = False
        while not last:
            units, last = self._drained()
            outcomes = self._outcomes(units)
            # Looked at before anyone is told: whoever writes alone would have his next row here at once.
            self._singles = self._singles + 1 if len(units) < 2 and self._queue.empty() else 0
            self._ended_s = time.monotonic()
            _settle(outcomes)
        self._disconnect()

    def _drained(self) -> tuple[list[_Unit], bool]:
        """Wait for a unit, then take what else is there; whether the end of the queue was among it."""
        units: list[_Unit] = []
        unit = self._queue.get()
        if self._singles < _ALONE and (wait_s := self._ended_s + _GATHER_S - time.monotonic()) > 0:
            time.sleep(wait_s)
        while unit is not None:
            units.append(unit)
            if len(units) == _MOST_UNITS:
                return units, False
            try:
                unit = self._queue.get_nowait()
            except Empty:
                return units, False
        return units, True

    def _outcomes(self, units: list[_Unit]) -> list[_Outcome]:
        found: list[_Outcome] = []
        for is_job, group in groupby(units, key=lambda unit: unit.job is not None):
            together = list(group)
            if is_job or len(together) == 1:
                found.extend(self._alone(unit) for unit in together)
            else:
                found.extend(self._together(together))
        return found

    def _together(self, units: list[_Unit]) -> list[_Outcome]:
        try:
            rows = [row for unit in units for row in unit.rows]
            self._transact(lambda connection: execute_rows(connection, rows), _TRIES, is_plain=is_plain(rows))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            if is_of_database(error):
                failure = as_ledger_error(error, self._engine, "write")
                return [(unit, None, failure) for unit in units]
            return [self._alone(unit) for unit in units]
        return [(unit, None, None) for unit in units]

    def _alone(self, unit: _Unit) -> _Outcome:
        try:
            if unit.job is not None:
                return unit, self._transact(unit.job, 1), None
            job: Job = lambda connection: execute_rows(connection, unit.rows)  # noqa: E731 - it is used once
            return unit, self._transact(job, _TRIES, is_plain=is_plain(unit.rows)), None
        except RouterError as error:
            return unit, None, error
        except Exception as error:  # noqa: BLE001 - as above
            return unit, None, as_ledger_error(error, self._engine, "write")

    def _transact(self, job: Job, tries: int, *, is_plain: bool = False) -> Any:
        """Run a job in a transaction; rows are tried again where the database ended it for another one's sake.

        Args:
            job: called with the connection.
            tries: how often it may be run.
            is_plain: whether it uses nothing but the driver's own cursor.
        """
        while True:
            try:
                connection = self._connected()
                result = (_directly if is_plain and self._keeps else _begun)(connection, job)
            except BaseException as error:
                self._disconnect()
                tries -= 1
                if not tries or not is_passing(error):
                    raise
            else:
                if not self._keeps:
                    self._disconnect()
                return result

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _begun(connection: sa.Connection, job: Job) -> Any:
    """Run a job in a transaction of SQLAlchemy's; where it fails, that is what is raised, and not how it is undone."""
    transaction = connection.begin()
    try:
        result = job(connection)
        transaction.commit()
    except BaseException:
        with contextlib.suppress(sa.exc.SQLAlchemyError):  # of a lost connection; it is known for lost from then on
            transaction.rollback()
        raise
    return result


def _directly(connection: sa.Connection, job: Job) -> Any:
    """Run a job in a transaction of SQLite's that SQLAlchemy does not see: it would take three times as long."""
    driver: Any = connection.connection.driver_connection
    driver.execute(BEGIN_WRITING)
    try:
        result = job(connection)
        driver.execute("COMMIT")
    except BaseException:
        driver.rollback()
        raise
    return result


def _settle(outcomes: Sequence[_Outcome]) -> None:
    """Tell everyone who waits; those of one event loop with a single wake-up."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        loop = outcome[0].loop
        if loop is None:
            _settle_each([outcome])
        else:
            by_loop.setdefault(loop, []).append(outcome)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_each, group)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _settle_each(outcomes: Sequence[_Outcome]) -> None:
    for unit, result, error in outcomes:
        if unit.future.done():
            continue  # cancelled by the one who waited
        if error is None:
            unit.future.set_result(result)
        else:
            unit.future.set_exception(error)
