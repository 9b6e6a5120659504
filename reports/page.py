"""A page: every number a reader will see, exact and typed, before anything is formatted.

In: figures of `month` or `compare`. Out: one frozen `Page`, which the renderers turn into text, Markdown, JSON or CSV.
Invariant: a renderer shows cells of the page and computes nothing; an unknown cell is None and is never shown as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "text", "count", "tokens", "money", "exact", "rate", "exchange_rate", "share", "change", "duration_ms"
]
"""How a cell is shown: `tokens` may be fractional where a total was split; `exact` is money with every digit on record;
`rate` is money for one unit of something, shown with its currency; `exchange_rate` is one with six figures; `share` is
0 to 1; `change` is a signed share of a baseline; `duration_ms` is in milliseconds."""


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount: `value` in units of `currency` (an ISO 4217 code).

    Args:
        value: the amount, exact.
        currency: ISO 4217 code.
        lower_bound: whether something that belongs to it has no price, so that the true amount is this or more.
    """

    value: Fraction
    currency: str
    lower_bound: bool = False


def money_of(amount: Fraction | None, currency: str, *, lower_bound: bool = False) -> Money | None:
    """Return an amount in a currency; None where it is not known."""
    return None if amount is None else Money(amount, currency, lower_bound)


def change_share(change: Fraction, before: Fraction) -> Fraction | None:
    """Return a change as a share of what it changes; None where that was 0 and is not any more."""
    if not before:
        return None if change else Fraction(0)
    return change / before


Cell: TypeAlias = str | int | Fraction | Money | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        key: its name in JSON and CSV, unit included.
        title: its heading for people.
        kind: how its cells are shown.
        optional: whether text and Markdown leave it out where every cell is unknown or 0.
        whole: whether its cells are never broken over lines in text: ids that people copy.
    """

    key: str
    title: str
    kind: Kind
    optional: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Columns that text and Markdown show together, beside the table's first column. `keys` are column keys."""

    title: str
    keys: tuple[str, ...]


HIDDEN = (Panel("", ()),)
"""Panels of a table that people see as a chart: text and Markdown leave it out."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one shape.

    Args:
        name: its key in JSON.
        title: its heading for people.
        columns: the columns, the row's label first.
        rows: cells in the order of the columns.
        total: the total line, or None.
        panels: how a wide table is cut for people; empty: all columns in one.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] | None = None
    panels: tuple[Panel, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a row whose length is not that of the columns."""
        for row in (*self.rows, *(() if self.total is None else (self.total,))):
            if len(row) != len(self.columns):
                message = f"table {self.name}: a row has {len(row)} cells for {len(self.columns)} columns"
                raise ValueError(message)

    def column(self, key: str) -> tuple[Cell, ...]:
        """Return the cells of one column, without the total."""
        at = [column.key for column in self.columns].index(key)
        return tuple(row[at] for row in self.rows)

    def total_of(self, key: str) -> Cell:
        """Return the total's cell of one column; None where there is no total line."""
        at = [column.key for column in self.columns].index(key)
        return None if self.total is None else self.total[at]


@dataclass(frozen=True, slots=True)
class Fact:
    """One named value, for instance of the footer.

    Args:
        key: its name in JSON, unit included.
        label: its name for people.
        value: the cell.
        kind: how it is shown.
    """

    key: str
    label: str
    value: Cell
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the page.

    Args:
        kind: "warning" where a reader would be wrong to pass over it, else "note".
        text: the sentence, with `{name}` where a value stands.
        values: the values by name, each with the kind it is shown as.
    """

    kind: Literal["note", "warning"]
    text: str
    values: Mapping[str, tuple[Cell, Kind]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of one of the page's tables; renderers that cannot draw leave it out, since the table says the same.

    Args:
        name: its key.
        title: what it shows, with the unit.
        kind: `bars` side by side or, with `group`, `stacked_bars`; `fan` a line with nested intervals; `line`; `points`
            in a plane.
        table: the table that has its numbers.
        x: key of the column along the bottom; for `points` a number's.
        y: keys of the columns that give the heights; for `fan` the middle one first, then low and high of each
            interval, the innermost first.
        group: key of the column whose values are the series, or None: each column of `y` is one.
        label: key of the column whose text stands at each point, or None.
        description: one sentence that says what a reader is to see, for those who cannot see it.
    """

    name: str
    title: str
    kind: Literal["bars", "stacked_bars", "fan", "line", "points"]
    table: str
    x: str
    y: tuple[str, ...]
    group: str | None = None
    label: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report.

    Args:
        name: what report it is, for instance "month".
        title: its heading.
        parameters: what was asked for.
        tables: the tables, the main one first (the one CSV carries).
        notes: what a reader must know to read the tables right.
        footer: rows counted, rows unpriced, estimates, catalogue date, baseline, time zone and exchange rates.
        charts: pictures of its tables.
    """

    name: str
    title: str
    parameters: tuple[Fact, ...]
    tables: tuple[Table, ...]
    notes: tuple[Note, ...]
    footer: tuple[Fact, ...]
    charts: tuple[Chart, ...] = ()

    def table(self, name: str) -> Table:
        """Return the table of that name.

        Raises:
            KeyError: the page has no such table.
        """
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)
