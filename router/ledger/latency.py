"""Latencies as buckets of a logarithmic scale, so that percentiles come from counts and no row is ever loaded.

In: whole microseconds. Out: a bucket's number, and from counts per bucket a percentile. Invariant: from 100 µs to a day
a bucket's estimate is within 5 % of every latency in it (bounds grow by at most 1.1, and with the estimate
2·low·high / (low + high) the largest relative error is 0.1 / 2.1 = 4.76 %: Masson, Rim and Lee, DDSketch, VLDB 2019).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

STAGES = ("queue", "network", "inference", "state")
"""Where the time of an attempt goes: our own gates, the wire, the model, the ledger."""
LATENCY_ERROR_SHARE = 0.05
_LOWEST_US = 100
_DAY_US = 86_400_000_000


def _bounds() -> tuple[int, ...]:
    bounds = [_LOWEST_US]
    while bounds[-1] < _DAY_US:
        bounds.append(bounds[-1] * 11 // 10)
    return tuple(bounds)


BOUNDS_US = _bounds()


def latency_bucket(latency_us: int) -> int:
    """Return the number of the bucket a latency falls in: 0 below 100 µs, the last one from a day on.

    Args:
        latency_us: microseconds, 0 or more.
    """
    return bisect_right(BOUNDS_US, latency_us)


def bucket_latency_us(bucket: int) -> int:
    """Return the latency a bucket stands for, in microseconds, within 5 % of every latency in it.

    Args:
        bucket: a number from `latency_bucket`.
    """
    if bucket == 0:
        return _LOWEST_US // 2
    if bucket == len(BOUNDS_US):
        return BOUNDS_US[-1]
    low, high = BOUNDS_US[bucket - 1], BOUNDS_US[bucket]
    return 2 * low * high // (low + high)


def percentile_us(counts: Mapping[int, int], share: float) -> int | None:
    """Return a percentile (nearest rank) from counts per bucket, in microseconds within 5 %; None without counts.

    Args:
        counts: how many latencies fell in each bucket.
        share: 0.5 for the median, 0.95 for p95; above 0 and at most 1.
    """
    total = sum(counts.values())
    rank = max(1, math.ceil(share * total))
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return bucket_latency_us(bucket)
    return None
