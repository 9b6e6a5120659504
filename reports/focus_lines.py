"""The token classes of a group of records, each with its part of the stored list cost.

In: a group's token counts, stored list cost, price set and what was served. Out: `ClassLine`s. Invariant: their list
costs add up to the stored one, to the last 1e-12; where usage × price does not give that, the stored one is split in
their proportion, and the line says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from pricing import PriceSet, Usage, price_call
from pricing.conditions import CONTEXT_THRESHOLDS
from pricing.cost import CostLine
from pricing.errors import PricingError
from pricing.prices import PriceRow
from pricing.rates import rates_of
from pricing.usage import BUCKETS
from reports.focus_split import PICO, split, to_pico

CostSplit: TypeAlias = Literal["derived", "proportional", "undivided"]

METERS: Mapping[str, str] = {
    "input": "Input Tokens",
    "cache_read": "Cached Input Tokens",
    "cache_write_5m": "Cache Write Tokens",
    "cache_write_1h": "Cache Write Tokens 1 Hour",
    "input_audio": "Audio Input Tokens",
    "input_image": "Image Input Tokens",
    "output": "Output Tokens",
    "reasoning": "Reasoning Tokens",
    "output_audio": "Audio Output Tokens",
    "output_image": "Image Output Tokens",
    "web_search": "Web Searches",
    "tokens": "All Tokens",
    "requests": "Requests",
}
"""What each component meters. `tokens` and `requests` stand for records whose cost cannot be split."""
UNITS: Mapping[str, tuple[str, str, int]] = {
    "web_search": ("Requests", "1000 Requests", 1_000),
    "requests": ("Requests", "Requests", 1),
}
"""Consumed unit, pricing unit, and how many of the one are one of the other; of all others it is `TOKENS`."""
TOKENS = ("Tokens", "1000000 Tokens", 1_000_000)


@dataclass(frozen=True, slots=True)
class ClassLine:
    """One token class of a group.

    Args:
        component: a key of `METERS`.
        quantity: tokens, or requests; above 0.
        list_pico: its part of the list cost, whole 1e-12.
        split: how that was found.
        row: the price row, where one alone holds.
    """

    component: str
    quantity: int
    list_pico: int
    split: CostSplit
    row: PriceRow | None = None

    def plus(self, other: ClassLine) -> ClassLine:
        """Return the two as one."""
        return replace(self, quantity=self.quantity + other.quantity, list_pico=self.list_pico + other.list_pico)


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a group, and how many tokens of it have no price, so that no line can stand for them."""

    lines: tuple[ClassLine, ...]
    unpriced_tokens: int = 0


def class_lines(
    sums: Mapping[str, int],
    list_pico: int,
    prices: PriceSet | None,
    at: datetime,
    service_tier: str | None,
    context: int | None,
) -> Lines:
    """Return a group's token classes.

    Args:
        sums: of `router.ledger.sums.SUM_NAMES`.
        list_pico: the stored list cost, whole 1e-12.
        prices: the price set on record; None: none.
        at: aware instant in the charge period.
        service_tier: the tier that was served.
        context: index of the context tier; None: not known, and the mean size of the requests stands for it.
    """
    usage = Usage(**{bucket: sums[bucket] for bucket in BUCKETS})
    derived: Sequence[CostLine] = ()
    if prices is not None:
        derived = price_call(
            usage,
            prices,
            at=_in_force(prices, at),
            service_tier=service_tier,
            context_tokens=_size(usage, sums, context),
        ).lines
    priced = [line for line in derived if line.amount is not None]
    unpriced = sum(line.quantity for line in derived if line.amount is None)
    if not priced:
        return Lines((_undivided(usage, sums, list_pico),))
    picos = [to_pico(Fraction(line.amount or 0)) for line in priced]
    rows = {} if prices is None else {row.id: row for row in prices.rows}
    if sum(picos) == list_pico:
        found = (
            ClassLine(line.component, line.quantity, pico, "derived", rows.get(line.price_row_id or ""))
            for line, pico in zip(priced, picos, strict=True)
        )
        return Lines(tuple(found), unpriced)
    weights: Sequence[int] = picos if any(picos) else [line.quantity for line in priced]
    parts = zip(priced, split(list_pico, weights), strict=True)
    return Lines(
        tuple(ClassLine(line.component, line.quantity, pico, "proportional") for line, pico in parts), unpriced
    )


def stated_price(line: ClassLine) -> Fraction | None:
    """Return the list price of one pricing unit, in the list's currency; None where no single row holds."""
    return None if line.row is None else Fraction(line.row.amount)


def unit_of(component: str) -> tuple[str, str, int]:
    """Return consumed unit, pricing unit, and how many of the one are one of the other."""
    return UNITS.get(component, TOKENS)


def pricing_quantity(line: ClassLine) -> Decimal:
    """Return a line's quantity in pricing units, exact."""
    size = unit_of(line.component)[2]
    return Decimal(line.quantity).scaleb(-(len(str(size)) - 1))


def _undivided(usage: Usage, sums: Mapping[str, int], list_pico: int) -> ClassLine:
    tokens = usage.input_tokens + usage.output_tokens
    if tokens:
        return ClassLine("tokens", tokens, list_pico, "undivided")
    return ClassLine("requests", max(1, sums["requests"] or sums["records"]), list_pico, "undivided")


def _size(usage: Usage, sums: Mapping[str, int], context: int | None) -> int:
    """Return the input size of a request that lies in the group's context tier."""
    if context is not None:
        return CONTEXT_THRESHOLDS[context - 1] + 1 if context else 0
    return usage.input_tokens // max(1, sums["requests"] or sums["records"])


def _in_force(prices: PriceSet, at: datetime) -> datetime:
    """Return the instant nearest to another at which a price set is in force: a list may begin within the day."""
    rates = rates_of(prices)
    if rates.in_force(at):
        return at
    if prices.retired_at is not None and (rates.end is None or at >= rates.end):
        return prices.retired_at
    if rates.start is not None and at < rates.start:
        return rates.start
    if rates.end is None:
        message = f"price set {prices.id}: it is in force at no instant"
        raise PricingError(message)
    return rates.end - timedelta(microseconds=1)


def pico_of(sums: Mapping[str, int], amount: str) -> int:
    """Return a summed amount as whole 1e-12."""
    return sums[f"{amount}_micro"] * (PICO // 10**6) + sums[f"{amount}_pico"]
