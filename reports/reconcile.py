"""A bill against the ledger: where each cent of the difference comes from.

In: entries of both by key. Out: `Difference`s. Invariant: the reasons of a key sum to bill − ledger, exactly; what no
reason is found for is unexplained and is said to be.

    only on the bill      nothing of that key in the ledger
    only in the ledger    nothing of that key on the bill
    quantity              (tokens on the bill − tokens in the ledger) × the ledger's rate
    rate                  tokens on the bill × (the bill's rate − the ledger's); of a bill without tokens, a difference
                          that is the same share on each of three days or more
    rounding              no more than half of the bill's last decimal for each of its lines
    unexplained           the rest: a bill without tokens does not say whether tokens or rates differ
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import NamedTuple

REASONS = ("only on the bill", "only in the ledger", "quantity", "rate", "rounding", "unexplained")
FEWEST_DAYS = 3
SAME_SHARE = Fraction(1, 10_000)
"""How far shares of several days may lie apart and still be one rate."""


class Key(NamedTuple):
    """What is compared with what: UTC day, model, component; None: the bill does not say, so all of them."""

    day: date | None
    model: str | None
    component: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One side of a key.

    Args:
        quantity: tokens; None: not said.
        amount: in the bill's currency.
        lines: how many lines it is the sum of.
    """

    quantity: Fraction | None
    amount: Fraction
    lines: int = 1

    def __add__(self, other: Entry) -> Entry:
        """Return the two together; the quantity is unknown where one is."""
        known = None if self.quantity is None or other.quantity is None else self.quantity + other.quantity
        return Entry(known, self.amount + other.amount, self.lines + other.lines)


@dataclass(frozen=True, slots=True)
class Difference:
    """One key of both sides, with the difference by reason (only those that are not 0)."""

    key: Key
    bill: Entry | None
    ledger: Entry | None
    reasons: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def amount(self) -> Fraction:
        """Bill − ledger."""
        sides = [Fraction(0) if side is None else side.amount for side in (self.bill, self.ledger)]
        return sides[0] - sides[1]


def reconcile(bill: Mapping[Key, Entry], ledger: Mapping[Key, Entry], unit: Fraction) -> tuple[Difference, ...]:
    """Return each key of either side with its difference explained, in the order of days, models and components.

    Args:
        bill: the bill's entries.
        ledger: the ledger's, by the same kind of key.
        unit: the bill's last decimal, in its currency; 0: it is exact.
    """
    steady = _steady_rates(bill, ledger)
    found = []
    for key in sorted({*bill, *ledger}, key=_place):
        one, other = bill.get(key), ledger.get(key)
        reasons = _reasons(one, other, unit, is_steady=(key.model, key.component) in steady)
        kept = {name: amount for name, amount in reasons.items() if amount}
        found.append(Difference(key, one, other, kept))
    return tuple(found)


def summed(differences: Iterable[Difference]) -> Mapping[str, Fraction]:
    """Return the sum of each reason over differences, in the order of `REASONS`."""
    sums = dict.fromkeys(REASONS, Fraction(0))
    for each in differences:
        for name, amount in each.reasons.items():
            sums[name] += amount
    return sums


def _reasons(bill: Entry | None, ledger: Entry | None, unit: Fraction, *, is_steady: bool) -> Mapping[str, Fraction]:
    if ledger is None:
        return {} if bill is None else {"only on the bill": bill.amount}
    if bill is None:
        return {"only in the ledger": -ledger.amount}
    allowed = unit * bill.lines / 2
    if bill.quantity is not None and ledger.quantity:
        rate = ledger.amount / ledger.quantity
        rest = bill.amount - bill.quantity * rate
        name = "rounding" if abs(rest) <= allowed else "rate"
        return {"quantity": (bill.quantity - ledger.quantity) * rate, name: rest}
    rest = bill.amount - ledger.amount
    if abs(rest) <= allowed:
        return {"rounding": rest}
    return {"rate" if is_steady else "unexplained": rest}


def _steady_rates(bill: Mapping[Key, Entry], ledger: Mapping[Key, Entry]) -> set[tuple[str | None, str | None]]:
    """Return the models and components whose bill is one and the same share of the ledger's amount on every day."""
    shares: dict[tuple[str | None, str | None], list[Fraction]] = {}
    for key, one in bill.items():
        other = ledger.get(key)
        if key.day is not None and other is not None and other.amount and one.quantity is None:
            shares.setdefault((key.model, key.component), []).append(one.amount / other.amount)
    return {
        name
        for name, found in shares.items()
        if len(found) >= FEWEST_DAYS and max(found) - min(found) <= SAME_SHARE * abs(max(found))
    }


def _place(key: Key) -> tuple[date, str, str]:
    return key.day or date.min, key.model or "", key.component or ""
