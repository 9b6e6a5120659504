"""Exact amounts of money: how they are stored as integers, and written as text.

In: `Decimal` amounts, ISO 4217 codes. Out: two integers, or plain text. Invariant: an amount is rounded once,
half-even at 1e-12 (a cost line), and never again before it is printed; no float is ever involved.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import cache

MICRO = 1_000_000
EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
"""Wide enough that no product or sum of this package is ever rounded: 1e18 tokens at 12 decimals need 48 digits."""
STRICT = Context(prec=EXACT.prec, traps=[Inexact, InvalidOperation, Overflow])
"""Raises where `EXACT` would round: nothing computed with it is rounded."""

_PICO = Decimal("1e-12")


def round_amount(amount: Decimal) -> Decimal:
    """Return the amount rounded half-even at 1e-12, the only rounding before the page.

    Args:
        amount: any finite amount of money.

    Returns:
        The amount with exactly 12 decimals.
    """
    return amount.quantize(_PICO, context=EXACT)


def split_amount(amount: Decimal) -> tuple[int, int]:
    """Return an amount as (micro, pico): whole 1e-6 units and the remainder in 1e-12 units.

    Args:
        amount: finite amount of money, 0 or more; rounded half-even at 1e-12 first.

    Returns:
        Two integers with `amount = micro * 1e-6 + pico * 1e-12` and 0 <= pico < 1,000,000.

    Raises:
        ValueError: the amount is negative or not finite.
    """
    if not amount.is_finite() or amount < 0:
        message = f"amount: {amount} cannot be stored; a finite amount of 0 or more is allowed"
        raise ValueError(message)
    return divmod(int(round_amount(amount).scaleb(12, context=EXACT)), MICRO)


def join_amount(micro: int, pico: int) -> Decimal:
    """Return the amount that `split_amount` made two integers of; sums of such integers are joined alike.

    Args:
        micro: whole 1e-6 units.
        pico: the rest in 1e-12 units; a sum may exceed 1,000,000.
    """
    return Decimal(micro * MICRO + pico).scaleb(-12, context=EXACT)


def plain(amount: Decimal) -> str:
    """Return the amount as a decimal string without exponent and without trailing zeros.

    Args:
        amount: any finite decimal; a negative zero is written "0".
    """
    text = format(amount, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


@cache
def currencies() -> frozenset[str]:
    """Return every ISO 4217 code that was ever a currency, as babel (Unicode CLDR) lists them."""
    # Inside: babel costs 40 ms to load, and only a currency outside the common ones needs it.
    from babel.core import get_global

    codes = {code for spans in get_global("territory_currencies").values() for code, *_ in spans}
    return frozenset(codes)


def is_currency(code: str) -> bool:
    """Return whether the text is an ISO 4217 currency code, for instance "CNY".

    Args:
        code: three capital letters.
    """
    return code in _COMMON or code in currencies()


_COMMON = frozenset({"USD", "EUR", "CNY", "JPY", "GBP"})
