"""How a stored total is laid over the lines it is made of, so that they add up to it to the last digit.

In: whole numbers of 1e-12. Out: whole numbers of 1e-12, and unit prices. Invariant: the parts add up to the total;
a part is within 1e-12 of its exact share; a unit price times its quantity, rounded at 1e-12, is the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from reports.focus_columns import COST_PLACES, PRICE_PLACES

PICO: int = 10**COST_PLACES
_WIDE = Context(prec=400, rounding=ROUND_HALF_EVEN)


def split(total: int, weights: Sequence[int | Fraction]) -> tuple[int, ...]:
    """Return a total in parts proportional to weights, by the method of largest remainders (Hamilton).

    Args:
        total: 0 or more.
        weights: at least one, none negative; where all are 0, the parts are as equal as can be.

    Returns:
        Whole numbers whose sum is the total.
    """
    whole = sum(weights)
    shares = list(weights) if whole else [1] * len(weights)
    whole = whole or len(weights)
    exact = [Fraction(total * share) / whole for share in shares]
    parts = [int(part) for part in exact]
    # What is left is less than one each; the first of equal remainders is served first.
    by_remainder = sorted(range(len(parts)), key=lambda at: (parts[at] - exact[at], at))
    for at in by_remainder[: total - sum(parts)]:
        parts[at] += 1
    return tuple(parts)


def unit_price(cost: int, quantity: Decimal, stated: Fraction | None) -> Decimal:
    """Return the price of one unit that gives a cost: the stated one where it does, else the cost's quotient.

    Args:
        cost: whole 1e-12.
        quantity: above 0.
        stated: the price that should hold; None: none is known.
    """
    exact = None if stated is None else finite(stated, PRICE_PLACES)
    if exact is not None and Fraction(exact) == stated and to_pico(stated * Fraction(quantity)) == cost:
        return exact
    # Half a unit of the last decimal, times the quantity, must stay below half of 1e-12.
    places = min(PRICE_PLACES, COST_PLACES + 1 + len(str(int(quantity))))
    return finite(Fraction(cost, PICO) / Fraction(quantity), places)


def finite(value: Fraction, places: int) -> Decimal:
    """Return a number rounded half-even to so many decimals."""
    scaled = round(value * 10**places)
    return Decimal(scaled).scaleb(-places, context=_WIDE)


def amount(pico: int) -> Decimal:
    """Return whole 1e-12 as an amount."""
    return Decimal(pico).scaleb(-COST_PLACES, context=_WIDE)


def to_pico(value: Fraction) -> int:
    """Return an amount as whole 1e-12, rounded half-even."""
    return round(value * PICO)
