"""Discount and settlement."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pricing import Catalog, PricingError, Terms, Usage, price_call, settle

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
        ({"settlement_currency": "RMB", "settlement_rate": Decimal(1)}, "settlement currency: 'RMB' is not allowed"),
    ],
)
def test_terms_no_contract_can_have_are_refused(terms: dict[str, object], said: str) -> None:
    with pytest.raises(PricingError, match=said):
        Terms(**terms)  # type: ignore[arg-type]
