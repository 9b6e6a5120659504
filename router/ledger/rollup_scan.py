"""Raw rows added up by quarter hour: what the rollups are made of.

In: a connection, quarter hours of one UTC day. Out: `Scanned`: sums, histograms, counts of runs and the dearest runs.
Invariant: the sums of a quarter hour are those of its raw rows (`queries.attempt_groups`, `queries.bucket_groups`) in
every grouping, whatever columns an older version of the program has left empty.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.ledger import histograms, queries
from router.ledger.digests import pair_of
from router.ledger.rows import QUARTER_HOUR_US, tags_document, tags_id
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES, SUMMED
from router.ledger.tables import attempt_terms, attempts, runs

DEAREST = 10
"""How many runs are kept of each quarter hour and currency."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class QuarterSums:
    """One row to be.

    Args:
        quarter_hour: since 1970 UTC.
        pair: digests of its key.
        sums: in the order of `SUM_NAMES`; not `is_whole`: what hangs on the status is still to be told by the key
            (`with_status`).
        latencies, ttfts: histograms.
        is_whole: see `sums`.
    """

    quarter_hour: int
    pair: Pair
    sums: Sequence[int]
    latencies: bytes | None = None
    ttfts: bytes | None = None
    is_whole: bool = True


@dataclass(slots=True)
class Scanned:
    """What some quarter hours' raw rows add up to.

    Args:
        quarter_hours: those that were read, whether they have rows or not.
        sums: a row per quarter hour and key.
        keys: the values of `KEY_COLUMNS` of keys that were met in full, by pair of digests; those of others are with
            the attempts of their quarter hour.
        runs: rows of `runs_rollup` but for width and prune.
        dearest: rows of `dearest_runs` but for the prune.
        tags: labels of runs, by id.
    """

    quarter_hours: tuple[int, ...]
    sums: list[QuarterSums] = field(default_factory=list)
    keys: dict[Pair, tuple[Any, ...]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    dearest: list[dict[str, Any]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)


def scan(connection: sa.Connection, quarter_hours: Sequence[int]) -> Scanned:
    """Return what some quarter hours of a UTC day add up to."""
    found = Scanned(tuple(quarter_hours))
    _add_buckets(connection, quarter_hours, found)
    for quarter_hour in quarter_hours:
        bounds = {"low": quarter_hour * QUARTER_HOUR_US, "high": (quarter_hour + 1) * QUARTER_HOUR_US}
        rows = connection.execute(_by_digests(connection.dialect.name), bounds).all()
        if any(row[0] is None or row[1] is None for row in rows):
            found.sums.extend(_by_columns(connection, quarter_hour, found.keys))
        elif rows:
            latencies = histograms.from_buckets([row[-2] for row in rows])
            ttfts = histograms.from_times([row[-1] for row in rows])
            found.sums.extend(
                QuarterSums(quarter_hour, (row[0], row[1]), row[2:-2], *both, is_whole=False)
                for row, both in zip(rows, zip(latencies, ttfts, strict=True), strict=True)
            )
        _add_runs(connection, quarter_hour, bounds, found)
    return found


def _add_buckets(connection: sa.Connection, quarter_hours: Sequence[int], found: Scanned) -> None:
    """Add usage that others added up, of some quarter hours of a day."""
    wanted = set(quarter_hours)
    low_us, high_us = min(wanted) * QUARTER_HOUR_US, (max(wanted) + 1) * QUARTER_HOUR_US
    buckets = connection.execute(queries.bucket_groups(low_us, high_us, ("quarter_hour", *KEY_COLUMNS))).all()
    found.sums.extend(_in_full(row, found.keys) for row in buckets if row[0] in wanted)


def scan_runs(connection: sa.Connection, quarter_hours: Sequence[int]) -> Scanned:
    """Return the counts of the runs that started in some quarter hours, and the dearest of them, alone."""
    found = Scanned(tuple(quarter_hours))
    for quarter_hour in quarter_hours:
        bounds = {"low": quarter_hour * QUARTER_HOUR_US, "high": (quarter_hour + 1) * QUARTER_HOUR_US}
        _add_runs(connection, quarter_hour, bounds, found)
    return found


def _add_runs(connection: sa.Connection, quarter_hour: int, bounds: Mapping[str, int], found: Scanned) -> None:
    """Add the counts of the runs that started in a quarter hour, and the dearest of them for each currency."""
    for *key, tags, count in connection.execute(_RUNS, bounds):
        labels = json.loads(tags)
        if labels:
            found.tags[str(tags_id(labels))] = tags_document(labels)
        named = dict(zip(_RUN_KEYS, key, strict=True))
        found.runs.append({"quarter_hour": quarter_hour, **named, "tags_id": tags_id(labels), "runs": count})
    found.dearest.extend(_dearest(connection, quarter_hour, bounds))


def with_status(sums: Sequence[int], key: Sequence[Any]) -> Sequence[int]:
    """Return sums with those that hang on the status: answered, and possibly billed.

    Args:
        sums: in the order of `SUM_NAMES`, of attempts of one key.
        key: the values of `KEY_COLUMNS`.
    """
    found = list(sums)
    attempts_, status = found[_ATTEMPTS], key[_STATUS]
    found[_SUCCEEDED] = attempts_ if status == "succeeded" else 0
    if status == "started" or key[_POSSIBLY_BILLED]:
        found[_UNSETTLED[0]] = attempts_
    else:
        for place in _UNSETTLED:
            found[place] = 0
    return found


_ATTEMPTS, _SUCCEEDED = (SUM_NAMES.index(name) for name in ("attempts", "succeeded"))
_UNSETTLED = tuple(SUM_NAMES.index(name) for name in ("unsettled", "unsettled_usd_micro", "unsettled_usd_pico"))
_STATUS, _POSSIBLY_BILLED = (KEY_COLUMNS.index(name) for name in ("status", "possibly_billed"))


@cache
def _by_digests(dialect_name: str) -> sa.Select[*tuple[Any, ...]]:
    """Return the select of pair, `SUM_NAMES`, and latencies and times to first token as texts."""
    table = attempts.c
    zero: sa.ColumnElement[Any] = sa.literal_column("0")
    rows = sa.func.count()
    sums: dict[str, sa.ColumnElement[Any]] = {
        "records": rows,
        "attempts": rows,
        "requests": rows,
        "requests_unknown": zero,
        # What hangs on the status is known from the key, and need not be looked at in each row (`with_status`).
        "succeeded": zero,
        "unsettled": zero,
        "unsettled_usd_micro": _sum(table.reserved_usd_micro),
        "unsettled_usd_pico": _sum(table.reserved_usd_pico),
        "calls": _sum(sa.case((table.number == 1, 1), else_=0)),
        # COUNT of a column leaves NULLs out, at half the cost of a CASE.
        "usage_unknown": rows - sa.func.count(table[BUCKETS[0]]),
        "cost_unknown": rows - sa.func.count(table.cost_micro),
        "reported": sa.func.count(table.reported_usd_micro),
        "timed": sa.func.count(table.latency_us),
        "streamed": sa.func.count(table.ttft_us),
        "inference_timed": sa.func.count(table.inference_us),
        "network_timed": sa.func.count(table.network_us),
        "state_timed": sa.func.count(table.state_us),
        **{name: _sum(table[name]) for name in SUMMED},
    }
    columns = (table.start_digest, table.end_digest, *(sums[name].label(f"s_{name}") for name in SUM_NAMES))
    if dialect_name == "postgresql":
        latencies = sa.func.string_agg(sa.func.chr(table.latency_bucket + histograms.FIRST), "")
        ttfts = sa.func.string_agg(sa.cast(table.ttft_us, sa.Text), ",")
    else:
        latencies = sa.func.group_concat(sa.func.char(table.latency_bucket + histograms.FIRST), "")
        ttfts = sa.func.group_concat(table.ttft_us, ",")
    within = (table.started_us >= sa.bindparam("low"), table.started_us < sa.bindparam("high"))
    return sa.select(*columns, latencies, ttfts).where(*within).group_by(table.start_digest, table.end_digest)


def _sum(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(sa.cast(sa.func.sum(column), sa.BigInteger), 0)


def _by_columns(
    connection: sa.Connection, quarter_hour: int, keys: dict[Pair, tuple[Any, ...]]
) -> Iterable[QuarterSums]:
    """Yield a quarter hour's sums where attempts have no digests, or those on record are not to be trusted."""
    low_us, high_us = quarter_hour * QUARTER_HOUR_US, (quarter_hour + 1) * QUARTER_HOUR_US
    columns: dict[str, dict[Pair, list[tuple[int, int]]]] = {}
    for column in ("latency_bucket", "ttft_us"):
        of_column = columns[column] = {}
        for *key, value, count in connection.execute(queries.latency_counts(low_us, high_us, KEY_COLUMNS, column)):
            of_column.setdefault(pair_of(key), []).append((value, count))
    for row in connection.execute(queries.attempt_groups(low_us, high_us, ("quarter_hour", *KEY_COLUMNS))).all():
        plain = _in_full((quarter_hour, *row[1:]), keys)
        latencies = histograms.from_counts(columns["latency_bucket"].get(plain.pair, []))
        ttfts = histograms.from_timed_counts(columns["ttft_us"].get(plain.pair, []))
        yield QuarterSums(plain.quarter_hour, plain.pair, plain.sums, latencies, ttfts)


def _in_full(row: Sequence[Any], keys: dict[Pair, tuple[Any, ...]]) -> QuarterSums:
    first = 1 + len(KEY_COLUMNS)
    key = tuple(row[1:first])
    pair = pair_of(key)
    keys[pair] = key
    return QuarterSums(int(row[0]), pair, [int(value or 0) for value in row[first:]])


def keys_of(connection: sa.Connection, quarter_hour: int, pairs: Sequence[Pair]) -> dict[Pair, tuple[Any, ...]]:
    """Return the values of `KEY_COLUMNS` of attempts of a quarter hour that have some pairs of digests, by pair."""
    named = [attempt_terms.c.terms_id if name == "terms_id" else attempts.c[name] for name in KEY_COLUMNS]
    low_us = quarter_hour * QUARTER_HOUR_US
    columns = (attempts.c.start_digest, attempts.c.end_digest)
    within = (attempts.c.started_us >= low_us, attempts.c.started_us < low_us + QUARTER_HOUR_US)
    among = (column.in_({pair[at] for pair in pairs}) for at, column in enumerate(columns))
    query = sa.select(*columns, *named).where(*within, *among).distinct()
    rows = connection.execute(query.select_from(attempts.outerjoin(attempt_terms)))
    return {(row[0], row[1]): tuple(row[2:]) for row in rows}


_RUN_KEYS = ("configuration", "task_class", "tenant", "status")
_STARTED_IN = (runs.c.started_us >= sa.bindparam("low"), runs.c.started_us < sa.bindparam("high"))
_RUN_COLUMNS = (*(runs.c[name] for name in _RUN_KEYS), runs.c.tags)
_RUNS = sa.select(*_RUN_COLUMNS, sa.func.count()).where(*_STARTED_IN).group_by(*_RUN_COLUMNS)
# Grouped, not ranked: of a few hundred runs a quarter hour, Python finds the dearest in a third of the time.
_COSTS = (
    sa.select(
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
_OF_RUN = ("run_id", "started_us", "configuration", "task_class", "tenant")


def _dearest(connection: sa.Connection, quarter_hour: int, bounds: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the dearest runs that started in a quarter hour, for each currency.

    Of equal amounts the lower ids are kept, so that what is kept does not hang on the database.
    """
    by_currency: dict[str, list[tuple[int, int, Any, int]]] = {}
    for currency, micro, pico, run_id, count in connection.execute(_COSTS, bounds):
        cost = (-micro - pico // 1_000_000, -(pico % 1_000_000), run_id, count)
        by_currency.setdefault(currency, []).append(cost)
    for currency, costs in by_currency.items():
        best = heapq.nsmallest(DEAREST, costs)
        ids = [str(UUID(str(cost[2]))) for cost in best]
        query = sa.select(*(runs.c[name] for name in _OF_RUN)).where(runs.c.run_id.in_(ids))
        about = {row["run_id"]: row for row in connection.execute(query).mappings()}
        for run_id, (micro, pico, _, count) in zip(ids, best, strict=True):
            named = {"quarter_hour": quarter_hour, "currency": currency, **about[run_id]}
            yield {**named, "attempts": count, "settled_micro": -micro, "settled_pico": -pico}
