"""What one call costs: usage × prices, exact, line by line, with an honest status.

In: a `Usage` (or None), a `PriceSet` (or None), the instant and what was served. Out: a `Cost`. Invariant: a line is
rounded half-even at 1e-12 and nothing else ever is; what is not known is None and named, never 0 or another price.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from pricing.conditions import CONTEXT_THRESHOLDS, PLAIN_TIERS, Conditions
from pricing.errors import PricingError
from pricing.money import EXACT, round_amount
from pricing.prices import UNITS, PriceRow, PriceSet
from pricing.usage import Usage

CostStatus = Literal["exact", "estimated", "partial", "unknown"]

BATCH_TIER = "batch"
"""Anthropic reports the batch API as this service tier."""

_SCALE = {"per Mtok": 6, "per 1k calls": 3}
_BUCKET_COMPONENTS = (
    ("uncached_input_tokens", "input"),
    ("cache_read_tokens", "cache_read"),
    ("cache_write_5m_tokens", "cache_write_5m"),
    ("cache_write_1h_tokens", "cache_write_1h"),
    ("audio_input_tokens", "input_audio"),
    ("image_input_tokens", "input_image"),
    ("plain_output_tokens", "output"),
    ("reasoning_tokens", "reasoning"),
    ("audio_output_tokens", "output_audio"),
    ("image_output_tokens", "output_image"),
    ("web_searches", "web_search"),
)
_FALLBACKS = {"cache_read": "input", "input_image": "input", "reasoning": "output"}


@dataclass(frozen=True, slots=True)
class CostLine:
    """One component of a call's cost.

    Args:
        component: a key of `pricing.prices.UNITS`; reasoning that is priced as output is inside "output".
        quantity: tokens, or calls of a tool.
        price_row_id: the row that priced it; None: unpriced.
        unit_amount: the row's amount, per Mtok or per 1,000 calls; None: unpriced.
        amount: quantity × unit amount, rounded half-even at 1e-12; None: unpriced.
    """

    component: str
    quantity: int
    price_row_id: str | None
    unit_amount: Decimal | None
    amount: Decimal | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call costs at list price.

    Args:
        status: exact; estimated (the token counts are); partial (something used has no price: the total is a lower
            bound); unknown (no usage, or nothing used has a price).
        currency: ISO 4217 code of every amount; None where no price set is known.
        lines: one per component that was used, unpriced ones included.
        total: sum of the priced lines; None where unknown.
        price_set_id: the set that was used, or None.
        unpriced: components that were used and have no price, in the order of `lines`.
    """

    status: CostStatus
    currency: str | None
    lines: tuple[CostLine, ...]
    total: Decimal | None
    price_set_id: str | None
    unpriced: tuple[str, ...] = ()


def price_call(
    usage: Usage | None,
    prices: PriceSet | None,
    *,
    at: datetime,
    service_tier: str | None = None,
    batch: bool = False,
    region: str | None = None,
    estimated: bool = False,
) -> Cost:
    """Return what one call costs at a price set.

    Three rules stand for a row that a list does not print, because that is how lists without it are billed; nothing
    else is ever filled in. Reasoning is billed as output (OpenAI and Anthropic: output tokens include it). Input images
    are billed as input (Google prints "text / image / video" in one row; OpenAI counts images as input tokens). Cache
    reads are billed as input where there is no price for cached input at all: Moonshot's moonshot-v1 and OpenAI's
    gpt-4 print none and bill every prompt token alike (genai-prices prices such tokens the same way). The line then
    names the row that priced it.

    A served tier that no row of the set names, or batch where none is for batch, has no price here: the call is
    unknown, and so is a region where the set prices others apart but not this one. Where the set does name it, a
    component without a row of its own keeps its plain one (OpenAI's batch table prints no cached input). Batch and a
    tier exclude each other: a row of a tier holds for a batch only if it names both.

    Args:
        usage: disjoint token counts; None: unknown.
        prices: the rows in force; None: unknown.
        at: aware instant of the request; decides between rows with windows or weekdays.
        service_tier: the tier that was served, as the vendor names it; None: its plain tier.
        batch: whether the batch API served it; a tier called "batch" means the same.
        region: the region that served, or None.
        estimated: whether the token counts are estimates.

    Returns:
        The cost, in the price set's currency; unknown too where the set is not in force at the instant. A call that
        used nothing costs exactly 0.

    Raises:
        PricingError: the instant has no zone.
    """
    if at.tzinfo is None:
        message = f"at: {at} has no zone; an aware instant is allowed"
        raise PricingError(message, hint="for instance datetime(2026, 10, 1, tzinfo=UTC)")
    if usage is None or prices is None or not prices.in_force(at):
        return Cost("unknown", prices.currency if prices else None, (), None, prices.id if prices else None)
    tier = None if service_tier in PLAIN_TIERS else service_tier
    shape = _shape(prices)
    served = _Served(
        service_tier=None if tier == BATCH_TIER else tier,
        batch=batch or tier == BATCH_TIER,
        region=region,
        context=bisect_left(shape.boundaries, usage.input_tokens),
        minute=at.astimezone(UTC).replace(second=0, microsecond=0) if shape.timed else None,
    )
    lines = tuple(_line(component, quantity, row) for component, quantity, row in _used(usage, _rates(prices, served)))
    return _summed(lines, prices, estimated=estimated)


def context_tier(input_tokens: int) -> int:
    """Return the index of the context tier that an input size lies in; the ledger stores it.

    Args:
        input_tokens: all input tokens of a request, cached included, 0 or more.

    Returns:
        How many of `pricing.prices.CONTEXT_THRESHOLDS` the size is strictly above: 0 for up to 32,000 tokens.
    """
    return bisect_left(CONTEXT_THRESHOLDS, input_tokens)


class _Served(NamedTuple):
    """What decides between the rows of a set; `context` is the input's tier among the set's own thresholds."""

    service_tier: str | None
    batch: bool
    region: str | None
    context: int
    minute: datetime | None


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a set's rows depend on: its own context thresholds, and whether the clock matters."""

    boundaries: tuple[int, ...]
    timed: bool


@lru_cache(maxsize=4096)
def _shape(prices: PriceSet) -> _Shape:
    boundaries = {row.conditions.boundary for row in prices.rows} - {None}
    timed = any(row.conditions.timed for row in prices.rows)
    return _Shape(tuple(sorted(bound for bound in boundaries if bound is not None)), timed)


@lru_cache(maxsize=16_384)
def _rates(prices: PriceSet, served: _Served) -> Mapping[str, PriceRow]:
    """Return the row that holds for each component; the most specific wins, then the highest threshold."""
    best: dict[str, PriceRow] = {}
    if not _has_prices_for(prices, served):
        return MappingProxyType(best)
    lowest = _shape(prices).boundaries[served.context - 1] if served.context else -1
    for row in prices.rows:
        held = best.get(row.component)
        if _holds(row.conditions, served, lowest) and (held is None or _rank(row) > _rank(held)):
            best[row.component] = row
    return MappingProxyType(best)


def _has_prices_for(prices: PriceSet, served: _Served) -> bool:
    """Return whether the set names the tier and batch that were served, and the region where it prices any apart."""
    conditions = [row.conditions for row in prices.rows]
    regions = {found.region for found in conditions} - {None}
    return (
        (served.service_tier is None or any(found.service_tier == served.service_tier for found in conditions))
        and (not served.batch or any(found.batch for found in conditions))
        and (served.region is None or not regions or served.region in regions)
    )


def _holds(conditions: Conditions, served: _Served, lowest: int) -> bool:
    return (
        _holds_for_tier(conditions.service_tier, served)
        and (conditions.batch == served.batch or (served.batch and conditions.service_tier is None))
        and conditions.region in (None, served.region)
        and (conditions.boundary is None or conditions.boundary <= lowest)
        and (served.minute is None or conditions.holds_at(served.minute))
    )


def _holds_for_tier(tier: str | None, served: _Served) -> bool:
    if tier in PLAIN_TIERS:
        return served.service_tier is None and not served.batch
    return tier is None or tier == served.service_tier


def _rank(row: PriceRow) -> tuple[int, int]:
    bound = row.conditions.boundary
    return (row.conditions.specificity, -1 if bound is None else bound)


def _used(usage: Usage, rates: Mapping[str, PriceRow]) -> Iterator[tuple[str, int, PriceRow | None]]:
    """Yield component, quantity and row of everything used; reasoning without a row of its own is inside output."""
    reasoning_apart = "reasoning" in rates
    for bucket, component in _BUCKET_COMPONENTS:
        quantity = getattr(usage, bucket)
        if not reasoning_apart and component == "output":
            quantity += usage.reasoning_tokens
        if quantity == 0 or (component == "reasoning" and not reasoning_apart):
            continue
        yield component, quantity, rates.get(component) or rates.get(_FALLBACKS.get(component, ""))


def _line(component: str, quantity: int, row: PriceRow | None) -> CostLine:
    if row is None:
        return CostLine(component, quantity, None, None, None)
    product = EXACT.multiply(Decimal(quantity), row.amount)
    amount = round_amount(product.scaleb(-_SCALE[UNITS[component]], context=EXACT))
    return CostLine(component, quantity, row.id, row.amount, amount)


def _summed(lines: tuple[CostLine, ...], prices: PriceSet, *, estimated: bool) -> Cost:
    unpriced = tuple(line.component for line in lines if line.amount is None)
    if lines and len(unpriced) == len(lines):
        return Cost("unknown", prices.currency, lines, None, prices.id, unpriced)
    total = Decimal(0)
    for line in lines:
        if line.amount is not None:
            total = EXACT.add(total, line.amount)
    status: CostStatus = "partial" if unpriced else "estimated" if estimated else "exact"
    return Cost(status, prices.currency, lines, total, prices.id, unpriced)
