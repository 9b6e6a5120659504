"""What a price set asks for each component of a portion of work.

In: portions, a catalogue. Out: rates per component. Invariant: a component without a price has no rate, never
another's; rates are read off one request of the portion's mean size, which is in every request's context tier.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pricing import Catalog, PriceSet, UnknownModel, price_call
from pricing.rates import Quote, rates_of
from pricing.rates import Rate as BucketRate
from reports.page import Money
from reports.workload import Portion

COMPONENT_OF: Mapping[str, str] = {
    "uncached_input_tokens": "input",
    "cache_read_tokens": "cache_read",
    "cache_write_5m_tokens": "cache_write_5m",
    "cache_write_1h_tokens": "cache_write_1h",
    "audio_input_tokens": "input_audio",
    "image_input_tokens": "input_image",
    "plain_output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "audio_output_tokens": "output_audio",
    "image_output_tokens": "output_image",
    "web_searches": "web_search",
}
"""The price component of each usage bucket, in the order of `pricing.usage.BUCKETS`."""
CACHED_BUCKETS = ("cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
_PER = {"web_search": 1_000}
_MTOK = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Rate:
    """A component's rates; told from others by what it is, not by what it says.

    Args:
        component: the price component.
        rate: list price per Mtok (per 1,000 calls of a tool); None: unpriced.
        uncached: what `rate` would be, were the tokens plain input; `rate` itself where they are not cached.
    """

    component: str
    rate: Money | None
    uncached: Money | None


Card = Mapping[str, Rate]
"""The rate of every usage bucket."""


class RateCards:
    """Looks up what portions' components cost, each kind of portion once.

    Args:
        catalog: the price catalogue.
        price_list: a list's name, or "vendor": each model at its own vendor's.
        at: aware UTC instant of the prices; None: each portion's own.

    `retired` fills with the models that were priced at their last list, and the instant they left it. Rates that say
    the same are one `Rate`.
    """

    def __init__(self, catalog: Catalog, price_list: str, at: datetime | None) -> None:
        self.retired: dict[str, datetime] = {}
        self._catalog, self._price_list, self._at = catalog, price_list, at
        self._rates: dict[tuple[str, Decimal | None, Decimal | None, str | None], Rate] = {}
        self._sets: dict[tuple[str, object], PriceSet | None] = {}
        self._quoted: dict[int, tuple[Quote, Card]] = {}
        self._found: dict[tuple[object, ...], Card] = {}

    def card(self, model: str, portion: Portion) -> Card:
        """Return the rates of a portion's requests, those of buckets that they have not used too."""
        if portion.tier is None:
            key: tuple[object, ...] = (model, None, portion.size.input_tokens, self._at or portion.at)
        else:
            key = (model, portion.tier, None, self._at or portion.period)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._looked_up(model, portion, key[-1])
        return found

    def rates(self, model: str, portion: Portion) -> tuple[tuple[tuple[str, ...], Rate], ...]:
        """Return each component of a portion: its buckets and its rates."""
        card = self.card(model, portion)
        buckets: dict[Rate, tuple[str, ...]] = {}
        for bucket in portion.tokens:
            buckets[card[bucket]] = (*buckets.get(card[bucket], ()), bucket)
        return tuple((names, rate) for rate, names in buckets.items())

    def _looked_up(self, model: str, portion: Portion, when: object) -> Card:
        at = self._at or portion.at
        if (model, when) not in self._sets:
            self._sets[model, when] = self._prices(model, at)
        prices = self._sets[model, when]
        quote = None if prices is None else quote_of(prices, portion.size.input_tokens, at)
        if prices is None or quote is None:
            return {bucket: self._rate(component_of(bucket, ()), None, None, None) for bucket in COMPONENT_OF}
        if id(quote) not in self._quoted:  # kept beside its card, so that no other comes to have its id
            self._quoted[id(quote)] = quote, self._card(quote, prices.currency)
        return self._quoted[id(quote)][1]

    def _prices(self, model: str, at: datetime) -> PriceSet | None:
        """Return the prices of a model; a retired one's last list; None where the list has no such model."""
        try:
            found = self._catalog.price_set(model, self._price_list, at, last_list=True)
        except UnknownModel:
            return None
        if found is not None and found.retired_at is not None:
            self.retired[model] = found.retired_at
        return found

    def _card(self, quote: Quote, currency: str) -> Card:
        priced = by_bucket(quote)
        plain = by_bucket(quote, uncached=True)
        return {
            bucket: self._rate(rate.component, rate.unit_amount, plain[bucket].unit_amount, currency)
            for bucket, rate in priced.items()
        }

    def _rate(self, component: str, amount: Decimal | None, plain: Decimal | None, currency: str | None) -> Rate:
        key = (component, amount, plain, None if amount is None and plain is None else currency)
        if key not in self._rates:
            self._rates[key] = Rate(component, _money(amount, currency), _money(plain, currency))
        return self._rates[key]


def quote_of(prices: PriceSet, input_tokens: int, at: datetime, service_tier: str | None = None) -> Quote | None:
    """Return the rates of a request, as `price_call` finds them; None: the set is not in force.

    Args:
        prices: the set.
        input_tokens: the request's input, cached included.
        at: aware UTC instant; decides between rows with windows or weekdays.
        service_tier: the tier that was served; None: the plain one.
    """
    rates = rates_of(prices)
    if not rates.in_force(at):
        return None
    return rates.quote(service_tier, None, bisect_left(rates.boundaries, input_tokens), rates.clock(at), batch=False)


def by_bucket(quote: Quote, *, uncached: bool = False) -> dict[str, BucketRate]:
    """Return the rate of every usage bucket, reasoning as a part of the output where it has none of its own.

    Args:
        quote: of `quote_of`.
        uncached: whether cached tokens count as plain input.
    """
    found = dict(zip(COMPONENT_OF, quote.rates, strict=True))
    if not quote.reasoning_apart:
        found["reasoning_tokens"] = found["plain_output_tokens"]
    if uncached:
        found.update(dict.fromkeys(CACHED_BUCKETS, found["uncached_input_tokens"]))
    return found


def _money(rate: Decimal | None, currency: str | None) -> Money | None:
    return None if rate is None or currency is None else Money(Fraction(rate), currency)


def component_of(bucket: str, rates: Container[str]) -> str:
    """Return the component that a bucket is priced as: reasoning is output where no rate is for it.

    Args:
        bucket: a name of `pricing.usage.BUCKETS`.
        rates: the components of a request that has it.
    """
    component = COMPONENT_OF[bucket]
    return "output" if component == "reasoning" and component not in rates else component


def undated(prices: PriceSet) -> PriceSet:
    """Return a price set that is in force at every instant: which one holds has been decided already."""
    rows = tuple(replace(row, effective_from=None, effective_to=None) for row in prices.rows)
    return PriceSet(prices.price_list, prices.model, prices.currency, rows)


def rated(
    portion: Portion, prices: PriceSet | None, at: datetime, *, tier: str | None = None, batch: bool = False
) -> Iterable[tuple[str, Fraction, Decimal | None]]:
    """Yield component, quantity and rate of every used bucket; buckets billed as one component come as one.

    Args:
        portion: the work.
        prices: the prices; None: no rate is known.
        at: aware UTC instant; decides between rows with windows or weekdays.
        tier: the service tier that was served; None: the plain one.
        batch: whether the batch API served it.

    Yields:
        Component, quantity (tokens, or calls of a tool) and list price per Mtok (per 1,000 calls); None: unpriced.
    """
    cost = price_call(portion.size, prices, at=at, service_tier=tier, batch=batch)
    rates = {line.component: line.unit_amount for line in cost.lines}
    quantities: dict[str, Fraction] = {}
    for bucket, quantity in portion.tokens.items():
        component = component_of(bucket, rates)
        quantities[component] = quantities.get(component, Fraction(0)) + quantity
    for component, quantity in quantities.items():
        yield component, quantity, rates.get(component)


def list_amount(component: str, quantity: Fraction, rate: Fraction) -> Fraction:
    """Return quantity × rate, exact.

    Args:
        component: what the rate is for.
        quantity: tokens, or calls of a tool.
        rate: per Mtok, or per 1,000 calls.
    """
    return quantity * rate / per(component)


def per(component: str) -> int:
    """Return how many tokens, or calls of a tool, a component's rate is for."""
    return _PER.get(component, _MTOK)
