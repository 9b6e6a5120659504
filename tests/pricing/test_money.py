"""Exact amounts: two integers and back, plain text, currency codes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.money import is_currency, join_amount, plain, round_amount, split_amount

amounts = st.decimals(min_value=0, max_value=10**12, places=12, allow_nan=False)


@pytest.mark.parametrize(
    ("amount", "micro", "pico"),
    [
        ("0", 0, 0),
        ("1", 1_000_000, 0),
        ("0.0000694", 69, 400_000),  # 69.4 millionths
        ("0.000000000001", 0, 1),
        ("0.0000000000005", 0, 0),  # half-even: 0.5 pico is 0
        ("0.0000000000015", 0, 2),  # half-even: 1.5 pico are 2
        ("0.9999999999995", 1_000_000, 0),  # the carry reaches the micro part
        ("322.564030", 322_564_030, 0),
        ("123456789012345678.000000000001", 123_456_789_012_345_678_000_000, 1),
    ],
)
def test_split_amount_floors_micro_and_rounds_half_even(amount: str, micro: int, pico: int) -> None:
    assert split_amount(Decimal(amount)) == (micro, pico)


@given(amounts)
def test_law_join_undoes_split(amount: Decimal) -> None:
    micro, pico = split_amount(amount)
    assert join_amount(micro, pico) == amount
    assert 0 <= pico < 1_000_000


@given(st.lists(amounts, max_size=20))
def test_law_sums_of_parts_join_to_the_sum(found: list[Decimal]) -> None:
    parts = [split_amount(amount) for amount in found]
    joined = join_amount(sum(micro for micro, _ in parts), sum(pico for _, pico in parts))
    assert joined == sum(found, Decimal(0))


@pytest.mark.parametrize("amount", ["-0.000001", "NaN", "Infinity"])
def test_what_no_column_can_hold_is_refused(amount: str) -> None:
    with pytest.raises(ValueError, match="0 or more is allowed"):
        split_amount(Decimal(amount))


@pytest.mark.parametrize(
    ("amount", "text"),
    [("2.4500", "2.45"), ("1E+3", "1000"), ("1e-7", "0.0000001"), ("0.000", "0"), ("-0.0", "0"), ("-1.50", "-1.5")],
)
def test_plain_has_no_exponent_and_no_trailing_zeros(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text


def test_round_amount_is_half_even_at_twelve_decimals() -> None:
    assert round_amount(Decimal("0.0000000000025")) == Decimal("0.000000000002")


@pytest.mark.parametrize("code", ["USD", "CNY", "JPY", "EUR", "CHF", "KRW"])
def test_iso_codes_are_currencies(code: str) -> None:
    assert is_currency(code)


@pytest.mark.parametrize("code", ["¥", "usd", "RMB", "", "US", "USDT", "ZZZ"])
def test_other_texts_are_not(code: str) -> None:
    assert not is_currency(code)
