"""One call ahead of many that share a document, so that the document is paid once and then read from the cache.

In: a market, the offer, the sizes. Out: whether a warm-up pays, what the fan-out costs with it, and turns to go ahead.
Invariant: a warm-up is never a further call: the first real one goes ahead and the others wait for it, a bounded time.
A hundred cold calls at once all miss the cache; so do calls whose prompts do not begin alike (`router.context`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from pricing import Usage, price_call, settle
from router.context import prefix_length
from router.policy import Market, Offer
from router.result import Interval
from router.spread import of_many
from router.tokens import estimate_message_tokens

LEAST_CACHEABLE_TOKENS: Final = 1024
"""Shortest prefix taken to be cached where the catalogue states none: OpenAI's and DeepSeek's docs say 1,024 and 64."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a shared prefix does to the price of many calls.

    Args:
        pays: whether one call should go ahead of the others.
        reason: why not, or what it saves; one line.
        saved_usd: what the cached reads save of the whole fan-out against no cache, USD; 0 where it does not pay.
    """

    pays: bool
    reason: str
    saved_usd: Decimal = Decimal(0)


def needs_warmup(market: Market, offer: Offer, *, prefix_tokens: int, workers: int) -> Warmth:
    """Return whether one of the workers should go ahead of the others.

    Args:
        market: prices at the instant.
        offer: the model and endpoint that all of them use.
        prefix_tokens: size of what their prompts begin with, estimated tokens.
        workers: how many they are.
    """
    info = market.info(offer.model, offer.price_list)
    least = (info.min_cacheable_tokens if info else None) or LEAST_CACHEABLE_TOKENS
    if workers < 2:
        return Warmth(pays=False, reason="one worker alone shares nothing")
    if prefix_tokens < least:
        return Warmth(pays=False, reason=f"{prefix_tokens} shared tokens are less than the {least} that are cached")
    plain = _usd(market, offer, Usage(uncached_input_tokens=prefix_tokens))
    read = _usd(market, offer, Usage(cache_read_tokens=prefix_tokens))
    if plain is None or read is None or read >= plain:
        return Warmth(pays=False, reason="its list has no lower price for a cached read")
    saved = plain * workers - (_first_usd(market, offer, prefix_tokens) or plain) - read * (workers - 1)
    if saved <= 0:
        return Warmth(pays=False, reason="writing the cache costs more than reading it saves")
    return Warmth(pays=True, reason=f"{workers - 1} cached reads of {prefix_tokens} tokens", saved_usd=saved)


def _first_usd(market: Market, offer: Offer, tokens: int) -> Decimal | None:
    """Return what the first read of the prefix costs where its vendor charges for writing the cache, else None."""
    return _usd(market, offer, Usage(cache_write_5m_tokens=tokens)) if writes_cost(market, offer) else None


def _usd(market: Market, offer: Offer, usage: Usage) -> Decimal | None:
    """Return what the usage costs at the offer, USD; None where a price or a rate is unknown."""
    if not market.catalog.sells(offer.model, offer.price_list):
        return None
    prices = market.catalog.price_set(offer.model, offer.price_list, market.at, last_list=offer.last_list)
    cost = price_call(usage, prices, at=market.at)
    if cost.status != "exact" or cost.total is None or cost.currency is None:
        return None
    currency, settled = settle(cost.total, cost.currency, offer.terms)
    return market.usd(settled, currency)


def writes_cost(market: Market, offer: Offer) -> bool:
    """Return whether the model's vendor charges for writing its cache: then nothing is cached that is not marked."""
    return bool(_usd(market, offer, Usage(cache_write_5m_tokens=1_000_000)))


def fanout_cost(market: Market, offer: Offer, cost: Interval, *, prefix_tokens: int, workers: int) -> Interval:
    """Return what many workers cost together, their shared prefix read from the cache where that pays.

    Args:
        market: prices at the instant.
        offer: the model and endpoint that all of them use.
        cost: of one of them alone, without a cache.
        prefix_tokens: size of what their prompts begin with, estimated tokens; 0: nothing is shared.
        workers: how many they are.
    """
    total = of_many(cost, workers)
    saved = needs_warmup(market, offer, prefix_tokens=prefix_tokens, workers=workers).saved_usd
    return Interval(max(Decimal(0), total.low_usd - saved), total.expected_usd - saved, total.high_usd)


@dataclass(slots=True)
class Turn:
    """One call's turn; whoever made the call says whether a model has read its prompt and answered."""

    is_answered: bool = False


@dataclass(slots=True)
class _Cache:
    """One cache: whether it is warm, whether somebody is ahead, and who waits."""

    is_warm: bool = False
    somebody_ahead: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Warmer:
    """Lets the first of the calls on each cache go ahead, and the others when it has been answered.

    Where the first fails, the next one goes ahead; whoever has waited `wait_s` goes anyway.

    Args:
        market: prices at the instant.
        workers: how many calls share the document.
        wait_s: longest wait, seconds.
    """

    def __init__(self, market: Market, workers: int, wait_s: float) -> None:
        self._market = market
        self._workers = workers
        self._wait_s = wait_s
        self._caches: dict[Hashable, _Cache | None] = {}

    @asynccontextmanager
    async def turn(
        self, offer: Offer, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> AsyncIterator[Turn]:
        """Wait until the call may be made; the block makes it, and says in its `Turn` how it went.

        Args:
            offer: the model and the endpoint.
            messages: the call's messages.
            parameters: its body fields.
        """
        turn = Turn()
        cache = self._cache(offer, messages, parameters)
        if cache is None or not await self._goes_ahead(cache):
            yield turn
            return
        try:
            yield turn
        finally:
            cache.is_warm, cache.somebody_ahead = turn.is_answered, False
            changed, cache.changed = cache.changed, asyncio.Event()
            changed.set()

    def _cache(
        self, offer: Offer, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> _Cache | None:
        """Return the cache that a call shares: of its endpoint, model and tools; None: sharing does not pay.

        Vendors render the tools before the messages.
        """
        length = prefix_length(messages)
        if not length:
            return None
        key = (offer.endpoint, offer.wire_id, repr(parameters.get("tools") or ""))
        if key not in self._caches:
            tokens = estimate_message_tokens(messages[:length])
            warmth = needs_warmup(self._market, offer, prefix_tokens=tokens, workers=self._workers)
            self._caches[key] = _Cache() if warmth.pays else None
        return self._caches[key]

    async def _goes_ahead(self, cache: _Cache) -> bool:
        """Wait for one's turn; return whether it is to go ahead of the others."""
        until = asyncio.get_running_loop().time() + self._wait_s
        while not cache.is_warm and cache.somebody_ahead:
            try:
                async with asyncio.timeout_at(until):
                    await cache.changed.wait()
            except TimeoutError:
                return False
        if cache.is_warm:
            return False
        cache.somebody_ahead = True
        return True
