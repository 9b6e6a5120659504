"""The pages of frozen cases: all of them, and one with what it promises.

In: cases. Out: a `Page`. Invariant: everything shown is in the frozen document, but for what follows from its inputs by
the formulas of `reports.roi`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from reports.case import Case
from reports.page import Cell, Column, Fact, Money, Note, Page, Table, money_of
from reports.roi import roi_of
from reports.roi_page import payback_text


def cases_page(cases: Iterable[Case]) -> Page:
    """Return the page that lists cases, the oldest first."""
    columns = (
        Column("name", "Case", "text"),
        Column("frozen", "Frozen", "text"),
        Column("baseline", "Baseline", "text"),
        Column("configuration", "Configuration", "text"),
        Column("currency", "Currency", "text"),
        Column("savings_per_month", "Promised a month", "money"),
        Column("payback", "Pays back", "text"),
    )
    rows = tuple(_row(case) for case in cases)
    footer = (Fact("cases", "cases", len(rows), "count"),)
    return Page("cases", "Frozen business cases", (), (Table("cases", "Cases", columns, rows),), (), footer)


def case_page(case: Case) -> Page:
    """Return the page of one case: what it promises, and what that was made from."""
    currency = case.currency
    return Page(
        name="case",
        title=f"Business case {case.name}: from {case.baseline[0]} to {case.configuration[0]}",
        parameters=case_facts(case),
        tables=(_promise(case), _returns(case), _forecast(case), _lines(case), _volumes(case), _prices(case)),
        notes=_notes(case),
        footer=(
            Fact("frozen_at", "frozen", f"{case.frozen_at:%Y-%m-%d %H:%M} UTC"),
            Fact("calls", "calls a month", case.calls, "count"),
            Fact("price_sets", "price sets", len(case.prices), "count"),
            Fact("baseline", "baseline", case.baseline[0]),
            Fact("time_zone", "time zone", case.time_zone),
            Fact("exchange_rates", "exchange rates", "; ".join(case.fx_ids) or "none"),
            Fact("currency", "currency", currency),
        ),
    )


def case_facts(case: Case) -> tuple[Fact, ...]:
    """Return the facts that name a case on every page about it."""
    return (
        Fact("case", "case", case.name),
        Fact("frozen", "frozen on", f"{case.frozen_at:%Y-%m-%d}"),
        Fact("frozen_month", "drawn from", case.month),
        Fact("prices_at", "prices at", f"{case.priced_at:%Y-%m-%d}"),
        Fact("price_list", "price list", case.price_list),
        Fact("promise_currency", "currency of the promise", case.currency),
    )


def _row(case: Case) -> tuple[Cell, ...]:
    payback = payback_text(roi_of(case.inputs).payback_month, case.inputs.horizon)
    names = (case.baseline[0], case.configuration[0], case.currency)
    return case.name, f"{case.frozen_at:%Y-%m-%d}", *names, Money(case.inputs.savings, case.currency), payback


def _promise(case: Case) -> Table:
    columns = (
        Column("what", "A month", "text"),
        Column("amount", f"Promised, {case.currency}", "money"),
        *(
            Column(f"{word}_{_percent(level)}", f"{word.capitalize()} {_percent(level)} %", "money")
            for level, *_ in case.intervals
            for word in ("low", "high")
        ),
    )
    inputs = case.inputs
    empty = (None,) * (2 * len(case.intervals))
    bounds = tuple(money_of(bound, case.currency) for _, low, high in case.intervals for bound in (low, high))
    rows: tuple[tuple[Cell, ...], ...] = (
        (case.baseline[0], Money(inputs.baseline, case.currency), *empty),
        (case.configuration[0], Money(inputs.configuration, case.currency), *empty),
        ("savings", Money(inputs.savings, case.currency), *bounds),
    )
    return Table("promise", "What is promised", columns, rows)


def _returns(case: Case) -> Table:
    columns = (
        Column("payback", "Pays back", "text"),
        Column("payback_month", "Payback, months", "count"),
        Column("horizon_months", "Horizon, months", "count"),
        Column("setup_cost", f"Set-up, {case.currency}", "money"),
        Column("monthly_cost", f"A month, {case.currency}", "money"),
        Column("roi", "ROI", "change"),
        Column("npv", f"NPV, {case.currency}", "money"),
    )
    inputs, found = case.inputs, roi_of(case.inputs)
    costs = (Money(inputs.setup_cost, case.currency), Money(inputs.monthly_cost, case.currency))
    months = (payback_text(found.payback_month, inputs.horizon), found.payback_month, inputs.horizon)
    row = (*months, *costs, found.roi, Money(found.npv, case.currency))
    return Table("returns", "Return", columns, (row,))


def _forecast(case: Case) -> Table:
    columns = (
        Column("month", "Month", "text"),
        Column("level", "Interval", "share"),
        Column("low", f"Low, {case.currency}", "money"),
        Column("point", f"Expected, {case.currency}", "money"),
        Column("high", f"High, {case.currency}", "money"),
        Column("method", "Method", "text"),
    )
    found = case.forecast
    if found is None:
        return Table("forecast", "Forecast of the spend without a switch", columns, ())
    point = money_of(found.point, case.currency)
    rows: list[tuple[Cell, ...]] = []
    for level, low, high in found.intervals:
        bounds = (money_of(low, case.currency), point, money_of(high, case.currency))
        rows.append((found.month, level, *bounds, found.method))
    rows = rows or [(found.month, None, None, point, None, found.method)]
    return Table("forecast", "Forecast of the spend without a switch", columns, tuple(rows))


def _lines(case: Case) -> Table:
    columns = (
        Column("role", "Role", "text"),
        Column("model", "Model", "text"),
        Column("component", "Component", "text"),
        Column("quantity_tokens", "Tokens", "tokens"),
        Column("cost", f"Cost, {case.currency}", "money"),
    )
    rows = tuple(
        (line.role, line.model, line.component, line.quantity, Money(line.amount, case.currency)) for line in case.lines
    )
    return Table("lines", f"A month under {case.configuration[0]}", columns, rows)


def _volumes(case: Case) -> Table:
    columns = (
        Column("role", "Role", "text"),
        Column("class", "Class", "text"),
        Column("requests", "Calls a month", "count"),
        Column("tokens", "Tokens a month", "tokens"),
    )
    rows = tuple(
        (each.role, each.task_class, each.requests, sum(each.tokens.values(), Fraction(0))) for each in case.volumes
    )
    return Table("volumes", "Work it was made for", columns, rows)


def _prices(case: Case) -> Table:
    columns = (
        Column("model", "Model", "text"),
        Column("price_list", "List", "text"),
        Column("currency", "Currency", "text"),
        Column("price_set_id", "Price set", "text"),
    )
    rows = tuple((each.model, each.price_list, each.currency, each.id) for each in case.prices.values())
    return Table("prices", "Prices it was made with", columns, rows)


def _notes(case: Case) -> tuple[Note, ...]:
    notes = [Note("note", "a frozen case is never changed: router case review shows what became of it")]
    if case.forecast is not None:
        notes.append(Note("note", "forecast: {reason}", {"reason": (case.forecast.reason, "text")}))
    return tuple(notes)


def _percent(level: Fraction) -> int:
    return level.numerator * 100 // level.denominator
