"""The page of a return: what a switch saves, when it pays back, and what that hangs on.

In: `RoiInputs`, what the month's costs were drawn from. Out: a `Page`. Invariant: the first line of the first table is
what is expected; the others are the same sums at the ends of the intervals of a month's savings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Table, change_share
from reports.roi import LONGEST, VARIED, Roi, RoiInputs, Sensitivity, roi_of, sensitivities


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part of the work: attempts, and its cost under both, in the page's currency."""

    name: str
    attempts: Fraction
    baseline: Fraction
    configuration: Fraction


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a month's costs were drawn from.

    Args:
        title: what it is, for the page's heading.
        parameters: what was asked for.
        notes: what must be said about it.
        footer: rows counted and the like.
        calls: logical calls of a month; None: not known.
        tasks: tasks of a month that succeeded; None: not known.
        intervals: bounds of a month's savings by level, the innermost first; empty: none can be drawn.
        parts: the cost by part of the work, of the days that were counted; empty: not known.
    """

    title: str
    parameters: tuple[Fact, ...]
    notes: tuple[Note, ...]
    footer: tuple[Fact, ...]
    calls: Fraction | None = None
    tasks: Fraction | None = None
    intervals: tuple[tuple[Fraction, tuple[Fraction, Fraction]], ...] = ()
    parts: tuple[PartRow, ...] = ()


def roi_page(names: tuple[str, str], inputs: RoiInputs, drawn: Drawn, currency: str) -> Page:
    """Return the page of a return.

    Args:
        names: of the baseline and of the configuration.
        inputs: what it is worked out from; its costs are a month's.
        drawn: what they were drawn from.
        currency: ISO 4217 code of every amount.
    """
    expected = roi_of(inputs)
    months = _months_table(expected, currency)
    return Page(
        name="roi",
        title=f"Return of switching from {names[0]} to {names[1]}: {drawn.title}",
        parameters=(*drawn.parameters, *_facts(names, inputs, currency)),
        tables=(
            _returns_table(inputs, drawn, currency),
            _costs_table(names, inputs, drawn, currency),
            months,
            _break_even_table(expected, drawn),
            _sensitivity_table(inputs, currency),
            *_parts_tables(names, drawn.parts, currency),
        ),
        notes=(*_verdict(inputs, expected, currency), *drawn.notes, *_method(inputs, drawn)),
        footer=drawn.footer,
        charts=(_chart(inputs, currency),),
    )


def payback_text(month: int | None, horizon: int) -> str:
    """Return when a switch pays back, in words."""
    if month is None:
        return "never"
    if month == 0:
        return "at once"
    return f"month {month}" if month <= horizon else f"month {month}, after the horizon"


def at_savings(inputs: RoiInputs, savings: Fraction) -> RoiInputs:
    """Return the inputs with another saving of a month, the baseline's cost as it is."""
    return replace(inputs, configuration=inputs.baseline - savings)


def _returns_table(inputs: RoiInputs, drawn: Drawn, currency: str) -> Table:
    columns = (
        Column("case", "Case", "text"),
        Column("savings_per_month", f"Savings a month, {currency}", "money"),
        Column("payback", "Pays back", "text"),
        Column("payback_month", "Payback, months", "count"),
        Column("roi", "ROI", "change"),
        Column("npv", f"NPV, {currency}", "money"),
    )
    rows = [_return_row("expected", inputs, currency)]
    for level, bounds in drawn.intervals:
        for word, savings in zip(("low", "high"), bounds, strict=True):
            rows.append(
                _return_row(
                    f"{level.numerator * 100 // level.denominator} % {word}", at_savings(inputs, savings), currency
                )
            )
    return Table("returns", f"Return over {inputs.horizon} months", columns, tuple(rows))


def _return_row(name: str, inputs: RoiInputs, currency: str) -> tuple[Cell, ...]:
    found = roi_of(inputs)
    payback = payback_text(found.payback_month, inputs.horizon)
    amounts = (Money(inputs.savings, currency), Money(found.npv, currency))
    return name, amounts[0], payback, found.payback_month, found.roi, amounts[1]


def _costs_table(names: tuple[str, str], inputs: RoiInputs, drawn: Drawn, currency: str) -> Table:
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("cost_per_month", f"Cost a month, {currency}", "money"),
        Column("cost_per_call", f"Per call, {currency}", "money", optional=True),
        Column("cost_per_successful_task", f"Per successful task, {currency}", "money", optional=True),
        Column("change_share", "Change", "change"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, cost in zip(names, (inputs.baseline, inputs.configuration), strict=True):
        shares = (_each(cost, count, currency) for count in (drawn.calls, drawn.tasks))
        rows.append((name, Money(cost, currency), *shares, change_share(cost - inputs.baseline, inputs.baseline)))
    return Table("costs", "Cost a month", columns, tuple(rows))


def _each(cost: Fraction, count: Fraction | None, currency: str) -> Money | None:
    return Money(cost / count, currency) if count else None


def _months_table(found: Roi, currency: str) -> Table:
    columns = (
        Column("month", "Month", "count"),
        Column("savings", f"Savings, {currency}", "money"),
        Column("net", f"Less running cost, {currency}", "money"),
        Column("cumulative", f"Sum less set-up, {currency}", "money"),
        Column("cumulative_value", f"Its present value, {currency}", "money"),
    )
    rows: list[tuple[Cell, ...]] = []
    for month in found.months:
        amounts = (month.savings, month.net, month.cumulative, month.cumulative_value)
        rows.append((month.number, *(Money(amount, currency) for amount in amounts)))
    return Table("months", "Month by month", columns, tuple(rows))


def _break_even_table(found: Roi, drawn: Drawn) -> Table:
    columns = (
        Column("savings_pay", "Savings pay", "text"),
        Column("volume_share", "Share of volume", "share"),
        Column("calls_per_month", "Calls a month", "count"),
    )
    pays = (
        ("the running cost", found.running_share),
        ("set-up and running cost within the horizon", found.whole_share),
    )
    rows = tuple((name, share, _calls(share, drawn.calls)) for name, share in pays)
    return Table("break_even", "Break-even volume", columns, rows)


def _calls(share: Fraction | None, calls: Fraction | None) -> int | None:
    return None if share is None or calls is None else ceil(share * calls)


def _sensitivity_table(inputs: RoiInputs, currency: str) -> Table:
    percent = f"{VARIED.numerator * 100 // VARIED.denominator} %"
    columns = (
        Column("input", "Input", "text"),
        Column("npv_low", f"NPV at −{percent}, {currency}", "money"),
        Column("npv_high", f"At +{percent}, {currency}", "money"),
        Column("swing", f"Difference, {currency}", "money"),
    )
    rows = tuple(_sensitivity_row(each, currency) for each in sensitivities(inputs))
    return Table("sensitivity", "What it hangs on, the strongest first", columns, rows)


def _sensitivity_row(each: Sensitivity, currency: str) -> tuple[Cell, ...]:
    return each.name, *(Money(amount, currency) for amount in (each.low, each.high, each.swing))


def _parts_tables(names: tuple[str, str], parts: Sequence[PartRow], currency: str) -> Iterator[Table]:
    if not parts:
        return
    columns = (
        Column("part", "Part of the work", "text"),
        Column("attempts", "Attempts", "count"),
        Column("baseline_cost", f"{names[0]}, {currency}", "money"),
        Column("configuration_cost", f"{names[1]}, {currency}", "money"),
        Column("savings", f"Savings, {currency}", "money"),
    )
    rows = tuple(_part_row(part, currency) for part in parts)
    whole = PartRow(
        "total",
        sum((part.attempts for part in parts), Fraction(0)),
        sum((part.baseline for part in parts), Fraction(0)),
        sum((part.configuration for part in parts), Fraction(0)),
    )
    yield Table("parts", "Overhead that is counted in", columns, rows, _part_row(whole, currency))


def _part_row(part: PartRow, currency: str) -> tuple[Cell, ...]:
    amounts = (part.baseline, part.configuration, part.baseline - part.configuration)
    return part.name, part.attempts, *(Money(amount, currency) for amount in amounts)


def _verdict(inputs: RoiInputs, found: Roi, currency: str) -> Iterator[Note]:
    values: Mapping[str, tuple[Cell, Kind]] = {
        "savings": (Money(inputs.savings, currency), "money"),
        "running": (Money(inputs.monthly_cost, currency), "money"),
        "currency": (currency, "text"),
        "month": (found.payback_month, "count"),
        "horizon": (inputs.horizon, "count"),
        "longest": (LONGEST, "count"),
    }
    if inputs.savings <= 0:
        yield Note("warning", "it is never paid back: a month saves {savings} {currency}", values)
    elif found.payback_month is None:
        text = (
            "it is never paid back: a month saves {savings} {currency} and costs {running}; {longest} months looked at"
        )
        yield Note("warning", text, values)
    elif found.payback_month > inputs.horizon:
        yield Note("warning", "it pays back in month {month} only, after the horizon of {horizon} months", values)
    else:
        text = (
            "it pays back at once: nothing is paid for the set-up"
            if found.payback_month == 0
            else "it pays back in month {month}"
        )
        yield Note("note", text, values)


def _method(inputs: RoiInputs, drawn: Drawn) -> Iterator[Note]:
    if drawn.intervals:
        yield Note(
            "note",
            "intervals: the month's days drawn again 2,000 times with replacement; they tell how far days differ, not "
            "what another month brings",
        )
    if inputs.growth:
        text = "month 1 has the volume that was measured; each later one is {growth} of the one before"
        yield Note("note", text, {"growth": (1 + inputs.growth, "share")})
    if inputs.discount_rate:
        text = "NPV, net present value: month t divided by (1 + {rate})^(t/12), the annual rate as given"
        yield Note("note", text, {"rate": (inputs.discount_rate, "share")})


def _facts(names: tuple[str, str], inputs: RoiInputs, currency: str) -> tuple[Fact, ...]:
    return (
        Fact("baseline", "baseline", names[0]),
        Fact("configuration", "configuration", names[1]),
        Fact("setup_cost", f"set-up cost, {currency}", Money(inputs.setup_cost, currency), "money"),
        Fact("monthly_cost", f"running cost a month, {currency}", Money(inputs.monthly_cost, currency), "money"),
        Fact("horizon_months", "horizon, months", inputs.horizon, "count"),
        Fact("growth_share", "growth a month", inputs.growth, "share"),
        Fact("discount_rate_share", "discount rate a year", inputs.discount_rate, "share"),
    )


def _chart(inputs: RoiInputs, currency: str) -> Chart:
    return Chart(
        name="cumulative",
        title=f"Savings so far less all cost, {currency}",
        kind="line",
        table="months",
        x="month",
        y=("cumulative", "cumulative_value") if inputs.discount_rate else ("cumulative",),
        description="Where the line crosses zero, the switch is paid back.",
    )
