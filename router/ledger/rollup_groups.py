"""Attempts added up by quarter hour and key, in memory.

In: chunks of `rollup_raw`. Out: sums and histograms of each group. Invariant: sums are whole numbers and exact; one
that 64 bits cannot hold is an error. What hangs on the status is left to the key (`rollup_scan.with_status`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.errors import LedgerError
from router.ledger import histograms
from router.ledger.latency import BOUNDS_US
from router.ledger.rollup_raw import COLUMNS, COUNTED_BY, HEADS, NULL
from router.ledger.sums import SUM_NAMES, SUMMED

Whole = NDArray[np.int64]

_PLACE = {name: at for at, name in enumerate(COLUMNS)}
_SUM = {name: at for at, name in enumerate(SUM_NAMES)}
_ALL_ROWS = [_SUM[name] for name in ("records", "attempts", "requests")]
_COUNTED = [_PLACE[name] for name in COUNTED_BY.values()]
_COUNTS = [_SUM[name] for name in COUNTED_BY]
_UNKNOWN = [_SUM[name] for name in ("usage_unknown", "cost_unknown")]
_ADDED = {_SUM[name]: _PLACE[name] for name in SUMMED} | {
    _SUM[f"unsettled_usd_{part}"]: _PLACE[f"reserved_usd_{part}"] for part in ("micro", "pico")
}
_RETRIED = [_SUM[f"retried_settled_{part}"] for part in ("micro", "pico")]
_SETTLED = [_PLACE[f"settled_{part}"] for part in ("micro", "pico")]
_MIX = (0x2545F4914F6CDD1D, 0x1B873593CC9E2D51)  # any odd numbers


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """What attempts add up to, a group at each place.

    Args:
        heads: rows of quarter hour and both digests.
        sums: rows in the order of `SUM_NAMES`.
        latencies, ttfts: histograms.
    """

    heads: Whole
    sums: Whole
    latencies: Sequence[bytes | None]
    ttfts: Sequence[bytes | None]


def grouped(chunks: Iterable[Whole]) -> Groups:
    """Return attempts added up by `HEADS`.

    Args:
        chunks: tables of `COLUMNS`, as `raw_attempts` yields them.

    Raises:
        LedgerError: a sum is beyond 64 bits.
    """
    found = Groups(np.empty((0, len(HEADS)), np.int64), np.empty((0, len(SUM_NAMES)), np.int64), [], [])
    for table in chunks:
        some = _of_chunk(table)
        found = _together(found, some) if len(found.heads) else some
    return found


def _of_chunk(table: Whole) -> Groups:
    heads, order, edges = _partition(table[: len(HEADS)])
    table = table[:, order]
    sizes = np.diff(edges, append=table.shape[1])
    owners = np.repeat(np.arange(len(edges)), sizes)
    has_latency = table[_PLACE["latency_bucket"]] != NULL
    has_ttft = table[_PLACE["ttft_us"]] != NULL
    buckets = table[_PLACE["latency_bucket"], has_latency]
    ttfts = np.searchsorted(BOUNDS_US, table[_PLACE["ttft_us"], has_ttft], side="right")
    latencies = histograms.counted(owners[has_latency], buckets, len(edges))
    return Groups(heads, _sums(table, edges, sizes), latencies, histograms.counted(owners[has_ttft], ttfts, len(edges)))


def _sums(table: Whole, edges: Whole, sizes: Whole) -> Whole:
    """Return the sums of groups of attempts, which follow each other; NULL becomes 0 in the table."""
    found = np.zeros((len(SUM_NAMES), len(edges)), np.int64)
    found[_ALL_ROWS] = sizes
    is_known = table[_COUNTED] != NULL
    found[_COUNTS] = np.add.reduceat(is_known, edges, axis=1, dtype=np.int64)
    found[_UNKNOWN] = sizes - found[_UNKNOWN]
    table[_COUNTED] *= is_known
    number = table[_PLACE["number"]]
    found[_SUM["calls"]] = np.add.reduceat(number == 1, edges, dtype=np.int64)
    found[_RETRIED] = exact(table[_SETTLED] * (number > 1), edges)
    found[list(_ADDED)] = exact(table[list(_ADDED.values())], edges)
    return found.T


def exact(table: Whole, edges: Whole) -> Whole:
    """Return the sums of columns that follow each other, from one edge to the next.

    Raises:
        LedgerError: a sum is beyond 64 bits.
    """
    most = max(int(table.max(initial=0)), -int(table.min(initial=0)))
    if most * table.shape[1] < 2**63:
        return np.add.reduceat(table, edges, axis=1)
    sums = np.add.reduceat(table.astype(object), edges, axis=1)
    try:
        return sums.astype(np.int64)
    except OverflowError:
        raise LedgerError("rollup: a sum of a quarter hour is beyond 64 bits; it cannot be kept") from None


def _partition(heads: Whole) -> tuple[Whole, Whole, Whole]:
    """Return each group's head as a row, an order in which groups follow each other, and where each begins in it."""
    # Heads that differ come together by chance as seldom as digests do.
    order = np.argsort((heads[1] * _MIX[0] + heads[2]) * _MIX[1] + heads[0])
    ordered = heads[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    edges = np.flatnonzero(is_new)
    return ordered[:, edges].T, order, edges


def _together(one: Groups, other: Groups) -> Groups:
    heads, order, edges = _partition(np.concatenate([one.heads, other.heads]).T)
    sums = exact(np.concatenate([one.sums, other.sums])[order].T, edges).T
    owners = np.empty(len(order), np.int64)
    owners[order] = np.repeat(np.arange(len(edges)), np.diff(edges, append=len(order)))
    pairs = ((one.latencies, other.latencies), (one.ttfts, other.ttfts))
    return Groups(heads, sums, *(histograms.merged([*first, *second], owners, len(edges)) for first, second in pairs))
