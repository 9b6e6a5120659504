"""Freezing a business case: a month's work priced at one instant, kept with all that the promise was made from.

In: daily costs, a price basis of one instant, what the return was worked out from. Out: a `Case`, and its page.
Invariant: prices and exchange rates of the case are those of one instant, so that a later month can be held against
them; amounts are of a whole month.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from pricing import PriceSet
from reports.case import Case, PromisedForecast, PromisedLine, Volume
from reports.daily_costs import DailyCosts, Named
from reports.period import Period
from reports.price_facts import refuse_unpriced
from reports.projection import MonthForecast
from reports.repricing import Basis, Repriced, reprice
from reports.roi import RoiInputs
from reports.workload import Portion, Split


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised.

    Args:
        name: of the case.
        baseline: name and rule of what is compared with.
        configuration: name and rule of what is switched to.
        split: how attempts without a role are split, or None.
        plain_baseline: whether orchestrators' calls cost the baseline nothing.
    """

    name: str
    baseline: Named
    configuration: Named
    split: Split | None = None
    plain_baseline: bool = False


def frozen_case(
    promise: Promise,
    costs: DailyCosts,
    month: Period,
    basis: Basis,
    inputs: RoiInputs,
    now: datetime,
    forecast: MonthForecast | None = None,
) -> Case:
    """Return the case that a promise, made now, is.

    Args:
        promise: what is promised.
        costs: the month, priced with the same basis.
        month: the month.
        basis: the prices; its instant is set.
        inputs: what the return was worked out from.
        now: aware instant of the freeze.
        forecast: of the next month; None: none could be made.

    Raises:
        RouterError: a model has no price.
        FxError: an amount cannot be converted.
    """
    refuse_unpriced(costs.unpriced, basis)
    at = basis.at or now
    priced = [reprice(*named, costs.portions, basis) for named in (promise.configuration, promise.baseline)]
    sets = {prices.model: prices for prices in _price_sets(priced, basis, at)}
    currencies = sorted({basis.terms.currency_of(prices.currency) for prices in sets.values()})
    return Case(
        name=promise.name,
        frozen_at=now,
        priced_at=at,
        month=month.name,
        time_zone=month.zone.key,
        currency=basis.exchange.currency,
        price_list=basis.price_list,
        terms=basis.terms,
        baseline=promise.baseline,
        configuration=promise.configuration,
        split=promise.split,
        plain_baseline=promise.plain_baseline,
        calls=sum((portion.requests or Fraction(0) for portion in costs.portions), Fraction(0)) * costs.scale,
        inputs=inputs,
        intervals=tuple((level, *bounds) for level, bounds in costs.intervals),
        lines=tuple(_lines(priced[0], costs.scale)),
        volumes=tuple(_volumes(costs.portions, costs.scale)),
        prices=sets,
        fx={code: basis.exchange.convert(Fraction(1), code, at.date()) for code in currencies},
        fx_ids=tuple(str(found) for table in basis.exchange.tables() for found in table.column("fx_rate_id")),
        forecast=None if forecast is None else _forecast(forecast),
    )


def _price_sets(priced: Iterable[Repriced], basis: Basis, at: datetime) -> Iterator[PriceSet]:
    for model in dict.fromkeys(line.model for each in priced for line in each.lines):
        prices = basis.catalog.price_set(model, basis.price_list, at, last_list=True)
        if prices is not None:
            yield prices


def _lines(priced: Repriced, scale: Fraction) -> Iterator[PromisedLine]:
    sums: dict[tuple[str | None, str, str], tuple[Fraction, Fraction]] = {}
    for line in priced.lines:
        key = (line.role, line.model, line.component)
        before = sums.get(key, (Fraction(0), Fraction(0)))
        sums[key] = before[0] + line.quantity * scale, before[1] + (line.amount or Fraction(0)) * scale
    for key, (quantity, amount) in sums.items():
        yield PromisedLine(*key, quantity, amount)


def _volumes(portions: Iterable[Portion], scale: Fraction) -> Iterator[Volume]:
    sums: dict[tuple[str | None, str | None], tuple[Fraction, dict[str, Fraction]]] = {}
    for portion in portions:
        requests, tokens = sums.get((portion.role, portion.task_class), (Fraction(0), {}))
        for bucket, count in portion.tokens.items():
            tokens[bucket] = tokens.get(bucket, Fraction(0)) + count * scale
        sums[portion.role, portion.task_class] = requests + (portion.requests or Fraction(0)) * scale, tokens
    for (role, task_class), (requests, tokens) in sums.items():
        yield Volume(role, task_class, requests, tokens)


def _forecast(found: MonthForecast) -> PromisedForecast:
    return PromisedForecast(
        month=f"{found.last:%Y-%m}",
        point=found.point,
        intervals=tuple((each.level, each.low, each.high) for each in found.intervals),
        method=found.method,
        reason=found.reason,
    )
