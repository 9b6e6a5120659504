"""What a request really holds at the endpoint it goes to: the endpoint's own fields, a bound, a cache mark.

In: a candidate, and what was asked. Out: body fields and messages as they are sent. Invariant: pure; a call's key is
made of what was asked, so that it is the same wherever the call goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from router.context import prefix_length, with_cache_mark
from router.extras import bounded, thinking_tokens
from router.policy import Market
from router.result import Candidate
from router.warming import writes_cost


def sent_fields(market: Market, candidate: Candidate, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body fields of a request.

    Args:
        market: endpoint settings, and what is known of models.
        candidate: where it goes; a name without settings adds nothing.
        parameters: what was asked.
    """
    settings = market.endpoints.get(candidate.endpoint or "")
    if settings is not None and settings.extra:
        parameters = {**settings.extra, **parameters}
    if not thinking_tokens(parameters):
        return parameters
    info = market.info(candidate.model, candidate.price_list)
    return bounded(parameters, info.max_output_tokens if info else None)


def sent_messages(
    market: Market, candidate: Candidate, messages: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a request: a shared document is marked where nothing unmarked is cached.

    Args:
        market: endpoint settings and prices.
        candidate: where it goes.
        messages: what was asked.
    """
    settings = market.endpoints.get(candidate.endpoint or "")
    if settings is None or settings.kind != "litellm" or not prefix_length(messages):
        return messages
    return with_cache_mark(messages) if writes_cost(market, candidate.offer) else messages
