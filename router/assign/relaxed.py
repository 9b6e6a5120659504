"""What quality costs at the margin, and a bound that no assignment can beat: Lagrange's, without the latency limit.

In: a `Table`. Out: a price of quality in USD, and a bound. Invariant: a bound is valid whatever the price it was worked
out at (weak duality); the price only decides how close it is.

With a price p on quality, each step chooses alone: the option of least cost − p·gain. For a floor F the sum of these
minima plus p·F is at most the cost of any assignment that reaches F; for a budget B, the sum of gain − cost / p over
the same choices, plus B / p, is at least the quality of any that costs at most B. H. Everett, "Generalized Lagrange
Multiplier Method for Solving Problems of Optimum Allocation of Resources", Operations Research 11 (1963).
"""

from __future__ import annotations

import math

import numpy as np

from router.assign.solution import Objective
from router.assign.table import TOLERANCE, Floats, Places, Table

# Halvings of the price's range: what is left of it is one part in 2^40 of its logarithm's width.
_HALVINGS = 40


def at_price(table: Table, price: float) -> Places:
    """Return the column that each step chooses alone at a price of quality, USD; the best there is at infinity."""
    return np.asarray(np.argmin(reduced_cost(table, price), axis=1))


def reduced_cost(table: Table, price: float) -> Floats:
    """Return cost − price × gain of every option, USD; at an infinite price −gain, no USD."""
    if math.isinf(price):
        return np.where(np.isinf(table.cost), math.inf, -table.gain)
    found: Floats = table.cost - price * table.gain
    return found


def picked(values: Floats, columns: Places) -> Floats:
    """Return the value in the chosen column of each row."""
    found: Floats = values[np.arange(len(columns)), columns]
    return found


def price_of_quality(table: Table, objective: Objective) -> float:
    """Return the least price at which the floor is reached, or the highest that the budget allows, USD; latency apart.

    0 where the cheapest options reach the floor; infinite where the budget allows the best, or no price will do.
    """
    if objective == "cost" and (table.floor is None or _is_enough(table, objective, 0.0)):
        return 0.0
    low, high = _range(table)
    if not _is_enough(table, objective, high):
        return math.inf
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if _is_enough(table, objective, middle) else (middle, high)
    return high if objective == "cost" else low


def bound_at(table: Table, objective: Objective, price: float) -> float | None:
    """Return the bound at a price: USD for the steps alone, or a quality from 0 to 1; None where it says nothing."""
    if objective == "quality":
        return _quality_bound(table, price)
    if math.isinf(price):
        return None
    columns = at_price(table, price)
    found = picked(reduced_cost(table, price), columns).sum() + price * ((table.floor or 0.0) - TOLERANCE)
    return float(max(found, table.cost[:, 0].sum()))


def _quality_bound(table: Table, price: float) -> float:
    best = float(picked(table.gain, at_price(table, math.inf)).sum())
    if table.budget is None or math.isinf(price) or price <= 0:
        return best
    columns = at_price(table, price)
    budget_usd = table.budget * table.unit_usd
    gained = picked(table.gain, columns).sum() + (budget_usd - picked(table.cost, columns).sum()) / price
    return float(min(best, gained))


def _is_enough(table: Table, objective: Objective, price: float) -> bool:
    """Return whether a price reaches the floor, or is above what the budget allows."""
    columns = at_price(table, price)
    if objective == "cost":
        return bool(picked(table.gain, columns).sum() >= (table.floor or 0.0))
    return table.budget is not None and bool(picked(table.cost, columns).sum() > table.budget * table.unit_usd)


def _range(table: Table) -> tuple[float, float]:
    """Return a price below every exchange of two options of a step, and one above."""
    exists = np.isfinite(table.cost)
    costs = table.cost[exists]
    span = float(costs.max() - costs.min()) or 1.0
    steps = np.diff(np.sort(table.gain, axis=1), axis=1)
    finest = float(steps[steps > 0].min(initial=1.0))
    dearer = table.cost[:, 1:][exists[:, 1:]] - table.cost[:, :-1][exists[:, 1:]]
    cheapest = float(dearer[dearer > 0].min(initial=span))
    return cheapest / 2, 2 * span / finest
