"""Whole numbers out of a provider's JSON, and the checks that every report goes through.

In: a JSON object and its place for messages. Out: counts. Invariant: what is not a whole number of 0 or more is an
error that names the key, and nothing is ever clamped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pricing.errors import UsageError
from pricing.usage import BUCKETS, COUNTS, Usage

Report = Mapping[str, Any]

MOST_TOKENS = 10**12
"""No request uses that many; a larger count is a fault of the report, and millions of them would overflow a sum."""

_WRONG = "the provider's report is wrong; the attempt stays unpriced"
_CONTRADICTS = "the provider's report contradicts itself; the attempt stays unpriced"
_SHAPE = "the provider's report is not of its documented shape"
_NOTHING: Report = {}


class Counts:
    """Whole numbers out of one JSON object.

    Args:
        place: where the object stands, for messages.
        found: what stands there.

    Raises:
        UsageError: it is not an object.
    """

    __slots__ = ("_found", "place")

    def __init__(self, place: str, found: object) -> None:
        if not isinstance(found, (dict, Mapping)):  # a dict is known at once, any other Mapping takes a while
            message = f"{place}: {shown(found)} is not allowed; an object of counts is"
            raise UsageError(message, hint=_SHAPE)
        self.place = place
        self._found: Report = found

    def count(self, name: str) -> int | None:
        """Return a count, None where it is absent or null.

        Raises:
            UsageError: it is not a whole number of 0 to `MOST_TOKENS`.
        """
        value = self._found.get(name)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= MOST_TOKENS:
            most = f" up to {MOST_TOKENS}" if type(value) is int and value > 0 else ""
            message = f"{self.place}: {name} is {shown(value)}; a whole number of 0 or more{most} is allowed"
            raise UsageError(message, hint=_WRONG)
        return value

    def needed(self, name: str) -> int:
        """Return a count that must be there.

        Raises:
            UsageError: it is absent, or not a count.
        """
        value = self.count(name)
        if value is None:
            message = f"{self.place}: {name} is missing"
            raise UsageError(message, hint="the provider's report is not complete; the attempt stays unpriced")
        return value

    def part(self, name: str) -> Counts:
        """Return an object inside this one; an absent one has no counts.

        Raises:
            UsageError: there is something else than an object.
        """
        value = self._found.get(name)
        return Counts(f"{self.place}.{name}", _NOTHING if value is None else value)

    def parts(self, name: str) -> tuple[Counts, ...]:
        """Return the objects of a list inside this one; an absent one is empty.

        Raises:
            UsageError: there is something else than a list of objects.
        """
        value = self._found.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            message = f"{self.place}.{name}: {shown(value)} is not allowed; a list of objects is"
            raise UsageError(message, hint=_SHAPE)
        return tuple(Counts(f"{self.place}.{name}[{index}]", item) for index, item in enumerate(value))

    def text(self, name: str) -> str | None:
        """Return a text that is not empty, None where it is absent or null.

        Raises:
            UsageError: it is not a text.
        """
        value = self._found.get(name)
        if value is not None and not isinstance(value, str):
            message = f"{self.place}: {name} is {shown(value)}; a text is allowed"
            raise UsageError(message, hint=_SHAPE)
        return value or None

    def is_empty(self, *names: str) -> bool:
        """Return whether none of these is there."""
        for name in names:  # noqa: SIM110 - of every answer; a generator would take longer than the look
            if self._found.get(name) is not None:
                return False
        return True


def shown(value: object) -> str:
    """Return a value as it is shown in a message: at most 60 characters, numbers of any length included."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # more digits than Python writes, or nested too deep
        return f"a {type(value).__name__} too long to show"


def bounded(usage: Usage) -> Usage:
    """Return a usage whose every bucket is at most `MOST_TOKENS`: one may be the sum of many counts.

    Raises:
        UsageError: a bucket holds more.
    """
    counts = COUNTS(usage)
    if max(counts) > MOST_TOKENS:
        name, count = next(each for each in zip(BUCKETS, counts, strict=True) if each[1] > MOST_TOKENS)
        message = f"usage: {name} is {shown(count)}; a whole number up to {MOST_TOKENS} is allowed"
        raise UsageError(message, hint=_WRONG)
    return usage


def contradiction(message: str) -> UsageError:
    """Return the error for a report whose parts do not fit each other."""
    return UsageError(f"usage: {message}", hint=_CONTRADICTS)


def check_total(name: str, total: int | None, parts: int) -> None:
    """Refuse a stated total that is not the sum of its parts.

    Args:
        name: the total's key.
        total: what is stated, tokens; None: nothing is.
        parts: sum of the parts, tokens.
    """
    if total is not None and total != parts:
        message = f"usage: {name} is {total}, but its parts make {parts}"
        raise UsageError(message, hint="the provider bills tokens it does not itemise; the attempt stays unpriced")


def rest(whole_name: str, whole: int, parts: int) -> int:
    """Return whole − parts, tokens.

    Raises:
        UsageError: the parts exceed the whole.
    """
    if parts > whole:
        raise contradiction(f"{whole_name} is {whole}, but its parts make {parts}")
    return whole - parts


def agreed(name: str, *values: int | None) -> int:
    """Return the one count that several fields state; a zero beside a count is a field that was not filled in.

    Raises:
        UsageError: two fields state different counts.
    """
    first = 0
    for value in values:
        if value and value != first:
            if first:
                stated = sorted({value for value in values if value})
                raise contradiction(f"{name} is stated as {' and '.join(map(str, stated))}")
            first = value
    return first


def split_writes(name: str, written: int | None, five: int | None, hour: int | None) -> tuple[int, int]:
    """Return the cache writes kept for 5 minutes and for 1 hour, in tokens.

    Args:
        name: key of the sum.
        written: the sum of both; None: only the split is stated.
        five: the split's 5 minutes; None: not stated.
        hour: the split's hour; None: not stated. A split that is all zeros beside a sum was not filled in.

    Raises:
        UsageError: the split does not add up to its sum.
    """
    if written is None:
        return five or 0, hour or 0
    if not five and not hour:
        return written, 0
    if five is not None and five + (hour or 0) != written:
        raise contradiction(f"{name} is {written}, but 5 min and 1 h writes are {five} + {hour or 0}")
    return rest(name, written, hour or 0), hour or 0
