"""The receipt of a run: its calls added up, by currency, with what is not known counted and never guessed.

In: `CallReceipt`s, or the ledger's rows of a run. Out: a `Cost`, a `Usage`, receipts. Invariant: pure; sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from pricing.usage import Usage
from router.ledger.records import Amount, AttemptRow
from router.policy import Market
from router.result import CallReceipt, Cost


def cost_of(calls: Iterable[CallReceipt]) -> Cost:
    """Return the sum of the calls' costs.

    Args:
        calls: the calls of a run; those that sent nothing add nothing.
    """
    made = [call for call in calls if call.attempts]
    if len(made) == 1:
        return _cost_of_one(made[0])
    statuses = [call.cost_status for call in made]
    return Cost(
        list_cost=_sums(pair for call in made for pair in call.list_cost),
        settled_cost=_sums(pair for call in made for pair in call.settled_cost),
        settled_usd=sum((call.settled_usd for call in made if call.settled_usd is not None), Decimal(0)),
        possibly_billed_usd=sum((call.possibly_billed_usd for call in made), Decimal(0)),
        exact=statuses.count("exact"),
        estimated=statuses.count("estimated"),
        partial=statuses.count("partial"),
        unknown=statuses.count("unknown"),
    )


def _cost_of_one(call: CallReceipt) -> Cost:
    """Return the sum of one call's costs, which most runs are."""
    status = call.cost_status
    return Cost(
        list_cost=call.list_cost,
        settled_cost=call.settled_cost,
        settled_usd=call.settled_usd or Decimal(0),
        possibly_billed_usd=call.possibly_billed_usd,
        exact=int(status == "exact"),
        estimated=int(status == "estimated"),
        partial=int(status == "partial"),
        unknown=int(status == "unknown"),
    )


def usage_of(calls: Iterable[CallReceipt]) -> Usage:
    """Return the bucket-wise sum of the usages that are known."""
    first, *more = [call.usage for call in calls if call.usage is not None] or [Usage()]
    return sum(more, first)


def joined(first: CallReceipt, second: CallReceipt) -> CallReceipt:
    """Return the receipt of a call that was gone on with: what both parts come to, and how the second ended."""
    settled = [each.settled_usd for each in (first, second) if each.settled_usd is not None]
    return replace(
        second,
        attempts=first.attempts + second.attempts,
        list_cost=_sums((*first.list_cost, *second.list_cost)),
        settled_cost=_sums((*first.settled_cost, *second.settled_cost)),
        settled_usd=sum(settled, Decimal(0)) if settled else None,
        possibly_billed_usd=first.possibly_billed_usd + second.possibly_billed_usd,
    )


def receipts_of(rows: Iterable[AttemptRow], market: Market) -> tuple[CallReceipt, ...]:
    """Return the receipts of the calls that a run's rows record, in the order they were first sent.

    Args:
        rows: every attempt of the run, an earlier process's included.
        market: for the rates of the days.
    """
    calls: dict[str, list[AttemptRow]] = {}
    for row in sorted(rows, key=lambda row: row.started.started_us):
        calls.setdefault(row.started.call_key, []).append(row)
    return tuple(_receipt(attempts, market) for attempts in calls.values())


def spent_usd(rows: Iterable[AttemptRow], market: Market) -> Decimal:
    """Return what a run's rows have used of its budget, USD: known costs, and what is held for unknown ones."""
    receipts = receipts_of(rows, market)
    return sum(((each.settled_usd or Decimal(0)) + each.possibly_billed_usd for each in receipts), Decimal(0))


def _receipt(attempts: list[AttemptRow], market: Market) -> CallReceipt:
    last = attempts[-1]
    ends = [row.ended for row in attempts if row.ended is not None]
    settled = [usd for row in attempts if (usd := _settled_usd(row, market)) is not None]
    unbilled = (row.started.reserved_usd for row in attempts if row.ended is None or row.ended.possibly_billed)
    end = last.ended
    return CallReceipt(
        role=last.started.role or "single",
        step_id=last.started.step_id,
        model_asked=last.started.model_asked,
        model_served=end.model_served if end else None,
        endpoint=last.started.endpoint,
        attempts=len(attempts),
        status=end.status if end else "stopped",
        usage=end.usage if end else None,
        cost_status=end.cost_status if end else "unknown",
        list_cost=_sums(_pair(each.list_cost) for each in ends if each.list_cost),
        settled_cost=_sums(_pair(each.settled_cost) for each in ends if each.settled_cost),
        settled_usd=sum(settled, Decimal(0)) if settled else None,
        possibly_billed_usd=sum((amount for amount in unbilled if amount is not None), Decimal(0)),
        latency_s=None if end is None or end.latency_us is None else end.latency_us / 1e6,
        error=end.error_kind if end else "in flight when its process ended",
    )


def _settled_usd(row: AttemptRow, market: Market) -> Decimal | None:
    cost = row.ended.settled_cost if row.ended else None
    day = datetime.fromtimestamp(row.started.started_us // 1_000_000, UTC).date()
    return None if cost is None else market.usd(cost.value, cost.currency, day)


def _pair(amount: Amount) -> tuple[str, Decimal]:
    return amount.currency, amount.value


def _sums(pairs: Iterable[tuple[str, Decimal]]) -> tuple[tuple[str, Decimal], ...]:
    sums: dict[str, Decimal] = {}
    for currency, amount in pairs:
        sums[currency] = sums.get(currency, Decimal(0)) + amount
    return tuple(sorted(sums.items()))
