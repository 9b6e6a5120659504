"""A plain call's cost made ready is what pricing it whole would say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Conditions, PriceRow, PriceSet, Usage, UsageError, price_call
from pricing.plain_cost import plain_tariff

AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)  # a Monday
MakeRow = Callable[..., PriceRow]
MakeSet = Callable[..., PriceSet]
COUNTS = st.integers(0, 400_000) | st.integers(0, 10**12)
AMOUNTS = st.decimals(0, 1000, places=9, allow_nan=False).map(str)


def test_a_call_priced_by_hand(price_set: MakeSet) -> None:
    tariff = plain_tariff(price_set(input="2", output="8"), AT)
    # 11 × 2 + 262 × 8 = 22 + 2,096 = 2,118 per Mtok
    assert tariff.total(11, 262) == Decimal("0.002118")
    assert tariff.total(0, 0) == 0


def test_what_has_no_price_is_not_known_where_it_is_used(price_set: MakeSet) -> None:
    tariff = plain_tariff(price_set(output="8"), AT)
    assert (tariff.total(1, 5), tariff.total(0, 5)) == (None, Decimal("0.00004"))


def test_a_set_that_is_not_in_force_has_no_price(row: MakeRow, price_set: MakeSet) -> None:
    ended = price_set(row("input", "2", effective_to=AT), row("output", "8"))
    assert plain_tariff(ended, AT).total(1, 1) is None
    assert plain_tariff(ended, AT - timedelta(microseconds=1)).total(1, 1) == Decimal("0.00001")


def test_too_many_tokens_to_be_priced_exactly_are_refused(price_set: MakeSet) -> None:
    with pytest.raises(UsageError, match="cannot be priced exactly"):
        plain_tariff(price_set(input="0.123456789", output="8"), AT).total(10**60 + 1, 0)


@given(
    amounts=st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS),
    has=st.tuples(*[st.booleans()] * 4),
    boundary=st.sampled_from([200_000, 199_999]),
    counts=st.tuples(COUNTS, COUNTS),
    minutes=st.integers(0, 14 * 24 * 60),
)
def test_law_a_plain_tariff_and_price_call_agree(
    row: MakeRow,
    price_set: MakeSet,
    amounts: tuple[str, str, str, str],
    has: tuple[bool, bool, bool, bool],
    boundary: int,
    counts: tuple[int, int],
    minutes: int,
) -> None:
    dear = Conditions(above_input_tokens=boundary)
    night = Conditions(weekdays=(1, 2), windows_utc=((60, 600),))
    kinds: tuple[tuple[str, dict[str, Conditions]], ...] = (
        ("input", {}),
        ("output", {}),
        ("input", {"conditions": dear}),
        ("output", {"conditions": night}),
    )
    rows = [
        row(component, amount, **more)
        for (component, more), amount, is_there in zip(kinds, amounts, has, strict=True)
        if is_there
    ]
    prices, at = price_set(*rows), AT + timedelta(minutes=minutes)
    whole = price_call(Usage(uncached_input_tokens=counts[0], plain_output_tokens=counts[1]), prices, at=at)

    total = plain_tariff(prices, at).total(*counts)

    assert str(total) == str(whole.total if whole.status == "exact" else None)  # to the last digit, zeros included
