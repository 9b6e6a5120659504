"""What is held against a budget before a request is sent: the most it can cost, not what it is expected to.

In: an offer, the size of the input, the cap on the output, what is left of the budget. Out: a `Reservation`.
Invariant: pure; where there is a budget, a request whose output has no cap gets the one that the budget can pay for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

from pricing.quick import quick
from pricing.usage import Usage
from router.policy import Market, Offer

_MARGIN_TENTHS = 13
"""Estimates of input are up to 22 % low (docs/task-classes.md, "Tokens"); a reservation must not be, so: 1.3 times."""
_MANY_TOKENS = 1_000_000


@quick
@dataclass(frozen=True, slots=True)
class Reservation:
    """What to hold, and the cap that makes it hold.

    Args:
        amount_usd: the most the request can cost, USD; None where a price is unknown.
        max_output_tokens: cap to send with it, tokens; None: leave the request's own.
        usage: what the amount is the cost of.
    """

    amount_usd: Decimal | None
    max_output_tokens: int | None
    usage: Usage


def reservation(
    market: Market,
    offer: Offer,
    *,
    input_tokens: int,
    likely_output_tokens: int,
    max_output_tokens: int | None,
    left_usd: Decimal | None,
    answers: int = 1,
) -> Reservation:
    """Return what to hold for one request.

    Args:
        market: catalogue and rates at the request's instant.
        offer: the model and endpoint.
        input_tokens: estimated input, tokens.
        likely_output_tokens: output that nine answers in ten stay below, tokens.
        max_output_tokens: the request's own cap on its output, tokens, or None.
        left_usd: what is left of the budget, USD; None: there is none.
        answers: how many answers it asks for, each within the cap.
    """
    sent = input_tokens * _MARGIN_TENTHS // 10 + 1
    quotation = market.quotation(offer)

    def held(output_tokens: int, cap: int | None = None) -> Reservation:
        amount_usd = quotation.cost_usd(sent, output_tokens * answers)
        return Reservation(
            amount_usd, cap, Usage(uncached_input_tokens=sent, plain_output_tokens=output_tokens * answers)
        )

    if max_output_tokens is not None:
        return held(max_output_tokens)
    if left_usd is None:
        return held(likely_output_tokens)
    base, many = quotation.cost_usd(sent, 0), quotation.cost_usd(sent, _MANY_TOKENS)
    if base is None or many is None:
        return held(likely_output_tokens)
    a_token = (many - base) / _MANY_TOKENS
    info = quotation.info
    most = info.max_output_tokens if info and info.max_output_tokens else _MANY_TOKENS
    affordable = int((left_usd - base) / a_token) // answers if a_token else most
    cap = max(likely_output_tokens, min(most, affordable))
    return held(cap, cap)


def output_cap(parameters: Mapping[str, Any]) -> int | None:
    """Return the most output tokens that a request's body allows an answer; None: nothing bounds it.

    Where both fields stand in it, an endpoint may heed either, so the larger one counts.
    """
    caps = [value for name in ("max_tokens", "max_completion_tokens") if _is_count(value := parameters.get(name))]
    return max(caps, default=None)


def answers_asked(parameters: Mapping[str, Any]) -> int:
    """Return how many answers a request's body asks for."""
    count = parameters.get("n")
    return count if _is_count(count) else 1


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 1
