"""The page of a bill against the ledger: both totals, the difference by reason, class, day and model.

In: a bill, a ledger's reader, a month. Out: a `Page`. Invariant: the reasons sum to bill − ledger, exactly, and so does
every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pricing import Catalog
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.invoice import Bill, BillLine
from reports.ledger_entries import TOOLS, Detail, LedgerSide, Wanted, bill_entries, detail_of, ledger_side
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Panel, Table, change_share
from reports.period import Period
from reports.reconcile import REASONS, Difference, Entry, reconcile, summed
from router.errors import RouterError

MOST_LINES = 100
_NOTHING = Entry(None, Fraction(0), 0)
_SIDES = ("bill_tokens", "ledger_tokens", "bill", "ledger", "difference")
_REASON_KEYS = tuple(name.replace(" ", "_") for name in REASONS)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A bill held against the ledger.

    Args:
        bill: the bill.
        month: the UTC month.
        counted: lines of the bill in that month.
        outside: lines of other days.
        detail: how fine the bill is.
        side: the ledger's.
        differences: by key.
        exchange: what amounts were converted with.
    """

    bill: Bill
    month: Period
    counted: int
    outside: int
    detail: Detail
    side: LedgerSide
    differences: tuple[Difference, ...]
    exchange: Exchange

    @property
    def totals(self) -> tuple[Fraction, Fraction]:
        """What the bill asks for, and what the ledger has."""
        pairs = [(each.bill or _NOTHING, each.ledger or _NOTHING) for each in self.differences]
        return sum((one.amount for one, _ in pairs), Fraction(0)), sum(
            (other.amount for _, other in pairs), Fraction(0)
        )

    @property
    def difference(self) -> Fraction:
        """Bill − ledger."""
        return self.totals[0] - self.totals[1]


def reconciled(
    bill: Bill, reader: LedgerReader, month: Period, wanted: Wanted, catalog: Catalog, exchange: Exchange
) -> Reconciliation:
    """Return a bill held against a month of the ledger.

    Args:
        bill: the bill.
        reader: the ledger's.
        month: in UTC, as vendors' days are.
        wanted: which rows the bill is for.
        catalog: knows models' names.
        exchange: converts into the bill's currency.

    Raises:
        RouterError: no line of the bill is of the month.
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    lines = [line for line in bill.lines if _is_in(line, month)]
    if not lines:
        days = sorted(line.day for line in bill.lines if line.day is not None)
        message = f"bill: no line is of {month.name}; they are of {days[0]} to {days[-1]}"
        raise RouterError(message, hint=f"--month {days[-1]:%Y-%m}")
    detail = detail_of(lines)
    side = ledger_side(reader, month, wanted, detail, catalog, exchange)
    found = reconcile(bill_entries(lines, detail, catalog), side.entries, Fraction(1, 10**bill.decimals))
    return Reconciliation(bill, month, len(lines), len(bill.lines) - len(lines), detail, side, found, exchange)


def reconcile_page(found: Reconciliation, name: str) -> Page:
    """Return the page of a bill against the ledger.

    Args:
        found: the two.
        name: the bill's file name.
    """
    currency = found.bill.currency
    tables = [_summary(found, currency)]
    if found.detail.component:
        tables.append(_by("classes", "By token class", "component", found, lambda each: each.key.component))
    if found.detail.model:
        tables.append(_by("models", "By model", "model", found, lambda each: each.key.model))
    if found.detail.day:
        tables.append(_by("days", "By day", "day", found, _day))
    tables.append(_lines(found, currency))
    return Page(
        name="reconcile",
        title=f"Bill {name} against the ledger in {found.month.name}",
        parameters=(
            Fact("month", "month", found.month.name),
            Fact("provider", "read as", found.bill.provider),
            Fact("currency", "currency", currency),
        ),
        tables=(*tables, *found.exchange.tables()),
        notes=(*_notes(found, currency), *found.exchange.notes()),
        footer=(
            Fact("bill_lines", "lines of the bill", found.counted, "count"),
            Fact("rows_counted", "rows counted", found.side.records, "count"),
            Fact("rows_unpriced", "rows unpriced", found.side.unpriced, "count"),
            Fact("baseline", "baseline", "the ledger's settled cost"),
            Fact("time_zone", "time zone", "UTC"),
            found.exchange.fact(),
        ),
        charts=tuple(_charts(found, currency)),
    )


def _is_in(line: BillLine, month: Period) -> bool:
    return line.day is None or month.first_day <= line.day <= month.last_day


def _summary(found: Reconciliation, currency: str) -> Table:
    columns = (
        Column("what", "What", "text"),
        Column("amount", f"Amount, {currency}", "money"),
        Column("bill_share", "Of the bill", "change"),
        Column("lines", "Places", "count", optional=True),
    )
    bill, ledger = found.totals
    sums = summed(found.differences)
    counts = {name: sum(1 for each in found.differences if name in each.reasons) for name in REASONS}
    rows: list[tuple[Cell, ...]] = [
        ("bill", Money(bill, currency), None, None),
        ("ledger", Money(ledger, currency), None, None),
        ("difference", Money(bill - ledger, currency), change_share(bill - ledger, bill), None),
    ]
    rows += [(name, Money(sums[name], currency), change_share(sums[name], bill), counts[name]) for name in REASONS]
    return Table("summary", "The difference, and where it comes from", columns, tuple(rows))


def _by(name: str, title: str, label: str, found: Reconciliation, key: Callable[[Difference], str | None]) -> Table:
    currency = found.bill.currency
    groups: dict[str, list[Difference]] = {}
    for each in found.differences:
        groups.setdefault(key(each) or "not said", []).append(each)
    columns = (Column(label, label.capitalize(), "text"), *_columns(currency))
    rows = tuple((value, *_cells(some, currency)) for value, some in groups.items())
    panels = (Panel(title, _SIDES), Panel(f"{title}: where the difference comes from", _REASON_KEYS))
    return Table(name, title, columns, rows, ("total", *_cells(found.differences, currency)), panels)


def _columns(currency: str) -> tuple[Column, ...]:
    reasons = tuple(
        Column(key, f"{name.capitalize()}, {currency}", "money", optional=True)
        for key, name in zip(_REASON_KEYS, REASONS, strict=True)
    )
    return (
        Column("bill_tokens", "Tokens billed", "tokens", optional=True),
        Column("ledger_tokens", "Tokens on record", "tokens", optional=True),
        Column("bill", f"Bill, {currency}", "money"),
        Column("ledger", f"Ledger, {currency}", "money"),
        Column("difference", f"Difference, {currency}", "money"),
        *reasons,
    )


def _cells(some: Sequence[Difference], currency: str) -> tuple[Cell, ...]:
    bills = [each.bill for each in some if each.bill is not None]
    ledgers = [each.ledger for each in some if each.ledger is not None]
    amounts = [sum((each.amount for each in side), Fraction(0)) for side in (bills, ledgers)]
    reasons = summed(some)
    return (
        _tokens(each.bill for each in some if each.key.component not in TOOLS),
        _tokens(each.ledger for each in some if each.key.component not in TOOLS),
        *(Money(amount, currency) for amount in (*amounts, amounts[0] - amounts[1])),
        *(Money(reasons[name], currency) for name in REASONS),
    )


def _tokens(entries: Iterable[Entry | None]) -> Fraction | None:
    """Return the tokens of one side; None where a line does not say, or nothing is for tokens."""
    known = [entry.quantity for entry in entries if entry is not None]
    counted = [quantity for quantity in known if quantity is not None]
    return sum(counted, Fraction(0)) if known and len(counted) == len(known) else None


def _lines(found: Reconciliation, currency: str) -> Table:
    columns = (
        Column("day", "Day", "text", optional=True),
        Column("model", "Model", "text", optional=True),
        Column("component", "Class", "text", optional=True),
        Column("reason", "Reason", "text"),
        *_columns(currency)[:5],
    )
    largest = [each for each in found.differences if set(each.reasons) - {"rounding"}]
    largest.sort(key=lambda each: -abs(each.amount))
    rows = tuple(
        (_day(each), each.key.model, each.key.component, ", ".join(each.reasons), *_cells([each], currency)[:5])
        for each in largest[:MOST_LINES]
    )
    return Table("lines", "The largest differences", columns, rows)


def _day(each: Difference) -> str | None:
    return None if each.key.day is None else each.key.day.isoformat()


def _notes(found: Reconciliation, currency: str) -> Iterator[Note]:
    sums = summed(found.differences)
    side = found.side
    values: dict[str, tuple[Cell, Kind]] = {
        "unexplained": (Money(sums["unexplained"], currency), "money"),
        "currency": (currency, "text"),
        "outside": (found.outside, "count"),
        "count": (side.possibly_billed, "count"),
        "amount": (Money(side.possibly_amount, currency), "money"),
        "unpriced": (side.unpriced, "count"),
        "others": (side.others, "count"),
    }
    if sums["unexplained"]:
        yield Note("warning", "unexplained: {unexplained} {currency}", values)
    else:
        yield Note("note", "nothing is left unexplained", values)
    if found.bill.is_cut:
        yield Note("warning", "the file says that there are more pages: the bill is not whole", values)
    if side.possibly_billed:
        text = "possibly billed, and in no cost of the ledger; attempts: {count}; reserved: {amount} {currency}"
        yield Note("warning", text, values)
    if side.unpriced:
        yield Note("warning", "rows of the ledger without a price, at 0 here: {unpriced}", values)
    if found.outside:
        yield Note("note", "lines of other months, left out: {outside}", values)
    if side.others:
        yield Note("note", "rows of the ledger that are not this bill's, left out: {others}", values)
    if found.detail.component and not any(each.bill and each.bill.quantity is not None for each in found.differences):
        text = (
            "the bill has no token counts: a difference that is the same share on three days or more is taken as a rate"
        )
        yield Note("note", text, values)


def _charts(found: Reconciliation, currency: str) -> Iterator[Chart]:
    if found.detail.day:
        yield Chart(
            name="by_day",
            title=f"Bill and ledger by day, {currency}",
            kind="bars",
            table="days",
            x="day",
            y=("bill", "ledger"),
            description="Two bars for each day: what was billed, and what the ledger has.",
        )
