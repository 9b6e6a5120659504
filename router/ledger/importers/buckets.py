"""Usage that others have added up: priced as what it is, a sum of requests of which no single one is known.

In: records with an end. Out: `UsageBucket`s. Invariant: a cost is `exact` only where every request that the bucket may
consist of would be priced alike; where a price depends on a request's size or hour, it is `estimated`.
"""

from __future__ import annotations

from pricing import Cost, PriceSet, Usage, price_call, settle, split_amount
from pricing.rates import rates_of
from router.ledger.importers.booking import Booking, Sellers
from router.ledger.importers.record import Record
from router.ledger.importers.tally import Tally
from router.ledger.reader import instant_at
from router.ledger.records import Amount, UsageBucket


def priced_bucket(
    record: Record, bucket_id: str, import_id: str, booking: Booking, sellers: Sellers
) -> tuple[UsageBucket, PriceSet | None]:
    """Return a bucket with its cost, and the price set it was made with.

    The prices are those of its first instant. Where they depend on the size of a request, that is
    `record.context_tokens`, else the mean where the number of requests is known, else the smallest.

    Args:
        record: with an `end_us`; its counts are 0 or more.
        bucket_id: its id.
        import_id: the row of `imports`.
        booking: what is stated for all.
        sellers: where its model is looked up.

    Raises:
        UsageError: a count is negative.
    """
    if record.end_us is None:
        raise ValueError("a bucket has an end")
    seller = sellers.of(record.model, record.provider)
    prices = sellers.price_set(seller, record.at_us)
    usage = None if record.counts is None else Usage(*record.counts)
    cost = _cost(record, usage, prices, sellers)
    amount = None if cost.total is None or cost.currency is None else Amount(cost.currency, cost.total)
    asked = seller if record.model_asked is None else sellers.of(record.model_asked, record.provider)
    bucket = UsageBucket(
        bucket_id=bucket_id,
        import_id=import_id,
        start_us=record.at_us,
        end_us=record.end_us,
        endpoint=booking.endpoint,
        price_list=seller.price_list,
        model_asked=asked.model,
        model_served=seller.model,
        service_tier=record.service_tier,
        requests=record.requests,
        usage=usage,
        usage_estimated=record.estimated,
        cost_status=cost.status,
        list_cost=amount,
        settled_cost=None
        if amount is None
        else Amount(*settle(amount.value, amount.currency, booking.terms_at(record.at_us))),
        reported_cost_usd=record.reported_usd,
        price_set_id=None if prices is None else prices.id,
        role=record.role or booking.role,
        configuration=record.configuration or booking.configuration,
        task_class=record.task_class or booking.task_class,
        tenant=record.tenant or booking.tenant,
        tags=dict(record.tags),
    )
    return bucket, prices


def _cost(record: Record, usage: Usage | None, prices: PriceSet | None, sellers: Sellers) -> Cost:
    at = instant_at(record.at_us)
    size, estimated = _size(record, usage, prices)
    changes = prices is not None and _changes(record, prices, sellers)
    return price_call(
        usage,
        prices,
        at=at,
        service_tier=record.service_tier,
        estimated=record.estimated or estimated or changes,
        context_tokens=size,
    )


def _size(record: Record, usage: Usage | None, prices: PriceSet | None) -> tuple[int | None, bool]:
    """Return the size of one request, tokens, and whether it is a guess that the price depends on."""
    boundaries = () if prices is None else rates_of(prices).boundaries
    if usage is None or not boundaries or usage.input_tokens <= boundaries[0]:
        return None, False  # no request can be above the first boundary
    if record.context_tokens is not None:
        return record.context_tokens, False
    if record.requests:
        return -(-usage.input_tokens // record.requests), record.requests > 1
    return 0, True


def _changes(record: Record, prices: PriceSet, sellers: Sellers) -> bool:
    """Return whether a price changes within the bucket: by its dates, or by hours and weekdays."""
    if record.end_us is None:
        return False
    rates = rates_of(prices)
    last = sellers.price_set(sellers.of(record.model, record.provider), record.end_us - 1)
    return bool(rates.clocks) or last is None or last.id != prices.id


def count_bucket(bucket: UsageBucket, tally: Tally) -> None:
    """Count a bucket.

    Args:
        bucket: the bucket.
        tally: told of it.
    """
    usage = bucket.usage or Usage()
    tally.rows += 1
    tally.buckets += 1
    tally.requests += bucket.requests or 0
    tally.requests_unknown += bucket.requests is None
    tally.usage_unknown += bucket.usage is None
    tally.input_tokens += usage.input_tokens
    tally.output_tokens += usage.output_tokens
    tally.cache_read_tokens += usage.cache_read_tokens
    tally.span(bucket.start_us, bucket.end_us - 1)
    tally.reported((bucket.reported_cost_usd,))
    tally.partial += bucket.cost_status == "partial"
    if bucket.list_cost is None:
        tally.unpriced += 1
        if bucket.usage is not None:
            tally.unpriced_models[bucket.model_served or bucket.model_asked] += 1
    else:
        tally.cost(bucket.list_cost.currency, *split_amount(bucket.list_cost.value))
