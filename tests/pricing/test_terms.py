"""Discount, mark-up, settlement and tax."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, FxTable, PricingError, Terms, Usage, operator_rate, price_call, settle
from pricing.terms import NO_TERMS, settled_steps, terms_from_json, terms_to_json

AT = datetime(2026, 11, 30, tzinfo=UTC)


def test_no_terms_change_nothing() -> None:
    assert settle(Decimal("2.45"), "USD", Terms()) == ("USD", Decimal("2.45"))


def test_a_discount_lowers_what_is_paid() -> None:
    assert settle(Decimal(10), "USD", Terms(discount_share=Decimal("0.15"))) == ("USD", Decimal("8.5"))


def test_discount_comes_before_settlement() -> None:
    terms = Terms(Decimal("0.1"), "CNY", Decimal("7.3"))
    assert settle(Decimal(100), "USD", terms) == ("CNY", Decimal(657))  # 100 × 0.9 × 7.3


def test_what_is_paid_is_rounded_half_even_at_a_picounit() -> None:
    assert settle(Decimal("0.000000000005"), "USD", Terms(Decimal("0.5"))) == ("USD", Decimal("0.000000000002"))


def test_every_term_in_its_place() -> None:
    # 100 USD of list × 0.85 = 85, × 1.05 = 89.25, × 1 = 89.25 CNY, × 1.06 = 94.605 CNY
    terms = Terms(Decimal("0.15"), "CNY", Decimal(1), markup_share=Decimal("0.05"), tax_share=Decimal("0.06"))
    assert settle(Decimal(100), "USD", terms) == ("CNY", Decimal("94.605"))
    assert [(step.name, currency, amount) for step, currency, amount in settled_steps(Decimal(100), "USD", terms)] == [
        ("discount", "USD", Decimal(85)),
        ("mark-up", "USD", Decimal("89.25")),
        ("settlement", "CNY", Decimal("89.25")),
        ("tax", "CNY", Decimal("94.605")),
    ]


def test_a_dollar_of_list_for_a_yuan_is_13_7_per_cent_of_it_at_the_market_rate() -> None:
    market = FxTable(operator=[operator_rate("USD", "CNY", Decimal("7.3"), AT.date())])
    currency, paid = settle(Decimal(1000), "USD", Terms(settlement_currency="CNY", settlement_rate=Decimal(1)))
    dollars = market.convert(paid, currency, "USD", AT.date())
    assert (currency, paid) == ("CNY", Decimal(1000))
    assert dollars == Decimal("136.986301369863")  # 1000 / 7.3; 13.7 % of the list, 86.3 % off
    assert round(dollars / 10, 1) == Decimal("13.7")
    assert 100 - round(dollars / 10, 1) == Decimal("86.3")
    # The same as a settlement in dollars, at a rate with as many digits as one likes.
    in_dollars = Terms(settlement_currency="USD", settlement_rate=Decimal("0.1369863013698630136986301370"))
    assert settle(Decimal(1000), "USD", in_dollars) == ("USD", Decimal("136.986301369863"))


def test_r6_the_model_that_served_is_what_is_paid(catalog: Catalog) -> None:
    # 176 × 0.15 + 1,024 × 0.075 + 20 × 0.60 per million
    usage = Usage(uncached_input_tokens=176, cache_read_tokens=1024, plain_output_tokens=20)
    cost = price_call(usage, catalog.price_set("gpt-4o-mini", "openai", AT), at=AT)
    assert cost.total == Decimal("0.0001152")
    assert settle(Decimal("0.0001152"), "USD") == ("USD", Decimal("0.0001152"))


shares = st.decimals(0, 1, places=6)
all_terms = st.builds(
    Terms,
    discount_share=shares,
    settlement_currency=st.just("CNY"),
    settlement_rate=st.decimals("0.001", 1000, places=9),
    markup_share=shares,
    tax_share=shares,
)


@given(all_terms, st.decimals(0, 10**15, places=12))
def test_law_settled_is_the_exact_product_rounded_once(terms: Terms, listed: Decimal) -> None:
    rate = Fraction(terms.settlement_rate or 1)
    factor = (1 - Fraction(terms.discount_share)) * (1 + Fraction(terms.markup_share)) * rate
    exact = Fraction(listed) * factor * (1 + Fraction(terms.tax_share))
    _, paid = settle(listed, "USD", terms)
    assert Fraction(paid) == Fraction(round(exact * 10**12), 10**12)  # a Fraction rounds half-even
    *_, (_, currency, last) = settled_steps(listed, "USD", terms)
    assert (currency, Fraction(last)) == ("CNY", exact)


@given(all_terms | st.just(NO_TERMS))
def test_law_terms_come_back_from_their_json(terms: Terms) -> None:
    again = terms_from_json(terms_to_json(terms))
    assert (again, again.id) == (terms, terms.id)


@pytest.mark.parametrize("text", ["", "[]", '{"discount_share": "x"}', '{"discount_share": "2"}', '{"strange": "1"}'])
def test_damaged_terms_are_refused(text: str) -> None:
    with pytest.raises(PricingError):
        terms_from_json(text)


@pytest.mark.parametrize(
    ("model", "paid"),
    # S22: 10,000 requests × 500 output tokens = 5M tokens; 5 × the relay's price in USD, sold at one yuan a dollar.
    [
        ("deepseek-v3.2", "2.10"),
        ("gemini-2.5-flash", "12.50"),
        ("moonshot-v1-8k", "6.00"),
        ("claude-sonnet-4.5", "75.00"),
    ],
)
def test_s22_a_relay_that_sells_a_dollar_of_list_for_a_yuan(model: str, paid: str, catalog: Catalog) -> None:
    cost = price_call(Usage(plain_output_tokens=10_000 * 500), catalog.price_set(model, "relay", AT), at=AT)
    assert (cost.status, cost.currency) == ("exact", "USD")
    assert cost.total is not None
    terms = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    assert settle(cost.total, "USD", terms) == ("CNY", Decimal(paid))


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"discount_share": Decimal("1.01")}, "discount_share: 1.01 is not allowed"),
        ({"discount_share": Decimal("-0.1")}, "discount_share: -0.1 is not allowed"),
        ({"discount_share": Decimal("NaN")}, "discount_share: NaN is not allowed"),
        ({"settlement_currency": "CNY"}, "currency and rate are only allowed together"),
        ({"settlement_rate": Decimal(1)}, "currency and rate are only allowed together"),
        ({"settlement_currency": "CNY", "settlement_rate": Decimal(0)}, "settlement rate: 0 is not allowed"),
        ({"settlement_currency": "CNY", "settlement_rate": Decimal(10**10)}, "settlement rate: 10000000000 is not"),
        ({"markup_share": Decimal(15)}, "markup_share: 15 is not allowed; a share of 0 to 10"),
        ({"tax_share": Decimal(19)}, "tax_share: 19 is not allowed"),
        ({"tax_share": Decimal(1) / 3 / 10**4}, "at most 28 decimals"),
        ({"settlement_currency": "RMB", "settlement_rate": Decimal(1)}, "settlement currency: 'RMB' is not allowed"),
    ],
)
def test_terms_no_contract_can_have_are_refused(terms: dict[str, object], said: str) -> None:
    with pytest.raises(PricingError, match=said):
        Terms(**terms)  # type: ignore[arg-type]
