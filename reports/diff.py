"""Past and new, line by line: two months of the ledger as they were billed, or one month under two configurations.

In: two sides (amounts by line), the currency. Out: a `Page`, and the change of the total. Invariant: the lines add up
to the totals exactly; an amount that leaves something out is a lower bound, and the page says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from reports.billed import BilledGroup, billed_groups, by_component, component_columns, recorded_sums, sets_of
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Table, change_share, money_of
from reports.period import Period, no_rows
from reports.price_facts import retired_notes
from reports.repricing import Repriced
from router.errors import unknown_name

_RECORDED: Mapping[str, tuple[str, ...]] = {
    "model": ("model_served", "model_asked"),
    "role": ("role",),
    "class": ("task_class",),
    "component": component_columns(),
    "configuration": ("configuration",),
    "endpoint": ("endpoint",),
    "tenant": ("tenant",),
}
_REPRICED: Mapping[str, str] = {"model": "model", "role": "role", "class": "task_class", "component": "component"}
_MOST_BARS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one side, in the page's currency.

    Args:
        amount: what it cost, as far as it is known; None: nothing of it is known.
        calls: attempts whose usage is known; None: not counted by this line.
        lower_bound: whether something in it has no price.
    """

    amount: Fraction | None
    calls: Fraction | None = None
    lower_bound: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a diff.

    Args:
        name: a month's, or a configuration's.
        lines: by label; the label None stands for what is not on record.
        total: the sum of the lines; a lower bound where something has no price; None: unknown.
        calls: attempts in it.
        notes: what must be said about it.
        rows_counted, rows_unpriced: rows of the ledger in it, and those left out for want of usage or a price.
        is_billed: whether it is on record. What that leaves out are single attempts, so that changes are still worth
            seeing; what a re-priced side leaves out is a whole component of a model, and no change is worked out.
    """

    name: str
    lines: Mapping[str | None, Line]
    total: Money | None
    calls: Fraction | None
    notes: tuple[Note, ...] = ()
    rows_counted: int = 0
    rows_unpriced: int = 0
    is_billed: bool = True


def groups_allowed(*, recorded: bool) -> tuple[str, ...]:
    """Return what lines can be: more of what is on record than of what is re-priced."""
    return tuple(_RECORDED if recorded else _REPRICED)


def check_group(by: str, *, recorded: bool) -> None:
    """Refuse a group that does not exist.

    Raises:
        WrongUsage: it does not; those that do are listed.
    """
    if by not in groups_allowed(recorded=recorded):
        raise unknown_name("group", by, groups_allowed(recorded=recorded))


def side_on_record(reader: LedgerReader, month: Period, by: str, exchange: Exchange, name: str | None = None) -> Side:
    """Return a month as it was billed: settled cost by line.

    Args:
        reader: the ledger's.
        month: the month.
        by: one of `groups_allowed(recorded=True)`.
        exchange: converts into the page's currency.
        name: what the side is called; None: by the month's name.

    Raises:
        WrongUsage: there is no such group.
        RouterError: the month has no rows; those that have some are named.
        FxError: an amount cannot be converted.
    """
    check_group(by, recorded=True)
    groups = billed_groups(reader, month, _RECORDED[by], exchange)
    if not groups:
        raise no_rows(month, reader.months_present(month.zone))
    lines = _by_component(groups, reader) if by == "component" else _by_label(groups, _RECORDED[by])
    name, unknown = name or month.name, sum(group.unknown for group in groups)
    partial = sum(group.requests for group in groups if not group.is_whole)
    return Side(
        name=name,
        lines=lines,
        total=recorded_sums(groups, exchange.currency)[1],
        calls=Fraction(sum(group.requests for group in groups)),
        notes=(*_left_out(name, unknown, "usage"), *_left_out(name, partial, "whole price")),
        rows_counted=sum(group.records for group in groups),
        rows_unpriced=unknown + sum(each.records - each.sums["usage_unknown"] for each in groups if not each.is_whole),
    )


def side_repriced(repriced: Repriced, by: str, rows_counted: int, rows_unpriced: int) -> Side:
    """Return a configuration's side.

    Args:
        repriced: the work under it.
        by: one of `groups_allowed(recorded=False)`.
        rows_counted: rows of the ledger that are in the work.
        rows_unpriced: those left out for want of usage.

    Raises:
        WrongUsage: there is no such group.
    """
    check_group(by, recorded=False)
    lines: dict[str | None, Line] = {}
    for part in repriced.parts:
        label = getattr(part, _REPRICED[by])
        before = lines.get(label, Line(None))
        amount = _plus(before.amount, part.amount)
        lines[label] = Line(amount, lower_bound=before.lower_bound or part.amount is None)
    if by != "component":
        calls = {label: Fraction(0) for label in lines}
        for given in repriced.given:
            label = getattr(given, _REPRICED[by])
            calls[label] = calls.get(label, Fraction(0)) + (given.requests or 0)
        lines = {label: replace(line, calls=calls[label]) for label, line in lines.items()}
    return Side(
        name=repriced.name,
        lines=lines,
        total=repriced.total,
        calls=sum((given.requests or Fraction(0) for given in repriced.given), Fraction(0)),
        notes=tuple(_repriced_notes(repriced)),
        rows_counted=rows_counted,
        rows_unpriced=rows_unpriced,
        is_billed=False,
    )


def diff_page(
    past: Side,
    new: Side,
    *,
    title: str,
    by: str,
    parameters: tuple[Fact, ...],
    footer: tuple[Fact, ...],
    exchange: Exchange,
    notes: tuple[Note, ...] = (),
) -> Page:
    """Return the page of a diff: past, new and change by line, the greatest change first, and in total.

    Args:
        past: what is compared with.
        new: what is compared.
        title: what it is, for the heading.
        by: what lines are.
        parameters: what was asked for.
        footer: catalogue and the like; rows and rates are added.
        exchange: knows the rates that were used.
        notes: what must be said besides.
    """
    currency = exchange.currency
    table = _table(past, new, by, currency)
    rows = Fact("rows_counted", "rows counted, past and new", f"{past.rows_counted:,} and {new.rows_counted:,}")
    unpriced = Fact("rows_unpriced", "rows unpriced, past and new", f"{past.rows_unpriced:,} and {new.rows_unpriced:,}")
    chart = Chart(
        "change",
        f"Past and new by {by}, {currency}",
        "bars",
        "diff",
        by,
        ("past", "new"),
        description=f"Two bars for each {by}: {past.name}, then {new.name}.",
    )
    return Page(
        name="diff",
        title=title,
        parameters=(*parameters, Fact("by", "by", by), Fact("currency", "currency", currency)),
        tables=(table, *exchange.tables()),
        notes=(*past.notes, *(note for note in new.notes if note not in past.notes), *notes, *exchange.notes()),
        footer=(rows, unpriced, Fact("baseline", "baseline", past.name), *footer, exchange.fact()),
        charts=(chart,) if 0 < len(table.rows) <= _MOST_BARS else (),
    )


def change_of(past: Side, new: Side) -> Fraction | None:
    """Return the change of the totals, in the page's currency; None where one is not known (see `Side.is_billed`)."""
    change = _change(_whole(past), _whole(new), "XXX")[0]
    return change.value if isinstance(change, Money) else None


def _table(past: Side, new: Side, by: str, currency: str) -> Table:
    columns = (
        Column(by, by.capitalize(), "text"),
        Column("past", f"{past.name}, {currency}", "money"),
        Column("new", f"{new.name}, {currency}", "money"),
        Column("change", f"Change, {currency}", "money"),
        Column("change_share", "Change", "change"),
        Column("past_calls", f"Calls, {past.name}", "count", optional=True),
        Column("new_calls", f"Calls, {new.name}", "count", optional=True),
    )
    labels = sorted({*past.lines, *new.lines}, key=lambda label: (label is None, label or ""))
    rows = [_row(label, past, new, currency) for label in labels]
    change = _change(_whole(past), _whole(new), currency)
    total = ("total", past.total, new.total, *change, past.calls, new.calls)
    return Table("diff", f"Past and new by {by}", columns, tuple(sorted(rows, key=_by_change)), total)


def _row(label: str | None, past: Side, new: Side, currency: str) -> tuple[Cell, ...]:
    lines = [side.lines.get(label, Line(Fraction(0))) for side in (past, new)]
    amounts = [money_of(line.amount, currency, lower_bound=line.lower_bound) for line in lines]
    known = [
        None if line.lower_bound and not side.is_billed else line.amount
        for line, side in zip(lines, (past, new), strict=True)
    ]
    return label, *amounts, *_change(known[0], known[1], currency), lines[0].calls, lines[1].calls


def _change(before: Fraction | None, after: Fraction | None, currency: str) -> tuple[Cell, Cell]:
    if before is None or after is None:
        return None, None
    change = after - before
    return Money(change, currency), change_share(change, before)


def _whole(side: Side) -> Fraction | None:
    if side.total is None or (side.total.lower_bound and not side.is_billed):
        return None
    return side.total.value


def _by_change(row: tuple[Cell, ...]) -> tuple[bool, Fraction]:
    change = row[3]
    return (False, -abs(change.value)) if isinstance(change, Money) else (True, Fraction(0))


def _by_label(groups: Iterable[BilledGroup], columns: tuple[str, ...]) -> Mapping[str | None, Line]:
    found: dict[str | None, Line] = {}
    for group in groups:
        label = next((group.key[name] for name in columns if group.key[name] is not None), None)
        before = found.get(label, Line(None, Fraction(0)))
        found[label] = Line(
            amount=_plus(before.amount, group.settled),
            calls=(before.calls or Fraction(0)) + group.requests,
            lower_bound=before.lower_bound or not group.is_whole,
        )
    return found


def _by_component(groups: Iterable[BilledGroup], reader: LedgerReader) -> Mapping[str | None, Line]:
    every = tuple(groups)
    sets = sets_of(reader, every)
    found: dict[str | None, Fraction] = {}
    for group in every:
        for component, amount in by_component(group, sets).items():
            found[component] = found.get(component, Fraction(0)) + amount
    return {component: Line(amount) for component, amount in found.items()}


def _plus(before: Fraction | None, more: Fraction | None) -> Fraction | None:
    """Return the sum of what is known; None where nothing is."""
    known = [amount for amount in (before, more) if amount is not None]
    return sum(known, Fraction(0)) if known else None


def _left_out(name: str, count: int, what: str) -> Iterable[Note]:
    if count:
        text = "{name}: without a known {what}, so that past, new and change are of the rest; attempts: {count}"
        values: dict[str, tuple[Cell, Kind]] = {
            "name": (name, "text"),
            "count": (count, "count"),
            "what": (what, "text"),
        }
        yield Note("warning", text, values)


def _repriced_notes(repriced: Repriced) -> Iterable[Note]:
    yield from retired_notes(repriced.retired, repriced.name)
    for model, component in dict.fromkeys((line.model, line.component) for line in repriced.unpriced):
        text = "{name}: {component} of {model} has no price, so that no change is worked out"
        values: dict[str, tuple[Cell, Kind]] = {
            "name": (repriced.name, "text"),
            "component": (component, "text"),
            "model": (model, "text"),
        }
        yield Note("warning", text, values)
