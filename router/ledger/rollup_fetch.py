"""Rows of the rollups as arrays: every piece read once, however many spans it is a part of.

In: a connection, a plan. Out: for each row and span its time, key and sums, or its histogram. Invariant: what is to be
taken away has a sign of -1, or sums that are negative; nothing is added up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from router.ledger.rollup_cover import Piece, Use
from router.ledger.sums import SUM_NAMES

Whole = NDArray[np.int64]

_ROWS_AT_ONCE = 200  # more would leave the processor's cache: 5,000 take half as long again


@dataclass(frozen=True, slots=True, eq=False)
class SumRows:
    """Rows of sums: the columns of span and times, the key, and a row of `SUM_NAMES` for each."""

    times: Sequence[Whole]
    key_ids: Whole
    sums: Whole


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRows:
    """Rows of histograms: the columns of span and times, the key, the sign, and the packed histogram of each."""

    times: Sequence[Whole]
    key_ids: Whole
    signs: Whole
    histograms: Sequence[bytes]


def fetch_sums(connection: sa.Connection, uses: Sequence[Use], times: Sequence[str]) -> SumRows:
    """Return the sums that some spans are made of.

    Args:
        connection: to read.
        uses: what the spans are made of; at least one.
        times: of `day` and `quarter_hour`, those wanted.
    """
    pieces, heads = _pieces(uses), 2 + len(times)
    parts = [np.empty((0, heads + len(SUM_NAMES)), np.int64)]
    for rows in _rows(connection, _statement(pieces, times, SUM_NAMES)):
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * parts[0].shape[1])
        parts.append(flat.reshape(len(rows), -1))
    table = np.concatenate(parts)
    rows_of, spans, signs = _used(uses, pieces, table[:, 0])
    table = table[rows_of]
    sums = table[:, heads:]
    sums[signs < 0] *= -1
    return SumRows([spans, *table[:, 1 : heads - 1].T], table[:, heads - 1], sums)


def fetch_histograms(
    connection: sa.Connection, uses: Sequence[Use], times: Sequence[str], column: str
) -> HistogramRows:
    """Return the histograms that some spans are made of; see `fetch_sums`.

    Args:
        connection: as there.
        uses: as there.
        times: as there.
        column: the column of the rollup that has them.
    """
    pieces, heads = _pieces(uses), 2 + len(times)
    statement = f"{_statement(pieces, times, (column,))} AND {column} IS NOT NULL"
    found = [row for rows in _rows(connection, statement) for row in rows]
    table = np.array([row[:-1] for row in found], np.int64).reshape(len(found), heads)
    rows_of, spans, signs = _used(uses, pieces, table[:, 0])
    packed = [found[row][-1] for row in rows_of.tolist()]
    return HistogramRows([spans, *table[rows_of, 1 : heads - 1].T], table[rows_of, heads - 1], signs, packed)


def _pieces(uses: Sequence[Use]) -> tuple[Piece, ...]:
    return tuple(dict.fromkeys(use.piece for use in uses))


def _used(uses: Sequence[Use], pieces: Sequence[Piece], piece_of: Whole) -> tuple[Whole, Whole, Whole]:
    """Return rows, their spans and their signs: each row as often as its piece is used.

    Args:
        uses: the uses of pieces.
        pieces: the pieces.
        piece_of: for each row the place of its piece.
    """
    place = {piece: at for at, piece in enumerate(pieces)}
    ordered = sorted(uses, key=lambda use: place[use.piece])
    counts = np.bincount([place[use.piece] for use in ordered], minlength=len(pieces)).astype(np.int64)
    times = counts[piece_of]
    rows = np.repeat(np.arange(len(piece_of), dtype=np.int64), times)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    use = (np.cumsum(counts) - counts)[piece_of[rows]] + nth
    spans, signs = (np.array([getattr(each, name) for each in ordered], np.int64) for name in ("span", "sign"))
    return rows, spans[use], signs[use]


def _statement(pieces: Sequence[Piece], times: Sequence[str], values: Sequence[str]) -> str:
    """Return the text of the select of a piece's place, times, key and values of each row of some pieces.

    A row is not added up here: few rows cover a span, and to sort them by their group took longer than to read them.

    Args:
        pieces: at least one.
        times: of `day` and `quarter_hour`, those wanted.
        values: columns of the rollup.
    """
    columns = ", ".join(("p.piece", *times, "key_id", *values))
    where = "width = p.of_width AND quarter_hour >= p.first_one AND quarter_hour < p.past_one"
    rows = ", ".join(f"({at}, {each.width}, {each.first}, {each.past})" for at, each in enumerate(pieces))
    from_pieces = f"WITH p(piece, of_width, first_one, past_one) AS (VALUES {rows})"
    # CROSS JOIN: SQLite then goes from piece to piece, and never the other way round.
    return f"{from_pieces} SELECT {columns} FROM p CROSS JOIN attempts_rollup WHERE {where}"  # noqa: S608 - our own names


def _rows(connection: sa.Connection, statement: str) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield a statement's rows in batches: a month of quarter hours is large as Python's integers.

    They come from the driver's own cursor: to wrap each row took as long as to read it.
    """
    connection.execute(sa.select(sa.literal(1)))  # begins the transaction
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(statement)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield rows
