"""Work priced stage by stage under a scenario: the same engine each time, a little more of the scenario at each stage.

In: served parts, a scenario, catalogue and endpoints. Out: `Restated` sides with their cost after each stage.
Invariant: a side (all text input, all text output, one other component) is compared only where it is priced whole
before and after; the effects of the stages add up to the difference exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction

from pricing import Catalog, PriceSet, Scenario, Terms, UnknownModel
from pricing.catalog import VENDOR
from pricing.conditions import PLAIN_TIERS
from pricing.scenario import BATCH_TIER
from reports.exchange import Exchange
from reports.rate_cards import list_amount, rated, undated
from reports.served_work import ServedPart, folded
from reports.workload import Portion
from router.policy.market import terms_of
from router.settings import EndpointSettings

STAGES: Mapping[str, tuple[str, ...]] = {
    "model": ("model_map",),
    "price": ("price", "at", "tier", "batch_share"),
    "settlement": ("settlement", "discount"),
    "cache": ("cache_share",),
    "volume": ("volume",),
    "fx": ("fx",),
}
"""The stages in their order, each with the fields of the scenario that come in with it."""
SIDES: Mapping[str, str] = {
    **dict.fromkeys(("input", "cache_read", "cache_write_5m", "cache_write_1h"), "input"),
    **dict.fromkeys(("output", "reasoning"), "output"),
}
TEXT_SIDES = ("input", "output")
_ROUNDING = Fraction(1, 10**12)
_DAY_S = 86_400
_PLAIN = Terms()


@dataclass(frozen=True, slots=True)
class Piece:
    """Quantity and cost of one component; `amount` is in the page's currency, None where it is unpriced."""

    quantity: Fraction
    amount: Fraction | None


@dataclass(frozen=True, slots=True)
class Restated:
    """One side of one part, before and after.

    Args:
        part: the part.
        side: "input", "output", or a component that stands for itself.
        model: the model after it.
        price_list: the list after it.
        before: pieces by component as it was.
        after: pieces by component under the whole scenario.
        costs: before, then after each of `STAGES`; None where the side has an unpriced piece. A stage that cannot be
            priced by itself has the cost of the next one that can, so that its effect is told together with that one's.
    """

    part: ServedPart
    side: str
    model: str
    price_list: str
    before: Mapping[str, Piece]
    after: Mapping[str, Piece]
    costs: tuple[Fraction | None, ...]

    @property
    def is_compared(self) -> bool:
        """Whether it is priced whole before and after."""
        return self.costs[0] is not None and self.costs[-1] is not None


@dataclass(frozen=True, slots=True)
class _Deal:
    """What one unit of list price costs; `currency` None: the list's own."""

    discount: Fraction = Fraction(0)
    rate: Fraction = Fraction(1)
    currency: str | None = None
    on_top: Fraction = Fraction(1)

    @property
    def factor(self) -> Fraction:
        return (1 - self.discount) * self.rate * self.on_top


@dataclass(frozen=True, slots=True)
class Engine:
    """Prices parts under scenarios.

    Args:
        catalog: the price catalogue.
        endpoints: the user's endpoints by name.
        exchange: converts into the page's currency, at the rate of each call's own UTC day.
        retired: models that were priced at their last list, with the instant they left it; filled in.
        kept: requests that stay on their tier, since nobody sells the wanted one, by (model, wanted tier); filled in.
        converted: currencies that were converted under a scenario with exchange rates of its own; filled in.
    """

    catalog: Catalog
    endpoints: Mapping[str, EndpointSettings]
    exchange: Exchange
    retired: dict[str, datetime] = field(default_factory=dict)
    kept: dict[tuple[str, str], dict[int, Fraction]] = field(default_factory=dict)
    converted: set[str] = field(default_factory=set)
    _sets: dict[tuple[object, ...], PriceSet | None] = field(default_factory=dict)
    _whole_days: dict[tuple[str, str, bool], bool] = field(default_factory=dict)

    def restate(self, parts: Iterable[ServedPart], scenario: Scenario) -> tuple[Restated, ...]:
        """Return every side of every part, before and after; parts that are priced alike come as one.

        Raises:
            FxError: an amount cannot be converted.
        """
        stages = stages_of(scenario)
        together = folded(parts, lambda part: self._slot(part, scenario), self._recorded_deal)
        return tuple(each for part in together for each in self._sides(part, stages))

    def _sides(self, part: ServedPart, stages: Sequence[Scenario]) -> Iterable[Restated]:
        found: list[Mapping[str, Piece]] = []
        for at, scenario in enumerate(stages):
            same = at > 0 and scenario == stages[at - 1]
            found.append(found[-1] if same else self._priced(part, scenario, stages[-1]))
        after = stages[-1].model(part.model)
        price_list = self._list(part, after, stages[-1])
        for side in dict.fromkeys(SIDES.get(name, name) for pieces in found for name in pieces):
            sides = [
                {name: piece for name, piece in pieces.items() if SIDES.get(name, name) == side} for pieces in found
            ]
            costs = _filled([_total(pieces.values()) for pieces in sides])
            yield Restated(part, side, after, price_list, sides[0], sides[-1], costs)

    def _priced(self, part: ServedPart, scenario: Scenario, whole: Scenario) -> Mapping[str, Piece]:
        """Return the pieces of a part under a scenario; `whole` says where a new model's own list is."""
        model = scenario.model(part.model)
        price_list = self._list(part, model, whole)
        prices = self._prices(part, model, price_list, scenario)
        deal = self._deal(part, price_list, scenario)
        at = part.portion.at
        found: dict[str, Piece] = {}
        for share, wanted, by_batch in scenario.served(part.tier):
            tier, batch = self._served(part, prices, wanted, batch=by_batch)
            portion = changed(part.portion, scenario, share)
            for component, quantity, rate in rated(portion, prices, at, tier=tier, batch=batch):
                amount = None
                if rate is not None and prices is not None:
                    paid = list_amount(component, quantity, Fraction(rate)) * deal.factor
                    amount = self._shown(paid, deal.currency or prices.currency, at, scenario)
                found[component] = _added(found.get(component), Piece(quantity, amount))
        return found

    def _shown(self, amount: Fraction, currency: str, at: datetime, scenario: Scenario) -> Fraction:
        if scenario.fx:
            self.converted.add(currency)
        rate = scenario.rate(currency, self.exchange.currency)
        return self.exchange.convert(amount, currency, at.date()) if rate is None else amount * rate

    def _served(
        self, part: ServedPart, prices: PriceSet | None, tier: str | None, *, batch: bool
    ) -> tuple[str | None, bool]:
        """Return tier and batch that a part is served at: those wanted where the price set has them, else its own."""
        own = None if part.tier == BATCH_TIER else part.tier
        is_own = (tier, batch) == (own, part.tier == BATCH_TIER)
        if is_own or prices is None or _sells(prices, tier, batch=batch):
            return tier, batch
        waiting = self.kept.setdefault((prices.model, BATCH_TIER if batch else str(tier)), {})
        waiting[id(part)] = part.portion.requests or Fraction(0)
        return own, part.tier == BATCH_TIER

    def _list(self, part: ServedPart, model: str, scenario: Scenario) -> str:
        """Return where a model is bought: at a relay's list if the part was, else at its own vendor's."""
        if model == part.model or not self._is_vendors(part.price_list):
            return part.price_list
        try:
            return self.catalog.vendor_list(model)
        except UnknownModel:
            own = (change.price_list for change in scenario.price if change.model == model and change.price_list)
            return next(own, part.price_list)

    def _is_vendors(self, price_list: str) -> bool:
        return price_list not in self.catalog.lists or self.catalog.list_info(price_list).kind == "vendor"

    def _prices(self, part: ServedPart, model: str, price_list: str, scenario: Scenario) -> PriceSet | None:
        own = part.prices if model == part.model and scenario.at is None else None
        at = scenario.at or part.portion.at
        key = (own, model, price_list, None if own else at, scenario.price)
        if key not in self._sets:
            found = own or self._listed(model, price_list, at, last_list=model != part.model or scenario.at is not None)
            changed_set = scenario.prices(found, model=model, price_list=price_list, at=at)
            self._sets[key] = None if changed_set is None else undated(changed_set)
        return self._sets[key]

    def _listed(self, model: str, price_list: str, at: datetime, *, last_list: bool) -> PriceSet | None:
        if price_list not in (*self.catalog.lists, VENDOR):
            return None
        try:
            found = self.catalog.price_set(model, price_list, at, last_list=last_list)
        except UnknownModel:
            return None
        if found is not None and found.retired_at is not None:
            self.retired[model] = found.retired_at
        return found

    def _deal(self, part: ServedPart, price_list: str, scenario: Scenario) -> _Deal:
        """Return what the part pays for list prices: as on record, or at the endpoint that sells the other list."""
        name, deal = part.endpoint, self._recorded_deal(part)
        if price_list != part.price_list:
            name = self._seller(part, price_list)
            deal = _deal_of(self._terms(name, part.portion.at))
        discount, settlement = scenario.discount_of(name, price_list), scenario.settlement_of(name, price_list)
        if discount is not None:
            deal = replace(deal, discount=Fraction(discount))
        if settlement is not None:
            deal = replace(deal, currency=settlement.currency, rate=Fraction(settlement.rate or 1))
        return deal

    def _seller(self, part: ServedPart, price_list: str) -> str | None:
        own = self.endpoints.get(part.endpoint or "")
        if own is not None and own.price_list == VENDOR:
            return part.endpoint
        return next((name for name, each in self.endpoints.items() if each.price_list == price_list), None)

    def _terms(self, endpoint: str | None, at: datetime) -> Terms:
        found = self.endpoints.get(endpoint or "")
        return _PLAIN if found is None else terms_of(found, at)

    def _recorded_deal(self, part: ServedPart) -> _Deal:
        """Return the endpoint's terms where they make the settled cost on record of the list cost, else their ratio."""
        listed, settled = part.listed, part.settled
        terms = self._terms(part.endpoint, part.portion.at)
        if listed is None or settled is None or not listed.value:
            return _deal_of(terms)
        slack = _ROUNDING * (part.portion.requests or 1)
        for each in (terms, _PLAIN):
            paid = listed.value * Fraction(each.factor)
            if each.currency_of(listed.currency) == settled.currency and abs(paid - settled.value) <= slack:
                return _deal_of(each)
        ratio = settled.value / listed.value
        if settled.currency != listed.currency:
            return _Deal(rate=ratio, currency=settled.currency)
        return _Deal(discount=1 - ratio) if ratio <= 1 else _Deal(on_top=ratio)

    def _slot(self, part: ServedPart, scenario: Scenario) -> datetime:
        """Return the start of the part's UTC day where its prices hold for whole days, else its own instant."""
        model = scenario.model(part.model)
        timed = part.prices is not None and any(row.conditions.timed for row in part.prices.rows)
        looked_up = part.prices is None or model != part.model or scenario.at is not None
        if timed or (looked_up and not self._for_whole_days(model, self._list(part, model, scenario), scenario)):
            return part.portion.at
        if part.prices is None and not self._for_whole_days(part.model, part.price_list, scenario):
            return part.portion.at
        return part.portion.at.replace(hour=0, minute=0)

    def _for_whole_days(self, model: str, price_list: str, scenario: Scenario) -> bool:
        dated = scenario.at is None
        key = (model, price_list, dated)
        if key not in self._whole_days:
            try:
                rows = self.catalog.history(model, price_list) if price_list in self.catalog.lists else ()
            except UnknownModel:
                rows = ()
            edges = [edge for row in rows for edge in (row.effective_from, row.effective_to) if edge is not None]
            within = dated and any(int(edge.timestamp()) % _DAY_S for edge in edges)
            self._whole_days[key] = not within and not any(row.conditions.timed for row in rows)
        return self._whole_days[key]


def stages_of(scenario: Scenario) -> tuple[Scenario, ...]:
    """Return the empty scenario, then the scenario with the fields of one more of `STAGES` each, up to all of it."""
    names: tuple[str, ...] = ()
    found = [Scenario()]
    for added in STAGES.values():
        names += added
        found.append(scenario.only(names))
    return tuple(found)


def changed(portion: Portion, scenario: Scenario, share: Fraction = Fraction(1)) -> Portion:
    """Return a share of a portion with the scenario's cache share and volume; each request's input stays as it is.

    Args:
        portion: the work.
        scenario: the changes.
        share: how much of it, 0 to 1.
    """
    tokens = {bucket: count * share for bucket, count in scenario.tokens(portion.tokens).items()}
    size = portion.size
    if scenario.cache_share is not None:
        pool = size.uncached_input_tokens + size.cache_read_tokens
        reads = min(pool, max(int("cache_read_tokens" in tokens), int(pool * scenario.cache_share)))
        rest = max(int("uncached_input_tokens" in tokens), pool - reads)
        size = replace(
            size, uncached_input_tokens=rest, cache_read_tokens=reads if "cache_read_tokens" in tokens else 0
        )
    return replace(portion, tokens=tokens, size=size)


def _sells(prices: PriceSet, tier: str | None, *, batch: bool) -> bool:
    conditions = [row.conditions for row in prices.rows]
    if batch:
        return any(found.batch for found in conditions)
    return tier is None or tier in PLAIN_TIERS or any(found.service_tier == tier for found in conditions)


def _deal_of(terms: Terms) -> _Deal:
    on_top = (1 + Fraction(terms.markup_share)) * (1 + Fraction(terms.tax_share))
    rate = Fraction(1) if terms.settlement_rate is None else Fraction(terms.settlement_rate)
    return _Deal(Fraction(terms.discount_share), rate, terms.settlement_currency, on_top)


def _added(before: Piece | None, piece: Piece) -> Piece:
    if before is None:
        return piece
    known = before.amount is not None and piece.amount is not None
    amount = (before.amount or Fraction(0)) + (piece.amount or Fraction(0)) if known else None
    return Piece(before.quantity + piece.quantity, amount)


def _total(pieces: Iterable[Piece]) -> Fraction | None:
    amounts = [piece.amount for piece in pieces]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Fraction(0)) if len(known) == len(amounts) else None


def _filled(costs: Sequence[Fraction | None]) -> tuple[Fraction | None, ...]:
    """Return the costs with each unknown one between the first and the last replaced by the next that is known."""
    found = list(costs)
    for at in range(len(found) - 2, 0, -1):
        if found[at] is None:
            found[at] = found[at + 1]
    return tuple(found)
