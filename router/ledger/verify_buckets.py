"""Costs of usage that others have added up, derived again from their tokens and their price set.

In: a connection, a span; a stored bucket and its price set. Out: buckets, and the costs that follow. Invariant: a
bucket has not kept the size of its single requests; where prices depend on it, each price that the import may have
taken is allowed, and nothing between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from pricing import PriceSet, Usage, price_call, split_amount
from pricing.rates import rates_of
from pricing.usage import BUCKETS
from router.ledger.reader import instant_at
from router.ledger.tables import usage_buckets

DerivedCost = tuple[str, str | None, int | None, int | None]
"""Status, currency, and the two integers of an amount."""

_ROWS_AT_ONCE = 20_000


def stored_buckets(connection: sa.Connection, low_us: int, high_us: int) -> Iterator[Sequence[Any]]:
    """Yield the buckets that begin in a span, in the order of time, in chunks.

    Args:
        connection: to read.
        low_us: first instant, microseconds since 1970 UTC.
        high_us: first instant that is not in it any more.
    """
    at = usage_buckets.c.start_us
    query = sa.select(usage_buckets).where(at >= low_us, at < high_us).order_by(at, usage_buckets.c.bucket_id)
    yield from connection.execute(query).partitions(_ROWS_AT_ONCE)


def derived_bucket_costs(row: Any, prices: PriceSet | None) -> tuple[DerivedCost, ...]:
    """Return the costs that a bucket may have, the likeliest first.

    Args:
        row: of `usage_buckets`.
        prices: its price set; None: it has none, or one that was altered.
    """
    tokens = [getattr(row, name) for name in BUCKETS]
    usage = None if tokens[0] is None else Usage(*tokens)
    found = [
        _cost(row, usage, prices, size, estimated=estimated)
        for estimated in dict.fromkeys((bool(row.usage_estimated), True))  # a price that changes within it: estimated
        for size in _sizes(usage, row.requests, prices)
    ]
    return tuple(dict.fromkeys(found))


def _cost(row: Any, usage: Usage | None, prices: PriceSet | None, size: int | None, *, estimated: bool) -> DerivedCost:
    cost = price_call(
        usage,
        prices,
        at=instant_at(row.start_us),
        service_tier=row.service_tier,
        estimated=estimated,
        context_tokens=size,
    )
    if cost.total is None or cost.currency is None:
        return cost.status, None, None, None
    return cost.status, cost.currency, *split_amount(cost.total)


def _sizes(usage: Usage | None, requests: int | None, prices: PriceSet | None) -> tuple[int | None, ...]:
    """Return what one request's input may have been taken to be, tokens; None: it makes no difference."""
    bounds = () if prices is None else rates_of(prices).boundaries
    if usage is None or not bounds or usage.input_tokens <= bounds[0]:
        return (None,)
    if requests == 1:
        return (None,)
    mean = -(-usage.input_tokens // requests) if requests else 0
    return tuple(dict.fromkeys((mean, 0, *(bound + 1 for bound in bounds if bound < usage.input_tokens))))
