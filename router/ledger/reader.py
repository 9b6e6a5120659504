"""The only SQL reader: what reports and look-ups ask of the ledger.

In: spans of instants, ids, names of columns. Out: frozen values of whole numbers, and records. Invariant: nothing is
written but sums of what is there; sums are exact; unknown is None and counted. numpy is loaded with the first sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from pricing.fx import FxRate
from pricing.prices import PriceSet, price_set_from_json
from pricing.terms import Terms, terms_from_json
from router.ledger.budget_records import BudgetRow, CaseRow
from router.ledger.budget_use import read_use
from router.ledger.budgets import read_budgets
from router.ledger.cases import read_cases
from router.ledger.database import database_errors, id_batches
from router.ledger.groups import DearRun, LatencyGroup, RunGroup, UsageGroup
from router.ledger.leases import find_answer
from router.ledger.readback import attempt_row, fx_rate, run_row, step_row
from router.ledger.records import Answer, AttemptRow, RunRow, StepRow
from router.ledger.rollup_tables import attempts_rollup
from router.ledger.rows import QUARTER_HOUR_US, storable_text
from router.ledger.stage_times import read_stage_times
from router.ledger.tables import (
    attempt_terms,
    attempts,
    fx_rates,
    plan_steps,
    price_sets,
    runs,
    tag_sets,
    terms,
    usage_buckets,
)
from router.ledger.tool_calls import ToolCallRow, read_tool_calls

if TYPE_CHECKING:
    from router.ledger.cube import LatencyCube, UsageCube
    from router.ledger.rollup_read import RollupReader

__all__ = ["DearRun", "LatencyGroup", "Reader", "RunGroup", "UsageGroup", "instant_at", "instant_us"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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

    @cached_property
    def _rollups(self) -> RollupReader:
        from router.ledger.rollup_read import RollupReader

        return RollupReader(self._engine)

    def usage_groups(self, start_us: int, end_us: int, by: Sequence[str] = ()) -> tuple[UsageGroup, ...]:
        """Return the sums of records of a span, one group for each combination that occurs.

        Args:
            start_us: first instant, microseconds since 1970 UTC, on a whole quarter hour.
            end_us: first instant that is not in it any more, alike; beyond the year 9999: all there is.
            by: names of `router.ledger.queries.GROUP_COLUMNS`; empty: one group of all (none without rows).

        Returns:
            Groups, their sums as named and explained by `router.ledger.queries.SUM_NAMES`.

        Raises:
            WrongUsage: a group that does not exist.
            ValueError: the span is not of whole quarter hours.
            LedgerError: the database cannot be read.
        """
        return self.usage_groups_by_span([(start_us, end_us)], by)[0]

    def usage_groups_by_span(
        self, spans: Sequence[tuple[int, int]], by: Sequence[str] = ()
    ) -> tuple[tuple[UsageGroup, ...], ...]:
        """Return the same for each of several spans, for instance the days of a month in a time zone.

        Args:
            spans: start and end of each.
            by: as for `usage_groups`.
        """
        found: list[list[UsageGroup]] = [[] for _ in spans]
        for group in self.usage_cube(spans, by).groups(("span", *by)):
            found[group.key[0]].append(UsageGroup(group.key[1:], group.sums))
        return tuple(map(tuple, found))

    def usage_cube(self, spans: Sequence[tuple[int, int]], times: Sequence[str] = ()) -> UsageCube:
        """Return the sums of several spans, read once, to be grouped in memory as often as is asked.

        Args:
            spans: as for `usage_groups_by_span`.
            times: `day` or `quarter_hour` among them are kept apart, so that the cube can be grouped by them; other
                names are checked, and make no difference.

        Raises:
            WrongUsage, ValueError, LedgerError: as for `usage_groups`.
        """
        return self._rollups.usage(spans, _kept_apart(times))

    def latency_histogram(
        self,
        start_us: int,
        end_us: int,
        by: Sequence[str] = (),
        statuses: Sequence[str] = ("succeeded",),
        measure: Literal["latency", "ttft"] = "latency",
    ) -> tuple[LatencyGroup, ...]:
        """Return how many attempts fell in each latency bucket; `router.ledger.latency.percentile_us` reads them.

        Args:
            start_us: first instant, microseconds since 1970 UTC, on a whole quarter hour.
            end_us: first instant that is not in it any more, alike; beyond the year 9999: all there is.
            by: names of `router.ledger.queries.GROUP_COLUMNS`.
            statuses: which attempts: those that ended so. Attempts without a latency are left out.
            measure: of whole calls, or times to first token.

        Raises:
            WrongUsage: a group that does not exist.
            ValueError: the span is not of whole quarter hours.
            LedgerError: the database cannot be read.
        """
        return self.latency_cube([(start_us, end_us)], by, measure).groups(by, statuses)

    def latency_cube(
        self,
        spans: Sequence[tuple[int, int]],
        times: Sequence[str] = (),
        measure: Literal["latency", "ttft"] = "latency",
    ) -> LatencyCube:
        """Return the latency histograms of several spans, read once; see `usage_cube`.

        Args:
            spans: as there.
            times: as there.
            measure: of whole calls, or times to first token.
        """
        return self._rollups.latencies(spans, _kept_apart(times), measure)

    def stage_times(self, start_us: int, end_us: int) -> Mapping[str, tuple[int, ...]]:
        """Return the times of a span's answered attempts of our own by stage; see `read_stage_times`."""
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return read_stage_times(connection, start_us, end_us)

    def run_groups(self, start_us: int, end_us: int, by: Sequence[str] = ()) -> tuple[RunGroup, ...]:
        """Return how many runs that started in a span there are, for each combination that occurs.

        Args:
            start_us: first instant, microseconds since 1970 UTC, on a whole quarter hour.
            end_us: first instant that is not in it any more, alike; beyond the year 9999: all there is.
            by: of day, configuration, task_class, tenant, tags_id, status.

        Raises:
            WrongUsage: a group that does not exist.
            ValueError: the span is not of whole quarter hours.
            LedgerError: the database cannot be read.
        """
        return self._rollups.runs((start_us, end_us), by)

    def dearest_runs(self, start_us: int, end_us: int, limit: int = 10) -> tuple[DearRun, ...]:
        """Return the runs that started in a span and cost most, whenever their attempts were: dearest first.

        Args:
            start_us: first instant, microseconds since 1970 UTC, on a whole quarter hour.
            end_us: first instant that is not in it any more, alike; beyond the year 9999: all there is.
            limit: most runs of each currency, 1 to 10; amounts of several currencies are not compared here.

        Raises:
            ValueError: the span is not of whole quarter hours, or the limit is above 10.
            LedgerError: the database cannot be read.
        """
        return self._rollups.dearest((start_us, end_us), limit)

    def tag_sets(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels that the values of `tags_id` stand for, by id; unknown ids are left out."""
        return {key: json.loads(text) for key, text in self._documents(tag_sets, ids).items()}

    def months_present(self, zone: tzinfo = UTC) -> tuple[str, ...]:
        """Return the months that have records, pruned ones included, as "2026-10", oldest first.

        Args:
            zone: the time zone that months are cut in.
        """
        found: list[str] = []
        after_us: int | None = None
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            while True:
                first_us = _earliest_us(connection, after_us)
                if first_us is None:
                    return tuple(found)
                local = instant_at(first_us, zone)
                found.append(f"{local:%Y-%m}")
                after_us = instant_us(_next_month(local))

    def count_attempts(self, before_us: int) -> int:
        """Return how many attempts started before an instant, microseconds since 1970 UTC."""
        query = sa.select(sa.func.count()).select_from(attempts).where(attempts.c.started_us < before_us)
        return int(self._rows(query)[0][0])

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

    def run_counts(self, start_us: int, end_us: int) -> Mapping[str, int]:
        """Return how many runs that started in a span stand at each status.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.
        """
        groups = self.run_groups(start_us, end_us, ("status",))
        return MappingProxyType({str(group.key[0]): group.runs for group in groups})

    def steps(self, run_id: str) -> tuple[StepRow, ...]:
        """Return a run's plan with each step's present status, in the plan's order."""
        query = sa.select(plan_steps).where(plan_steps.c.run_id == run_id).order_by(plan_steps.c.position)
        return tuple(step_row(row) for row in self._mappings(query))

    def tool_calls(self, run_id: str) -> tuple[ToolCallRow, ...]:
        """Return a run's tool calls, oldest first."""
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return read_tool_calls(connection, run_id)

    def price_sets(self, ids: Iterable[str]) -> Mapping[str, PriceSet]:
        """Return the price sets of these ids that the ledger has, by id.

        Raises:
            PricingError: a stored set was altered.
        """
        found = self._documents(price_sets, ids)
        return MappingProxyType({key: price_set_from_json(text) for key, text in found.items()})

    def _documents(self, table: sa.Table, ids: Iterable[str]) -> dict[str, str]:
        """Return the documents of these ids that a table has."""
        [key] = table.primary_key
        wanted, found = sorted(set(ids)), {}
        for some in id_batches(wanted):
            query = sa.select(key.label("id"), table.c.document).where(key.in_(some))
            found.update({row["id"]: row["document"] for row in self._mappings(query)})
        return found

    def terms(self, ids: Iterable[str]) -> Mapping[str, Terms]:
        """Return the terms of these ids that the ledger has, by id.

        Raises:
            PricingError: stored terms were altered.
        """
        return {key: terms_from_json(text) for key, text in self._documents(terms, ids).items()}

    def iterate_attempts(self, start_us: int, end_us: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield every record of a span, in chunks of tuples of `router.ledger.scan.SCANNED`; see there.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.

        Raises:
            LedgerError: the database cannot be read.
        """
        from router.ledger.scan import scan

        return scan(self._engine, start_us, end_us)

    def fx_rates(self) -> tuple[FxRate, ...]:
        """Return every exchange rate on record by day, a correction after what it corrects.

        Raises:
            LedgerError: the database cannot be read.
        """
        query = sa.select(fx_rates).order_by(fx_rates.c.as_of_day, fx_rates.c.fx_rate_id)
        found = (fx_rate(row) for row in self._rows(query))
        return tuple(sorted(found, key=lambda rate: (rate.as_of, rate.number)))

    def budgets(self) -> tuple[BudgetRow, ...]:
        """Return every monthly budget by scope and name."""
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return read_budgets(connection)

    def budgets_in_use(self, month_start_us: int) -> tuple[tuple[BudgetRow, ...], Mapping[tuple[str, str], Decimal]]:
        """Return the budgets, and what is used and held of each in a month, in its currency, by scope and name.

        Args:
            month_start_us: the month's start, microseconds since 1970 UTC.
        """
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return read_budgets(connection), read_use(connection, month_start_us)

    def cases(self) -> tuple[CaseRow, ...]:
        """Return every frozen business case, the oldest first."""
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return read_cases(connection)

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


def _kept_apart(by: Sequence[str]) -> tuple[str, ...]:
    from router.ledger.queries import checked_groups

    return tuple(name for name in ("day", "quarter_hour") if name in checked_groups(by))


def _earliest_us(connection: sa.Connection, after_us: int | None) -> int | None:
    """Return the first instant that has a record from some instant on: an index look-up for each kind of record."""
    starts = (
        (attempts.c.started_us, 1),
        (usage_buckets.c.start_us, 1),
        (attempts_rollup.c.quarter_hour, QUARTER_HOUR_US),
    )
    found: list[int] = []
    for column, unit in starts:
        query = sa.select(sa.func.min(column))
        if unit > 1:
            query = query.where(attempts_rollup.c.width == 1)
        if after_us is not None:
            query = query.where(column >= after_us // unit)
        first = connection.execute(query).scalar()
        found.extend([] if first is None else [int(first) * unit])
    return min(found, default=None)


def _next_month(local: datetime) -> datetime:
    year, month = divmod(local.year * 12 + local.month, 12)
    return local.replace(year=year, month=month + 1, day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
