"""How one cell is written: digits, separators, signs.

In: an exact cell and its kind. Out: text for people, or a decimal string for machines.
Invariant: all rounding of a page happens here; what is not zero is never written as zero, and unknown is `–`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

from reports.page import Cell, Kind, Money

UNKNOWN = "–"
MINUS = "−"
AT_LEAST = "≥"
_MULTIPLES = (("M", 10**6), ("k", 10**3))
PLACES_STORED = 12
"""Decimal places of an amount that has no finite decimal form, in JSON and CSV: those of the ledger."""


def format_cell(cell: Cell, kind: Kind) -> str:
    """Return a cell as people read it.

    Args:
        cell: the value; None is unknown.
        kind: how it is shown. A text in a numeric column stands as it is.
    """
    if cell is None:
        return UNKNOWN
    if isinstance(cell, Money):
        bound = f"{AT_LEAST} " if cell.lower_bound else ""
        if kind == "exact":
            return bound + decimal_text(cell.value)[0].replace("-", MINUS)
        code = f" {cell.currency}" if kind in ("rate", "exchange_rate") else ""
        if kind == "exchange_rate":
            return _grouped(cell.value, _places_for_figures(cell.value, 6)) + code
        return bound + format_amount(cell.value, cell.currency) + code
    if isinstance(cell, str):
        return printable(cell)
    if kind in ("share", "change"):
        return format_percent(Fraction(cell), signed=kind == "change")
    if kind == "duration_ms":
        return format_duration_ms(Fraction(cell))
    return _grouped(Fraction(cell), 0 if Fraction(cell).denominator == 1 else 1)


def format_brief(cell: Cell, kind: Kind) -> str:
    """Return a cell as it stands beside a bar or above a page: money of 1 or more with its currency's digits alone.

    Args:
        cell: the value; None is unknown.
        kind: how it is shown.
    """
    if not isinstance(cell, Money) or kind not in ("money", "exact"):
        return format_cell(cell, kind)
    if abs(cell.value) < 1:
        return f"{format_cell(cell, 'money')} {cell.currency}"
    bound = f"{AT_LEAST} " if cell.lower_bound else ""
    return f"{bound}{_grouped(cell.value, currency_digits(cell.currency))} {cell.currency}"


def format_amount(value: Fraction, currency: str) -> str:
    """Return an amount with its currency's digits (USD 2, JPY 0), and more where those would hide something.

    An amount that is exact at the currency's digits is shown with those. Any other is shown exactly where four more
    digits suffice, else with two more, below 10^(2 + digits); a tiny one with as many as show three of its figures.

    Args:
        value: the amount in units of the currency.
        currency: ISO 4217 code.
    """
    digits = currency_digits(currency)
    if _is_exact(value, digits) or abs(value) >= 10 ** (2 + digits):
        return _grouped(value, digits)
    if _is_exact(value, digits + 4):
        return _grouped(value, _least_places(value, digits, digits + 4))
    return _grouped(value, max(digits + 2, _places_for_figures(value, 3)))


def format_percent(share: Fraction, *, signed: bool = False) -> str:
    """Return a share as per cent with one decimal, more where that would read 0 or 100 and is not.

    Args:
        share: the share; 1 is 100 %.
        signed: whether a positive one carries its plus sign.
    """
    percent = share * 100
    places = next((n for n in range(1, 7) if round(percent, n) not in (0, 100) or percent in (0, 100)), 6)
    sign = "+" if signed and percent > 0 else ""
    return f"{sign}{_grouped(percent, places)} %"


def format_duration_ms(value: Fraction) -> str:
    """Return milliseconds with three figures, at most three decimals, and no decimals from 100 ms on."""
    return _grouped(value, min(3, max(0, _places_for_figures(value, 3))))


def format_marks(marks: Sequence[Fraction], kind: Kind) -> list[str]:
    """Return the round numbers of an axis with equally many decimals, from ten thousand on in k or M.

    Args:
        marks: multiples of one step that is 1, 2 or 5 times a power of ten.
        kind: what they measure.
    """
    if kind in ("share", "change"):
        return [f"{text} %" for text in _even([mark * 100 for mark in marks])]
    greatest = max((abs(mark) for mark in marks), default=Fraction(0))
    unit, divisor = next(((unit, size) for unit, size in _MULTIPLES if greatest >= size * 10), ("", 1))
    texts = _even([mark / divisor for mark in marks])
    return [text + unit if mark else text for text, mark in zip(texts, marks, strict=True)]


def decimal_text(value: Fraction) -> tuple[str, bool]:
    """Return a number as a decimal string without exponent, and whether it is exact.

    A number without a finite decimal form is rounded half-even at 1e-12.
    """
    places = _finite_places(value)
    if places is not None:
        return _plain(value, places), True
    return _plain(round(value, PLACES_STORED), PLACES_STORED), False


def printable(text: str) -> str:
    """Return the text on one line, with what a terminal would act on made visible as `?`."""
    return "".join(character if character.isprintable() else "?" for character in text)


@cache
def currency_digits(currency: str) -> int:
    """Return the decimal digits of a currency (ISO 4217, from the CLDR that babel carries)."""
    from babel.numbers import get_currency_precision

    return get_currency_precision(currency)


def _even(values: Sequence[Fraction]) -> list[str]:
    places = max((_finite_places(value) or 0 for value in values), default=0)
    return [_grouped(value, places if value else 0) for value in values]


def _grouped(value: Fraction, places: int) -> str:
    """Return the number rounded half-even at `places`, thousands apart; a rounded zero has no sign."""
    rounded = round(value, places)
    text = f"{_scaled(abs(rounded), places):,.{places}f}"
    return MINUS + text if rounded < 0 else text


def _scaled(value: Fraction, places: int) -> Decimal:
    """Return a non-negative number that has at most `places` decimals as a Decimal, whatever its size."""
    digits = int(value * 10**places)
    return Decimal((0, tuple(int(figure) for figure in str(digits)), -places))


def _plain(value: Fraction, places: int) -> str:
    sign = "-" if value < 0 else ""
    text = f"{_scaled(abs(value), places):f}"
    return sign + (text.rstrip("0").rstrip(".") if "." in text else text)


def _is_exact(value: Fraction, places: int) -> bool:
    return int(10**places) % value.denominator == 0


def _least_places(value: Fraction, low: int, high: int) -> int:
    """Return the currency's digits, two more or four more: the least of them that shows the value exactly."""
    return next(places for places in range(low, high + 1, 2) if _is_exact(value, places) or places == high)


def _places_for_figures(value: Fraction, figures: int) -> int:
    """Return how many decimals show `figures` significant figures of the value; 0 for zero."""
    if value == 0:
        return 0
    magnitude = len(str(abs(value).numerator)) - len(str(abs(value).denominator))
    if abs(value) < Fraction(10) ** magnitude:
        magnitude -= 1
    return max(0, figures - 1 - magnitude)


def _finite_places(value: Fraction) -> int | None:
    """Return the decimals of a finite decimal form, or None where there is none: only 2s and 5s below the line."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None
