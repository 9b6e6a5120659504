"""The figures that stand large above a page.

In: a `Page`. Out: cards, in the order of `PICKS`. Invariant: a card shows cells of the page and computes nothing;
where the page has no such table, row or figure, the card is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from reports.page import Cell, Column, Money, Page, Table
from reports.render.json import json_cell
from reports.render.numbers import format_brief

_PLACE = re.compile(r"\{([\w.]+)\}")


@dataclass(frozen=True, slots=True)
class Card:
    """One figure.

    Args:
        label: what it is.
        text: the figure as people read it, without its currency.
        unit: its currency, or an empty text.
        exact: the figure as JSON has it; None: a text.
        detail: a line below it, or an empty text.
    """

    label: str
    text: str
    unit: str
    exact: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Pick:
    """Where a card's figure stands.

    Args:
        label: what it is called; `{key}` is the row's cell of that column.
        table: the table's name.
        figure: the column of the figure.
        detail: the line below; `{key}` is the row's cell, `{key.title}` the column's heading. It is left out where a
            cell is unknown.
        row: what the row's cell under `by` is, the total's too; None: the first `most` rows.
        by: the column that tells rows apart; empty: the first.
        most: how many rows have a card, where `row` is None.
    """

    label: str
    table: str
    figure: str
    detail: str = ""
    row: str | None = None
    by: str = "key"
    most: int = 1


Row: TypeAlias = Mapping[str, tuple[Column, Cell]]


def _measure(label: str, table: str, row: str) -> Pick:
    """Return a measure of a month, with its change."""
    change = "{change_points} in points" if table == "summary_shares" else "{change}"
    return Pick(label, table, "this_period", f"{change} against {{period_before.title}}", row)


_AGAINST = "{change_share} against the baseline"
PICKS: Mapping[str, tuple[Pick, ...]] = MappingProxyType(
    {
        "month": (
            _measure("Settled", "summary", "settled_cost"),
            Pick("Expected at the end", "projected_months", "expected", "80 %: {low_80} to {high_80}"),
            _measure("List price", "summary", "list_cost"),
            _measure("Settled per task", "summary", "cost_per_task"),
            _measure("Input from cache", "summary_shares", "cache_hit_share"),
            _measure("Calls", "summary_volume", "calls"),
            _measure("Answered", "summary_shares", "success_share"),
            _measure("Latency p95, ms", "summary_times", "p95_ms"),
        ),
        "compare": (Pick("{configuration}", "configurations", "cost", _AGAINST, most=6),),
        "fleet": (Pick("{configuration}", "fleet", "cost", _AGAINST, most=6),),
        "roi": (
            Pick("Savings a month", "returns", "savings_per_month"),
            Pick("Pays back", "returns", "payback"),
            Pick("Return on investment", "returns", "roi"),
            Pick("Net present value", "returns", "npv"),
        ),
        "case_review": (Pick("{what}", "promise", "actual", "{promised} promised", most=3),),
        "diff": (
            Pick("{new.title}", "diff", "new", row="total", by=""),
            Pick("Change on {past.title}", "diff", "change", "{change_share}", row="total", by=""),
        ),
        "budgets": (Pick("{scope} {name}", "budgets", "left", "left of {amount}; {state}", most=8),),
    }
)
"""What stands above which page. A pick whose table is not there costs nothing."""


def headline(page: Page) -> tuple[Card, ...]:
    """Return the page's cards; none where it has nothing to pick from. An amount is not said twice.

    Args:
        page: the page.
    """
    tables = {table.name: table for table in page.tables}
    found = (
        _card(row, pick)
        for pick in PICKS.get(page.name, ())
        if pick.table in tables
        for row in _rows(tables[pick.table], pick)
    )
    cards: dict[tuple[str | None, str, str], Card] = {}
    for card in found:
        if card is not None:
            cards.setdefault((card.exact, card.unit, card.detail) if card.unit else (card.label, "", ""), card)
    return tuple(cards.values())


def _rows(table: Table, pick: Pick) -> list[Row]:
    if pick.row is None:
        return [_by_key(table, row) for row in table.rows[: pick.most]]
    by = pick.by or table.columns[0].key
    rows = (_by_key(table, row) for row in (*table.rows, *(() if table.total is None else (table.total,))))
    return [row for row in rows if by in row and row[by][1] == pick.row][-1:]


def _by_key(table: Table, row: tuple[Cell, ...]) -> Row:
    return {column.key: (column, cell) for column, cell in zip(table.columns, row, strict=True)}


def _card(row: Row, pick: Pick) -> Card | None:
    column, cell = row.get(pick.figure, (None, None))
    if column is None or cell is None:
        return None
    exact = None if column.kind == "text" else str(json_cell(cell, column.kind))
    unit = cell.currency if isinstance(cell, Money) else ""
    text = format_brief(cell, column.kind).removesuffix(unit).rstrip()
    label = _filled(pick.label, row).removesuffix(f", {unit}")
    return Card(label, text, unit, exact, _filled(pick.detail, row))


def _filled(text: str, row: Row) -> str:
    """Return a text with its places filled, or an empty one where a cell is not there or unknown."""
    values: dict[str, str] = {}
    for place in _PLACE.findall(text):
        key, _, part = place.partition(".")
        column, cell = row.get(key, (None, None))
        if column is None or (not part and cell is None):
            return ""
        values[place] = column.title if part else format_brief(cell, column.kind)
    return _PLACE.sub(lambda place: values[place[1]], text)
