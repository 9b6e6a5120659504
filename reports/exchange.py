"""Amounts of several currencies in the one a page shows, with a record of the rates that were used.

In: amounts with their currency and day. Out: exact fractions of the page's currency, and the facts a page must state
about the rates. Invariant: an amount of the page's own currency is untouched; a rate is of the day or before it.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from pricing import FxRate, FxTable
from reports.page import Fact, Note


class Exchange:
    """Converts into one currency and remembers what it used.

    Args:
        fx: dated rates.
        currency: ISO 4217 code of the page.
    """

    def __init__(self, fx: FxTable, currency: str) -> None:
        self.currency = currency
        self._fx = fx
        self._used: dict[tuple[str, date], FxRate] = {}

    def convert(self, amount: Fraction, currency: str, on: date) -> Fraction:
        """Return an amount in the page's currency at the rate of a day, exact.

        Args:
            amount: units of `currency`.
            currency: ISO 4217 code.
            on: the UTC day.

        Raises:
            FxError: no rate is known for the day, or the last one is too old.
        """
        if currency == self.currency:
            return amount
        key = (currency, on)
        if key not in self._used:
            self._used[key] = self._fx.rate(currency, self.currency, on)
        return amount * Fraction(self._used[key].rate)

    def fact(self) -> Fact:
        """Return the footer's line on exchange rates: pairs, days, source; none where nothing was converted."""
        return Fact("exchange_rates", "exchange rates", "; ".join(self._pair(base) for base in self._bases()) or "none")

    def notes(self) -> tuple[Note, ...]:
        """Return a warning per currency whose rate was carried forward over more days than a week-end explains."""
        return tuple(note for base in self._bases() if (note := self._carried(base)) is not None)

    def _bases(self) -> tuple[str, ...]:
        return tuple(sorted({base for base, _ in self._used}))

    def _rates(self, base: str) -> list[FxRate]:
        return [rate for (currency, _), rate in sorted(self._used.items()) if currency == base]

    def _pair(self, base: str) -> str:
        rates = self._rates(base)
        days = sorted({rate.as_of for rate in rates})
        span = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
        return f"{base}/{self.currency} of {span} ({', '.join(sorted({rate.source for rate in rates}))})"

    def _carried(self, base: str) -> Note | None:
        carried = [
            (day, rate) for (currency, day), rate in self._used.items() if currency == base and rate.carried_forward
        ]
        if not carried:
            return None
        day, rate = max(carried)[0], max(carried, key=lambda pair: pair[0])[1]
        return Note(
            "warning",
            "exchange rate {pair}: the last known is of {as_of} and is carried forward to {day}, {days} days",
            {
                "pair": (f"{base}/{self.currency}", "text"),
                "as_of": (rate.as_of.isoformat(), "text"),
                "day": (day.isoformat(), "text"),
                "days": (rate.carried_days, "count"),
            },
        )
