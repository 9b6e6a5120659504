"""Sums of a span, read once and grouped in memory as often as a report asks.

In: rows of span, time, key and sums, as arrays. Out: groups by any of `GROUP_COLUMNS`, as values or as columns.
Invariant: grouping loses nothing: the sums of all groups are the sums of all rows, as whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.ledger.groups import LatencyGroup, UsageGroup
from router.ledger.queries import checked_groups
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES

Whole = NDArray[np.int64]

SPAN = "span"
"""A group's place among the spans that were asked for; it may stand among the columns to group by."""

_TIMES = ("day", "quarter_hour")
_BUCKETS = 256  # more than there are buckets of latency


@dataclass(frozen=True, slots=True, eq=False)
class UsageCube:
    """Sums by span, time and key.

    Args:
        times: columns of `span`, and of `day` or `quarter_hour` where those were kept apart.
        key_ids: for each row its key.
        sums: a row of `SUM_NAMES` for each; whole numbers of 64 bits.
        keys: by id, the values of `KEY_COLUMNS`.
    """

    times: Mapping[str, Whole]
    key_ids: Whole
    sums: Whole
    keys: Mapping[int, tuple[Any, ...]]

    def groups(self, by: Sequence[str] = ()) -> tuple[UsageGroup, ...]:
        """Return the sums of each combination that occurs.

        Args:
            by: of `GROUP_COLUMNS` and `SPAN`; empty: one group of all (none without rows). A time that was not kept
                apart cannot be asked for.

        Raises:
            WrongUsage: a group that does not exist.
        """
        keys, sums = self._grouped(by)
        return tuple(
            UsageGroup(key, MappingProxyType(dict(zip(SUM_NAMES, row, strict=True))))
            for key, row in zip(keys, sums.tolist(), strict=True)
        )

    def columns(self, by: Sequence[str] = ()) -> dict[str, list[Any]]:
        """Return the same as columns of Python values: those of `by`, then `SUM_NAMES`."""
        keys, sums = self._grouped(by)
        named = {name: [key[place] for key in keys] for place, name in enumerate(by)}
        return named | {name: sums[:, place].tolist() for place, name in enumerate(SUM_NAMES)}

    def _grouped(self, by: Sequence[str]) -> tuple[list[tuple[Any, ...]], Whole]:
        keys, order, edges = partition(self.times, self.key_ids, self.keys, by)
        return keys, _summed(self.sums, order, edges)


@dataclass(frozen=True, slots=True, eq=False)
class LatencyCube:
    """Histograms by span, time and key; see `UsageCube`.

    Args:
        times: as there.
        key_ids: as there.
        owners: for each count the row it belongs to.
        buckets: for each count its bucket.
        counts: how many attempts fell in that bucket; negative where they are taken away from those of another row.
        keys: as there.
    """

    times: Mapping[str, Whole]
    key_ids: Whole
    owners: Whole
    buckets: Whole
    counts: Whole
    keys: Mapping[int, tuple[Any, ...]]

    def groups(
        self, by: Sequence[str] = (), statuses: Sequence[str] | None = ("succeeded",)
    ) -> tuple[LatencyGroup, ...]:
        """Return counts per latency bucket of each combination that occurs.

        Args:
            by: as for `UsageCube.groups`.
            statuses: which attempts: those that ended so; None: all.

        Raises:
            WrongUsage: a group that does not exist.
        """
        place = KEY_COLUMNS.index("status")
        wanted = [key_id for key_id, key in self.keys.items() if statuses is None or key[place] in statuses]
        is_kept = np.isin(self.key_ids, wanted)
        kept = np.flatnonzero(is_kept)
        times = {name: column[kept] for name, column in self.times.items()}
        keys, order, edges = partition(times, self.key_ids[kept], self.keys, by)
        group = np.zeros(len(is_kept), np.int64)
        group[kept[order]] = np.repeat(np.arange(len(keys)), np.diff(np.append(edges, len(kept))))
        counted = is_kept[self.owners]
        sums = np.zeros(len(keys) * _BUCKETS, np.int64)
        np.add.at(sums, group[self.owners[counted]] * _BUCKETS + self.buckets[counted], self.counts[counted])
        cells = np.flatnonzero(sums)
        found: list[dict[int, int]] = [{} for _ in keys]
        for cell, count in zip(cells.tolist(), sums[cells].tolist(), strict=True):
            found[cell // _BUCKETS][cell % _BUCKETS] = count
        return tuple(LatencyGroup(key, MappingProxyType(each)) for key, each in zip(keys, found, strict=True) if each)


def compacted(times: Sequence[Whole], key_ids: Whole, sums: Whole) -> tuple[list[Whole], Whole, Whole]:
    """Return times, keys and sums with one row for each combination that has records.

    Args:
        times: columns of times.
        key_ids: for each row its key.
        sums: for each row its sums; those of rows that are taken away are negative.
    """
    order, edges = _runs_of((*times, key_ids))
    first, totals = order[edges], _summed(sums, order, edges)
    kept = totals[:, _RECORDS] != 0
    if not kept.all():
        first, totals = first[kept], totals[kept]
    return [column[first] for column in times], key_ids[first], totals


_RECORDS = SUM_NAMES.index("records")


def _runs_of(columns: Sequence[Whole]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows in an order where equal ones stand together, and where in it each run of them begins."""
    order = np.lexsort(tuple(reversed(columns)))
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(new)


def _summed(sums: Whole, order: NDArray[np.intp], edges: NDArray[np.intp]) -> Whole:
    if len(edges) == len(order):
        return sums[order]
    return np.add.reduceat(sums[order], edges, axis=0)


def partition(
    times: Mapping[str, Whole], key_ids: Whole, keys: Mapping[int, tuple[Any, ...]], by: Sequence[str]
) -> tuple[list[tuple[Any, ...]], NDArray[np.intp], NDArray[np.intp]]:
    """Return each group's key, the rows in the order of their groups, and where in it each group begins.

    Raises:
        WrongUsage: a group that does not exist.
    """
    checked_groups([name for name in by if name != SPAN])
    if missing := [name for name in by if name in _TIMES and name not in times]:
        raise ValueError(f"{missing[0]}: was not kept apart when the rows were read")
    in_key = [KEY_COLUMNS.index(name) for name in by if name in KEY_COLUMNS]
    codes: dict[tuple[Any, ...], int] = {}
    code_of = {id_: codes.setdefault(tuple(key[at] for at in in_key), len(codes)) for id_, key in keys.items()}
    present, inverse = np.unique(key_ids, return_inverse=True)
    code = np.array([code_of[id_] for id_ in present.tolist()], np.int64)[inverse]
    used = [times[name] for name in by if name in times]
    order, edges = _runs_of((code, *used))
    values = list(codes)
    rows = zip(*(column[order[edges]].tolist() for column in (code, *used)), strict=True)
    joined = [(*values[first], *rest) for first, *rest in rows]
    # Columns of the key come first there; where they do in `by`, too, it is the group's key already.
    in_order = [*(name for name in by if name in KEY_COLUMNS), *(name for name in by if name in times)]
    if list(by) != in_order:
        places = [in_order.index(name) for name in by]
        joined = [tuple([each[place] for place in places]) for each in joined]
    return joined, order, edges
