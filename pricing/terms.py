"""What an endpoint's terms make of a list cost: discount, then settlement.

In: a list cost and the endpoint's `Terms`. Out: what is really paid, in the currency it is paid in. Invariant: no
terms, no change.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pricing.errors import PricingError
from pricing.money import EXACT, is_currency, round_amount


@dataclass(frozen=True, slots=True)
class Terms:
    """What an endpoint charges for its list prices.

    Args:
        discount_share: share of the list price that is not paid, 0 to 1.
        settlement_currency: ISO 4217 code that is paid in; None: the list's own.
        settlement_rate: units of `settlement_currency` paid for one unit of list price, above 0; None: no settlement.
            A relay that sells one USD of list price for one CNY has ("CNY", 1).

    Raises:
        PricingError: a value is out of range, or only one of the two settlement values is given.
    """

    discount_share: Decimal = Decimal(0)
    settlement_currency: str | None = None
    settlement_rate: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse values that no contract can have."""
        if not self.discount_share.is_finite() or not 0 <= self.discount_share <= 1:
            message = f"discount_share: {self.discount_share} is not allowed; a share of 0 to 1 is"
            raise PricingError(message, hint='15 % off is discount_share = "0.15"')
        if (self.settlement_currency is None) != (self.settlement_rate is None):
            message = "settlement: currency and rate are only allowed together"
            raise PricingError(message, hint='for instance settlement = { currency = "CNY", rate = "1" }')
        if self.settlement_rate is not None and not (self.settlement_rate.is_finite() and self.settlement_rate > 0):
            message = f"settlement rate: {self.settlement_rate} is not allowed; a number above 0 is"
            raise PricingError(message)
        if self.settlement_currency is not None and not is_currency(self.settlement_currency):
            message = f"settlement currency: {self.settlement_currency!r} is not allowed; an ISO 4217 code is"
            raise PricingError(message)


NO_TERMS = Terms()


def settle(list_cost: Decimal, currency: str, terms: Terms = NO_TERMS) -> tuple[str, Decimal]:
    """Return what is really paid for a list cost, as (currency, amount).

    Args:
        list_cost: catalogue price × usage, in units of `currency`.
        currency: ISO 4217 code of the list.
        terms: the endpoint's terms.

    Returns:
        The currency that is paid in, and list_cost × (1 - discount_share) × settlement_rate, rounded half-even at
        1e-12.
    """
    paid = EXACT.multiply(list_cost, 1 - terms.discount_share)
    if terms.settlement_currency is None or terms.settlement_rate is None:
        return currency, round_amount(paid)
    return terms.settlement_currency, round_amount(EXACT.multiply(paid, terms.settlement_rate))
