"""The candidates of one call where a model's reasoning effort is part of the choice.

In: a need, a `by_plan` configuration. Out: candidates with their numbers, a `Decision`. Invariant: pure; thinking is in
the output that a candidate is weighed with, and the body fields that ask for it are in the decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from router.extras import configured_extra, expected_thinking, thinking_tokens, with_thinking
from router.policy import Market, Need
from router.policy.by_plan import VERSION, Way, plain_ways, rule_of, way_for, ways_of, weigh_ways
from router.policy.choose import chosen_of
from router.result import Candidate, Decision
from router.settings_plan import ByPlanSettings


@dataclass(frozen=True, slots=True)
class Pin:
    """What a step was put on, so that nothing else does it: a model, its endpoint, its effort."""

    model: str
    endpoint: str | None
    effort: str | None = None

    def fits(self, candidate: Candidate) -> bool:
        """Return whether a candidate is the one, at whichever endpoint."""
        return (candidate.model, candidate.effort) == (self.model, self.effort)


@dataclass(frozen=True, slots=True)
class Ways:
    """What a call may be done by, and what is sent with it.

    Args:
        ways: models, each with its own body fields.
        extra: the configuration's body fields, under those of a way.
        own: the task's body fields, over all of them.
    """

    ways: tuple[Way, ...]
    extra: Mapping[str, Any]
    own: Mapping[str, Any]

    def weighed(self, market: Market, need: Need) -> tuple[Candidate, ...]:
        """Return every offer of the ways with its numbers for a need whose output holds no thinking yet."""
        return weigh_ways(market, self.ways, lambda way: self._with_thinking(need, way))

    def body_fields(self, candidate: Candidate) -> dict[str, Any]:
        """Return what the configuration sends with a candidate's call."""
        way = way_for(candidate, self.ways)
        return {**self.extra, **(way.extra if way else {})}

    def _with_thinking(self, need: Need, way: Way) -> Need:
        """Return the need with a way's thinking: twice what is expected of it is allowed, as `with_thinking` has it."""
        stated = None if way.reasoning_tokens is None else 2 * way.reasoning_tokens
        allowed = thinking_tokens({**self.extra, **way.extra, **self.own}) if stated is None else stated
        if not allowed:
            return need
        return replace(need, output=with_thinking(need.output, allowed), thinking=expected_thinking(allowed))


def ways_for(
    market: Market,
    configuration: ByPlanSettings,
    need: Need,
    named: Sequence[str] = (),
    own: Mapping[str, Any] | None = None,
) -> Ways:
    """Return what a call may be done by.

    Args:
        market: knows the models' names.
        configuration: the configuration.
        need: what the call has to be given: its role and class are looked at.
        named: the only models it may be done by, with the efforts that the configuration gives them; empty: all.
        own: body fields of task and step.

    Raises:
        WrongUsage: nobody knows one of the models.
    """
    ways = ways_of(market, configuration, need.task_class)
    if named:
        wanted = plain_ways(market, named)
        ways = tuple(
            way for each in wanted for way in ([known for known in ways if known.model == each.model] or [each])
        )
    return Ways(ways, configured_extra(configuration, need.role, need.task_class), own or {})


def decide_by_ways(
    market: Market,
    name: str,
    configuration: ByPlanSettings,
    need: Need,
    own: Mapping[str, Any],
    pin: tuple[Pin, Sequence[str]] | None = None,
) -> Decision:
    """Return the decision for one call: the cheapest way that meets the need by itself, or the one it is pinned to.

    Args:
        market: what is on offer.
        name: the configuration's name.
        configuration: its rules.
        need: what the call has to be given; its class's floor holds where it has none.
        own: body fields of task and step.
        pin: what a plan's assignment has put the step on, and the models that the step names; None: nothing.

    Raises:
        NoCandidate, NoEndpoint: none fits.
    """
    if pin is None:
        floor = rule_of(configuration, need.task_class).quality_floor
        ways = ways_for(market, configuration, need, own=own)
        held = need if need.quality_floor is not None else replace(need, quality_floor=floor)
        weighed = ways.weighed(market, held)
        if need.role == "worker" and all(each.lost for each in weighed):  # a plan's other steps can make up for it
            held = need
            weighed = ways.weighed(market, held)
        need = held
    else:  # floor and latency were held for the plan as a whole
        need = replace(need, quality_floor=None, latency_objective_s=None)
        ways = ways_for(market, configuration, need, pin[1], own)
        weighed = tuple(_pinned(ways.weighed(market, need), pin[0]))
    decision = chosen_of(market, need, weighed, name, VERSION)
    return replace(decision, extra=ways.body_fields(decision.chosen))


def _pinned(weighed: Sequence[Candidate], pin: Pin) -> list[Candidate]:
    """Return the pinned candidate; where its endpoint is no longer set, the same model's offers elsewhere; else all."""
    same = [each for each in weighed if pin.fits(each)]
    return [each for each in same if each.endpoint == pin.endpoint] or same or list(weighed)
