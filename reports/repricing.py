"""What work would cost under a configuration: portions × the prices of the models it puts on them.

In: portions, a configuration, a price basis. Out: `Repriced`: lines with exact amounts. Invariant: every used bucket is
in exactly one line; a line without a price has no amount and is counted, never left out, never at another's price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import TypeAlias

from pricing import Catalog, Terms, Usage
from pricing.usage import BUCKETS
from reports.exact import exact_sum, int_if_whole, known_sum
from reports.exchange import Exchange
from reports.page import Money
from reports.rate_cards import COMPONENT_OF, Rate, RateCards, per
from reports.workload import Portion, mean_size
from router.policy import replay_model
from router.settings import ConfigurationSettings, FixedSettings
from router.task import Role

_Kind: TypeAlias = tuple[Role | None, str | None, str | None, str]
"""Role, class, the model that served, and the model that is priced."""


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
class PricedPart:
    """One component of what one model was given of the work of one role and class.

    Args:
        role: as in the portions.
        task_class: as in the portions.
        served: the model that did it, as in the portions.
        model: our id of the model it is priced as.
        component: the price component.
        rate: list price per Mtok (per 1,000 calls of a tool); None: unpriced.
        uncached_rate: what `rate` would be, were the tokens plain input; `rate` itself where they are not cached.
        quantities: tokens, or calls of a tool, by the UTC day whose exchange rates hold.
        amount: cost after terms, in the page's currency; None: unpriced.
    """

    role: str | None
    task_class: str | None
    served: str | None
    model: str
    component: str
    rate: Money | None
    uncached_rate: Money | None
    quantities: Mapping[date, Fraction]
    amount: Fraction | None


@dataclass(frozen=True, slots=True)
class Given:
    """How many requests of a role and class a configuration gives to a model; `requests` None: not known.

    `served` is the model that did them, as in the portions.
    """

    role: str | None
    task_class: str | None
    served: str | None
    model: str
    requests: Fraction | None


@dataclass(frozen=True, slots=True)
class Repriced:
    """Work under one configuration.

    Args:
        name: the configuration's name.
        lines: by role, model, component and rate.
        currency: ISO 4217 code of the amounts.
        retired: models priced at their last list, with the instant they left it.
        parts: the same amounts in more detail.
        given: what is given to which model.
    """

    name: str
    lines: tuple[PricedLine, ...]
    currency: str
    retired: Mapping[str, datetime]
    parts: tuple[PricedPart, ...] = ()
    given: tuple[Given, ...] = ()

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
        return Money(exact_sum(known), self.currency, bool(self.unpriced))

    @property
    def exact_total(self) -> Fraction | None:
        """The total where every line has a price, else None."""
        total = self.total
        return None if total is None or total.lower_bound else total.value


def reprice(name: str, configuration: ConfigurationSettings, portions: Iterable[Portion], basis: Basis) -> Repriced:
    """Return what the portions cost under a configuration.

    A price set's rates are read off one request of the portion's mean size, which is in the same context tier as every
    request of the portion, so that the sum over tokens is the sum over requests. A policy is asked once for all
    requests of a role, class, context tier and price period, with their mean size.

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
    work = tuple(portions)
    cards = RateCards(basis.catalog, basis.price_list, basis.at)
    models = choices(name, configuration, work, basis)
    kinds: dict[_Kind, list[Portion]] = {}
    for portion, model in zip(work, models, strict=True):
        kinds.setdefault((portion.role, portion.task_class, portion.served, model), []).append(portion)
    parts = tuple(part for kind, found in kinds.items() for part in _parts(kind, found, cards, basis))
    lines = tuple(sorted(_lines(parts), key=_place))
    given = tuple(Given(*kind, known_sum(each.requests for each in found)) for kind, found in kinds.items())
    return Repriced(name, lines, basis.exchange.currency, cards.retired, parts, given)


def choices(
    name: str, configuration: ConfigurationSettings, portions: Sequence[Portion], basis: Basis
) -> tuple[str, ...]:
    """Return the model that a configuration puts on each portion; see `reprice`."""
    groups: dict[tuple[object, ...], list[Portion]] = {}
    is_fixed = isinstance(configuration, FixedSettings)  # then the role alone decides
    keys = [(portion.role,) if is_fixed else _group(portion, basis) for portion in portions]
    for key, portion in zip(keys, portions, strict=True):
        groups.setdefault(key, []).append(portion)
    models = {key: _model_for(name, configuration, found, basis) for key, found in groups.items()}
    return tuple(models[key] for key in keys)


def listed(part: PricedPart, basis: Basis, *, uncached: bool = False) -> Fraction | None:
    """Return a part's cost at list price, before any terms, in the page's currency; None: unpriced.

    Args:
        part: the part.
        basis: the prices it was priced with.
        uncached: whether cached tokens count as plain input.

    Raises:
        FxError: an amount cannot be converted.
    """
    rate = part.uncached_rate if uncached else part.rate
    if rate is None:
        return None
    return _amount(part.quantities, rate.value / per(part.component), rate.currency, basis)


def _group(portion: Portion, basis: Basis) -> tuple[object, ...]:
    """Return what tells portions apart of which a policy is asked one by one."""
    kind = (portion.role, portion.task_class)
    if portion.tier is None:
        return (*kind, portion.size, basis.at or portion.at)
    return (*kind, portion.tier, basis.at or portion.period)


def _model_for(name: str, configuration: ConfigurationSettings, portions: Sequence[Portion], basis: Basis) -> str:
    first = portions[0]
    return replay_model(
        configuration,
        role=first.role,
        task_class=first.task_class,
        usage=first.size if isinstance(configuration, FixedSettings) else _mean_size(portions),
        catalog=basis.catalog,
        price_list=basis.price_list,
        at=basis.at or min(portion.at for portion in portions),
        name=name,
    )


def _mean_size(portions: Sequence[Portion]) -> Usage:
    first = portions[0]
    requests = exact_sum(portion.requests or 0 for portion in portions)
    if len(portions) == 1 or first.tier is None or not requests:
        return first.size
    counts = {
        bucket: exact_sum(portion.tokens[bucket] for portion in portions if bucket in portion.tokens)
        for bucket in BUCKETS
    }
    return mean_size(counts, requests)


def _parts(kind: _Kind, portions: Iterable[Portion], cards: RateCards, basis: Basis) -> Iterable[PricedPart]:
    """Yield what a model was given of a role and class, by rate."""
    sums: dict[Rate, dict[date, Fraction | int]] = {}
    for portion in portions:
        card, day = cards.card(kind[-1], portion), portion.day or portion.at.date()
        for bucket, quantity in portion.tokens.items():
            days = sums.setdefault(card[bucket], {})
            days[day] = days.get(day, 0) + int_if_whole(quantity)
    for rate, days in sums.items():
        yield _part(kind, rate, {day: Fraction(count) for day, count in days.items()}, basis)


def _part(kind: _Kind, rate: Rate, quantities: Mapping[date, Fraction], basis: Basis) -> PricedPart:
    amount = None
    if rate.rate is not None:
        factor, currency = Fraction(basis.terms.factor), basis.terms.currency_of(rate.rate.currency)
        amount = _amount(quantities, rate.rate.value / per(rate.component) * factor, currency, basis)
    return PricedPart(*kind, rate.component, rate.rate, rate.uncached, quantities, amount)


def _amount(quantities: Mapping[date, Fraction], each: Fraction, currency: str, basis: Basis) -> Fraction:
    """Return quantities × what one costs, in the page's currency; what costs nothing needs no exchange rate."""
    exchange = basis.exchange
    if not each or currency == exchange.currency:
        return exact_sum(quantities.values()) * each
    return exact_sum(exchange.convert(quantity, currency, day) for day, quantity in quantities.items()) * each


def _lines(parts: Iterable[PricedPart]) -> Iterable[PricedLine]:
    groups: dict[tuple[str | None, str, str, Money | None], list[PricedPart]] = {}
    for part in parts:
        groups.setdefault((part.role, part.model, part.component, part.rate), []).append(part)
    for (role, model, component, rate), found in groups.items():
        quantity = exact_sum(count for part in found for count in part.quantities.values())
        amount = exact_sum(part.amount for part in found if part.amount is not None)
        yield PricedLine(role, model, component, quantity, rate, None if rate is None else amount)


def _place(line: PricedLine) -> tuple[str, str, int, Fraction]:
    rate = Fraction(-1) if line.rate is None else line.rate.value
    return line.role or "", line.model, tuple(COMPONENT_OF.values()).index(line.component), rate
