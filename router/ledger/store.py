"""The ledger as the rest of the program knows it: open, write, claim, look up, close.

In: records. Out: rows that survive a kill once `write` has returned, and values read back. Invariant: what one `write`
is given is committed whole or fails whole, and alone. SQLAlchemy is loaded when a ledger is opened, not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pricing.prices import PriceSet
from router.ledger.records import Answer, AttemptRow, RunStarted

if TYPE_CHECKING:
    import sqlalchemy as sa

    from router.ledger.bell import Bell
    from router.ledger.budget_records import BudgetRow, BudgetScope, CaseRow
    from router.ledger.leases import CancelKind, ClaimResult
    from router.ledger.message_read import MessageReader
    from router.ledger.prune import Pruned
    from router.ledger.reader import Reader
    from router.ledger.rows import Record
    from router.ledger.run_reader import RunReader
    from router.ledger.tool_calls import ToolCallRow
    from router.ledger.verify import Progress, Verification

T = TypeVar("T")


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
        self._bell: Bell | None = None
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

    @cached_property
    def run_reader(self) -> RunReader:
        """What is read of single runs; its calls block, as those of `reader` do."""
        from router.ledger.run_reader import RunReader

        return RunReader(self._engine)

    @cached_property
    def messages(self) -> MessageReader:
        """What is read of messages and state between agents; its calls block, as those of `reader` do."""
        from router.ledger.message_read import MessageReader

        return MessageReader(self._engine)

    @property
    def bell(self) -> Bell:
        """Wakes those who wait for messages."""
        if self._bell is None:
            from router.ledger.bell import Bell

            self._bell = Bell(self._engine)
        return self._bell

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
        if self._bell is not None:
            self._bell.ring_for(new)
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

    def insert_attempts(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Write many imported attempts in a transaction of their own; return how many were new. For threads.

        Args:
            columns: names of columns of `attempts`; others are NULL.
            rows: see `router.ledger.bulk_insert.insert_attempts`; they are read in the writing thread.

        Raises:
            LedgerError: nothing of it was written.
        """
        from router.ledger.bulk_insert import insert_attempts

        return int(self._writer.submit(job=lambda connection: insert_attempts(connection, columns, rows)).result())

    def transact(self, job: Callable[[sa.Connection], T]) -> T:
        """Run a job of many statements in a transaction of its own, and return what it returns. For threads.

        Args:
            job: called in the writing thread; where it raises, nothing of it stays. Others wait meanwhile.

        Raises:
            LedgerError: the database cannot be written. What else the job raises of `RouterError` comes as it is.
        """
        return self.begin(job).result()

    def begin(self, job: Callable[[sa.Connection], T]) -> Future[T]:
        """Queue a job as for `transact`, and return its future. For threads."""
        return self._writer.submit(job=job)

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

    async def take_run(
        self, run_id: str, owner: str, now_us: int, lease_until_us: int, dead_owner: str | None = None
    ) -> ClaimResult | None:
        """Take over a run by its id where nobody works on it; see `router.ledger.leases.take`. None: there is none.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import take

        result: ClaimResult | None = await self._writer.submit_async(
            job=lambda connection: take(connection, run_id, owner, now_us, lease_until_us, dead_owner)
        )
        return result

    async def renew_leases(self, run_ids: Sequence[str], owner: str, lease_until_us: int) -> frozenset[str]:
        """Prolong the leases of runs; return those that are still the owner's: it must stop what it does for others.

        Args:
            run_ids: the runs.
            owner: who holds them.
            lease_until_us: until when, microseconds since 1970 UTC.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import renew

        renewed: frozenset[str] = await self._writer.submit_async(
            job=lambda connection: renew(connection, run_ids, owner, lease_until_us)
        )
        return renewed

    def cancel_run(self, run_id: str, now_us: int, dead_owner: str | None = None) -> CancelKind:
        """Ask a run's owner to stop, or end the run where its owner is gone; see `router.ledger.leases.cancel`.

        For threads.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import cancel

        kind: CancelKind = self._writer.submit(
            job=lambda connection: cancel(connection, run_id, now_us, dead_owner)
        ).result()
        return kind

    async def find_answer(self, call_key: str) -> Answer | None:
        """Return the answer kept under a call key (`run:<run_id>` for a run's final one), or None."""
        return await asyncio.to_thread(self._reader.answer, call_key)

    async def last_number(self, call_key: str) -> int:
        """Return the number of a call's last attempt, 0 for none; a resumed call goes on from it."""
        return await asyncio.to_thread(self._reader.last_number, call_key)

    async def tool_calls(self, run_id: str) -> tuple[ToolCallRow, ...]:
        """Return a run's tool calls, oldest first; one without an end was under way when its process died."""
        return await asyncio.to_thread(self._reader.tool_calls, run_id)

    async def in_flight(self, run_id: str) -> tuple[AttemptRow, ...]:
        """Return a run's attempts that were started and never completed: after a kill, possibly billed."""
        return await asyncio.to_thread(self._reader.in_flight, run_id)

    def refresh(self) -> int:
        """Bring the sums that reports read up to date; return how many quarter hours had changed. For threads.

        A reader does this by itself, for the span it is asked for.

        Raises:
            LedgerError: the database cannot be read or written.
        """
        from router.ledger.rollups import refresh

        return refresh(self._engine)

    def rebuild(self) -> int:
        """Add up every record again, and return how many quarter hours that were; see `router.ledger.rollups.rebuild`.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.rollups import rebuild

        return rebuild(self._engine)

    def verify(self, start_us: int, end_us: int, progress: Progress | None = None) -> Verification:
        """Return what a check of a span finds; see `router.ledger.verify.verify`."""
        from router.ledger.verify import verify

        return verify(self._engine, start_us, end_us, progress)

    def count_attempts(self, before_us: int) -> int:
        """Return how many attempts started before an instant, microseconds since 1970 UTC."""
        return self._reader.count_attempts(before_us)

    def prune_rows(self, before_us: int, now_us: int, progress: Progress | None = None) -> Pruned:
        """Delete the attempts and runs of days before one, and keep their sums; see `router.ledger.prune.prune`.

        Args:
            before_us: midnight UTC of the first day that stays, microseconds since 1970.
            now_us: the instant, alike.
            progress: called with days done and days in all.

        Raises:
            WrongUsage: the day is today, yesterday or later.
            LedgerError: the database cannot be written.
        """
        from router.ledger.prune import prune
        from router.ledger.rows import DAY_US

        return prune(self._engine, before_us // DAY_US, now_us, progress)

    async def prune(self, now_us: int) -> int:
        """Delete the answers and tasks of runs that ended long enough ago; return how many answers.

        Args:
            now_us: the instant, microseconds since 1970 UTC.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.leases import prune_answers

        return int(await self._writer.submit_async(job=lambda connection: prune_answers(connection, now_us)))

    def set_budget(self, budget: BudgetRow) -> bool:
        """Set a monthly budget in the place of the one of its scope and name; return whether there was one.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.budgets import set_budget

        return bool(self._writer.submit(job=lambda connection: set_budget(connection, budget)).result())

    def remove_budget(self, scope: BudgetScope, name: str) -> bool:
        """Remove a monthly budget; return whether there was one.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.budgets import remove_budget

        return bool(self._writer.submit(job=lambda connection: remove_budget(connection, scope, name)).result())

    def count_budget(
        self, budget: BudgetRow, month: tuple[int, int], convert: Callable[[Decimal, str], Decimal]
    ) -> None:
        """Begin the count of a budget's month with what is on record, unless it has begun. For threads.

        Args:
            budget: the budget.
            month: its start and end, microseconds since 1970 UTC, half-open.
            convert: turns an amount of another currency into the budget's.

        Raises:
            FxError: `convert` cannot.
            LedgerError: the database cannot be read or written.
        """
        from router.ledger.budget_use import count_use

        self._writer.submit(job=lambda connection: count_use(connection, budget, month, convert)).result()

    def freeze_case(self, case: CaseRow) -> bool:
        """Put a business case on record for good; return whether it is new. One of the same name stays as it is.

        Raises:
            LedgerError: the database cannot be written.
        """
        from router.ledger.cases import freeze_case

        return bool(self._writer.submit(job=lambda connection: freeze_case(connection, case)).result())

    def close(self) -> None:
        """Write what is queued and close the database; a second call does nothing. An exit without it does the same."""
        self._writer.close()
        if self._bell is not None:
            self._bell.close()
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
