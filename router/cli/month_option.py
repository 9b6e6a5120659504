"""`--month` with or without a value, other ways to say which days, and the options that reports share.

In: arguments. Out: values of `reports`. Invariant: a bare `--month` is this month; a value that is not allowed ends in
one line that says what is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.cli.checked_command import CheckedCommand

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from reports.period import Period

MONTH = "--month"
FIRST_YEAR, LAST_YEAR = 1970, 9998
"""Days of other years have no instant that the ledger could hold, in some time zone or in all."""


TimezoneOption = Annotated[
    str | None,
    typer.Option("--timezone", "-z", metavar="ZONE", help="Time zone of months and days. Default: as set, UTC."),
]
MonthOption = Annotated[
    str | None,
    typer.Option("--month", metavar="[YYYY-MM|last|this]", help="The month. Default, also without a value: this."),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="The first day, in place of a month; without --until, up to today."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="The last day, itself included; only with --since.")
]
LastOption = Annotated[
    str | None,
    typer.Option(
        "--last", metavar="LENGTH", help="Days up to today: 7d, 4w (28 days), 3m (this month and the two before it)."
    ),
]
CurrencyOption = Annotated[
    str | None,
    typer.Option("--currency", metavar="CODE", help="Currency of the page, at each day's rate. Default: as set, USD."),
]


class MonthCommand(CheckedCommand):
    """A command whose `--month` may stand without a value: then it is this month."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with `this` put after a `--month` that has no value."""
        return super().parse_args(ctx, with_month(args))


def with_month(arguments: list[str]) -> list[str]:
    """Return the arguments with `this` after a `--month` that is last or is followed by an option."""
    found: list[str] = []
    for at, argument in enumerate(arguments):
        found.append(argument)
        if argument == MONTH and (at + 1 == len(arguments) or arguments[at + 1].startswith("-")):
            found.append("this")
    return found


def period_of(
    month: str | None, since: str | None, until: str | None, last: str | None, zone: ZoneInfo, now: datetime
) -> Period:
    """Return the period that is asked for: a month, the days from one to another, or the last ones.

    Args:
        month: the value of `--month`; None, as of the others: not given.
        since: the value of `--since`.
        until: the value of `--until`.
        last: the value of `--last`.
        zone: the time zone that days are cut in.
        now: aware instant; the day it lies in is today.

    Raises:
        WrongUsage: two ways to say it at once, `--until` alone, or a value that is not allowed.
    """
    from reports.period import days_between, last_days, named_month
    from router.errors import WrongUsage

    given = [name for name, value in (("--month", month), ("--since", since), ("--last", last)) if value is not None]
    if len(given) > 1:
        raise WrongUsage(f"{given[0]}: not allowed beside {given[1]}", hint="leave out one of the two")
    if until is not None and since is None:
        raise WrongUsage("--until: not allowed without --since", hint=f"--since 2026-10-01 --until {until[:60]}")
    if since is not None:
        first, today = day_of(since, "--since"), now.astimezone(zone).date()
        if until is None and first > today:
            message = f"--since: {first} is in the future; without --until, a day up to today ({today}) is allowed"
            raise WrongUsage(message, hint=f"--since {today}")
        return days_between(first, today if until is None else day_of(until, "--until"), zone)
    return named_month(month, zone, now) if last is None else last_days(last, zone, now)


def instant_of(text: str, zone: ZoneInfo, option: str = "--at") -> datetime:
    """Return a day's midnight in a time zone, as an aware UTC instant.

    Args:
        text: the day, YYYY-MM-DD.
        zone: the time zone.
        option: the option that named it, for the message.

    Raises:
        WrongUsage: it is no date.
    """
    day = day_of(text, option)
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def day_of(text: str, option: str) -> date:
    """Return a day.

    Args:
        text: the day, YYYY-MM-DD, of 1970 to 9998.
        option: the option that named it, for the message.

    Raises:
        WrongUsage: it is no date.
    """
    from router.errors import WrongUsage

    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        message = f"{option}: {text[:60]!r} is not allowed; a date YYYY-MM-DD is, from {FIRST_YEAR} on"
        raise WrongUsage(message, hint=f"{option} 2026-05-01")
    return day
