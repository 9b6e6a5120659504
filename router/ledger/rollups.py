"""Keeps the rollups equal to the raw rows: what was marked is added up again, a UTC day at a time.

In: an engine. Out: rows of `rollup_tables`. Invariant: a transaction takes marks away and writes what the raw rows of
their quarter hours add up to, or does neither; two of them never run at once (SQLite's write lock, an advisory lock on
PostgreSQL); a writer whose commit comes later has left a mark of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from router.ledger.database import database_errors, for_writing
from router.ledger.digests import pair_of
from router.ledger.marks import mark
from router.ledger.rollup_runs import text_of
from router.ledger.rollup_scan import Scanned, scan
from router.ledger.rollup_tables import WIDTHS, attempts_rollup, dearest_runs, rollup_marks, runs_rollup
from router.ledger.rollup_write import DayWriter, Keys
from router.ledger.rows import DAY_US, QUARTER_HOUR_US
from router.ledger.sums import KEY_COLUMNS
from router.ledger.tables import attempt_terms, attempts, runs, usage_buckets

DAY = WIDTHS[-1]
_LOCK = 0x66617265_726F6C6C  # "fareroll"; any constant of our own
_MANY = 8  # quarter hours from which on two threads read
_ROWS_AT_ONCE = 5_000  # of some forty values each: some 10 MB
_CACHE_KIB = 16_384  # of each of them: a page is looked at for attempts, and again for their runs


def refresh(engine: sa.Engine, first: int | None = None, past: int | None = None) -> int:
    """Add up what was marked; return how many quarter hours that were.

    Each UTC day is a transaction of its own, so that writers wait for one day at most.

    Args:
        engine: of a ledger at the current revision.
        first: the first quarter hour that matters, since 1970 UTC; None: all before `past`.
        past: the first one that does not matter any more; None: all from `first` on.

    Raises:
        LedgerError: the database cannot be read or written.
    """
    done, keys = 0, Keys()
    with database_errors(engine, "add up"):
        day = _next_day(engine, first, past)
        while day is not None:
            with for_writing(engine).begin() as connection:
                lock(connection)
                done += refresh_day(engine, connection, day, keys)
            day = _next_day(engine, (day + 1) * DAY, past)
    return done


def rebuild(engine: sa.Engine) -> int:
    """Forget all sums of rows that are still here, and add them all up again; return how many quarter hours.

    Digests of what rows are grouped by are put right first, so that a row changed by hand is grouped as it is now. Sums
    of rows that were pruned stay.

    Raises:
        LedgerError: the database cannot be read or written.
    """
    start = (runs.c.started_us - runs.c.started_us % QUARTER_HOUR_US).label("start")
    with database_errors(engine, "rebuild"), for_writing(engine).begin() as connection:
        lock(connection)
        for table in (attempts_rollup, runs_rollup, dearest_runs):
            connection.execute(sa.delete(table).where(table.c.prune_id == 0))
        # Days with sums of pruned rows alone are marked too, for their wider rows.
        kept = attempts_rollup.c.quarter_hour
        for column in (attempts.c.quarter_hour, usage_buckets.c.quarter_hour, kept):
            mark(connection, connection.execute(sa.select(column).distinct()).scalars())
        mark(connection, (at // QUARTER_HOUR_US for at in connection.execute(sa.select(start).distinct()).scalars()))
        _mend_digests(connection)
    return refresh(engine)


def _mend_digests(connection: sa.Connection) -> None:
    """Put right the digests that do not belong to what their rows say: an older version wrote none."""
    named = [attempt_terms.c.terms_id if name == "terms_id" else attempts.c[name] for name in KEY_COLUMNS]
    columns = (attempts.c.attempt_id, attempts.c.start_digest, attempts.c.end_digest, *named)
    joined = sa.select(*columns).select_from(attempts.outerjoin(attempt_terms))
    for day in connection.execute(sa.select(attempts.c.day).distinct()).scalars().all():
        within = (attempts.c.started_us >= day * DAY_US, attempts.c.started_us < (day + 1) * DAY_US)
        wrong = []
        for found, start, end, *values in _as_given(connection, joined.where(*within)):
            pair = pair_of(values)
            if (start, end) != pair:
                wrong.append({"key": text_of(found), "start_digest": pair[0], "end_digest": pair[1]})
        if wrong:
            connection.execute(sa.update(attempts).where(attempts.c.attempt_id == sa.bindparam("key")), wrong)


def _as_given(connection: sa.Connection, query: sa.Select[*tuple[Any, ...]]) -> Iterator[Sequence[Any]]:
    """Yield rows as the driver gives them, ids among them: to make texts of all took longer than to read them."""
    cursor = connection.execute(query).cursor
    while some := cursor.fetchmany(_ROWS_AT_ONCE):
        yield from some


def lock(connection: sa.Connection) -> None:
    """Wait until nobody else changes rollups; held until the transaction ends. SQLite's write lock is held already."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _next_day(engine: sa.Engine, first: int | None, past: int | None) -> int | None:
    """Return the first day that has a mark, of those that reach into a span."""
    column = rollup_marks.c.quarter_hour
    query = sa.select(sa.func.min(column))
    if first is not None:
        query = query.where(column >= first // DAY * DAY)
    if past is not None:
        query = query.where(column < -(-past // DAY) * DAY)
    with engine.connect() as connection:
        found = connection.execute(query).scalar()
    return None if found is None else int(found) // DAY


def refresh_day(engine: sa.Engine | None, connection: sa.Connection, day: int, keys: Keys | None = None) -> int:
    """Add up what was marked of one day; return how many quarter hours that were.

    Args:
        engine: gives more connections to read by; None: the transaction has changed raw rows that only it can see.
        connection: in a transaction that holds the lock.
        day: days since 1970.
        keys: those that were read for other days; None: none were.
    """
    marked = _take_marks(connection, day)
    if marked:
        writer = DayWriter(connection, day, marked, keys or Keys())
        for scanned in _scanned(engine, connection, marked):
            writer.write(scanned)
        writer.finish()
    return len(marked)


def _take_marks(connection: sa.Connection, day: int) -> list[int]:
    """Delete a day's marks and return their quarter hours; on PostgreSQL in one statement, so that it is just those."""
    column = rollup_marks.c.quarter_hour
    within = (column >= day * DAY, column < (day + 1) * DAY)
    delete = sa.delete(rollup_marks).where(*within)
    if connection.dialect.name == "postgresql":
        return sorted(set(connection.execute(delete.returning(column)).scalars()))
    found = connection.execute(sa.select(column).where(*within).distinct().order_by(column)).scalars().all()
    connection.execute(delete)
    return list(found)


def _scanned(engine: sa.Engine | None, connection: sa.Connection, marked: Sequence[int]) -> Iterator[Scanned]:
    """Yield what blocks of a day add up to; many are read by two connections: reading waits for nobody."""
    blocks = [list(group) for _, group in groupby(marked, key=lambda each: each // WIDTHS[1])]
    if engine is None or len(marked) < _MANY:
        yield from (scan(connection, block) for block in blocks)
        return
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(partial(_scan_apart, engine), blocks)


def _scan_apart(engine: sa.Engine, block: Sequence[int]) -> Scanned:
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
        return scan(connection, block)
