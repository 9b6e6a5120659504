"""Runs added up by the quarter hour of their start: how many of each kind there are, and which cost most.

In: a connection, a stretch of time. Out: rows of `runs_rollup` and `dearest_runs`, but for width and prune. Invariant:
a run's cost is that of all its attempts, whenever they were.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from router.ledger.database import id_batches
from router.ledger.rows import QUARTER_HOUR_US, tags_document, tags_id
from router.ledger.tables import attempts, runs

DEAREST = 10
"""How many runs are kept of each quarter hour and currency."""

_KEYS = ("configuration", "task_class", "tenant", "status")
_START = (runs.c.started_us - runs.c.started_us % QUARTER_HOUR_US).label("start_us")
_STARTED_IN = (runs.c.started_us >= sa.bindparam("low"), runs.c.started_us < sa.bindparam("high"))
_COLUMNS = (*(runs.c[name] for name in _KEYS), runs.c.tags)
_COUNTS = sa.select(_START, *_COLUMNS, sa.func.count()).where(*_STARTED_IN).group_by(sa.text("start_us"), *_COLUMNS)
# Grouped, not ranked: of a few hundred runs a quarter hour, Python finds the dearest in a third of the time.
_COSTS = (
    sa.select(
        runs.c.started_us,
        attempts.c.settled_currency,
        sa.cast(sa.func.sum(attempts.c.settled_micro), sa.BigInteger),
        sa.cast(sa.func.sum(attempts.c.settled_pico), sa.BigInteger),
        sa.type_coerce(runs.c.run_id, sa.Text),  # as the driver gives it: making texts of all ids took as long again
        sa.func.count(),
    )
    .select_from(runs.join(attempts, attempts.c.run_id == runs.c.run_id))
    .where(*_STARTED_IN, attempts.c.settled_currency.is_not(None))
    .group_by(runs.c.run_id, attempts.c.settled_currency)
)
_Cost = tuple[int, int, Any, int]
_OF_RUN = ("run_id", "started_us", "configuration", "task_class", "tenant")


def counts_of_runs(connection: sa.Connection, bounds: Mapping[str, int], tags: dict[str, str]) -> list[dict[str, Any]]:
    """Return how many runs of each kind started in each quarter hour.

    Args:
        connection: to read.
        bounds: `low` and `high`, microseconds since 1970 UTC.
        tags: is told the labels that were met, by id.
    """
    identities: dict[str, str | None] = {}
    found = []
    for start_us, *key, text, count in raw_rows(connection, _COUNTS, bounds):
        if text not in identities:
            labels = json.loads(text)
            identity = identities[text] = tags_id(labels)
            if identity is not None:
                tags[identity] = tags_document(labels)
        named = {"quarter_hour": start_us // QUARTER_HOUR_US, **dict(zip(_KEYS, key, strict=True))}
        found.append({**named, "tags_id": identities[text], "runs": count})
    return found


def dearest_of_runs(connection: sa.Connection, stretches: Iterable[Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    """Yield the dearest runs that started in each quarter hour, for each currency.

    Of equal amounts the lower ids are kept, so that what is kept does not hang on the database.

    Args:
        connection: to read.
        stretches: `low` and `high` of each, microseconds since 1970 UTC, on whole quarter hours.
    """
    best: dict[tuple[int, str], list[_Cost]] = {}
    for bounds in stretches:
        costs: dict[tuple[int, str], list[_Cost]] = {}
        for start_us, currency, micro, pico, run_id, count in raw_rows(connection, _COSTS, bounds):
            cost = (-micro - pico // 1_000_000, -(pico % 1_000_000), run_id, count)
            costs.setdefault((start_us // QUARTER_HOUR_US, currency), []).append(cost)
        best.update({key: heapq.nsmallest(DEAREST, each) for key, each in costs.items()})
    about = _about(connection, sorted({_text(cost[2]) for each in best.values() for cost in each}))
    for (quarter_hour, currency), each in best.items():
        for micro, pico, run_id, count in each:
            named = {"quarter_hour": quarter_hour, "currency": currency, **about[_text(run_id)]}
            yield {**named, "attempts": count, "settled_micro": -micro, "settled_pico": -pico}


def raw_rows(connection: sa.Connection, query: sa.Select[Any], bounds: Mapping[str, int]) -> Sequence[Sequence[Any]]:
    """Return the rows of a select as the driver gives them: to wrap each one took longer than to read it.

    Args:
        connection: to read.
        query: its columns are numbers and texts.
        bounds: the values of its parameters.
    """
    found: Sequence[Sequence[Any]] = connection.execute(query, bounds).cursor.fetchall()
    return found


def _text(run_id: Any) -> str:
    return str(UUID(str(run_id)))


def _about(connection: sa.Connection, ids: Sequence[str]) -> Mapping[str, sa.RowMapping]:
    found: dict[str, sa.RowMapping] = {}
    for some in id_batches(ids):
        rows = connection.execute(sa.select(*(runs.c[name] for name in _OF_RUN)).where(runs.c.run_id.in_(some)))
        found.update({row["run_id"]: row for row in rows.mappings()})
    return found
