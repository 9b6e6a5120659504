"""Scenarios as they are written: TOML files, and the same texts from a command line.

In: tables, the catalogue and the names that exist. Out: a `Scenario`, or one `ScenarioError` with every fault: file,
line, value, what is allowed. Invariant: what is saved reads back as the same value; an unknown name is never passed on.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pricing.catalog import Catalog
from pricing.conditions import PLAIN_TIERS
from pricing.errors import Fault, ScenarioError, UnknownModel
from pricing.money import is_currency, plain
from pricing.price_file import GREATEST_AMOUNT, LEAST_AMOUNT
from pricing.prices import UNITS
from pricing.scenario import PriceChange, Scenario, Settlement
from pricing.typed_table import Place

_Value = TypeVar("_Value")
KEYS = ("price", "map", "volume", "cache_share", "batch_share", "tier", "discount", "settlement", "fx", "at")
"""The keys of a scenario file, which are the command line's options too."""
_NUMBER = r"(\d{1,12}(?:\.\d{1,40})?|\.\d{1,40})"
_CHANGE = re.compile(rf"(?:([+-]){_NUMBER}%|[x×]{_NUMBER}|{_NUMBER})", re.ASCII)
_SHARE = re.compile(rf"{_NUMBER}(%?)", re.ASCII)
_PAIR = re.compile(r"([A-Z]{3})/([A-Z]{3})")
_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
VENDOR_TIERS = ("flex", "priority", "scale")
"""OpenAI, API reference, `service_tier` (November 2026): tiers that exist, whether or not a list prices them."""
HINT = "docs/what-if.md describes what a scenario may hold"


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a scenario may use.

    Args:
        catalog: has models, lists and service tiers.
        endpoints: names of endpoints.
        models: further models, for instance of the ledger, that no list has.
    """

    catalog: Catalog
    endpoints: Sequence[str] = ()
    models: Sequence[str] = ()

    @property
    def sellers(self) -> tuple[str, ...]:
        """Everything that may have a discount or a settlement."""
        return tuple(dict.fromkeys((*self.endpoints, *self.catalog.lists)))

    @property
    def tiers(self) -> tuple[str, ...]:
        """Every service tier that a row is for or that a vendor's API names, and the names of the plain one."""
        named = {placed.row.conditions.service_tier for _, placed in self.catalog.placed_rows()}
        return tuple(sorted({*PLAIN_TIERS, *VENDOR_TIERS, *(tier for tier in named if tier is not None)}))

    def all_models(self) -> tuple[str, ...]:
        """Every model of every list, and the further ones."""
        listed = (model for name in self.catalog.lists for model in self.catalog.models(name))
        return tuple(dict.fromkeys((*listed, *self.models)))


def load_scenario(file: Path, known: Known) -> Scenario:
    """Return the scenario that a TOML file holds.

    Args:
        file: the file.
        known: the names that exist.

    Raises:
        ScenarioError: the file is missing, is not TOML, or has faults; carries all of them.
    """
    name = file.name if file.is_absolute() else str(file)
    try:
        text = file.read_text(encoding="utf-8")
        tables = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        message = f"not TOML: {_TOML_LINE.sub('', str(error))}"
        raise ScenarioError((Fault(name, int(line[1]) if line else None, message),), hint=HINT) from None
    except UnicodeDecodeError:
        raise ScenarioError((Fault(name, None, "scenario: is not UTF-8 text"),), hint=HINT) from None
    except OSError as error:
        message = f"scenario: cannot be read: {error.strerror}; a TOML file is allowed"
        raise ScenarioError((Fault(name, None, message),), hint=HINT) from None
    return _read(tables, known, lambda key, index, said: _in_file(Place(name, text), key, index, said))


def scenario_of_options(options: Mapping[str, Any], known: Known) -> Scenario:
    """Return the scenario that a command line's options make.

    Args:
        options: values by key of `KEYS`, as texts; None and empty ones are left out.
        known: the names that exist.

    Raises:
        ScenarioError: values are not allowed; carries all faults, each with its option in place of a file.
    """
    given = {key: value for key, value in options.items() if value not in (None, (), [])}
    return _read(given, known, lambda key, _, said: Fault(f"--{key.replace('_', '-')}", None, said))


def scenario_to_toml(scenario: Scenario) -> str:
    """Return a scenario as the text of a file that `load_scenario` reads back as the same value."""
    lists: Mapping[str, Iterable[str]] = {
        "price": (str(change) for change in scenario.price),
        "map": (f"{old}={new}" for old, new in scenario.model_map),
        "discount": (f"{name}={plain(share)}" for name, share in scenario.discount),
        "settlement": (f"{name}={settlement}" for name, settlement in scenario.settlement),
        "fx": (f"{base}/{quote}={plain(rate)}" for base, quote, rate in scenario.fx),
    }
    lines = ["# A scenario: what would have been. Format: docs/what-if.md."]
    for key, texts in lists.items():
        items = [f"  {_quoted(text)}," for text in texts]
        lines += [f"{key} = [", *items, "]"] if items else []
    if scenario.volume != 1:
        lines.append(f"volume = {_quoted(plain(scenario.volume))}")
    for key in ("cache_share", "batch_share"):
        share = getattr(scenario, key)
        lines += [] if share is None else [f"{key} = {_quoted(plain(share))}"]
    lines += [f"tier = {_quoted(scenario.tier)}"] if scenario.tier else []
    lines += [f"at = {scenario.at.astimezone(UTC).isoformat()}"] if scenario.at else []
    return "\n".join(lines) + "\n"


MakeFault = Callable[[str, int | None, str], Fault]


def _in_file(place: Place, key: str, index: int | None, said: str) -> Fault:
    path = (key,) if index is None else (key, index)
    return place.fault(f"{key}: {said}", *path)


def _read(tables: Mapping[str, Any], known: Known, fault: MakeFault) -> Scenario:
    reader = _Reader(tables, known, fault)
    scenario = reader.scenario()
    if reader.faults:
        raise ScenarioError(tuple(reader.faults), hint=HINT)
    return scenario


class _Wrong(Exception):
    """A value is not allowed; the text says what is."""


@dataclass(slots=True)
class _Reader:
    tables: Mapping[str, Any]
    known: Known
    fault: MakeFault
    faults: list[Fault] = field(default_factory=list)
    made: set[str] = field(default_factory=set)

    def scenario(self) -> Scenario:
        """Return the scenario; what is not allowed is in `faults`."""
        for key in self.tables:
            if key not in KEYS:
                self.faults.append(self.fault(key, None, f"this key is not known; {_allowed(key, KEYS)}"))
        prices = self._each("price", self._price)
        mapped = self._each("map", self._mapping)
        olds = [old for old, _ in mapped]
        for old in sorted({old for old in olds if olds.count(old) > 1}):
            self.faults.append(self.fault("map", None, f"{old!r} is mapped more than once; one model each is allowed"))
        return Scenario(
            price=prices,
            model_map=mapped,
            volume=self._one("volume", _factor) or Decimal(1),
            cache_share=self._one("cache_share", _share),
            batch_share=self._one("batch_share", _share),
            tier=self._one("tier", self._tier),
            discount=self._each("discount", self._discount),
            settlement=self._each("settlement", self._settlement),
            fx=self._each("fx", _rate),
            at=self._one("at", _instant),
        )

    def _one(self, key: str, read: Callable[[Any], _Value]) -> _Value | None:
        if key not in self.tables:
            return None
        try:
            return read(self.tables[key])
        except _Wrong as wrong:
            self.faults.append(self.fault(key, None, str(wrong)))
            return None

    def _each(self, key: str, read: Callable[[str, str], _Value]) -> tuple[_Value, ...]:
        found = self.tables.get(key, [])
        if not isinstance(found, list | tuple):
            self.faults.append(self.fault(key, None, f"{found!r:.60} is not allowed; a list of texts is"))
            return ()
        values = []
        for index, text in enumerate(found):
            try:
                values.append(read(*_parted(text)))
            except _Wrong as wrong:
                self.faults.append(self.fault(key, index, str(wrong)))
        return tuple(values)

    def _price(self, subject: str, text: str) -> PriceChange:
        subject, component = self._component(subject)
        name, at_sign, price_list = subject.rpartition("@")
        model, where = (name, price_list) if at_sign and name else (subject, None)
        if where is not None and where not in self.known.catalog.lists:
            raise _Wrong(f"price list {where!r} does not exist; {_allowed(where, self.known.catalog.lists)}")
        factor, amount = _change(text)
        if amount is not None and component is None:
            raise _Wrong(f"{text!r} is an amount, and no component is named; MODEL:COMPONENT={text} is allowed")
        currency = None
        if where is not None and amount is not None and not PriceChange(model).is_pattern:
            currency = self.known.catalog.list_info(where).currency
            self.made.add(model)
        return PriceChange(self._model(model, patterns=True), component, factor, amount, where, currency)

    def _component(self, subject: str) -> tuple[str, str | None]:
        """Return model and component; a model's own id may have a colon in it."""
        model, colon, component = subject.rpartition(":")
        if not colon or subject in self.known.all_models():
            return subject, None
        if component not in UNITS:
            raise _Wrong(f"component {component!r} does not exist; {_allowed(component, UNITS)}")
        return model, component

    def _model(self, name: str, *, patterns: bool = False) -> str:
        models = self.known.all_models()
        if name in self.made or name in self.known.models:
            return name
        pattern = PriceChange(name)
        if patterns and pattern.is_pattern:
            if not any(pattern.concerns(model, "") for model in models):
                raise _Wrong(f"no model fits {name!r}; models that exist: {', '.join(models[:20])}, …")
            return name
        try:
            return self.known.catalog.find(name)
        except UnknownModel as error:
            said = str(error).removeprefix("model: ")
            raise _Wrong(f"model {said}; {error.hint}") from None

    def _mapping(self, old: str, new: str) -> tuple[str, str]:
        return self._model(old), self._model(new)

    def _tier(self, value: Any) -> str:
        if value in self.known.tiers:
            return str(value)
        more = "; batch is given by batch_share" if value == "batch" else ""
        raise _Wrong(f"{value!r} is no service tier of any list; {_allowed(str(value), self.known.tiers)}{more}")

    def _seller(self, name: str) -> str:
        if name not in self.known.sellers:
            raise _Wrong(f"{name!r} is no endpoint and no price list; {_allowed(name, self.known.sellers)}")
        return name

    def _discount(self, name: str, text: str) -> tuple[str, Decimal]:
        return self._seller(name), _share(text)

    def _settlement(self, name: str, text: str) -> tuple[str, Settlement]:
        name = self._seller(name)
        if text in ("market", "none"):
            return name, Settlement()
        code, colon, number = text.partition(":")
        found = re.fullmatch(_NUMBER, number, re.ASCII)
        if not colon or found is None or not Decimal(number) or not is_currency(code):
            raise _Wrong(f"{text!r} is not allowed; market, none and CURRENCY:RATE are, for instance CNY:1")
        return name, Settlement(code, Decimal(number))


def _parted(text: object) -> tuple[str, str]:
    """Return what stands before and after the last equals sign."""
    subject, sign, value = text.rpartition("=") if isinstance(text, str) else ("", "", "")
    if not sign or not subject.strip() or not value.strip():
        raise _Wrong(f"{text!r:.60} is not allowed; a text NAME=VALUE is")
    return subject.strip(), value.strip()


def _change(text: str) -> tuple[Decimal | None, Decimal | None]:
    """Return factor and amount of a price change, one of them None."""
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise _Wrong(f"{text!r} is not allowed; +20%, -20%, x0.5 and an amount per Mtok as 1.80 are")
    sign, percent, factor, amount = found.groups()
    if amount is not None:
        number = Decimal(amount)
        if number and not LEAST_AMOUNT <= number <= GREATEST_AMOUNT:
            raise _Wrong(f"{text!r} looks like a price of another unit; 0 or {LEAST_AMOUNT} to {GREATEST_AMOUNT} is")
        return None, number
    if factor is not None:
        return Decimal(factor), None
    changed = 1 + Decimal(f"{sign}{percent}").scaleb(-2)
    if changed < 0:
        raise _Wrong(f"{text!r} is not allowed; at most -100% is")
    return changed, None


def _share(value: Any) -> Decimal:
    found = None if isinstance(value, bool) else _SHARE.fullmatch(str(value))
    share = None if found is None else Decimal(found[1]).scaleb(-2 if found[2] else 0)
    if share is None or share > 1:
        raise _Wrong(f"{str(value)[:60]!r} is not allowed; a share of 0 to 1 is, or 0% to 100%")
    return share


def _factor(value: Any) -> Decimal:
    found = None if isinstance(value, bool) else re.fullmatch(_NUMBER, str(value), re.ASCII)
    if found is None or not Decimal(found[1]):
        raise _Wrong(f"{str(value)[:60]!r} is not allowed; a factor above 0 is, for instance 1.5")
    return Decimal(found[1])


def _rate(pair: str, text: str) -> tuple[str, str, Decimal]:
    found = _PAIR.fullmatch(pair)
    if found is None or found[1] == found[2] or not (is_currency(found[1]) and is_currency(found[2])):
        raise _Wrong(f"{pair!r} is no pair of currencies; two ISO 4217 codes are allowed, for instance CNY/USD=0.14")
    return found[1], found[2], _factor(text)


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise _Wrong(f"{str(value)[:60]!r} is not allowed; a day (2026-12-01) or an instant with its zone is")


def _allowed(name: str, names: Iterable[str]) -> str:
    known = tuple(names)
    near = difflib.get_close_matches(name, known, n=2)
    said = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{said}allowed: {', '.join(known)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
