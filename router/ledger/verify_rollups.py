"""Sums of the rollups against the raw rows they are of, and against each other.

In: a connection, quarter hours of one UTC day. Out: each difference. Invariant: the raw rows are added up by the plain
statements of `queries`, never by what made the rollups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from router.ledger import histograms, queries
from router.ledger.latency import latency_bucket
from router.ledger.rollup_runs import counts_of_runs, dearest_of_runs
from router.ledger.rollup_tables import WIDTHS, attempts_rollup, dearest_runs, rollup_keys, runs_rollup
from router.ledger.rollups import DAY
from router.ledger.rows import DAY_US, QUARTER_HOUR_US
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES
from router.ledger.tables import attempts, runs, usage_buckets

Difference = tuple[str, str, str]
_Key = tuple[Any, ...]
_Sums = dict[_Key, Counter[str]]


def days_with_rows(connection: sa.Connection, first: int, past: int) -> tuple[int, ...]:
    """Return the UTC days of a span that have raw rows or sums, in order; one index look-up a day and table."""
    found: list[int] = []
    at = first
    while True:
        starts = (
            (sa.select(sa.func.min(attempts.c.started_us)).where(attempts.c.started_us >= at * QUARTER_HOUR_US), True),
            (sa.select(sa.func.min(runs.c.started_us)).where(runs.c.started_us >= at * QUARTER_HOUR_US), True),
            (
                sa.select(sa.func.min(usage_buckets.c.start_us)).where(
                    usage_buckets.c.start_us >= at * QUARTER_HOUR_US
                ),
                True,
            ),
            (
                sa.select(sa.func.min(attempts_rollup.c.quarter_hour)).where(
                    attempts_rollup.c.width == 1, attempts_rollup.c.quarter_hour >= at
                ),
                False,
            ),
        )
        days = []
        for query, is_us in starts:
            value = connection.execute(query).scalar()
            if value is not None:
                days.append(int(value) // (DAY_US if is_us else DAY))
        if not days or min(days) * DAY >= past:
            return tuple(found)
        found.append(min(days))
        at = (found[-1] + 1) * DAY


def rollup_differences(
    connection: sa.Connection, first: int, past: int, left_out: Collection[int] = ()
) -> tuple[int, int, list[Difference]]:
    """Return quarter hours checked, rows of pruned attempts met, and each difference, of a part of one UTC day.

    Args:
        connection: to read.
        first: first quarter hour.
        past: the one after the last.
        left_out: quarter hours that have not been added up since they were written, and are not compared.
    """
    raw = _without(_raw(connection, first, past), left_out)
    stored, pruned = _stored(connection, first, past)
    stored = _without(stored, left_out)
    found = list(_differing(stored, raw, "of raw rows"))
    if past - first == DAY:
        found.extend(_widths(connection, first))
    found.extend(_runs(connection, first, past, left_out))
    return len({key[0] for key in (*raw, *stored)}), pruned, found


def _without(sums: _Sums, left_out: Collection[int]) -> _Sums:
    return {key: counts for key, counts in sums.items() if key[0] not in left_out} if left_out else sums


def _raw(connection: sa.Connection, first: int, past: int) -> _Sums:
    span = (first * QUARTER_HOUR_US, past * QUARTER_HOUR_US)
    by = ("quarter_hour", *KEY_COLUMNS)
    found: _Sums = {}
    for query in (queries.attempt_groups(*span, by), queries.bucket_groups(*span, by)):
        for row in connection.execute(query):
            sums = {name: int(value or 0) for name, value in zip(SUM_NAMES, row[len(by) :], strict=True)}
            found[tuple(row[: len(by)])] = Counter(sums)
    for column, name in (("latency_bucket", "latency"), ("ttft_us", "ttft")):
        for *key, value, count in connection.execute(queries.latency_counts(*span, by, column)):
            bucket = value if name == "latency" else latency_bucket(value)
            found[tuple(key)][f"{name} in bucket {bucket}"] += count
    return found


def _stored(connection: sa.Connection, first: int, past: int) -> tuple[_Sums, int]:
    table = attempts_rollup.c
    names = ("quarter_hour", "prune_id", "latencies", "ttfts", *SUM_NAMES)
    columns = (*(table[name] for name in names), *(rollup_keys.c[name] for name in KEY_COLUMNS))
    joined = attempts_rollup.join(rollup_keys, rollup_keys.c.key_id == table.key_id)
    within = (table.width == 1, table.quarter_hour >= first, table.quarter_hour < past)
    found: _Sums = {}
    pruned = 0
    for row in connection.execute(sa.select(*columns).select_from(joined).where(*within)):
        if row.prune_id:
            pruned += 1
            continue
        sums = found.setdefault((row.quarter_hour, *row[len(names) :]), Counter())
        sums.update(dict(zip(SUM_NAMES, row[4 : len(names)], strict=True)))
        for name, packed in (("latency", row.latencies), ("ttft", row.ttfts)):
            _, buckets, counts = histograms.unpacked([packed])
            for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
                sums[f"{name} in bucket {bucket}"] += count
    return found, pruned


def _widths(connection: sa.Connection, first: int) -> Iterator[Difference]:
    """Yield where wider rows of a whole day are not what its quarter hours add up to."""
    table = attempts_rollup.c
    sums = [sa.func.sum(table[name]) for name in SUM_NAMES]
    by_width: dict[int, Mapping[_Key, Counter[str]]] = {}
    for width in WIDTHS:
        within = (table.width == width, table.quarter_hour >= first, table.quarter_hour < first + DAY)
        rows = connection.execute(sa.select(table.key_id, *sums).where(*within).group_by(table.key_id))
        by_width[width] = {
            (first, f"key {row[0]}"): Counter(dict(zip(SUM_NAMES, map(int, row[1:]), strict=True))) for row in rows
        }
    for width in WIDTHS[1:]:
        yield from _differing(by_width[width], by_width[1], f"of rows of {width} quarter hours")


def _runs(connection: sa.Connection, first: int, past: int, left_out: Collection[int]) -> Iterator[Difference]:
    bounds = {"low": first * QUARTER_HOUR_US, "high": past * QUARTER_HOUR_US}
    table = runs_rollup.c
    keys = ("quarter_hour", "configuration", "task_class", "tenant", "tags_id", "status")
    within = (table.width == 1, table.prune_id == 0, table.quarter_hour >= first, table.quarter_hour < past)
    stored: _Sums = {}
    for row in connection.execute(sa.select(*(table[name] for name in keys), table.runs).where(*within)):
        stored.setdefault(tuple(row[:-1]), Counter())["runs"] += row[-1]
    derived: _Sums = {}
    for counted in counts_of_runs(connection, bounds, {}):
        derived.setdefault(tuple(counted[name] for name in keys), Counter())["runs"] += counted["runs"]
    yield from _differing(_without(stored, left_out), _without(derived, left_out), "of runs")
    names = ("quarter_hour", "currency", "run_id", "attempts", "settled_micro", "settled_pico")
    dear = dearest_runs.c
    kept = (dear.prune_id == 0, dear.quarter_hour >= first, dear.quarter_hour < past)
    rows = {tuple(row) for row in connection.execute(sa.select(*(dear[name] for name in names)).where(*kept))}
    for each in sorted(
        rows ^ {tuple(found[name] for name in names) for found in dearest_of_runs(connection, [bounds])}
    ):
        if each[0] in left_out:
            continue
        said, other = ("among the dearest", "not") if each in rows else ("not among the dearest", "it is")
        yield _where(each[0]), f"run {each[2]}: {said}", other


def _differing(
    stored: Mapping[_Key, Counter[str]], derived: Mapping[_Key, Counter[str]], of: str
) -> Iterator[Difference]:
    for key in sorted({*stored, *derived}, key=str):
        one, other = stored.get(key, Counter()), derived.get(key, Counter())
        names = [name for name in {**one, **other} if one[name] != other[name]]
        if names:
            what = f"{names[0]} {of}, {_named(key[1:])}"
            yield _where(key[0]), f"{one[names[0]]} ({what})", str(other[names[0]])


def _named(key: Sequence[Any]) -> str:
    return " ".join(str(value) for value in key if value is not None)[:200]


def _where(quarter_hour: int) -> str:
    from datetime import UTC, datetime, timedelta

    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * quarter_hour)
    return f"{at:%Y-%m-%dT%H:%MZ}"
