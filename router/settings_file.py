"""Reads router.toml and the environment into `Settings`.

In: a folder and an environment. Out: `Settings`, presets and built-in configurations included. Invariant: every fault
of the file is found in one reading and raised together, each with its line; a file that loads is whole.

What wins, first to last: ROUTER_DATABASE_URL, router.toml, presets whose key is set, built-in configurations, defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pricing.errors import Fault
from router.classify import TASK_CLASSES
from router.environment import DATABASE_VARIABLE, find_file, from_home, load_environment, read_text, shown_path
from router.errors import ConfigError
from router.faults import FileFaults, KeyPath, near_names, shown_value
from router.presets import BUILT_IN_CONFIGURATIONS, ENDPOINT_PRESETS
from router.settings import DatabaseSettings, EndpointSettings, Settings

HINT = "router config check lists every fault; router init --path FILE writes a commented example"
Tables = dict[str, Any]


def load_settings(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return what is set: the nearest router.toml, laid over presets and defaults.

    Args:
        start: folder from which router.toml is looked for upwards; None: the working directory.
        environ: the environment; None: the process's, laid over `.env` (see `router.environment`).

    Raises:
        ConfigError: a file or a variable is wrong; it carries every fault with its line.
    """
    folder = (start or Path.cwd()).absolute()
    merged = load_environment(folder, environ)
    source = find_file(folder, merged)
    if source is None:
        return _with_environment(Settings(configurations=dict(BUILT_IN_CONFIGURATIONS)), merged, frozenset())
    name = shown_path(source, folder)
    text = read_text(source, name)
    reading = _Reading(FileFaults(name, text), source, _parse(text, name))
    return _with_environment(reading.settings(), merged, reading.presets_used())


def _parse(text: str, name: str) -> Tables:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = None if place is None else int(place[1] or text.count("\n") + 1)
        message = str(error) if place is None else str(error)[: place.start()]
        # tomllib's words may hold a character of the file, never a value.
        raise ConfigError((Fault(name, line, f"is not TOML: {message}"),), hint=HINT) from None
    except RecursionError:
        raise ConfigError((Fault(name, None, "is nested too deeply to be read"),), hint=HINT) from None
    except (ValueError, ArithmeticError):  # more digits than Python reads, or an exponent beyond any
        raise ConfigError((Fault(name, None, "holds a number that is too long to be read"),), hint=HINT) from None


def _with_environment(settings: Settings, environ: Mapping[str, str], used: frozenset[str]) -> Settings:
    ready = {
        name: preset
        for name, preset in ENDPOINT_PRESETS.items()
        if name not in used and name not in settings.endpoints and preset.key_env and environ.get(preset.key_env)
    }
    url = environ.get(DATABASE_VARIABLE)
    changes: Tables = {"endpoints": {**settings.endpoints, **ready}}
    if url:
        changes["database"] = DatabaseSettings(url=url)
    return settings.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One file on its way to Settings: where it is, and its tables as parsed."""

    faults: FileFaults
    source: Path
    tables: Tables

    def settings(self) -> Settings:
        """Return the Settings, or raise every fault there is."""
        secrets = dict(self.faults.secrets(self.tables))
        found = [*secrets.values(), *self._wrong_names(), *self._missing_price_files()]
        settings = None
        try:
            settings = Settings.model_validate(self._laid_over(secrets))
        except ValidationError as error:
            found += self.faults.of(error)
        if settings is None or found:
            raise ConfigError(_in_file_order(found), hint=HINT)
        return settings

    def presets_used(self) -> frozenset[str]:
        """Return the presets that the file builds on, whatever it calls its endpoints."""
        names = (_preset_name(name, table) for name, table in _tables_of(self.tables, "endpoints"))
        return frozenset(name for name in names if name is not None)

    def _laid_over(self, secrets: Mapping[KeyPath, Fault]) -> Tables:
        tables: Tables = {**_without(self.tables, (), secrets), "source": self.source}
        if isinstance(endpoints := tables.get("endpoints"), Mapping):
            tables["endpoints"] = {name: _over_preset(name, table) for name, table in endpoints.items()}
        if isinstance(configurations := tables.get("configurations", {}), Mapping):
            given = {name: _with_policy(table) for name, table in configurations.items()}
            tables["configurations"] = {**BUILT_IN_CONFIGURATIONS, **given}
        if isinstance(files := tables.get("price_files"), list):
            tables["price_files"] = [self._beside(file) for file in files]
        if isinstance(prices := tables.get("prices"), list):
            tables["prices"] = {"prices": prices}
        return tables

    def _beside(self, file: object) -> object:
        return self.source.parent / from_home(file) if isinstance(file, str) else file

    def _missing_price_files(self) -> Iterator[Fault]:
        files = self.tables.get("price_files")
        for position, file in enumerate(files if isinstance(files, list) else []):
            path = self._beside(file)
            if isinstance(path, Path) and not path.exists():
                yield self.faults.at(("price_files", position), f"is {file!r}; no such file or folder beside the file")

    def _wrong_names(self) -> Iterator[Fault]:
        if "source" in self.tables:
            yield self.faults.at(("source",), "does not exist")
        yield from self._wrong_presets()
        yield from self._wrong_classes()
        yield from self._wrong_fallbacks()
        name = self.tables.get("default_configuration")
        known = {**BUILT_IN_CONFIGURATIONS, **dict(_tables_of(self.tables, "configurations"))}
        if isinstance(name, str) and name not in known:
            yield self._unknown(("default_configuration",), name, known)
        judge = self.tables.get("judge")
        judging = judge.get("configuration") if isinstance(judge, Mapping) else None
        if isinstance(judging, str) and judging not in known:
            yield self._unknown(("judge", "configuration"), judging, known)

    def _wrong_presets(self) -> Iterator[Fault]:
        for name, table in _tables_of(self.tables, "endpoints"):
            preset = table.get("preset")
            if preset is not None and preset not in ENDPOINT_PRESETS:
                yield self._unknown(("endpoints", name, "preset"), preset, ENDPOINT_PRESETS)

    def _wrong_classes(self) -> Iterator[Fault]:
        for name, table in _tables_of(self.tables, "configurations"):
            path = ("configurations", name)
            default = table.get("default_class")
            if isinstance(default, str) and default not in TASK_CLASSES:
                yield self._unknown((*path, "default_class"), default, TASK_CLASSES)
            for task_class, _ in _tables_of(table, "classes"):
                if task_class not in TASK_CLASSES:
                    yield self.faults.at(
                        (*path, "classes", task_class), f"is no class{near_names(task_class, TASK_CLASSES)}"
                    )
            for where in _qualities_of(table):
                if where[-1] not in TASK_CLASSES:
                    said = near_names(str(where[-1]), TASK_CLASSES)
                    yield self.faults.at((*path, *where), f"is no class{said}")

    def _wrong_fallbacks(self) -> Iterator[Fault]:
        endpoints = dict(_tables_of(self.tables, "endpoints"))
        told: set[str] = set()
        for name, table in endpoints.items():
            fallback, path = table.get("fallback"), ("endpoints", name, "fallback")
            if isinstance(fallback, str) and fallback not in {**endpoints, **ENDPOINT_PRESETS}:
                yield self._unknown(path, fallback, {**endpoints, **ENDPOINT_PRESETS})
            circle = _circle(endpoints, name)
            if circle and not told.intersection(circle):
                told.update(circle)
                yield self.faults.at(path, f"leads back to itself: {' → '.join((*circle, name))}")

    def _unknown(self, path: KeyPath, name: object, known: Mapping[str, object]) -> Fault:
        return self.faults.at(path, f"is {shown_value(path, name)}, which does not exist{near_names(str(name), known)}")


def _tables_of(tables: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    group = tables.get(name)
    if not isinstance(group, Mapping):
        return []
    return [(key, table) for key, table in group.items() if isinstance(table, Mapping)]


def _qualities_of(table: Mapping[str, Any]) -> Iterator[KeyPath]:
    """Yield where a configuration's candidates, those of its classes included, state a quality of their own."""
    rules = [((), table), *((("classes", name), rule) for name, rule in _tables_of(table, "classes"))]
    for above, rule in rules:
        candidates = rule.get("candidates")
        for position, each in enumerate(candidates if isinstance(candidates, list) else ()):
            if isinstance(each, Mapping) and isinstance(quality := each.get("quality"), Mapping):
                yield from ((*above, "candidates", position, "quality", name) for name in quality)


def _circle(endpoints: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, ...]:
    """Return the endpoints on the way from one by its fallbacks back to itself, or nothing."""
    way = [name]
    while isinstance(after := endpoints.get(way[-1], {}).get("fallback"), str):
        if after == name:
            return tuple(way)
        if after in way:
            return ()
        way.append(after)
    return ()


def _preset_name(name: str, table: Mapping[str, Any]) -> str | None:
    preset = table.get("preset", name)
    return preset if isinstance(preset, str) and preset in ENDPOINT_PRESETS else None


def _over_preset(name: str, table: object) -> object:
    if not isinstance(table, Mapping):
        return table
    own = {key: _plain_floats(value) if key == "extra" else value for key, value in table.items() if key != "preset"}
    preset = _preset_name(name, table)
    if preset is None:
        # An unknown preset is a fault of its own: what it would have given is not missed as well.
        return {"kind": "litellm", **own} if "preset" in table else own
    return {**_as_set(ENDPOINT_PRESETS[preset]), **own}


def _as_set(endpoint: EndpointSettings) -> Tables:
    return {name: getattr(endpoint, name) for name in endpoint.model_fields_set}


def _with_policy(table: object) -> object:
    if not isinstance(table, Mapping):
        return table
    named = {"policy": "fixed"} if "orchestrator" in table or "worker" in table else {}
    return {**named, **_with_plain_extras(table)}


def _with_plain_extras(table: Mapping[str, Any]) -> Tables:
    """Return a configuration whose body fields, those of its classes included, are as JSON has them."""
    plain = {key: _plain_floats(value) if key.endswith("extra") else value for key, value in table.items()}
    if isinstance(classes := plain.get("classes"), Mapping):
        plain["classes"] = {
            name: _with_plain_extras(rule) if isinstance(rule, Mapping) else rule for name, rule in classes.items()
        }
    if isinstance(candidates := plain.get("candidates"), list):
        plain["candidates"] = [_with_plain_extras(each) if isinstance(each, Mapping) else each for each in candidates]
    return plain


def _plain_floats(value: object) -> object:
    if isinstance(value, Decimal):  # these go into a JSON body, where a number is a number
        return float(value)
    if isinstance(value, Mapping):
        return {key: _plain_floats(inner) for key, inner in value.items()}
    return [_plain_floats(inner) for inner in value] if isinstance(value, list) else value


def _without(tables: Mapping[str, Any], above: KeyPath, taken: Mapping[KeyPath, Fault]) -> Tables:
    kept = {key: value for key, value in tables.items() if (*above, key) not in taken}
    return {
        key: _without(value, (*above, key), taken) if isinstance(value, Mapping) else value
        for key, value in kept.items()
    }


def _in_file_order(faults: list[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0)))
