"""`--month` with or without a value, and the other options that reports share.

In: arguments. Out: values of `reports`. Invariant: a bare `--month` is this month; a value that is not allowed ends in
one line that says what is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pricing import Terms

MONTH = "--month"
LEAST_RATE, GREATEST_RATE, MOST_DECIMALS = Decimal("1e-9"), Decimal("1e9"), 28
FIRST_YEAR, LAST_YEAR = 1970, 9998
"""Days of other years have no instant that the ledger could hold, in some time zone or in all."""


class PageFormat(StrEnum):
    """How a page is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


TimezoneOption = Annotated[
    str | None,
    typer.Option("--timezone", metavar="ZONE", help="Time zone of months and days. Default: as set, UTC."),
]
FormatOption = Annotated[PageFormat, typer.Option("--format", help="How the page is written.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write to this file instead of printing.")
]


class MonthCommand(TyperCommand):
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


def currency_of(text: str) -> str:
    """Return an ISO 4217 code in capitals.

    Raises:
        WrongUsage: there is no such currency; near misses are listed.
    """
    from pricing.money import currencies, is_currency
    from router.errors import WrongUsage, unknown_name

    code = text.upper()
    if is_currency(code):
        return code
    error = unknown_name("currency", text, currencies())
    raise WrongUsage(str(error), hint="an ISO 4217 code is allowed, for instance USD, EUR, CNY or JPY")


def terms_of(text: str | None) -> Terms:
    """Return the terms of a settlement written CURRENCY=RATE; None: the list price is what is paid.

    Raises:
        WrongUsage: it is not written so, or the rate is not within 1e-9 to 1e9.
    """
    from pricing import Terms
    from router.errors import WrongUsage

    if text is None:
        return Terms()
    code, _, number = text.partition("=")
    rate = rate_of(number)
    if rate is None:
        raise WrongUsage(
            f"--settlement: {text[:60]!r} is not allowed; CURRENCY=RATE is, with a rate from 1e-9 to 1e9",
            hint="one unit of list price paid with one yuan is --settlement CNY=1",
        )
    return Terms(settlement_currency=currency_of(code), settlement_rate=rate)


def rate_of(text: str) -> Decimal | None:
    """Return a number from 1e-9 to 1e9 with at most 28 decimals; None: it is not one.

    The bounds are checked before anything is calculated: 1e9999999 in full has ten million digits.
    """
    try:
        rate = Decimal(text)
    except InvalidOperation:
        return None
    if (
        not rate.is_finite()
        or not LEAST_RATE <= rate <= GREATEST_RATE
        or -int(rate.as_tuple().exponent) > MOST_DECIMALS
    ):
        return None
    return rate


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
