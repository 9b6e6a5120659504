"""Where a data set and the catalogue do not say the same.

In: a `DataSet` and a `Catalog`. Out: a `Comparison`. Invariant: both are asked what one and the same request costs at
the data set's instant, ours by the engine that prices calls, so tiers, clocks and fallbacks count as they do there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from decimal import Decimal

from pricing.catalog import Catalog
from pricing.conditions import Conditions
from pricing.cost import CostLine, price_call
from pricing.errors import UnknownModel
from pricing.prices import PriceRow, PriceSet
from pricing.sources.entries import DataSet, Entry, Offer
from pricing.usage import Usage

_BUCKETS = {
    "input": "uncached_input_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write_5m": "cache_write_5m_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
    "output": "plain_output_tokens",
    "reasoning": "reasoning_tokens",
    "input_audio": "audio_input_tokens",
    "input_image": "image_input_tokens",
    "output_audio": "audio_output_tokens",
    "output_image": "image_output_tokens",
    "web_search": "web_searches",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One price that the two state differently.

    Args:
        entry: the data set's entry.
        model: our canonical id.
        offer: what the data set says, in the list's currency per the component's unit.
        ours: what the catalogue charges for the same, None: it has no price for it.
        row: the row that says so, or None.
    """

    entry: Entry
    model: str
    offer: Offer
    ours: Decimal | None
    row: PriceRow | None

    @property
    def change_share(self) -> Decimal | None:
        """How much dearer the data set is, as a share of our price; None where we have none, or 0."""
        return self.offer.amount / self.ours - 1 if self.ours else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A data set held against the catalogue at its instant.

    Args:
        data: the data set.
        compared: our models that both have a price for.
        agreed: prices that are the same in both.
        differences: prices that are not, in the order of the data set.
        unknown: entries whose names the catalogue does not have.
        ended: entries of models whose list has ended in the catalogue.
        absent: (list, model) that the catalogue prices and the data set does not have, of the lists it covers.
    """

    data: DataSet
    compared: tuple[str, ...]
    agreed: int
    differences: tuple[Difference, ...]
    unknown: tuple[Entry, ...]
    ended: tuple[Entry, ...]
    absent: tuple[tuple[str, str], ...]


def compare(data: DataSet, catalog: Catalog, only: Container[str] | None = None) -> Comparison:
    """Return where a data set and the catalogue differ at the data set's instant.

    Args:
        data: the data set.
        catalog: price lists; those the data set does not cover are not looked at.
        only: canonical ids to look at; None: every model.
    """
    compared: dict[tuple[str, str], None] = {}
    differences: dict[tuple[str, str, Offer], Difference] = {}
    unknown: list[Entry] = []
    ended: list[Entry] = []
    agreed = 0
    for entry in data.entries:
        model = _model_of(entry, catalog)
        if model is None:
            unknown += [entry] * (bool(entry.offers) and only is None)
            continue
        if only is not None and model not in only:
            continue
        prices = catalog.price_set(model, entry.price_list, data.at)
        if prices is None:
            ended.append(entry)
            continue
        for offer in entry.offers:
            compared[entry.price_list, model] = None
            found = _held_against(entry, model, offer, prices, data)
            if found is None:
                agreed += 1
            else:
                differences.setdefault((entry.price_list, model, offer), found)
    covered = {entry.price_list for entry in data.entries}
    seen = {*compared, *((entry.price_list, _model_of(entry, catalog)) for entry in ended)}
    absent = tuple(pair for pair in _priced(catalog, covered, data) if pair not in seen and only is None)
    return Comparison(
        data,
        tuple(dict.fromkeys(model for _, model in compared)),
        agreed,
        tuple(differences.values()),
        tuple(unknown),
        tuple(ended),
        absent,
    )


def _model_of(entry: Entry, catalog: Catalog) -> str | None:
    """Return our id of an entry's model, None where the list does not know any of its names."""
    if entry.price_list not in catalog.lists:
        return None
    for name in entry.names:
        try:
            return catalog.resolve(name, entry.price_list)
        except UnknownModel:
            continue
    return None


def _priced(catalog: Catalog, lists: Container[str], data: DataSet) -> Iterator[tuple[str, str]]:
    for price_list in (name for name in catalog.lists if name in lists):
        for model in catalog.models(price_list):
            if catalog.price_set(model, price_list, data.at) is not None:
                yield price_list, model


def _held_against(entry: Entry, model: str, offer: Offer, prices: PriceSet, data: DataSet) -> Difference | None:
    line = _charged(offer, prices, data)
    ours = line.unit_amount if line else None
    if ours == offer.amount:
        return None
    row = next((found for found in prices.rows if line and found.id == line.price_row_id), None)
    return Difference(entry, model, offer, ours, row)


def _charged(offer: Offer, prices: PriceSet, data: DataSet) -> CostLine | None:
    """Return the engine's line for the smallest request that an offer is about; None where it charges none."""
    boundary = offer.conditions.boundary
    counts = {"uncached_input_tokens": 0 if boundary is None else boundary + 1}
    bucket = _BUCKETS[offer.component]
    counts[bucket] = counts.get(bucket, 0) + 1
    conditions: Conditions = offer.conditions
    cost = price_call(
        Usage(**counts),
        prices,
        at=data.at,
        service_tier=conditions.service_tier,
        batch=conditions.batch,
    )
    lines = {line.component: line for line in cost.lines}
    found = lines.get(offer.component)
    if found is None and offer.component == "reasoning":
        found = lines.get("output")
    return found if found and found.unit_amount is not None else None
