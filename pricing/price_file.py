"""A price file, read and checked whole.

In: the tables of a TOML price file (format: docs/prices.md). Out: `PriceFile`, and every fault with its line.
Invariant: nothing is guessed; a value that is not allowed is a fault, and a file with a fault gives no prices at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from pricing.conditions import read_conditions
from pricing.errors import Fault
from pricing.prices import UNITS, PriceRow
from pricing.typed_table import Place, TypedTable

ListKind = Literal["vendor", "relay"]

CUSTOM = "custom"
"""The list of models that no vendor's list has and no file gives a list to; in USD."""

LEAST_AMOUNT = Decimal("0.0001")
GREATEST_AMOUNT = Decimal(100_000)
"""A price outside these (0 is allowed) is taken for one of another unit: per token, per 1,000 tokens. The dearest list
price known is 600 USD per Mtok, the cheapest 0.0028."""

CAPABILITIES = ("tools", "json", "vision", "audio", "reasoning", "cache")
"""What a model may be said to be able to do."""

_META_KEYS = ("list", "kind", "currency", "prefixes")
_SOURCE_KEYS = ("name", "version", "released", "package")
_MODEL_KEYS = (
    "list",
    "id",
    "wire_id",
    "aliases",
    "context_window_tokens",
    "max_output_tokens",
    "capabilities",
    "announced_shutdown",
    "min_cacheable_tokens",
    "cache_ttl_s",
)
_PRICE_KEYS = (
    "list",
    "model",
    "currency",
    "effective_from",
    "effective_to",
    "when",
    "url",
    "source",
    "entry",
    "checked",
)


@dataclass(frozen=True, slots=True)
class ListInfo:
    """A price list.

    Args:
        name: its name.
        kind: "vendor" (sells its own models) or "relay" (resells others').
        currency: ISO 4217 code of every price in it.
        prefixes: what may stand before a model's id, as in "openai/gpt-4o".
    """

    name: str
    kind: ListKind
    currency: str
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model at one list.

    Args:
        id: our canonical id.
        wire_id: the id the seller's API knows it by.
        aliases: other names, the dated ids of the same weights at the same price among them.
        context_window_tokens: input and output it can hold, tokens; None: unknown.
        max_output_tokens: longest answer, tokens; None: unknown.
        capabilities: of `CAPABILITIES`.
        announced_shutdown: day the vendor has announced for its end; None: none known.
        min_cacheable_tokens: shortest prefix that its prompt cache keeps, tokens; None: not stated.
        cache_ttl_s: how long the cache keeps a prefix after its last use unless asked for longer, seconds; None: not
            stated, or no fixed time.
    """

    id: str
    wire_id: str
    aliases: tuple[str, ...] = ()
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None
    capabilities: tuple[str, ...] = ()
    announced_shutdown: date | None = None
    min_cacheable_tokens: int | None = None
    cache_ttl_s: int | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """The entry of an installed data set that a row was taken from, so that a check can compare them."""

    package: str
    version: str
    entry: str


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row, where it stands, and the data set's entry it cites, if any."""

    row: PriceRow
    place: Place
    citation: Citation | None = None


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model of a list, and where it is declared."""

    price_list: str
    info: ModelInfo
    place: Place


@dataclass(frozen=True, slots=True)
class PriceFile:
    """All of one file: the list it declares, if any, its models and prices, in file order."""

    own_list: ListInfo | None
    models: tuple[PlacedModel, ...]
    rows: tuple[PlacedRow, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier files declare.

    Args:
        lists: by name.
        homes: name of a model's vendor's list, by the model's canonical id and aliases.
        ids: canonical id by id and alias.
    """

    lists: Mapping[str, ListInfo] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


def read_tables(place: Place, tables: Mapping[str, Any], known: Known) -> tuple[PriceFile, tuple[Fault, ...]]:
    """Return the content of a price file, and every fault in it.

    Args:
        place: the file, its text if there is one, and where in it the tables stand.
        tables: what `tomllib` read, with decimals as `Decimal`.
        known: what earlier files declare.
    """
    faults: list[Fault] = []
    root = TypedTable(place, tables, faults)
    root.check_keys(("meta", "sources", "models", "prices"))
    own = _read_list(root.table("meta"), known.lists)
    reader = _Reader(own, known, root.table("sources").tables())
    models = [found for table in root.array("models") if (found := reader.model(table))]
    rows = [row for table in root.array("prices") for row in reader.block(table)]
    return PriceFile(own, tuple(models), tuple(rows)), tuple(faults)


def _read_list(table: TypedTable, known: Mapping[str, ListInfo]) -> ListInfo | None:
    if not table.values:
        return None
    table.check_keys(_META_KEYS)
    name, currency = table.text("list", needed=True), table.currency("currency", needed=True)
    kind = table.text("kind", needed=True)
    if kind not in (None, "vendor", "relay"):
        table.refuse("kind", kind, '"vendor" or "relay" is')
        return None
    if not (name and kind and currency):
        return None
    own = ListInfo(name, "relay" if kind == "relay" else "vendor", currency, table.texts("prefixes") or (name,))
    before = known.get(name)
    if before and (before.kind, before.currency) != (own.kind, own.currency):
        table.refuse("list", name, f"another name is, since this one is a {before.kind} list in {before.currency}")
    return own


@dataclass(frozen=True, slots=True)
class _Reader:
    own: ListInfo | None
    known: Known
    sources: Mapping[str, TypedTable]

    def model(self, table: TypedTable) -> PlacedModel | None:
        table.check_keys(_MODEL_KEYS)
        identity = table.text("id", needed=True)
        owner = self._list(table, identity)
        if identity is None or owner is None:
            return None
        for capability in table.texts("capabilities"):
            if capability not in CAPABILITIES:
                table.refuse("capabilities", capability, f"any of {', '.join(CAPABILITIES)} is")
        info = ModelInfo(
            id=identity,
            wire_id=table.text("wire_id") or identity,
            aliases=table.texts("aliases"),
            context_window_tokens=table.count("context_window_tokens"),
            max_output_tokens=table.count("max_output_tokens"),
            capabilities=table.texts("capabilities"),
            announced_shutdown=table.day("announced_shutdown"),
            min_cacheable_tokens=table.count("min_cacheable_tokens"),
            cache_ttl_s=table.count("cache_ttl_s"),
        )
        return PlacedModel(owner.name, info, table.place)

    def block(self, table: TypedTable) -> list[PlacedRow]:
        """Return the rows of one [[prices]] block, one for each component it prices; none if anything is wrong."""
        before = len(table.faults)
        table.check_keys((*_PRICE_KEYS, *UNITS))
        model = table.text("model", needed=True)
        owner = self._list(table, model)
        start, end = table.instant("effective_from"), table.instant("effective_to")
        if start and end and start >= end:
            table.refuse("effective_to", str(end), f"an instant after effective_from, {start}, is")
        url, source, checked, citation = self._source(table)
        conditions = read_conditions(table.table("when"))
        amounts = {name: _amount(table, name) for name in UNITS if name in table.values}
        if not amounts:
            table.fault(f"prices: none is given; at least one of {', '.join(UNITS)} is needed")
        currency = table.currency("currency") or (owner.currency if owner else None)
        if owner and currency != owner.currency:
            table.refuse(
                "currency", currency, f"{owner.currency} is, in list {owner.name!r}; give others a list of their own"
            )
        if len(table.faults) > before or owner is None or model is None or checked is None:
            return []
        model = self.known.ids.get(model, model)
        return [
            PlacedRow(
                PriceRow(owner.name, model, name, owner.currency, amount, url, source, checked, start, end, conditions),
                table.place.inside(name),
                citation,
            )
            for name, amount in amounts.items()
            if amount is not None
        ]

    def _list(self, table: TypedTable, model: str | None) -> ListInfo | None:
        """Return the list a table is about: the one it names, the file's, the model's vendor's, else "custom"."""
        lists = {**self.known.lists, **({self.own.name: self.own} if self.own else {})}
        name = table.text("list")
        if name is None:
            return self.own or lists.get(self.known.homes.get(model or "", CUSTOM))
        if name not in lists:
            table.refuse("list", name, f"{', '.join(sorted(lists))} or a list that [meta] declares is")
        return lists.get(name)

    def _source(self, table: TypedTable) -> tuple[str, str, date | None, Citation | None]:
        """Return a block's page, who says so, the day that was read, and the data set's entry."""
        url, said, checked = table.text("url") or "", table.text("source", needed=True), table.day("checked")
        cited = self.sources.get(said or "")
        if cited is None:
            if said is not None and "checked" not in table.values:
                table.fault(
                    "checked: missing; the day the source was read is needed, for instance checked = 2026-11-30"
                )
            return url, said or "", checked, None
        cited.check_keys(_SOURCE_KEYS)
        name, version = cited.text("name", needed=True), cited.text("version")
        released = cited.day("released", needed=True)
        package, entry = cited.text("package"), table.text("entry")
        if package and not (version and entry):
            table.fault(f"entry: missing; {said!r} is a package, so the entry in its data is needed, and its version")
        whole = ", ".join(
            part
            for part in (f"{name} {version or ''}".strip(), f"released {released}", entry and f"entry {entry}")
            if part
        )
        citation = Citation(package, version or "", entry or "") if package else None
        return url, whole, checked or released, citation


def _amount(table: TypedTable, key: str) -> Decimal | None:
    amount = table.decimal(key)
    if amount and not LEAST_AMOUNT <= amount <= GREATEST_AMOUNT:
        allowed = f"0 or {LEAST_AMOUNT} to {GREATEST_AMOUNT} {UNITS[key]} is"
        table.refuse(key, str(amount), allowed, "; this looks like a price of another unit")
        return None
    return amount
