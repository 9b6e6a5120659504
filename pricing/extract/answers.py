"""What an answer says beside its counts: snapshots of a stream, the tier that served, the cost a relay states.

In: parts of a provider's answer. Out: the usage object that counts, a tier's name, an amount. Invariant: snapshots of
one message are one call, and a stated cost is never mixed into a computed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from pricing.errors import UsageError
from pricing.extract.counts import Counts, Report, shown
from pricing.money import EXACT

MOST_USD = 10**6
"""No attempt costs that much; a larger amount is a fault of the report, and would overflow a sum in a database."""

_MOST_DECIMALS = 60  # as many as `EXACT` keeps
_MOST_SIGNS = 100
_TRAFFIC = {"ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_FLEX": "flex"}
_PLAIN_TRAFFIC = ("ON_DEMAND", "TRAFFIC_TYPE_UNSPECIFIED")


def last_snapshot(api: str, snapshots: Iterable[Report | None]) -> Report | None:
    """Return the usage object that counts for one streamed answer.

    Counts in a stream are cumulative, so the last snapshot holds. Anthropic states the input when a message starts
    and only the output later: there the last of each key holds.

    Args:
        api: a key of `EXTRACTORS`.
        snapshots: the usage objects of the stream in their order; None: a chunk without one.

    Returns:
        A usage object for `extract_usage`; None where the stream had none.
    """
    found = [snapshot for snapshot in snapshots if snapshot]
    if not found or not api.startswith("anthropic"):
        return found[-1] if found else None
    merged: dict[str, object] = {}
    for snapshot in found:
        merged |= {key: value for key, value in snapshot.items() if value is not None}
    return merged


def last_per_message(records: Iterable[tuple[str | None, Report | None]]) -> tuple[Report | None, ...]:
    """Return one usage object a message of a transcript that repeats messages while they grow.

    Only for records of one conversation: ids of different upstreams repeat, and are not told apart here.

    Args:
        records: (message id, usage object) in their order; without an id each record is a message of its own.

    Returns:
        The last usage object of each message, ordered by the messages' first record; None where it never had one.
    """
    last: dict[object, Report | None] = {}
    for message_id, report in records:
        key: object = message_id or object()
        last[key] = report or last.get(key)
    return tuple(last.values())


def served_tier(api: str, payload: Report | None) -> str | None:
    """Return the service tier that a usage object says has served, in the words of the price lists.

    Args:
        api: a key of `EXTRACTORS`.
        payload: the provider's usage object, or None.

    Returns:
        Anthropic's `service_tier` ("standard", "priority", "batch"), or "fast" for its fast mode; Gemini's
        `serviceTier` or `trafficType`; None where the object does not say.

    Raises:
        UsageError: a tier is not a text.
    """
    if payload is None:
        return None
    report = Counts("usage", payload)
    if api.startswith("anthropic"):
        return "fast" if report.text("speed") == "fast" else report.text("service_tier")
    if api == "gemini":
        tier, traffic = report.text("serviceTier"), report.text("trafficType")
        if tier or traffic is None:
            return tier.lower() if tier else None
        return "standard" if traffic in _PLAIN_TRAFFIC else _TRAFFIC.get(traffic, traffic.lower())
    return None


def reported_cost_usd(payload: Report | None) -> Decimal | None:
    """Return what OpenRouter says an attempt has cost, in USD, for comparison with the computed cost.

    One credit is one USD. With the user's own key `cost` is only OpenRouter's fee, and the vendor's bill stands under
    `cost_details.upstream_inference_cost` (OpenRouter, "Usage accounting"): the sum of both is returned.

    Args:
        payload: the usage object; parse its JSON with `parse_float=Decimal` to keep every digit.

    Returns:
        An amount of 0 or more; None where none is stated, or only the fee.

    Raises:
        UsageError: the usage is no object, or a cost is not a finite number of 0 to `MOST_USD`.
    """
    if payload is None:
        return None
    Counts("usage", payload).part("cost_details")
    cost = _amount("usage.cost", payload.get("cost"))
    if cost is None or payload.get("is_byok") is not True:
        return cost
    details: Mapping[str, object] = payload.get("cost_details") or {}
    upstream = _amount("usage.cost_details.upstream_inference_cost", details.get("upstream_inference_cost"))
    return None if upstream is None else EXACT.add(cost, upstream)


def _amount(place: str, value: object) -> Decimal | None:
    if value is None:
        return None
    try:
        text = str(value) if type(value) in (int, float, str, Decimal) else ""
        amount = Decimal(text) if len(text) <= _MOST_SIGNS else None
    except (InvalidOperation, ValueError):
        amount = None
    if amount is None or not amount.is_finite() or not 0 <= amount <= MOST_USD or _decimals(amount) > _MOST_DECIMALS:
        message = f"{place}: {shown(value)} is not allowed; an amount in USD from 0 to {MOST_USD} is"
        raise UsageError(message, hint="the stated cost is left out of the comparison")
    return amount


def _decimals(amount: Decimal) -> int:
    return -int(amount.as_tuple().exponent)
