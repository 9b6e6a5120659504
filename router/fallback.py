"""Where a call goes when its endpoint is down or has failed it: the candidates of its endpoint's fallbacks.

In: a market, the candidate that was decided on. Out: the candidates after it, in their order. Invariant: pure; the
chain ends, and none of it costs what is not known of it: each is priced at its own endpoint's list.
"""

from __future__ import annotations

from dataclasses import replace

from router.errors import WrongUsage
from router.policy import Market, Offer
from router.result import Candidate


def fallback_candidates(market: Market, candidate: Candidate) -> tuple[Candidate, ...]:
    """Return what stands behind a candidate: the same model at its endpoint's fallback, or the one named in its place.

    A fallback that offers neither, or cannot be used now (no key), is passed over for the one behind it.

    Args:
        market: what is on offer.
        candidate: what was decided on; its size and forecast hold for the others, too.
    """
    found: list[Candidate] = []
    been, name, model = {candidate.endpoint}, candidate.endpoint, candidate.model
    while (settings := market.endpoints.get(name or "")) is not None and settings.fallback not in {None, *been}:
        name = settings.fallback
        been.add(name)
        offer = _offer(market, model, name) or _offer(market, settings.fallback_models.get(model), name)
        if offer is not None:
            model = offer.model
            found.append(replace(candidate, offer=offer, cost=None, lost=None, warning=None))
    return tuple(found)


def _offer(market: Market, model: str | None, endpoint: str | None) -> Offer | None:
    if model is None:
        return None
    try:
        offers = market.offers(market.model(model))
    except WrongUsage:
        return None
    return next((offer for offer in offers if offer.endpoint == endpoint), None)
