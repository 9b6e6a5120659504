"""What work would cost under a configuration: portions × the prices of the models it puts on them.

In: portions, a configuration, a price basis. Out: `Repriced`: lines with exact amounts. Invariant: every used bucket is
in exactly one line; a line without a price has no amount and is counted, never left out, never at another's price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pricing import Catalog, PriceSet, Terms, UnknownModel, price_call
from reports.exchange import Exchange
from reports.page import Money
from reports.workload import Portion
from router.policy import replay_model
from router.settings import ConfigurationSettings

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
_PER = {"web_search": 1_000}
_MTOK = 1_000_000


@dataclass(frozen=True, slots=True)
class Basis:
    """What to price with.

    Args:
        catalog: the price catalogue.
        price_list: a list's name, or "vendor": each model at its own vendor's.
        at: aware UTC instant of the prices; None: each portion's own.
        terms: what an endpoint makes of its list.
        exchange: converts into the page's currency.
    """

    catalog: Catalog
    price_list: str
    at: datetime | None
    terms: Terms
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class PricedLine:
    """One component of one role at one rate.

    Args:
        role: as in the portions.
        model: our model id.
        component: the price component.
        quantity: tokens, or calls of a tool.
        rate: list price per Mtok (per 1,000 calls of a tool); None: unpriced.
        amount: cost after terms, in the page's currency; None: unpriced.
    """

    role: str | None
    model: str
    component: str
    quantity: Fraction
    rate: Money | None
    amount: Fraction | None


@dataclass(frozen=True, slots=True)
class Repriced:
    """Work under one configuration.

    Args:
        name: the configuration's name.
        lines: by role, model, component and rate.
        currency: ISO 4217 code of the amounts.
        retired: models priced at their last list, with the instant they left it.
    """

    name: str
    lines: tuple[PricedLine, ...]
    currency: str
    retired: Mapping[str, datetime]

    @property
    def unpriced(self) -> tuple[PricedLine, ...]:
        """The lines without a price."""
        return tuple(line for line in self.lines if line.amount is None)

    @property
    def total(self) -> Money | None:
        """The sum of the priced lines, a lower bound where others have no price; None where none has one."""
        known = [line.amount for line in self.lines if line.amount is not None]
        if self.lines and not known:
            return None
        return Money(sum(known, Fraction(0)), self.currency, bool(self.unpriced))


def reprice(name: str, configuration: ConfigurationSettings, portions: Iterable[Portion], basis: Basis) -> Repriced:
    """Return what the portions cost under a configuration.

    A price set's rates are read off one request of the portion's mean size, which is in the same context tier as every
    request of the portion, so that the sum over tokens is the sum over requests.

    Args:
        name: the configuration's name.
        configuration: its rule.
        portions: the work.
        basis: the prices.

    Raises:
        WrongUsage: the configuration names a model that nobody knows.
        NoCandidate: a policy finds no model that fits.
        FxError: an amount cannot be converted.
    """
    sums: dict[tuple[str | None, str, str, Money | None], tuple[Fraction, Fraction]] = {}
    retired: dict[str, datetime] = {}
    for portion in portions:
        at = basis.at or portion.at
        model = _model_for(configuration, portion, basis, at)
        prices = _price_set(basis, model, at)
        if prices is not None and prices.retired_at is not None:
            retired[model] = prices.retired_at
        for component, quantity, rate in rated(portion, prices, at):
            money = None if rate is None or prices is None else Money(Fraction(rate), prices.currency)
            amount = Fraction(0) if money is None else _amount(component, quantity, money, basis, at)
            key = (portion.role, model, component, money)
            before = sums.get(key, (Fraction(0), Fraction(0)))
            sums[key] = (before[0] + quantity, before[1] + amount)
    lines = tuple(
        PricedLine(role, model, component, quantity, rate, None if rate is None else amount)
        for (role, model, component, rate), (quantity, amount) in sums.items()
    )
    return Repriced(name, tuple(sorted(lines, key=_place)), basis.exchange.currency, retired)


def _model_for(configuration: ConfigurationSettings, portion: Portion, basis: Basis, at: datetime) -> str:
    return replay_model(
        configuration,
        role=portion.role,
        task_class=portion.task_class,
        usage=portion.size,
        catalog=basis.catalog,
        price_list=basis.price_list,
        at=at,
    )


def _price_set(basis: Basis, model: str, at: datetime) -> PriceSet | None:
    """Return the prices of a model; a retired one's last list; None where the list has no such model."""
    try:
        return basis.catalog.price_set(model, basis.price_list, at, last_list=True)
    except UnknownModel:
        return None


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
        component = COMPONENT_OF[bucket]
        if component == "reasoning" and "reasoning" not in rates:
            component = "output"
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


def _amount(component: str, quantity: Fraction, rate: Money, basis: Basis, at: datetime) -> Fraction:
    paid = list_amount(component, quantity, rate.value) * Fraction(basis.terms.factor)
    return basis.exchange.convert(paid, basis.terms.currency_of(rate.currency), at.date())


def _place(line: PricedLine) -> tuple[str, str, int, Fraction]:
    rate = Fraction(-1) if line.rate is None else line.rate.value
    return line.role or "", line.model, tuple(COMPONENT_OF.values()).index(line.component), rate
