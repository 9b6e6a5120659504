"""What could be bought now: models, the endpoints that offer them, and what a call would cost there.

In: catalogue, usable endpoints, exchange rates, the instant. Out: offers and their quotations.
Invariant: pure; what was worked out for one instant is kept only for those at which nothing it is made of has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from pricing import Catalog, FxError, FxTable, ModelInfo, Terms, UnknownModel
from pricing.plain_cost import PlainTariff, plain_tariff
from pricing.rates import rates_of
from pricing.terms import NO_TERMS
from router.errors import RouterError, unknown_name
from router.experience import NO_EXPERIENCE, Experience
from router.policy.memo import Memo
from router.policy.quotation import Quotation, quoted
from router.result import Decision, Offer
from router.settings import EndpointSettings

VENDOR = "vendor"
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
_EVER, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Shelf(NamedTuple):
    """The quotations of one model, and until when they stay what they are."""

    quotations: tuple[Quotation, ...]
    until: datetime


class Memos:
    """What a market has worked out: our ids by name, shelves by model, and what `choose` has decided."""

    __slots__ = ("decisions", "names", "shelves")

    def __init__(self) -> None:
        self.names: Memo[str] = Memo()
        self.shelves: Memo[Shelf] = Memo()
        self.decisions: Memo[Decision] = Memo()


@dataclass(frozen=True, slots=True)
class Market:
    """All that a decision may look at.

    Args:
        catalog: the price catalogue.
        endpoints: usable endpoints by name.
        fx: exchange rates.
        at: the instant of the decision, aware UTC.
        aliases: the user's other names of models.
        latency_s: median latency by model, seconds, as the user states it.
        experience: what the user's own record says of the models.
    """

    catalog: Catalog
    endpoints: Mapping[str, EndpointSettings]
    fx: FxTable
    at: datetime
    aliases: Mapping[str, str] = field(default_factory=dict)
    latency_s: Mapping[str, float] = field(default_factory=dict)
    experience: Experience = NO_EXPERIENCE
    memos: Memos = field(init=False, repr=False, compare=False, default_factory=Memos)

    def moved_to(self, at: datetime) -> Market:
        """Return the same market at another instant; what still holds then is not worked out again.

        Args:
            at: aware UTC instant.
        """
        moved = object.__new__(Market)  # each call moves twice, and the memos of a new one would be for nothing
        for name in _ALL_BUT_AT:
            object.__setattr__(moved, name, getattr(self, name))
        object.__setattr__(moved, "at", at)
        return moved

    def model(self, name: str) -> str:
        """Return our id of a model by id, alias or prefixed name.

        Raises:
            WrongUsage: nobody knows the name; near misses are listed, none is used.
        """
        names = self.memos.names
        return names.get(name, self.at) or names.keep(name, self._named(self.aliases.get(name, name)), _EVER, _NEVER)

    def _named(self, name: str) -> str:
        if any(name in (endpoint.models or ()) for endpoint in self.endpoints.values()):
            return name
        try:
            return self.catalog.find(name)
        except UnknownModel:
            known = {*self.aliases, *(model for each in self.catalog.lists for model in self.catalog.models(each))}
            raise unknown_name("model", name, known) from None

    def median_latency_s(self, model: str, task_class: str) -> float | None:
        """Return the median latency of a model at a class, seconds: as stated, else as on record, else None.

        Args:
            model: our model id.
            task_class: the class.
        """
        stated = self.latency_s.get(model)
        if stated is not None or self.experience is NO_EXPERIENCE:
            return stated
        found = self.experience.latency(model, task_class)
        return None if found is None else found.median_s

    def offers(self, model: str) -> tuple[Offer, ...]:
        """Return every offer of the model; see `quotations`."""
        return tuple(each.offer for each in self.quotations(model))

    def quotations(self, model: str) -> tuple[Quotation, ...]:
        """Return every offer of the model; where no endpoint has it, one at the vendor's list without an endpoint."""
        return self._shelf(model).quotations

    def steady_until(self, model: str) -> datetime:
        """Return an instant up to which the model's quotations stay what they are now."""
        return self._shelf(model).until

    def quotation(self, offer: Offer) -> Quotation:
        """Return the quotation of one offer, whether the market still makes it or not."""
        known = self.quotations(offer.model)
        for each in known:
            if each.offer is offer:
                return each
        return next((each for each in known if each.offer == offer), None) or self._quote(offer)

    def _shelf(self, model: str) -> Shelf:
        kept = self.memos.shelves
        found = kept.get(model, self.at)
        if found is None:
            offers = (self._offer(model, name, endpoint) for name, endpoint in self.endpoints.items())
            made = [offer for offer in offers if offer is not None] or [self._paper_offer(model)]
            quotations = tuple(self._quote(offer) for offer in made)
            until = min(self._steady_until(offer) for offer in made)
            found = kept.keep(model, Shelf(quotations, until), self.at, until)
        return found

    def _steady_until(self, offer: Offer) -> datetime:
        """Days change terms and rates; prices have their own edges, and where a clock decides, a minute may be one."""
        ends = [self.at.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY]
        if self.catalog.sells(offer.model, offer.price_list):
            change = self.catalog.next_change(offer.model, offer.price_list, self.at)
            prices = self.catalog.price_set(offer.model, offer.price_list, self.at, last_list=True)
            ends += [change] if change else []
            ends += [self.at.replace(second=0, microsecond=0) + _MINUTE] if prices and rates_of(prices).clocks else []
        return min(ends)

    def _quote(self, offer: Offer) -> Quotation:
        info = self.info(offer.model, offer.price_list)
        retired_at = self.retired_at(offer.model, offer.price_list)
        return quoted(offer, info, retired_at, self._tariff(offer), self._usd_rate)

    def _tariff(self, offer: Offer) -> PlainTariff | None:
        if not self.catalog.sells(offer.model, offer.price_list):
            return None
        prices = self.catalog.price_set(offer.model, offer.price_list, self.at, last_list=offer.last_list)
        return None if prices is None else plain_tariff(prices, self.at)

    def _usd_rate(self, currency: str) -> Decimal | None:
        try:
            return self.fx.rate(currency, "USD", self.at.date()).rate
        except FxError:
            return None

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


_ALL_BUT_AT = tuple(each.name for each in fields(Market) if each.name != "at")


def terms_of(endpoint: EndpointSettings, at: datetime) -> Terms:
    """Return an endpoint's terms at an instant; a committed tier's discount stands in place of the endpoint's.

    Args:
        endpoint: its settings.
        at: aware instant of the call.
    """
    tier = next((each for each in endpoint.commitments if each.commitment().in_force(at)), None)
    settlement = endpoint.settlement
    terms = Terms(
        discount_share=endpoint.discount_share if tier is None else tier.discount_share,
        settlement_currency=None if settlement is None else settlement.currency,
        settlement_rate=None if settlement is None else settlement.rate,
        markup_share=endpoint.markup_share,
        tax_share=endpoint.tax_share,
    )
    return NO_TERMS if terms == NO_TERMS else terms


class NoCandidate(RouterError):
    """No candidate fits the requirements; the message lists why each lost."""
