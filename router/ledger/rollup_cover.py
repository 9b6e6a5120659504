"""Which rows of the rollups a span of time is the sum of.

In: a span of quarter hours. Out: pieces, some of them to be taken away again: three hours less a quarter of an hour are
fewer rows than eleven quarter hours. Invariant: each quarter hour of the span counts once, and no other at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from router.ledger.rollup_tables import WIDTHS

_ROWS = {WIDTHS[0]: 1, WIDTHS[1]: 2, WIDTHS[2]: 4}
"""How many keys a row's time has, beside a quarter hour's: the more time, the more of them; about as measured."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Rows of one width, from a quarter hour on up to another one.

    Args:
        width: one of `WIDTHS`.
        first: the quarter hour at which the first row begins, since 1970 UTC.
        past: the one at which the last row ends.
        is_minus: whether they are taken away from the other ones.
    """

    width: int
    first: int
    past: int
    is_minus: bool = False


def cover(first: int, past: int, widths: Sequence[int] = WIDTHS) -> tuple[Cover, ...]:
    """Return the rows that a span is the sum of, about as few as there are.

    Args:
        first: first quarter hour.
        past: the one after the last.
        widths: those that may be used, the narrowest one first; 1 must be among them.
    """
    if first >= past:
        return ()
    *narrower, widest = widths
    if not narrower:
        return (Cover(widest, first, past),)
    low, high = -(-first // widest) * widest, past // widest * widest
    if low > high:
        return _within(high, first, past, widths)
    return tuple(
        _joined(
            (
                *_within(low - widest, first, low, widths),
                *((Cover(widest, low, high),) if low < high else ()),
                *_within(high, high, past, widths),
            )
        )
    )


def _within(block: int, first: int, past: int, widths: Sequence[int]) -> tuple[Cover, ...]:
    """Return the rows of a span within one block of the widest ones: the block less the rest, or its narrower rows."""
    *narrower, widest = widths
    if first >= past:
        return ()
    inside = cover(first, past, narrower)
    rest = (*cover(block, first, narrower), *cover(past, block + widest, narrower))
    around = (Cover(widest, block, block + widest), *(replace(each, is_minus=not each.is_minus) for each in rest))
    return min(inside, around, key=_rows)


def _rows(found: Sequence[Cover]) -> int:
    return sum((each.past - each.first) // each.width * _ROWS[each.width] for each in found)


def _joined(found: Sequence[Cover]) -> Iterator[Cover]:
    """Yield the same with neighbours of one width as one."""
    held: Cover | None = None
    for each in sorted(found, key=lambda each: (each.is_minus, each.width, each.first)):
        if held is None:
            held = each
        elif (held.is_minus, held.width, held.past) == (each.is_minus, each.width, each.first):
            held = replace(held, past=each.past)
        else:
            yield held
            held = each
    if held is not None:
        yield held
