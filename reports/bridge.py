"""From what was promised to what was paid: the difference as effects of volume, mix, cache, price and exchange rates.

In: a promise, the work that was really done with what it cost. Out: a `Bridge`. Invariant: the effects sum to actual −
promised, exactly.

One thing is changed at a time, always in this order; an effect is what the cost changes by (a sequential decomposition:
the order decides who gets what two changes make together, so it is fixed).

    promised              promised work and models at promised prices and rates
    volume                the same work, for as many calls as there really were
    mix                   the real models, roles and tokens a call; input still cached to the promised share
    cache                 the real share of cached input
    price                 what was really paid, in the currency it was paid in: list prices, discounts, settlement
    exchange rates        converted at the rates of the days
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

EFFECTS = ("volume", "mix", "cache", "price", "exchange rates")
"""The effects in the order of the steps."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A month as it was promised.

    Args:
        cost: in the page's currency.
        calls: attempts it is for; more than 0.
    """

    cost: Fraction
    calls: Fraction


@dataclass(frozen=True, slots=True)
class Position:
    """Work of one model that was really done, of calls that one set of prices holds for.

    Args:
        cached: tokens by component of text input: plain, read from a cache, written to one.
        other: quantity by any other component.
        rates: promised cost of one unit by component, in the page's currency; None: nothing was known of the model.
        shares: promised share of each component of text input, in sum 1; None: nothing was promised.
        paid: what was paid for it, in the currency it was paid in.
        promised_fx: promised rate of that currency; None: it was not known.
        cost: what was paid, at the rates of the days.
    """

    cached: Mapping[str, Fraction]
    other: Mapping[str, Fraction]
    rates: Mapping[str, Fraction] | None
    shares: Mapping[str, Fraction] | None
    paid: Fraction
    promised_fx: Fraction | None
    cost: Fraction

    @property
    def at_promised_fx(self) -> Fraction:
        """What was paid at promised exchange rates; at the days' own where none was known, so with no such effect."""
        return self.cost if self.promised_fx is None else self.paid * self.promised_fx

    @property
    def at_promised_prices(self) -> Fraction:
        """The work at promised prices; what was paid where one was not known, so without such an effect."""
        quantities = {**self.other, **self.cached}
        if not self._is_priced(quantities):
            return self.at_promised_fx
        return self._price(quantities)

    @property
    def at_promised_cache(self) -> Fraction:
        """The same, its input cached to the promised share; unchanged where that share or its price was not known."""
        if self.shares is None or not self._is_priced({**self.other, **self.cached, **_used(self.shares)}):
            return self.at_promised_prices
        whole = sum(self.cached.values(), Fraction(0))
        return self._price({**self.other, **{name: whole * share for name, share in self.shares.items()}})

    def _is_priced(self, quantities: Mapping[str, Fraction]) -> bool:
        return self.rates is not None and all(name in self.rates for name in _used(quantities))

    def _price(self, quantities: Mapping[str, Fraction]) -> Fraction:
        rates = self.rates or {}
        return sum((quantity * rates[name] for name, quantity in _used(quantities).items()), Fraction(0))


@dataclass(frozen=True, slots=True)
class Bridge:
    """A difference, explained.

    Args:
        promised: the promised cost.
        effects: amount by effect, in the order of `EFFECTS`.
        actual: what was paid.
    """

    promised: Fraction
    effects: Mapping[str, Fraction]
    actual: Fraction


def bridge(promised: Promised, positions: Iterable[Position], calls: Fraction) -> Bridge:
    """Return the difference between a promise and what was paid, by effect.

    Args:
        promised: the month as it was promised.
        positions: the work that was really done.
        calls: attempts it was.
    """
    done = tuple(positions)
    steps = (
        promised.cost,
        promised.cost * calls / promised.calls,
        sum((each.at_promised_cache for each in done), Fraction(0)),
        sum((each.at_promised_prices for each in done), Fraction(0)),
        sum((each.at_promised_fx for each in done), Fraction(0)),
        sum((each.cost for each in done), Fraction(0)),
    )
    changes = (after - before for before, after in pairwise(steps))
    return Bridge(steps[0], dict(zip(EFFECTS, changes, strict=True)), steps[-1])


def _used(quantities: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    return {name: quantity for name, quantity in quantities.items() if quantity}
