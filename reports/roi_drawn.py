"""Where a return's monthly costs come from: a month of the ledger, or a month's totals given by hand.

In: daily costs, or portions. Out: costs of a month under both, and `Drawn`. Invariant: a cost with an unpriced part is
a lower bound, and no savings are drawn from one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from reports.daily_costs import DailyCosts, Named
from reports.daily_work import FAILED
from reports.page import Fact, Money, Note
from reports.period import Period
from reports.price_facts import basis_facts, priced_facts, refuse_unpriced, retired_notes
from reports.repricing import Basis, Repriced, reprice
from reports.roi_page import Drawn, PartRow
from reports.work import Work
from reports.workload import Portion


def drawn_of_month(
    costs: DailyCosts, month: Period, names: tuple[str, str], basis: Basis, *, plain_baseline: bool = False
) -> Drawn:
    """Return what daily costs of the ledger say of a month.

    Args:
        costs: of the month.
        month: the month.
        names: of the baseline and of the configuration.
        basis: the prices it was priced with.
        plain_baseline: whether orchestrators' calls cost the baseline nothing.

    Raises:
        RouterError: a model has no price, so that no savings can be worked out.
    """
    refuse_unpriced(costs.unpriced, basis)
    return Drawn(
        title=f"the calls of {month.name}",
        parameters=(Fact("month", "month", month.name), *basis_facts(basis)),
        notes=(*_notes(costs, names, basis, plain_baseline=plain_baseline), *basis.exchange.notes()),
        footer=(
            Fact("rows_counted", "rows counted", costs.records, "count"),
            Fact("rows_unpriced", "rows unpriced", costs.usage_unknown, "count"),
            Fact("estimates", "estimates", costs.estimates, "count"),
            *priced_facts(basis, names[0], month.zone.key),
        ),
        calls=costs.calls * costs.scale,
        tasks=costs.tasks * costs.scale if costs.tasks else None,
        intervals=costs.intervals,
        parts=tuple(PartRow(part.name, part.attempts, part.baseline, part.configuration) for part in costs.parts),
    )


def drawn_by_hand(
    work: Work, baseline: Named, configuration: Named, basis: Basis, calls: int | None
) -> tuple[Fraction, Fraction, Drawn]:
    """Return a month's totals by hand as cost under the baseline, cost under the configuration, and what they are.

    Args:
        work: the totals of a month.
        baseline: name and rule of what is compared with.
        configuration: name and rule of what is switched to.
        basis: the prices.
        calls: requests a month; None: not given.

    Raises:
        RouterError: a model has no price, so that no savings can be worked out.
        WrongUsage: a configuration names a model that nobody knows.
        FxError: an amount cannot be converted.
    """
    priced = [reprice(name, rule, work.portions, basis) for name, rule in (baseline, configuration)]
    refuse_unpriced(sorted({line.model for each in priced for line in each.unpriced}), basis)
    counted = Fact("rows_counted", "rows counted", 0, "count")
    notes = (
        *work.notes,
        Note("note", "the totals are taken as those of a month; without days on record there is no interval"),
        *retired_notes({model: at for each in priced for model, at in each.retired.items()}),
        *basis.exchange.notes(),
    )
    drawn = Drawn(
        title=f"a month of {work.title}",
        parameters=(*work.parameters, *basis_facts(basis)),
        notes=notes,
        footer=(counted, *priced_facts(basis, baseline[0], work.time_zone)),
        calls=None if calls is None else Fraction(calls),
    )
    return _sum(priced[0]), _sum(priced[1]), drawn


def _sum(priced: Repriced) -> Fraction:
    return sum((line.amount for line in priced.lines if line.amount is not None), Fraction(0))


def _notes(costs: DailyCosts, names: tuple[str, str], basis: Basis, *, plain_baseline: bool) -> Iterator[Note]:
    for name in names:
        if not costs.ran.get(name):
            yield Note("note", "no call ran under {name}: the same tokens are priced at it", {"name": (name, "text")})
    if len(costs.days) < costs.days_in_month:
        text = "the month is not over: its {days} whole days are taken for all {all} days"
        counts = {"days": len(costs.days), "all": costs.days_in_month}
        yield Note("warning", text, {name: (count, "count") for name, count in counts.items()})
    empty = sum(1 for pair in zip(costs.baseline, costs.configuration, strict=True) if not any(pair))
    if empty:
        text = "days without a priced call, counted as days of no savings: {days}"
        yield Note("note", text, {"days": (empty, "count")})
    if not costs.intervals:
        yield Note("note", "fewer than seven whole days: there is no interval")
    yield from _overhead(costs, basis, plain_baseline=plain_baseline)
    if costs.usage_unknown:
        text = "without known usage, and so in neither cost; attempts: {count}"
        yield Note("warning", text, {"count": (costs.usage_unknown, "count")})
    if any(part.name not in ("no role", FAILED) for part in costs.parts) and _has_no_role(costs.portions):
        yield Note("note", "attempts without a role are priced at a pair's orchestrator (--calls A:B splits them)")
    yield from retired_notes(costs.retired)


def _overhead(costs: DailyCosts, basis: Basis, *, plain_baseline: bool) -> Iterator[Note]:
    parts = {part.name: part for part in costs.parts}
    failed, plans = parts.get(FAILED), parts.get("orchestrator")
    currency = basis.exchange.currency
    if failed is not None:
        text = "attempts that did not succeed are in both costs; of the configuration's they are {cost} {currency}"
        cost = Money(failed.configuration, currency)
        yield Note("note", text, {"cost": (cost, "money"), "currency": (currency, "text")})
    if plans is not None and plain_baseline:
        yield Note("note", "the baseline makes no plans: orchestrators' calls cost it nothing")
    elif plans is not None:
        text = (
            "orchestrators' calls are priced in both; a baseline that needs no plans costs {cost} {currency} a month "
            "less: --plain-baseline"
        )
        cost = Money(plans.baseline * costs.scale, currency)
        yield Note("warning", text, {"cost": (cost, "money"), "currency": (currency, "text")})
    yield Note("note", "what no row of the ledger has (judges elsewhere, hosting, people) belongs in --monthly-cost")


def _has_no_role(portions: Iterable[Portion]) -> bool:
    return any(portion.role is None for portion in portions)
