"""What one attempt cost: which model answered, at which prices, in list and in settled money.

In: the offer that was taken up, the model's name and usage in the answer. Out: a `Bill`.
Invariant: the model that *answered* sets the price; a name the price list does not have is unpriced, never a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pricing import PriceSet, Terms, UnknownModel, Usage, price_call, settle
from pricing.plain_cost import PlainTariff
from pricing.quick import quick
from pricing.terms import NO_TERMS
from pricing.usage import COUNTS
from router.ledger.records import Amount, CostStatusName
from router.policy import Market, Offer
from router.policy.market import VENDOR

_NO_USAGE = Usage()


@quick
@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of one attempt.

    Args:
        model_served: our id of the model that answered, or the name as given where we do not know it.
        status: exact, estimated, partial or unknown.
        list_cost: at list price; None where unknown.
        settled_cost: as really paid; None where unknown.
        settled_usd: the same in USD at the day's rate; None where unknown.
        prices: the price set used, or None.
        warning: what the user should know, or None.
        terms: the endpoint's terms, where they made `settled_cost` of `list_cost`.
    """

    model_served: str
    status: CostStatusName
    list_cost: Amount | None
    settled_cost: Amount | None
    settled_usd: Decimal | None
    prices: PriceSet | None
    warning: str | None
    terms: Terms = NO_TERMS


def served_model(market: Market, offer: Offer, name: str | None) -> str:
    """Return our id of the model that an answer names; the asked model where it names none."""
    if not name or name in {offer.wire_id, offer.model}:
        return offer.model
    try:
        return market.catalog.resolve(name, offer.price_list)
    except UnknownModel:
        pass
    try:
        known = market.catalog.find(name)
    except UnknownModel:
        return name
    # A name that the list refuses, though it sells the model, is a wire id of elsewhere: here it may mean another.
    return name if market.catalog.sells(known, offer.price_list) else known


def bill(
    market: Market,
    offer: Offer,
    *,
    served_name: str | None,
    usage: Usage | None,
    estimated: bool = False,
    service_tier: str | None = None,
) -> Bill:
    """Return what an attempt cost.

    Args:
        market: catalogue, endpoints and rates at the attempt's instant.
        offer: the offer that was taken up.
        served_name: the model's name in the answer, or None.
        usage: the usage in disjoint buckets, tokens; None where unknown.
        estimated: whether the usage is our estimate.
        service_tier: the tier that was served, or None.
    """
    model = served_model(market, offer, served_name)
    tariff = market.quotation(offer).tariff if model == offer.model else None
    prices = _prices(market, offer, model) if tariff is None else tariff.prices
    if usage == _NO_USAGE and not estimated:
        return _nothing(model, prices)
    total = _plain_total(tariff, usage, service_tier)
    status: CostStatusName = "estimated" if estimated else "exact"
    if total is None or prices is None:
        cost = price_call(usage, prices, at=market.at, service_tier=service_tier, estimated=estimated)
        total, status = cost.total, cost.status
    list_cost = settled_cost = None
    settled_usd = None
    terms = NO_TERMS
    if total is not None and prices is not None:
        list_cost, terms = Amount(prices.currency, total), offer.terms
        settled_cost = Amount(*settle(total, prices.currency, offer.terms))
        settled_usd = market.usd(settled_cost.value, settled_cost.currency)
    warning = None if model == offer.model else f"asked for {offer.model}, {offer.endpoint} served {model}"
    return Bill(model, status, list_cost, settled_cost, settled_usd, prices, warning, terms)


def _plain_total(tariff: PlainTariff | None, usage: Usage | None, service_tier: str | None) -> Decimal | None:
    """Return the list cost of a usage of nothing but plain input and output, at the plain tier; None for others."""
    if tariff is None or usage is None or service_tier is not None:
        return None
    read, written = usage.uncached_input_tokens, usage.plain_output_tokens
    return tariff.total(read, written) if sum(COUNTS(usage)) == read + written else None


def _nothing(model: str, prices: PriceSet | None) -> Bill:
    """Return the bill of an attempt that used nothing: it is known to be 0 even where no price is."""
    zero = Amount(prices.currency if prices else "USD", Decimal(0))
    return Bill(model, "exact", zero, zero, Decimal(0), prices, None)


def _prices(market: Market, offer: Offer, model: str) -> PriceSet | None:
    """Return the price set of the model that answered, on the endpoint's list."""
    endpoint = market.endpoints.get(offer.endpoint or "")
    price_list = offer.price_list
    if endpoint is not None and endpoint.price_list == VENDOR and model != offer.model:
        try:
            price_list = market.catalog.vendor_list(model)
        except UnknownModel:
            return None
    if price_list not in market.catalog.lists:
        return None
    try:
        return market.catalog.price_set(model, price_list, market.at, last_list=offer.last_list)
    except UnknownModel:
        return None
