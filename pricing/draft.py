"""A catalogue in the making: files laid one over the other, with every fault that is found.

In: the tables of price files, in the order in which they outrank each other. Out: `Compiled`, or one `CatalogError`
with every fault. Invariant: a finished catalogue is never changed; what is added to it makes a new one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pricing.catalog import Ranked, Rows, model_names
from pricing.compiled import Compiled, Lazy
from pricing.conflicts import find_conflicts
from pricing.errors import CatalogError, Fault
from pricing.price_file import CUSTOM, Known, ListInfo, ModelInfo, PlacedModel, PlacedRow, read_tables
from pricing.typed_table import Place

NOTHING = Compiled({CUSTOM: ListInfo(CUSTOM, "vendor", "USD")}, {}, {}, {}, None)
"""What every catalogue starts from."""

_HINT = "docs/prices.md describes the format of a price file"


@dataclass(slots=True)
class Draft:
    """A catalogue that can be added to. Made by `draft_on`."""

    base: Compiled
    lists: dict[str, ListInfo]
    models: dict[str, dict[str, ModelInfo]]
    names: dict[str, dict[str, str]]
    faults: list[Fault]
    rows: dict[str, dict[str, list[Ranked]]] = field(default_factory=dict)

    def finished(self) -> Compiled:
        """Return the catalogue, or raise every fault there is."""
        rows = {
            name: {model: [*self.base.rows.get(name, {}).get(model, ()), *added] for model, added in found.items()}
            for name, found in self.rows.items()
        }
        # Rows of the base that nothing was added to have been compared when it was finished.
        conflicts = find_conflicts(_each(rows))
        faults = (*self.faults, *conflicts)
        if faults:
            raise CatalogError(faults, hint=_HINT)
        days = [placed.row.checked for _, placed in _each(self.rows)]
        return Compiled(
            lists=self.lists,
            models=self.models,
            rows={name: _laid_over(self.base.rows.get(name, {}), rows.get(name, {})) for name in self.lists},
            names={name: model_names(self.models.get(name, {})) for name in self.lists},
            checked=max([*days, *([self.base.checked] if self.base.checked else [])], default=None),
        )

    def add(self, place: Place, tables: Mapping[str, Any], layer: int) -> None:
        """Add one file's content.

        Args:
            place: the file, and where in it the tables stand.
            tables: what `tomllib` read, with decimals as `Decimal`.
            layer: rows of a higher one outrank those of a lower one.
        """
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
            may_be_new = owns_list or row.price_list == CUSTOM
            if not may_be_new and not any(row.model in found for found in self.models.values()):
                self.faults.append(_undeclared(placed, {name for found in self.models.values() for name in found}))
                return
            models[row.model] = ModelInfo(row.model, row.model)
            self.names.setdefault(row.price_list, {}).setdefault(row.model, row.model)
        self.rows.setdefault(row.price_list, {}).setdefault(row.model, []).append((layer, placed))


def draft_on(base: Compiled, faults: Iterable[Fault] = ()) -> Draft:
    """Return a draft that starts as a finished catalogue.

    Args:
        base: the catalogue.
        faults: what is wrong already.
    """
    models = {name: dict(found) for name, found in base.models.items()}
    names: dict[str, dict[str, str]] = {name: {} for name in models}
    for name, found in models.items():
        for info in found.values():
            for alias in (info.id, *info.aliases):
                names[name].setdefault(alias, info.id)
    return Draft(base, dict(base.lists), models, names, list(faults))


def _each(rows: Rows) -> Iterator[Ranked]:
    for found in rows.values():
        for ranked in found.values():
            yield from ranked


def _laid_over(
    base: Mapping[str, Sequence[Ranked]], rows: Mapping[str, Sequence[Ranked]]
) -> Mapping[str, Sequence[Ranked]]:
    return Lazy(dict.fromkeys((*base, *rows)), lambda model: rows[model] if model in rows else base[model])


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
        min_cacheable_tokens=given.min_cacheable_tokens or before.min_cacheable_tokens,
        cache_ttl_s=given.cache_ttl_s or before.cache_ttl_s,
    )
