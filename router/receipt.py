"""The receipt of a run: its calls added up, by currency, with what is not known counted and never guessed.

In: `CallReceipt`s. Out: a `Cost`, a `Usage`. Invariant: pure; the sums are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from pricing.usage import Usage
from router.task import CallReceipt, Cost


def cost_of(calls: Iterable[CallReceipt]) -> Cost:
    """Return the sum of the calls' costs.

    Args:
        calls: the calls of a run; those that sent nothing (their answer was on record) add nothing.
    """
    made = [call for call in calls if call.attempts]
    statuses = Counter(call.cost_status for call in made)
    return Cost(
        list_cost=_sums(pair for call in made for pair in call.list_cost),
        settled_cost=_sums(pair for call in made for pair in call.settled_cost),
        settled_usd=sum((call.settled_usd for call in made if call.settled_usd is not None), Decimal(0)),
        possibly_billed_usd=sum((call.possibly_billed_usd for call in made), Decimal(0)),
        exact=statuses["exact"],
        estimated=statuses["estimated"],
        partial=statuses["partial"],
        unknown=statuses["unknown"],
    )


def usage_of(calls: Iterable[CallReceipt]) -> Usage:
    """Return the bucket-wise sum of the usages that are known."""
    return sum((call.usage for call in calls if call.usage is not None), Usage())


def _sums(pairs: Iterable[tuple[str, Decimal]]) -> tuple[tuple[str, Decimal], ...]:
    sums: dict[str, Decimal] = {}
    for currency, amount in pairs:
        sums[currency] = sums.get(currency, Decimal(0)) + amount
    return tuple(sorted(sums.items()))
