"""Values of other people's files, read strictly: a number is a number, an instant has a zone, or the line is rejected.

In: what JSON or a table's cell holds. Out: whole numbers, decimals, microseconds. Invariant: no value is guessed or
rounded away; each refusal names the field, the value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from router.ledger.importers.record import BadRecordError
from router.ledger.importers.source import Thousands

MOST_COUNT = 10**14
"""The greatest count that is believed: more than the largest provider serves in a day; sums of them stay exact."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of instants that are UTC and do not say so
_MICROSECOND = timedelta(microseconds=1)
FIRST_US = (datetime(2000, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
LAST_US = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_GROUPED = re.compile(r"[+-]?\d{1,3}([,. '\u00a0\u202f\u2009])\d{3}(\1\d{3})*([.,]\d+)?")
_SIGNS = {"comma": ",", "dot": ".", "space": " "}
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u202f\u2009'", " "))


def whole(value: Any, name: str, thousands: Thousands | None = None) -> int:
    """Return a count of 0 or more; a text of digits counts as a number, a fraction of 0 ("12.0") is left out.

    Args:
        value: int, Decimal, float or text.
        name: the field, for the message.
        thousands: the sign between thousands that the user stated, or None.

    Raises:
        BadRecordError: it is anything else.
    """
    if type(value) is int:
        found = value
    elif type(value) is str and value.isascii() and value.isdigit():
        found = int(value) if len(value) <= 18 else MOST_COUNT + 1
    else:
        if thousands is None and type(value) is str and _GROUPED.fullmatch(value.strip()):
            raise _grouped(value, name)  # "1.000" as well, which may be a thousand or one
        found = _whole_of(decimal(value, name, thousands), value, name)
    if not 0 <= found <= MOST_COUNT:
        raise BadRecordError(f"{name} is {_shown(value)}; a whole number from 0 to {MOST_COUNT:,} is allowed")
    return found


def whole_or_none(value: Any, name: str, thousands: Thousands | None = None) -> int | None:
    """Return a count as `whole` does; None for an empty cell or null."""
    return None if value is None or value == "" else whole(value, name, thousands)


def plain_counts(values: Sequence[Any]) -> list[int] | None:
    """Return a whole column of counts at once where all are plain: whole numbers, or texts of digits; else None.

    Args:
        values: a column's values, at least one.
    """
    kinds = set(map(type, values))
    if kinds == {str}:
        digits = "".join(values)
        if not (digits.isascii() and digits.isdigit()) or "" in values or max(map(len, values)) > 18:
            return None
        found = list(map(int, values))
    elif kinds == {int}:
        found = list(values)
    else:
        return None
    return found if min(found) >= 0 and max(found) <= MOST_COUNT else None


def counts(values: Sequence[Any], name: str, thousands: Thousands | None = None) -> list[int | None]:
    """Return a whole column of counts, as `whole_or_none` reads each.

    Args:
        values: a column's values, at least one.
        name: the field, for messages.
        thousands: as for `whole`.

    Raises:
        BadRecordError: one is none.
    """
    plain = plain_counts(values)
    return [whole_or_none(value, name, thousands) for value in values] if plain is None else list(plain)


def _whole_of(number: Decimal, value: Any, name: str) -> int:
    if number != number.to_integral_value():
        raise BadRecordError(f"{name} is {_shown(value)}; a whole number is allowed")
    return int(number) if number.copy_abs() <= MOST_COUNT else MOST_COUNT + 1


def decimal(value: Any, name: str, thousands: Thousands | None = None) -> Decimal:
    """Return a number exactly as it is written.

    Args:
        value: int, Decimal, float (its shortest text is meant) or text.
        name: the field, for the message.
        thousands: the sign between thousands that the user stated, or None.

    Raises:
        BadRecordError: it is no finite number, or it has a sign between thousands or a decimal comma nobody stated.
    """
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        found = Decimal(value)
    elif isinstance(value, float):
        found = Decimal(repr(value))
    elif isinstance(value, str):
        found = _number(value.strip(), name, thousands)
    else:
        raise BadRecordError(f"{name} is {_shown(value)}; a number is allowed")
    if not found.is_finite():
        raise BadRecordError(f"{name} is {_shown(value)}; a finite number is allowed")
    return found


def _number(text: str, name: str, thousands: Thousands | None) -> Decimal:
    grouped = _GROUPED.fullmatch(text)
    if thousands is not None:
        plain = text.translate(_SPACES)
        sign = _SIGNS[thousands]
        if sign in plain and not _GROUPED.fullmatch(plain):
            raise BadRecordError(f"{name} is {text[:40]!r}; thousands are set apart by threes")
        text = plain.replace(sign, "")
        if thousands == "dot":
            text = text.replace(",", ".")
    elif grouped and (grouped[1] != "." or grouped[2] or grouped[3]):
        raise _grouped(text, name)
    if "," in text:
        raise BadRecordError(f"{name} is {text[:40]!r}; a decimal point is allowed, no decimal comma")
    if not text.isascii() or "_" in text:
        raise BadRecordError(f"{name} is {text[:40]!r}; a number is allowed")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise BadRecordError(f"{name} is {text[:40]!r}; a number is allowed") from None


def _grouped(text: str, name: str) -> BadRecordError:
    message = f"{name} is {text[:40]!r}; a number without signs between its thousands is allowed"
    return BadRecordError(f"{message} (or state them: --thousands)")


def cost(value: Any, name: str, thousands: Thousands | None = None) -> Decimal:
    """Return an amount of money of 0 or more, rounded half-even at 1e-12, which is all that a float of it carries.

    Args:
        value: int, Decimal, float or text, a leading "$" allowed.
        name: the field, for the message.
        thousands: as for `decimal`.

    Raises:
        BadRecordError: it is no number, negative, or above a million million.
    """
    found = decimal(value.strip().removeprefix("$") if isinstance(value, str) else value, name, thousands)
    if not 0 <= found <= 10**12:
        raise BadRecordError(f"{name} is {_shown(value)}; an amount from 0 to 1,000,000,000,000 is allowed")
    return found.quantize(Decimal("1e-12"), rounding=ROUND_HALF_EVEN)


def instant(value: Any, name: str, zone: tzinfo | None = None) -> int:
    """Return an instant as microseconds since 1970 UTC.

    Args:
        value: a `datetime`; text in ISO 8601 ("2026-10-01T08:00:00.5Z", "2026-10-01 08:00:00+02:00"); or a number:
            seconds, milliseconds, microseconds or nanoseconds since 1970 UTC, told apart by their size, since each
            unit's span of the years 2000 to 2200 lies apart from the others'.
        name: the field, for the message.
        zone: the zone of a text that names none; None: such a text is refused.

    Raises:
        BadRecordError: it is no such instant.
    """
    if isinstance(value, datetime):
        return _believed(_instant_of(value, str(value), name, zone), value, name)
    if isinstance(value, str) and not value.isdigit():
        return _instant_of_text(value.strip(), name, zone)
    return _instant_of_number(decimal(value, name), value, name)


def _instant_of_text(text: str, name: str, zone: tzinfo | None) -> int:
    try:
        at = datetime.fromisoformat(text.removesuffix(" UTC") + "Z" if text.endswith(" UTC") else text)
    except ValueError:
        if re.fullmatch(r"\d{9,}\.\d+", text):
            return _instant_of_number(Decimal(text), text, name)
        message = f"{name} is {text[:40]!r}; a date and time is allowed, for instance 2026-10-01T08:00:00Z"
        raise BadRecordError(message) from None
    return _believed(_instant_of(at, text, name, zone), text, name)


def _instant_of(at: datetime, text: str, name: str, zone: tzinfo | None) -> int:
    if at.tzinfo is not None:
        return (at - _EPOCH) // _MICROSECOND
    if zone is None:
        raise BadRecordError(f"{name} is {text[:40]!r}, without a zone; --timezone states it")
    if zone is UTC:
        return (at - _NAIVE_EPOCH) // _MICROSECOND
    return (at.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND


def _instant_of_number(number: Decimal, value: Any, name: str) -> int:
    for scale in (6, 3, 0, -3):  # seconds, milliseconds, microseconds, nanoseconds
        found = number.scaleb(scale)
        if FIRST_US <= found < LAST_US:
            return int(found)
    raise BadRecordError(f"{name} is {_shown(value)}; an instant from 2000 to 2200 is allowed")


def _believed(at_us: int, value: Any, name: str) -> int:
    if not FIRST_US <= at_us < LAST_US:
        raise BadRecordError(f"{name} is {_shown(value)}; an instant from 2000 to 2200 is allowed")
    return at_us


def text_or_none(value: Any, name: str) -> str | None:
    """Return a text without the blanks around it; None for an empty one or null; a number as its digits.

    Raises:
        BadRecordError: it is a list, an object or a truth value.
    """
    if value is None:
        return None
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRecordError(f"{name} is {_shown(value)}; a text is allowed")
    return value.strip() or None


def part_of(whole_count: int, *parts: int, name: str) -> int:
    """Return what is left of an inclusive count when its parts are taken out.

    Args:
        whole_count: the inclusive count.
        parts: counts that it includes.
        name: the inclusive count's field, for the message.

    Raises:
        BadRecordError: the parts are more than the whole; nothing is clamped.
    """
    rest = whole_count - sum(parts)
    if rest < 0:
        raise BadRecordError(f"{name} is {whole_count}, less than its parts ({' + '.join(map(str, parts))})")
    return rest


def _shown(value: Any) -> str:
    return repr(str(value)[:40]) if isinstance(value, str) else str(value)[:40]
