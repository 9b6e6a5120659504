"""What could be bought now: models, the endpoints that offer them, and what a call of a given size would cost there.

In: catalogue, usable endpoints, exchange rates, the instant. Out: offers and their expected cost in USD.
Invariant: pure; a price that is not known is None, and never ranks before one that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from pricing import Catalog, FxError, FxTable, ModelInfo, Terms, UnknownModel, Usage, price_call, settle
from router.errors import RouterError, unknown_name
from router.forecast import OutputForecast
from router.result import Interval, Offer
from router.settings import EndpointSettings

VENDOR = "vendor"


@dataclass(frozen=True, slots=True)
class Market:
    """All that a decision may look at.

    Args:
        catalog: the price catalogue.
        endpoints: usable endpoints by name.
        fx: exchange rates.
        at: the instant of the decision, aware UTC.
        aliases: the user's other names of models.
        latency_s: median latency on record by model, seconds.
    """

    catalog: Catalog
    endpoints: Mapping[str, EndpointSettings]
    fx: FxTable
    at: datetime
    aliases: Mapping[str, str] = field(default_factory=dict)
    latency_s: Mapping[str, float] = field(default_factory=dict)

    def model(self, name: str) -> str:
        """Return our id of a model by id, alias or prefixed name.

        Raises:
            WrongUsage: nobody knows the name; near misses are listed, none is used.
        """
        name = self.aliases.get(name, name)
        if any(name in (endpoint.models or ()) for endpoint in self.endpoints.values()):
            return name
        try:
            return self.catalog.find(name)
        except UnknownModel:
            known = {*self.aliases, *(model for each in self.catalog.lists for model in self.catalog.models(each))}
            raise unknown_name("model", name, known) from None

    def offers(self, model: str) -> tuple[Offer, ...]:
        """Return every offer of the model; where no endpoint has it, one at the vendor's list without an endpoint."""
        found = tuple(
            offer
            for name, endpoint in self.endpoints.items()
            if (offer := self._offer(model, name, endpoint)) is not None
        )
        return found or (self._paper_offer(model),)

    def _offer(self, model: str, name: str, endpoint: EndpointSettings) -> Offer | None:
        vendor = self._vendor(model)
        price_list = vendor or VENDOR if endpoint.price_list == VENDOR else endpoint.price_list
        listed = self.catalog.sells(model, price_list)
        if endpoint.models is not None:
            if model not in endpoint.models:
                return None
            wire_id = endpoint.models[model]
        elif listed:
            wire_id = self.catalog.info(model, price_list).wire_id if endpoint.price_list != VENDOR else model
        else:
            return None
        terms = terms_of(endpoint, self.at)
        return Offer(model, name, wire_id, price_list, endpoint.last_list, terms)

    def _paper_offer(self, model: str) -> Offer:
        return Offer(model, None, model, self._vendor(model) or VENDOR)

    def _vendor(self, model: str) -> str | None:
        try:
            return self.catalog.vendor_list(model)
        except UnknownModel:
            return None

    def info(self, model: str, price_list: str | None = None) -> ModelInfo | None:
        """Return what the model's vendor says of it, else what the price list says, else None."""
        for name in (self._vendor(model), price_list):
            if name is not None and self.catalog.sells(model, name):
                return self.catalog.info(model, name)
        return None

    def retired_at(self, model: str, price_list: str) -> datetime | None:
        """Return since when the list has no price for the model that it once sold, or None."""
        if not self.catalog.sells(model, price_list):
            return None
        last = self.catalog.price_set(model, price_list, self.at, last_list=True)
        return last.retired_at if last else None

    def usd(self, amount: Decimal, currency: str, day: date | None = None) -> Decimal | None:
        """Return the amount in USD at the rate of a day, or None where there is no usable rate.

        Args:
            amount: in units of `currency`.
            currency: ISO 4217 code.
            day: UTC day; None: the market's.
        """
        if currency == "USD":
            return amount
        try:
            return self.fx.convert(amount, currency, "USD", day or self.at.date())
        except FxError:
            return None

    def cost_usd(self, offer: Offer, usage: Usage) -> Decimal | None:
        """Return the settled cost of the usage at the offer in USD, or None where a price or rate is unknown."""
        if offer.price_list not in self.catalog.lists:
            return None
        prices = self.catalog.price_set(offer.model, offer.price_list, self.at, last_list=offer.last_list)
        cost = price_call(usage, prices, at=self.at)
        if cost.status != "exact" or cost.total is None or cost.currency is None:
            return None
        currency, settled = settle(cost.total, cost.currency, offer.terms)
        return self.usd(settled, currency)

    def expected_cost(self, offer: Offer, input_tokens: int, output: OutputForecast) -> Interval | None:
        """Return the expected cost of one call, or None where a price or rate is unknown.

        Args:
            offer: model and endpoint.
            input_tokens: expected input, tokens.
            output: expected output, tokens, with its 10 % and 90 % points.
        """
        points = (output.low_tokens, output.expected_tokens, output.high_tokens)
        costs = [
            self.cost_usd(offer, Usage(uncached_input_tokens=input_tokens, plain_output_tokens=tokens))
            for tokens in points
        ]
        low, expected, high = costs
        if low is None or expected is None or high is None:
            return None
        return Interval(low, expected, high)


def terms_of(endpoint: EndpointSettings, at: datetime) -> Terms:
    """Return an endpoint's terms at an instant; a committed tier's discount stands in place of the endpoint's.

    Args:
        endpoint: its settings.
        at: aware instant of the call.
    """
    tier = next((each for each in endpoint.commitments if each.commitment().in_force(at)), None)
    settlement = endpoint.settlement
    return Terms(
        discount_share=endpoint.discount_share if tier is None else tier.discount_share,
        settlement_currency=None if settlement is None else settlement.currency,
        settlement_rate=None if settlement is None else settlement.rate,
        markup_share=endpoint.markup_share,
        tax_share=endpoint.tax_share,
    )


class NoCandidate(RouterError):
    """No candidate fits the requirements; the message lists why each lost."""
