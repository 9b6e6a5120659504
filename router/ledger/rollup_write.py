"""Writes a UTC day's rollups: quarter hours as they were scanned, then the wider rows they lie in.

In: a transaction that holds the lock, what quarter hours add up to. Out: rows of `rollup_tables` in the place of old
ones. Invariant: after `finish` the rows of every width have the same sums; rows of pruned attempts are never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa

from router.ledger import histograms
from router.ledger.digests import pair_from_text, pair_text
from router.ledger.driver import insert_if_absent
from router.ledger.rollup_scan import Pair, Scanned, keys_of, with_status
from router.ledger.rollup_tables import WIDTHS, attempts_rollup, dearest_runs, rollup_keys, runs_rollup
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES
from router.ledger.tables import tag_sets

_COLUMNS = ("width", "quarter_hour", "key_id", "prune_id", "day", *SUM_NAMES, "latencies", "ttfts")
_FIRST_SUM = _COLUMNS.index(SUM_NAMES[0])
_DAY = WIDTHS[-1]
Row = Sequence[Any]


class Keys:
    """The keys on record, which are only ever added to, so that they are read once for many days."""

    def __init__(self) -> None:
        self.ids: dict[Pair, int] = {}
        self.values: dict[Pair, tuple[Any, ...]] = {}
        self._last = 0

    def read(self, connection: sa.Connection) -> None:
        """Read those that somebody else has added; the connection's transaction holds the lock."""
        query = _KEYS.where(rollup_keys.c.key_id > self._last)
        for key_id, digest, *values in connection.execute(query).all():
            pair = pair_from_text(digest)
            self.ids[pair], self.values[pair] = key_id, tuple(values)
            self._last = max(self._last, key_id)

    def add(self, connection: sa.Connection, new: Mapping[Pair, tuple[Any, ...]]) -> None:
        """Give each new key an id, and write it."""
        if new:
            rows = [
                {"key_id": key_id, "digest": pair_text(pair), **dict(zip(KEY_COLUMNS, values, strict=True))}
                for key_id, (pair, values) in enumerate(new.items(), self._last + 1)
            ]
            connection.execute(sa.insert(rollup_keys), rows)
            self.read(connection)


class DayWriter:
    """Replaces the rollup rows of some quarter hours of one UTC day.

    Args:
        connection: in a transaction that holds the lock.
        day: days since 1970.
        quarter_hours: all whose rows are to be replaced; the old ones are deleted at once.
        keys: those on record, as far as they were read in transactions that were committed.
    """

    def __init__(self, connection: sa.Connection, day: int, quarter_hours: Sequence[int], keys: Keys) -> None:
        self._connection, self._day, self._quarter_hours = connection, day, quarter_hours
        table = attempts_rollup.c
        self._delete(attempts_rollup, quarter_hours, table.width == 1)
        self._delete(runs_rollup, quarter_hours, runs_rollup.c.width == 1)
        self._delete(dearest_runs, quarter_hours)
        others = (table.width == 1, table.quarter_hour >= day * _DAY, table.quarter_hour < (day + 1) * _DAY)
        found = connection.execute(sa.select(attempts_rollup.c.key_id).where(*others).limit(1)).first()
        # Of a day that has no other rows, wider rows are made of what is at hand.
        self._at_hand: list[Row] | None = [] if found is None else None
        self._keys = keys
        keys.read(connection)

    def rows_of(self, scanned: Scanned) -> list[Row]:
        """Return the rows of `attempts_rollup` that quarter hours add up to; new keys get a row of their own."""
        self._learn_keys(scanned)
        rows: list[Row] = []
        for each in scanned.sums:
            sums = each.sums if each.is_whole else with_status(each.sums, self._keys.values[each.pair])
            head = (1, each.quarter_hour, self._keys.ids[each.pair], 0, self._day)
            rows.append((*head, *sums, each.latencies, each.ttfts))
        return rows

    def write(self, scanned: Scanned) -> None:
        """Write the rows of some of the quarter hours."""
        rows = self.rows_of(scanned)
        insert_rows(self._connection, rows)
        if self._at_hand is not None:
            self._at_hand.extend(rows)
        if scanned.tags:
            tags = [{"tags_id": tags_id, "document": document} for tags_id, document in sorted(scanned.tags.items())]
            self._connection.execute(insert_if_absent(self._connection.dialect.name, tag_sets), tags)
        self._insert(runs_rollup, {"width": 1, "prune_id": 0, "day": self._day}, scanned.runs)
        if scanned.dearest:
            self._connection.execute(sa.insert(dearest_runs), [each | {"prune_id": 0} for each in scanned.dearest])

    def finish(self) -> None:
        """Write the wider rows."""
        rows: Sequence[Row] = self._at_hand or ()
        for lower, width in pairwise(WIDTHS):
            blocks = sorted({each // width * width for each in self._quarter_hours})
            self._delete(attempts_rollup, blocks, attempts_rollup.c.width == width)
            if self._at_hand is None:
                rows = self._rows(lower, [at for block in blocks for at in range(block, block + width, lower)])
            rows = _added_up(rows, width)
            insert_rows(self._connection, rows)
        self._write_runs_of_day()

    def _learn_keys(self, scanned: Scanned) -> None:
        """Give an id to each key that has none."""
        needed = {each.pair: each.quarter_hour for each in scanned.sums if each.pair not in self._keys.ids}
        found = {pair: scanned.keys[pair] for pair in needed if pair in scanned.keys}
        for quarter_hour in sorted({needed[pair] for pair in needed if pair not in found}):
            wanted = [pair for pair in needed if pair not in found and needed[pair] == quarter_hour]
            found.update(keys_of(self._connection, quarter_hour, wanted))
        self._keys.add(self._connection, {pair: found[pair] for pair in needed})

    def _insert(self, table: sa.Table, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that all have the same names, in the order of the first one; `head` is the same in each."""
        if rows:
            names = (*head, *rows[0])
            values = [(*head.values(), *row.values()) for row in rows]
            self._connection.exec_driver_sql(_insert(self._connection, table.name, names), values)

    def _rows(self, width: int, quarter_hours: Sequence[int]) -> Sequence[Row]:
        table = attempts_rollup.c
        query = sa.select(*(table[name] for name in _COLUMNS))
        return self._connection.execute(query.where(table.width == width, table.quarter_hour.in_(quarter_hours))).all()

    def _delete(self, table: sa.Table, quarter_hours: Sequence[int], *where: sa.ColumnElement[bool]) -> None:
        live = (*where, table.c.quarter_hour.in_(quarter_hours), table.c.prune_id == 0)
        self._connection.execute(sa.delete(table).where(*live))

    def _write_runs_of_day(self) -> None:
        table, first = runs_rollup.c, self._day * _DAY
        self._connection.execute(sa.delete(runs_rollup).where(table.width == _DAY, table.quarter_hour == first))
        keys = (table.configuration, table.task_class, table.tenant, table.tags_id, table.status)
        head = {"width": _DAY, "quarter_hour": first, "prune_id": 0, "day": self._day}
        constants: list[sa.ColumnElement[Any]] = [
            sa.literal_column(str(value)).label(name) for name, value in head.items()
        ]
        of_day = (table.width == 1, table.quarter_hour >= first, table.quarter_hour < first + _DAY)
        total = sa.cast(sa.func.sum(table.runs), sa.BigInteger)
        query = sa.select(*constants, *keys, total).where(*of_day).group_by(*keys)
        names = [*head, *(key.name for key in keys), "runs"]
        self._connection.execute(sa.insert(runs_rollup).from_select(names, query))


def insert_rows(connection: sa.Connection, rows: Sequence[Row]) -> None:
    """Insert rows of `attempts_rollup`, whose values are in the order of its columns."""
    if rows:
        connection.exec_driver_sql(_insert(connection, attempts_rollup.name, _COLUMNS), list(map(tuple, rows)))


_KEYS = sa.select(rollup_keys.c.key_id, rollup_keys.c.digest, *(rollup_keys.c[name] for name in KEY_COLUMNS))


def _insert(connection: sa.Connection, table: str, names: Sequence[str]) -> str:
    """Return the driver's own text: a row as a dictionary, and bound by name, takes three times as long."""
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join([place] * len(names))})"  # noqa: S608 - our own


def _added_up(lower: Sequence[Row], width: int) -> Sequence[Row]:
    """Return the rows of a width made from rows of the width below."""
    if not lower:
        return []
    heads = np.array([(row[1] // width * width, row[2], row[4]) for row in lower], np.int64)
    order = np.lexsort((heads[:, 1], heads[:, 0]))
    ordered = heads[order]
    new = np.ones(len(lower), np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    edges = np.flatnonzero(new)
    sums = np.add.reduceat(np.array([row[_FIRST_SUM:-2] for row in lower], np.int64)[order], edges, axis=0)
    owner = np.empty(len(lower), np.int64)
    owner[order] = np.cumsum(new) - 1
    latencies, ttfts = (histograms.merged([row[at] for row in lower], owner, len(edges)) for at in (-2, -1))
    return [
        (width, block, key_id, 0, day, *row, *both)
        for (block, key_id, day), row, both in zip(
            ordered[edges].tolist(), sums.tolist(), zip(latencies, ttfts, strict=True), strict=True
        )
    ]
