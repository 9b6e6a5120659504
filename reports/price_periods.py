"""When prices change: a month cut where any of some models' prices does.

In: price rows, a span of time. Out: spans, each with the number of its period. Invariant: spans are whole quarter hours
and partition the whole; within a period no price of those models changes, so that tokens of one period may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pricing import Catalog, UnknownModel
from pricing.conditions import Conditions
from pricing.prices import PriceRow
from reports.period import QUARTER_HOUR_US, at_us, to_us


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, half-open, microseconds since 1970 UTC; spans of one `period` have the same prices."""

    start_us: int
    end_us: int
    period: int


def rows_sold(sold: Iterable[tuple[str, str]], catalog: Catalog) -> tuple[PriceRow, ...]:
    """Return every row that models ever had at lists; what a list does not sell has none.

    Args:
        sold: pairs of model and price list.
        catalog: the price catalogue.
    """
    found: list[PriceRow] = []
    for model, price_list in sold:
        try:
            found += catalog.history(model, price_list)
        except UnknownModel:
            continue
    return tuple(found)


def price_spans(rows: Iterable[PriceRow], start_us: int, end_us: int) -> tuple[Span, ...]:
    """Return a stretch of time, cut where the prices change.

    A price that changes within a quarter hour changes at its end, because that is as fine as the ledger's groups are.

    Args:
        rows: the rows that matter.
        start_us: first instant, on a quarter hour, microseconds since 1970 UTC.
        end_us: first instant after it, alike.
    """
    kept = tuple(rows)
    dated = {
        to_us(edge)
        for row in kept
        for edge in (row.effective_from, row.effective_to)
        if edge is not None and at_us(start_us) < edge < at_us(end_us)
    }
    eras = sorted({start_us, *(-(-edge // QUARTER_HOUR_US) * QUARTER_HOUR_US for edge in dated)} - {end_us})
    timed = tuple(dict.fromkeys(row.conditions for row in kept if row.conditions.timed))
    numbers: dict[tuple[object, ...], int] = {}
    spans: list[Span] = []
    for era, (start, end) in enumerate(zip(eras, [*eras[1:], end_us], strict=True)):
        for first, after, clock in _by_clock(timed, start, end):
            number = numbers.setdefault((era, clock), len(numbers))
            spans.append(Span(first, after, number))
    return tuple(spans)


def _by_clock(timed: Sequence[Conditions], start_us: int, end_us: int) -> Iterable[tuple[int, int, tuple[bool, ...]]]:
    """Yield (start, end, which conditions hold) of each stretch in which the same ones do."""
    if not timed:
        yield start_us, end_us, ()
        return
    first, clock = start_us, _clock(timed, at_us(start_us))
    for now_us in range(start_us + QUARTER_HOUR_US, end_us, QUARTER_HOUR_US):
        found = _clock(timed, at_us(now_us))
        if found != clock:
            yield first, now_us, clock
            first, clock = now_us, found
    yield first, end_us, clock


def _clock(timed: Sequence[Conditions], at: datetime) -> tuple[bool, ...]:
    return tuple(conditions.holds_at(at) for conditions in timed)
