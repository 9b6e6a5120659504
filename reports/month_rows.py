"""A period of the ledger as rows whose sums are known by any label, amounts in the page's currency.

In: a reader, a period, what lines are. Out: `MonthRows`. Invariant: every record of the period is in exactly one row;
an amount is converted at the rate of the UTC day of its call, whatever the page's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reports.exchange import Exchange
from reports.figures import SHOWN, STATUSES, SUMMED, TIMES, Figures, Sums, figures, sum_of_lines
from reports.frames import LedgerReader
from reports.page import Money
from reports.period import Period, day_parts
from reports.rows import Flags, Grouping, Labels, Rows, Whole, read_rows, total_of

MODEL = ("model_served", "model_asked")
"""The model that answered, or else the one that was asked for."""
AMOUNTS: Mapping[str, tuple[str, str | None]] = {
    "list_shown": ("cost", "cost_currency"),
    "settled_shown": ("settled", "settled_currency"),
    "reported_shown": ("reported_usd", None),
    "unsettled_shown": ("unsettled_usd", None),
    "retried_shown": ("retried_settled", "settled_currency"),
}
"""Amounts by name: what the ledger calls them, and the column of their currency; None: US dollars."""
_FAILED = ("failed", "timed_out")
_MEASURED: Mapping[str, str] = {
    "queue_us": "attempts",
    "inference_us": "inference_timed",
    "network_us": "network_timed",
    "state_us": "state_timed",
    "latency_us": "timed",
}
"""The count of attempts that have each of `figures.TIMES`."""
_COUNTED = tuple(name for name in SUMMED if name not in SHOWN)
_PICO = 10**12
_MICRO = 10**6


@dataclass(frozen=True, slots=True, eq=False)
class MonthRows:
    """The rows of a period.

    Args:
        rows: with the columns of `figures.MARKED`.
        lines: the line that each row belongs to.
        exchange: converts into the page's currency.
    """

    rows: Rows
    lines: Labels
    exchange: Exchange

    def sums_by_line(self) -> Mapping[str | None, Sums]:
        """Return each line's sums of every column of `figures.SUMMED`, in the order in which the lines first occur."""
        return self.sums_by(self.lines)

    def sums_by(self, labels: Labels) -> Mapping[Any, Sums]:
        """Return the sums of `figures.SUMMED` by any label."""
        grouping = Grouping(labels.codes, len(labels.names))
        columns: dict[str, Sequence[int | Fraction]] = {name: grouping.sums(self.rows.sums[name]) for name in _COUNTED}
        columns.update({name: self.amounts(labels, name) for name in SHOWN})
        return {label: {name: column[at] for name, column in columns.items()} for at, label in enumerate(labels.names)}

    def amounts(self, labels: Labels, amount: str) -> list[Fraction]:
        """Return an amount of each label, exact, in the page's currency.

        Args:
            labels: the label of each row.
            amount: a key of `AMOUNTS`.

        Raises:
            FxError: an amount cannot be converted.
        """
        name, column = AMOUNTS[amount]
        rows, found = self.rows, [Fraction(0)] * len(labels.names)
        micro, pico = rows.sums[f"{name}_micro"], rows.sums[f"{name}_pico"]
        days = rows.codes["utc_day"]
        if column is None:
            currencies: Sequence[str] = ("USD",)
            codes = np.zeros(rows.size, dtype=np.int64)
        else:
            currencies = tuple(code or self.exchange.currency for code in rows.values[column])
            codes = rows.codes[column]
        # An amount of the page's own currency needs no day, so that its rows are one sum.
        own = np.array([code == self.exchange.currency for code in currencies], dtype=bool)
        if rows.size:
            days = np.where(own[codes], 0, days)
        cells = rows.combined((labels.codes, codes, days))
        kinds, first = np.unique(cells, return_index=True)
        grouping = Grouping(cells, len(kinds))
        for row, whole, rest in zip(first.tolist(), grouping.sums(micro), grouping.sums(pico), strict=True):
            if whole or rest:
                on = rows.values["utc_day"][rows.codes["utc_day"][row]]
                value = Fraction(whole * _MICRO + rest, _PICO)
                found[labels.codes[row]] += self.exchange.convert(value, currencies[codes[row]], on)
        return found

    def where(self, flags: Flags) -> MonthRows:
        """Return the rows that are flagged, with their lines."""
        return replace(self, rows=self.rows.where(flags), lines=Labels(self.lines.codes[flags], self.lines.names))

    def settled(self) -> Money | None:
        """Return the settled cost of all rows; None where none is known."""
        known = total_of(self.rows.sums["settled_known"])
        whole_ones, refused, records = (total_of(self.rows.sums[name]) for name in ("whole", "refused", "records"))
        (amount,) = self.amounts(whole(self.rows), "settled_shown")
        return Money(amount, self.exchange.currency, records > whole_ones + refused) if known else None

    def total(self) -> Figures:
        """Return the figures of all rows, without latencies."""
        return figures(sum_of_lines(self.sums_by(whole(self.rows))), {}, self.exchange.currency)


def whole(rows: Rows) -> Labels:
    """Return one label for all rows."""
    return Labels(np.zeros(rows.size, dtype=np.int64), (None,))


def month_rows(reader: LedgerReader, month: Period, by: str, exchange: Exchange) -> MonthRows:
    """Return a period's rows with their lines.

    Args:
        reader: the ledger's.
        month: the period.
        by: a name of `router.ledger.sums.KEY_COLUMNS`.
        exchange: converts into the page's currency.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    rows = marked(read_rows(reader, day_parts(month.start_us, month.end_us, month.zone)))
    return MonthRows(rows, rows.labels((by,)), exchange)


def marked(rows: Rows) -> Rows:
    """Return rows with the columns of `figures.MARKED`."""
    sums = rows.sums
    routed, succeeded = rows.are("origin", "routed"), rows.are("status", "succeeded")
    answered = routed & succeeded
    ended = rows.hold("status", lambda status: status not in ("started", None))
    judged = ended & (routed | ~rows.are("http_status", None))
    limited = rows.are("error_kind", "rate_limited") | rows.are("http_status", 429)
    billable = rows.hold("possibly_billed", bool) | ~rows.are("status", *_FAILED) | ~rows.are("cost_status", "unknown")
    records, attempts = sums["records"], sums["attempts"]
    columns: dict[str, Whole] = {
        "refused": np.where(billable, 0, sums["usage_unknown"]),
        "whole": np.where(rows.are("cost_status", "exact", "estimated"), records, 0),
        "ended": np.where(ended, attempts, 0),
        "judged": np.where(judged, attempts, 0),
        "answered": np.where(judged & succeeded, attempts, 0),
        "rate_limited": np.where(judged & limited, attempts, 0),
        "estimated": np.where(rows.hold("usage_estimated", bool), records, 0),
        "timed_ours": np.where(answered, attempts, 0),
        "list_known": np.where(rows.are("cost_currency", None), 0, records),
        "settled_known": np.where(rows.are("settled_currency", None), 0, records),
    }
    for time in TIMES:
        columns[time] = np.where(answered, sums[time], 0)
        columns[f"{time}_known"] = np.where(answered, sums[_MEASURED[time]], 0)
    columns |= {f"cost_{name}": np.where(rows.are("cost_status", name), records, 0) for name in STATUSES}
    return rows.with_sums(**columns)
