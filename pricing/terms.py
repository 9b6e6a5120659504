"""What an endpoint's terms make of a list cost: discount, mark-up, settlement, tax.

In: a list cost and the endpoint's `Terms`. Out: what is really paid, in the currency it is paid in, step by step.
Invariant: settled = list × (1 − discount) × (1 + mark-up) × settlement rate × (1 + tax), exact, rounded once; no terms,
no change. Credit is no term: it lowers what is left to pay, never what a call costs (see `pricing.credit`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

from pricing.errors import PricingError
from pricing.money import is_currency, plain, round_amount

_WIDE = Context(prec=260, rounding=ROUND_HALF_EVEN)
"""Exact for every product here: an amount of up to 60 digits and four factors of at most 38 digits each."""
_MAX_DECIMALS = 28
"""Enough for a quotient like 1/7.3 to 28 digits."""
_GREATEST_MARKUP = 10
_GREATEST_RATE = Decimal(10**9)


@dataclass(frozen=True, slots=True)
class Terms:
    """What an endpoint charges for its list prices. Every number has at most 28 decimals.

    Args:
        discount_share: share of the list price that is not paid, 0 to 1.
        settlement_currency: ISO 4217 code that is paid in; None: the list's own.
        settlement_rate: units of `settlement_currency` paid for one unit of list price, above 0, at most 1e9; None: no
            settlement. A relay that sells one USD of list price for one CNY has ("CNY", 1).
        markup_share: share that is charged on top of the discounted list price, 0 to 10.
        tax_share: tax on top of all that, 0 to 1, where it is a cost (a tax that is got back is none).

    Raises:
        PricingError: a value is out of range, or only one of the two settlement values is given.
    """

    discount_share: Decimal = Decimal(0)
    settlement_currency: str | None = None
    settlement_rate: Decimal | None = None
    markup_share: Decimal = Decimal(0)
    tax_share: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        """Refuse values that no contract can have, all with what is allowed."""
        _check("discount_share", self.discount_share, 1, '15 % off is discount_share = "0.15"')
        _check("markup_share", self.markup_share, _GREATEST_MARKUP, '5 % on top is markup_share = "0.05"')
        _check("tax_share", self.tax_share, 1, '19 % of tax is tax_share = "0.19"')
        if (self.settlement_currency is None) != (self.settlement_rate is None):
            message = "settlement: currency and rate are only allowed together"
            raise PricingError(message, hint='for instance settlement = { currency = "CNY", rate = "1" }')
        if self.settlement_rate is not None:
            _check_rate(self.settlement_rate)
        if self.settlement_currency is not None and not is_currency(self.settlement_currency):
            message = f"settlement currency: {self.settlement_currency!r} is not allowed; an ISO 4217 code is"
            raise PricingError(message)

    @property
    def id(self) -> str:
        """A hash of the content."""
        return hashlib.sha256(terms_to_json(self).encode()).hexdigest()[:24]

    @property
    def factor(self) -> Decimal:
        """Units paid, in `currency_of`'s currency, for one unit of list price; exact."""
        found = Decimal(1)
        for step in self.steps():
            found = _WIDE.multiply(found, step.factor)
        return found

    def currency_of(self, list_currency: str) -> str:
        """Return the currency that is paid in: the settlement's, else the list's."""
        return self.settlement_currency or list_currency

    def steps(self) -> Iterator[TermStep]:
        """Yield what is done to a list cost, in order; only what changes it."""
        if self.discount_share:
            yield TermStep("discount", 1 - self.discount_share, None)
        if self.markup_share:
            yield TermStep("mark-up", 1 + self.markup_share, None)
        if self.settlement_rate is not None:
            yield TermStep("settlement", self.settlement_rate, self.settlement_currency)
        if self.tax_share:
            yield TermStep("tax", 1 + self.tax_share, None)


@dataclass(frozen=True, slots=True)
class TermStep:
    """One factor on the way from list to settled cost.

    Args:
        name: "discount", "mark-up", "settlement" or "tax".
        factor: what the amount is multiplied with.
        currency: ISO 4217 code that the amount is in after it, where it changes; else None.
    """

    name: str
    factor: Decimal
    currency: str | None


def settle(list_cost: Decimal, currency: str, terms: Terms | None = None) -> tuple[str, Decimal]:
    """Return what is really paid for a list cost, as (currency, amount).

    Args:
        list_cost: catalogue price × usage, in units of `currency`.
        currency: ISO 4217 code of the list.
        terms: the endpoint's terms; None: none.

    Returns:
        The currency that is paid in, and list_cost × (1 − discount_share) × (1 + markup_share) × settlement_rate ×
        (1 + tax_share), rounded half-even at 1e-12.
    """
    if terms is None or terms is NO_TERMS:
        return currency, round_amount(list_cost)
    return terms.currency_of(currency), round_amount(_WIDE.multiply(list_cost, terms.factor))


def settled_steps(list_cost: Decimal, currency: str, terms: Terms) -> Iterator[tuple[TermStep, str, Decimal]]:
    """Yield each step of `settle` with the currency and the exact, unrounded amount after it.

    Args:
        list_cost: in units of `currency`.
        currency: ISO 4217 code of the list.
        terms: the endpoint's terms.
    """
    amount = list_cost
    for step in terms.steps():
        amount, currency = _WIDE.multiply(amount, step.factor), step.currency or currency
        yield step, currency, amount


def terms_to_json(terms: Terms) -> str:
    """Return terms as canonical JSON, numbers as decimal strings; what is not set is left out."""
    found: dict[str, str] = {}
    for name in _STORED:
        value = getattr(terms, name)
        if value:
            found[name] = plain(value) if isinstance(value, Decimal) else value
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


def terms_from_json(text: str) -> Terms:
    """Return the terms that `terms_to_json` wrote.

    Raises:
        PricingError: the text is not such JSON, or no contract can have such terms.
    """
    try:
        document: Mapping[str, Any] = json.loads(text)
        values: dict[str, Any] = {
            name: value if name == "settlement_currency" else Decimal(value) for name, value in document.items()
        }
        return Terms(**values)
    except (ValueError, TypeError, AttributeError, InvalidOperation) as error:
        message = f"terms: {text[:60]!r} are no stored terms"
        raise PricingError(message, hint="the ledger's copy is damaged; restore it from a backup") from error


def _check(name: str, share: Decimal, greatest: int, hint: str) -> None:
    if not share.is_finite() or not 0 <= share <= greatest or _decimals(share) > _MAX_DECIMALS:
        allowed = f"a share of 0 to {greatest} with at most {_MAX_DECIMALS} decimals is"
        message = f"{name}: {share} is not allowed; {allowed}"
        raise PricingError(message, hint=hint)


def _check_rate(rate: Decimal) -> None:
    if not (rate.is_finite() and 0 < rate <= _GREATEST_RATE) or _decimals(rate) > _MAX_DECIMALS:
        allowed = f"a number above 0, at most {_GREATEST_RATE}, with at most {_MAX_DECIMALS} decimals is"
        message = f"settlement rate: {rate} is not allowed; {allowed}"
        raise PricingError(message, hint="a rate is how much is paid for one unit of list price")


def _decimals(number: Decimal) -> int:
    exponent = number.normalize(_WIDE).as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


_STORED = tuple(each.name for each in fields(Terms))

NO_TERMS = Terms()
