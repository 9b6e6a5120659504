"""Writes pieces of an import within a transaction: first what rows refer to, then the rows.

In: priced requests and buckets. Out: how many were new, and how many were there with other counts. Invariant: a row
that is there stays as it is; whoever imports it again is told when the ledger says something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import sqlalchemy as sa

from pricing import PriceSet
from pricing.terms import NO_TERMS, terms_to_json
from pricing.usage import BUCKETS
from router.errors import WrongUsage
from router.ledger.bulk_insert import Columns, Same, insert_columns
from router.ledger.database import id_batches
from router.ledger.digests import end_digest, start_digest
from router.ledger.importers.booking import Booking
from router.ledger.importers.overlaps import refuse_overlaps
from router.ledger.importers.record import Tags
from router.ledger.importers.rows import Rows
from router.ledger.records import Import, UsageBucket
from router.ledger.rows import Kind, Row, rows_of, tags_document, tags_id
from router.ledger.statements import execute_rows
from router.ledger.tables import attempts, imports, usage_buckets

_CACHE_KIB = 65_536


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of a file, priced.

    Args:
        requests: rows of single requests; None: there are none.
        buckets: usage that others have added up.
        prices: the price sets of both.
    """

    requests: Rows | None
    buckets: Sequence[UsageBucket]
    prices: Sequence[PriceSet]

    @property
    def size(self) -> int:
        """How many records it has."""
        return len(self.buckets) + (0 if self.requests is None else len(self.requests.ids))


class Sink:
    """Writes one file's pieces.

    Args:
        taken: its import.
        booking: what is stated for all.
    """

    def __init__(self, taken: Import, booking: Booking) -> None:
        self._taken, self._booking = taken, booking
        self._known: set[str] = set()

    def begin(self, connection: sa.Connection) -> None:
        """Write the import's own row.

        Raises:
            WrongUsage: the same file was imported with other options; its rows would be there twice.
        """
        taken = self._taken
        same = (imports.c.file_sha256 == taken.file_sha256, imports.c.format == taken.format)
        other = connection.execute(
            sa.select(imports.c.file_name).where(*same, imports.c.import_id != taken.import_id)
        ).scalar()
        if other is not None and taken.start_us == 0:
            message = f"file {taken.file_name}: was imported already, as {other}, with other options"
            hint = "repeat the command with the same options, or take that import back: router import undo FILE"
            raise WrongUsage(f"{message}; nothing was written", hint=hint)
        execute_rows(connection, rows_of([taken]))
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")  # or pages are written several times over

    def write(self, connection: sa.Connection, piece: Piece) -> tuple[int, int]:
        """Write a piece; return how many rows were new, and how many are there with other counts.

        Args:
            connection: in a transaction that may write.
            piece: the piece.
        """
        new = {each.id: each for each in piece.prices if each.id not in self._known}
        execute_rows(connection, [*rows_of(new.values()), *self._labels(piece)])
        self._known.update(new)
        added = differing = 0
        if piece.requests is not None:
            added, differing = self._requests(connection, piece.requests)
        if piece.buckets:
            more, others = _buckets(connection, piece.buckets)
            if more:
                refuse_overlaps(connection, self._taken, piece.buckets)
            added, differing = added + more, differing + others
        return added, differing

    def _labels(self, piece: Piece) -> Iterator[Row]:
        """Yield the rows of labels of requests; those of buckets come with them."""
        if piece.requests is not None:
            found: set[Tags] = {*piece.requests.requests.columns["tags"]} - {()}
            for tags in found:
                labels = dict(tags)
                identity = str(tags_id(labels))
                if identity not in self._known:
                    self._known.add(identity)
                    yield Kind.TAG_SET, {"tags_id": identity, "document": tags_document(labels)}

    def _requests(self, connection: sa.Connection, rows: Rows) -> tuple[int, int]:
        insert = self._with_terms if self._booking.terms else insert_columns
        added = insert(connection, rows.columns)
        if added == len(rows.ids):
            return added, 0
        requests = rows.requests
        told = (
            tuple(row) if is_known else None
            for row, is_known in zip(requests.counts.tolist(), requests.known.tolist(), strict=True)
        )
        return added, _differing(zip(rows.ids, told, strict=True), _there(connection, attempts, rows.ids))

    def _with_terms(self, connection: sa.Connection, columns: Columns) -> int:
        """Write requests that were settled under terms, which stand beside them; those that are there get none."""
        filled = [repeat(column.value) if isinstance(column, Same) else column for column in columns.values()]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*filled, strict=False)]
        there = _there(connection, attempts, [row["attempt_id"] for row in rows])
        written: list[Row] = []
        new = {row["attempt_id"]: row for row in reversed(rows) if row["attempt_id"] not in there}
        for identity, row in new.items():
            terms = self._booking.terms_at(row["started_us"])
            terms_id = None if terms == NO_TERMS else terms.id
            digests = {"start_digest": start_digest(row), "end_digest": end_digest(row | {"terms_id": terms_id})}
            written.append((Kind.IMPORTED_ATTEMPT, row | digests))
            if terms_id is not None:
                written.append((Kind.TERMS, {"terms_id": terms_id, "document": terms_to_json(terms)}))
                written.append((Kind.ATTEMPT_TERMS, {"attempt_id": identity, "terms_id": terms_id}))
        execute_rows(connection, written)
        return len(new)


def _buckets(connection: sa.Connection, buckets: Sequence[UsageBucket]) -> tuple[int, int]:
    ids = [bucket.bucket_id for bucket in buckets]
    told = [
        None if bucket.usage is None else tuple(getattr(bucket.usage, name) for name in BUCKETS) for bucket in buckets
    ]
    before = _there(connection, usage_buckets, ids)
    written = list(dict(zip(ids, buckets, strict=True)).values())
    execute_rows(connection, rows_of(written))
    return len(set(ids) - set(before)), _differing(zip(ids, told, strict=True), _there(connection, usage_buckets, ids))


def _there(connection: sa.Connection, table: sa.Table, ids: Sequence[str]) -> Mapping[str, tuple[int, ...] | None]:
    """Return the counts of those rows that are in the ledger, by id; None where they are unknown."""
    key = next(iter(table.primary_key))
    found: dict[str, tuple[int, ...] | None] = {}
    for some in id_batches(ids):
        query = sa.select(key, *(table.c[name] for name in BUCKETS)).where(key.in_(some))
        for identity, *counts in connection.execute(query):
            found[identity] = None if counts[0] is None else tuple(counts)
    return found


def _differing(told: Iterable[tuple[str, Any]], stored: Mapping[str, Any]) -> int:
    """Return how many rows say something else than the ledger."""
    return sum(stored[identity] != counts for identity, counts in told)
