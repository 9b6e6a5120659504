"""Requests of records, a column at a time: who sold them, what they used and what that cost.

In: records that are single requests. Out: `PricedRequests`, whole columns of them. Invariant: a row's cost is what
`pricing.price_call` gives for it; a request whose counts cannot be is rejected, and nothing else is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pricing import PriceSet
from pricing import bulk as pricing_bulk
from pricing.usage import BUCKETS, INPUT_BUCKETS
from router.ledger.importers.booking import Seller, Sellers
from router.ledger.importers.record import DEFAULTS, Block, Counts, Record, Rejected
from router.ledger.importers.tally import Tally

Whole = NDArray[np.int64]
Known = NDArray[np.bool_]
Columns = Mapping[str, Sequence[Any]]

INPUT_COLUMNS = tuple(BUCKETS.index(name) for name in INPUT_BUCKETS)
_OUTPUT = [index for index in range(len(BUCKETS) - 1) if index not in INPUT_COLUMNS]
_CACHE_READ = BUCKETS.index("cache_read_tokens")
_NOTHING = Counts()
_FIELDS = [name for name in Record._fields if name != "counts"]
_UNKNOWN = pricing_bulk.STATUSES.index("unknown")
_PARTIAL = pricing_bulk.STATUSES.index("partial")


@dataclass(frozen=True, slots=True)
class Group:
    """What the rows of one group have in common: who sold them, at which prices."""

    seller: Seller
    prices: PriceSet | None


@dataclass(frozen=True, slots=True, eq=False)
class PricedRequests:
    """Columns of requests, all of one length.

    Args:
        columns: the fields of `Record` but `counts`, a column each.
        at_us: their instants, microseconds since 1970 UTC.
        counts: a row of `BUCKETS` each; 0 where unknown.
        known: whether the counts are known.
        group: index into `groups`.
        groups: who sold them.
        costs: list costs.
    """

    columns: Columns
    at_us: Whole
    counts: Whole
    known: Known
    group: NDArray[np.int64]
    groups: Sequence[Group]
    costs: pricing_bulk.PricedColumns


class Pricer:
    """Prices requests; remembers every seller and price set it has met.

    Args:
        sellers: where they are looked up.
    """

    def __init__(self, sellers: Sellers) -> None:
        self._sellers = sellers
        self._codes: dict[tuple[str, str | None, str | None, bool], int] = {}
        self._sold: list[Seller] = []
        self._epochs: list[NDArray[np.int64]] = []

    def price(self, columns: Columns, counts: Whole, known: Known, tally: Tally) -> PricedRequests | None:
        """Return some requests priced; those whose counts are negative are rejected. None: nothing is left.

        Args:
            columns: as `columns_of` returns them, with the next two.
            counts: a row of `BUCKETS` each.
            known: whether they are known.
            tally: told of what is rejected, and of every row's counts and cost.
        """
        if counts.min() < 0:
            least: Whole = counts.min(axis=1)
            for row in np.flatnonzero(least < 0).tolist():
                tally.reject(Rejected(columns["line"][row], f"has a negative count: {least[row]}"))
            left = np.flatnonzero(least >= 0)
            kept = {name: [column[row] for row in left.tolist()] for name, column in columns.items()}
            return self.price(kept, counts[left], known[left], tally) if len(left) else None
        found = self._priced(columns, counts, known)
        _count(found, tally)
        return found

    def _priced(self, columns: Columns, counts: Whole, known: Known) -> PricedRequests:
        at_us = np.array(columns["at_us"], np.int64)
        group, groups, served = self._grouped(columns, at_us)
        used = {name: counts[:, index] for index, name in enumerate(BUCKETS) if counts[:, index].any()}
        buckets = used or {BUCKETS[0]: counts[:, 0]}
        costs = pricing_bulk.price(buckets, served, at=at_us.astype("datetime64[us]"), group=group, known=known)
        return PricedRequests(columns, at_us, counts, known, group, groups, costs)

    def _grouped(
        self, columns: Columns, at_us: Whole
    ) -> tuple[NDArray[np.int64], list[Group], list[pricing_bulk.Served]]:
        """Return each row's group: one for each model, provider, tier and span of unchanged prices."""
        codes = self._codes
        named = list(zip(*(columns[name] for name in ("model", "provider", "service_tier", "estimated")), strict=True))
        for key in dict.fromkeys(named):
            codes.setdefault(key, len(codes))
        code = np.fromiter(map(codes.__getitem__, named), np.int64, len(named))
        keys = list(codes)
        for model, provider, _, _ in keys[len(self._sold) :]:
            self._sold.append(self._sellers.of(model, provider))
            self._epochs.append(np.array(self._sold[-1].edges_us, np.int64))
        group = np.empty(len(code), np.int64)
        groups: list[Group] = []
        served: list[pricing_bulk.Served] = []
        for each in np.unique(code).tolist():
            rows = np.flatnonzero(code == each)
            epoch = np.searchsorted(self._epochs[each], at_us[rows], side="right")
            for span in np.unique(epoch).tolist():
                inside = rows[epoch == span]
                group[inside] = len(groups)
                prices = self._sellers.price_set(self._sold[each], int(at_us[inside[0]]))
                groups.append(Group(self._sold[each], prices))
                served.append(pricing_bulk.Served(prices, keys[each][2], estimated=keys[each][3]))
        return group, groups, served


def columns_of(parts: Sequence[Block | Sequence[Record]]) -> tuple[Columns, Whole, Known]:
    """Return requests as columns, in their order: the fields of `Record` but `counts`, their counts, and whether known.

    Args:
        parts: blocks and single records, at least one request.
    """
    each = [_of_block(part) if isinstance(part, Block) else _of_records(part) for part in parts]
    told, counts, known = zip(*each, strict=True)
    sizes = list(map(len, known))
    columns = {name: _joined(name, told, sizes) for name in _FIELDS}
    return columns, np.concatenate(counts), np.concatenate(known)


def _joined(name: str, parts: Sequence[Columns], sizes: Sequence[int]) -> Sequence[Any]:
    """Return a field's column of all parts; its default where they do not have it."""
    if not any(name in part for part in parts):
        return (DEFAULTS[name],) * sum(sizes)
    if len(parts) == 1:
        return parts[0][name]
    each = (part.get(name) or (DEFAULTS[name],) * size for part, size in zip(parts, sizes, strict=True))
    return list(chain.from_iterable(each))


def _of_block(block: Block) -> tuple[Columns, Whole, Known]:
    counts = np.zeros((len(block), len(BUCKETS)), np.int64)
    for name, column in block.usage.items():
        counts[:, BUCKETS.index(name)] = column
    return block.columns, counts, np.full(len(block), bool(block.usage))


def _of_records(records: Sequence[Record]) -> tuple[Columns, Whole, Known]:
    columns = dict(zip(Record._fields, zip(*records, strict=True), strict=True))
    told = columns.pop("counts")
    flat = chain.from_iterable(each or _NOTHING for each in told)
    counts = np.fromiter(flat, np.int64, len(records) * len(BUCKETS)).reshape(-1, len(BUCKETS))
    return columns, counts, np.array([each is not None for each in told], np.bool_)


def _count(found: PricedRequests, tally: Tally) -> None:
    totals: list[int] = found.counts.sum(axis=0).tolist()
    tally.rows += len(found.at_us)
    tally.requests += len(found.at_us)
    tally.usage_unknown += int((~found.known).sum())
    tally.input_tokens += sum(totals[index] for index in INPUT_COLUMNS)
    tally.output_tokens += sum(totals[index] for index in _OUTPUT)
    tally.cache_read_tokens += totals[_CACHE_READ]
    tally.span(int(found.at_us.min()), int(found.at_us.max()))
    tally.reported(found.columns["reported_usd"])
    status = found.costs.status
    tally.partial += int((status == _PARTIAL).sum())
    for index, group in enumerate(found.groups):
        mine = found.group == index
        unpriced = int((mine & (status == _UNKNOWN)).sum())
        if unpriced:
            tally.unpriced += unpriced
            _name_unpriced(found, mine, group, tally)
        priced = mine & (status != _UNKNOWN)
        if group.prices is not None and priced.any():  # of rows that all have no usage the cost is unknown, not 0
            sums = (int(column[priced].sum()) for column in (found.costs.cost_micro, found.costs.cost_pico))
            tally.cost(group.prices.currency, *sums)


def _name_unpriced(found: PricedRequests, mine: Any, group: Group, tally: Tally) -> None:
    """Count the rows that have usage and no price; those without usage are counted as such."""
    lacking = int((mine & found.known & (found.costs.status == _UNKNOWN)).sum())
    if lacking:
        tally.unpriced_models[group.seller.model] += lacking
