"""Spend and calls by day: what a forecast is made from.

In: a ledger's reader, the days wanted, a currency. Out: a `DailySeries` of whole days, and today's part apart.
Invariant: amounts are exact; a day without calls is there, with 0; the sum of the days and of today's part is what the
ledger has for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from pricing import FxError, join_amount
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.period import DayPart, Period, at_us, day_parts, to_us

if TYPE_CHECKING:
    from router.ledger.groups import UsageGroup

MOST_DAYS = 400
"""How far back a forecast looks: a year and some weeks."""

_ONE_DAY = timedelta(days=1)
_FAILED = ("failed", "timed_out")
_WHOLE = ("exact", "estimated")
_MODEL = ("model_served", "model_asked")
_NOTHING = (0, Fraction(0))
_EVERYTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Calls and spend of consecutive whole days.

    Args:
        first: the first day.
        calls: calls of each day from the first on; 0 on a day without any, and on all where nobody counted them.
        spend: settled cost of each day, in units of `currency`.
        currency: ISO 4217 code.
        today_calls: calls so far of the day after the last one; it is not over, so that it is no day of the series.
        today_spend: its spend so far.
        unpriced: records whose cost is not known whole, so that spend is a lower bound; 0: none.
    """

    first: date
    calls: tuple[int, ...]
    spend: tuple[Fraction, ...]
    currency: str
    today_calls: int = 0
    today_spend: Fraction = Fraction(0)
    unpriced: int = 0

    def __post_init__(self) -> None:
        """Refuse two columns that do not match, and amounts that no day can have."""
        if len(self.calls) != len(self.spend):
            message = f"daily series: {len(self.calls)} days of calls and {len(self.spend)} of spend"
            raise ValueError(message)
        columns: tuple[tuple[int | Fraction, ...], ...] = (self.calls, self.spend, (self.today_calls, self.today_spend))
        if any(value < 0 for column in columns for value in column):
            message = "daily series: a day of less than 0 is not allowed"
            raise ValueError(message)

    @property
    def today(self) -> date:
        """The day after the last whole one: the first that a forecast has to fill."""
        return self.first + len(self.calls) * _ONE_DAY

    def spent(self, first: date, last: date) -> Fraction:
        """Return the spend on record from one day to another, both included, today's part with it."""
        start, end = (first - self.first).days, (last - self.first).days + 1
        part = self.today_spend if first <= self.today <= last else Fraction(0)
        return sum(self.spend[max(start, 0) : max(end, 0)], part)

    def until(self, day: date) -> DailySeries:
        """Return the days before a day, as they were known at its first instant.

        Args:
            day: from the series' first day to the one after its last.
        """
        days = (day - self.first).days
        return DailySeries(self.first, self.calls[:days], self.spend[:days], self.currency)


def daily_series(
    reader: LedgerReader,
    period: Period,
    exchange: Exchange,
    now: datetime,
    *,
    where: Mapping[str, str] = _EVERYTHING,
) -> DailySeries:
    """Return the ledger's calls and settled cost by local day, up to `MOST_DAYS` before the end of what is known.

    Args:
        reader: the ledger's.
        period: gives the time zone, and an end: days after it are left out.
        exchange: converts each day's amounts at the rate of its UTC day; it remembers the rates of the period alone.
        now: aware instant; the day it lies in is not over.
        where: values of `router.ledger.queries.GROUP_COLUMNS`, for instance `{"configuration": "hybrid"}` or
            `{"tenant": "acme"}`: only calls that have them. `model` is the model that answered or else was asked for.

    Returns:
        Days from the first with a record on; no day at all where there is none. A past before which a rate is
        missing is left out.

    Raises:
        FxError: an amount of the period cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    ended = to_us(now) >= period.end_us
    today = at_us(min(to_us(now), period.end_us)).astimezone(period.zone).date()
    history = exchange.apart()
    found: dict[date, tuple[int, Fraction]] = {}
    unknown, is_counted = date.min, True
    unpriced = 0
    for part, group, priced in _groups(reader, period, today, where):
        is_past = part.day < period.first_day
        try:
            amount = _spend(group, priced.currency, part.utc_day, history if is_past else exchange)
        except FxError:
            if not is_past:
                raise
            unknown = max(unknown, part.day)  # the past may be shorter; what the page adds up may not
            continue
        is_counted = is_counted and not group.sums["requests_unknown"]
        unpriced += 0 if priced.is_whole else group.sums["records"]
        before = found.get(part.day, _NOTHING)
        found[part.day] = before[0] + _calls(group), before[1] + amount
    found = {day: row for day, row in found.items() if day > unknown}
    first = min((day for day in found if day < today), default=today)
    rows = [found.get(first + number * _ONE_DAY, _NOTHING) for number in range((today - first).days)]
    so_far = _NOTHING if ended else found.get(today, _NOTHING)
    return DailySeries(
        first=first,
        calls=tuple(row[0] if is_counted else 0 for row in rows),
        spend=tuple(row[1] for row in rows),
        currency=exchange.currency,
        today_calls=so_far[0] if is_counted else 0,
        today_spend=so_far[1],
        unpriced=unpriced,
    )


@dataclass(frozen=True, slots=True)
class _Priced:
    """What a group's spend is worth: its currency, None where no cost is known, and whether all of it is known."""

    currency: str | None
    is_whole: bool


def _groups(
    reader: LedgerReader, period: Period, today: date, where: Mapping[str, str]
) -> Iterator[tuple[DayPart, UsageGroup, _Priced]]:
    """Yield each group of records with the part of a day that it is of, up to the end of the period."""
    wanted = tuple(name for key in where for name in (_MODEL if key == "model" else (key,)))
    midnight = datetime.combine(today - MOST_DAYS * _ONE_DAY, datetime.min.time(), tzinfo=period.zone)
    parts = day_parts(min(to_us(midnight.astimezone(UTC)), period.start_us), period.end_us, period.zone)
    cube = reader.usage_cube([(part.start_us, part.end_us) for part in parts])
    for group in cube.groups(("span", "settled_currency", "cost_status", "status", "possibly_billed", *wanted)):
        span, currency, cost_status, status, is_billed, *values = group.key
        if _is_wanted(dict(zip(wanted, values, strict=True)), where):
            # What failed before it was served costs nothing, and is whole.
            is_free = cost_status == "unknown" and status in _FAILED and not is_billed
            yield parts[span], group, _Priced(currency, is_free or cost_status in _WHOLE)


def _calls(group: UsageGroup) -> int:
    """Return first attempts, and requests that somebody else has added up."""
    return group.sums["calls"] + group.sums["requests"] - group.sums["attempts"]


def _is_wanted(values: Mapping[str, str | None], where: Mapping[str, str]) -> bool:
    return all(
        (values["model_served"] or values["model_asked"] if key == "model" else values[key]) == value
        for key, value in where.items()
    )


def _spend(group: UsageGroup, currency: str | None, on: date, exchange: Exchange) -> Fraction:
    if currency is None:
        return Fraction(0)
    amount = Fraction(join_amount(group.sums["settled_micro"], group.sums["settled_pico"]))
    return exchange.convert(amount, currency, on)
