"""`--month` with or without a value, and the other options that reports share.

In: arguments. Out: values of `reports`. Invariant: a bare `--month` is this month; a value that is not allowed ends in
one line that says what is.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pricing import Terms

MONTH = "--month"


class PageFormat(StrEnum):
    """How a page is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


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
        WrongUsage: it is not written so, or the rate is not above 0.
    """
    from pricing import Terms
    from router.errors import WrongUsage

    if text is None:
        return Terms()
    code, _, number = text.partition("=")
    try:
        rate = Decimal(number)
    except InvalidOperation:
        rate = Decimal(0)
    if not rate.is_finite() or rate <= 0:
        raise WrongUsage(
            f"--settlement: {text!r} is not allowed; CURRENCY=RATE is, with a rate above 0",
            hint="one unit of list price paid with one yuan is --settlement CNY=1",
        )
    return Terms(settlement_currency=currency_of(code), settlement_rate=rate)


def instant_of(text: str, zone: ZoneInfo, option: str = "--at") -> datetime:
    """Return a day's midnight in a time zone, as an aware UTC instant.

    Args:
        text: the day, YYYY-MM-DD.
        zone: the time zone.
        option: the option that named it, for the message.

    Raises:
        WrongUsage: it is no date.
    """
    from router.errors import WrongUsage

    try:
        day = date.fromisoformat(text)
    except ValueError:
        message = f"{option}: {text!r} is not allowed; a date YYYY-MM-DD is"
        raise WrongUsage(message, hint=f"{option} 2026-05-01") from None
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
