"""The dearest runs of a SQLite ledger, from the costs of attempts that have just been read.

In: a connection, a stretch of time, what its attempts cost. Out: the rows that `rollup_runs.dearest_of_runs` has.
Invariant: a run's cost is that of all its attempts, whenever they were. Which ones these are is said by the index
alone, so that no attempt is looked up a second time, but for those outside of the stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from router.ledger.database import id_batches
from router.ledger.rollup_groups import exact
from router.ledger.rollup_raw import NULL, digits_of
from router.ledger.rollup_runs import DEAREST, about_runs, text_of
from router.ledger.rows import QUARTER_HOUR_US
from router.ledger.tables import attempts, runs

Whole = NDArray[np.int64]

COST = ("rowid", "end_digest", "settled_micro", "settled_pico")
"""What is to be known of an attempt."""

_LOW = (1 << 20) - 1
_MICRO = 1_000_000
_ATTEMPTS_OF_RUNS = f"""
    SELECT CAST(group_concat(char((r.started_us - :low) / {QUARTER_HOUR_US}, r.rowid & {_LOW}, r.rowid >> 20,
        a.rowid & {_LOW}, a.rowid >> 20), '') AS BLOB)
    FROM {runs.name} AS r CROSS JOIN {attempts.name} AS a ON a.run_id = r.run_id
    WHERE r.started_us >= :low AND r.started_us < :high
"""  # noqa: S608 - our own names


def dearest_with(connection: sa.Connection, low_us: int, high_us: int, costs: Whole) -> list[dict[str, Any]] | None:
    """Return the dearest runs that started in each quarter hour of a stretch, for each currency.

    Args:
        connection: to read, of a SQLite database.
        low_us: first instant, microseconds since 1970 UTC.
        high_us: first instant that is not in it any more.
        costs: rows of `COST`, a column for each attempt of the stretch.

    Returns:
        Rows of `dearest_runs` but for the prune; None where attempts have no digests.
    """
    with closing(connection.connection.cursor()) as cursor:
        [(packed,)] = cursor.execute(_ATTEMPTS_OF_RUNS, {"low": low_us, "high": high_us}).fetchall()
        if packed is None:
            return []
        quarter, run_low, run_high, low, high = digits_of(packed, 5).astype(np.int64)
        rowids = low | high << 20
        costs = _with_others(cursor, costs, rowids)
        if (costs[1] == NULL).any():
            return None
        _, ends, micro, pico = costs[:, np.searchsorted(costs[0], rowids)]
        currencies, currency = _currencies(cursor, rowids, ends)
    billed = np.flatnonzero(currency >= 0)
    heads = np.stack([quarter, currency, run_low | run_high << 20])[:, billed]
    heads, sums, counts = _added_up(heads, np.stack([micro, pico])[:, billed])
    sums = np.stack([sums[0] + sums[1] // _MICRO, sums[1] % _MICRO])
    chosen = _chosen(heads, sums)
    first = low_us // QUARTER_HOUR_US
    found = zip(heads[:, chosen].T.tolist(), sums[:, chosen].T.tolist(), counts[chosen].tolist(), strict=True)
    return list(_rows(connection, first, currencies, list(found)))


def _with_others(cursor: Any, costs: Whole, rowids: Whole) -> Whole:
    """Return costs in the order of their row, those of attempts that are not among them added."""
    costs = costs[:, np.argsort(costs[0], kind="stable")]
    at = np.searchsorted(costs[0], rowids)
    at[at == costs.shape[1]] = 0
    others = rowids[costs[0, at] != rowids] if costs.shape[1] else rowids
    if not len(others):
        return costs
    found = [
        tuple(NULL if value is None else value for value in row)
        for some in id_batches(sorted(set(others.tolist())))
        for row in cursor.execute(_COSTS.format(", ".join(map(str, some)))).fetchall()
    ]
    costs = np.concatenate([costs, np.array(found, np.int64).T], axis=1)
    return costs[:, np.argsort(costs[0], kind="stable")]


_COSTS = """
    SELECT rowid, end_digest, ifnull(settled_micro, 0), ifnull(settled_pico, 0) FROM attempts WHERE rowid IN ({})
"""


def _currencies(cursor: Any, rowids: Whole, ends: Whole) -> tuple[Sequence[str], Whole]:
    """Return currencies, and for each attempt the place of its own; -1: it has none.

    An attempt of each digest is looked at: equal ones have the same currency.
    """
    _, samples, inverse = np.unique(ends, return_index=True, return_inverse=True)
    statement = f"SELECT settled_currency FROM {attempts.name} WHERE rowid = ?"  # noqa: S608 - our own names
    named = [cursor.execute(statement, (row,)).fetchone()[0] for row in rowids[samples].tolist()]
    currencies = sorted({name for name in named if name is not None})
    places = [-1 if name is None else currencies.index(name) for name in named]
    return currencies, np.array(places, np.int64)[inverse]


def _added_up(heads: Whole, values: Whole) -> tuple[Whole, Whole, Whole]:
    """Return each head that occurs, the sums of its values, and how many it has."""
    order = np.lexsort(heads[::-1])
    heads, values = heads[:, order], values[:, order]
    is_new = np.ones(heads.shape[1], np.bool_)
    is_new[1:] = (heads[:, 1:] != heads[:, :-1]).any(axis=0)
    edges = np.flatnonzero(is_new)
    if not len(edges):
        return heads, values, edges
    return heads[:, edges], exact(values, edges), np.diff(edges, append=len(order))


def _chosen(heads: Whole, sums: Whole) -> Whole:
    """Return the places of the dearest of each quarter hour and currency; of those that cost the same, all."""
    order = np.lexsort((-sums[1], -sums[0], heads[1], heads[0]))
    group = heads[:2, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (group[:, 1:] != group[:, :-1]).any(axis=0)
    edges = np.flatnonzero(is_new)
    sizes = np.diff(edges, append=len(order))
    last = order[np.repeat(edges + np.minimum(sizes, DEAREST) - 1, sizes)]
    micro, pico = sums[:, order]
    is_dear: NDArray[np.bool_] = (micro > sums[0, last]) | ((micro == sums[0, last]) & (pico >= sums[1, last]))
    chosen: Whole = order[is_dear]
    return chosen


def _rows(
    connection: sa.Connection, first: int, currencies: Sequence[str], found: Sequence[tuple[list[int], list[int], int]]
) -> Iterator[dict[str, Any]]:
    ids = _ids(connection, sorted({head[2] for head, _, _ in found}))
    about = about_runs(connection, sorted(ids.values()))
    named = sorted(
        (quarter, currency, -micro, -pico, ids[run], count) for (quarter, currency, run), (micro, pico), count in found
    )
    kept: dict[tuple[int, int], int] = {}
    for quarter, currency, micro, pico, run_id, count in named:
        nth = kept[quarter, currency] = kept.get((quarter, currency), 0) + 1
        if nth <= DEAREST:
            head = {"quarter_hour": first + quarter, "currency": currencies[currency], **about[run_id]}
            yield {**head, "attempts": count, "settled_micro": -micro, "settled_pico": -pico}


def _ids(connection: sa.Connection, rows: Sequence[int]) -> dict[int, str]:
    """Return the ids of runs, by their rows."""
    with closing(connection.connection.cursor()) as cursor:
        return {
            row: text_of(run_id)
            for some in id_batches(rows)
            for row, run_id in cursor.execute(_RUN_IDS.format(", ".join(map(str, some)))).fetchall()
        }


_RUN_IDS = f"SELECT rowid, run_id FROM {runs.name} WHERE rowid IN ({{}})"  # noqa: S608 - our own names
