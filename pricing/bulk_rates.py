"""The rates of several price sets as tables of integers, for whole columns.

In: what rows were served and priced with; then pieces of columns. Out: for each row the number of its *cell*, and with
it lines in 1e-12 units. A cell is one quote of `pricing.rates`: a group, a context tier and a clock state. Invariant:
every rate is `whole + part / divisor` of 1e-12 a token, exact, and a line is rounded half-even as `round_amount` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pricing.conditions import Conditions
from pricing.prices import PriceSet
from pricing.rates import BUCKET_COMPONENTS, Quote, Rate, Rates, rate_of, rates_of

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
Cells = NDArray[np.intp]

LEAST_INSTANT_US = -(2**63)
"""No instant: what numpy stores for NaT."""

_NEVER = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = len(BUCKET_COMPONENTS)
_FITS = 2**62
_MOST_LISTED = 1 << 22  # codes with a table of their own; more are looked up one by one
_MINUTE_US = 60 * 1_000_000
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Served:
    """What a group of rows was priced and served with; the arguments of `price_call` that are not a row's own.

    Args:
        prices: the rows in force; None: unknown.
        service_tier: the tier that was served, as the vendor names it; None: its plain tier.
        batch: whether the batch API served it; a tier called "batch" means the same.
        region: the region that served, or None.
        estimated: whether the token counts are estimates.
    """

    prices: PriceSet | None
    service_tier: str | None = None
    batch: bool = False
    region: str | None = None
    estimated: bool = False


class ServedRates:
    """The cells of some groups, filled as their rows appear.

    Args:
        served: the groups.
    """

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = tuple(served)
        self._rates = [None if each.prices is None else rates_of(each.prices) for each in self.served]
        made = [rates for rates in self._rates if rates is not None]
        thresholds = sorted({bound for rates in made for bound in rates.boundaries if bound < _FITS})
        self._thresholds = np.array(thresholds, np.int64)
        self._clocks = tuple(dict.fromkeys(rates.clocks for rates in made if rates.clocks))
        self._states = 1 << max((len(clocks) for clocks in self._clocks), default=0)
        self._tiers = len(thresholds) + 1
        self._starts, self._ends, self._retired = (
            np.array(column, np.int64) for column in zip(*map(_dates, self._rates), strict=True)
        )
        codes = len(self.served) * self._tiers * self._states
        self._cell_of_code = np.full(codes, -1, np.intp) if codes <= _MOST_LISTED else None
        self._cells: dict[int, int] = {}
        self._quotes: list[Quote] = []
        self._tables = _Tables(())
        self.most_of_one_kind = _most_of_one_kind(made)

    @property
    def has_gaps(self) -> bool:
        """Whether some cell in use has a bucket without a price."""
        return not self._tables.has_price.all()

    def cells(self, size: int, inputs: Sequence[Whole], at_us: Any, group: NDArray[Any] | None) -> Cells:
        """Return the number of each row's cell.

        Args:
            size: number of rows.
            inputs: the columns of input, tokens; their sum decides the context tier.
            at_us: instant or column of instants, microseconds since 1970 UTC.
            group: for each row an index into `served`; None: the first for all.
        """
        code = np.zeros(size, np.int64) if group is None else group.astype(np.int64) * (self._tiers * self._states)
        if self._tiers > 1 and inputs:
            context = np.searchsorted(self._thresholds, sum(inputs[1:], inputs[0]), side="left")
            code += context * self._states
        if self._clocks:
            code += self._clock(at_us, group)
        return self._cells_of(code)

    def line(self, index: int, counts: Whole, cells: Cells) -> Whole:
        """Return one component's line of each row in 1e-12 units, rounded half-even; 0 where it has no price.

        Args:
            index: of the bucket in `BUCKET_COMPONENTS`.
            counts: at most twice `most_of_one_kind`.
            cells: as `cells` returned them.
        """
        tables = self._tables
        amount: Whole = counts * tables.whole[index].take(cells)
        if tables.part[index].any():
            divisor = tables.divisor[index].take(cells)
            numerator = counts * tables.part[index].take(cells)
            floor = numerator // divisor
            twice_rest = 2 * (numerator - floor * divisor)
            amount += floor
            amount += (twice_rest > divisor) | ((twice_rest == divisor) & (amount % 2 == 1))
        return amount

    def has_price(self, index: int, cells: Cells) -> Flags:
        """Return for each row whether a bucket has a price."""
        found: Flags = self._tables.has_price[index].take(cells)
        return found

    def reasoning_apart(self, cells: Cells) -> Flags:
        """Return for each row whether reasoning has a price of its own."""
        found: Flags = self._tables.reasoning_apart.take(cells)
        return found

    def estimated(self, size: int, group: NDArray[Any] | None) -> NDArray[np.uint8]:
        """Return for each row 1 where its counts are estimates, else 0."""
        flags = np.array([each.estimated for each in self.served], np.uint8)
        return np.full(size, flags[0], np.uint8) if group is None else flags[group]

    def without_prices(self, at_us: Any, group: NDArray[Any] | None) -> Any:
        """Return the rows whose set is unknown or not in force at their instant; None where there are none."""
        first, last = np.min(at_us, initial=_NEVER), np.max(at_us, initial=LEAST_INSTANT_US)
        if self._starts.max() <= first and last < self._ends.min():
            return None
        starts, ends, retired = (
            column[0] if group is None else column[group] for column in (self._starts, self._ends, self._retired)
        )
        in_force = ((starts <= at_us) & (at_us < ends)) | (at_us >= retired)
        return slice(None) if in_force.ndim == 0 and not in_force else None if in_force.ndim == 0 else ~in_force

    def _clock(self, at_us: Any, group: NDArray[Any] | None) -> Any:
        """Return the clock state of each row's set."""
        minutes = at_us // _MINUTE_US
        found: Any = 0
        for clocks in self._clocks:
            states = sum(_holds(clock, minutes).astype(np.int64) << bit for bit, clock in enumerate(clocks))
            is_theirs = np.array([rates is not None and rates.clocks == clocks for rates in self._rates])
            found = found + states * (is_theirs[0] if group is None else is_theirs[group])
        return found

    def _cells_of(self, code: Whole) -> Cells:
        if self._cell_of_code is None:
            codes, places = np.unique(code, return_inverse=True)
            listed = np.array([self._cell(int(each)) for each in codes], np.intp)
            self._tabulate()
            return listed[places]
        cells = self._cell_of_code.take(code)
        if cells.min(initial=0) < 0:
            for each in np.unique(code[cells < 0]):
                self._cell_of_code[each] = self._cell(int(each))
            self._tabulate()
            cells = self._cell_of_code.take(code)
        return cells

    def _cell(self, code: int) -> int:
        if code not in self._cells:
            self._cells[code] = len(self._quotes)
            rest, clock = divmod(code, self._states)
            group, context = divmod(rest, self._tiers)
            self._quotes.append(self._quote(group, context, clock))
        return self._cells[code]

    def _quote(self, group: int, context: int, clock: int) -> Quote:
        served, rates = self.served[group], self._rates[group]
        if rates is None:
            return Quote(tuple(rate_of(component, None) for _, component in BUCKET_COMPONENTS), reasoning_apart=False)
        passed = int(self._thresholds[context - 1]) if context else -1
        own_context = sum(bound <= passed for bound in rates.boundaries)
        return rates.quote(served.service_tier, served.region, own_context, clock, batch=served.batch)

    def _tabulate(self) -> None:
        if len(self._quotes) > len(self._tables.reasoning_apart):
            self._tables = _Tables(self._quotes)


class _Tables:
    """Rates by bucket, then by cell."""

    def __init__(self, quotes: Sequence[Quote]) -> None:
        shape = (_KINDS, len(quotes))
        self.whole, self.part = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.divisor = np.ones(shape, np.int64)
        self.has_price = np.zeros(shape, np.bool_)
        self.reasoning_apart = np.array([quote.reasoning_apart for quote in quotes], np.bool_)
        for cell, quote in enumerate(quotes):
            for index, rate in enumerate(quote.rates):
                self.has_price[index, cell] = rate.per_one is not None
                whole, part, divisor = _integers(rate)
                if max(whole, divisor) < _FITS:
                    self.whole[index, cell], self.part[index, cell], self.divisor[index, cell] = whole, part, divisor


def _integers(rate: Rate) -> tuple[int, int, int]:
    """Return whole, part and divisor of a rate in 1e-12 units for one token or call."""
    if rate.per_one is None:
        return 0, 0, 1
    picos = Fraction(rate.per_one) * 10**12
    whole, part = divmod(picos.numerator, picos.denominator)
    return whole, part, picos.denominator


def _most_of_one_kind(made: Sequence[Rates]) -> int:
    """Return the largest count of which no product and no sum over the lines of a row leaves 64 bits; 0: none."""
    rates = [_integers(rate_of(row.component, row)) for each in made for row in each.prices.rows]
    largest = max((max(whole + 1, 2 * divisor) for whole, _, divisor in rates), default=1)
    return _FITS // (_KINDS * largest)


def _dates(rates: Rates | None) -> tuple[int, int, int]:
    """Return the start, end and retirement of a set in microseconds since 1970 UTC."""
    if rates is None:
        return _NEVER, LEAST_INSTANT_US, _NEVER
    return (
        _microseconds(rates.start, LEAST_INSTANT_US),
        _microseconds(rates.end, _NEVER),
        _microseconds(rates.prices.retired_at, _NEVER),
    )


def _microseconds(instant: datetime | None, otherwise: int) -> int:
    return otherwise if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)


def _holds(clock: Conditions, minutes: Any) -> Any:
    """Return what `Conditions.holds_at` does, for minutes since 1970 UTC."""
    days, minute = minutes // _DAY_MINUTES, minutes % _DAY_MINUTES
    found = np.ones(np.shape(minutes), np.bool_)
    if clock.weekdays:
        found &= np.isin((days + 3) % 7 + 1, clock.weekdays)  # 1970-01-01 was a Thursday
    if clock.windows_utc:
        inside = [(start <= minute) & (minute < end) for start, end in clock.windows_utc]
        found &= np.logical_or.reduce(inside)
    if clock.holidays:
        found &= ~np.isin(days, [(day - _EPOCH.date()).days for day in clock.holidays])
    return found
