"""What is held against a budget before a request is sent: the most it can cost, not what it is expected to.

In: an offer, the size of the input, the cap on the output, what is left of the budget. Out: a `Reservation`.
Invariant: pure; where there is a budget, a request whose output has no cap gets the one that the budget can pay for.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pricing import Usage
from router.policy import Market, Offer

INPUT_MARGIN = Decimal("1.3")
"""Estimates of input are up to 22 % low (docs/task-classes.md, "Tokens"); a reservation must not be."""
_MANY_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Reservation:
    """What to hold, and the cap that makes it hold.

    Args:
        amount_usd: the most the request can cost, USD; None where a price is unknown.
        max_output_tokens: cap to send with it, tokens; None: leave the request's own.
    """

    amount_usd: Decimal | None
    max_output_tokens: int | None = None


def reservation(
    market: Market,
    offer: Offer,
    *,
    input_tokens: int,
    likely_output_tokens: int,
    max_output_tokens: int | None,
    left_usd: Decimal | None,
) -> Reservation:
    """Return what to hold for one request.

    Args:
        market: catalogue and rates at the request's instant.
        offer: the model and endpoint.
        input_tokens: estimated input, tokens.
        likely_output_tokens: output that nine answers in ten stay below, tokens.
        max_output_tokens: the request's own cap on its output, tokens, or None.
        left_usd: what is left of the budget, USD; None: there is none.
    """
    sent = int(input_tokens * INPUT_MARGIN) + 1

    def cost(output_tokens: int) -> Decimal | None:
        return market.cost_usd(offer, Usage(uncached_input_tokens=sent, plain_output_tokens=output_tokens))

    if max_output_tokens is not None:
        return Reservation(cost(max_output_tokens))
    base, many = cost(0), cost(_MANY_TOKENS)
    if left_usd is None or base is None or many is None:
        return Reservation(cost(likely_output_tokens))
    a_token = (many - base) / _MANY_TOKENS
    info = market.info(offer.model, offer.price_list)
    most = info.max_output_tokens if info and info.max_output_tokens else _MANY_TOKENS
    affordable = int((left_usd - base) / a_token) if a_token else most
    cap = max(likely_output_tokens, min(most, affordable))
    return Reservation(cost(cap), cap)
