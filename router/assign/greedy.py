"""A good assignment, quickly: first all steps at one price of quality, then one step at a time.

In: a `Table`, an objective, a deadline. Out: columns that hold the limits, or None where it finds none (which proves
nothing). Invariant: the same table gives the same columns, as long as the deadline does not strike.

1. At a price of quality each step takes its least cost − price·gain (see `relaxed`).
2. Chains that are too long are shortened where a second costs least, at that price.
3. The price is raised, by halving, until the floor is reached (or as far as the budget allows).
4. What is missing is bought where it costs least; what is left over is given back where it saves most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from router.assign.relaxed import at_price, price_of_quality, reduced_cost
from router.assign.search import Search
from router.assign.solution import Objective
from router.assign.standing import Standing, better_of, standing_at
from router.assign.table import TOLERANCE, Floats, Places, Table
from router.assign.terms import Deadline

# By how much the price is moved until floor or budget is held within the latency limit; how often the rest is halved.
_MOVES = tuple(1.1 ** (1 << number) for number in range(8))
_HALVINGS = 6
# How many places may be walked in shortening chains one by one; in larger plans late steps are sped up together.
_PLACES_WALKED = 200_000
# What is charged for a second then, in shares of what usually lies between two options, and how fast it is raised.
_CHEAPEST_SECOND, _DEAREST_SECOND, _WIDENING_OF_A_SECOND = 1e-5, 1e9, 2.0


def greedy(table: Table, objective: Objective, deadline: Deadline) -> Standing | None:
    """Return a good choice that holds the limits, or None."""
    best: Standing | None = None
    for start in _starts(table, objective, deadline):
        best = better_of(objective, best, finished(table, objective, start, deadline))
    return best


def finished(table: Table, objective: Objective, columns: Places, deadline: Deadline) -> Standing:
    """Return a choice after single steps have been changed as long as that helps; it may break limits still."""
    search = Search(table, columns)
    finish = _finish_cheap if objective == "cost" else _finish_good
    finish(search, deadline)
    return standing_at(table, search.columns.tolist())


def _starts(table: Table, objective: Objective, deadline: Deadline) -> Iterator[Places]:
    """Yield where to begin: on both sides of the price that just reaches the floor, or just keeps the budget."""
    price = price_of_quality(table, objective)
    if table.span_s is None:
        yield at_price(table, price)
        return
    tried: dict[float, Search] = {}

    def holds(price: float) -> bool:
        tried[price] = _in_time(table, price)
        return _holds(table, objective, tried[price])

    good, bad = _bracket(table, objective, price, holds)
    for _ in range(_HALVINGS if 0 < bad < math.inf and bad != good else 0):
        middle = math.sqrt(good * bad)
        if not deadline.left_s or math.isinf(middle):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    for each in dict.fromkeys((good, bad)):
        yield tried[each].columns


def _bracket(table: Table, objective: Objective, price: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Return a price at which floor or budget is held, and one near it at which it is not; or one price twice."""
    if holds(price):
        return (price, price)
    usual = float(table.cost[:, 0].sum()) or 1.0
    start, last = (price if 0 < price < math.inf else usual), price
    for move in _MOVES:
        tried = start * move if objective == "cost" else start / move
        if holds(tried):
            return (tried, last)
        last = tried
    end = math.inf if objective == "cost" else 0.0
    return (end, end if holds(end) else last)


def _in_time(table: Table, price: float) -> Search:
    """Return all steps at one price, with the chains that are too long shortened at that price."""
    values = reduced_cost(table, price)
    found = Search(table, at_price(table, price))
    walks = _PLACES_WALKED // len(table.kept)
    if found.is_in_time or (walks >= len(table.kept) and _shorten(found, values, walks)):
        return found
    return Search(table, _hurried(table, values))


def _shorten(search: Search, values: Floats, walks: int) -> bool:
    """Make chains fit where a second costs least; return whether all fit after so many walks along the graph."""
    table, span_s = search.table, search.table.span_s or 0.0
    for _ in range(walks):
        length_s, chain = search.chain()
        excess_s = length_s - span_s
        while excess_s > 0:
            rows = np.array(chain)
            now = search.columns[rows]
            faster = table.latency[rows, now][:, None] - table.latency[rows]
            worse = values[rows] - values[rows, now][:, None]
            exchange = _ratio(worse, np.minimum(faster, excess_s), faster > 0)
            place, column = np.unravel_index(np.argmin(exchange), exchange.shape)
            if math.isinf(exchange[place, column]):
                return False
            search.take(chain[place], int(column))
            excess_s -= float(faster[place, column])
        if search.is_in_time:
            return True
    return False


def _hurried(table: Table, values: Floats) -> Places:
    """Return all steps at one price and, for the late ones, a charge on seconds that is raised until none is late."""
    exists = np.isfinite(values)
    latency = np.where(exists, table.latency, 0.0)
    charge = np.zeros(len(values))
    usual = float(np.ptp(values[exists])) / max(float(latency.max()), TOLERANCE) or 1.0
    while True:
        columns = np.argmin(values + charge[:, None] * latency, axis=1)
        late = Search(table, columns).late()
        if not late.any() or charge.max() > usual * _DEAREST_SECOND:
            return np.asarray(columns)
        charge[late] = np.maximum(charge[late] * _WIDENING_OF_A_SECOND, usual * _CHEAPEST_SECOND)


def _finish_cheap(search: Search, deadline: Deadline) -> None:
    """Buy what is missing of the floor, then save what can be saved."""
    floor = search.table.floor
    if floor is None:
        floor = -math.inf
    while (missing := floor - search.gain) > TOLERANCE / 2:
        dearer, better, may = search.changes()
        exchange = _ratio(dearer, np.minimum(better, missing), may & (better > 0))
        if not deadline.left_s or not _take_least(search, exchange):
            return
    while deadline.left_s:
        dearer, better, may = search.changes()
        spare = search.gain - floor + TOLERANCE / 2
        saved = np.where(may & (dearer < 0) & (better >= -spare), dearer, math.inf)
        if not _take_least(search, saved):
            break


def _finish_good(search: Search, deadline: Deadline) -> None:
    """Give back what is above the budget, then buy the quality that it allows."""
    table = search.table
    budget_usd = math.inf if table.budget is None else table.budget * table.unit_usd
    while table.budget is not None and search.units > table.budget:
        dearer, better, may = search.changes()
        over = max(search.cost_usd - budget_usd, table.unit_usd)
        exchange = _ratio(-better, np.minimum(-dearer, over), may & (dearer < 0))
        if not deadline.left_s or not _take_least(search, exchange):
            return
    while deadline.left_s:
        dearer, better, may = search.changes()
        allowed = may & (dearer <= (budget_usd - search.cost_usd) * (1 + TOLERANCE)) & (better > 0)
        exchange = _ratio(-better, np.maximum(dearer, table.unit_usd), allowed)
        if not _take_least(search, exchange, is_bought=True):
            return


def _take_least(search: Search, exchange: Floats, *, is_bought: bool = False) -> bool:
    """Make the move that costs least for what it brings, of the affordable ones; return False where there is none."""
    for _ in range(exchange.size if is_bought else 1):
        place, column = (int(each) for each in np.unravel_index(np.argmin(exchange), exchange.shape))
        if math.isinf(exchange[place, column]):
            return False
        if not is_bought or search.is_affordable(place, column):
            search.take(place, column)
            return True
        exchange[place, column] = math.inf
    return False


def _ratio(loss: Floats, won: Floats, may: NDArray[np.bool_]) -> Floats:
    """Return what is lost for what is won, infinite where a move may not be made."""
    found = np.full(loss.shape, math.inf)
    with np.errstate(over="ignore"):  # next to nothing is won: too dear in any case
        np.divide(loss, won, out=found, where=may)
    return found


def _holds(table: Table, objective: Objective, found: Search) -> bool:
    """Return whether the floor is reached, or the budget kept."""
    if objective == "cost":
        return table.floor is None or found.gain >= table.floor - TOLERANCE / 2
    return table.budget is None or found.cost_usd <= table.budget * table.unit_usd
