"""What if: other prices, models, terms, volumes and rates, as one frozen value that composes.

In: price sets, model ids, token counts, an endpoint's terms. Out: the same, changed. Invariant: the empty scenario
changes nothing; `(a | b)` applied is b applied after a; no change makes a price of what no list and no user prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction

from pricing.conditions import ALWAYS
from pricing.money import EXACT, plain, round_amount
from pricing.prices import PriceRow, PriceSet

SOURCE = "scenario"
BATCH_TIER = "batch"
"""The tier on record that means the batch API; Anthropic reports it so."""
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class PriceChange:
    """One change of prices: a factor on every row it concerns, or an amount.

    An amount is that of the plain row; the component's other rows (batch, tiers, peak hours) move in proportion,
    rounded half-even at 1e-12. Where the component has no plain row, or one of 0, all its rows get the amount.

    Args:
        model: canonical id, or a pattern with * ? [ ].
        component: a key of `pricing.prices.UNITS`; None: all of them (with a factor only).
        factor: what amounts are multiplied by, 0 or more; None: `amount` is set.
        amount: per Mtok (per 1,000 calls of a tool), in the list's currency; None: `factor` is set.
        price_list: the one list it is about; None: every list.
        currency: ISO 4217 code of a price that the list does not have yet; None: the change makes no new price set.
    """

    model: str
    component: str | None = None
    factor: Decimal | None = None
    amount: Decimal | None = None
    price_list: str | None = None
    currency: str | None = None

    @property
    def is_pattern(self) -> bool:
        """Whether it may concern several models."""
        return bool(_WILD & set(self.model))

    def concerns(self, model: str, price_list: str) -> bool:
        """Return whether it is about a model at a list."""
        named = fnmatchcase(model, self.model) if self.is_pattern else model == self.model
        return named and self.price_list in (None, price_list)

    def __str__(self) -> str:
        """Return the change as it is written: `model[@list][:component]=change`."""
        place = "" if self.price_list is None else f"@{self.price_list}"
        part = "" if self.component is None else f":{self.component}"
        change = plain(self.amount) if self.amount is not None else f"x{plain(self.factor or Decimal(0))}"
        return f"{self.model}{place}{part}={change}"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one unit of list price is paid with; without currency and rate: itself, so at the market's rate.

    Args:
        currency: ISO 4217 code, or None.
        rate: units of `currency` for one unit of list price, above 0; or None.
    """

    currency: str | None = None
    rate: Decimal | None = None

    def __str__(self) -> str:
        """Return it as it is written: `market`, or `CNY:1`."""
        return "market" if self.rate is None else f"{self.currency}:{plain(self.rate)}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to what was; each is optional, and what is not set stays as it was.

    Args:
        price: price changes, applied in their order.
        model_map: (from, to) canonical model ids; each model is mapped once.
        volume: factor on all quantities, above 0.
        cache_share: share of text input, but for what is written to a cache, that is read from a cache, 0 to 1. It is
            moved between `uncached_input_tokens` and `cache_read_tokens`; cache writes stay as recorded.
        batch_share: share of all work that goes by the batch API, 0 to 1; the rest keeps its tier.
        tier: the service tier that all is served at, as the vendor names it.
        discount: (endpoint or list, share of the list price that is not paid, 0 to 1); the last that fits holds.
        settlement: (endpoint or list, settlement); the last that fits holds.
        fx: (base, quote, units of quote for one of base); the last of a pair holds, whichever way round it is given.
        at: aware instant whose prices hold; None: each call's own.
    """

    price: tuple[PriceChange, ...] = ()
    model_map: tuple[tuple[str, str], ...] = ()
    volume: Decimal = Decimal(1)
    cache_share: Decimal | None = None
    batch_share: Decimal | None = None
    tier: str | None = None
    discount: tuple[tuple[str, Decimal], ...] = ()
    settlement: tuple[tuple[str, Settlement], ...] = ()
    fx: tuple[tuple[str, str, Decimal], ...] = ()
    at: datetime | None = None

    def then(self, later: Scenario) -> Scenario:
        """Return the scenario that changes what this one has changed: a volume of 2 then 3 is 6, a share is replaced.

        Args:
            later: what is applied after this one.
        """
        mapped = {old: later.model(new) for old, new in self.model_map}
        added = {old: new for old, new in later.model_map if old not in mapped}
        return Scenario(
            price=self.price + later.price,
            model_map=tuple({**mapped, **added}.items()),
            volume=EXACT.multiply(self.volume, later.volume),
            cache_share=self.cache_share if later.cache_share is None else later.cache_share,
            batch_share=self.batch_share if later.batch_share is None else later.batch_share,
            tier=later.tier or self.tier,
            discount=self.discount + later.discount,
            settlement=self.settlement + later.settlement,
            fx=self.fx + later.fx,
            at=later.at or self.at,
        )

    __or__ = then

    def only(self, names: tuple[str, ...]) -> Scenario:
        """Return the scenario with some of its changes alone.

        Args:
            names: names of fields.
        """
        return Scenario(**{item.name: getattr(self, item.name) for item in fields(self) if item.name in names})

    def model(self, model: str) -> str:
        """Return the model that does what a model did."""
        return dict(self.model_map).get(model, model)

    def prices(self, found: PriceSet | None, *, model: str, price_list: str, at: datetime) -> PriceSet | None:
        """Return a price set with the price changes in it.

        Args:
            found: the set in force; None where the list has none.
            model: canonical id.
            price_list: the list's name.
            at: aware UTC instant of the prices.

        Returns:
            The changed set; None where there was none and no change gives the list a price of its own.
        """
        for change in self.price:
            if change.concerns(model, price_list):
                found = _changed(found, change, model, price_list, at)
        return found

    def tokens(self, tokens: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
        """Return quantities by usage bucket after cache share and volume; input as a whole only moves with volume.

        Args:
            tokens: quantity by usage bucket, those that are used.
        """
        found = dict(tokens)
        if self.cache_share is not None:
            share = Fraction(self.cache_share)
            pool = found.pop("uncached_input_tokens", Fraction(0)) + found.pop("cache_read_tokens", Fraction(0))
            found.update({"uncached_input_tokens": pool * (1 - share), "cache_read_tokens": pool * share})
        return {bucket: count * Fraction(self.volume) for bucket, count in found.items() if count}

    def served(self, tier: str | None) -> tuple[tuple[Fraction, str | None, bool], ...]:
        """Return how work of a tier is served: (share of it, tier, whether by batch); the shares add up to 1.

        Args:
            tier: the tier on record; "batch" is the batch API.
        """
        is_batch = tier == BATCH_TIER
        if self.batch_share is None:
            return ((Fraction(1), None, True),) if is_batch else ((Fraction(1), self.tier or tier, False),)
        share = Fraction(self.batch_share)
        rest = self.tier or (None if is_batch else tier)
        parts = ((1 - share, rest, False), (share, None, True))
        return tuple(part for part in parts if part[0])

    def discount_of(self, *names: str | None) -> Decimal | None:
        """Return the discount share given for an endpoint or list; None: none is."""
        return next((share for name, share in reversed(self.discount) if name in names), None)

    def settlement_of(self, *names: str | None) -> Settlement | None:
        """Return the settlement given for an endpoint or list; None: none is."""
        return next((settlement for name, settlement in reversed(self.settlement) if name in names), None)

    def rate(self, base: str, quote: str) -> Fraction | None:
        """Return the exchange rate given for a pair or for its inverse, exact; None: none is.

        Args:
            base: ISO 4217 code.
            quote: ISO 4217 code.
        """
        for given_base, given_quote, rate in reversed(self.fx):
            if (given_base, given_quote) == (base, quote):
                return Fraction(rate)
            if (given_base, given_quote) == (quote, base):
                return 1 / Fraction(rate)
        return None


def _changed(found: PriceSet | None, change: PriceChange, model: str, price_list: str, at: datetime) -> PriceSet | None:
    if found is None:
        if change.amount is None or change.currency is None:
            return None
        found = PriceSet(price_list, model, change.currency, ())
    if change.factor is not None:
        factor = change.factor
        return _with_rows(
            found,
            tuple(
                replace(row, amount=EXACT.multiply(row.amount, factor))
                if change.component in (None, row.component)
                else row
                for row in found.rows
            ),
        )
    return _with_amount(found, change.component or "", change.amount or Decimal(0), at)


def _with_amount(found: PriceSet, component: str, amount: Decimal, at: datetime) -> PriceSet:
    own = [row for row in found.rows if row.component == component]
    before = next((row.amount for row in own if row.conditions == ALWAYS), None)
    changed = [replace(row, amount=_in_proportion(row.amount, amount, before)) for row in own]
    if before is None:
        day = at.date()
        changed.append(PriceRow(found.price_list, found.model, component, found.currency, amount, "", SOURCE, day))
    others = [row for row in found.rows if row.component != component]
    return _with_rows(found, tuple(sorted((*others, *changed), key=_place)))


def _in_proportion(amount: Decimal, wanted: Decimal, before: Decimal | None) -> Decimal:
    if not before or amount == before:
        return wanted
    return round_amount(EXACT.divide(EXACT.multiply(amount, wanted), before))


def _place(row: PriceRow) -> tuple[str, str]:
    return row.component, str(row.conditions.to_json())


def _with_rows(found: PriceSet, rows: tuple[PriceRow, ...]) -> PriceSet:
    return PriceSet(found.price_list, found.model, found.currency, rows, found.retired_at)
