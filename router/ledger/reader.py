"""The only SQL reader: what reports and look-ups ask of the ledger.

In: spans of instants, ids, names of columns. Out: frozen values of whole numbers, and records. Invariant: nothing is
written; sums are exact; unknown is None and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from pricing.fx import FxRate
from pricing.prices import PriceSet, price_set_from_json
from router.ledger import queries
from router.ledger.database import database_errors
from router.ledger.leases import find_answer
from router.ledger.readback import attempt_row, fx_rate, run_row, step_row
from router.ledger.records import Answer, AttemptRow, RunRow, StepRow
from router.ledger.rows import storable_text
from router.ledger.tables import attempt_terms, attempts, fx_rates, plan_steps, price_sets, runs, tag_sets, terms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_IDS_AT_ONCE = 500  # SQLite takes at most 32,766 bound values, and 999 before version 3.32


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """One group of attempts: its values of the columns grouped by, in their order, and its sums."""

    key: tuple[Any, ...]
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LatencyGroup:
    """One group of attempts: its values of the columns grouped by, and its counts per latency bucket."""

    key: tuple[Any, ...]
    counts: Mapping[int, int]


def instant_us(at: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970 UTC, exactly."""
    return (at - _EPOCH) // _MICROSECOND


def instant_at(at_us: int, zone: tzinfo = UTC) -> datetime:
    """Return the aware instant of microseconds since 1970 UTC, exactly, in a zone."""
    return (_EPOCH + at_us * _MICROSECOND).astimezone(zone)


class Reader:
    """Reads one database. Calls block; they may come from any thread.

    Args:
        engine: of a database at the current revision.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def usage_groups(self, start_us: int, end_us: int, by: Sequence[str] = ()) -> tuple[UsageGroup, ...]:
        """Return the sums of attempts that started in a span, one group for each combination that occurs.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.
            by: names of `router.ledger.queries.GROUP_COLUMNS`; empty: one group of all (none without rows).

        Returns:
            Groups, their sums as named and explained by `router.ledger.queries.SUM_NAMES`.

        Raises:
            WrongUsage: a group that does not exist.
            LedgerError: the database cannot be read.
        """
        width = len(by)
        return tuple(
            UsageGroup(tuple(row[:width]), _whole(row[width:]))
            for row in self._rows(queries.usage_groups(start_us, end_us, by))
            if row[width]
        )

    def latency_histogram(
        self, start_us: int, end_us: int, by: Sequence[str] = (), statuses: Sequence[str] = ("succeeded",)
    ) -> tuple[LatencyGroup, ...]:
        """Return how many attempts fell in each latency bucket; `router.ledger.latency.percentile_us` reads them.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.
            by: names of `router.ledger.queries.GROUP_COLUMNS`.
            statuses: which attempts: those that ended so. Attempts without a latency are left out.

        Raises:
            WrongUsage: a group that does not exist.
            LedgerError: the database cannot be read.
        """
        found: dict[tuple[Any, ...], dict[int, int]] = {}
        for row in self._rows(queries.latency_counts(start_us, end_us, by, "latency_bucket", statuses)):
            bucket, count = row[len(by)], row[len(by) + 1]
            found.setdefault(tuple(row[: len(by)]), {})[int(bucket)] = int(count)
        return tuple(LatencyGroup(key, MappingProxyType(counts)) for key, counts in found.items())

    def months_present(self, zone: tzinfo = UTC) -> tuple[str, ...]:
        """Return the months that have attempts, as "2026-10", oldest first.

        Args:
            zone: the time zone that months are cut in.
        """
        found: list[str] = []
        after_us: int | None = None
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            while True:
                # One index look-up a month, however many rows a month has.
                query = sa.select(sa.func.min(attempts.c.started_us))
                if after_us is not None:
                    query = query.where(attempts.c.started_us >= after_us)
                first_us = connection.execute(query).scalar()
                if first_us is None:
                    return tuple(found)
                local = instant_at(int(first_us), zone)
                found.append(f"{local:%Y-%m}")
                after_us = instant_us(_next_month(local))

    def attempts(self, run_id: str) -> tuple[AttemptRow, ...]:
        """Return a run's attempts, oldest first; empty for an unknown run."""
        return self._attempts(attempts.c.run_id == run_id)

    def in_flight(self, run_id: str) -> tuple[AttemptRow, ...]:
        """Return a run's attempts that were started and never completed, oldest first."""
        return self._attempts(attempts.c.run_id == run_id, attempts.c.status == "started")

    def attempt(self, attempt_id: str) -> AttemptRow | None:
        """Return one attempt, or None."""
        return next(iter(self._attempts(attempts.c.attempt_id == attempt_id)), None)

    def last_number(self, call_key: str) -> int:
        """Return the number of a call's last attempt, or 0 where it has none."""
        query = sa.select(sa.func.max(attempts.c.number)).where(attempts.c.call_key == storable_text(call_key))
        return int(self._rows(query)[0][0] or 0)

    def answer(self, call_key: str) -> Answer | None:
        """Return the answer kept under a call key, or None."""
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return find_answer(connection, call_key)

    def run(self, run_id: str) -> RunRow | None:
        """Return one run, or None."""
        rows = self._mappings(sa.select(runs).where(runs.c.run_id == run_id))
        return run_row(rows[0]) if rows else None

    def runs(self, start_us: int, end_us: int, limit: int | None = None) -> tuple[RunRow, ...]:
        """Return the runs that started in a span, newest first.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.
            limit: most runs to return; None: all.
        """
        query = sa.select(runs).where(runs.c.started_us >= start_us, runs.c.started_us < end_us)
        newest = query.order_by(runs.c.started_us.desc(), runs.c.run_id.desc()).limit(limit)
        return tuple(run_row(row) for row in self._mappings(newest))

    def steps(self, run_id: str) -> tuple[StepRow, ...]:
        """Return a run's plan with each step's present status, in the plan's order."""
        query = sa.select(plan_steps).where(plan_steps.c.run_id == run_id).order_by(plan_steps.c.position)
        return tuple(step_row(row) for row in self._mappings(query))

    def price_sets(self, ids: Iterable[str]) -> Mapping[str, PriceSet]:
        """Return the price sets of these ids that the ledger has, by id.

        Raises:
            PricingError: a stored set was altered.
        """
        wanted = sorted(set(ids))
        found: dict[str, PriceSet] = {}
        for first in range(0, len(wanted), _IDS_AT_ONCE):
            some = wanted[first : first + _IDS_AT_ONCE]
            query = sa.select(price_sets.c.price_set_id, price_sets.c.document)
            rows = self._rows(query.where(price_sets.c.price_set_id.in_(some)))
            found.update({row.price_set_id: price_set_from_json(row.document) for row in rows})
        return MappingProxyType(found)

    def fx_rates(self) -> tuple[FxRate, ...]:
        """Return every exchange rate on record by day, a correction after what it corrects.

        Raises:
            LedgerError: the database cannot be read.
        """
        query = sa.select(fx_rates).order_by(fx_rates.c.as_of_day, fx_rates.c.fx_rate_id)
        found = (fx_rate(row) for row in self._rows(query))
        return tuple(sorted(found, key=lambda rate: (rate.as_of, rate.number)))

    def _attempts(self, *where: sa.ColumnElement[bool]) -> tuple[AttemptRow, ...]:
        joined = attempts.outerjoin(attempt_terms).outerjoin(terms).outerjoin(tag_sets)
        documents = (terms.c.document.label("terms_document"), tag_sets.c.document.label("tags_document"))
        columns = sa.select(attempts, *documents).select_from(joined)
        oldest = columns.where(*where).order_by(attempts.c.started_us, attempts.c.attempt_id)
        return tuple(attempt_row(row) for row in self._mappings(oldest))

    def _mappings(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return connection.execute(query).all()


def _whole(sums: Sequence[Any]) -> Mapping[str, int]:
    # PostgreSQL sums integers to Decimal; a sum over nothing is NULL, which the counts beside it tell from 0.
    return MappingProxyType({name: int(value or 0) for name, value in zip(queries.SUM_NAMES, sums, strict=True)})


def _next_month(local: datetime) -> datetime:
    year, month = divmod(local.year * 12 + local.month, 12)
    return local.replace(year=year, month=month + 1, day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
