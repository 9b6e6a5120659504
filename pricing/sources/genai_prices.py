"""genai-prices' data, as the installed package carries it.

In: `genai_prices.data`. Out: a `DataSet` of the prices at one instant. Invariant: a price whose conditions we do not
know whole is named in `left_out`, not read.

Its rules: of an entry's dated and timed prices the last active one holds; a variant lays some prices over them for a
request's context ("processing": "batch", "service_tier"); of several active variants of one context the first holds; a
tier's start is strict and moves the whole request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from pricing.conditions import ALWAYS, CONTEXT_THRESHOLDS, Conditions
from pricing.errors import PricingError
from pricing.sources.entries import DataSet, Entry, Offer, Rounder

NAME = "genai-prices"

LISTS: Mapping[str, str] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "google",
    "deepseek": "deepseek",
    "moonshotai": "moonshot",
    "x-ai": "xai",
}
"""The bundled list that each of its providers is."""

_COMPONENTS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write_5m",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "input_audio_mtok": "input_audio",
    "output_audio_mtok": "output_audio",
    "input_image_mtok": "input_image",
    "output_image_mtok": "output_image",
    "web_searches_kcount": "web_search",
}
_INCLUSIVE_STARTS = frozenset({127_999, 199_999})


def read_genai_prices(at: datetime) -> DataSet:
    """Return what genai-prices says about the sellers whose lists are bundled.

    Args:
        at: aware instant whose prices are wanted.

    Raises:
        PricingError: genai-prices is not installed.
    """
    if find_spec("genai_prices") is None:
        raise PricingError("source: genai-prices is not installed", hint="pip install genai-prices")
    from genai_prices.data import providers

    rounder = Rounder()
    entries = tuple(
        _entry(provider, model, at.astimezone(UTC), rounder)
        for provider in providers
        if provider.id in LISTS
        for model in provider.models
    )
    return DataSet(NAME, version("genai-prices"), at, entries, tuple(rounder.noted))


def _entry(provider: Any, model: Any, at: datetime, rounder: Rounder) -> Entry:
    key = f"{provider.id}/{model.id}"
    base, clocked = _active(model.prices, at)
    left_out: list[str] = []
    offers = list(_offers(base, ALWAYS, key, rounder, left_out))
    seen: set[Conditions] = set()
    for variant in model.price_variants or ():
        conditions = _context(variant.when)
        if conditions is None:
            left_out.append(" ".join(f"{name}={value}" for name, value in variant.when.items()))
        elif conditions not in seen and (variant.constraint is None or variant.constraint.active(at)):
            seen.add(conditions)
            offers += _offers(variant.prices, conditions, key, rounder, left_out)
    return Entry(
        id=key,
        price_list=LISTS[provider.id],
        names=tuple(dict.fromkeys((model.id, *_exact_names(model.match)))),
        offers=tuple(Offer(offer.component, offer.amount, offer.conditions, clocked) for offer in offers),
        url=next(iter(provider.pricing_urls or ()), ""),
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _active(prices: Any, at: datetime) -> tuple[Any, bool]:
    """Return the prices that hold at an instant, and whether the hour has a say in that."""
    if not isinstance(prices, list):
        return prices, False
    active = [found for found in prices if found.constraint is None or found.constraint.active(at)]
    clocked = any(hasattr(found.constraint, "start_time") for found in prices)
    return (active or prices)[-1].prices, clocked


def _context(when: Mapping[str, str]) -> Conditions | None:
    """Return the conditions that a variant's context is, None where there are none like it."""
    if when == {"processing": "batch"}:
        return Conditions(batch=True)
    if set(when) == {"service_tier"}:
        return Conditions(service_tier=when["service_tier"])
    return None


def _offers(prices: Any, within: Conditions, key: str, rounder: Rounder, left_out: list[str]) -> Iterator[Offer]:
    for name, price in vars(prices).items():
        if name.startswith("_") or price is None:
            continue
        if name not in _COMPONENTS:
            left_out.append(name)
            continue
        tiers = () if isinstance(price, Decimal) else price.tiers
        base = price if isinstance(price, Decimal) else price.base
        yield Offer(_COMPONENTS[name], rounder.per_unit(key, name, Decimal(base)), within)
        for tier in tiers:
            amount = rounder.per_unit(key, name, Decimal(tier.price))
            yield Offer(_COMPONENTS[name], amount, _above(within, tier.start))


def _above(within: Conditions, start: int) -> Conditions:
    """Return conditions with a threshold; the starts 127,999 and 199,999 are its way to write "at 128,000"."""
    inclusive = start in _INCLUSIVE_STARTS and start in CONTEXT_THRESHOLDS
    return Conditions(
        service_tier=within.service_tier,
        batch=within.batch,
        above_input_tokens=start + inclusive,
        inclusive=inclusive,
    )


def _exact_names(match: Any) -> Iterator[str]:
    """Yield the ids that a match names outright; prefixes and patterns are no names."""
    if hasattr(match, "equals"):
        yield match.equals
    for clause in getattr(match, "or_", None) or ():
        yield from _exact_names(clause)
