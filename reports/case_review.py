"""What became of a promise: a later month held against a frozen case, the difference explained to the last digit.

In: a case, the ledger's month, a catalogue, exchange rates. Out: a `Page`. Invariant: the bridge's effects sum to what
was paid less what was promised, exactly; what was paid is the ledger's settled cost of the month.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pricing import Catalog, FxError, PriceSet, UnknownModel, Usage, join_amount
from reports.billed import requests_of
from reports.bridge import Position, Promised
from reports.case import Case
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.period import DAY_US, at_us
from reports.rate_cards import COMPONENT_OF, list_amount, rated
from reports.workload import Portion, portion_of

_BY = ("day", "configuration", "model_served", "model_asked", "context_tier", "service_tier", "settled_currency")
TEXT_INPUT = ("uncached_input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
CACHED = tuple(COMPONENT_OF[bucket] for bucket in TEXT_INPUT)
"""The components that one token of text input may be priced as."""


@dataclass(slots=True)
class Done:
    """What was really done in a month.

    Args:
        positions: the work with a cost on record.
        calls: attempts that is.
        left_out: attempts that are in no position: without usage, or without a price.
        by_model: tokens and cost by model.
        by_configuration: attempts and cost by the configuration they ran under.
        unpromised: models that the promise had no price for.
    """

    positions: list[Position] = field(default_factory=list)
    calls: int = 0
    left_out: int = 0
    by_model: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    by_configuration: dict[str | None, tuple[int, Fraction]] = field(default_factory=dict)
    unpromised: set[str] = field(default_factory=set)

    @property
    def cost(self) -> Fraction:
        """What was paid, in the page's currency."""
        return sum((position.cost for position in self.positions), Fraction(0))


def work_done(
    reader: LedgerReader, start_us: int, end_us: int, case: Case, catalog: Catalog, exchange: Exchange
) -> Done:
    """Return what was done in a span, each group beside its promised prices.

    Args:
        reader: the ledger's.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        case: the promise.
        catalog: for prices, as they were promised, of models the promise does not have.
        exchange: converts into the promise's currency.

    Raises:
        FxError: what was paid cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    promise = _Promise(case, catalog, exchange)
    done = Done()
    for group in reader.usage_groups(start_us, end_us, _BY):
        key = dict(zip(_BY, group.key, strict=True))
        if key["settled_currency"] is None:
            done.left_out += group.sums["records"] - _refused(key, group.sums)
            continue
        _take_in(done, promise, key, group.sums)
    return done


def promised_of(case: Case, months_later: int, share: Fraction) -> Promised:
    """Return what a case promised for a month.

    Args:
        case: the promise.
        months_later: months after the one it was drawn from, 1 or more; the first has the volume that was measured.
        share: of the month, 0 to 1: of one that is not over, the days that are.
    """
    volume = (1 + case.inputs.growth) ** (months_later - 1) * share
    return Promised(case.inputs.configuration * volume, case.calls * volume)


def _refused(key: Mapping[str, Any], sums: Mapping[str, int]) -> int:
    """Return how many attempts of a group cost nothing: without usage, and nothing that could be billed."""
    return sums["usage_unknown"] - sums["unsettled"] if key["context_tier"] is None else 0


def _take_in(done: Done, promise: _Promise, key: Mapping[str, Any], sums: Mapping[str, int]) -> None:
    model = key["model_served"] or key["model_asked"]
    at = at_us(key["day"] * DAY_US)
    paid = Fraction(join_amount(sums["settled_micro"], sums["settled_pico"]))
    currency = key["settled_currency"]
    cost = promise.exchange.convert(paid, currency, at.date())
    requests = requests_of(sums) or 0
    portion = portion_of(sums, requests, at=at, is_sized=key["context_tier"] is not None)
    position = promise.position(model, portion, key["service_tier"], paid, currency, cost)
    if position.rates is None:
        done.unpromised.add(model)
    done.positions.append(position)
    done.calls += requests
    tokens, before = done.by_model.get(model, (Fraction(0), Fraction(0)))
    done.by_model[model] = tokens + sum(portion.tokens.values(), Fraction(0)), before + cost
    count, spent = done.by_configuration.get(key["configuration"], (0, Fraction(0)))
    done.by_configuration[key["configuration"]] = count + requests, spent + cost


class _Promise:
    """A case's prices, cache shares and exchange rates, asked for by model and currency."""

    def __init__(self, case: Case, catalog: Catalog, exchange: Exchange) -> None:
        self.exchange = exchange
        self._case = case
        self._catalog = catalog
        self._shares: dict[str, Mapping[str, Fraction] | None] = {}

    def position(
        self, model: str, portion: Portion, tier: str | None, paid: Fraction, currency: str, cost: Fraction
    ) -> Position:
        """Return work of a model beside its promise."""
        prices = self._prices(model)
        found = tuple(rated(portion, prices, self._case.priced_at, tier=tier))
        quantities = {component: quantity for component, quantity, _ in found}
        return Position(
            cached={name: quantities[name] for name in CACHED if name in quantities},
            other={name: quantity for name, quantity in quantities.items() if name not in CACHED},
            rates=self._rates(prices, portion, tier),
            shares=self._cache_shares(model),
            paid=paid,
            promised_fx=self._fx(currency),
            cost=cost,
        )

    def _prices(self, model: str) -> PriceSet | None:
        if model in self._case.prices:
            return self._case.prices[model]
        try:
            return self._catalog.price_set(model, self._case.price_list, self._case.priced_at, last_list=True)
        except UnknownModel:
            return None

    def _rates(self, prices: PriceSet | None, portion: Portion, tier: str | None) -> Mapping[str, Fraction] | None:
        """Return the promised cost of one unit by component: of those that were used, and of every kind of input."""
        if prices is None:
            return None
        terms = self._case.terms
        fx = self._fx(terms.currency_of(prices.currency))
        if fx is None:
            return None
        factor = Fraction(terms.factor) * fx
        rates: dict[str, Fraction] = {}
        for each in (_with_every_input(portion), portion):
            for component, _, rate in rated(each, prices, self._case.priced_at, tier=tier):
                if rate is not None:
                    rates[component] = list_amount(component, Fraction(1), Fraction(rate)) * factor
        return rates or None

    def _cache_shares(self, model: str) -> Mapping[str, Fraction] | None:
        """Return the promised shares of a model's input; of all models' where it had none; None: no input at all."""
        if model not in self._shares:
            own = _shares([line for line in self._case.lines if line.model == model])
            self._shares[model] = own or _shares(list(self._case.lines))
        return self._shares[model]

    def _fx(self, currency: str) -> Fraction | None:
        if currency == self._case.currency:
            return Fraction(1)
        if currency in self._case.fx:
            return self._case.fx[currency]
        try:
            return self.exchange.between(Fraction(1), currency, self._case.currency, self._case.priced_at.date())
        except FxError:
            return None


def _shares(lines: list[Any]) -> Mapping[str, Fraction] | None:
    found = {name: Fraction(0) for name in CACHED}
    for line in lines:
        if line.component in found:
            found[line.component] += line.quantity
    whole = sum(found.values(), Fraction(0))
    return {name: quantity / whole for name, quantity in found.items() if quantity} if whole else None


def _with_every_input(portion: Portion) -> Portion:
    """Return requests as large as the portion's that use every kind of text input, to ask for its prices."""
    whole = max(portion.size.input_tokens, len(TEXT_INPUT))
    kinds = dict.fromkeys(TEXT_INPUT, 1)
    kinds[TEXT_INPUT[0]] = whole - len(TEXT_INPUT) + 1
    return Portion(
        None, None, portion.at, None, {name: Fraction(count) for name, count in kinds.items()}, Usage(**kinds)
    )


def models_of(done: Done) -> Iterator[tuple[str, Fraction, Fraction]]:
    """Yield model, tokens and cost of what was done, the dearest first."""
    for model, (tokens, cost) in sorted(done.by_model.items(), key=lambda item: (-item[1][1], item[0])):
        yield model, tokens, cost
