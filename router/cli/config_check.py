"""What `router config check` finds: names that nothing knows, and endpoints that cannot be used.

In: settings, catalogue, environment. Out: a ConfigError with every fault, or one `EndpointCheck` per endpoint.
Invariant: at most one request per endpoint is sent, and it costs nothing (GET /models).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pricing import Catalog, FxTable, UnknownModel, load_catalog
from pricing.catalog import VENDOR
from pricing.errors import CatalogError, Fault
from router.environment import read_text, shown_path
from router.errors import ConfigError, RouterError
from router.faults import FileFaults, KeyPath, near_names
from router.policy import Market
from router.presets import ENDPOINT_PRESETS
from router.settings import EndpointSettings, FixedSettings, Settings
from router.settings_file import load_settings
from router.settings_plan import ByPlanSettings, CandidateSettings

LONGEST_CHECK_S = 20.0


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """What was found of one endpoint: whether it can be used, in one line, and what to do about it."""

    name: str
    good: bool
    text: str
    hint: str | None = None


def checked_settings() -> tuple[Settings, Catalog]:
    """Return the settings and the catalogue they make, every name in them known.

    Raises:
        ConfigError: a file is wrong, or names a model or price list that does not exist; carries every fault.
    """
    settings = load_settings()
    file = settings.source
    name = shown_path(file, Path.cwd()) if file else "router.toml"
    try:
        catalog = load_catalog(settings.price_files, settings.prices or None, name)
    except CatalogError as error:
        raise ConfigError(error.faults, hint=error.hint) from None
    if file is not None:
        faults = tuple(unknown_names(settings, catalog, FileFaults(name, read_text(file, name))))
        if faults:
            raise ConfigError(faults, hint="a model of your own needs a price file, or an endpoint that lists it")
    return settings, catalog


def unknown_names(settings: Settings, catalog: Catalog, faults: FileFaults) -> Iterator[Fault]:
    """Yield a fault for each model and price list that the settings name and nothing knows.

    Args:
        settings: what is set.
        catalog: the price lists, the settings' own included.
        faults: makes faults of the settings' file.
    """
    own = {model for endpoint in settings.endpoints.values() for model in endpoint.models or ()}
    names = {*own, *settings.aliases, *(model for each in catalog.lists for model in catalog.models(each))}
    for path, model in _models_named(settings):
        if model not in names and not _is_known(catalog, model):
            yield faults.at(
                path, f"is {model!r}, a model that nothing knows{near_names(model, names, all_names=False)}"
            )
    for name, endpoint in settings.endpoints.items():
        if endpoint.price_list not in (VENDOR, *catalog.lists):
            lists = near_names(endpoint.price_list, (VENDOR, *catalog.lists))
            path = ("endpoints", name, "price_list")
            yield faults.at(path, f"is {endpoint.price_list!r}, which does not exist{lists}")
    yield from _useless_fallbacks(settings, catalog, faults)


def _useless_fallbacks(settings: Settings, catalog: Catalog, faults: FileFaults) -> Iterator[Fault]:
    """Yield a fault for each fallback that offers none of what it is to stand in for, as far as that is named."""
    for name, endpoint in settings.endpoints.items():
        table = ("endpoints", name)
        if endpoint.fallback is None and endpoint.fallback_models:
            yield faults.at((*table, "fallback_models"), "is set, but no fallback is")
        there = settings.endpoints.get(endpoint.fallback or "")
        if there is None:
            continue
        market = Market(catalog, {name: there}, FxTable(()), datetime.now(UTC))
        for model, other in endpoint.fallback_models.items():
            if not _is_offered(market, other):
                path = (*table, "fallback_models", model)
                yield faults.at(path, f"is {other!r}, a model that {endpoint.fallback} does not offer")
        for model in endpoint.models or ():
            if model not in endpoint.fallback_models and not _is_offered(market, model):
                words = f"is {endpoint.fallback!r}, which does not offer {model}; name another in fallback_models"
                yield faults.at((*table, "fallback"), words)


def _is_offered(market: Market, model: str) -> bool:
    return any(offer.endpoint is not None for offer in market.offers(model))


def check_endpoints(
    settings: Settings, catalog: Catalog, environ: Mapping[str, str], *, offline: bool = False
) -> tuple[EndpointCheck, ...]:
    """Return what is found of each endpoint, in the settings' order; all are asked at once.

    Args:
        settings: what is set.
        catalog: the price lists.
        environ: where keys are read from.
        offline: look at the keys' variables only.
    """
    wanted = {name: wanted_models(endpoint, catalog) for name, endpoint in settings.endpoints.items()}

    async def all_of_them() -> tuple[EndpointCheck, ...]:
        checks = (
            _check(name, endpoint, wanted[name], environ, offline=offline)
            for name, endpoint in settings.endpoints.items()
        )
        return tuple(await asyncio.gather(*checks))

    return (*asyncio.run(all_of_them()), *_absent_fallbacks(settings))


def _absent_fallbacks(settings: Settings) -> Iterator[EndpointCheck]:
    """Yield what is wrong with each fallback that is a preset whose key is not set."""
    for name, endpoint in settings.endpoints.items():
        preset = ENDPOINT_PRESETS.get(endpoint.fallback or "")
        if preset is not None and endpoint.fallback not in settings.endpoints:
            variable = preset.key_env
            hint = f"set {variable} in the environment or in .env"
            yield EndpointCheck(
                name, False, f"its fallback {endpoint.fallback} has no key: {variable} is not set", hint
            )


def wanted_models(endpoint: EndpointSettings, catalog: Catalog) -> Mapping[str, frozenset[str]]:
    """Return, by our model id, the ids under which the endpoint may list a model it is set to serve.

    Models of a price list count where they have a price today; "vendor" with no `models` names none in particular.

    Args:
        endpoint: its settings.
        catalog: the price lists.
    """
    if endpoint.models is not None:
        return {model: frozenset({wire_id}) for model, wire_id in endpoint.models.items()}
    if endpoint.price_list == VENDOR:
        return {}
    now = datetime.now(UTC)
    listed = {
        model: catalog.info(model, endpoint.price_list)
        for model in catalog.models(endpoint.price_list)
        if catalog.price_set(model, endpoint.price_list, now) is not None
    }
    return {model: frozenset({info.wire_id, *info.aliases}) for model, info in listed.items()}


async def _check(
    name: str,
    settings: EndpointSettings,
    wanted: Mapping[str, frozenset[str]],
    environ: Mapping[str, str],
    *,
    offline: bool,
) -> EndpointCheck:
    if settings.key_env and not environ.get(settings.key_env):
        hint = f"set {settings.key_env} in the environment or in .env"
        return EndpointCheck(name, False, f"no key: {settings.key_env} is not set", hint)
    if offline:
        return EndpointCheck(name, True, f"{settings.key_env or 'no key'} is {'set' if settings.key_env else 'needed'}")
    try:
        async with asyncio.timeout(LONGEST_CHECK_S):
            there = await _models_there(name, settings, environ)
    except TimeoutError:
        return EndpointCheck(name, False, f"no answer in {LONGEST_CHECK_S:.0f} s", "is base_url right?")
    except RouterError as error:
        return EndpointCheck(name, False, str(error), error.hint)
    return _compared(name, settings, wanted, there)


async def _models_there(name: str, settings: EndpointSettings, environ: Mapping[str, str]) -> frozenset[str]:
    from router.endpoints import open_endpoint

    endpoint = open_endpoint(name, settings, environ)
    try:
        return frozenset(await endpoint.models())
    finally:
        await endpoint.aclose()


def _compared(
    name: str, settings: EndpointSettings, wanted: Mapping[str, frozenset[str]], there: frozenset[str]
) -> EndpointCheck:
    missing = sorted(model for model, ids in wanted.items() if not ids & there)
    place = settings.base_url or settings.kind
    if not wanted:
        return EndpointCheck(name, True, f"good: {place} answers and lists {len(there)} models")
    text = f"good: {place} answers and lists {len(wanted) - len(missing)} of {len(wanted)} models"
    if not missing:
        return EndpointCheck(name, True, text)
    named = ", ".join(missing)
    if settings.models is None and len(missing) < len(wanted):
        return EndpointCheck(name, True, f"{text}; not there: {named}")
    text = f"{place} answers, but does not list {named}"
    return EndpointCheck(name, False, text, f"set their names there in endpoints.{name}.models")


def _models_named(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    for alias, model in settings.aliases.items():
        yield ("aliases", alias), model
    if settings.judge.model is not None:
        yield ("judge", "model"), settings.judge.model
    for name, configuration in settings.configurations.items():
        path = ("configurations", name)
        if isinstance(configuration, FixedSettings):
            yield (*path, "orchestrator"), configuration.orchestrator
            yield (*path, "worker"), configuration.worker
        else:
            listed: dict[KeyPath, Sequence[str | CandidateSettings]] = {
                ("classes", task_class): rule.candidates for task_class, rule in configuration.classes.items()
            }
            if isinstance(configuration, ByPlanSettings):
                listed[()] = configuration.candidates
            for above, candidates in listed.items():
                for position, each in enumerate(candidates):
                    model = each if isinstance(each, str) else each.model
                    yield (*path, *above, "candidates", position), model


def _is_known(catalog: Catalog, model: str) -> bool:
    try:
        catalog.find(model)
    except UnknownModel:
        return False
    return True
