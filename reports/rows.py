"""The ledger's groups as columns: labels as small numbers, sums as whole numbers, summed by any label without a loop.

In: a reader, a span, the columns to group by. Out: `Rows`. Invariant: every sum is exact, however large: columns are of
64 bits only where no sum of them can leave those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from reports.frames import LedgerReader
    from reports.period import DayPart

Whole: TypeAlias = NDArray[Any]
"""A column of whole numbers: int64, or Python's own where those would not do."""
Codes: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
_SAFE = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The line that each row belongs to. `codes` are places in `names`, one a row; None: the line is not known."""

    codes: Codes
    names: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Groups of attempts.

    Args:
        size: how many groups there are.
        values: the distinct values of each column.
        codes: for each of those columns a place in its values, one a row.
        sums: columns of whole numbers by name, one number a row.
    """

    size: int
    values: Mapping[str, tuple[Any, ...]]
    codes: Mapping[str, Codes]
    sums: Mapping[str, Whole] = field(default_factory=dict)

    def labels(self, columns: Sequence[str], name_of: Callable[..., Any] | None = None) -> Labels:
        """Return each row's line.

        Args:
            columns: columns that the line is read from.
            name_of: makes the line's name of their values; None: the first one that is known.
        """
        combined = self.combined([self.codes[column] for column in columns])
        kinds, first, codes = np.unique(combined, return_index=True, return_inverse=True)
        names: dict[Any, int] = {}
        places = np.zeros(len(kinds), dtype=np.int64)
        for kind, row in enumerate(first.tolist()):
            found = [self.values[column][self.codes[column][row]] for column in columns]
            name = name_of(*found) if name_of else next((value for value in found if value is not None), None)
            places[kind] = names.setdefault(name, len(names))
        return Labels(places[codes.reshape(-1)], tuple(names))

    def combined(self, codes: Iterable[Codes]) -> Codes:
        """Return one code for each combination of several codes a row."""
        found = np.zeros(self.size, dtype=np.int64)
        for each in codes:
            _, inverse = np.unique(found * (int(each.max(initial=0)) + 1) + each, return_inverse=True)
            found = inverse.reshape(-1).astype(np.int64)
        return found

    def are(self, column: str, *values: object) -> Flags:
        """Return which rows have one of these values in a column."""
        return self.hold(column, lambda value: value in values)

    def hold(self, column: str, rule: Callable[[Any], bool]) -> Flags:
        """Return which rows have a value in a column for which a rule holds."""
        flags = np.array([rule(value) for value in self.values[column]], dtype=bool)
        return flags[self.codes[column]] if self.size else np.zeros(0, dtype=bool)

    def where(self, flags: Flags) -> Rows:
        """Return the rows that are flagged."""
        return Rows(
            int(flags.sum()),
            self.values,
            {name: codes[flags] for name, codes in self.codes.items()},
            {name: column[flags] for name, column in self.sums.items()},
        )

    def with_sums(self, **columns: Whole) -> Rows:
        """Return the rows with further columns of whole numbers."""
        return replace(self, sums={**self.sums, **columns})


class Grouping:
    """Sums columns by a code: `codes` of `count` kinds, one a row."""

    def __init__(self, codes: Codes, count: int) -> None:
        self._count = count
        self._order = np.argsort(codes, kind="stable")
        ordered = codes[self._order]
        self._present = np.unique(ordered)
        self._starts = np.searchsorted(ordered, self._present)

    def sums(self, column: Whole) -> list[int]:
        """Return the column's exact sum of each code; 0 where no row has it."""
        found = [0] * self._count
        if len(column):
            totals = np.add.reduceat(_unbounded(column)[self._order], self._starts)
            for code, total in zip(self._present.tolist(), totals.tolist(), strict=True):
                found[code] = total
        return found


def column_of(values: Sequence[int]) -> Whole:
    """Return whole numbers as a column."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


def total_of(column: Whole) -> int:
    """Return a column's exact sum."""
    return int(_unbounded(column).sum()) if len(column) else 0


def read_rows(reader: LedgerReader, parts: Sequence[DayPart]) -> Rows:
    """Return the groups of some spans by everything that the ledger groups by.

    Args:
        reader: the ledger's.
        parts: the spans.

    Returns:
        Columns: `router.ledger.sums.KEY_COLUMNS`, and of the spans `part` (its place), `local_day`, `utc_day` (dates)
        and `hour`; sums as in `router.ledger.queries.SUM_NAMES`.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from router.ledger.sums import KEY_COLUMNS, SUM_NAMES

    cube = reader.usage_cube([(part.start_us, part.end_us) for part in parts])
    ids, key = np.unique(cube.key_ids, return_inverse=True)
    span = cube.times["span"]
    columns: dict[str, tuple[list[Any], Codes]] = {
        name: ([cube.keys[identity][at] for identity in ids.tolist()], key) for at, name in enumerate(KEY_COLUMNS)
    }
    columns["part"] = (list(range(len(parts))), span)
    columns["local_day"] = ([part.day for part in parts], span)
    columns["utc_day"] = ([part.utc_day for part in parts], span)
    columns["hour"] = ([part.hour for part in parts], span)
    values: dict[str, tuple[Any, ...]] = {}
    codes: dict[str, Codes] = {}
    for name, (found, places) in columns.items():
        distinct = {value: at for at, value in enumerate(dict.fromkeys(found))}
        values[name] = tuple(distinct)
        codes[name] = np.array([distinct[value] for value in found], dtype=np.int64)[places.reshape(-1)]
    sums = {name: cube.sums[:, at] for at, name in enumerate(SUM_NAMES)}
    return Rows(len(span), values, codes, sums)


def _unbounded(column: Whole) -> Whole:
    """Return a column whose sum cannot overflow."""
    if column.dtype == object or not len(column):
        return column
    largest = max(int(column.max()), -int(column.min()))
    return column if largest * len(column) < _SAFE else column.astype(object)
