"""The ledger as the rest of the program knows it: open, write, claim, look up, close.

In: records. Out: rows that survive a kill once `write` has returned, and values read back. Invariant: what one `write`
is given is committed whole or fails whole, and alone. SQLAlchemy is loaded when a ledger is opened, not before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from pricing.prices import PriceSet
from router.ledger.records import Answer, AttemptRow, RunStarted

if TYPE_CHECKING:
    import sqlalchemy as sa

    from router.ledger.leases import ClaimResult
    from router.ledger.reader import Reader
    from router.ledger.rows import Record


class Ledger:
    """An open ledger. It may be used from any thread and any event loop of the process that opened it.

    Args:
        engine: of a database at the current revision; `open_ledger` makes one.
    """

    def __init__(self, engine: sa.Engine) -> None:
        from router.ledger.database import for_writing, shown
        from router.ledger.reader import Reader
        from router.ledger.writer import Writer

        self._engine = engine
        self._writer = Writer(for_writing(engine))
        self._reader = Reader(engine)
        self._name = shown(engine.url)
        self._price_sets: set[str] = set()  # ids known to be on record: they are immutable, so once is enough

    def __repr__(self) -> str:
        return f"Ledger({self._name})"

    @property
    def name(self) -> str:
        """The database's file, or its URL without a password."""
        return self._name

    @property
    def reader(self) -> Reader:
        """Everything that reports read; its calls block, so an event loop calls them in a thread."""
        return self._reader

    async def write(self, *records: Record) -> None:
        """Write records in one transaction; return after its COMMIT.

        Many callers share a commit, so a thousand writes at once cost a few. Rows that are there already are left as
        they are for `PriceSet`, `FxRate`, `Import`, `ImportedAttempt`, `StepRow` and `Answer`. Cancelling the caller
        does not take the records back.

        Args:
            records: any of `router.ledger.Record`.

        Raises:
            LedgerError: nothing of it was written: a record is wrong (a second completion of an attempt, an unknown
                run …), or the database cannot be written.
        """
        from router.ledger.rows import rows_of

        new = [each for each in records if not (isinstance(each, PriceSet) and each.id in self._price_sets)]
        await self._writer.submit_async(rows_of(new))
        self._price_sets.update(each.id for each in new if isinstance(each, PriceSet))

    def write_now(self, *records: Record) -> int:
        """Write records in a transaction of their own; return how many rows were added or changed. For threads.

        Args:
            records: any of `router.ledger.Record`.

        Raises:
            LedgerError: nothing of it was written.
        """
        from router.ledger.rows import rows_of
        from router.ledger.statements import execute_rows

        rows = rows_of(records)
        return int(self._writer.submit(job=lambda connection: execute_rows(connection, rows)).result())

    async def claim_run(self, run: RunStarted, dead_owner: str | None = None) -> ClaimResult:
        """Start a run, or learn what there is under its run key.

        Args:
            run: with its owner and lease; without a run key it is simply inserted.
            dead_owner: an owner that is known to be gone, whose lease counts as over; None: none is.

        Raises:
            WrongUsage: its run key belongs to another task or configuration.
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import claim

        result: ClaimResult = await self._writer.submit_async(job=lambda connection: claim(connection, run, dead_owner))
        return result

    async def renew_lease(self, run_id: str, owner: str, lease_until_us: int) -> bool:
        """Prolong the lease of a run; False: it has ended or was taken over, and its owner must stop.

        Args:
            run_id: the run.
            owner: who holds it.
            lease_until_us: until when, microseconds since 1970 UTC.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import renew

        renewed = await self._writer.submit_async(job=lambda conn: renew(conn, run_id, owner, lease_until_us))
        return bool(renewed)

    async def find_answer(self, call_key: str) -> Answer | None:
        """Return the answer kept under a call key (`run:<run_id>` for a run's final one), or None."""
        return await asyncio.to_thread(self._reader.answer, call_key)

    async def last_number(self, call_key: str) -> int:
        """Return the number of a call's last attempt, 0 for none; a resumed call goes on from it."""
        return await asyncio.to_thread(self._reader.last_number, call_key)

    async def in_flight(self, run_id: str) -> tuple[AttemptRow, ...]:
        """Return a run's attempts that were started and never completed: after a kill, possibly billed."""
        return await asyncio.to_thread(self._reader.in_flight, run_id)

    async def prune(self, now_us: int) -> int:
        """Delete answers whose time is over, unless their run is going on; return how many.

        Args:
            now_us: the instant, microseconds since 1970 UTC.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import prune_answers

        return int(await self._writer.submit_async(job=lambda connection: prune_answers(connection, now_us)))

    def close(self) -> None:
        """Write what is queued and close the database; a second call does nothing. An exit without it does the same."""
        self._writer.close()
        self._engine.dispose()

    async def aclose(self) -> None:
        """Close without blocking the event loop; see `close`."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
