"""Read the bundled price files and the user's into a `Catalog`.

In: TOML files, and tables given inline. Out: a `Catalog`, or one `CatalogError` with every fault of every file.
Invariant: a file is used whole or not at all.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from pricing.catalog import Catalog, Ranked
from pricing.conflicts import find_conflicts
from pricing.errors import CatalogError, Fault
from pricing.price_file import CUSTOM, Known, ListInfo, ModelInfo, PlacedModel, PlacedRow, read_tables
from pricing.typed_table import Place

_HINT = "docs/prices.md describes the format of a price file"
_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_BUNDLED, _FILES, _INLINE = range(3)


def load_catalog(
    files: Sequence[Path] = (), inline: Mapping[str, Any] | None = None, inline_file: str = "router.toml"
) -> Catalog:
    """Return the bundled price lists with the user's laid over them.

    A row of a file outranks a bundled one of the same list, model, component and conditions while it is in force, and a
    row given inline outranks both. Two rows of the user's own files that overlap are a fault.

    Args:
        files: price files, and folders whose *.toml are read in the order of their names.
        inline: the tables of a price file that stand inside another file: `{"prices": [...], …}`.
        inline_file: that other file, for messages; its text is read, if it is there, to tell lines.

    Raises:
        CatalogError: a file is missing, is not TOML or has faults; carries all of them.
    """
    if not files and not inline:
        return _bundled_catalog()
    draft = _bundled().copy()
    for file in _expanded(files, draft.faults):
        _read(draft, file.name if file.is_absolute() else str(file), _text(file, draft.faults), _FILES)
    if inline:
        draft.add(_inline_place(inline_file), inline, _INLINE)
    return draft.catalog()


@cache
def _bundled_catalog() -> Catalog:
    return _bundled().catalog()


@cache
def _bundled() -> _Draft:
    draft = _Draft(lists={CUSTOM: ListInfo(CUSTOM, "vendor", "USD")})
    folder = package_files("pricing").joinpath("data")
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            _read(draft, file.name, file.read_text(encoding="utf-8"), _BUNDLED)
    return draft


@dataclass(slots=True)
class _Draft:
    """A catalogue in the making."""

    lists: dict[str, ListInfo] = field(default_factory=dict)
    models: dict[str, dict[str, ModelInfo]] = field(default_factory=dict)
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: list[Ranked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def copy(self) -> _Draft:
        """Return a draft that can be added to without changing this one."""
        models = {name: dict(found) for name, found in self.models.items()}
        names = {name: dict(found) for name, found in self.names.items()}
        return _Draft(dict(self.lists), models, names, list(self.rows), list(self.faults))

    def catalog(self) -> Catalog:
        """Return the finished catalogue, or raise every fault there is."""
        faults = [*self.faults, *find_conflicts(self.rows)]
        if faults:
            raise CatalogError(tuple(faults), hint=_HINT)
        return Catalog(self.lists, self.models, self.rows)

    def add(self, place: Place, tables: Mapping[str, Any], layer: int) -> None:
        """Add one file's content."""
        content, faults = read_tables(place, tables, self._known())
        self.faults += faults
        if content.own_list:
            self.lists[content.own_list.name] = content.own_list
        for model in content.models:
            self._add_model(model)
        for row in content.rows:
            self._add_row(row, layer, owns_list=content.own_list is not None)

    def _known(self) -> Known:
        homes: dict[str, str] = {}
        ids: dict[str, str] = {}
        for name, found in self.models.items():
            for model in found.values():
                for alias in (model.id, *model.aliases):
                    ids.setdefault(alias, model.id)
                    if self.lists[name].kind == "vendor":
                        homes.setdefault(alias, name)
        return Known(self.lists, homes, ids)

    def _add_model(self, placed: PlacedModel) -> None:
        models = self.models.setdefault(placed.price_list, {})
        names = self.names.setdefault(placed.price_list, {})
        info = placed.info
        for name in (info.id, *info.aliases):
            owner = names.setdefault(name, info.id)
            if owner != info.id:
                self.faults.append(placed.place.fault(f"{name!r} is already a name of {owner!r} in this list"))
        models[info.id] = _merged(models[info.id], info) if info.id in models else info

    def _add_row(self, placed: PlacedRow, layer: int, *, owns_list: bool) -> None:
        row = placed.row
        models = self.models.setdefault(row.price_list, {})
        if row.model not in models:
            elsewhere = {identity for found in self.models.values() for identity in found}
            if not owns_list and row.price_list != CUSTOM and row.model not in elsewhere:
                self.faults.append(_undeclared(placed, elsewhere))
                return
            models[row.model] = ModelInfo(row.model, row.model)
            self.names.setdefault(row.price_list, {}).setdefault(row.model, row.model)
        self.rows.append((layer, placed))


def _undeclared(placed: PlacedRow, names: Iterable[str]) -> Fault:
    near = difflib.get_close_matches(placed.row.model, names, n=2)
    said = f"did you mean {' or '.join(near)}? " if near else ""
    message = (
        f"model: {placed.row.model!r} is not in list {placed.row.price_list!r}; {said}"
        "A new one is declared by [[models]], or priced without `list`"
    )
    return replace(placed.place, path=placed.place.path[:-1]).fault(message, "model")


def _merged(before: ModelInfo, given: ModelInfo) -> ModelInfo:
    return ModelInfo(
        id=before.id,
        wire_id=given.wire_id if given.wire_id != given.id else before.wire_id,
        aliases=tuple(dict.fromkeys((*before.aliases, *given.aliases))),
        context_window_tokens=given.context_window_tokens or before.context_window_tokens,
        max_output_tokens=given.max_output_tokens or before.max_output_tokens,
        capabilities=given.capabilities or before.capabilities,
        announced_shutdown=given.announced_shutdown or before.announced_shutdown,
    )


def _read(draft: _Draft, name: str, text: str | None, layer: int) -> None:
    if text is None:
        return
    try:
        tables = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        message = f"not TOML: {_TOML_LINE.sub('', str(error))}"
        draft.faults.append(Fault(name, int(line.group(1)) if line else None, message))
        return
    draft.add(Place(name, text), tables, layer)


def _expanded(files: Sequence[Path], faults: list[Fault]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(file.glob("*.toml"))
        elif file.exists():
            yield file
        else:
            faults.append(Fault(str(file), None, "price file: does not exist; a TOML file or a folder is allowed"))


def _text(file: Path, faults: list[Fault]) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        faults.append(Fault(str(file), None, "price file: is not UTF-8 text"))
    except OSError as error:
        faults.append(Fault(str(file), None, f"price file: cannot be read: {error.strerror}"))
    return None


def _inline_place(name: str) -> Place:
    """Return where inline tables stand: under `prices`, or at the root where [[prices]] is an array."""
    file = Path(name)
    text = _text(file, []) if file.is_file() else None
    if text is None:
        return Place(name)
    try:
        stands_under = isinstance(tomllib.loads(text).get("prices"), dict)
    except tomllib.TOMLDecodeError:
        return Place(name)
    return Place(name, text, ("prices",) if stands_under else ())
