"""Baselines that every comparison of a month shows: the best single model, and the cheapest that is good enough.

In: work, models to try, rules with quality floors. Out: `Single`s and the two that win. Invariant: a single model could
have done all of the month's classes: it can be bought, every part of the work has a price, each request fits its
context, and in a class that has a quality floor its published lower bound meets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pricing import Catalog, UnknownModel
from reports.expectations import Quality, prior_bound, quality_of
from reports.repricing import Basis, Repriced, reprice
from reports.workload import Portion, together
from router.policy.by_class import BUILT_IN_RULES, rule_for
from router.policy.by_plan import as_by_class
from router.settings import ByClassSettings, ConfigurationSettings, FixedSettings
from router.settings_plan import ByPlanSettings

PLAIN_RULES = ByClassSettings(policy="by_class")
"""The built-in floors."""


@dataclass(frozen=True, slots=True)
class Single:
    """One model doing everything.

    Args:
        model: our model id.
        repriced: the work at that model's prices.
        quality: what published figures say of it.
        lost: why it is no baseline; None: it may be one.
    """

    model: str
    repriced: Repriced
    quality: Quality
    lost: str | None


@dataclass(frozen=True, slots=True)
class Baselines:
    """The single models that were tried; `best` has the highest quality, `cheapest` the least cost; None: none has."""

    singles: tuple[Single, ...]
    best: Single | None
    cheapest: Single | None


def models_named(configurations: Iterable[ConfigurationSettings], catalog: Catalog) -> tuple[str, ...]:
    """Return every model that configurations may choose, by our ids; those the catalogue does not know are left out.

    Args:
        configurations: the rules; one by class brings the candidates of all its classes.
        catalog: resolves names.
    """
    names: list[str] = []
    for rule in configurations:
        if isinstance(rule, FixedSettings):
            names += [rule.orchestrator, rule.worker]
        else:
            own = as_by_class(rule) if isinstance(rule, ByPlanSettings) else rule
            kinds = {**BUILT_IN_RULES, **own.classes}
            names += [name for found in kinds.values() for name in found.candidates]
    models: dict[str, None] = {}
    for name in names:
        try:
            models[catalog.find(name)] = None
        except UnknownModel:
            continue
    return tuple(models)


def single_baselines(
    portions: Sequence[Portion], models: Iterable[str], basis: Basis, rules: ByClassSettings = PLAIN_RULES
) -> Baselines:
    """Return the single models and the two baselines among them.

    Args:
        portions: the work.
        models: models to try.
        basis: the prices.
        rules: has the quality floor of each class.

    Raises:
        FxError: an amount cannot be converted.
    """
    work = together(portions)
    singles = tuple(_single(model, work, basis, rules) for model in models)
    fit = [single for single in singles if single.lost is None]
    shown = [single for single in fit if single.quality.bound_share is not None]
    best = min(shown, key=lambda single: (-(single.quality.bound_share or 0), *_cost(single)), default=None)
    return Baselines(singles, best, min(fit, key=_cost, default=None))


def _single(model: str, portions: Sequence[Portion], basis: Basis, rules: ByClassSettings) -> Single:
    repriced = reprice(model, FixedSettings(orchestrator=model, worker=model), portions, basis)
    return Single(model, repriced, quality_of(repriced.given), _lost(model, repriced, portions, basis, rules))


def _cost(single: Single) -> tuple[Fraction, str]:
    return single.repriced.exact_total or Fraction(0), single.model


def _lost(
    model: str, repriced: Repriced, portions: Sequence[Portion], basis: Basis, rules: ByClassSettings
) -> str | None:
    """Return the first reason for which a model could not have done all of it, or None."""
    if repriced.retired:
        return f"retired on {min(repriced.retired.values()):%Y-%m-%d}"
    if repriced.unpriced:
        return f"no {repriced.unpriced[0].component} price on the list {basis.price_list}"
    window, largest = _window(model, basis.catalog), max((_size(portion) for portion in portions), default=0)
    if window is not None and largest > window:
        return f"its context of {window:,} tokens is less than some groups' mean request of {largest:,}"
    classes = sorted({portion.task_class for portion in portions if portion.task_class is not None})
    for task_class, floor in _floors(classes, rules).items():
        bound = prior_bound(model, task_class)
        if bound is None:
            return f"no published quality for {task_class} shows it to meet the floor {floor:.2f}"
        if bound < floor:
            return f"quality bound {float(bound):.3f} for {task_class} is below the floor {floor:.2f}"
    return None


def _floors(classes: Iterable[str], rules: ByClassSettings) -> Mapping[str, float]:
    found = {task_class: rule_for(rules, task_class).quality_floor for task_class in classes}
    return {task_class: floor for task_class, floor in found.items() if floor is not None}


def _size(portion: Portion) -> int:
    return portion.size.input_tokens + portion.size.output_tokens if portion.tier is not None else 0


def _window(model: str, catalog: Catalog) -> int | None:
    try:
        return catalog.info(model).context_window_tokens
    except UnknownModel:
        return None
