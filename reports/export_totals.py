"""What the rows of an exported file add up to, counted while they pass.

In: rows. Out: the same rows, and their number and sums by currency. Invariant: sums are exact; a row without an amount
is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pricing.money import EXACT
from reports.export_columns import ExportColumn


@dataclass(slots=True)
class ExportTotals:
    """Number and sums of the rows that have passed.

    Args:
        rows: how many there were.
        without: rows without an amount.
        amounts: sums by ISO 4217 code.
    """

    rows: int = 0
    without: int = 0
    amounts: dict[str, Decimal] = field(default_factory=dict)


def added_up(
    rows: Iterable[Sequence[Any]], columns: Sequence[ExportColumn], currency: str, amount: str, totals: ExportTotals
) -> Iterator[Sequence[Any]]:
    """Yield the rows as they are, and add them up.

    Args:
        rows: the rows.
        columns: their columns.
        currency: name of the column with the currency.
        amount: name of the column with the amount.
        totals: is added to.
    """
    names = [column.name for column in columns]
    code, value = names.index(currency), names.index(amount)
    for row in rows:
        totals.rows += 1
        if row[value] is None:
            totals.without += 1
        else:
            totals.amounts[row[code]] = EXACT.add(totals.amounts.get(row[code], Decimal(0)), row[value])
        yield row
