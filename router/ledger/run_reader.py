"""Runs one by one, as who looks after them sees them: what they ask for, how far they are, what they hold.

In: ids. Out: frozen values. Invariant: nothing is written, and a sum of money is of one currency and exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from pricing.money import join_amount
from router.experience import Experience
from router.ledger.database import database_errors, id_batches
from router.ledger.readback import run_row, step_row
from router.ledger.records import RunRow, StepRow
from router.ledger.rows import is_id
from router.ledger.tables import UNSETTLED, answers, attempts, plan_steps, run_requests, runs

if TYPE_CHECKING:
    from router.ledger.forecast_rows import ForecastAttempt, ForecastRun


@dataclass(frozen=True, slots=True)
class RunSums:
    """What a run's attempts come to.

    Args:
        attempts: requests on the wire.
        in_flight: of them, those that were started and never completed.
        possibly_billed: of them, those whose bill is not known, the ones in flight included.
        possibly_billed_usd: what was reserved for those, USD.
        settled_cost: (currency, amount) pairs of what is known.
    """

    attempts: int = 0
    in_flight: int = 0
    possibly_billed: int = 0
    possibly_billed_usd: Decimal = Decimal(0)
    settled_cost: tuple[tuple[str, Decimal], ...] = ()


@dataclass(frozen=True, slots=True)
class RunState:
    """A run with what it has come to.

    Args:
        row: the run.
        sums: of its attempts.
        steps: number of its steps by status.
        cancel_us: when somebody asked it to stop, microseconds since 1970 UTC, or None.
        is_kept: whether its task is kept, so that it can be resumed by its id.
    """

    row: RunRow
    sums: RunSums
    steps: Mapping[str, int] = field(default_factory=dict)
    cancel_us: int | None = None
    is_kept: bool = False


class RunReader:
    """Reads runs of one database. Calls block; they may come from any thread.

    Args:
        engine: of a database at the current revision.

    Every call raises `LedgerError` where the database cannot be read.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def forecasts(self, start_us: int, end_us: int) -> tuple[tuple[ForecastAttempt, ...], tuple[ForecastRun, ...]]:
        """Return what was forecast in a span, beside what became of it: attempts, and runs; see `forecast_rows`.

        Args:
            start_us: first instant, microseconds since 1970 UTC.
            end_us: first instant that is not in it any more.

        Raises:
            LedgerError: the database cannot be read.
        """
        from router.ledger.forecast_rows import forecast_attempts, forecast_runs

        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return forecast_attempts(connection, start_us, end_us), forecast_runs(connection, start_us, end_us)

    def experience(self, as_of_us: int, days: int) -> Experience:
        """Return what the attempts and runs say that had ended before an instant.

        Args:
            as_of_us: the instant, microseconds since 1970 UTC.
            days: how many days back, ≥ 1.

        Raises:
            LedgerError: the database cannot be read.
        """
        from router.learning import learn
        from router.ledger.past_work import past_attempts, past_runs

        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            ended = past_attempts(connection, as_of_us, days)
            over = past_runs(connection, as_of_us, days)
        return learn(ended, over, as_of_us)

    def newest(self, statuses: Sequence[str] = (), limit: int = 20) -> tuple[RunState, ...]:
        """Return the runs that started last, the newest first.

        Args:
            statuses: only those at one of these; empty: all.
            limit: most runs to return.
        """
        query = sa.select(runs).order_by(runs.c.started_us.desc(), runs.c.run_id.desc()).limit(limit)
        if statuses:
            query = query.where(runs.c.status.in_(statuses))
        return self._states(self._mappings(query))

    def state(self, run_id: str) -> RunState | None:
        """Return one run with what it has come to, or None."""
        if not is_id(run_id):
            return None
        found = self._states(self._mappings(sa.select(runs).where(runs.c.run_id == run_id)))
        return found[0] if found else None

    def newest_ids(self, limit: int = 1000) -> tuple[str, ...]:
        """Return the ids of the runs that started last, to find near ones among."""
        query = sa.select(runs.c.run_id).order_by(runs.c.started_us.desc()).limit(limit)
        return tuple(row["run_id"] for row in self._mappings(query))

    def request(self, run_id: str) -> str | None:
        """Return a run's task as JSON text, or None where it is not kept."""
        query = sa.select(run_requests.c.document).where(run_requests.c.run_id == run_id)
        return next((str(row["document"]) for row in self._mappings(query)), None)

    def steps(self, run_id: str) -> tuple[tuple[StepRow, str | None], ...]:
        """Return a run's steps in the plan's order, each with why it failed, or None."""
        query = sa.select(plan_steps).where(plan_steps.c.run_id == run_id).order_by(plan_steps.c.position)
        return tuple((step_row(row), row["error"]) for row in self._mappings(query))

    def step_texts(self, run_id: str) -> Mapping[str, str]:
        """Return the answers of a run's steps that are kept, by step id: a step's last call that succeeded gave it."""
        joined = attempts.join(answers, answers.c.call_key == attempts.c.call_key)
        query = sa.select(attempts.c.step_id, answers.c.message).select_from(joined)
        mine = (attempts.c.run_id == run_id, attempts.c.step_id.is_not(None), attempts.c.status == "succeeded")
        rows = self._mappings(query.where(*mine).order_by(attempts.c.started_us, attempts.c.attempt_id))
        return {row["step_id"]: str(json.loads(row["message"]).get("content") or "") for row in rows}

    def cancelled(self, run_ids: Sequence[str]) -> frozenset[str]:
        """Return those of some runs that somebody has asked to stop."""
        from router.ledger.leases import cancelled

        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return cancelled(connection, run_ids)

    def _states(self, rows: Sequence[dict[str, Any]]) -> tuple[RunState, ...]:
        ids = [row["run_id"] for row in rows]
        sums, steps, kept = self._sums(ids), self._step_counts(ids), self._kept(ids)
        return tuple(
            RunState(
                run_row(row),
                sums.get(row["run_id"], RunSums()),
                steps.get(row["run_id"], {}),
                row["cancel_us"],
                row["run_id"] in kept,
            )
            for row in rows
        )

    def _sums(self, ids: Sequence[str]) -> dict[str, RunSums]:
        query = sa.select(
            attempts.c.run_id,
            attempts.c.settled_currency,
            sa.func.count().label("attempts"),
            _count_where(attempts.c.status == "started").label("in_flight"),
            _count_where(UNSETTLED).label("unsettled"),
            *(_sum(attempts.c[f"settled_{part}"]).label(part) for part in ("micro", "pico")),
            *(
                _sum(sa.case((UNSETTLED, attempts.c[f"reserved_usd_{part}"]), else_=0)).label(f"held_{part}")
                for part in ("micro", "pico")
            ),
        ).group_by(attempts.c.run_id, attempts.c.settled_currency)
        found: dict[str, RunSums] = {}
        for row in self._of_runs(query, attempts.c.run_id, ids):
            found[row["run_id"]] = _added(found.get(row["run_id"], RunSums()), row)
        return found

    def _step_counts(self, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        counted = sa.func.count().label("steps")
        query = sa.select(plan_steps.c.run_id, plan_steps.c.status, counted)
        found: dict[str, dict[str, int]] = {}
        for row in self._of_runs(query.group_by(plan_steps.c.run_id, plan_steps.c.status), plan_steps.c.run_id, ids):
            found.setdefault(row["run_id"], {})[row["status"]] = int(row["steps"])
        return found

    def _kept(self, ids: Sequence[str]) -> frozenset[str]:
        query = sa.select(run_requests.c.run_id)
        return frozenset(row["run_id"] for row in self._of_runs(query, run_requests.c.run_id, ids))

    def _of_runs(self, query: sa.Select[Any], key: sa.ColumnElement[str], ids: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for some in id_batches(ids):
            found += self._mappings(query.where(key.in_(some)))
        return found

    def _mappings(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _count_where(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _sum(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.func.sum(column), 0)


def _added(sums: RunSums, row: Mapping[str, Any]) -> RunSums:
    settled = sums.settled_cost
    if row["settled_currency"] is not None:
        settled = (*settled, (row["settled_currency"], join_amount(int(row["micro"]), int(row["pico"]))))
    return RunSums(
        attempts=sums.attempts + int(row["attempts"]),
        in_flight=sums.in_flight + int(row["in_flight"]),
        possibly_billed=sums.possibly_billed + int(row["unsettled"]),
        possibly_billed_usd=sums.possibly_billed_usd + join_amount(int(row["held_micro"]), int(row["held_pico"])),
        settled_cost=tuple(sorted(settled)),
    )
