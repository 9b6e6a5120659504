"""The `by_plan` policy: what each step of a plan may be given to, and one call decided on alone.

In: a need and the rules. Out: ways of doing it, each a model with what is sent to it; candidates with their numbers.
Invariant: pure; the quality of a way is a published figure or one of the user's own, bounded from below alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from router import quality
from router.policy.by_class import BUILT_IN_RULES
from router.policy.choose import Need, weigh
from router.policy.market import Market
from router.result import Candidate
from router.settings import ByClassSettings, ClassRule
from router.settings_plan import ByPlanSettings, CandidateSettings, PlanRule

VERSION = "by_plan/1"


@dataclass(frozen=True, slots=True)
class Way:
    """One way of doing a step: a model, and what is sent to it beside the prompt.

    Args:
        model: our model id.
        effort: its reasoning effort, or its own body fields as JSON; None: the model as it is.
        extra: body fields of this way.
        reasoning_tokens: thinking expected of it, tokens; None: what its body fields stand for.
        own_quality: share and lower bound of the user's own figure for the class, 0 to 1; None: the published one.
    """

    model: str
    effort: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    reasoning_tokens: int | None = None
    own_quality: tuple[float, float] | None = None


def rule_of(configuration: ByPlanSettings, task_class: str) -> PlanRule:
    """Return the rule of a class, its candidates filled in; an unknown class has the default class's.

    Args:
        configuration: the configuration.
        task_class: the class.
    """
    known = task_class in BUILT_IN_RULES or task_class in configuration.classes
    name = task_class if known else configuration.default_class
    own = configuration.classes.get(name)
    built_in = BUILT_IN_RULES.get(name)
    named = own.candidates if own else ()
    named = named or configuration.candidates or _built_in_candidates(name)
    if own is not None:
        return own.model_copy(update={"candidates": named})
    return PlanRule(quality_floor=built_in.quality_floor if built_in else None, candidates=named)


@cache
def _built_in_candidates(name: str) -> tuple[CandidateSettings, ...]:
    """Return the candidates of a built-in class's rule; of any other class, those of `chat`."""
    rule = BUILT_IN_RULES.get(name) or BUILT_IN_RULES["chat"]
    return tuple(CandidateSettings(model=each) for each in rule.candidates)


def as_by_class(configuration: ByPlanSettings) -> ByClassSettings:
    """Return the same rules for calls one by one, efforts left out: what a record is replayed by."""
    names = {*BUILT_IN_RULES, *configuration.classes}
    rules = {name: rule_of(configuration, name) for name in sorted(names)}
    classes = {
        name: ClassRule(
            quality_floor=rule.quality_floor,
            candidates=tuple(dict.fromkeys(each.model for each in rule.candidates)),
            extra=rule.extra,
        )
        for name, rule in rules.items()
    }
    return ByClassSettings(
        policy="by_class", default_class=configuration.default_class, extra=configuration.extra, classes=classes
    )


def ways_of(market: Market, configuration: ByPlanSettings, task_class: str) -> tuple[Way, ...]:
    """Return the ways of doing a call of a class, in the order that breaks ties.

    Raises:
        WrongUsage: the configuration names a model that nobody knows.
    """
    ways = (way_of(market, each, task_class) for each in rule_of(configuration, task_class).candidates)
    return tuple(dict.fromkeys(ways))


def way_of(market: Market, candidate: CandidateSettings, task_class: str) -> Way:
    """Return one candidate as a way of doing a call of a class; its own quality is shrunk as a published one is.

    Raises:
        WrongUsage: nobody knows its model.
    """
    extra = dict(candidate.extra)
    label = json.dumps(extra, sort_keys=True, ensure_ascii=False, default=str) if extra else None
    if candidate.effort is not None:
        extra["reasoning_effort"] = candidate.effort
        label = candidate.effort if label is None else f"{candidate.effort} {label}"
    own = None
    if (share := candidate.quality.get(task_class)) is not None and candidate.sample_size is not None:
        own = (share, quality.bound(share, candidate.sample_size, task_class))
    return Way(market.model(candidate.model), label, extra, candidate.reasoning_tokens, own)


def plain_ways(market: Market, models: Iterable[str]) -> tuple[Way, ...]:
    """Return models as they are, as ways.

    Raises:
        WrongUsage: nobody knows one of them.
    """
    return tuple(dict.fromkeys(Way(market.model(name)) for name in models))


def weigh_ways(market: Market, ways: Iterable[Way], need_of_way: Callable[[Way], Need]) -> tuple[Candidate, ...]:
    """Return every offer of the ways with its numbers; `lost` says which hard requirement one breaks.

    Args:
        market: what is on offer.
        ways: what the call may be done by.
        need_of_way: returns what the call has to be given where it is done in a way: the thinking is in its output.
    """
    return tuple(
        weigh(market, need, quotation, way.own_quality, way.effort)
        for way in ways
        for need in (need_of_way(way),)
        for quotation in market.quotations(way.model)
    )


def way_for(candidate: Candidate, ways: Iterable[Way]) -> Way | None:
    """Return the way that a candidate is one of, or None."""
    return next((way for way in ways if (way.model, way.effort) == (candidate.model, candidate.effort)), None)
