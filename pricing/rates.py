"""A price set made ready to price with: for whatever was served, the rate of each bucket of usage.

In: a `PriceSet` and what was served. Out: a `Quote`, made once and kept with the set. Invariant: a quote depends on
nothing but the set, the served tier, batch and region, the context tier and which of the set's clocks hold; so one
call and a column of calls are priced with the same quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from pricing.conditions import PLAIN_TIERS, Conditions
from pricing.money import EXACT
from pricing.prices import UNITS, PriceRow, PriceSet

BATCH_TIER = "batch"
"""Anthropic reports the batch API as this service tier."""

BUCKET_COMPONENTS = (
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
"""Every bucket of usage and the component that prices it, in the order of a cost's lines."""

OUTPUT, REASONING = 6, 7
"""Where plain output and reasoning stand in `BUCKET_COMPONENTS`."""

_SCALE = {"per Mtok": 6, "per 1k calls": 3}
_FALLBACKS = {"cache_read": "input", "input_image": "input", "reasoning": "output"}
_PICO = Decimal("1e-12")
_MOST_QUOTES = 512  # per set; regions are told by servers, so their number has no other bound


class Rate(NamedTuple):
    """How one bucket of usage is priced.

    Args:
        component: a key of `pricing.prices.UNITS`.
        price_row_id: the row that prices it; None: it has no price.
        unit_amount: the row's amount, per Mtok or per 1,000 calls; None: no price.
        per_one: amount for one token or call, exact; None: no price.
        is_whole: whether `per_one` is a whole number of 1e-12, so that no quantity of it needs rounding.
    """

    component: str
    price_row_id: str | None
    unit_amount: Decimal | None
    per_one: Decimal | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Quote:
    """The rate of every bucket.

    Args:
        rates: one for each of `BUCKET_COMPONENTS`.
        reasoning_apart: whether reasoning has a price of its own; else it is a part of the output's line.
    """

    rates: tuple[Rate, ...]
    reasoning_apart: bool


class _Served(NamedTuple):
    service_tier: str | None
    batch: bool
    region: str | None
    context: int
    clock: int


@dataclass(frozen=True, slots=True)
class Rates:
    """What a set's rows depend on, and the quotes made so far. Made by `rates_of`.

    Args:
        prices: the set.
        boundaries: input sizes, tokens, strictly above which something changes; sorted.
        clocks: the different weekdays, windows and holidays of its rows; bit i of a clock state says whether i holds.
        start: instant from which all rows are in force; None: always.
        end: instant from which they no longer all are; None: never.
    """

    prices: PriceSet
    boundaries: tuple[int, ...]
    clocks: tuple[Conditions, ...]
    start: datetime | None
    end: datetime | None
    _quotes: dict[tuple[str | None, bool, str | None, int, int], Quote] = field(default_factory=dict)

    def in_force(self, at: datetime) -> bool:
        """Return what `PriceSet.in_force` does.

        Args:
            at: aware instant.
        """
        if (self.start is None or self.start <= at) and (self.end is None or at < self.end):
            return True
        return self.prices.retired_at is not None and at >= self.prices.retired_at

    def clock(self, at: datetime) -> int:
        """Return the clock state at an instant.

        Args:
            at: aware instant.
        """
        if not self.clocks:
            return 0
        instant = at.astimezone(UTC)
        return sum(clock.holds_at(instant) << index for index, clock in enumerate(self.clocks))

    def quote(self, service_tier: str | None, region: str | None, context: int, clock: int, *, batch: bool) -> Quote:
        """Return the rates for what was served.

        Args:
            service_tier: the tier that was served, as the vendor names it; None: its plain one.
            region: the region that served, or None.
            context: how many of `boundaries` the input is strictly above.
            clock: the clock state.
            batch: whether the batch API served it; a tier called "batch" means the same.
        """
        key = (service_tier, batch, region, context, clock)
        found = self._quotes.get(key)
        if found is None:
            if len(self._quotes) >= _MOST_QUOTES:
                self._quotes.clear()
            found = self._quotes[key] = _quoted(self, _Served(*key))
        return found


def rates_of(prices: PriceSet) -> Rates:
    """Return a set made ready to price with; made once for each set.

    Args:
        prices: the set.
    """
    found: Rates | None = prices.prepared
    if found is None:
        found = _prepared(prices)
        object.__setattr__(prices, "prepared", found)  # a memo: it says nothing that the rows do not
    return found


def _prepared(prices: PriceSet) -> Rates:
    boundaries = {bound for row in prices.rows if (bound := row.conditions.boundary) is not None}
    clocks = dict.fromkeys(_clock(row.conditions) for row in prices.rows if row.conditions.timed)
    starts = [row.effective_from for row in prices.rows if row.effective_from is not None]
    ends = [row.effective_to for row in prices.rows if row.effective_to is not None]
    return Rates(prices, tuple(sorted(boundaries)), tuple(clocks), max(starts, default=None), min(ends, default=None))


def _clock(conditions: Conditions) -> Conditions:
    return Conditions(weekdays=conditions.weekdays, windows_utc=conditions.windows_utc, holidays=conditions.holidays)


def _quoted(rates: Rates, given: _Served) -> Quote:
    tier = None if given.service_tier in PLAIN_TIERS else given.service_tier
    batch = given.batch or tier == BATCH_TIER
    served = given._replace(service_tier=None if tier == BATCH_TIER else tier, batch=batch)
    rows = _rows(rates, served)
    found = [rows.get(component) or rows.get(_FALLBACKS.get(component, "")) for _, component in BUCKET_COMPONENTS]
    priced = (rate_of(component, row) for (_, component), row in zip(BUCKET_COMPONENTS, found, strict=True))
    return Quote(tuple(priced), "reasoning" in rows)


def rate_of(component: str, row: PriceRow | None) -> Rate:
    """Return how a row prices one component.

    Args:
        component: a key of `pricing.prices.UNITS`.
        row: the row, of this component or of one that stands for it; None: there is none.
    """
    if row is None:
        return Rate(component, None, None, None, is_whole=True)
    per_one = row.amount.scaleb(-_SCALE[UNITS[component]], context=EXACT)
    whole = per_one.quantize(_PICO, context=EXACT)
    # With 12 decimals from the start, a product has them too.
    return Rate(component, row.id, row.amount, whole if whole == per_one else per_one, is_whole=whole == per_one)


def _rows(rates: Rates, served: _Served) -> Mapping[str, PriceRow]:
    """Return the row that holds for each component; the most specific wins, then the highest threshold."""
    best: dict[str, PriceRow] = {}
    if not _has_prices_for(rates.prices, served):
        return best
    lowest = rates.boundaries[served.context - 1] if served.context else -1
    holding = {clock for index, clock in enumerate(rates.clocks) if served.clock >> index & 1}
    for row in rates.prices.rows:
        conditions, held = row.conditions, best.get(row.component)
        if (
            _holds(conditions, served, lowest)
            and (not conditions.timed or _clock(conditions) in holding)
            and (held is None or _rank(row) > _rank(held))
        ):
            best[row.component] = row
    return best


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
    )


def _holds_for_tier(tier: str | None, served: _Served) -> bool:
    if tier in PLAIN_TIERS:
        return served.service_tier is None and not served.batch
    return tier is None or tier == served.service_tier


def _rank(row: PriceRow) -> tuple[int, int, bool]:
    """Rank a row: what was served (tier, batch, region) first, then the context tier, then the clock.

    A context tier moves the whole request, at peak hours too: a clock alone never hides it.
    """
    conditions = row.conditions
    bound = conditions.boundary
    return (conditions.specificity - conditions.timed, -1 if bound is None else bound, conditions.timed)
