"""Which rows of the rollups some spans of time are the sums of.

In: spans of quarter hours. Out: pieces to read, and for each span those it is made of, some of them to be taken away:
three hours less a quarter of an hour are fewer rows than eleven quarter hours, and of a day that is cut in two, one
part is the day less the other. Invariant: each quarter hour of a span counts once in it, and no other at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from router.ledger.rollup_tables import WIDTHS

Span = tuple[int, int]
_ROWS = {WIDTHS[0]: 1, WIDTHS[1]: 2, WIDTHS[2]: 4}
"""How many rows a time of that width has, beside a quarter hour: the longer, the more keys occur; about as measured."""


class Piece(NamedTuple):
    """Rows of one `width` (of `WIDTHS`), from the quarter hour `first` (since 1970 UTC) on up to `past`."""

    width: int
    first: int
    past: int


class Use(NamedTuple):
    """A piece as a part of a span: `sign` is 1, or -1 where it is taken away; `span` is the span's place."""

    piece: Piece
    sign: int = 1
    span: int = 0


def plan(spans: Sequence[Span], widths: Sequence[int] = WIDTHS, number: int = 0) -> tuple[Use, ...]:
    """Return what some spans are the sums of; pieces that several spans use are the same.

    Args:
        spans: first quarter hour of each and the one after its last, since 1970 UTC.
        widths: those that may be used, the narrowest one first; 1 must be among them.
        number: that of the first span in `Use.span`.
    """
    widest = widths[-1]
    found: list[Use] = []
    parts: dict[int, list[tuple[int, Span]]] = {}
    for at, (first, past) in enumerate(spans, number):
        if first >= past:
            continue
        low, high = -(-first // widest) * widest, past // widest * widest
        if low < high:
            found.append(Use(Piece(widest, low, high), span=at))
        for start, end in ((first, past),) if low > high else ((first, low), (high, past)):
            if start < end:
                parts.setdefault(start // widest * widest, []).append((at, (start, end)))
    for block, some in parts.items():
        found.extend(_of_block(block, some, widths))
    return tuple(found)


def cover(first: int, past: int, widths: Sequence[int] = WIDTHS) -> tuple[Use, ...]:
    """Return what one span is the sum of; see `plan`."""
    return plan([(first, past)], widths)


def _of_block(block: int, parts: Sequence[tuple[int, Span]], widths: Sequence[int]) -> Iterator[Use]:
    """Yield what parts of one block of the widest rows are the sums of."""
    found = [_within(block, *part, widths) for _, part in parts]
    if len(parts) > 1 and _is_whole(block, sorted(part for _, part in parts), widths[-1]):
        # Together they are the block, so that the one of most rows is the block less the others, which are read anyway.
        most = max(range(len(found)), key=lambda at: _rows(found[at]))
        others = [use for at, uses in enumerate(found) if at != most for use in uses]
        if _ROWS[widths[-1]] < _rows(found[most]):
            found[most] = (Use(Piece(widths[-1], block, block + widths[-1])), *map(_taken_away, others))
    for (number, _), uses in zip(parts, found, strict=True):
        yield from (Use(use.piece, use.sign, number) for use in uses)


def _is_whole(block: int, parts: Sequence[Span], width: int) -> bool:
    """Return whether parts, in order, follow each other from a block's start to its end."""
    edges = (block, *(edge for part in parts for edge in part), block + width)
    return all(one == other for one, other in zip(edges[::2], edges[1::2], strict=True))


def _within(block: int, first: int, past: int, widths: Sequence[int]) -> tuple[Use, ...]:
    """Return what a part of a block is the sum of: of narrower rows, or the block less what is around the part."""
    *narrower, widest = widths
    if first >= past:
        return ()
    inside = _narrow(first, past, narrower)
    around = (*_narrow(block, first, narrower), *_narrow(past, block + widest, narrower))
    return min(inside, (Use(Piece(widest, block, block + widest)), *map(_taken_away, around)), key=_rows)


def _narrow(first: int, past: int, widths: Sequence[int]) -> tuple[Use, ...]:
    """Return what a span is the sum of."""
    if first >= past:
        return ()
    widest = widths[-1]
    low, high = -(-first // widest) * widest, past // widest * widest
    if low > high:
        return _within(high, first, past, widths)
    middle = (Use(Piece(widest, low, high)),) if low < high else ()
    return (*_within(low - widest, first, low, widths), *middle, *_within(high, high, past, widths))


def _taken_away(use: Use) -> Use:
    return Use(use.piece, -use.sign)


def _rows(uses: Iterable[Use]) -> int:
    return sum((use.piece.past - use.piece.first) // use.piece.width * _ROWS[use.piece.width] for use in uses)
