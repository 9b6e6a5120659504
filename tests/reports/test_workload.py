"""Totals given by hand, splits by calls, and the mean request that stands for a group."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Usage, context_tier
from pricing.usage import BUCKETS, INPUT_BUCKETS
from reports.workload import Split, mean_size, portion_of, quantity, split_of, split_portion, totals_by_hand
from router.errors import WrongUsage

AT = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8M", 8_000_000),
        ("3.2M", 3_200_000),
        ("500k", 500_000),
        ("0.5K", 500),
        ("1g", 1_000_000_000),
        ("8_000_000", 8_000_000),
        ("8,000,000", 8_000_000),
        ("0", 0),
        (" 12 ", 12),
    ],
)
def test_quantities(text: str, number: int) -> None:
    assert quantity(text, "--input-tokens") == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "0.0001k", "8 M M", "1e6", "M", "nan", "2e400", "10000000000G", "٣"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match=r"--input-tokens: .* is not allowed; a whole number from 0 to 1e18"):
        quantity(text, "--input-tokens")


def test_a_split_is_two_whole_numbers() -> None:
    assert split_of("1:5") == Split(1, 5)
    assert split_of("0:1").shares() == {"worker": Fraction(1)}
    for text in ("1", "1:", "0:0", "-1:5", "1:5:2", "1/5"):
        with pytest.raises(WrongUsage, match=r"--calls: .* ORCHESTRATOR:WORKER is"):
            split_of(text)


def test_totals_by_hand_are_split_as_the_calls_are() -> None:
    parts = totals_by_hand(
        input_tokens=8_000_000, cached_tokens=2_000_000, output_tokens=3_200_000, at=AT, split=Split(1, 5)
    )
    assert [part.role for part in parts] == ["orchestrator", "worker"]
    assert parts[0].tokens == {
        "uncached_input_tokens": Fraction(1_000_000),
        "cache_read_tokens": Fraction(1_000_000, 3),
        "plain_output_tokens": Fraction(1_600_000, 3),
    }
    assert parts[1].tokens["plain_output_tokens"] == Fraction(8_000_000, 3)


def test_with_requests_the_tokens_are_those_of_each() -> None:
    (part,) = totals_by_hand(input_tokens=0, cached_tokens=0, output_tokens=500, at=AT, requests=10_000)
    assert part.tokens == {"plain_output_tokens": Fraction(5_000_000)}
    assert part.size == Usage(plain_output_tokens=500)


def test_more_cached_than_goes_in_is_refused() -> None:
    with pytest.raises(WrongUsage, match="--cached-tokens: 11 is more than --input-tokens, 10"):
        totals_by_hand(input_tokens=10, cached_tokens=11, output_tokens=0, at=AT)


COUNTS = st.lists(
    st.builds(
        Usage, **{name: st.integers(0, 300_000) if name in INPUT_BUCKETS else st.integers(0, 9_000) for name in BUCKETS}
    ),
    min_size=1,
    max_size=8,
)


@given(COUNTS)
def test_law_the_mean_request_is_in_the_tier_of_every_request_of_its_group(requests: list[Usage]) -> None:
    tier = context_tier(requests[0].input_tokens)
    group = [request for request in requests if context_tier(request.input_tokens) == tier]
    counts = {name: sum(getattr(request, name) for request in group) for name in BUCKETS}
    size = mean_size(counts, len(group))
    used = sum(bool(counts[name]) for name in INPUT_BUCKETS)
    if size.input_tokens > used:  # below that every bucket has its one token, in the lowest tier
        assert context_tier(size.input_tokens) == tier
    assert {name for name in BUCKETS if counts[name]} == {name for name in BUCKETS if getattr(size, name)}


def test_a_mean_that_rounding_would_bring_below_a_threshold_stays_above_it() -> None:
    # Two requests of 200,001 input tokens: the means of their halves are 100,000.5 each.
    counts = {"uncached_input_tokens": 200_001, "cache_read_tokens": 200_001}
    assert mean_size(counts, 2).input_tokens == 200_001


@given(COUNTS, st.integers(0, 9), st.integers(1, 9))
def test_law_splitting_keeps_every_token(requests: list[Usage], orchestrator: int, worker: int) -> None:
    counts = {name: sum(getattr(request, name) for request in requests) for name in BUCKETS}
    whole = portion_of(counts, len(requests), role=None, task_class=None, at=AT)
    parts = split_portion(whole, Split(orchestrator, worker))
    for name in BUCKETS:
        assert sum(part.tokens.get(name, Fraction(0)) for part in parts) == counts[name]


@pytest.mark.parametrize(("requests", "is_sized", "known"), [(None, True, None), (0, True, None), (4, False, 4)])
def test_where_sizes_are_not_known_no_context_tier_is_reached(
    requests: int | None, known: int | None, *, is_sized: bool
) -> None:
    found = portion_of({"uncached_input_tokens": 5_000_000, "records": 3}, requests, at=AT, is_sized=is_sized)
    assert found.size == Usage(uncached_input_tokens=1)
    assert found.requests == known
    assert dict(found.tokens) == {"uncached_input_tokens": 5_000_000}
