"""What a price set asks for each component of a portion of work.

In: portions, a catalogue. Out: rates per component. Invariant: a component without a price has no rate, never
another's; rates are read off one request of the portion's mean size, which is in every request's context tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pricing import Catalog, PriceSet, UnknownModel, Usage, price_call
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


class RateCards:
    """Looks up what portions' components cost, each kind of portion once.

    Args:
        catalog: the price catalogue.
        price_list: a list's name, or "vendor": each model at its own vendor's.
        at: aware UTC instant of the prices; None: each portion's own.

    `retired` fills with the models that were priced at their last list, and the instant they left it.
    """

    def __init__(self, catalog: Catalog, price_list: str, at: datetime | None) -> None:
        self.retired: dict[str, datetime] = {}
        self._catalog, self._price_list, self._at = catalog, price_list, at
        self._known: dict[tuple[str, Money | None, Money | None], Rate] = {}
        self._found: dict[tuple[object, ...], tuple[tuple[tuple[str, ...], Rate], ...]] = {}

    def rates(self, model: str, portion: Portion) -> tuple[tuple[tuple[str, ...], Rate], ...]:
        """Return each component of a portion: its buckets and its rates."""
        sized = portion.size if portion.tier is None else portion.tier
        when = self._at or (portion.period if portion.tier is not None else portion.at)
        key = (model, when, sized, *portion.tokens)
        if key not in self._found:
            self._found[key] = tuple(self._looked_up(model, portion))
        return self._found[key]

    def _prices(self, model: str, at: datetime) -> PriceSet | None:
        """Return the prices of a model; a retired one's last list; None where the list has no such model."""
        try:
            return self._catalog.price_set(model, self._price_list, at, last_list=True)
        except UnknownModel:
            return None

    def _looked_up(self, model: str, portion: Portion) -> Iterable[tuple[tuple[str, ...], Rate]]:
        at = self._at or portion.at
        prices = self._prices(model, at)
        if prices is not None and prices.retired_at is not None:
            self.retired[model] = prices.retired_at
        rates = _rates(portion.size, prices, at)
        plain = _rates(plain_size(portion.size), prices, at).get("input")
        buckets: dict[str, tuple[str, ...]] = {}
        for bucket in portion.tokens:
            component = component_of(bucket, rates)
            buckets[component] = (*buckets.get(component, ()), bucket)
        for component, names in buckets.items():
            rate = _money(rates.get(component), prices)
            uncached = _money(plain, prices) if names[0] in CACHED_BUCKETS else rate
            yield names, self._known.setdefault((component, rate, uncached), Rate(component, rate, uncached))


def _rates(size: Usage, prices: PriceSet | None, at: datetime) -> Mapping[str, Decimal | None]:
    return {line.component: line.unit_amount for line in price_call(size, prices, at=at).lines}


def _money(rate: Decimal | None, prices: PriceSet | None) -> Money | None:
    return None if rate is None or prices is None else Money(Fraction(rate), prices.currency)


def component_of(bucket: str, rates: Mapping[str, Decimal | None]) -> str:
    """Return the component that a bucket is priced as: reasoning is output where no rate is for it.

    Args:
        bucket: a name of `pricing.usage.BUCKETS`.
        rates: the rates of a request that has it, by component.
    """
    component = COMPONENT_OF[bucket]
    return "output" if component == "reasoning" and component not in rates else component


def plain_size(size: Usage) -> Usage:
    """Return a request of the same size whose cached tokens are plain input."""
    cached = sum(getattr(size, bucket) for bucket in CACHED_BUCKETS)
    whole = size.uncached_input_tokens + cached
    return replace(size, uncached_input_tokens=whole, **dict.fromkeys(CACHED_BUCKETS, 0)) if cached else size


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
    return quantity * rate / _PER.get(component, _MTOK)
