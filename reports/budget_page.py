"""The pages of budgets: all of them with where they stand, and one burning down day by day.

In: `BudgetState`s. Out: a `Page`. Invariant: each amount is in its budget's own currency, which stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from reports.budget import BudgetState
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Table, money_of
from reports.period import Period
from router.ledger.budget_records import BudgetRow

LEVEL = Fraction(80, 100)


def budgets_page(states: Sequence[BudgetState], month: Period, warn_at: Fraction) -> Page:
    """Return the page of where budgets stand.

    Args:
        states: of the month.
        month: the month.
        warn_at: the share spent from which on to warn.
    """
    columns = (
        Column("scope", "Scope", "text"),
        Column("name", "Name", "text", optional=True),
        Column("currency", "Currency", "text"),
        Column("amount", "Budget", "money"),
        Column("spent", "Spent", "money"),
        Column("spent_share", "Spent", "share"),
        Column("left", "Left", "money"),
        Column("expected", "Expected", "money", optional=True),
        Column("expected_low_80", "Low 80 %", "money", optional=True),
        Column("expected_high_80", "High 80 %", "money", optional=True),
        Column("possibly_billed", "Possibly billed", "money", optional=True),
        Column("crosses_on", "Used up on", "text", optional=True),
        Column("state", "State", "text"),
        Column("mode", "Kind", "text", optional=True),
    )
    rows = tuple(_row(state, warn_at) for state in states)
    return Page(
        name="budgets",
        title=f"Budgets of {month.name}",
        parameters=(Fact("month", "month", month.name), Fact("warn_at_share", "warns at", warn_at, "share")),
        tables=(Table("budgets", f"Budgets of {month.name}", columns, rows),),
        notes=tuple(_notes(states, warn_at)),
        footer=_footer(states, month),
    )


def budget_page(state: BudgetState, month: Period, warn_at: Fraction) -> Page:
    """Return the page of one budget, day by day.

    Args:
        state: of the month.
        month: the month.
        warn_at: the share spent from which on to warn.
    """
    currency = state.budget.amount.currency
    columns = (
        Column("day", "Day", "text"),
        Column("spent", f"Spent, {currency}", "money"),
        Column("total", f"Sum, {currency}", "money"),
        Column("left", f"Left, {currency}", "money"),
        Column("expected_left", f"Expected left, {currency}", "money", optional=True),
        Column("expected_left_low_80", f"Low 80 %, {currency}", "money", optional=True),
        Column("expected_left_high_80", f"High 80 %, {currency}", "money", optional=True),
    )
    chart = Chart(
        name="burn_down",
        title=f"Left of the budget, {currency}",
        kind="line",
        table="burn_down",
        x="day",
        y=("left", "expected_left"),
        description="The line falls as money is spent; where it goes below zero, the budget is used up.",
    )
    name = budget_name(state.budget)
    whole = budgets_page([state], month, warn_at)
    return Page(
        name="budget",
        title=f"Budget {name} in {month.name}",
        parameters=whole.parameters,
        tables=(Table("burn_down", "Day by day", columns, tuple(_days(state))), *whole.tables),
        notes=whole.notes,
        footer=whole.footer,
        charts=(chart,),
    )


def budget_name(budget: BudgetRow) -> str:
    """Return how a budget is called: its scope, and the name within it."""
    return f"{budget.scope} {budget.name}" if budget.name else budget.scope


def _row(state: BudgetState, warn_at: Fraction) -> tuple[Cell, ...]:
    budget, currency = state.budget, state.budget.amount.currency
    found = state.forecast
    interval = None if found is None else found.interval(LEVEL)
    day = state.crossed_on or state.crosses_on
    return (
        budget.scope,
        budget.name,
        currency,
        Money(state.amount, currency),
        Money(state.spent, currency, bool(state.unpriced)),
        state.used,
        Money(state.amount - state.spent, currency),
        None if found is None else money_of(found.point, currency),
        None if interval is None else Money(interval.low, currency),
        None if interval is None else Money(interval.high, currency),
        Money(state.possibly_billed, currency),
        None if day is None else day.isoformat(),
        state.state(warn_at),
        budget.mode,
    )


def _days(state: BudgetState) -> Iterator[tuple[Cell, ...]]:
    currency = state.budget.amount.currency
    for day in state.days:
        left = Money(state.amount - day.total, currency)
        spent = money_of(day.spent, currency)
        if not day.is_forecast:
            yield day.day.isoformat(), spent, Money(day.total, currency), left, None, None, None
            continue
        low, high = (None, None) if day.bounds is None else day.bounds
        bounds = (None if each is None else Money(state.amount - each, currency) for each in (high, low))
        yield day.day.isoformat(), spent, None, None, left, *bounds


def _notes(states: Sequence[BudgetState], warn_at: Fraction) -> Iterator[Note]:
    if not states:
        yield Note("note", "no budget is set: router budget set all 500 USD sets one")
    for state in states:
        yield from _state_notes(state, warn_at)
    seen: list[Note] = []
    for note in (note for state in states for note in state.notes):
        if note not in seen:
            seen.append(note)
            yield note


def _state_notes(state: BudgetState, warn_at: Fraction) -> Iterator[Note]:
    values: dict[str, tuple[Cell, Kind]] = {
        "name": (budget_name(state.budget), "text"),
        "share": (state.used, "share"),
        "count": (state.unpriced, "count"),
        "amount": (Money(state.possibly_billed, state.budget.amount.currency), "money"),
        "currency": (state.budget.amount.currency, "text"),
    }
    day = state.crossed_on or state.crosses_on
    if day is not None:
        values["day"] = (day.isoformat(), "text")
    found = state.state(warn_at)
    if found == "crossed":
        yield Note("warning", "{name}: crossed on {day}; {share} is spent", values)
    elif found == "forecast to cross":
        yield Note("warning", "{name}: crosses it on {day}, as things go; {share} is spent", values)
    elif found == "warning":
        yield Note("warning", "{name}: {share} is spent", values)
    if state.unpriced:
        yield Note("warning", "{name}: more is spent than is known; attempts without a price: {count}", values)
    if found != "crossed" and state.spent + state.possibly_billed > state.amount:
        text = "{name}: with what is possibly billed ({amount} {currency}) it would be crossed"
        yield Note("warning", text, values)
    if state.forecast is not None:
        values["reason"] = (state.forecast.reason, "text")
        yield Note("note", "{name}: forecast: {reason}", values)


def _footer(states: Iterable[BudgetState], month: Period) -> tuple[Fact, ...]:
    return (
        Fact("rows_unpriced", "rows unpriced", max((state.unpriced for state in states), default=0), "count"),
        Fact("baseline", "baseline", "none"),
        Fact("time_zone", "time zone", month.zone.key),
    )
