"""When a price row holds: served tier, batch, region, size of the input, clock.

In: a block's `when` table, or stored JSON. Out: `Conditions`. Invariant: conditions are ANDed; an instant is judged in
UTC and every window is half-open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from pricing.typed_table import TypedTable

CONTEXT_THRESHOLDS = (32_000, 100_000, 127_999, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 1_000_000)
"""Input sizes, tokens, strictly above which a price may change. 127,999 and 199,999 stand for lists that change *at*
128,000 and 200,000. The ledger keeps each attempt's index among them, so a row with another threshold is a load error,
and a new one needs a migration of the ledger."""


PLAIN_TIERS = frozenset({"default", "standard", "auto", "on_demand"})
"""Names that vendors give to the tier their plain list prices are for (OpenAI "default", Anthropic "standard", Groq
"on_demand"); served "auto" is a relay's echo of what was asked."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """When a price row holds. All that are set must be met; none set: always.

    Args:
        service_tier: the tier that was *served*, as the vendor names it; "default": only the plain one.
        batch: only for the batch API.
        region: the region that served, as the vendor names it.
        above_input_tokens: only where all input (cached included) is strictly above this many tokens; it then holds for
            the whole request.
        inclusive: at this many tokens already.
        weekdays: ISO weekdays (1 = Monday) in UTC; empty: all.
        windows_utc: half-open windows (start, end) in minutes after 00:00 UTC, start < end <= 1440; empty: all day.
        holidays: UTC days on which the row does not hold.
    """

    service_tier: str | None = None
    batch: bool = False
    region: str | None = None
    above_input_tokens: int | None = None
    inclusive: bool = False
    weekdays: tuple[int, ...] = ()
    windows_utc: tuple[tuple[int, int], ...] = ()
    holidays: tuple[date, ...] = ()

    @property
    def boundary(self) -> int | None:
        """The input size, tokens, strictly above which the row holds; None: at every size."""
        return None if self.above_input_tokens is None else self.above_input_tokens - self.inclusive

    @property
    def timed(self) -> bool:
        """Whether the clock decides: a weekday, a window or a holiday is set."""
        return bool(self.weekdays or self.windows_utc or self.holidays)

    @property
    def specificity(self) -> int:
        """How many kinds of condition are set besides the context threshold; the row with the most wins."""
        return sum((self.service_tier is not None, self.batch, self.region is not None, self.timed))

    def holds_at(self, at: datetime) -> bool:
        """Return whether weekday, window and holidays are met.

        Args:
            at: aware UTC instant of the request.
        """
        minute = at.hour * 60 + at.minute
        return (
            (not self.weekdays or at.isoweekday() in self.weekdays)
            and (not self.windows_utc or any(start <= minute < end for start, end in self.windows_utc))
            and at.date() not in self.holidays
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is set, as values of JSON."""
        found: dict[str, Any] = {}
        for name in (item.name for item in fields(Conditions)):
            value = getattr(self, name)
            if value not in (None, False, ()):
                found[name] = [day.isoformat() for day in value] if name == "holidays" else value
        return found


ALWAYS = Conditions()
"""No condition at all."""

_DAY = 24 * 60
_SUNDAY = 7
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]|24):([0-5]\d)")


def conditions_from_json(found: Mapping[str, Any]) -> Conditions:
    """Return the conditions that `Conditions.to_json` wrote.

    Args:
        found: its result, possibly through JSON.
    """
    values = dict(found)
    values["weekdays"] = tuple(values.get("weekdays", ()))
    values["windows_utc"] = tuple((start, end) for start, end in values.get("windows_utc", ()))
    values["holidays"] = tuple(date.fromisoformat(day) for day in values.get("holidays", ()))
    return Conditions(**values)


def read_conditions(table: TypedTable) -> Conditions:
    """Return the conditions of a `when` table; what is not allowed in it becomes a fault.

    Args:
        table: the table; an empty one has no conditions.
    """
    table.check_keys(field.name for field in fields(Conditions))
    above, inclusive = table.count("above_input_tokens"), table.flag("inclusive")
    if above is None and inclusive:
        table.fault("inclusive: only allowed with above_input_tokens", "inclusive")
    if above is not None and above - inclusive not in CONTEXT_THRESHOLDS:
        allowed = ", ".join(str(size) for size in CONTEXT_THRESHOLDS)
        table.refuse("above_input_tokens", above, f"one of {allowed} is (with inclusive: one more)")
    return Conditions(
        service_tier=table.text("service_tier"),
        batch=table.flag("batch"),
        region=table.text("region"),
        above_input_tokens=above,
        inclusive=inclusive,
        weekdays=_weekdays(table),
        windows_utc=tuple(part for text in table.texts("windows_utc") for part in _window(table, text)),
        holidays=_holidays(table),
    )


def _weekdays(table: TypedTable) -> tuple[int, ...]:
    days = table.values.get("weekdays", [])
    if isinstance(days, list) and all(type(day) is int and 1 <= day <= _SUNDAY for day in days):
        return tuple(sorted(set(days)))
    table.refuse("weekdays", days, "a list of 1 (Monday) to 7 is")
    return ()


def _holidays(table: TypedTable) -> tuple[date, ...]:
    days = table.values.get("holidays", [])
    if isinstance(days, list) and all(type(day) is date for day in days):
        return tuple(sorted(set(days)))
    table.refuse("holidays", days, "a list of days without quotes is")
    return ()


def _window(table: TypedTable, text: str) -> tuple[tuple[int, int], ...]:
    """Return a window in minutes of the day; one across midnight is two."""
    match = _WINDOW.fullmatch(text)
    hour, minute, end_hour, end_minute = (int(part) for part in match.groups()) if match else (0, 0, 0, 0)
    start, end = hour * 60 + minute, end_hour * 60 + end_minute
    if match and start < (end or _DAY) <= _DAY:
        return ((start, end or _DAY),)
    if match and end < start and end <= _DAY:
        return ((start, _DAY), (0, end))
    table.refuse("windows_utc", text, 'a window "HH:MM-HH:MM" is, "24:00" as its end too')
    return ()
