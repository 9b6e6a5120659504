"""Amounts, shares, rates, currencies and limits as they are typed.

In: texts of options. Out: exact numbers. Invariant: a text that is not allowed ends in one line that says what is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pricing import Terms

LEAST_RATE, GREATEST_RATE, MOST_DECIMALS = Decimal("1e-9"), Decimal("1e9"), 28
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,12})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """What something may come to: an amount, or a share of something else. `text` is as it was typed."""

    value: Fraction
    is_share: bool
    text: str

    def is_crossed(self, amount: Fraction, base: Fraction | None) -> bool:
        """Return whether an amount is above the limit; `base` is what a share is of, None is nothing."""
        return amount > (self.value * (base or 0) if self.is_share else self.value)


def currency_of(text: str) -> str:
    """Return an ISO 4217 code in capitals.

    Raises:
        WrongUsage: there is no such currency; near misses are listed.
    """
    from pricing.money import currencies, is_currency
    from router.errors import WrongUsage, unknown_name

    code = text.upper()
    if is_currency(code):
        return code
    error = unknown_name("currency", text, currencies())
    raise WrongUsage(str(error), hint="an ISO 4217 code is allowed, for instance USD, EUR, CNY or JPY")


def terms_of(text: str | None) -> Terms:
    """Return the terms of a settlement written CURRENCY=RATE; None: the list price is what is paid.

    Raises:
        WrongUsage: it is not written so, or the rate is not within 1e-9 to 1e9.
    """
    from pricing import Terms
    from router.errors import WrongUsage

    if text is None:
        return Terms()
    code, _, number = text.partition("=")
    rate = rate_of(number)
    if rate is None:
        raise WrongUsage(
            f"--settlement: {text[:60]!r} is not allowed; CURRENCY=RATE is, with a rate from 1e-9 to 1e9",
            hint="one unit of list price paid with one yuan is --settlement CNY=1",
        )
    return Terms(settlement_currency=currency_of(code), settlement_rate=rate)


def rate_of(text: str) -> Decimal | None:
    """Return a number from 1e-9 to 1e9 with at most 28 decimals; None: it is not one.

    The bounds are checked before anything is calculated: 1e9999999 in full has ten million digits.
    """
    try:
        rate = Decimal(text)
    except InvalidOperation:
        return None
    if (
        not rate.is_finite()
        or not LEAST_RATE <= rate <= GREATEST_RATE
        or -int(rate.as_tuple().exponent) > MOST_DECIMALS
    ):
        return None
    return rate


def amount_of(text: str, option: str) -> Fraction:
    """Return an amount of money, with at most 12 decimals; thousands may be set apart by `_` or `,`.

    Raises:
        WrongUsage: it is no number.
    """
    from router.errors import WrongUsage

    plain = re.sub(r"(?<=\d)[_,](?=\d{3}(\D|$))", "", text.strip())
    if not _NUMBER.fullmatch(plain):
        message = f"{option}: {text[:60]!r} is not allowed; an amount with at most 12 decimals is"
        raise WrongUsage(message, hint=f"for instance {option} 3000")
    return Fraction(plain)


def share_of(text: str, option: str) -> Fraction:
    """Return a share written as 0.05 or 5%.

    Raises:
        WrongUsage: it is no number.
    """
    from router.errors import WrongUsage

    plain = text.strip().removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(plain):
        message = f"{option}: {text[:60]!r} is not allowed; a share such as 0.05 or 5% is"
        raise WrongUsage(message, hint=f"for instance {option} 5%")
    return Fraction(plain) / (100 if text.strip().endswith("%") else 1)


def growth_of(text: str) -> Fraction:
    """Return a growth of a month over the one before, as a share.

    Raises:
        WrongUsage: it is no number, or not between −100 % and +100 %.
    """
    from router.errors import WrongUsage

    growth = share_of(text, "--growth")
    if not -1 < growth <= 1:
        raise WrongUsage(f"--growth: {text[:60]!r} is not allowed; more than -100% up to 100% is", hint="--growth 5%")
    return growth


def limit_of(text: str, option: str) -> Limit:
    """Return the limit that a text names: an amount, or a share of something where it ends in %.

    Raises:
        WrongUsage: it names none.
    """
    from router.errors import WrongUsage

    plain = text.strip()
    is_share = plain.endswith("%")
    value = (share_of if is_share else amount_of)(plain, option)
    if value < 0:
        message = f"{option}: {text[:60]!r} is not allowed; 0 or more is"
        raise WrongUsage(message, hint=f"for instance {option} 100 or {option} 5%")
    return Limit(value, is_share, plain)
