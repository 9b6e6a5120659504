"""Priced requests as columns of `attempts`, those alone that hold anything.

In: `PricedRequests`, the import, what is stated for all. Out: columns by name. Invariant: a row is what
`router.ledger.rows` would make of the same attempt; a column that is empty in every row is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pricing.bulk import STATUSES
from pricing.conditions import CONTEXT_THRESHOLDS
from pricing.money import join_amount, split_amount
from pricing.terms import settle
from pricing.usage import BUCKETS
from router.ledger.bulk_insert import Column, Same
from router.ledger.importers.booking import Booking, Sellers
from router.ledger.importers.priced import INPUT_COLUMNS, PricedRequests
from router.ledger.keys import DayNames
from router.ledger.latency import BOUNDS_US
from router.ledger.rows import DAY_US, QUARTER_HOUR_US, storable_text, tags_id

_UNKNOWN = STATUSES.index("unknown")
_THRESHOLDS = np.array(CONTEXT_THRESHOLDS, np.int64)
_LATENCY_BOUNDS = np.array(BOUNDS_US, np.int64)

Columns = dict[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of `attempts`.

    Args:
        ids: theirs, in the order of the requests.
        columns: as `router.ledger.bulk_insert.insert_columns` takes them.
        requests: what they were made of.
    """

    ids: Sequence[str]
    columns: Mapping[str, Column]
    requests: PricedRequests


class Naming:
    """Gives records their ids.

    Args:
        source: the format's name.
        endpoint: what the records are booked under; two accounts are two.
        import_id: of the file, for records that have no name of their own.
    """

    def __init__(self, source: str, endpoint: str, import_id: str) -> None:
        self._own = DayNames("record", source, endpoint)
        self._placed = DayNames("line", import_id)

    def ids(self, days: Sequence[int], names: Sequence[str | None], lines: Sequence[int]) -> list[str]:
        """Return ids of records: of each one's own name, or else of its file and line.

        Args:
            days: the UTC days they are of, since 1970.
            names: what they are called, None: they have no name of their own.
            lines: where they stand.
        """
        if None not in names:
            return self._own.ids(days, names)  # type: ignore[arg-type]
        if names.count(None) == len(names):
            return self._placed.ids(days, list(map(str, lines)))
        own, placed = self._own.id, self._placed.id
        return [
            placed(day, str(line)) if name is None else own(day, name)
            for day, name, line in zip(days, names, lines, strict=True)
        ]


class RowMaker:
    """Makes rows of one import.

    Args:
        import_id: the row of `imports`.
        booking: what is stated for all.
        naming: gives ids.
        sellers: finds our ids of the models that were asked for.
    """

    def __init__(self, import_id: str, booking: Booking, naming: Naming, sellers: Sellers) -> None:
        self._import_id, self._booking, self._naming, self._sellers = import_id, booking, naming, sellers
        self._tags: dict[Any, str | None] = {(): None}

    def rows(self, found: PricedRequests) -> Rows:
        """Return rows of requests.

        Args:
            found: the requests.
        """
        days = (found.at_us // DAY_US).tolist()
        ids = self._naming.ids(days, found.columns["identity"], found.columns["line"])
        columns: Columns = {
            "attempt_id": ids,
            "call_key": [f"import:{each}" for each in ids],
            **_constants(self._import_id, self._booking.endpoint),
            "started_us": found.at_us.tolist(),
            "day": days,
            "quarter_hour": (found.at_us // QUARTER_HOUR_US).tolist(),
            **self._sold(found),
            **self._told(found.columns),
            **_used(found),
            "possibly_billed": _possibly_billed(found),
            **_costs(found, self._booking),
        }
        return Rows(ids, columns, found)

    def _sold(self, found: PricedRequests) -> Columns:
        """Return the columns that hold for a group: who sold it and at which prices."""
        group = found.group.tolist()
        served = [each.seller.model for each in found.groups]
        lists = [each.seller.price_list for each in found.groups]
        sets = [None if each.prices is None else each.prices.id for each in found.groups]
        models = [served[index] for index in group]
        asked = models
        if _has(found.columns["model_asked"]):
            told = zip(found.columns["model_asked"], found.columns["provider"], models, strict=True)
            asked = [self._sellers.of(name, provider).model if name else model for name, provider, model in told]
        columns: Columns = {
            "price_list": [lists[index] for index in group],
            "model_asked": asked,
            "model_served": models,
        }
        if any(sets):
            columns["price_set_id"] = [sets[index] for index in group]
        return columns

    def _told(self, told: Mapping[str, Sequence[Any]]) -> Columns:
        """Return the columns that records may or may not have."""
        made: dict[str, Any] = {
            "status": told["status"],
            "usage_estimated": told["estimated"],
            "tags_id": [self._tags_id(tags) for tags in told["tags"]] if any(told["tags"]) else (),
            **{name: told[name] for name in ("error_kind", "http_status", "latency_us", "ttft_us") if _has(told[name])},
        }
        for name in ("finish_reason", "service_tier", "upstream_id"):
            made[name] = _texts(told[name]) if _has(told[name]) else ()
        for name in ("role", "configuration", "task_class", "tenant"):
            made[name] = _texts(_or_stated(told[name], getattr(self._booking, name)))
        if "latency_us" in made:
            made["latency_bucket"] = _latency_buckets(made["latency_us"])
        if _has(told["reported_usd"]):
            split = _mapped(split_amount, told["reported_usd"])
            for place, part in enumerate(("micro", "pico")):
                made[f"reported_usd_{part}"] = [None if pair is None else pair[place] for pair in split]
        return {name: column for name, column in made.items() if column}

    def _tags_id(self, tags: Any) -> str | None:
        if tags not in self._tags:
            self._tags[tags] = tags_id(dict(tags))
        return self._tags[tags]


def _constants(import_id: str, endpoint: str) -> Columns:
    return {
        "number": Same(1),
        "origin": Same("imported"),
        "import_id": Same(import_id),
        "endpoint": Same(endpoint),
        "queue_us": Same(0),
    }


def _has(column: Sequence[Any]) -> bool:
    return column.count(None) < len(column)


def _or_stated(column: Sequence[Any], stated: Any) -> Sequence[Any]:
    """Return a column with what the user states where the records say nothing; empty where nobody says anything."""
    if stated is None:
        return column if _has(column) else ()
    return [stated if value is None else value for value in column]


def _mapped(make: Callable[[Any], Any], column: Sequence[Any]) -> list[Any]:
    return [None if value is None else make(value) for value in column]


def _latency_buckets(column: Sequence[int | None]) -> list[int | None]:
    """Return the bucket of each latency, as `router.ledger.latency.latency_bucket` does of one."""
    known = np.array([0 if value is None else value for value in column], np.int64)
    buckets: list[int] = np.searchsorted(_LATENCY_BOUNDS, known, side="right").tolist()
    return [None if value is None else bucket for value, bucket in zip(column, buckets, strict=True)]


def _texts(column: Sequence[str | None]) -> Sequence[str | None]:
    whole = "".join(filter(None, column))
    if whole.isascii() and "\x00" not in whole:
        return column
    return [None if value is None else storable_text(value) for value in column]


def _used(found: PricedRequests) -> Columns:
    unknown = np.flatnonzero(~found.known).tolist()
    tiers = np.searchsorted(_THRESHOLDS, found.counts[:, INPUT_COLUMNS].sum(axis=1), side="left")
    if not unknown:
        told: Columns = {
            name: column.tolist() if column.any() else Same(0)
            for name, column in zip(BUCKETS, found.counts.T, strict=True)
        }
        return told | {"context_tier": tiers.tolist()}
    columns = {name: found.counts[:, index].tolist() for index, name in enumerate(BUCKETS)}
    columns["context_tier"] = tiers.tolist()
    for column in columns.values():
        _empty(column, unknown)
    return dict(columns)


def _possibly_billed(found: PricedRequests) -> Column:
    """Return whether a request was sent, ran out of time, and nobody knows what it used."""
    if found.known.all():
        return Same(value=False)
    statuses = found.columns["status"]
    return [status == "timed_out" and not known for status, known in zip(statuses, found.known.tolist(), strict=True)]


def _empty(column: list[Any], rows: Sequence[int]) -> None:
    for row in rows:
        column[row] = None


def _costs(found: PricedRequests, booking: Booking) -> Columns:
    costs = found.costs
    currencies = [None if each.prices is None else each.prices.currency for each in found.groups]
    currency = [currencies[index] for index in found.group.tolist()]
    micro: list[Any] = costs.cost_micro.tolist()
    pico: list[Any] = costs.cost_pico.tolist()
    unknown = np.flatnonzero(costs.status == _UNKNOWN).tolist()
    for column in (currency, micro, pico):
        _empty(column, unknown)
    columns: Columns = {"cost_status": [STATUSES[index] for index in costs.status.tolist()]}
    if len(unknown) == len(micro):
        return columns
    columns |= {"cost_currency": currency, "cost_micro": micro, "cost_pico": pico}
    paid = (currency, micro, pico)
    settled = _settled(found.at_us.tolist(), *paid, booking) if booking.terms else paid
    names = ("settled_currency", "settled_micro", "settled_pico")
    return columns | dict(zip(names, settled, strict=True))


def _settled(
    at_us: Sequence[int], currency: list[str | None], micro: list[Any], pico: list[Any], booking: Booking
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what is really paid after the terms that held at each instant."""
    made: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for at, code, whole, rest in zip(at_us, currency, micro, pico, strict=True):
        row: tuple[Any, Any, Any] = (None, None, None)
        if code is not None:
            paid_in, amount = settle(join_amount(whole, rest), code, booking.terms_at(at))
            row = (paid_in, *split_amount(amount))
        for column, value in zip(made, row, strict=True):
            column.append(value)
    return made
