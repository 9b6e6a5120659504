"""The list price of plain calls, made ready: nothing but uncached text in and text out, as of one instant.

In: a `PriceSet` and an instant. Out: a `PlainTariff`, whose `total` weighs one request. Invariant: it is `price_call`'s
total to the last digit, and None wherever that is not exact.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from pricing.cost import price_call
from pricing.money import STRICT, round_amount
from pricing.prices import PriceSet
from pricing.rates import OUTPUT, Rate, rates_of
from pricing.usage import Usage

_INPUT = 0
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class PlainTariff:
    """The rates of input and output at each context tier, as of an instant; made by `plain_tariff`.

    Args:
        prices: the set.
        at: the instant; the same holds for any other at which the same rows and clocks are in force.
        boundaries: input sizes, tokens, strictly above which something changes; sorted.
        rates: (input, output) for each tier, one more than boundaries; empty: the set is not in force.
    """

    prices: PriceSet
    at: datetime
    boundaries: tuple[int, ...]
    rates: tuple[tuple[Rate, Rate], ...]

    def total(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return what the call costs at list price; None where a price it needs is not known.

        Args:
            input_tokens: uncached input, 0 or more.
            output_tokens: output without reasoning, 0 or more.

        Raises:
            UsageError: as for `price_call`.
        """
        if not self.rates:
            return None
        tier = bisect_left(self.boundaries, input_tokens) if self.boundaries else 0
        total = _ZERO
        try:
            for tokens, rate in zip((input_tokens, output_tokens), self.rates[tier]):  # noqa: B905 - both are two
                if tokens:
                    if rate.per_one is None:
                        return None
                    amount = STRICT.multiply(tokens, rate.per_one)
                    total = STRICT.add(total, amount if rate.is_whole else round_amount(amount))
        except ArithmeticError:
            usage = Usage(uncached_input_tokens=input_tokens, plain_output_tokens=output_tokens)
            return price_call(usage, self.prices, at=self.at).total  # it says what is wrong
        return total


def plain_tariff(prices: PriceSet, at: datetime) -> PlainTariff:
    """Return the tariff of a set at an instant.

    Args:
        prices: the rows in force.
        at: aware instant.
    """
    rates = rates_of(prices)
    if not rates.in_force(at):
        return PlainTariff(prices, at, (), ())
    clock = rates.clock(at)
    quotes = (rates.quote(None, None, tier, clock, batch=False) for tier in range(len(rates.boundaries) + 1))
    return PlainTariff(
        prices, at, rates.boundaries, tuple((quote.rates[_INPUT], quote.rates[OUTPUT]) for quote in quotes)
    )
