"""What one call costs: usage × prices, exact, line by line, with an honest status.

In: a `Usage` (or None), a `PriceSet` (or None), the instant and what was served. Out: a `Cost`. Invariant: a line is
rounded half-even at 1e-12 and nothing else ever is; what is not known is None and named, never 0 or another price.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Literal, NamedTuple

from pricing.conditions import CONTEXT_THRESHOLDS
from pricing.errors import PricingError, UsageError
from pricing.money import STRICT, round_amount
from pricing.prices import PriceSet
from pricing.rates import BUCKET_COMPONENTS, OUTPUT, REASONING, Quote, rates_of
from pricing.usage import Usage

CostStatus = Literal["exact", "estimated", "partial", "unknown"]

_COUNTS = attrgetter(*(bucket for bucket, _ in BUCKET_COMPONENTS))
_ZERO = Decimal(0)

_multiply, _add, _new = STRICT.multiply, STRICT.add, tuple.__new__


class CostLine(NamedTuple):
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


class Cost(NamedTuple):
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
    context_tokens: int | None = None,
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
        context_tokens: where `usage` adds up several calls, the input size of one of them; None: the usage's own.

    Returns:
        The cost, in the price set's currency; unknown too where the set is not in force at the instant. A call that
        used nothing costs exactly 0.

    Raises:
        PricingError: the instant has no zone.
        UsageError: a count is so large that its cost has more than 60 digits.
    """
    if at.tzinfo is None:
        message = f"at: {at} has no zone; an aware instant is allowed"
        raise PricingError(message, hint="for instance datetime(2026, 10, 1, tzinfo=UTC)")
    rates = None if prices is None else rates_of(prices)
    if usage is None or prices is None or rates is None or not rates.in_force(at):
        return Cost("unknown", prices.currency if prices else None, (), None, prices.id if prices else None)
    counts = _COUNTS(usage)
    size = usage.input_tokens if context_tokens is None and rates.boundaries else context_tokens
    quote = rates.quote(
        service_tier,
        region,
        bisect_left(rates.boundaries, size) if size and rates.boundaries else 0,
        rates.clock(at),
        batch=batch,
    )
    if usage.reasoning_tokens and not quote.reasoning_apart:
        counts = _with_reasoning_in_output(counts)
    try:
        return _priced(counts, quote, prices, estimated=estimated)
    except ArithmeticError as error:
        message = f"usage: {max(counts)} of one kind cannot be priced exactly; fewer than 1e30 are allowed"
        raise UsageError(message, hint="no call uses that many; the provider's report is damaged") from error


def context_tier(input_tokens: int) -> int:
    """Return the index of the context tier that an input size lies in; the ledger stores it.

    Args:
        input_tokens: all input tokens of a request, cached included, 0 or more.

    Returns:
        How many of `pricing.prices.CONTEXT_THRESHOLDS` the size is strictly above: 0 for up to 32,000 tokens.
    """
    return bisect_left(CONTEXT_THRESHOLDS, input_tokens)


def _with_reasoning_in_output(counts: tuple[int, ...]) -> tuple[int, ...]:
    found = list(counts)
    found[OUTPUT] += found[REASONING]
    found[REASONING] = 0
    return tuple(found)


def _priced(counts: tuple[int, ...], quote: Quote, prices: PriceSet, *, estimated: bool) -> Cost:
    # The inner loop of every report, so one pass; `tuple.__new__` is what CostLine(…) and Cost(…) end in.
    lines: list[CostLine] = []
    unpriced: tuple[str, ...] = ()
    total = _ZERO
    for quantity, rate in zip(counts, quote.rates):  # noqa: B905 - both are as long as BUCKET_COMPONENTS
        if quantity:
            component, row_id, unit_amount, per_one, is_whole = rate
            amount = None
            if per_one is None:
                unpriced += (component,)
            else:
                amount = _multiply(quantity, per_one)
                if not is_whole:
                    amount = round_amount(amount)
                total = _add(total, amount)
            lines.append(_new(CostLine, (component, quantity, row_id, unit_amount, amount)))
    status: CostStatus = "estimated" if estimated else "exact"
    if unpriced:
        status = "partial" if len(unpriced) < len(lines) else "unknown"
    known = None if status == "unknown" else total
    return _new(Cost, (status, prices.currency, tuple(lines), known, prices.id, unpriced))
