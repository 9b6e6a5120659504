"""What is left to pay of settled costs: free and prepaid credit drawn down, committed spend that was not reached.

In: settled spend by day, credits, a commitment, a converter. Out: draws and shortfalls, as exact fractions. Invariant:
nothing here changes a cost; what is drawn is never more than was spent, nor than a credit holds, nor outside its days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from pricing.errors import PricingError
from pricing.money import is_currency

CreditKind = Literal["free", "prepaid"]
Convert = Callable[[Fraction, str, str, date], Fraction]
"""Converts an amount from one currency into another at the rate of a UTC day, exactly."""


@dataclass(frozen=True, slots=True)
class Credit:
    """An amount at an endpoint that calls are paid from.

    Args:
        kind: "free" (given), or "prepaid" (bought earlier).
        currency: ISO 4217 code.
        amount: how much it held at first, above 0.
        starts: UTC day from whose midnight it may be used.
        expires: UTC day from whose midnight on what is left of it is gone; None: never.

    Raises:
        PricingError: a value is not allowed.
    """

    kind: CreditKind
    currency: str
    amount: Decimal
    starts: date
    expires: date | None = None

    def __post_init__(self) -> None:
        """Refuse what no credit can be."""
        _check_amount("credit", self.currency, self.amount)
        _check_days("credit", self.starts, self.expires)

    def holds_on(self, day: date) -> bool:
        """Return whether it may be used on a UTC day."""
        return self.starts <= day and (self.expires is None or day < self.expires)


@dataclass(frozen=True, slots=True)
class Commitment:
    """A committed tier: spend promised for each month, for a discount.

    Args:
        currency: ISO 4217 code of `monthly_amount`.
        monthly_amount: settled spend a month that is paid for in any case, above 0.
        discount_share: the discount of the tier, 0 to 1; while it is in force it stands in place of the endpoint's.
        starts: UTC day from whose midnight it is in force.
        ends: UTC day from whose midnight on it is not; None: until further notice.

    Raises:
        PricingError: a value is not allowed.
    """

    currency: str
    monthly_amount: Decimal
    discount_share: Decimal
    starts: date
    ends: date | None = None

    def __post_init__(self) -> None:
        """Refuse what no commitment can be."""
        _check_amount("commitment", self.currency, self.monthly_amount)
        _check_days("commitment", self.starts, self.ends)
        if not self.discount_share.is_finite() or not 0 <= self.discount_share <= 1:
            message = f"commitment: discount_share {self.discount_share} is not allowed; a share of 0 to 1 is"
            raise PricingError(message)

    def in_force(self, at: datetime) -> bool:
        """Return whether it is in force at an aware instant."""
        return self.covers(at.astimezone(UTC).date())

    def covers(self, day: date) -> bool:
        """Return whether it is in force on a UTC day."""
        return self.starts <= day and (self.ends is None or day < self.ends)


@dataclass(frozen=True, slots=True)
class Spend:
    """Settled cost of a stretch of time at one endpoint, in units of `currency`."""

    day: date
    currency: str
    amount: Fraction


@dataclass(frozen=True, slots=True)
class Draw:
    """What one credit paid of one `Spend`.

    Args:
        credit: index of the credit.
        spend: index of the spend.
        taken: drawn from the credit, in its own currency.
        paid: what that paid of the spend, in the spend's currency.
    """

    credit: int
    spend: int
    taken: Fraction
    paid: Fraction


def draw_credits(spends: Sequence[Spend], credits_held: Sequence[Credit], convert: Convert) -> tuple[Draw, ...]:
    """Return what each credit paid of each spend.

    Of the credits that may be used on a day, the one that expires first is used first; of those alike, free before
    prepaid, then the one that started first. A credit in another currency pays at the rate of the day.

    Args:
        spends: in the order of time.
        credits_held: the endpoint's credits.
        convert: converts between their currencies.

    Raises:
        FxError: a rate is needed and is not known.
    """
    left = [Fraction(credit.amount) for credit in credits_held]
    order = sorted(range(len(credits_held)), key=lambda index: _rank(credits_held[index]))
    draws: list[Draw] = []
    for position, spend in enumerate(spends):
        open_amount = spend.amount
        for index in order:
            credit = credits_held[index]
            if not open_amount or not left[index] or not credit.holds_on(spend.day):
                continue
            wanted = convert(open_amount, spend.currency, credit.currency, spend.day)
            taken = min(wanted, left[index])
            paid = open_amount * taken / wanted
            left[index] -= taken
            open_amount -= paid
            draws.append(Draw(index, position, taken, paid))
    return tuple(draws)


def shortfall(commitment: Commitment, spends: Iterable[Spend], convert: Convert) -> Fraction:
    """Return what a month's spend falls short of the amount committed to, in the commitment's currency; 0 for nothing.

    Args:
        commitment: in force through the whole month.
        spends: the month's.
        convert: converts between their currencies.

    Raises:
        FxError: a rate is needed and is not known.
    """
    spent = sum((convert(each.amount, each.currency, commitment.currency, each.day) for each in spends), Fraction(0))
    return max(Fraction(0), Fraction(commitment.monthly_amount) - spent)


def _rank(credit: Credit) -> tuple[date, str, date]:
    return credit.expires or date.max, credit.kind, credit.starts


def _check_amount(what: str, currency: str, amount: Decimal) -> None:
    if not is_currency(currency):
        message = f"{what}: currency {currency!r} is not allowed; an ISO 4217 code is"
        raise PricingError(message)
    if not amount.is_finite() or amount <= 0:
        message = f"{what}: amount {amount} is not allowed; a number above 0 is"
        raise PricingError(message)


def _check_days(what: str, starts: date, ends: date | None) -> None:
    if ends is not None and ends <= starts:
        message = f"{what}: its end {ends} is not allowed; a day after its start, {starts}, is"
        raise PricingError(message)
