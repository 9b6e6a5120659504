"""Tables of a TOML file with typed access: what is not allowed becomes a fault with its line, and None.

In: a table as `tomllib` read it and its place in the file. Out: values of the asked type. Invariant: reading never
stops at the first fault, and never turns a wrong value into a right one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pricing.errors import Fault
from pricing.lines import line_of
from pricing.money import is_currency

_LONGEST_SHOWN = 60
_MAX_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file: enough to find its line, which only a fault needs.

    Args:
        file: name of the file, for messages.
        text: its text; None where there is none to find a line in.
        path: keys and indices from the file's root.
    """

    file: str
    text: str | None = None
    path: tuple[str | int, ...] = ()

    def fault(self, message: str, *path: str | int) -> Fault:
        """Return a fault at this place, or at a key inside it."""
        line = None if self.text is None else line_of(self.text, (*self.path, *path))
        return Fault(self.file, line, message)

    def inside(self, *path: str | int) -> Place:
        """Return a place inside this one."""
        return Place(self.file, self.text, (*self.path, *path))


class TypedTable:
    """One table of a file.

    Args:
        place: where it stands.
        found: what stands there; a fault if it is not a table.
        faults: the list that faults are added to.
    """

    __slots__ = ("faults", "place", "values")

    def __init__(self, place: Place, found: object, faults: list[Fault]) -> None:
        self.place = place
        self.faults = faults
        self.values: Mapping[str, Any] = {}
        if isinstance(found, Mapping):
            self.values = found
        else:
            self.fault(f"{place.path[-1] if place.path else 'file'}: {_shown(found)} is not allowed; a table is")

    def fault(self, message: str, *path: str | int) -> None:
        """Note a fault at this table, or at a key inside it."""
        self.faults.append(self.place.fault(message, *path))

    def refuse(self, key: str, value: object, allowed: str, more: str = "") -> None:
        """Note that a key's value is not allowed.

        Args:
            key: the key.
            value: what it is set to.
            allowed: what is allowed, with its verb: "a text is".
            more: a remark.
        """
        self.fault(f"{key}: {_shown(value)} is not allowed; {allowed}{more}", key)

    def check_keys(self, allowed: Iterable[str]) -> None:
        """Note every key that is not among the allowed ones, with a near miss."""
        names = tuple(allowed)
        for key in self.values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                said = f"did you mean {near[0]!r}?" if near else f"{', '.join(names)} are allowed"
                self.fault(f"{key}: this key is not known; {said}", key)

    def table(self, key: str) -> TypedTable:
        """Return the table at a key; an absent one is empty."""
        return TypedTable(self.place.inside(key), self.values.get(key, {}), self.faults)

    def tables(self) -> dict[str, TypedTable]:
        """Return every table inside this one."""
        return {key: self.table(key) for key in self.values}

    def array(self, key: str) -> list[TypedTable]:
        """Return the tables of an array; an absent one is empty."""
        found = self.values.get(key, [])
        if not isinstance(found, list | tuple):
            self.refuse(key, found, f"tables written [[{key}]] are")
            return []
        return [TypedTable(self.place.inside(key, index), item, self.faults) for index, item in enumerate(found)]

    def text(self, key: str, *, needed: bool = False) -> str | None:
        """Return a text that is not blank, None where it is absent."""
        value = self._value(key, "a text", needed=needed)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self.refuse(key, value, "a text is")
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; an absent one is empty."""
        value = self.values.get(key, [])
        if isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value):
            return tuple(value)
        self.refuse(key, value, "a list of texts is")
        return ()

    def flag(self, key: str) -> bool:
        """Return true or false; an absent one is false."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, value, "true or false is")
        return value is True

    def count(self, key: str) -> int | None:
        """Return a whole number above 0, None where it is absent."""
        value = self.values.get(key)
        if value is None or (type(value) is int and value > 0):
            return value
        self.refuse(key, value, "a whole number above 0 is")
        return None

    def day(self, key: str, *, needed: bool = False) -> date | None:
        """Return a day, None where it is absent."""
        value = self._value(key, "a day without quotes, for instance 2026-11-30,", needed=needed)
        if value is None or type(value) is date:
            return value
        self.refuse(key, value, "a day without quotes, for instance 2026-11-30, is")
        return None

    def instant(self, key: str) -> datetime | None:
        """Return an instant in UTC, None where it is absent; one without a zone is refused."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC)
        said = str(value) if isinstance(value, date) else value
        self.refuse(key, said, "an instant with its zone, for instance 2026-05-25T00:00:00Z, is")
        return None

    def currency(self, key: str, *, needed: bool = False) -> str | None:
        """Return an ISO 4217 code, None where it is absent."""
        value = self.text(key, needed=needed)
        if value is None or is_currency(value):
            return value
        self.refuse(key, value, 'an ISO 4217 code, for instance "USD", is')
        return None

    def decimal(self, key: str) -> Decimal | None:
        """Return an exact number of 0 or more with at most 12 decimals, None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        number = _decimal(value)
        if number is None:
            self.refuse(key, value, 'a decimal number as text, for instance "0.42", is')
        elif number < 0:
            self.refuse(key, str(value), "0 or more is")
        elif _decimals(number) > _MAX_DECIMALS:
            self.refuse(key, str(value), f"at most {_MAX_DECIMALS} decimals are")
        else:
            return number
        return None

    def _value(self, key: str, what: str, *, needed: bool) -> Any:
        value = self.values.get(key)
        if value is None and needed:
            self.fault(f"{key}: missing; {what} is needed")
        return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _decimal(value: object) -> Decimal | None:
    """Return an exact number, None for a float (its text is lost) and for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _decimals(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0
