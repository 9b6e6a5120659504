"""A month of the ledger as it was served: by which model, list, endpoint and tier, and what it cost.

In: a ledger's reader, a month. Out: `ServedWork`. Invariant: every attempt whose usage is known is in exactly one part,
whose requests share model, list, tier, context tier, price set and quarter hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pricing import Catalog, PriceSet, UnknownModel
from pricing.catalog import VENDOR
from pricing.usage import BUCKETS
from reports.billed import billed_groups, recorded_sums, requests_of
from reports.exchange import Exchange
from reports.frames import LedgerReader, usage_frame
from reports.page import Fact, Money, Note
from reports.period import QUARTER_HOUR_US, Period, at_us, no_rows
from reports.workload import Portion, portion_of

if TYPE_CHECKING:
    import pandas as pd

_BY = (
    "quarter_hour",
    "endpoint",
    "price_list",
    "model_asked",
    "model_served",
    "service_tier",
    "context_tier",
    "price_set_id",
    "cost_currency",
    "settled_currency",
    "origin",
)


_UNSIZED = -1


@dataclass(frozen=True, slots=True)
class ServedPart:
    """Requests that were served and priced alike.

    Args:
        model: the model that answered, or else the one that was asked for.
        price_list: the list it was priced at (never "vendor", where the model has a vendor's list).
        portion: requests and tokens; its instant is the start of their quarter hour.
        endpoint: the endpoint's name, or None.
        tier: the service tier that was served, or None.
        context_tier: index of the requests' input size among all thresholds; −1: their sizes are not known.
        prices: the price set on record; None: the requests have no price on record.
        listed: list cost on record; None: unknown.
        settled: settled cost on record; None: unknown.
    """

    model: str
    price_list: str
    portion: Portion
    endpoint: str | None = None
    tier: str | None = None
    context_tier: int = 0
    prices: PriceSet | None = None
    listed: Money | None = None
    settled: Money | None = None


@dataclass(frozen=True, slots=True)
class ServedWork:
    """Work as it was served.

    Args:
        title: what it is, for the page's heading.
        parts: the work.
        parameters: what was asked for.
        notes: what must be said about it.
        rows_counted: rows of the ledger that are in it.
        rows_unpriced: rows of the ledger that are not in it, because their usage is not known.
        estimates: rows whose token counts are estimated.
        time_zone: IANA name.
    """

    title: str
    parts: tuple[ServedPart, ...]
    parameters: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()
    rows_counted: int = 0
    rows_unpriced: int = 0
    estimates: int = 0
    time_zone: str = "UTC"

    @property
    def models(self) -> tuple[str, ...]:
        """The models that served, sorted."""
        return tuple(sorted({part.model for part in self.parts}))


def served_month(reader: LedgerReader, month: Period, *, catalog: Catalog, exchange: Exchange) -> ServedWork:
    """Return a month's attempts as they were served.

    Args:
        reader: the ledger's.
        month: the month.
        catalog: knows each model's vendor.
        exchange: for the cost on record.

    Raises:
        RouterError: the month has no rows; those that have some are named.
        FxError: the cost on record cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    frame = usage_frame(reader, month.start_us, month.end_us, _BY)
    if frame.empty:
        raise no_rows(month, reader.months_present(month.zone))
    ids = {identity for identity in frame["price_set_id"].tolist() if identity is not None}
    billed = billed_groups(reader, month, (), exchange)
    listed, settled = recorded_sums(billed, exchange.currency)
    attempts, unknown = sum(group.records for group in billed), sum(group.unknown for group in billed)
    notes = [
        Note(
            "note",
            "on record: {list} {currency} at list, {settled} {currency} settled; attempts: {count}",
            {
                "count": (attempts, "count"),
                "list": (listed, "money"),
                "settled": (settled, "money"),
                "currency": (exchange.currency, "text"),
            },
        )
    ]
    if unknown:
        text = "without known usage, and so neither before nor after; attempts: {count}"
        notes.append(Note("warning", text, {"count": (unknown, "count")}))
    return ServedWork(
        title=f"the calls of {month.name}",
        parts=tuple(_parts(frame, reader.price_sets(ids), catalog)),
        parameters=(Fact("month", "month", month.name),),
        notes=tuple(notes),
        rows_counted=attempts,
        rows_unpriced=unknown,
        estimates=sum(group.records for group in billed if group.key["usage_estimated"]),
        time_zone=month.zone.key,
    )


def folded(
    parts: Iterable[ServedPart], slot: Callable[[ServedPart], datetime], terms: Callable[[ServedPart], object]
) -> tuple[ServedPart, ...]:
    """Return fewer parts: those that are alike and fall in one slot of time as one, with the slot's instant.

    Args:
        parts: the parts.
        slot: the instant that stands for a part's own; parts of one slot must have the same prices.
        terms: what a part pays for list prices; parts with different ones stay apart.
    """
    groups: dict[tuple[object, ...], list[ServedPart]] = {}
    for part in parts:
        at = slot(part)
        prices = None if part.prices is None else part.prices.id
        currencies = tuple(None if found is None else found.currency for found in (part.listed, part.settled))
        kind = (part.model, part.price_list, part.endpoint, part.tier, part.context_tier, prices, *currencies)
        key = (*kind, terms(part), at)
        groups.setdefault(key, []).append(replace(part, portion=replace(part.portion, at=at)))
    return tuple(found[0] if len(found) == 1 else _joined(found) for found in groups.values())


def _joined(parts: list[ServedPart]) -> ServedPart:
    first = parts[0]
    counts: dict[str, int] = {}
    for part in parts:
        for bucket, quantity in part.portion.tokens.items():
            counts[bucket] = counts.get(bucket, 0) + int(quantity)
    requests = sum(int(part.portion.requests or 0) for part in parts)
    portion = portion_of(counts, requests, at=first.portion.at, is_sized=first.context_tier != _UNSIZED)
    listed = _sum([part.listed for part in parts])
    return replace(first, portion=portion, listed=listed, settled=_sum([part.settled for part in parts]))


def _sum(amounts: list[Money | None]) -> Money | None:
    known = [amount for amount in amounts if amount is not None]
    return replace(known[0], value=sum((amount.value for amount in known), Fraction(0))) if known else None


def _parts(frame: pd.DataFrame, sets: Mapping[str, PriceSet], catalog: Catalog) -> Iterable[ServedPart]:
    for row in cast("list[dict[str, Any]]", frame.to_dict("records")):
        if not any(row[bucket] for bucket in BUCKETS):
            continue
        model = row["model_served"] or row["model_asked"]
        prices = sets.get(row["price_set_id"])
        at = at_us(row["quarter_hour"] * QUARTER_HOUR_US)
        tier, requests = row["context_tier"], requests_of(row)
        yield ServedPart(
            model=model,
            price_list=prices.price_list if prices else _home(catalog, row["price_list"], model),
            portion=portion_of(row, requests, at=at, is_sized=tier is not None),
            endpoint=row["endpoint"],
            tier=row["service_tier"],
            context_tier=_UNSIZED if tier is None else tier,
            prices=prices,
            listed=_money(row["cost"], row["cost_currency"]),
            settled=_money(row["settled"], row["settled_currency"]),
        )


def _home(catalog: Catalog, price_list: str | None, model: str) -> str:
    if price_list not in (None, VENDOR):
        return str(price_list)
    try:
        return catalog.vendor_list(model)
    except UnknownModel:
        return VENDOR


def _money(value: Fraction, currency: str | None) -> Money | None:
    return None if currency is None else Money(value, currency)
