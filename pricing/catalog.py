"""Price lists: which models each has, what a model is, and what it costs at an instant.

In: lists, models and rows of price files. Out: `Catalog`. Invariant: a name resolves by exact id, alias, the
seller's own id, one of these after the seller's prefix, or one of all these with a day behind it; anything else is an
error with near misses, never a neighbour. A user's row outranks the bundled one of the same list, model, component and
conditions while in force.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from pricing.errors import PricingError, UnknownModel
from pricing.price_file import ListInfo, ModelInfo, PlacedRow
from pricing.prices import PriceRow, PriceSet

VENDOR = "vendor"
"""Stands for each model's own vendor's list, wherever a list is named."""

Ranked = tuple[int, PlacedRow]
Rows = Mapping[str, Mapping[str, Sequence[Ranked]]]
"""Rows by list name, then by canonical id."""

_MOMENT = timedelta(microseconds=1)
_SHOWN_NAMES = 20
_DAY_BEHIND = re.compile(r"-20\d\d(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])$")
"""The day of a snapshot behind a model's id: gpt-4.1-2025-04-14, claude-haiku-4-5-20251001."""


class Catalog:
    """Every price list. Made by `load_catalog`.

    Args:
        lists: by name, in the order they were read.
        models: by list name, then by canonical id.
        rows: (layer, row) by list name, then by canonical id; a higher layer outranks a lower one.
        names: what `model_names` returns for each list; None: it is asked.
        checked: the newest day on which a row's source was read; None: the rows are asked.
    """

    def __init__(
        self,
        lists: Mapping[str, ListInfo],
        models: Mapping[str, Mapping[str, ModelInfo]],
        rows: Rows,
        names: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        checked: date | None = None,
    ) -> None:
        self._lists = dict(lists)
        self._models = {name: models.get(name, {}) for name in lists}
        self._names = {name: model_names(found) for name, found in self._models.items()} if names is None else names
        self._checked = checked
        self._rows = rows
        self._edges: dict[tuple[str, str], list[datetime]] = {}
        self._sets: dict[tuple[str, str, int, bool], PriceSet | None] = {}
        self._resolved: dict[tuple[str, str], str] = {}
        self._infos: dict[tuple[str, str], ModelInfo] = {}

    @property
    def lists(self) -> tuple[str, ...]:
        """Names of the price lists, without "vendor", which stands for several."""
        return tuple(self._lists)

    @property
    def checked(self) -> date:
        """The newest day on which a row's source was read."""
        if self._checked is None:
            self._checked = max(placed.row.checked for _, placed in self.placed_rows())
        return self._checked

    @property
    def digest(self) -> str:
        """A hash of every price and every name: equal digests price every call alike."""
        rows = sorted(f"{layer} {placed.row.id} {placed.row.effective_to}" for layer, placed in self.placed_rows())
        names = [f"{price_list} {dict(self._models[price_list])}" for price_list in self._lists]
        return hashlib.sha256("\n".join([*rows, *names]).encode()).hexdigest()[:24]

    def list_info(self, price_list: str) -> ListInfo:
        """Return a list's kind, currency and prefixes.

        Args:
            price_list: a list's name.

        Raises:
            PricingError: there is no such list.
        """
        self._check_list(price_list)
        return self._lists[price_list]

    def resolve(self, model: str, price_list: str = VENDOR) -> str:
        """Return the canonical id of a model at a list.

        Args:
            model: exact id, alias or the seller's own id, with or without the seller's prefix ("openai/gpt-4o"); a day
                behind it ("gpt-4.1-2025-04-14") is left out where no list has the name with it.
            price_list: a list's name, or "vendor": the vendors' lists together.

        Raises:
            UnknownModel: the list has no such name, or it means several models; carries near misses.
            PricingError: there is no such list.
        """
        if (model, price_list) in self._resolved:
            return self._resolved[model, price_list]
        lists = self._searched(price_list)
        found = self._matches(model, lists)
        if len(found) == 1:
            return self._resolved.setdefault((model, price_list), found[0])
        if found:
            message = f"model: {model!r} means several in price list {price_list!r}: {', '.join(found)}"
            raise UnknownModel(message, near=found, hint="use the exact id")
        raise self._unknown(model, price_list, lists)

    def find(self, model: str) -> str:
        """Return the canonical id of a model at whatever list has it, vendors' lists first.

        Args:
            model: as for `resolve`.

        Raises:
            UnknownModel: no list has such a name, or it means several models; carries near misses.
        """
        found = self._matches(model, self._searched(VENDOR)) or self._matches(model, self.lists)
        if len(found) == 1:
            return found[0]
        if found:
            message = f"model: {model!r} means several: {', '.join(found)}"
            raise UnknownModel(message, near=found, hint="use the exact id")
        raise self._unknown(model, None, self.lists)

    def vendor_list(self, model: str) -> str:
        """Return the name of the list of the model's own vendor.

        Args:
            model: as for `resolve`.

        Raises:
            UnknownModel: no vendor's list has it.
        """
        identity = self.resolve(model, VENDOR)
        return next(name for name in self._searched(VENDOR) if identity in self._models[name])

    def info(self, model: str, price_list: str = VENDOR) -> ModelInfo:
        """Return what is known of a model at a list; what a relay does not say is as at the vendor, but for `wire_id`.

        Args:
            model: as for `resolve`.
            price_list: a list's name, or "vendor".

        Raises:
            UnknownModel: the list has no such model.
            PricingError: there is no such list.
        """
        identity = self.resolve(model, price_list)
        found = self._infos.get((identity, price_list))
        if found is None:
            own = self._models[self._home(identity, price_list)][identity]
            sellers = [self._models[name] for name in self._searched(VENDOR) if identity in self._models[name]]
            found = self._infos[identity, price_list] = _filled(own, sellers[0][identity]) if sellers else own
        return found

    def models(self, price_list: str = VENDOR) -> tuple[str, ...]:
        """Return the canonical ids of a list, retired models too, in the order they were read.

        Args:
            price_list: a list's name, or "vendor": the vendors' lists together.

        Raises:
            PricingError: there is no such list.
        """
        return tuple(dict.fromkeys(model for name in self._searched(price_list) for model in self._models[name]))

    def sells(self, model: str, price_list: str) -> bool:
        """Return whether a list has a model, by its canonical id; a list that does not exist has none.

        Args:
            model: a canonical id.
            price_list: a list's name.
        """
        return price_list in self._lists and model in self._models[price_list]

    def price_set(self, model: str, price_list: str, at: datetime, *, last_list: bool = False) -> PriceSet | None:
        """Return every row in force for a model at an instant.

        Args:
            model: as for `resolve`.
            price_list: a list's name, or "vendor": the model's vendor's.
            at: aware instant.
            last_list: where the model has left the list by then, return its last rows, with `retired_at` set.

        Returns:
            The set; None where no row is in force at the instant (and none was before, with `last_list`).

        Raises:
            UnknownModel: the list has no such model.
            PricingError: there is no such list, or the instant has no zone.
        """
        if at.tzinfo is None:
            message = f"at: {at} has no zone; an aware instant is allowed"
            raise PricingError(message, hint="for instance datetime(2026, 10, 1, tzinfo=UTC)")
        identity = self.resolve(model, price_list)
        home = self._home(identity, price_list)
        key = (home, identity, bisect_right(self._edges_of(home, identity), at), last_list)
        if key not in self._sets:
            self._sets[key] = self._priced(home, identity, at, last_list=last_list)
        return self._sets[key]

    def next_change(self, model: str, price_list: str, at: datetime) -> datetime | None:
        """Return the first instant after one at which other rows are in force for a model; None: there is none.

        Args:
            model: as for `resolve`.
            price_list: a list's name, or "vendor": the model's vendor's.
            at: aware instant.

        Raises:
            UnknownModel: the list has no such model.
            PricingError: there is no such list.
        """
        identity = self.resolve(model, price_list)
        edges = self._edges_of(self._home(identity, price_list), identity)
        later = bisect_right(edges, at)
        return edges[later] if later < len(edges) else None

    def history(self, model: str, price_list: str = VENDOR) -> tuple[PriceRow, ...]:
        """Return every row a model ever had at a list, outranked ones too, in the order they were read.

        Args:
            model: as for `resolve`.
            price_list: a list's name, or "vendor".

        Raises:
            UnknownModel: the list has no such model.
            PricingError: there is no such list.
        """
        identity = self.resolve(model, price_list)
        return tuple(placed.row for _, placed in self._ranked(self._home(identity, price_list), identity))

    def placed_rows(self) -> Iterator[Ranked]:
        """Yield every (layer, row) with its place in its file and the data set's entry it cites."""
        for price_list, models in self._models.items():
            for model in models:
                yield from self._ranked(price_list, model)

    def _ranked(self, price_list: str, identity: str) -> Sequence[Ranked]:
        return self._rows.get(price_list, {}).get(identity, ())

    def _edges_of(self, price_list: str, identity: str) -> list[datetime]:
        key = (price_list, identity)
        if key not in self._edges:
            self._edges[key] = _changes(self._ranked(price_list, identity))
        return self._edges[key]

    def _priced(self, home: str, identity: str, at: datetime, *, last_list: bool) -> PriceSet | None:
        rows = self._ranked(home, identity)
        in_force = _outranking(rows, at)
        retired_at = None
        ends = [end for _, placed in rows if (end := placed.row.effective_to) is not None and end <= at]
        if not in_force and last_list and ends:
            retired_at = max(ends)
            in_force = _outranking(rows, retired_at - _MOMENT)
        if not in_force:
            return None
        return PriceSet(home, identity, self._lists[home].currency, in_force, retired_at)

    def _check_list(self, price_list: str) -> None:
        if price_list not in self._lists:
            near = difflib.get_close_matches(price_list, self.lists, n=1)
            said = f"; did you mean {near[0]!r}?" if near else ""
            message = f"price list: {price_list!r} does not exist{said}"
            raise PricingError(message, hint=f'price lists that exist: {", ".join(self.lists)}, and "{VENDOR}"')

    def _searched(self, price_list: str) -> tuple[str, ...]:
        if price_list == VENDOR:
            return tuple(name for name, found in self._lists.items() if found.kind == "vendor")
        self._check_list(price_list)
        return (price_list,)

    def _home(self, identity: str, price_list: str) -> str:
        return next(name for name in self._searched(price_list) if identity in self._models[name])

    def _matches(self, model: str, lists: Iterable[str]) -> tuple[str, ...]:
        """Return the canonical ids that a name means, the best kind of match only."""
        searched = tuple(lists)
        found = self._stated(model, searched)
        undated = _DAY_BEHIND.sub("", model)
        if found or undated == model or self._stated(model, self.lists):
            return found
        return self._stated(undated, searched)

    def _stated(self, model: str, searched: Sequence[str]) -> tuple[str, ...]:
        """Return the canonical ids that the lists state a name for: exact ids, else aliases, else behind a prefix."""
        if any(model in self._models[name] for name in searched):
            return (model,)
        prefix, _, rest = model.partition("/")
        found = [identity for name in searched for identity in self._named(name, model)]
        if not found and rest:
            found = [
                identity
                for name in searched
                for identity in ((rest,) if rest in self._models[name] else self._named(name, rest))
                if prefix in self._prefixes(name, identity)
            ]
        return tuple(dict.fromkeys(found))

    def _named(self, price_list: str, name: str) -> tuple[str, ...]:
        """Return the models of a list with this alias: the list's own, else the vendor's for a model that it has."""
        own = self._names[price_list].get(name, ())
        if own:
            return tuple(own)
        return tuple(
            identity
            for vendor in self._searched(VENDOR)
            for identity in self._names[vendor].get(name, ())
            if identity in self._models[price_list] and name in self._vendor_aliases(vendor, identity)
        )

    def _vendor_aliases(self, vendor: str, identity: str) -> tuple[str, ...]:
        info = self._models[vendor].get(identity)
        return info.aliases if info else ()

    def _prefixes(self, price_list: str, identity: str) -> tuple[str, ...]:
        vendors = [name for name in self._searched(VENDOR) if identity in self._models[name]]
        return tuple(prefix for name in (price_list, *vendors[:1]) for prefix in self._lists[name].prefixes)

    def _unknown(self, model: str, price_list: str | None, lists: Iterable[str]) -> UnknownModel:
        searched = tuple(lists)
        names = sorted({name for found in searched for name in (*self._models[found], *self._names[found])})
        near = tuple(difflib.get_close_matches(model.rpartition("/")[2], names, n=3, cutoff=0.6))
        where = "" if price_list is None else f" in price list {price_list!r}"
        message = f"model: {model!r} does not exist{where}"
        if near:
            message += f"; did you mean {', '.join(near)}?"
        known = sorted({identity for found in searched for identity in self._models[found]})
        more = ", …" if len(known) > _SHOWN_NAMES else ""
        return UnknownModel(message, near, hint=f"models that exist: {', '.join(known[:_SHOWN_NAMES])}{more}")


def model_names(models: Mapping[str, ModelInfo]) -> dict[str, tuple[str, ...]]:
    """Return the canonical ids by alias and by the seller's own id.

    Args:
        models: the models of one list.
    """
    found: dict[str, tuple[str, ...]] = {}
    for model in models.values():
        for name in (*model.aliases, model.wire_id):
            if name != model.id and model.id not in found.get(name, ()):
                found[name] = (*found.get(name, ()), model.id)
    return found


def _filled(own: ModelInfo, vendor: ModelInfo) -> ModelInfo:
    if own is vendor:
        return own
    return replace(
        own,
        aliases=tuple(dict.fromkeys((*own.aliases, *vendor.aliases))),
        context_window_tokens=own.context_window_tokens or vendor.context_window_tokens,
        max_output_tokens=own.max_output_tokens or vendor.max_output_tokens,
        capabilities=own.capabilities or vendor.capabilities,
        announced_shutdown=own.announced_shutdown or vendor.announced_shutdown,
    )


def _changes(rows: Iterable[Ranked]) -> list[datetime]:
    """Return the instants at which the rows in force change, sorted."""
    edges = (edge for _, placed in rows for edge in (placed.row.effective_from, placed.row.effective_to))
    return sorted({edge for edge in edges if edge is not None})


def _outranking(rows: Iterable[Ranked], at: datetime) -> tuple[PriceRow, ...]:
    """Return the rows in force, of equal conditions only that of the highest layer, in a stable order."""
    best: dict[tuple[str, str], Ranked] = {}
    for layer, placed in rows:
        key = (placed.row.component, str(placed.row.conditions.to_json()))
        if placed.row.in_force(at) and (key not in best or layer > best[key][0]):
            best[key] = (layer, placed)
    return tuple(best[key][1].row for key in sorted(best))
