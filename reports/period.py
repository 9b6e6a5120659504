"""Periods, months above all, and the instants and days they are made of in a named time zone.

In: a month's name, a time zone's name, the instant. Out: bounds in microseconds since 1970 UTC; a quarter hour's date.
Invariant: a period is half-open, from midnight to midnight there; its days partition it, whatever the clocks do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from router.errors import RouterError, WrongUsage, unknown_name

QUARTER_HOUR_US = 900_000_000
DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Period:
    """A span of whole days in one time zone: a month, or days from one to another.

    Args:
        name: as `2026-10`.
        zone: the time zone it is cut in.
        start_us: its first instant, microseconds since 1970 UTC.
        end_us: the first instant after it, microseconds since 1970 UTC.
    """

    name: str
    zone: ZoneInfo
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
    name = month or "this"
    if name == "this":
        name = f"{today:%Y-%m}"
    elif name == "last":
        name = f"{today.replace(day=1) - timedelta(days=1):%Y-%m}"
    return Period(name, zone, *month_bounds(name, zone))


def no_rows(month: Period, present: Iterable[str]) -> RouterError:
    """Return the error for a month without rows, naming the months that have some.

    Args:
        month: the month asked for.
        present: names of the months that have rows, in UTC.
    """
    months = sorted(present)
    message = f"month: the ledger has no rows in {month.name} ({month.zone.key})"
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


def quarter_hour_date(quarter_hour: int, zone: ZoneInfo) -> date:
    """Return the date in a time zone of a quarter hour.

    Every zone's offset since 1973 is a whole number of quarter hours (IANA tz database), so that none is cut.

    Args:
        quarter_hour: quarter hours since 1970 UTC.
        zone: the time zone.
    """
    return at_us(quarter_hour * QUARTER_HOUR_US).astimezone(zone).date()


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
