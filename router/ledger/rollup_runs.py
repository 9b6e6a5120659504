"""Runs added up by the quarter hour of their start: how many of each kind there are, and which cost most.

In: a connection, a stretch of time. Out: rows of `runs_rollup` and `dearest_runs`, but for width and prune. Invariant:
a run's cost is that of all its attempts, whenever they were.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
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
_ALL: Mapping[str, Any] = {"currency": "", "least": 0}
"""Parameters of a search for all runs, whatever they cost."""
_Key = tuple[int, str]
_Cost = tuple[int, int, Any, int]
_MICRO = 1_000_000
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
    best: dict[_Key, list[_Cost]] = {}
    wanted = _ALL
    for bounds in stretches:
        found = _dearest(connection, bounds, wanted)
        best.update(found)
        is_one = bounds["high"] - bounds["low"] == QUARTER_HOUR_US
        wanted = _worth_a_look(found) if is_one else _ALL
    about = _about(connection, sorted({text_of(cost[2]) for each in best.values() for cost in each}))
    for (quarter_hour, currency), each in best.items():
        for micro, pico, run_id, count in each:
            named = {"quarter_hour": quarter_hour, "currency": currency, **about[text_of(run_id)]}
            yield {**named, "attempts": count, "settled_micro": -micro, "settled_pico": -pico}


def _dearest(
    connection: sa.Connection, bounds: Mapping[str, int], wanted: Mapping[str, Any]
) -> dict[_Key, list[_Cost]]:
    """Return the dearest runs of a stretch, the dearest first.

    Args:
        connection: to read.
        bounds: the stretch.
        wanted: `least`, below which a run of `currency` is probably none of the dearest; where there are too few above,
            all are looked at. Only a stretch of one quarter hour may have it.
    """
    costs: dict[_Key, list[_Cost]] = {}
    rows = raw_rows(connection, _costs(), {**bounds, **wanted})
    for start_us, currency, micro, pico, run_id, count in rows:
        cost = (-micro - pico // _MICRO, -(pico % _MICRO), run_id, count)
        costs.setdefault((start_us // QUARTER_HOUR_US, currency), []).append(cost)
    key = (bounds["low"] // QUARTER_HOUR_US, wanted["currency"])
    if wanted is not _ALL and len(costs.get(key, ())) < DEAREST:
        return _dearest(connection, bounds, _ALL)
    return {key: heapq.nsmallest(DEAREST, each) for key, each in costs.items()}


def _worth_a_look(found: Mapping[_Key, Sequence[_Cost]]) -> Mapping[str, Any]:
    """Return what a run of the next quarter hour must cost to be looked at: half of the least of the dearest here."""
    full = {key: each for key, each in found.items() if len(each) == DEAREST}
    if not full:
        return _ALL
    key = min(full, key=lambda key: full[key][-1])  # the currency of the largest amounts, which is as good as another
    return {"currency": key[1], "least": -full[key][-1][0] // 2}


@cache
def _costs() -> sa.Select[*tuple[Any, ...]]:
    """Return the select of start, currency, both parts of the sum, id, and number of attempts of runs.

    Grouped, not ranked: of a few hundred runs a quarter hour, Python finds the dearest in a third of the time. Those
    that cannot be among them are left out by their sum, since to hand over a row takes as long as to add it up.
    """
    micro, pico = (
        sa.cast(sa.func.sum(column), sa.BigInteger) for column in (attempts.c.settled_micro, attempts.c.settled_pico)
    )
    columns = (
        runs.c.started_us,
        attempts.c.settled_currency,
        micro,
        pico,
        sa.type_coerce(runs.c.run_id, sa.Text),  # as the driver gives it: making texts of all ids took as long again
        sa.func.count(),
    )
    is_other = attempts.c.settled_currency != sa.bindparam("currency")
    is_dear = micro + pico // _MICRO >= sa.bindparam("least", type_=sa.BigInteger())
    joined = sa.select(*columns).select_from(runs.join(attempts, attempts.c.run_id == runs.c.run_id))
    within = joined.where(*_STARTED_IN, attempts.c.settled_currency.is_not(None))
    return within.group_by(runs.c.run_id, attempts.c.settled_currency).having(sa.or_(is_other, is_dear))


def raw_rows(connection: sa.Connection, query: sa.Select[Any], bounds: Mapping[str, int]) -> Sequence[Sequence[Any]]:
    """Return the rows of a select as the driver gives them: to wrap each one took longer than to read it.

    Args:
        connection: to read.
        query: its columns are numbers and texts.
        bounds: the values of its parameters.
    """
    found: Sequence[Sequence[Any]] = connection.execute(query, bounds).cursor.fetchall()
    return found


def text_of(run_id: Any) -> str:
    """Return an id as text, from what the driver gives."""
    return str(UUID(str(run_id)))


def _about(connection: sa.Connection, ids: Sequence[str]) -> Mapping[str, sa.RowMapping]:
    found: dict[str, sa.RowMapping] = {}
    for some in id_batches(ids):
        rows = connection.execute(sa.select(*(runs.c[name] for name in _OF_RUN)).where(runs.c.run_id.in_(some)))
        found.update({row["run_id"]: row for row in rows.mappings()})
    return found
