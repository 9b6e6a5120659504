"""Whole columns of usage priced at once, each row as `price_call` prices one call, to the last digit.

In: columns of disjoint integer buckets, what the rows were served and priced with, and when. Out: columns of cost in
two integers and of status. Invariant: a row's result is `price_call`'s; rows go through in pieces, so the memory needed
beyond the columns grows neither with their number nor with how often they are priced. `import pricing` does not load
this module, because it needs numpy: `from pricing import bulk`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pricing.bulk_rates import Served, ServedRates
from pricing.cost import CostStatus, price_call
from pricing.errors import PricingError, UsageError
from pricing.money import MICRO, join_amount, split_amount
from pricing.rates import BUCKET_COMPONENTS, OUTPUT, REASONING
from pricing.usage import INPUT_BUCKETS, Usage

__all__ = ["STATUSES", "UNPRICED", "PricedColumns", "Served", "Totals", "price", "total"]

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

STATUSES: tuple[CostStatus, ...] = ("exact", "estimated", "partial", "unknown")
"""What the numbers in a status column stand for."""

UNPRICED = -1
"""Stands in both cost columns where the status is unknown; no cost is negative."""

_EXACT, _ESTIMATED, _PARTIAL, _UNKNOWN = range(4)
_BUCKETS = tuple(bucket for bucket, _ in BUCKET_COMPONENTS)
_INPUT = frozenset(_BUCKETS.index(bucket) for bucket in INPUT_BUCKETS)
_ROWS_AT_ONCE = 1 << 15  # a piece's columns of 256 kB stay in a processor's cache
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US, _LAST_US = (
    (edge.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    for edge in (datetime.min, datetime.max)  # noqa: DTZ901 - it has
)
_GREATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Totals:
    """What all rows cost together.

    Args:
        total: sum over the rows whose cost is not unknown, exact; in the currency of their price sets.
        currency: ISO 4217 code; None where no row had prices.
        rows: number of rows by status.
    """

    total: Decimal
    currency: str | None
    rows: Mapping[CostStatus, int]


@dataclass(frozen=True, slots=True, eq=False)
class PricedColumns:
    """What each row costs.

    Args:
        cost_micro: whole 1e-6 units of the row's price set's currency; `UNPRICED` where the status is unknown.
        cost_pico: the rest in 1e-12 units, 0 to 999,999; `UNPRICED` where the status is unknown.
        status: index into `STATUSES`.
    """

    cost_micro: Whole
    cost_pico: Whole
    status: NDArray[np.uint8]


def price(
    buckets: Mapping[str, NDArray[Any]],
    served: Served | Sequence[Served],
    *,
    at: datetime | NDArray[np.datetime64],
    group: NDArray[Any] | None = None,
    known: Flags | None = None,
) -> PricedColumns:
    """Return what each row of some columns costs.

    Args:
        buckets: columns of whole numbers of 0 or more, all of one length, by the name of a bucket of `Usage`; a bucket
            without a column is 0.
        served: what the rows were priced and served with; several: `group` says which holds for a row.
        at: when: one aware instant for all rows, or a column of UTC instants of any unit (finer than 1e-6 s is cut).
        group: for each row an index into `served`; None: the first one for all.
        known: for each row whether its usage is known; None: for all.

    Raises:
        PricingError: a bucket does not exist, columns are of different lengths or of another type, a group or an
            instant is none.
        UsageError: a count is negative, or a row's cost is above 2^63 × 1e-6.
    """
    work = _Work.of(buckets, served, at, group, known)
    columns = PricedColumns(np.empty(work.rows, np.int64), np.empty(work.rows, np.int64), np.empty(work.rows, np.uint8))
    for rows, micro, pico, status in _priced(work):
        columns.cost_micro[rows], columns.cost_pico[rows], columns.status[rows] = micro, pico, status
    return columns


def total(
    buckets: Mapping[str, NDArray[Any]],
    served: Served | Sequence[Served],
    *,
    at: datetime | NDArray[np.datetime64],
    group: NDArray[Any] | None = None,
    known: Flags | None = None,
) -> Totals:
    """Return what all rows of some columns cost together, without a column for it.

    Args:
        buckets: as for `price`.
        served: as for `price`; all of one currency.
        at: as for `price`.
        group: as for `price`.
        known: as for `price`.

    Raises:
        PricingError: as for `price`, and where the price sets are of several currencies.
        UsageError: as for `price`.
    """
    work = _Work.of(buckets, served, at, group, known)
    currencies = sorted({each.prices.currency for each in work.rates.served if each.prices is not None})
    if len(currencies) > 1:
        message = f"currency: amounts in {', '.join(currencies)} cannot be added up; one currency is allowed"
        raise PricingError(message, hint="price the rows of each currency apart")
    micro_sum = pico_sum = 0
    counts = np.zeros(len(STATUSES), np.int64)
    for _, micro, pico, status in _priced(work):
        is_priced = status != _UNKNOWN
        micro_sum += _sum(micro[is_priced])
        pico_sum += _sum(pico[is_priced])
        counts += np.bincount(status, minlength=len(STATUSES))
    by_status = dict(zip(STATUSES, counts.tolist(), strict=True))
    return Totals(join_amount(micro_sum, pico_sum), currencies[0] if currencies else None, by_status)


def _sum(column: Whole) -> int:
    """Return an exact sum; a piece's halves of 32 bits cannot overflow."""
    halves: list[int] = [int(np.sum(column >> 32)), int(np.sum(column & 0xFFFFFFFF))]
    return (halves[0] << 32) + halves[1]


@dataclass(frozen=True, slots=True)
class _Work:
    """Checked columns; `counts` by index into `BUCKET_COMPONENTS`."""

    rows: int
    counts: Mapping[int, NDArray[Any]]
    rates: ServedRates
    at: datetime | NDArray[np.datetime64]
    group: NDArray[Any] | None
    known: Flags | None

    @staticmethod
    def of(
        buckets: Mapping[str, NDArray[Any]],
        served: Served | Sequence[Served],
        at: datetime | NDArray[np.datetime64],
        group: NDArray[Any] | None,
        known: Flags | None,
    ) -> _Work:
        several = (served,) if isinstance(served, Served) else tuple(served)
        columns: dict[str, NDArray[Any] | None] = {**buckets, "group": group, "known": known}
        columns["at"] = at if isinstance(at, np.ndarray) else None
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        for name in buckets:
            _check_bucket(name)
        if len(set(lengths.values())) != 1:
            message = (
                f"columns: lengths {lengths} differ; one length for all is allowed" if lengths else "columns: none"
            )
            raise PricingError(message, hint="a row is what stands at one index of every column")
        for name, column in columns.items():
            if column is not None:
                _check_type(name, column, {"known": "b", "at": "M"}.get(name, "iu"))
        _check_group(group, len(several))
        if isinstance(at, datetime) and at.tzinfo is None:
            raise PricingError(f"at: {at} has no zone; an aware instant is allowed")
        counts = {_BUCKETS.index(name): column for name, column in buckets.items()}
        return _Work(next(iter(lengths.values())), counts, ServedRates(several), at, group, known)

    def piece(self, rows: slice) -> _Piece:
        """Return some rows, as numbers to calculate with."""
        counts = {index: column[rows].astype(np.int64, copy=False) for index, column in self.counts.items()}
        for index, column in counts.items():
            if column.min() < 0:
                row = int(column.argmin())
                message = f"usage: {_BUCKETS[index]} of row {rows.start + row} is {column[row]}; 0 or more is allowed"
                raise UsageError(message, hint="nothing is priced; take the row out or mark it unknown")
        at_us: Any
        if isinstance(self.at, datetime):
            at_us = np.int64((self.at - _EPOCH) // _MICROSECOND)
        else:
            at_us = self.at[rows].astype("datetime64[us]").view(np.int64)
            wrong = np.flatnonzero((at_us < _FIRST_US) | (at_us > _LAST_US))
            if wrong.size:
                row = rows.start + int(wrong[0])
                raise PricingError(
                    f"at: {self.at[row]} of row {row} is not allowed; an instant of the years 1 to 9999 is"
                )
        group = None if self.group is None else self.group[rows]
        return _Piece(rows, counts, at_us, group, None if self.known is None else self.known[rows])


@dataclass(frozen=True, slots=True)
class _Piece:
    rows: slice
    counts: dict[int, Whole]
    at_us: Any
    group: NDArray[Any] | None
    known: Flags | None

    @property
    def size(self) -> int:
        size: int = self.rows.stop - self.rows.start
        return size


def _check_bucket(name: str) -> None:
    if name not in _BUCKETS:
        near = difflib.get_close_matches(name, _BUCKETS, n=1)
        said = f"did you mean {near[0]!r}?" if near else f"{', '.join(_BUCKETS)} are allowed"
        raise PricingError(f"columns: {name!r} is no bucket of usage; {said}")


def _check_type(name: str, column: NDArray[Any], kinds: str) -> None:
    if column.ndim != 1 or column.dtype.kind not in kinds:
        allowed = {"b": "booleans", "M": "UTC instants (datetime64)", "iu": "whole numbers"}[kinds]
        message = f"columns: {name} is of {column.dtype} in {column.ndim} dimensions; a column of {allowed} is allowed"
        raise PricingError(message)


def _check_group(group: NDArray[Any] | None, several: int) -> None:
    found = [0] if group is None or not group.size else [int(group.min()), int(group.max())]
    for index in found:
        if not 0 <= index < several:
            raise PricingError(f"group: {index} is not allowed; an index of one of {several} of `served` is")


def _priced(work: _Work) -> Iterator[tuple[slice, Whole, Whole, NDArray[np.uint8]]]:
    """Yield rows, micro, pico and status of one piece after the other."""
    for start in range(0, work.rows, _ROWS_AT_ONCE):
        piece = work.piece(slice(start, min(start + _ROWS_AT_ONCE, work.rows)))
        huge = _huge(piece, work.rates.most_of_one_kind)
        amount, status = _amounts(piece, work.rates)
        micro = amount // MICRO
        pico = amount - micro * MICRO
        for row in huge:
            micro[row], pico[row], status[row] = _alone(work, start + int(row))
        unknown = status == _UNKNOWN
        if unknown.any():
            micro[unknown] = pico[unknown] = UNPRICED
        yield piece.rows, micro, pico, status


def _huge(piece: _Piece, most: int) -> Whole:
    """Return the rows with a count so large that a product might not fit 64 bits; their counts are set to 0 here."""
    if most == 0:
        found = np.ones(piece.size, np.bool_)
    else:
        found = np.zeros(piece.size, np.bool_)
        for column in piece.counts.values():
            if column.max() > most:
                found |= column > most
    rows = np.flatnonzero(found)
    if rows.size:
        for index, column in piece.counts.items():
            piece.counts[index] = np.where(found, 0, column)
    return rows


def _amounts(piece: _Piece, rates: ServedRates) -> tuple[Whole, NDArray[np.uint8]]:
    """Return each row's cost in 1e-12 units, and its status."""
    inputs = [column for index, column in piece.counts.items() if index in _INPUT]
    cells = rates.cells(piece.size, inputs, piece.at_us, piece.group)
    amount = np.zeros(piece.size, np.int64)
    unpriced: Flags | None = None
    is_priced = np.zeros(piece.size, np.bool_)
    has_gaps = rates.has_gaps
    for index, counts in _with_reasoning_placed(piece.counts, rates, cells):
        amount += rates.line(index, counts, cells)
        if has_gaps:
            used, has_price = counts > 0, rates.has_price(index, cells)
            gap = used & ~has_price
            unpriced = gap if unpriced is None else unpriced | gap
            is_priced |= used & has_price
    status = rates.estimated(piece.size, piece.group)
    if unpriced is not None:
        status[unpriced] = np.where(is_priced[unpriced], _PARTIAL, _UNKNOWN)
    never = rates.without_prices(piece.at_us, piece.group)
    if never is not None:
        status[never] = _UNKNOWN
    if piece.known is not None:
        status[~piece.known] = _UNKNOWN
    return amount, status


def _with_reasoning_placed(
    counts: Mapping[int, Whole], rates: ServedRates, cells: NDArray[np.intp]
) -> Iterator[tuple[int, Whole]]:
    """Yield each line's counts; reasoning without a price of its own is inside output."""
    placed = dict(counts)
    if REASONING in placed:
        apart = rates.reasoning_apart(cells)
        reasoning = placed[REASONING]
        placed[OUTPUT] = placed.get(OUTPUT, np.int64(0)) + np.where(apart, 0, reasoning)
        placed[REASONING] = np.where(apart, reasoning, 0)
    for index, column in placed.items():
        if column.any():
            yield index, column


def _alone(work: _Work, row: int) -> tuple[int, int, int]:
    """Return micro, pico and status of one row, priced with integers of any size."""
    served = work.rates.served[0 if work.group is None else int(work.group[row])]
    usage = Usage(**{_BUCKETS[index]: int(column[row]) for index, column in work.counts.items()})
    at_us = work.piece(slice(row, row + 1)).at_us
    cost = price_call(
        None if work.known is not None and not work.known[row] else usage,
        served.prices,
        at=_EPOCH + int(np.max(at_us)) * _MICROSECOND,
        service_tier=served.service_tier,
        batch=served.batch,
        region=served.region,
        estimated=served.estimated,
    )
    micro, pico = (UNPRICED, UNPRICED) if cost.total is None else split_amount(cost.total)
    if micro > _GREATEST:
        message = f"usage: row {row} costs {cost.total}; at most 2^63 × 1e-6 fits a column"
        raise UsageError(message, hint="no call costs that; the row's counts are damaged")
    return micro, pico, STATUSES.index(cost.status)
