"""Both sides of a reconciliation as entries of the same keys: the bill's lines, and what the ledger says of its days.

In: a bill; a ledger's reader and a span of UTC days. Out: `Entry`s by `Key`. Invariant: the ledger's entries sum to its
settled cost of the span; a key is as fine as the bill is, and no finer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from pricing import Catalog, PriceSet, UnknownModel, join_amount
from pricing.catalog import VENDOR
from pricing.usage import BUCKETS
from reports.billed import requests_of
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.invoice import BillLine
from reports.period import DAY_US, Period, at_us
from reports.rate_cards import list_amount, rated, undated
from reports.reconcile import Entry, Key
from reports.workload import Portion, portion_of

_BY = (
    *("day", "endpoint", "price_list", "model_served", "model_asked", "context_tier", "service_tier"),
    *("price_set_id", "settled_currency"),
)
_AS_OUTPUT = ("reasoning",)
TOOLS = ("web_search",)
"""Components that bills name without a model."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What the bill's lines say, so what can be compared: their day, model, component; tools' with a model or not."""

    day: bool
    model: bool
    component: bool
    tool_model: bool

    def key(self, day: date | None, model: str | None, component: str | None) -> Key:
        """Return the key of something, as fine as the bill."""
        is_tool = component in TOOLS
        named = model if self.model and (not is_tool or self.tool_model) else None
        return Key(day if self.day else None, named, component if self.component else None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of the ledger's rows the bill is for; None: all.

    Args:
        price_list: rows at this list.
        endpoint: rows of this endpoint.
    """

    price_list: str | None = None
    endpoint: str | None = None


@dataclass(slots=True)
class LedgerSide:
    """What the ledger says.

    Args:
        entries: by key.
        records: rows in them.
        unpriced: rows with usage and no price, which are in no entry's amount.
        possibly_billed: rows that ended without usage after they were sent, or never ended.
        possibly_amount: what was reserved for those, in the bill's currency.
        others: rows that are not the bill's.
    """

    entries: dict[Key, Entry] = field(default_factory=dict)
    records: int = 0
    unpriced: int = 0
    possibly_billed: int = 0
    possibly_amount: Fraction = Fraction(0)
    others: int = 0

    def add(self, key: Key, entry: Entry) -> None:
        """Take in an entry."""
        self.entries[key] = self.entries[key] + entry if key in self.entries else entry


def detail_of(lines: Iterable[BillLine]) -> Detail:
    """Return how fine a bill is: what each of its lines for tokens says."""
    tokens = [line for line in lines if line.component not in TOOLS]
    tools = [line for line in lines if line.component in TOOLS]
    named = [line for line in tokens if line.model is not None]
    return Detail(
        day=all(line.day is not None for line in lines),
        model=bool(named),
        component=bool(named or tokens) and any(line.component is not None for line in tokens),
        tool_model=bool(tools) and all(line.model is not None for line in tools),
    )


def bill_entries(lines: Iterable[BillLine], detail: Detail, catalog: Catalog) -> Mapping[Key, Entry]:
    """Return a bill's entries by key, its models by our names where the catalogue knows them."""
    found: dict[Key, Entry] = {}
    for line in lines:
        key = detail.key(line.day, _canonical(line.model, catalog), line.component)
        entry = Entry(line.quantity, line.amount)
        found[key] = found[key] + entry if key in found else entry
    return found


def ledger_side(
    reader: LedgerReader, span: Period, wanted: Wanted, detail: Detail, catalog: Catalog, exchange: Exchange
) -> LedgerSide:
    """Return what the ledger says of a span, by the bill's keys, in the bill's currency at each day's rate.

    Args:
        reader: the ledger's.
        span: UTC days.
        wanted: which rows the bill is for.
        detail: how fine the bill is.
        catalog: knows the models' vendors.
        exchange: converts into the bill's currency.

    Raises:
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    groups = [
        (dict(zip(_BY, group.key, strict=True)), group.sums)
        for group in reader.usage_groups(span.start_us, span.end_us, _BY)
    ]
    sets = reader.price_sets({key["price_set_id"] for key, _ in groups if key["price_set_id"] is not None})
    side = LedgerSide()
    for key, sums in groups:
        prices = sets.get(key["price_set_id"])
        if not _is_wanted(key, prices, wanted, catalog):
            side.others += sums["records"]
            continue
        _take_in(side, key, sums, prices, detail, exchange)
    return side


def _take_in(
    side: LedgerSide,
    key: Mapping[str, Any],
    sums: Mapping[str, int],
    prices: PriceSet | None,
    detail: Detail,
    exchange: Exchange,
) -> None:
    at = at_us(key["day"] * DAY_US)
    day = at.date()
    side.records += sums["records"]
    side.possibly_billed += sums["unsettled"]
    reserved = Fraction(join_amount(sums["unsettled_usd_micro"], sums["unsettled_usd_pico"]))
    side.possibly_amount += exchange.convert(reserved, "USD", day)
    if not any(sums[bucket] for bucket in BUCKETS):
        return
    paid = Fraction(0)
    if key["settled_currency"] is None:
        side.unpriced += sums["records"]
    else:
        amount = Fraction(join_amount(sums["settled_micro"], sums["settled_pico"]))
        paid = exchange.convert(amount, key["settled_currency"], day)
    portion = portion_of(sums, requests_of(sums), at=at, is_sized=key["context_tier"] is not None)
    model = key["model_served"] or key["model_asked"]
    for component, quantity, cost in _shares(portion, prices, key["service_tier"], paid):
        side.add(detail.key(day, model, component), Entry(quantity, cost))


def _shares(
    portion: Portion, prices: PriceSet | None, tier: str | None, paid: Fraction
) -> Iterable[tuple[str, Fraction, Fraction]]:
    """Yield component, quantity and its share of what was paid: in proportion to list cost, so that they sum to it."""
    kept = None if prices is None else undated(prices)
    lines = [
        (component, quantity, Fraction(0) if rate is None else list_amount(component, quantity, Fraction(rate)))
        for component, quantity, rate in rated(portion, kept, portion.at, tier=tier)
    ]
    whole = sum((cost for *_, cost in lines), Fraction(0))
    for number, (component, quantity, cost) in enumerate(lines):
        share = cost / whole if whole else Fraction(int(number == 0))
        yield "output" if component in _AS_OUTPUT else component, quantity, paid * share


def _is_wanted(key: Mapping[str, Any], prices: PriceSet | None, wanted: Wanted, catalog: Catalog) -> bool:
    if wanted.endpoint is not None and key["endpoint"] != wanted.endpoint:
        return False
    if wanted.price_list is None:
        return True
    model = key["model_served"] or key["model_asked"]
    price_list = prices.price_list if prices is not None else _home(key["price_list"], model, catalog)
    return bool(price_list == wanted.price_list)


def _home(price_list: str | None, model: str, catalog: Catalog) -> str | None:
    if price_list not in (None, VENDOR):
        return price_list
    try:
        return catalog.vendor_list(model)
    except UnknownModel:
        return None


def _canonical(model: str | None, catalog: Catalog) -> str | None:
    """Return our name of a model as billed: "Claude Haiku 4.5" and "claude-haiku-4-5-20251001" are one."""
    if model is None:
        return None
    for name in (model, "-".join(model.lower().split())):
        try:
            return catalog.find(name)
        except UnknownModel:
            continue
    return model
