"""Credits drawn down and commitments, by hand and as laws."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Commitment, Credit, PricingError, Spend, draw_credits, shortfall

OCTOBER = date(2026, 10, 1)
NOVEMBER = date(2026, 11, 1)
DECEMBER = date(2026, 12, 1)
RATES = {("CNY", "USD"): Fraction(1, 7), ("USD", "CNY"): Fraction(7)}


def convert(amount: Fraction, base: str, quote: str, _: date) -> Fraction:
    return amount if base == quote else amount * RATES[base, quote]


def spend(day: date, amount: int, currency: str = "USD") -> Spend:
    return Spend(day, currency, Fraction(amount))


def test_a_credit_pays_until_it_is_used_up() -> None:
    held = [Credit("free", "USD", Decimal(10), OCTOBER)]
    draws = draw_credits([spend(OCTOBER, 6), spend(NOVEMBER, 6), spend(DECEMBER, 6)], held, convert)
    assert [(draw.spend, int(draw.taken), int(draw.paid)) for draw in draws] == [(0, 6, 6), (1, 4, 4)]


def test_the_first_to_expire_is_used_first_then_free_before_prepaid() -> None:
    held = [
        Credit("prepaid", "USD", Decimal(5), OCTOBER, DECEMBER),
        Credit("free", "USD", Decimal(5), OCTOBER),
        Credit("free", "USD", Decimal(5), OCTOBER, DECEMBER),
    ]
    draws = draw_credits([spend(OCTOBER, 12)], held, convert)
    assert [(draw.credit, int(draw.paid)) for draw in draws] == [(2, 5), (0, 5), (1, 2)]


def test_a_credit_pays_from_its_first_day_and_no_more_on_the_day_it_expires() -> None:
    held = [Credit("free", "USD", Decimal(100), NOVEMBER, DECEMBER)]
    days = [date(2026, 10, 31), NOVEMBER, date(2026, 11, 30), DECEMBER]
    draws = draw_credits([spend(day, 1) for day in days], held, convert)
    assert [draw.spend for draw in draws] == [1, 2]


def test_a_credit_in_another_currency_pays_at_the_days_rate() -> None:
    held = [Credit("prepaid", "CNY", Decimal(70), OCTOBER)]
    (draw,) = draw_credits([spend(OCTOBER, 30)], held, convert)  # 30 USD are 210 CNY; 70 CNY pay 10 USD of them
    assert (draw.taken, draw.paid) == (Fraction(70), Fraction(10))


def test_a_commitment_that_is_not_reached() -> None:
    tier = Commitment("CNY", Decimal(1000), Decimal("0.2"), OCTOBER, DECEMBER)
    assert shortfall(tier, [spend(OCTOBER, 100), spend(OCTOBER, 50, "CNY")], convert) == 250  # 1000 - 700 - 50
    assert shortfall(tier, [spend(OCTOBER, 200)], convert) == 0
    assert [tier.in_force(datetime(2026, month, 1, tzinfo=UTC)) for month in (9, 10, 11, 12)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Credit("free", "RMB", Decimal(1), OCTOBER), "credit: currency 'RMB' is not allowed"),
        (lambda: Credit("free", "USD", Decimal(0), OCTOBER), "credit: amount 0 is not allowed"),
        (lambda: Credit("free", "USD", Decimal(1), OCTOBER, OCTOBER), "credit: its end 2026-10-01 is not allowed"),
        (lambda: Commitment("USD", Decimal("NaN"), Decimal(0), OCTOBER), "commitment: amount NaN is not allowed"),
        (lambda: Commitment("USD", Decimal(1), Decimal(2), OCTOBER), "commitment: discount_share 2 is not allowed"),
    ],
)
def test_what_no_credit_or_commitment_can_be_is_refused(make: object, said: str) -> None:
    with pytest.raises(PricingError, match=said):
        make()  # type: ignore[operator]


days = st.dates(OCTOBER, DECEMBER)
currencies = st.sampled_from(["USD", "CNY"])
amounts = st.integers(0, 10_000)
credits_held = st.lists(
    st.builds(
        Credit,
        st.sampled_from(["free", "prepaid"]),
        currencies,
        st.decimals("0.01", 1000, places=2),
        st.dates(OCTOBER, NOVEMBER),
        st.none() | st.dates(date(2026, 11, 2), DECEMBER),
    ),
    max_size=4,
)


@given(st.lists(st.builds(spend, days, amounts, currencies), max_size=8), credits_held)
def test_law_no_more_is_drawn_than_was_spent_or_is_held(spends: list[Spend], held: list[Credit]) -> None:
    spends.sort(key=lambda each: each.day)
    draws = draw_credits(spends, held, convert)
    for index, credit in enumerate(held):
        assert sum(draw.taken for draw in draws if draw.credit == index) <= Fraction(credit.amount)
    for index, each in enumerate(spends):
        assert sum(draw.paid for draw in draws if draw.spend == index) <= each.amount
    for draw in draws:
        day, currency = spends[draw.spend].day, spends[draw.spend].currency
        assert held[draw.credit].holds_on(day)
        assert convert(draw.paid, currency, held[draw.credit].currency, day) == draw.taken
