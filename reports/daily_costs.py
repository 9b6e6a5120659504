"""A month's work priced under two configurations, day by day: what savings are drawn from, and how sure they are.

In: a ledger's reader, a month, two configurations, a price basis. Out: `DailyCosts`. Invariant: every attempt of the
month's whole days whose usage is known is in exactly one day, and is priced under both; their sums are what
`router compare` says of those days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import TypeAlias

from reports.daily_work import FAILED, Placed, day_work, whole_days
from reports.frames import LedgerReader
from reports.period import Period, no_rows
from reports.rate_cards import RateCards, list_amount
from reports.repricing import Basis, choices
from reports.workload import Portion, Split
from router.settings import ConfigurationSettings

Named: TypeAlias = tuple[str, ConfigurationSettings]
LEVELS = (Fraction(80, 100), Fraction(95, 100))
FEWEST_DAYS = 7
"""Days below which no interval is drawn: less than a week has not seen each weekday."""
RESAMPLES, SEED = 2_000, 20_261_130
_MICRO = 10**6


@dataclass(frozen=True, slots=True)
class PartCost:
    """One part of the work. Amounts are of the whole days, in the basis' currency.

    Args:
        name: single, orchestrator, worker, "no role", or `FAILED` for attempts of any role that did not succeed.
        attempts: with known usage.
        baseline, configuration: cost under each.
    """

    name: str
    attempts: Fraction
    baseline: Fraction
    configuration: Fraction


@dataclass(frozen=True, slots=True)
class DailyCosts:
    """Cost under two configurations by local day.

    Args:
        days: the month's days that are over, in order; a day without calls is there, with 0.
        baseline, configuration: cost of each day, in the basis' currency, exact.
        days_in_month: days that the month has.
        parts: the same cost by part of the work.
        records: rows of the ledger of those days.
        calls: logical calls: first attempts, and requests that somebody else has added up.
        tasks: runs that succeeded, and answered attempts that belong to no run.
        usage_unknown: rows in neither cost, because their usage is not known.
        estimates: rows with estimated token counts.
        ran: requests by the configuration they ran under.
        portions: the work, as it was priced.
        retired: models priced at their last list, with the instant they left it.
        unpriced: models with a component that has no price, so that a cost is a lower bound.
    """

    days: tuple[date, ...]
    baseline: tuple[Fraction, ...]
    configuration: tuple[Fraction, ...]
    days_in_month: int
    parts: tuple[PartCost, ...]
    records: int
    calls: int
    tasks: int
    usage_unknown: int
    estimates: int
    ran: Mapping[str | None, int]
    portions: tuple[Portion, ...]
    retired: Mapping[str, datetime]
    unpriced: tuple[str, ...]

    @property
    def scale(self) -> Fraction:
        """What makes a month of the whole days: 1 for a month that is over."""
        return Fraction(self.days_in_month, len(self.days))

    @property
    def monthly(self) -> tuple[Fraction, Fraction]:
        """A month's cost under the baseline and under the configuration."""
        return sum(self.baseline, Fraction(0)) * self.scale, sum(self.configuration, Fraction(0)) * self.scale

    @property
    def intervals(self) -> tuple[tuple[Fraction, tuple[Fraction, Fraction]], ...]:
        """Each of `LEVELS` with where a month's savings lie; empty where there are too few days to say."""
        found = ((level, self.savings_interval(level)) for level in LEVELS)
        return tuple((level, bounds) for level, bounds in found if bounds is not None)

    def savings_interval(self, level: Fraction) -> tuple[Fraction, Fraction] | None:
        """Return where a month's savings lie with a probability; None: there are too few days to say.

        The days are drawn again with replacement (Efron 1979, the percentile bootstrap, 2,000 draws, a fixed seed), so
        that what calls of one day have in common stays together. Bounds are estimates, rounded at 1e-6.

        Args:
            level: the probability, 0 to 1.
        """
        if len(self.days) < FEWEST_DAYS:
            return None
        import numpy as np

        saved = np.array([float(one - other) for one, other in zip(self.baseline, self.configuration, strict=True)])
        draws = np.random.default_rng(SEED).integers(0, len(saved), size=(RESAMPLES, len(saved)))
        totals = saved[draws].sum(axis=1) * float(self.scale)
        tail = float((1 - level) / 2)
        low, high = np.quantile(totals, (tail, 1 - tail))
        return Fraction(round(float(low) * _MICRO), _MICRO), Fraction(round(float(high) * _MICRO), _MICRO)


def daily_costs(
    reader: LedgerReader,
    month: Period,
    now: datetime,
    *,
    baseline: Named,
    configuration: Named,
    basis: Basis,
    split: Split | None = None,
    plain_baseline: bool = False,
) -> DailyCosts:
    """Return the month's whole days priced under two configurations.

    Args:
        reader: the ledger's.
        month: the month; of one that is not over, the days before today.
        now: aware instant.
        baseline: name and rule of what is compared with.
        configuration: name and rule of what is switched to.
        basis: the prices.
        split: how attempts without a role are split between orchestrator and worker; None: they are left as they are.
        plain_baseline: whether the baseline makes no plans, so that orchestrators' calls cost it nothing.

    Raises:
        RouterError: the month has no rows, or no day of it is over.
        WrongUsage: a configuration names a model that nobody knows.
        NoCandidate: a policy finds no model that fits.
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    days = whole_days(month, now)
    found = day_work(reader, month, days, basis, (baseline[1], configuration[1]))
    if not found.records:
        raise no_rows(month, reader.months_present(month.zone), now)
    placed = tuple(found.placed(split))
    costs = _Costs(placed, basis)
    for number, (name, rule) in enumerate((baseline, configuration)):
        costs.price(number, name, rule, without_plans=plain_baseline and not number)
    return DailyCosts(
        days=days,
        baseline=tuple(costs.days.get(day, _NOTHING)[0] for day in days),
        configuration=tuple(costs.days.get(day, _NOTHING)[1] for day in days),
        days_in_month=(month.last_day - month.first_day).days + 1,
        parts=costs.parts(),
        records=found.records,
        calls=found.calls,
        tasks=found.alone + reader.run_counts(month.start_us, found.end_us).get("succeeded", 0),
        usage_unknown=found.usage_unknown,
        estimates=found.estimates,
        ran=found.ran,
        portions=tuple(each.portion for each in placed),
        retired=costs.retired,
        unpriced=tuple(sorted(costs.unpriced)),
    )


_NOTHING = (Fraction(0), Fraction(0))


class _Costs:
    """Prices portions under configurations and keeps the sums by day and by part."""

    def __init__(self, placed: Sequence[Placed], basis: Basis) -> None:
        self._placed = placed
        self._basis = basis
        self._parts: dict[str, tuple[Fraction, ...]] = {}
        self.days: dict[date, tuple[Fraction, ...]] = {}
        self.retired: dict[str, datetime] = {}
        self.unpriced: set[str] = set()

    def price(self, number: int, name: str, rule: ConfigurationSettings, *, without_plans: bool) -> None:
        """Add what every portion costs under a configuration.

        Args:
            number: 0 for the baseline, 1 for the configuration.
            name: its name.
            rule: its rule.
            without_plans: whether orchestrators' calls cost nothing.
        """
        basis = self._basis
        cards = RateCards(basis.catalog, basis.price_list, basis.at)
        counted = [each for each in self._placed if not (without_plans and each.portion.role == "orchestrator")]
        models = choices(name, rule, [each.portion for each in counted], basis)
        for each, model in zip(counted, models, strict=True):
            cost = self._cost(cards, model, each.portion)
            self.days[each.day] = _raised(self.days.get(each.day, _NOTHING), number, cost)
            self._parts[each.part] = _raised(self._parts.get(each.part, _NOTHING), number, cost)
        self.retired.update(cards.retired)

    def parts(self) -> tuple[PartCost, ...]:
        """Return the cost by part, attempts that failed last."""
        attempts: dict[str, Fraction] = {}
        for each in self._placed:
            attempts[each.part] = attempts.get(each.part, Fraction(0)) + (each.portion.requests or 0)
        names = sorted(attempts, key=lambda name: (name == FAILED, name))
        return tuple(PartCost(name, attempts[name], *self._parts.get(name, _NOTHING)) for name in names)

    def _cost(self, cards: RateCards, model: str, portion: Portion) -> Fraction:
        terms, exchange = self._basis.terms, self._basis.exchange
        total = Fraction(0)
        for buckets, rate in cards.rates(model, portion):
            if rate.rate is None:
                self.unpriced.add(model)
                continue
            quantity = sum((portion.tokens[bucket] for bucket in buckets), Fraction(0))
            paid = list_amount(rate.component, quantity, rate.rate.value) * Fraction(terms.factor)
            on = portion.day or portion.at.date()
            total += exchange.convert(paid, terms.currency_of(rate.rate.currency), on)
        return total


def _raised(pair: tuple[Fraction, ...], number: int, by: Fraction) -> tuple[Fraction, ...]:
    return tuple(amount + by if place == number else amount for place, amount in enumerate(pair))
