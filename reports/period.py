"""Periods, months above all, and the instants and days they are made of in a named time zone.

In: a month's name, days, a time zone's name, the instant. Out: bounds in microseconds since 1970 UTC; days and parts of
days. Invariant: a period is half-open, from midnight to midnight there; its days partition it, whatever the clocks do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from router.errors import RouterError, WrongUsage, unknown_name

QUARTER_HOUR_US = 900_000_000
DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
_LENGTH = re.compile(r"([1-9]\d{0,3})([dwm])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Period:
    """A span of whole days in one time zone: a month, or days from one to another.

    Args:
        name: as `2026-10`, or `2026-10-05 to 2026-10-11`.
        zone: the time zone it is cut in.
        start_us: its first instant, microseconds since 1970 UTC.
        end_us: the first instant after it, microseconds since 1970 UTC.
    """

    name: str
    zone: ZoneInfo
    start_us: int
    end_us: int

    @property
    def is_month(self) -> bool:
        """Whether it is one calendar month."""
        return _MONTH.fullmatch(self.name) is not None

    @property
    def first_day(self) -> date:
        """Its first day there."""
        return local_date(self.start_us, self.zone)

    @property
    def last_day(self) -> date:
        """Its last day there."""
        return local_date(self.end_us - 1, self.zone)

    def is_running(self, now: datetime) -> bool:
        """Whether an aware instant lies in it."""
        return self.start_us <= to_us(now) < self.end_us


@dataclass(frozen=True, slots=True)
class DayPart:
    """A span that lies in one day of a time zone and in one UTC day, half-open, microseconds since 1970 UTC.

    Args:
        day: the day there.
        hour: the hour of that day in which it begins, 0 to 23.
        utc_day: the UTC day.
        start_us: its first instant.
        end_us: the first instant after it.
    """

    day: date
    hour: int
    utc_day: date
    start_us: int
    end_us: int


def month_bounds(month: str, zone: ZoneInfo) -> tuple[int, int]:
    """Return (start, end) of a month, half-open, in microseconds since 1970 UTC.

    Args:
        month: as `2026-10`.
        zone: the time zone whose midnights count.

    Raises:
        WrongUsage: the text names no month.
    """
    found = _MONTH.fullmatch(month)
    if found is None or not 1970 <= int(found[1]) <= 9998:
        raise WrongUsage(
            f"month: {month!r} is not allowed; YYYY-MM, last and this are", hint="for instance --month 2026-10"
        )
    year, number = int(found[1]), int(found[2])
    after = (year + 1, 1) if number == 12 else (year, number + 1)
    return _midnight_us(date(year, number, 1), zone), _midnight_us(date(*after, 1), zone)


def named_month(month: str | None, zone: ZoneInfo, now: datetime) -> Period:
    """Return the month that a name stands for.

    Args:
        month: `2026-10`, `last`, `this`, or None for this one.
        zone: the time zone it is cut in.
        now: aware instant that `this` is of.

    Raises:
        WrongUsage: the text names no month.
    """
    today = now.astimezone(zone).date()
    name = "this" if month is None else month
    if name == "this":
        name = f"{today:%Y-%m}"
    elif name == "last":
        name = f"{today.replace(day=1) - timedelta(days=1):%Y-%m}"
    return Period(name, zone, *month_bounds(name, zone))


def days_between(first: date, last: date, zone: ZoneInfo) -> Period:
    """Return the period of the days from one to another, both in it.

    Args:
        first: its first day.
        last: its last day.
        zone: the time zone whose midnights count.

    Raises:
        WrongUsage: the last day is before the first.
    """
    if last < first:
        message = f"period: {last} is before {first}; the last day may be the first one or a later one"
        raise WrongUsage(message, hint=f"for instance --since {last} --until {first}")
    name = f"{first}" if first == last else f"{first} to {last}"
    return Period(name, zone, _midnight_us(first, zone), _midnight_us(last + timedelta(days=1), zone))


def last_days(length: str, zone: ZoneInfo, now: datetime) -> Period:
    """Return the period that ends with today and is so many days, weeks or months long.

    Args:
        length: `7d`, `4w` (28 days) or `3m` (this month and the two before it).
        zone: the time zone it is cut in.
        now: aware instant that today is of.

    Raises:
        WrongUsage: it is no such length, or reaches back before 1970.
    """
    found = _LENGTH.fullmatch(length)
    today = now.astimezone(zone).date()
    hint = "for instance --last 7d, --last 4w or --last 3m"
    if found is None:
        raise WrongUsage(f"--last: {length[:60]!r} is not allowed; a number of days, weeks or months is", hint=hint)
    number, unit = int(found[1]), found[2]
    first = (
        _months_before(today, number - 1) if unit == "m" else _days_before(today, number * (7 if unit == "w" else 1))
    )
    if first is None or first.year < 1970:
        raise WrongUsage(f"--last: {length!r} is not allowed; a period begins in 1970 or later", hint=hint)
    return days_between(first, today, zone)


def period_before(period: Period, now: datetime) -> Period:
    """Return the period that a period is compared with.

    Args:
        period: the period.
        now: aware instant.

    Returns:
        The month before a month; else as many days, the ones just before. Of a period that is running, the part that
        had passed by the same day and time, rounded up to a quarter hour.
    """
    if period.is_month:
        before = named_month("last", period.zone, at_us(period.start_us))
    else:
        days = (period.last_day - period.first_day).days + 1
        last = period.first_day - timedelta(days=1)
        before = days_between(last - timedelta(days=days - 1), last, period.zone)
    if not period.is_running(now):
        return before
    local = now.astimezone(period.zone)
    day = before.first_day + (local.date() - period.first_day)
    end_us = to_us(datetime.combine(day, local.time(), tzinfo=period.zone).astimezone(UTC))
    end_us = min(before.end_us, -(-end_us // QUARTER_HOUR_US) * QUARTER_HOUR_US)
    if end_us == before.end_us:
        return before
    return replace(
        before, name=f"{before.first_day} to {at_us(end_us).astimezone(period.zone):%Y-%m-%d %H:%M}", end_us=end_us
    )


def day_parts(
    start_us: int, end_us: int, zone: ZoneInfo, *, edges: Iterable[int] = (), hours: bool = False
) -> tuple[DayPart, ...]:
    """Return a span cut at the midnights of a time zone and at those of UTC, in the order of time.

    Args:
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        zone: the time zone.
        edges: further instants to cut at; those outside the span are left aside.
        hours: whether it is cut at each full hour of the time zone too.
    """
    first, last = local_date(start_us, zone), local_date(end_us - 1, zone)
    cuts = {_midnight_us(first + timedelta(days=count), zone) for count in range((last - first).days + 1)}
    cuts.update(
        range(start_us // DAY_US * DAY_US, end_us, DAY_US), edges, _hours(start_us, end_us, zone) if hours else ()
    )
    inner = sorted(edge for edge in cuts if start_us < edge < end_us)
    return tuple(_part(*span, zone) for span in pairwise((start_us, *inner, end_us)))


def no_rows(month: Period, present: Iterable[str], now: datetime | None = None) -> RouterError:
    """Return the error for a period without rows, naming the months that have some.

    Args:
        month: the period asked for.
        present: names of the months that have rows, in its time zone.
        now: aware instant; a period after it is in the future; None: not known.
    """
    months = sorted(present)
    what = "month" if month.is_month else "period"
    days = "the days that are over of " if month.name in months else ""  # some figures are of whole days alone
    message = f"{what}: the ledger has no rows in {days}{month.name} ({month.zone.key})"
    if now is not None and month.start_us > to_us(now):
        message = f"{what}: {month.name} ({month.zone.key}) is in the future, and the ledger has no rows in it"
    if not months:
        return RouterError(message, hint="the ledger is empty: router run, router import or router demo fills it")
    shown = ", ".join(months[-12:])
    return RouterError(f"{message}; it has rows in {shown}", hint=f"router report --month {months[-1]}")


def time_zone(name: str) -> ZoneInfo:
    """Return the time zone of that IANA name.

    Raises:
        WrongUsage: there is none; near misses are listed.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones

        error = unknown_name("time zone", name, available_timezones())
        raise WrongUsage(str(error), hint="an IANA name, for instance UTC, Asia/Tokyo or Europe/Berlin") from None


def local_date(instant_us: int, zone: ZoneInfo) -> date:
    """Return the date in a time zone of an instant, microseconds since 1970 UTC."""
    return at_us(instant_us).astimezone(zone).date()


def utc_day(day: int) -> date:
    """Return the UTC date of a day number.

    Args:
        day: days since 1970-01-01.
    """
    return date.fromordinal(_EPOCH.toordinal() + day)


def at_us(instant_us: int) -> datetime:
    """Return an instant as an aware UTC datetime.

    Args:
        instant_us: microseconds since 1970 UTC.
    """
    return _EPOCH + timedelta(microseconds=instant_us)


def to_us(instant: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970 UTC."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _midnight_us(day: date, zone: ZoneInfo) -> int:
    """Return the first instant of a day; where the clocks skip midnight, the instant they skip to."""
    return to_us(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))


def _part(start_us: int, end_us: int, zone: ZoneInfo) -> DayPart:
    local = at_us(start_us).astimezone(zone)
    return DayPart(local.date(), local.hour, at_us(start_us).date(), start_us, end_us)


def _hours(start_us: int, end_us: int, zone: ZoneInfo) -> Iterable[int]:
    """Yield the quarter hours that begin another hour of a time zone than the one before them."""
    before = None
    for quarter_us in range(start_us // QUARTER_HOUR_US * QUARTER_HOUR_US, end_us, QUARTER_HOUR_US):
        local = at_us(quarter_us).astimezone(zone)
        if (local.hour, local.utcoffset()) != before:
            yield quarter_us
        before = local.hour, local.utcoffset()


def _days_before(day: date, count: int) -> date | None:
    """Return the first of `count` days that end with a day; None before year 1."""
    ordinal = day.toordinal() - count + 1
    return date.fromordinal(ordinal) if ordinal > 0 else None


def _months_before(day: date, count: int) -> date | None:
    """Return the first day of the month that many months before a day's; None before year 1."""
    year, month = divmod(day.year * 12 + day.month - 1 - count, 12)
    return date(year, month + 1, 1) if year > 0 else None
