"""Rates of portions, and sums of exact numbers: the same as one call's lines, and as adding one after the other."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, Usage, price_call
from pricing.usage import INPUT_BUCKETS
from reports.exact import exact_sum, known_sum
from reports.rate_cards import CACHED_BUCKETS, by_bucket, quote_of

AT = datetime(2026, 10, 5, 3, tzinfo=UTC)


@pytest.mark.parametrize("input_tokens", [1, 128_000, 200_000, 200_001])
def test_law_a_bucket_s_rate_is_that_of_a_call_that_used_it(catalog: Catalog, input_tokens: int) -> None:
    for price_list in catalog.lists:
        for model in catalog.models(price_list):
            prices = catalog.price_set(model, price_list, AT, last_list=True)
            quote = None if prices is None else quote_of(prices, input_tokens, AT)
            if prices is None or quote is None:
                continue
            for bucket, rate in by_bucket(quote).items():
                # An input bucket's own token is a part of the input, which decides about the context tier.
                rest = input_tokens - (bucket in INPUT_BUCKETS)
                used = {"uncached_input_tokens": rest} | {bucket: 1}
                if bucket == "uncached_input_tokens":
                    used = {bucket: input_tokens}
                lines = {line.component: line.unit_amount for line in price_call(Usage(**used), prices, at=AT).lines}
                assert lines[rate.component] == rate.unit_amount, (price_list, model, bucket)
            plain = by_bucket(quote, uncached=True)
            assert all(plain[bucket] == plain["uncached_input_tokens"] for bucket in CACHED_BUCKETS)


@given(st.lists(st.fractions() | st.integers()))
def test_law_a_sum_is_what_adding_one_after_the_other_gives(values: list[Fraction | int]) -> None:
    assert exact_sum(values) == sum(values, Fraction(0))


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert known_sum([Fraction(1, 3), Fraction(1, 6), Fraction(1)]) == Fraction(3, 2)
    assert known_sum([Fraction(1, 3), None]) is None
    assert known_sum([]) == 0
