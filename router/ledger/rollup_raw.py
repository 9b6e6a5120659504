"""Raw attempts as arrays of whole numbers: what the rollups are added up from.

In: a connection, a stretch of time. Out: tables of 64-bit integers, a row for each of `COLUMNS` and a column for each
attempt. Invariant: a value is what the row says; NULL is `NULL` in the columns of `COUNTED_BY` and of `HEADS`, and 0
in others.

A driver takes longer to hand over a row of 30 numbers, or a database to sort and add it up, than all the rest does. So
SQLite gives a stretch as one text in which each character is a digit of a number to the base of 2^20, and PostgreSQL
gives it as the bytes of a COPY. What does not fit into such digits, and stretches that are too long for one text, are
read row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from pricing.usage import BUCKETS
from router.ledger.driver import ensure_begun
from router.ledger.rows import QUARTER_HOUR_US
from router.ledger.sums import SUMMED
from router.ledger.tables import attempts

Whole = NDArray[np.int64]

NULL = -(2**63)
HEADS = ("quarter_hour", "start_digest", "end_digest")
"""What attempts are added up by."""
COUNTED_BY: Mapping[str, str] = {
    "usage_unknown": BUCKETS[0],
    "cost_unknown": "cost_micro",
    "reported": "reported_usd_micro",
    "timed": "latency_us",
    "streamed": "ttft_us",
    "inference_timed": "inference_us",
    "network_timed": "network_us",
    "state_timed": "state_us",
}
"""Sums that count whether a column has a value."""
COLUMNS = (*HEADS, *SUMMED, "reserved_usd_micro", "reserved_usd_pico", "number", "latency_bucket", "rowid")
"""What is read of each attempt; `rowid` is SQLite's own name of the row, 0 elsewhere."""

MANY = 4_000
"""Attempts of one text, about; a megabyte."""
_MOST = 50_000  # of one text at all: a quarter hour may have any number
_ROWS_AT_ONCE = 5_000
_BITS = 20
_NONE = 1 << _BITS  # a digit that no number has; the last code point is a little above
_DOUBT = 0xFFFD  # what SQLite makes of a number that is no code point
_MARKED = {*HEADS[1:], *COUNTED_BY.values(), "latency_bucket"}
_WITHIN = "started_us >= {low} AND started_us < {high}"


def raw_attempts(connection: sa.Connection, low_us: int, high_us: int, rows: int) -> Iterator[Whole]:
    """Yield the attempts of a stretch in chunks; none where there are none.

    Args:
        connection: to read.
        low_us: first instant, microseconds since 1970 UTC.
        high_us: first instant that is not in it any more.
        rows: how many attempts there are in it, about.
    """
    bounds = {"low": low_us, "high": high_us}
    ensure_begun(connection)
    if connection.dialect.name == "postgresql":
        yield from _copied(connection, bounds)
        return
    table = _decoded(connection, bounds) if rows <= _MOST else None
    if table is None:
        yield from _row_by_row(connection, bounds)
    elif table.shape[1]:
        yield table


@cache
def _rows(names: Sequence[str] = COLUMNS) -> str:
    """Return the text of the select of columns; `low` and `high` have still to be named."""
    marked = f"-{2**63 - 1} - 1"  # to PostgreSQL -2^63 is the negative of a number that is too large
    columns = (f"COALESCE(CAST({name} AS BIGINT), {marked if name in _MARKED else 0})" for name in names)
    return f"SELECT {', '.join(columns)} FROM {attempts.name} WHERE {_WITHIN}"  # noqa: S608 - our own names


def _row_by_row(connection: sa.Connection, bounds: Mapping[str, int]) -> Iterator[Whole]:
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(_rows().format(low=":low", high=":high"), bounds)
        while some := cursor.fetchmany(_ROWS_AT_ONCE):
            flat = np.fromiter(chain.from_iterable(some), np.int64, len(some) * len(COLUMNS))
            yield np.ascontiguousarray(flat.reshape(len(some), -1).T)


# ---- PostgreSQL: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"

_COPY_HEADER_BYTES = 19
_COPY_ROW = np.dtype([("fields", ">i2"), ("values", [("length", ">i4"), ("value", ">i8")], (len(COLUMNS),))])


def _copied(connection: sa.Connection, bounds: Mapping[str, int]) -> Iterator[Whole]:
    names = tuple("0" if name == "rowid" else name for name in COLUMNS)
    statement = f"COPY ({_rows(names).format(**bounds)}) TO STDOUT (FORMAT BINARY)"
    driver: Any = connection.connection.cursor()
    with closing(driver) as cursor, cursor.copy(statement) as copy:
        held, skip = bytearray(), _COPY_HEADER_BYTES
        for piece in copy:
            held += piece
            if len(held) - skip >= _ROWS_AT_ONCE * _COPY_ROW.itemsize:
                yield _of_copy(held, skip)
                held, skip = held[len(held) - (len(held) - skip) % _COPY_ROW.itemsize :], 0
    if len(held) - skip >= _COPY_ROW.itemsize:  # what ends it is shorter than a row
        yield _of_copy(held, skip)


def _of_copy(held: bytearray, skip: int) -> Whole:
    rows = (len(held) - skip) // _COPY_ROW.itemsize
    return np.frombuffer(bytes(held), _COPY_ROW, rows, skip)["values"]["value"].T.astype(np.int64)


# ---- SQLite: https://sqlite.org/lang_corefunc.html#char


def _places(name: str) -> int:
    """Return how many digits a column's numbers are given."""
    if name.endswith("_digest"):
        return 4  # all of the 64 bits
    return 2 if name.endswith(("_us", "_micro", "rowid")) or name in COUNTED_BY.values() else 1


_WIDTHS = tuple(map(_places, COLUMNS))
_FIRST = np.cumsum((0, *_WIDTHS[:-1]))
_MARKED_PLACES = [at for at, name in enumerate(COLUMNS) if name in _MARKED]
_LAST = _FIRST + np.array(_WIDTHS) - 1


@cache
def _text() -> str:
    """Return the select of all attempts of a stretch as one text, as bytes: a row's digits after the other's."""
    digits = ", ".join(digit for name in COLUMNS for digit in _digits(name))
    return (
        f"SELECT CAST(group_concat(char({digits}), '') AS BLOB) FROM {attempts.name} "  # noqa: S608 - our own names
        f"WHERE {_WITHIN.format(low=':low', high=':high')}"
    )


def _digits(name: str) -> Iterator[str]:
    """Yield a column's digits, the lowest one first."""
    value = "quarter_hour - :first" if name == "quarter_hour" else name
    places = _places(name)
    lowest = value if places == 1 else f"{value} & {_NONE - 1}"
    yield f"ifnull({lowest}, {_NONE})" if name in _MARKED else lowest
    for at in range(1, places):
        digit = f"{value} >> {at * _BITS}"
        yield digit if places == 2 else f"({digit}) & {_NONE - 1}"  # of two, what is too high is to be seen


def _decoded(connection: sa.Connection, bounds: Mapping[str, int]) -> Whole | None:
    """Return the attempts of a stretch; None where a number has more digits than it is given."""
    first = bounds["low"] // QUARTER_HOUR_US
    with closing(connection.connection.cursor()) as cursor:
        [(packed,)] = cursor.execute(_text(), {**bounds, "first": first}).fetchall()
        if packed is None:
            return np.empty((len(COLUMNS), 0), np.int64)
        digits = digits_of(packed, sum(_WIDTHS))
        if b"\xef\xbf\xbd" in packed and not _all_fit(cursor, bounds, digits):
            return None
    table: Whole = digits[_FIRST].astype(np.int64)
    for at, places in enumerate(_WIDTHS):
        for place in range(1, places):
            table[at] |= digits[_FIRST[at] + place].astype(np.int64) << (place * _BITS)
    table[0] += first
    for at in _MARKED_PLACES:
        table[at][digits[_FIRST[at]] == _NONE] = NULL
    return table


def digits_of(packed: bytes, width: int) -> NDArray[np.uint32]:
    """Return the digits that a text is made of: a column for each row.

    Args:
        packed: the text in UTF-8.
        width: how many digits a row has.
    """
    text = packed.decode("utf-8", "surrogatepass")  # half of a surrogate pair is a digit like any other
    return np.ascontiguousarray(np.array([text]).view(np.uint32).reshape(-1, width).T)


def _all_fit(cursor: Any, bounds: Mapping[str, int], digits: NDArray[np.uint32]) -> bool:
    """Return whether what may stand for a number that is no code point is a digit after all."""
    doubtful = [
        (name, 0x110000 << (_BITS * (places - 1)))
        for name, places, last in zip(COLUMNS, _WIDTHS, _LAST.tolist(), strict=True)
        if places < 4 and (digits[last] == _DOUBT).any()
    ]
    if not doubtful:
        return True
    ends = ", ".join(f"min({name}), max({name})" for name, _ in doubtful)
    within = _WITHIN.format(low=":low", high=":high")
    [found] = cursor.execute(f"SELECT {ends} FROM {attempts.name} WHERE {within}", bounds).fetchall()  # noqa: S608 - ours
    pairs: Sequence[tuple[int, int]] = list(zip(found[::2], found[1::2], strict=True))
    return all(low >= 0 and high < limit for (low, high), (_, limit) in zip(pairs, doubtful, strict=True))
