"""The choice itself: weigh every offer for one request, take the cheapest that fits.

In: a `Market`, a `Need`, models. Out: a `Decision` with every candidate, its numbers and why it lost.
Invariant: pure, and never by list price: candidates are ranked by the expected settled cost of *this* request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, NamedTuple

from pricing import ModelInfo
from pricing.quick import quick
from router import quality
from router.errors import NoEndpoint
from router.experience import NO_EXPERIENCE, Experience
from router.forecast import OutputForecast, forecast_output
from router.policy.market import Market, NoCandidate
from router.policy.quotation import Quotation
from router.result import Candidate, Decision
from router.task import Role

ClassSource = Literal["given", "classified", "default"]


@quick
@dataclass(frozen=True, slots=True)
class Need:
    """What one call has to be given.

    Args:
        role: single, orchestrator or worker.
        task_class: the class of the call.
        class_source: where the class comes from.
        input_tokens: expected input, tokens.
        output: expected output.
        capabilities: what the model must be able to do ("tools", "json").
        quality_floor: least quality lower bound, 0 to 1, or None.
        latency_objective_s: longest acceptable median latency, seconds, or None.
        script: what its text is mostly written in; None: the size of the input is given, and not corrected.
        max_output_tokens: cap on its answer, thinking not included, tokens, or None.
        thinking: thinking that is asked for, which `output` has in it; None: none is.
        answers: how many answers the one holds.
        is_output_given: whether `output` is the caller's own, and not corrected by a model's record.
    """

    role: Role
    task_class: str
    class_source: ClassSource
    input_tokens: int
    output: OutputForecast
    capabilities: frozenset[str] = frozenset()
    quality_floor: float | None = None
    latency_objective_s: float | None = None
    script: str | None = None
    max_output_tokens: int | None = None
    thinking: OutputForecast | None = None
    answers: int = 1
    is_output_given: bool = False


def choose(market: Market, need: Need, models: Iterable[str], *, configuration: str, policy_version: str) -> Decision:
    """Return the cheapest offer of the models that fits the need.

    Args:
        market: what is on offer.
        need: what the call has to be given.
        models: our model ids, in the order of preference that breaks ties.
        configuration: name to put into the decision.
        policy_version: rule to put into the decision.

    Raises:
        NoCandidate: none fits; the message lists why each lost.
    """
    asked = (configuration, policy_version, need, tuple(dict.fromkeys(models)))
    decided = market.memos.decisions
    found = decided.get(asked, market.at)
    if found is None:
        found = _chosen(market, *asked)
        decided.keep(asked, found, market.at, min(map(market.steady_until, asked[-1])))
    return found


def _chosen(market: Market, configuration: str, policy_version: str, need: Need, models: tuple[str, ...]) -> Decision:
    weighed = [weigh(market, need, quotation) for model in models for quotation in market.quotations(model)]
    return chosen_of(market, need, weighed, configuration, policy_version)


def chosen_of(
    market: Market, need: Need, weighed: Iterable[Candidate], configuration: str, policy_version: str
) -> Decision:
    """Return the decision for the cheapest of the candidates that fit; those that cost the same stand in their order.

    Args:
        market: what they were weighed on.
        need: what the call has to be given.
        weighed: what `weigh` says of each.
        configuration: name to put into the decision.
        policy_version: rule to put into the decision.

    Raises:
        NoCandidate, NoEndpoint: none fits; the message lists why each lost.
    """
    ranked = sorted(weighed, key=_rank)
    chosen = ranked[0]
    if chosen.lost is not None:
        raise _nobody(ranked, need, configuration)
    losers = tuple(_lost_on_cost(each, chosen, market) for each in ranked[1:])
    return Decision(
        configuration=configuration,
        policy_version=policy_version,
        role=need.role,
        task_class=need.task_class,
        class_source=need.class_source,
        quality_floor=need.quality_floor,
        chosen=chosen,
        candidates=(chosen, *losers),
    )


def _rank(candidate: Candidate) -> tuple[bool, bool, Decimal]:
    cost = candidate.cost
    return candidate.lost is not None, cost is None, cost.expected_usd if cost else Decimal(0)


def _lost_on_cost(candidate: Candidate, chosen: Candidate, market: Market) -> Candidate:
    if candidate.lost is not None:
        return candidate
    if candidate.cost is None or chosen.cost is None:
        return replace(candidate, lost=_unpriced(market, candidate))
    if candidate.cost.expected_usd == chosen.cost.expected_usd:
        return replace(candidate, lost="costs the same and stands later in the list")
    if chosen.cost.expected_usd == 0:
        return replace(candidate, lost="dearer for this request")
    return replace(candidate, lost=f"{candidate.cost.expected_usd / chosen.cost.expected_usd:.2f} × the cost")


def _unpriced(market: Market, candidate: Candidate) -> str:
    retired_at = market.retired_at(candidate.model, candidate.price_list)
    if retired_at is not None:
        return f"no price: {candidate.price_list} retired it on {retired_at:%Y-%m-%d}"
    return f"a price it needs is not on the list {candidate.price_list}, so it cannot be compared"


class Size(NamedTuple):
    """How large a call to one model is expected to be; `input_ends` are the ends of its input, or None: not known."""

    input_tokens: int
    output: OutputForecast
    input_ends: tuple[int, int] | None = None


def expected_size(experience: Experience, need: Need, model: str) -> Size:
    """Return how large a call to a model is expected to be: as the need says, corrected by what is on record.

    Args:
        experience: what is on record.
        need: what the call has to be given.
        model: our model id.
    """
    if experience is NO_EXPERIENCE:
        return Size(need.input_tokens, need.output)
    input_tokens, output, ends = need.input_tokens, need.output, None
    if (ratio := experience.input_ratio(model, need.script)) is not None:
        ends = input_tokens * ratio.low_milli // 1000, input_tokens * ratio.high_milli // 1000
        input_tokens = max(1, input_tokens * ratio.expected_milli // 1000)
    learnt = None if need.is_output_given else experience.lengths(model, need.task_class)
    if learnt is not None:
        most, thinking, answers = need.max_output_tokens, need.thinking, need.answers
        output = forecast_output(need.task_class, input_tokens, most, learnt, thinking=thinking, answers=answers)
    return Size(input_tokens, output, ends)


def weigh(
    market: Market,
    need: Need,
    quotation: Quotation,
    own_quality: tuple[float, float] | None = None,
    effort: str | None = None,
) -> Candidate:
    """Return an offer with its numbers for one request; `lost` is the first hard requirement that it breaks.

    Args:
        market: what is on offer.
        need: what the call has to be given.
        quotation: the offer.
        own_quality: share and lower bound of the user's own figure, 0 to 1; None: the published one.
        effort: see `Candidate`.
    """
    offer = quotation.offer
    size = expected_size(market.experience, need, offer.model)
    output = size.output
    share, bound = own_quality or quality.shown(offer.model, need.task_class)
    candidate = Candidate(
        offer=offer,
        input_tokens=size.input_tokens,
        output_tokens=(output.low_tokens, output.expected_tokens, output.high_tokens),
        cost=quotation.expected_cost(size.input_tokens, output, size.input_ends),
        quality_share=share,
        quality_bound=bound,
        latency_s=market.median_latency_s(offer.model, need.task_class),
        script=need.script,
        estimated_input_tokens=need.input_tokens,
        prior_high_tokens=need.output.high_tokens,
        effort=effort,
    )
    lost = _unfit(market, need, candidate, quotation.info)
    warning = _warning(market, need, candidate, quotation)
    return candidate if lost is warning is None else replace(candidate, lost=lost, warning=warning)


def _unfit(market: Market, need: Need, candidate: Candidate, info: ModelInfo | None) -> str | None:
    """Return the first hard requirement that the candidate breaks, or None."""
    if candidate.endpoint is None and market.endpoints:
        return "no configured endpoint offers it"
    if info is not None:
        missing = sorted(need.capabilities - set(info.capabilities))
        if missing:
            return f"cannot do {', '.join(missing)}"
        window, needed = info.context_window_tokens, candidate.input_tokens + candidate.output_tokens[1]
        if window is not None and needed > window:
            return f"context of {window:,} tokens is less than the {needed:,} needed"
    if need.quality_floor is not None:
        if candidate.quality_bound is None:
            return f"no published quality for {need.task_class} shows it to meet the floor {need.quality_floor:.2f}"
        if candidate.quality_bound < need.quality_floor:
            return f"quality bound {candidate.quality_bound:.3f} is below the floor {need.quality_floor:.3f}"
    if need.latency_objective_s is not None and (candidate.latency_s or 0) > need.latency_objective_s:
        return f"median latency {candidate.latency_s:.2f} s is over the objective {need.latency_objective_s:.2f} s"
    return None


def _warning(market: Market, need: Need, candidate: Candidate, quotation: Quotation) -> str | None:
    offer, info, retired_at = quotation.offer, quotation.info, quotation.retired_at
    if retired_at is not None:
        how = "priced at its last list" if offer.last_list else "its calls are unpriced"
        return f"{offer.model} was retired on {retired_at:%Y-%m-%d}; {how}"
    if info is not None and info.announced_shutdown is not None and info.announced_shutdown <= market.at.date():
        return f"{offer.model}: its vendor announced its end for {info.announced_shutdown}"
    if need.latency_objective_s is not None and candidate.latency_s is None:
        return f"{offer.model}: no latency is on record, so the objective was not held against it"
    return None


def _nobody(ranked: Iterable[Candidate], need: Need, configuration: str) -> NoCandidate | NoEndpoint:
    reasons = {each.model: each.lost or "" for each in reversed(list(ranked))}
    listed = "; ".join(f"{model}: {reason}" for model, reason in sorted(reasons.items()))
    message = f"configuration {configuration}: no model fits a {need.role} call of class {need.task_class}: {listed}"
    if all("no configured endpoint" in reason for reason in reasons.values()):
        return NoEndpoint(message, hint="set the key of an endpoint that offers one of them (router config check)")
    return NoCandidate(message, hint="lower the quality floor, add candidates, or shorten the input")
