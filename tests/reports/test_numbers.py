"""How a cell is written: digits, separators, signs, and nothing that is not zero shown as zero."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.page import Cell, Kind, Money
from reports.render.numbers import decimal_text, format_amount, format_cell, printable


@pytest.mark.parametrize(
    ("value", "currency", "shown"),
    [
        ("25.6", "USD", "25.60"),
        ("0", "USD", "0.00"),
        ("184/75", "USD", "2.4533"),  # 2.45333…
        ("124/3", "USD", "41.3333"),
        ("322.564030", "USD", "322.564030"),  # exact within six decimals
        ("0.0001152", "USD", "0.000115"),  # three figures of what is not
        ("0.000000000435", "USD", "0.000000000435"),
        ("1234567.891", "USD", "1,234,567.89"),
        ("-23.1467", "USD", "−23.1467"),
        ("-1/3000000", "USD", "−0.000000333"),
        ("50960.3", "JPY", "50,960"),
        ("65.1219", "JPY", "65.1219"),
        ("200/3", "JPY", "66.67"),
        ("0.0025", "JPY", "0.0025"),
        ("75", "CNY", "75.00"),
        ("0.000435", "CNY", "0.000435"),
        ("0.0000000001", "CNY", "0.000000000100"),  # never 0.00
        ("0.000435", "JPY", "0.000435"),
        ("0.0000001152", "JPY", "0.000000115"),
        ("0.0001152", "KWD", "0.0001152"),  # exact within seven
        ("0.000000000001", "KWD", "0.00000000000100"),
        ("1.2345", "KWD", "1.23450"),  # three digits, then five
        ("999999999999999999999999999999.01", "USD", "999,999,999,999,999,999,999,999,999,999.01"),
    ],
)
def test_amounts_have_their_currencys_digits_and_more_where_those_hide_something(
    value: str, currency: str, shown: str
) -> None:
    assert format_amount(Fraction(value), currency) == shown


@pytest.mark.parametrize(
    ("cell", "kind", "shown"),
    [
        (None, "money", "–"),
        (None, "text", "–"),
        (0, "count", "0"),
        (12_031, "count", "12,031"),
        (Fraction(1_600_000, 3), "tokens", "533,333.3"),
        (Fraction(687_008), "tokens", "687,008"),
        (Money(Fraction(2), "USD"), "money", "2.00"),
        (Money(Fraction(2), "USD", lower_bound=True), "money", "≥ 2.00"),
        (Money(Fraction("0.028"), "USD"), "rate", "0.0280 USD"),
        (Money(Fraction("0.00011520"), "USD"), "exact", "0.0001152"),
        (Money(Fraction("-2.5"), "USD", lower_bound=True), "exact", "≥ −2.5"),
        (Money(Fraction("175.68"), "JPY"), "exchange_rate", "175.680 JPY"),
        (Money(Fraction("0.00004"), "USD"), "exchange_rate", "0.0000400000 USD"),
        (Fraction(1), "share", "100.0 %"),
        (Fraction(0), "share", "0.0 %"),
        (Fraction(9999, 10_000), "share", "99.99 %"),  # not 100.0
        (Fraction(1, 100_000), "share", "0.001 %"),  # not 0.0
        (Fraction("-0.904166"), "change", "−90.4 %"),
        (Fraction("0.614583"), "change", "+61.5 %"),
        (Fraction(0), "change", "0.0 %"),
        (Fraction("34.714"), "change", "+3,471.4 %"),
        (Fraction(1820), "duration_ms", "1,820"),
        (Fraction("38.04"), "duration_ms", "38.0"),
        (Fraction("0.0412"), "duration_ms", "0.041"),
        (Fraction(0), "duration_ms", "0"),
        ("a\x1b[31mb\nc", "text", "a?[31mb?c"),
    ],
)
def test_cells(cell: Cell, kind: Kind, shown: str) -> None:
    assert format_cell(cell, kind) == shown


@pytest.mark.parametrize(
    ("value", "text", "exact"),
    [
        ("25.6", "25.6", True),
        ("0", "0", True),
        ("-0.0000001", "-0.0000001", True),
        ("1e20", "100000000000000000000", True),
        ("184/75", "2.453333333333", False),
        ("-2/3", "-0.666666666667", False),
        ("1/1024", "0.0009765625", True),
    ],
)
def test_decimal_strings_are_exact_where_they_can_be(value: str, text: str, exact: bool) -> None:  # noqa: FBT001  # a table
    assert decimal_text(Fraction(value)) == (text, exact)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**15), max_value=10**15))
def test_law_a_decimal_comes_back_from_its_string(value: Decimal) -> None:
    text, exact = decimal_text(Fraction(value))
    assert exact
    assert Decimal(text) == value
    assert "e" not in text.lower()


@given(st.fractions(min_value=-(10**9), max_value=10**9).filter(bool), st.sampled_from(["USD", "JPY", "KWD"]))
def test_law_what_is_not_zero_is_never_written_as_zero_and_is_within_a_hundredth(
    value: Fraction, currency: str
) -> None:
    shown = Fraction(format_amount(value, currency).replace(",", "").replace("−", "-"))
    assert shown != 0
    assert (shown < 0) == (value < 0)
    assert abs(shown - value) <= abs(value) / 100


def test_printable_leaves_letters_of_every_script() -> None:
    assert printable("größe 模型 🚀") == "größe 模型 🚀"
