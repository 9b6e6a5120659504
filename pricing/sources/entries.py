"""What a data set says about models' prices, in our terms.

In: values of a reader. Out: `DataSet`, `Entry`, `Offer`. Invariant: an amount is what the data set states, per our
unit, rounded at 12 decimals and nowhere else; a rounding that changed it is on record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal

from pricing.conditions import ALWAYS, Conditions

_WIDE = Context(prec=60, rounding=ROUND_HALF_EVEN)
_DECIMALS = Decimal(1).scaleb(-12)


@dataclass(frozen=True, slots=True)
class Offer:
    """One price of one component.

    Args:
        component: a key of `pricing.prices.UNITS`.
        amount: USD per that component's unit, 0 or more.
        conditions: served tier, batch and context threshold; never the clock.
        clocked: whether it holds at the asked instant, and at others of the same day not.
    """

    component: str
    amount: Decimal
    conditions: Conditions = ALWAYS
    clocked: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What a data set says about one model of one seller.

    Args:
        id: the entry's key in the data set.
        price_list: name of the seller's list in the bundled catalogue.
        names: ids that the seller knows the model by, the entry's own first.
        offers: its prices, one for each component and conditions.
        url: the page it cites, or "".
        left_out: the data set's keys of prices that have no component here.
        context_window_tokens: input it can hold, tokens; None: not stated.
        max_output_tokens: longest answer, tokens; None: not stated.
    """

    id: str
    price_list: str
    names: tuple[str, ...]
    offers: tuple[Offer, ...]
    url: str = ""
    left_out: tuple[str, ...] = ()
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Rounding:
    """A price that was stated with more than 12 decimals: noise of binary floating point.

    Args:
        entry: the entry's key.
        key: the price's key in it.
        stated: what is stated, USD per our unit.
        rounded: what was read.
    """

    entry: str
    key: str
    stated: Decimal
    rounded: Decimal


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, as it prices one instant.

    Args:
        name: of the data set.
        version: of the package it was read from.
        at: aware UTC instant whose prices these are.
        entries: its models.
        roundings: prices that were rounded.
    """

    name: str
    version: str
    at: datetime
    entries: tuple[Entry, ...]
    roundings: tuple[Rounding, ...] = ()

    def source(self, entry: str) -> str:
        """Return the words a row taken from an entry names its source with."""
        return f"{self.name} {self.version}, entry {entry}"


@dataclass(slots=True)
class Rounder:
    """Rounds amounts at 12 decimals, half-even, and keeps a record of those that changed."""

    noted: list[Rounding] = field(default_factory=list)

    def per_unit(self, entry: str, key: str, stated: Decimal, shift: int = 0) -> Decimal:
        """Return a stated price × 10^`shift`, rounded at 12 decimals.

        Args:
            entry: the entry's key, for the record.
            key: the price's key, for the record.
            stated: what the data set says.
            shift: decimal places from its unit to ours: 6 from per token to per Mtok.
        """
        exact = stated.scaleb(shift, context=_WIDE)
        rounded = exact.quantize(_DECIMALS, context=_WIDE)
        if rounded != exact:
            self.noted.append(Rounding(entry, key, exact, rounded))
        return rounded
