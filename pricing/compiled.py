"""A checked catalogue as one text that is quick to read: an index, then one line for each model of each list.

In: lists, models and rows that were read from files without a fault. Out: that text, and from it the same lists, models
and rows. Invariant: a model's line is read when it is first asked for, so a large catalogue costs only what is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Generic, TypeVar

from pricing.catalog import Ranked, Rows
from pricing.conditions import conditions_from_json
from pricing.price_file import Citation, ListInfo, ModelInfo, PlacedRow
from pricing.prices import PriceRow
from pricing.typed_table import Place

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A checked catalogue, in parts.

    Args:
        lists: by name.
        models: by list name, then by canonical id.
        rows: by list name, then by canonical id.
        names: by list name: the canonical ids by alias and by the seller's own id.
        checked: the newest day on which a row's source was read; None: there is no row.
    """

    lists: Mapping[str, ListInfo]
    models: Mapping[str, Mapping[str, ModelInfo]]
    rows: Rows
    names: Mapping[str, Mapping[str, Sequence[str]]]
    checked: date | None


def to_text(compiled: Compiled, texts: Sequence[str]) -> str:
    """Return a catalogue as text.

    Args:
        compiled: the catalogue.
        texts: the files that its rows stand in.
    """
    file_of = {id(text): index for index, text in reversed(list(enumerate(texts)))}
    index = {
        "lists": [_plain(info) for info in compiled.lists.values()],
        "models": {name: list(found) for name, found in compiled.models.items()},
        "names": {name: dict(found) for name, found in compiled.names.items()},
        "checked": compiled.checked and compiled.checked.isoformat(),
    }
    lines = [
        [_plain(info), _blocks(compiled.rows.get(name, {}).get(model, ()), file_of)]
        for name, found in compiled.models.items()
        for model, info in found.items()
    ]
    return "\n".join(json.dumps(line, separators=(",", ":")) for line in (index, *lines))


def from_text(text: str, texts: Sequence[str]) -> Compiled:
    """Return the catalogue that `to_text` wrote.

    Args:
        text: its result.
        texts: the files that it was made from, unchanged.
    """
    first, *lines = text.split("\n")
    index = json.loads(first)
    lists = {info.name: info for info in (ListInfo(*_frozen(each)) for each in index["lists"])}
    found = {name: _Lines(name, models, lists[name].currency, texts) for name, models in _cut(index["models"], lines)}
    models = {name: Lazy(each.line_of, each.model) for name, each in found.items()}
    rows = {name: Lazy(each.line_of, each.rows) for name, each in found.items()}
    checked = date.fromisoformat(index["checked"]) if index["checked"] else None
    return Compiled(lists, models, rows, index["names"], checked)


def _cut(models: Mapping[str, Sequence[str]], lines: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each list's name and its lines by model."""
    rest = iter(lines)
    for name, found in models.items():
        yield name, dict(zip(found, rest))  # noqa: B905 - the next list goes on where this one ends


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of one list; each is read once."""

    name: str
    line_of: Mapping[str, str]
    currency: str
    texts: Sequence[str]
    _read: dict[str, tuple[ModelInfo, list[Ranked]]] = field(default_factory=dict)

    def model(self, identity: str) -> ModelInfo:
        return self._line(identity)[0]

    def rows(self, identity: str) -> list[Ranked]:
        return self._line(identity)[1]

    def _line(self, identity: str) -> tuple[ModelInfo, list[Ranked]]:
        if identity not in self._read:
            info, blocks = json.loads(self.line_of[identity])
            rows = list(_rows(blocks, (self.name, identity), self.currency, self.texts))
            self._read[identity] = (ModelInfo(*_frozen(info)), rows)
        return self._read[identity]


class Lazy(Mapping[Any, Value], Generic[Value]):
    """A mapping that makes a value when it is asked for.

    Args:
        keys: its keys, in order.
        make: returns the value of a key.
    """

    def __init__(self, keys: Mapping[Any, object], make: Callable[[Any], Value]) -> None:
        self._keys = keys
        self._make = make

    def __getitem__(self, key: Any) -> Value:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _plain(value: Any) -> list[Any]:
    """Return a flat dataclass as values of JSON, in the order of its fields."""
    found = (getattr(value, each.name) for each in fields(value))
    return [{"day": each.isoformat()} if isinstance(each, date) else each for each in found]


def _frozen(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, list):
            yield tuple(each)
        elif isinstance(each, dict):
            yield date.fromisoformat(each["day"])
        else:
            yield each


def _blocks(rows: Iterable[Ranked], file_of: Mapping[int, int]) -> list[list[Any]]:
    """Return rows as blocks: what rows of one block of a file share is written once."""
    return [
        [json.loads(shared), [[placed.place.path, placed.row.component, str(placed.row.amount)] for _, placed in found]]
        for shared, found in groupby(rows, lambda ranked: json.dumps(_shared(ranked, file_of)))
    ]


def _shared(ranked: Ranked, file_of: Mapping[int, int]) -> list[Any]:
    layer, placed = ranked
    row = placed.row
    start, end = (None if edge is None else edge.isoformat() for edge in (row.effective_from, row.effective_to))
    citation = None if placed.citation is None else _plain(placed.citation)
    told = [row.url, row.source, row.checked.isoformat(), start, end, row.conditions.to_json()]
    return [layer, placed.place.file, file_of[id(placed.place.text)], citation, *told]


def _rows(blocks: Iterable[list[Any]], key: tuple[str, str], currency: str, texts: Sequence[str]) -> Iterator[Ranked]:
    for shared, rows in blocks:
        layer, file, text, cited, url, source, checked, start, end, conditions = shared
        citation = None if cited is None else Citation(*cited)
        when = conditions_from_json(conditions)
        first, last = (None if edge is None else datetime.fromisoformat(edge) for edge in (start, end))
        for path, component, amount in rows:
            row = PriceRow(
                *key, component, currency, Decimal(amount), url, source, date.fromisoformat(checked), first, last, when
            )
            yield layer, PlacedRow(row, Place(file, texts[text], tuple(path)), citation)
