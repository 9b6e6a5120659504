"""Histograms of latencies as bytes in one column: a pair of bucket and count after the other, five bytes each.

In: buckets of `router.ledger.latency`. Out: bytes, and arrays again. Invariant: pairs add up, so histograms are merged
by putting their bytes one behind the other; order and repeated buckets mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from router.errors import LedgerError
from router.ledger.latency import BOUNDS_US, latency_bucket

Whole = NDArray[np.int64]

_PAIR = np.dtype([("bucket", "u1"), ("count", "<u4")])
_BUCKETS = 256  # more than there are latency buckets: a bucket's number fits a byte
_MOST = 2**32 - 1


def packed(owners: Whole, buckets: Whole, counts: Whole, rows: int) -> list[bytes | None]:
    """Return each row's histogram as bytes; None for a row that owns nothing.

    Args:
        owners: for each count the row it belongs to, 0 to `rows` - 1, in any order.
        buckets: for each count its bucket.
        counts: how many latencies fell in that bucket.
        rows: how many rows there are.

    Raises:
        LedgerError: a count is above 2^32 - 1.
    """
    if not len(owners):
        return [None] * rows
    cells, inverse = np.unique(owners * _BUCKETS + buckets, return_inverse=True)
    sums = np.zeros(len(cells), np.int64)
    np.add.at(sums, inverse, counts)
    if sums.max() > _MOST:
        raise LedgerError(f"rollup: {sums.max()} latencies in one bucket; at most {_MOST} can be kept")
    pairs = np.empty(len(cells), _PAIR)
    pairs["bucket"], pairs["count"] = cells % _BUCKETS, sums
    edges = (np.searchsorted(cells, np.arange(rows + 1) * _BUCKETS) * _PAIR.itemsize).tolist()
    text = pairs.tobytes()
    return [text[low:high] or None for low, high in pairwise(edges)]


def unpacked(histograms: Sequence[bytes | None]) -> tuple[Whole, Whole, Whole]:
    """Return owners, buckets and counts of some rows' histograms; see `packed`."""
    lengths = [0 if each is None else len(each) for each in histograms]
    pairs = np.frombuffer(b"".join(each for each in histograms if each), _PAIR)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), np.array(lengths, np.int64) // _PAIR.itemsize)
    return owners, pairs["bucket"].astype(np.int64), pairs["count"].astype(np.int64)


def from_buckets(texts: Sequence[str | None]) -> list[bytes | None]:
    """Return each row's histogram from a text with one character per latency, that of its bucket plus `FIRST`.

    Args:
        texts: for each row a text, or None.
    """
    lengths = np.array([0 if each is None else len(each) for each in texts], np.int64)
    buckets = np.frombuffer("".join(each for each in texts if each).encode("utf-16-le"), "<u2").astype(np.int64) - FIRST
    owners = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    return packed(owners, buckets, np.ones(len(buckets), np.int64), len(texts))


FIRST = 32
"""Code point of bucket 0: the first one that every database can put into a text."""


def from_times(texts: Sequence[str | None]) -> list[bytes | None]:
    """Return each row's histogram from a text of whole microseconds with commas between them.

    Args:
        texts: for each row a text, or None.
    """
    lengths = np.array([0 if each is None else each.count(",") + 1 for each in texts], np.int64)
    if not lengths.any():
        return [None] * len(texts)
    times = np.fromstring(",".join(each for each in texts if each), np.int64, sep=",")
    buckets = np.searchsorted(BOUNDS_US, times, side="right").astype(np.int64)
    owners = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    return packed(owners, buckets, np.ones(len(buckets), np.int64), len(texts))


def from_counts(pairs: Sequence[tuple[int, int]]) -> bytes | None:
    """Return one histogram from buckets and their counts."""
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return packed(np.zeros(len(both), np.int64), both[:, 0], both[:, 1], 1)[0]


def from_timed_counts(pairs: Sequence[tuple[int, int]]) -> bytes | None:
    """Return one histogram from whole microseconds and how often each occurs."""
    return from_counts([(latency_bucket(time_us), count) for time_us, count in pairs])


def merged(histograms: Sequence[bytes | None], owners: Whole, rows: int) -> list[bytes | None]:
    """Return fewer histograms: those of one owner as one.

    Args:
        histograms: to be merged.
        owners: for each the row it becomes part of.
        rows: how many rows there are.
    """
    places, buckets, counts = unpacked(histograms)
    return packed(owners[places], buckets, counts, rows)
