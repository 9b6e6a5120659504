"""Which model does a call: named configurations over the catalogue, each choice a pure function of values.

In: a need, a configuration, a market. Out: a `Decision`. Invariant: no clock, no network, no SQL.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from pricing import Catalog, FxTable, Usage
from router.forecast import OutputForecast
from router.policy.by_class import VERSION as BY_CLASS_VERSION
from router.policy.by_class import rule_for
from router.policy.by_plan import as_by_class
from router.policy.choose import Need, choose
from router.policy.market import Market, NoCandidate
from router.policy.need import class_of, need_of
from router.result import Decision, Offer
from router.settings import ConfigurationSettings, EndpointSettings, FixedSettings
from router.settings_plan import ByPlanSettings
from router.task import Role

FIXED_VERSION = "fixed/1"

__all__ = [
    "Market",
    "Need",
    "NoCandidate",
    "Offer",
    "class_of",
    "decide",
    "decide_among",
    "need_of",
    "replay_model",
]


def fixed_model(configuration: FixedSettings, role: str | None) -> str:
    """Return a fixed pair's model for a role: the worker's for a worker, else the orchestrator's."""
    return configuration.worker if role == "worker" else configuration.orchestrator


def decide(market: Market, need: Need, name: str, configuration: ConfigurationSettings) -> Decision:
    """Return the decision of a named configuration for one call; `by_plan` chooses for it as `by_class` does.

    Args:
        market: what is on offer.
        need: what the call has to be given.
        name: the configuration's name.
        configuration: its rule.

    Raises:
        NoCandidate: no candidate fits.
        NoEndpoint: no configured endpoint offers any of them.
        WrongUsage: the configuration names a model that nobody knows.
    """
    if isinstance(configuration, FixedSettings):
        models = [market.model(fixed_model(configuration, need.role))]
        return choose(market, need, models, configuration=name, policy_version=FIXED_VERSION)
    if isinstance(configuration, ByPlanSettings):
        configuration = as_by_class(configuration)
    rule = rule_for(configuration, need.task_class)
    floor = need.quality_floor if need.quality_floor is not None else rule.quality_floor
    models = [market.model(model) for model in rule.candidates]
    need = replace(need, quality_floor=floor)
    return choose(market, need, models, configuration=name, policy_version=BY_CLASS_VERSION)


def decide_among(market: Market, need: Need, names: tuple[str, ...]) -> Decision:
    """Return the cheapest of the named models for one call; see `decide` for what is raised."""
    models = [market.model(name) for name in names]
    return choose(market, need, models, configuration="candidates", policy_version=BY_CLASS_VERSION)


def replay_model(
    configuration: ConfigurationSettings,
    *,
    role: Role | None,
    task_class: str | None,
    usage: Usage,
    catalog: Catalog,
    price_list: str,
    at: datetime,
    name: str = "replay",
) -> str:
    """Return the model that a configuration would have put on past calls of these sizes.

    Args:
        configuration: the rule.
        role: single, orchestrator, worker, or None where the record does not say (taken as single).
        task_class: the class on record, or None.
        usage: mean usage of the calls, tokens.
        catalog: the price catalogue.
        price_list: the list to price at, or "vendor"; a retired model is priced at its last list.
        at: the instant of the prices, aware UTC.
        name: the configuration's name, for the message where nothing fits.

    Raises:
        NoCandidate: no candidate of the class fits.
        WrongUsage: the configuration names a model that nobody knows.
    """
    paper = MappingProxyType({"paper": EndpointSettings(kind="litellm", price_list=price_list, last_list=True)})
    market = Market(catalog, paper, FxTable(()), at)
    if isinstance(configuration, FixedSettings):
        return market.model(fixed_model(configuration, role))
    tokens = usage.output_tokens
    output = OutputForecast(tokens, tokens, tokens, "on record")
    known = task_class or configuration.default_class
    need = Need(role or "single", known, "given", usage.input_tokens, output)
    return decide(market, need, name, configuration).chosen.model
