"""Latency buckets: within 5 % of every latency, and percentiles by nearest rank."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.ledger.latency import LATENCY_ERROR_SHARE, bucket_latency_us, latency_bucket, percentile_us

DAY_US = 86_400_000_000


@given(st.integers(100, DAY_US))
def test_a_bucket_stands_for_every_latency_in_it_within_the_stated_error(latency_us: int) -> None:
    estimate = bucket_latency_us(latency_bucket(latency_us))
    assert abs(estimate - latency_us) <= LATENCY_ERROR_SHARE * latency_us + 1  # estimates are whole microseconds


@given(st.integers(0, 2 * DAY_US), st.integers(0, 2 * DAY_US))
def test_a_longer_latency_is_never_in_a_lower_bucket(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert latency_bucket(low) <= latency_bucket(high)
    assert bucket_latency_us(latency_bucket(low)) <= bucket_latency_us(latency_bucket(high))


def test_the_lowest_buckets_are_what_the_definition_says() -> None:
    # Bounds 100, 110, 121 µs: below 100 is bucket 0, [100, 110) is 1, [110, 121) is 2.
    assert [latency_bucket(us) for us in (0, 99, 100, 109, 110, 120, 121)] == [0, 0, 1, 1, 2, 2, 3]
    assert bucket_latency_us(1) == 2 * 100 * 110 // 210


@pytest.mark.parametrize(("share", "rank"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_the_nearest_rank(share: float, rank: int) -> None:
    latencies_us = [1_000 * n for n in range(1, 101)]  # 1 ms to 100 ms
    counts = Counter(map(latency_bucket, latencies_us))
    assert percentile_us(counts, share) == pytest.approx(1_000 * rank, rel=LATENCY_ERROR_SHARE)


def test_no_counts_have_no_percentile() -> None:
    assert percentile_us({}, 0.5) is None
