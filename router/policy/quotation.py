"""What one offer costs, made ready: all that its price depends on but the size of the request.

In: an offer, its tariff and terms, the day's rate. Out: a `Quotation`, which weighs one request after another.
Invariant: pure; what it says of a request is what pricing, settling and converting it one by one would say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from pricing import ModelInfo, settle
from pricing.money import EXACT, round_amount
from pricing.plain_cost import PlainTariff
from router.forecast import OutputForecast
from router.result import Interval, Offer
from router.spread import in_all


@dataclass(frozen=True, slots=True)
class Quotation:
    """One offer, and what it depends on as long as nothing changes.

    Args:
        offer: the model, the endpoint and its terms.
        info: what is known of the model, or None.
        retired_at: since when its list has no price for it that it once had, or None.
        tariff: list prices of plain calls; None: there is no list, or it has no price.
        usd_rate: USD for one unit of what is paid in; None: USD is paid in, or there is no rate.
        is_usd: whether USD is paid in.
    """

    offer: Offer
    info: ModelInfo | None
    retired_at: datetime | None
    tariff: PlainTariff | None
    usd_rate: Decimal | None
    is_usd: bool

    def cost_usd(self, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return the settled cost of a plain call, USD; None where a price or rate is not known.

        Args:
            input_tokens: uncached input, 0 or more.
            output_tokens: output, 0 or more.

        Raises:
            UsageError: so many tokens that their cost has more than 60 digits.
        """
        tariff = self.tariff
        total = None if tariff is None else tariff.total(input_tokens, output_tokens)
        if tariff is None or total is None:
            return None
        _, settled = settle(total, tariff.prices.currency, self.offer.terms)
        if self.is_usd:
            return settled
        return None if self.usd_rate is None else round_amount(EXACT.multiply(settled, self.usd_rate))

    def expected_cost(
        self, input_tokens: int, output: OutputForecast, input_ends: tuple[int, int] | None = None
    ) -> Interval | None:
        """Return the expected cost of one call, or None where a price or rate is not known.

        Args:
            input_tokens: expected input, tokens.
            output: expected output, tokens, with its 10 % and 90 % points.
            input_ends: the 10 % and 90 % points of the input, tokens, independent of the output; None: it is taken to
                be what is expected.
        """
        low = self.cost_usd(input_tokens, output.low_tokens)
        expected = self.cost_usd(input_tokens, output.expected_tokens)
        high = self.cost_usd(input_tokens, output.high_tokens)
        if low is None or expected is None or high is None:
            return None
        cost = Interval(low, expected, high)
        return cost if input_ends is None else self._with_ends(cost, input_ends, output.expected_tokens)

    def _with_ends(self, cost: Interval, input_ends: tuple[int, int], output_tokens: int) -> Interval:
        """Return an interval with the uncertainty of the input in it, too."""
        short, long = (self.cost_usd(tokens, output_tokens) for tokens in input_ends)
        if short is None or long is None:
            return cost
        return in_all((cost, Interval(short - cost.expected_usd, Decimal(0), long - cost.expected_usd)))


Rate = Callable[[str], Decimal | None]
"""Returns USD for one unit of a currency, None where no rate is known."""


def quoted(
    offer: Offer, info: ModelInfo | None, retired_at: datetime | None, tariff: PlainTariff | None, rate: Rate
) -> Quotation:
    """Return the quotation of an offer; `rate` is asked where it is not paid in USD.

    Args:
        offer: the model, the endpoint and its terms.
        info: what is known of the model, or None.
        retired_at: since when its list has no price for it that it once had, or None.
        tariff: its list prices, or None.
        rate: the day's rates.
    """
    currency = None if tariff is None else offer.terms.currency_of(tariff.prices.currency)
    is_usd = currency == "USD"
    usd_rate = None if currency is None or is_usd else rate(currency)
    return Quotation(offer, info, retired_at, tariff, usd_rate, is_usd)
