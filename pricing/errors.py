"""The errors of `pricing`, all of them.

    PricingError
    ├── CatalogError          a price file is wrong; carries every fault found in it
    ├── UnknownModel          no such model in a price list; carries near misses, never uses one
    ├── UsageError            a provider's usage report contradicts itself, or is not of its documented shape
    ├── ScenarioError         a scenario is wrong; carries every fault found in it
    └── FxError               no rate for the pair and day, or the one there is is too old

`str(error)` is one line that names the key, the value and what was allowed; `error.hint` says what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass


class PricingError(Exception):
    """Base of every error this package raises.

    Args:
        message: one line: the key, the value, what was allowed.
        hint: one line saying what to do, or None.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a file: where it stands and what it is."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`, or `file: message` where no line is known."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class CatalogError(PricingError):
    """A price file is wrong. `faults` holds every fault found, in file order; the message shows them all."""

    def __init__(self, faults: tuple[Fault, ...], hint: str | None = None) -> None:
        super().__init__("\n".join(str(fault) for fault in faults), hint)
        self.faults = faults


class ScenarioError(PricingError):
    """A scenario is wrong. `faults` holds every fault found, in the order of the keys; the message shows them all."""

    def __init__(self, faults: tuple[Fault, ...], hint: str | None = None) -> None:
        super().__init__("\n".join(str(fault) for fault in faults), hint)
        self.faults = faults


class UnknownModel(PricingError):
    """A model name that the price list does not have. `near` holds similar names, best first; none is ever used."""

    def __init__(self, message: str, near: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.near = near


class UsageError(PricingError):
    """A usage report that cannot be right: a negative bucket, or parts that exceed their whole."""


class FxError(PricingError):
    """No usable exchange rate for a pair and a day."""
