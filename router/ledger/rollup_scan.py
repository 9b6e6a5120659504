"""Raw rows added up by quarter hour: what the rollups are made of.

In: a connection, quarter hours of one UTC day. Out: `Scanned`: sums, histograms, counts of runs and the dearest runs.
Invariant: the sums of a quarter hour are those of its raw rows (`queries.attempt_groups`, `queries.bucket_groups`) in
every grouping, whatever columns an older version of the program has left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.ledger import histograms, queries
from router.ledger.digests import pair_of
from router.ledger.rollup_runs import counts_of_runs, dearest_of_runs, raw_rows
from router.ledger.rows import QUARTER_HOUR_US
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES, SUMMED
from router.ledger.tables import attempt_terms, attempts

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
    """Return what some quarter hours of a UTC day add up to.

    Args:
        connection: to read.
        quarter_hours: rising.
    """
    found = Scanned(tuple(quarter_hours))
    wanted = set(quarter_hours)
    span = (quarter_hours[0] * QUARTER_HOUR_US, (quarter_hours[-1] + 1) * QUARTER_HOUR_US)
    buckets = connection.execute(queries.bucket_groups(*span, ("quarter_hour", *KEY_COLUMNS))).all()
    found.sums.extend(_in_full(row, found.keys) for row in buckets if row[0] in wanted)
    for low, high in stretches(quarter_hours):
        bounds = {"low": low * QUARTER_HOUR_US, "high": high * QUARTER_HOUR_US}
        parts = list(_parts(connection, bounds))
        _add_attempts(connection, parts, found)
        found.runs.extend(counts_of_runs(connection, bounds, found.tags))
        found.dearest.extend(dearest_of_runs(connection, parts))
    return found


def stretches(quarter_hours: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first quarter hour, and the one after the last, of each unbroken stretch."""
    first = last = quarter_hours[0]
    for each in quarter_hours[1:]:
        if each != last + 1:
            yield first, last + 1
            first = each
        last = each
    yield first, last + 1


def _parts(connection: sa.Connection, bounds: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Yield a stretch as it is, or by quarter hours: many rows are sorted sooner where they fit a cache."""
    if int(connection.execute(_COUNT, bounds).scalar_one()) <= _MANY:
        yield bounds
        return
    for low_us in range(bounds["low"], bounds["high"], QUARTER_HOUR_US):
        yield {"low": low_us, "high": low_us + QUARTER_HOUR_US}


_MANY = 4_000  # attempts; some 300 bytes of each are sorted
_WITHIN = (attempts.c.started_us >= sa.bindparam("low"), attempts.c.started_us < sa.bindparam("high"))
_COUNT = sa.select(sa.func.count()).select_from(attempts).where(*_WITHIN)


def _add_attempts(connection: sa.Connection, parts: Sequence[Mapping[str, int]], found: Scanned) -> None:
    query = _by_digests(connection.dialect.name)
    rows = [row for part in parts for row in raw_rows(connection, query, part)]
    undigested = sorted({row[0] for row in rows if row[1] is None or row[2] is None})
    for quarter_hour in undigested:
        found.sums.extend(_by_columns(connection, quarter_hour, found.keys))
    if undigested:
        rows = [row for row in rows if row[0] not in undigested]
    latencies = histograms.from_buckets([row[-2] for row in rows])
    ttfts = histograms.from_times([row[-1] for row in rows])
    found.sums.extend(
        QuarterSums(row[0], (row[1], row[2]), row[3:-2], *both, is_whole=False)
        for row, both in zip(rows, zip(latencies, ttfts, strict=True), strict=True)
    )


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
    """Return the select of quarter hour, pair, `SUM_NAMES`, and latencies and times to first token as texts."""
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
        "retried_settled_micro": _sum(sa.case((table.number > 1, table.settled_micro))),
        "retried_settled_pico": _sum(sa.case((table.number > 1, table.settled_pico))),
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
    keys = (table.quarter_hour, table.start_digest, table.end_digest)
    columns = (*keys, *(sums[name].label(f"s_{name}") for name in SUM_NAMES))
    if dialect_name == "postgresql":
        latencies = sa.func.string_agg(sa.func.chr(table.latency_bucket + histograms.FIRST), "")
        ttfts = sa.func.string_agg(sa.cast(table.ttft_us, sa.Text), ",")
    else:
        # SQLite's char(NULL) is a character; only a NULL is left out.
        sign = sa.case((table.latency_bucket.is_not(None), sa.func.char(table.latency_bucket + histograms.FIRST)))
        latencies = sa.func.group_concat(sign, "")
        ttfts = sa.func.group_concat(table.ttft_us, ",")
    return sa.select(*columns, latencies, ttfts).where(*_WITHIN).group_by(*keys)


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
