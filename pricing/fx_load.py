"""Where published exchange rates come from: the bundled table, and the European Central Bank's own format.

In: text. Out: `FxRate`s, and the table that everything converts with. Invariant: a figure that is no rate is an error
that names its line; nothing is filled in between two days.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files

from pricing.errors import FxError
from pricing.fx import BUNDLED_SOURCE, MAX_AGE_DAYS, PIVOT, FxRate, FxTable


def load_fx(
    operator: Sequence[FxRate] = (), published: Sequence[FxRate] = (), max_age_days: int = MAX_AGE_DAYS
) -> FxTable:
    """Return the bundled rates (USD, CNY, JPY per EUR, daily from 2025-01-02), outranked by the operator's.

    Args:
        operator: the user's own rates, made by `operator_rate`.
        published: further rates of the bank's, for instance imported ones; of the same day they hold.
        max_age_days: how old a rate may be, days.
    """
    if not operator and not published and max_age_days == MAX_AGE_DAYS:
        return _bundled_table()
    return FxTable((*_bundled(), *published), operator, max_age_days)


def parse_rates(text: str, since: date, source: str) -> tuple[FxRate, ...]:
    """Return the rates of a table in the European Central Bank's format, per EUR.

    Args:
        text: CSV with the heads `Date,USD,JPY,…` and a row a day; "N/A" and nothing stand for no rate.
        since: earlier days are left out.
        source: who published it.

    Raises:
        FxError: the text is not such a table, or a rate in it is none; names the line.
    """
    head, *lines = text.splitlines() or [""]
    quotes = [name.strip() for name in head.split(",")][1:]
    if not head.startswith("Date,"):
        raise FxError(f"fx: {head[:40]!r} is not the head of a table of rates; Date,USD,… is")
    found: list[FxRate] = []
    for number, line in enumerate(lines, start=2):
        cells = [cell.strip() for cell in line.split(",")]
        try:
            day = date.fromisoformat(cells[0])
            if day >= since:
                found.extend(_published_rate(quote, cell, day, source) for quote, cell in _given(quotes, cells))
        except (ValueError, ArithmeticError):
            raise FxError(f"fx: line {number}: {line[:40]!r} is not allowed; a day and rates above 0 are") from None
    return tuple(found)


def _given(quotes: Sequence[str], cells: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for pair in zip(quotes, cells[1:], strict=True) if pair[0] and pair[1] not in ("", "N/A")]


def _published_rate(quote: str, text: str, day: date, source: str) -> FxRate:
    rate = Decimal(text)
    if not rate.is_finite() or rate <= 0:
        raise ValueError(text)
    return FxRate(f"ecb:{PIVOT}/{quote}:{day}", PIVOT, quote, rate, day, source)


@cache
def _bundled_table() -> FxTable:
    return FxTable(_bundled())


@cache
def _bundled() -> tuple[FxRate, ...]:
    text = files("pricing").joinpath("data", "fx.csv").read_text(encoding="utf-8")
    return parse_rates(text, date.min, BUNDLED_SOURCE)
