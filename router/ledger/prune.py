"""Deletes raw rows that are old, and keeps what they add up to.

In: a UTC day. Out: fewer rows of `attempts`, `runs` and what hangs on them. Invariant: every sum that reports read is
the same before and after, to the last digit. The sums of deleted rows become rows with the prune's id, which nothing
ever changes; a run goes with all its attempts or stays with all of them, so that its cost stays its cost. Usage that
others added up stays (it is small); imports of older days are refused from then on, since they could count twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sa

from router.errors import WrongUsage
from router.ledger import histograms
from router.ledger.database import database_errors, for_writing
from router.ledger.message_prune import delete_of_runs
from router.ledger.rollup_scan import Scanned, scan
from router.ledger.rollup_tables import attempts_rollup, dearest_runs, prunes, runs_rollup
from router.ledger.rollup_write import DayWriter, Keys, insert_rows
from router.ledger.rollups import DAY, lock, refresh, refresh_day
from router.ledger.rows import DAY_US, QUARTER_HOUR_US
from router.ledger.sums import SUM_NAMES
from router.ledger.tables import (
    answers,
    attempt_terms,
    attempts,
    outcomes,
    plan_steps,
    run_requests,
    runs,
    tool_calls,
)
from router.ledger.verify_rollups import days_with_rows

KEPT_DAYS = 2
"""Rows of today and of the day before, UTC, are never deleted: their calls may still be on the wire."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted.

    Args:
        before_day: rows of UTC days before it were, days since 1970.
        attempts: attempts deleted.
        runs: runs deleted, with their plans and answers.
        runs_kept: runs that started before it and stay with all their attempts: they had not ended by then.
    """

    before_day: int
    attempts: int
    runs: int
    runs_kept: int


def prune(
    engine: sa.Engine, before_day: int, now_us: int, progress: Callable[[int, int], None] | None = None
) -> Pruned:
    """Delete the attempts, runs, plans and answers of days before one; sums stay as they are.

    Each day is a transaction of its own: what was done before a kill stays done, and the next call does the rest.

    Args:
        engine: of a ledger at the current revision.
        before_day: the first UTC day whose rows stay, days since 1970.
        now_us: the instant, microseconds since 1970 UTC.
        progress: called with days done and days in all.

    Raises:
        WrongUsage: the day is not `KEPT_DAYS` - 1 days ago or earlier.
        LedgerError: the database cannot be written.
    """
    if before_day > now_us // DAY_US - KEPT_DAYS + 1:
        message = "before: rows of today and yesterday (UTC) are never deleted; an earlier day is allowed"
        raise WrongUsage(message, hint="calls of these days may still be on the wire")
    refresh(engine, None, before_day * DAY)
    with database_errors(engine, "prune"):
        with for_writing(engine).begin() as connection:
            lock(connection)
            days = days_with_rows(connection, 0, before_day * DAY)
            prune_id = 1 + (connection.execute(sa.select(sa.func.max(prunes.c.prune_id))).scalar() or 0)
            row = {"prune_id": prune_id, "before_day": before_day, "pruned_us": now_us, "attempts": 0, "runs": 0}
            connection.execute(sa.insert(prunes), row)
        attempts_deleted = runs_deleted = 0
        for done, day in enumerate(days, 1):
            with for_writing(engine).begin() as connection:
                lock(connection)
                _hold_writers(connection)
                deleted = _Day(connection, day, before_day, prune_id).delete()
                count = {"attempts": prunes.c.attempts + deleted[0], "runs": prunes.c.runs + deleted[1]}
                connection.execute(sa.update(prunes).where(prunes.c.prune_id == prune_id).values(count))
            attempts_deleted, runs_deleted = attempts_deleted + deleted[0], runs_deleted + deleted[1]
            if progress is not None:
                progress(done, len(days))
        with engine.connect() as connection:
            left = sa.select(sa.func.count()).select_from(runs).where(runs.c.started_us < before_day * DAY_US)
            kept = int(connection.execute(left).scalar_one())
    return Pruned(before_day, attempts_deleted, runs_deleted, kept)


def _hold_writers(connection: sa.Connection) -> None:
    """Wait for transactions that write attempts, and let no other begin: a row between sum and deletion would be lost.

    On SQLite the transaction has the write lock.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"LOCK TABLE {attempts.name} IN SHARE ROW EXCLUSIVE MODE")


class _Day:
    """What goes with one UTC day: its runs that have ended, with all their attempts; and its attempts without a run."""

    def __init__(self, connection: sa.Connection, day: int, before_day: int, prune_id: int) -> None:
        self._connection, self._day, self._prune_id = connection, day, prune_id
        low_us, high_us = day * DAY_US, (day + 1) * DAY_US
        of_day = (runs.c.started_us >= low_us, runs.c.started_us < high_us)
        self._runs = sa.select(runs.c.run_id).where(*of_day, runs.c.ended_us < before_day * DAY_US)
        alone = (attempts.c.run_id.is_(None), attempts.c.started_us >= low_us, attempts.c.started_us < high_us)
        self._attempts = sa.or_(attempts.c.run_id.in_(self._runs), sa.and_(*alone))

    def delete(self) -> tuple[int, int]:
        """Delete them; return how many attempts and runs there were."""
        quarter_hours = self._quarter_hours()
        for day in quarter_hours:
            refresh_day(None, self._connection, day)
        before = {day: self._sums(some) for day, some in quarter_hours.items()}
        deleted = self._delete_rows()
        if any(deleted):
            for day, some in quarter_hours.items():
                self._freeze(day, some, *before[day])
        return deleted

    def _quarter_hours(self) -> dict[int, list[int]]:
        """Return the quarter hours that lose a row, by day: a run's attempts may be of the days after its start."""
        found = set(
            self._connection.execute(sa.select(attempts.c.quarter_hour).where(self._attempts).distinct()).scalars()
        )
        start = (runs.c.started_us - runs.c.started_us % QUARTER_HOUR_US).label("start")
        starts = self._connection.execute(sa.select(start).where(runs.c.run_id.in_(self._runs)).distinct()).scalars()
        found.update(each // QUARTER_HOUR_US for each in starts)
        return {day: list(some) for day, some in groupby(sorted(found), key=lambda each: each // DAY)}

    def _sums(self, quarter_hours: Sequence[int]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the live rows of quarter hours: of sums, of runs, and of the dearest."""
        found = []
        for table, width in ((attempts_rollup, True), (runs_rollup, True), (dearest_runs, False)):
            where = [table.c.quarter_hour.in_(quarter_hours), table.c.prune_id == 0]
            rows = self._connection.execute(sa.select(table).where(*where, *([table.c.width == 1] if width else [])))
            found.append(list(rows.mappings().all()))
        return found[0], found[1], found[2]

    def _delete_rows(self) -> tuple[int, int]:
        run = self._connection.execute
        gone = sa.select(attempts.c.attempt_id).where(self._attempts)
        run(sa.delete(attempt_terms).where(attempt_terms.c.attempt_id.in_(gone)))
        count = run(sa.delete(attempts).where(self._attempts)).rowcount
        for table in (answers, outcomes, tool_calls, run_requests, plan_steps):
            run(sa.delete(table).where(table.c.run_id.in_(self._runs)))
        delete_of_runs(self._connection, self._runs)
        return count, run(sa.delete(runs).where(runs.c.run_id.in_(self._runs.correlate(None)))).rowcount

    def _freeze(
        self, day: int, quarter_hours: Sequence[int], sums: list[Any], of_runs: list[Any], dearest: list[Any]
    ) -> None:
        """Keep what quarter hours have lost as rows of this prune, and write what is left of them anew."""
        left = scan(self._connection, quarter_hours)
        keys = Keys()
        writer = DayWriter(self._connection, day, quarter_hours, keys)
        insert_rows(self._connection, _lost(sums, writer.rows_of(left), self._prune_id))
        self._freeze_runs(of_runs, dearest, left)
        writer = DayWriter(self._connection, day, quarter_hours, keys)  # again: it now sees that there are rows to keep
        writer.write(left)
        writer.finish()

    def _freeze_runs(self, of_runs: list[Any], dearest: list[Any], left: Scanned) -> None:
        names = ("quarter_hour", "configuration", "task_class", "tenant", "tags_id", "status")
        counts: defaultdict[tuple[Any, ...], int] = defaultdict(int)
        for row in of_runs:
            counts[tuple(row[name] for name in names)] += row["runs"]
        for row in left.runs:
            counts[tuple(row[name] for name in names)] -= row["runs"]
        head = {"width": 1, "prune_id": self._prune_id}
        lost = [
            {**head, "day": key[0] // DAY, **dict(zip(names, key, strict=True)), "runs": count}
            for key, count in counts.items()
            if count
        ]
        if lost:
            self._connection.execute(sa.insert(runs_rollup), lost)
        staying = {row["run_id"] for row in left.dearest}
        gone = [{**row, "prune_id": self._prune_id} for row in dearest if row["run_id"] not in staying]
        if gone:
            self._connection.execute(sa.insert(dearest_runs), gone)


def _lost(before: list[Any], left: Sequence[Sequence[Any]], prune_id: int) -> list[Sequence[Any]]:
    """Return rows of `attempts_rollup` with what is there before and not in what is left."""
    remaining = {(row[1], row[2]): row for row in left}
    found: list[Sequence[Any]] = []
    for row in before:
        other = remaining.get((row["quarter_hour"], row["key_id"]))
        head = (1, row["quarter_hour"], row["key_id"], prune_id, row["day"])
        sums = [row[name] for name in SUM_NAMES]
        both = [row["latencies"], row["ttfts"]]
        if other is not None:
            sums = [one - two for one, two in zip(sums, other[len(head) : -2], strict=True)]
            both = [_without(one, two) for one, two in zip(both, other[-2:], strict=True)]
        if any(sums):
            found.append((*head, *sums, *both))
    return found


def _without(whole: bytes | None, part: bytes | None) -> bytes | None:
    """Return a histogram without the counts of another one that is in it."""
    _, buckets, counts = histograms.unpacked([whole])
    _, others, less = histograms.unpacked([part])
    signed = np.concatenate([counts, -less])
    both = np.concatenate([buckets, others])
    sums = np.bincount(both, weights=signed, minlength=1).astype(np.int64)
    kept = np.flatnonzero(sums)
    return histograms.packed(np.zeros(len(kept), np.int64), kept.astype(np.int64), sums[kept], 1)[0]
