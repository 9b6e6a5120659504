"""Amounts of several currencies in the one a page shows, with a record of the rates that were used.

In: amounts with their currency and day. Out: exact fractions of the page's currency, and the facts a page must state
about the rates. Invariant: an amount of the page's own currency is untouched; a rate is of the day or before it.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from pricing import FxRate, FxTable
from reports.page import Cell, Column, Fact, Money, Note, Table


class Exchange:
    """Converts into one currency and remembers what it used.

    Args:
        fx: dated rates.
        currency: ISO 4217 code of the page.
    """

    def __init__(self, fx: FxTable, currency: str) -> None:
        self.currency = currency
        self._fx = fx
        self._used: dict[tuple[str, str, date], FxRate] = {}

    def convert(self, amount: Fraction, currency: str, on: date) -> Fraction:
        """Return an amount in the page's currency at the rate of a day, exact.

        Args:
            amount: units of `currency`.
            currency: ISO 4217 code.
            on: the UTC day.

        Raises:
            FxError: no rate is known for the day, or the last one is too old.
        """
        return self.between(amount, currency, self.currency, on)

    def between(self, amount: Fraction, base: str, quote: str, on: date) -> Fraction:
        """Return an amount of `base` in `quote` at the rate of a day, exact; see `convert`.

        Args:
            amount: units of `base`.
            base: ISO 4217 code.
            quote: ISO 4217 code.
            on: the UTC day.
        """
        # Nothing needs no rate, and must not fail for want of one.
        if base == quote or not amount:
            return amount
        key = (base, quote, on)
        if key not in self._used:
            self._used[key] = self._fx.rate(base, quote, on)
        return amount * Fraction(self._used[key].rate)

    def apart(self) -> Exchange:
        """Return one that converts alike with a record of its own: for amounts that stand in no sum of the page."""
        return Exchange(self._fx, self.currency)

    def fact(self) -> Fact:
        """Return the footer's line on exchange rates: pairs, days, source; none where nothing was converted."""
        return Fact(
            "exchange_rates", "exchange rates", "; ".join(self._span(*pair) for pair in self._pairs()) or "none"
        )

    def notes(self) -> tuple[Note, ...]:
        """Return a warning per currency whose rate was carried forward over more days than a week-end explains."""
        return tuple(note for pair in self._pairs() if (note := self._carried(*pair)) is not None)

    def tables(self) -> tuple[Table, ...]:
        """Return the table of every rate that was used, by its id; none where nothing was converted."""
        days: dict[str, list[date]] = {}
        for (*_, day), rate in self._used.items():
            days.setdefault(rate.id, []).append(day)
        rates = {rate.id: rate for rate in self._used.values()}
        ordered = sorted(rates.values(), key=lambda rate: (rate.base, rate.as_of, rate.id))
        rows = tuple(_row(rate, days[rate.id]) for rate in ordered)
        return (Table("exchange_rates", "Exchange rates used", _COLUMNS, rows),) if rows else ()

    def _pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({(base, quote) for base, quote, _ in self._used}))

    def _span(self, base: str, quote: str) -> str:
        rates = [rate for (one, other, _), rate in sorted(self._used.items()) if (one, other) == (base, quote)]
        days = sorted({rate.as_of for rate in rates})
        span = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
        return f"{base}/{quote} of {span} ({', '.join(sorted({rate.source for rate in rates}))})"

    def _carried(self, base: str, quote: str) -> Note | None:
        carried = [
            (day, rate)
            for (one, other, day), rate in self._used.items()
            if (one, other) == (base, quote) and rate.carried_forward
        ]
        if not carried:
            return None
        day, rate = max(carried)[0], max(carried, key=lambda pair: pair[0])[1]
        return Note(
            "warning",
            "exchange rate {pair}: the last known is of {as_of} and is carried forward to {day}, {days} days",
            {
                "pair": (f"{base}/{quote}", "text"),
                "as_of": (rate.as_of.isoformat(), "text"),
                "day": (day.isoformat(), "text"),
                "days": (rate.carried_days, "count"),
            },
        )


_COLUMNS = (
    Column("pair", "Pair", "text"),
    Column("rate", "Rate", "exchange_rate"),
    Column("as_of", "Of", "text"),
    Column("first_day", "First used on", "text"),
    Column("last_day", "Last used on", "text"),
    Column("source", "Source", "text"),
    Column("fx_rate_id", "Id", "text"),
)


def _row(rate: FxRate, days: list[date]) -> tuple[Cell, ...]:
    first, last = min(days).isoformat(), max(days).isoformat()
    shown = Money(Fraction(rate.rate), rate.quote)
    return f"{rate.base}/{rate.quote}", shown, rate.as_of.isoformat(), first, last, rate.source, rate.id
