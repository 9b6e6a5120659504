"""Where a saving comes from: the model, the settlement, or the prompt cache.

In: what the same work costs on three levels, for two configurations. Out: effects. Invariant: the effects add up to the
saving exactly; where one level is not known, no effect is.

The way from the baseline's settled cost to another's is walked in one order: up from settled to list, up to list
without caching, over to the other models, down to list with caching, down to settled. What is walked up and down again
between two levels is one effect:

    model       uncached list(baseline) − uncached list(other)
    cache       (uncached list − list) of the other − the same of the baseline
    settlement  (list − settled) of the other − the same of the baseline
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from reports.exact import known_sum
from reports.repricing import Basis, Repriced, listed
from reports.work import Recorded


@dataclass(frozen=True, slots=True)
class Levels:
    """What work costs, in the page's currency; None: not known whole.

    Args:
        uncached: at list price, with every cached token paid as plain input.
        listed: at list price.
        settled: after discount, mark-up, settlement and tax.
    """

    uncached: Fraction | None
    listed: Fraction | None
    settled: Fraction | None


@dataclass(frozen=True, slots=True)
class Saving:
    """What is saved against the baseline, in the page's currency; negative: it costs more. `total` is their sum."""

    model: Fraction
    settlement: Fraction
    cache: Fraction

    @property
    def total(self) -> Fraction:
        """Baseline's settled cost less the other's."""
        return self.model + self.settlement + self.cache


def levels_of(repriced: Repriced, basis: Basis) -> Levels:
    """Return a configuration's levels.

    Args:
        repriced: the work under it.
        basis: the prices it was priced with.

    Raises:
        FxError: a list amount cannot be converted.
    """
    return Levels(
        known_sum(listed(part, basis, uncached=True) for part in repriced.parts),
        known_sum(listed(part, basis) for part in repriced.parts),
        repriced.exact_total,
    )


def levels_on_record(recorded: Recorded) -> Levels:
    """Return the levels of what is on record."""
    known = [
        None if amount is None or amount.lower_bound else amount.value for amount in (recorded.listed, recorded.settled)
    ]
    return Levels(recorded.uncached, known[0], known[1])


def saving(baseline: Levels, other: Levels) -> Saving | None:
    """Return where the difference of two settled costs comes from; None where a level is not known.

    Args:
        baseline: what is compared with.
        other: what is compared.
    """
    if baseline.uncached is None or baseline.listed is None or baseline.settled is None:
        return None
    if other.uncached is None or other.listed is None or other.settled is None:
        return None
    return Saving(
        model=baseline.uncached - other.uncached,
        settlement=(other.listed - other.settled) - (baseline.listed - baseline.settled),
        cache=(other.uncached - other.listed) - (baseline.uncached - baseline.listed),
    )
