"""The page that holds a month against a frozen case: promised, actual, and the bridge between them.

In: a ledger's reader, a case, a month after it. Out: a `Page`. Invariant: the bridge's rows sum to what was paid,
exactly; both sides are of the same days.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from pricing import Catalog
from reports.bridge import Bridge, Promised, bridge
from reports.case import Case
from reports.case_page import case_facts
from reports.case_review import Done, models_of, promised_of, work_done
from reports.daily_costs import DailyCosts, daily_costs
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Table, change_share
from reports.period import Period, days_between
from reports.repricing import Basis
from router.errors import RouterError, WrongUsage
from router.settings import FixedSettings


@dataclass(frozen=True, slots=True)
class _Review:
    """A case and what became of it in one month."""

    case: Case
    month: Period
    promised: Promised
    volume: Fraction
    done: Done
    costs: DailyCosts
    bridge: Bridge

    @property
    def promised_baseline(self) -> Fraction:
        return self.case.inputs.baseline * self.volume

    @property
    def actual_baseline(self) -> Fraction:
        return sum(self.costs.baseline, Fraction(0))

    @property
    def savings(self) -> tuple[Fraction, Fraction]:
        """Promised and actual savings."""
        return self.promised_baseline - self.promised.cost, self.actual_baseline - self.bridge.actual


def review_page(
    reader: LedgerReader, case: Case, month: Period, now: datetime, *, catalog: Catalog, exchange: Exchange
) -> Page:
    """Return the page of what became of a promise in a month.

    Args:
        reader: the ledger's.
        case: the promise.
        month: a month after the one the case was drawn from, in the case's time zone.
        now: aware instant; of a month that is not over, the days before today are held against their share.
        catalog: prices of the baseline on the work that was done, and of models the promise does not have.
        exchange: converts into the case's currency.

    Raises:
        WrongUsage: the month is not after the one the case was drawn from.
        RouterError: the month has no rows, or the configuration did not run in it.
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    later = months_between(case, month)
    basis = Basis(catalog, case.price_list, None, case.terms, exchange)
    costs = daily_costs(
        reader,
        month,
        now,
        baseline=case.baseline,
        configuration=case.configuration,
        basis=basis,
        split=case.split,
        plain_baseline=case.plain_baseline,
    )
    span = days_between(costs.days[0], costs.days[-1], month.zone)
    done = work_done(reader, span.start_us, span.end_us, case, catalog, exchange)
    _refuse_never_run(case, month, done, costs)
    promised = promised_of(case, later, 1 / costs.scale)
    found = bridge(promised, done.positions, Fraction(done.calls))
    return _page(_Review(case, month, promised, promised.calls / case.calls, done, costs, found), exchange)


def months_between(case: Case, month: Period) -> int:
    """Return how many months after the one a case was drawn from a month is.

    Raises:
        WrongUsage: it is not after it.
    """
    year, number = (int(part) for part in case.month.split("-"))
    later = (month.first_day.year - year) * 12 + month.first_day.month - number
    if later < 1:
        message = f"month: {month.name} is not after {case.month}, which case {case.name!r} was drawn from"
        raise WrongUsage(message, hint="a promise is reviewed on months after it")
    return later


def _refuse_never_run(case: Case, month: Period, done: Done, costs: DailyCosts) -> None:
    """Refuse a month in which no call ran under the configuration, by its name or, where none is known, by model."""
    name, rule = case.configuration
    models = {rule.orchestrator, rule.worker} if isinstance(rule, FixedSettings) else set()
    if name in costs.ran or (set(costs.ran) == {None} and models & set(done.by_model)):
        return
    ran = ", ".join(f"{each or 'none on record'} ({count})" for each, count in sorted(costs.ran.items(), key=str))
    message = f"case {case.name!r}: configuration {name!r} did not run in {month.name}; attempts ran under {ran}"
    raise RouterError(message, hint=f"switch first: router run --configuration {name}; or name another month")


def _page(review: _Review, exchange: Exchange) -> Page:
    case, costs, done = review.case, review.costs, review.done
    return Page(
        name="case_review",
        title=f"Business case {case.name}: what became of it in {review.month.name}",
        parameters=(Fact("month", "month", review.month.name), *case_facts(case)),
        tables=(
            _bridge_table(review),
            _promise_table(review),
            _volume_table(review),
            _model_table(review),
            _configuration_table(review),
            *exchange.tables(),
        ),
        notes=(*_notes(review), *exchange.notes()),
        footer=(
            Fact("rows_counted", "rows counted", costs.records, "count"),
            Fact("rows_unpriced", "rows unpriced", done.left_out, "count"),
            Fact("estimates", "estimates", costs.estimates, "count"),
            Fact("baseline", "baseline", case.baseline[0]),
            Fact("time_zone", "time zone", case.time_zone),
            exchange.fact(),
        ),
        charts=(
            Chart(
                name="bridge",
                title=f"From promised to paid, {case.currency}",
                kind="bars",
                table="bridge",
                x="step",
                y=("amount",),
                description="The first bar is what was promised, the last what was paid, those between are why.",
            ),
        ),
    )


def _bridge_table(review: _Review) -> Table:
    currency, found = review.case.currency, review.bridge
    columns = (
        Column("step", "Step", "text"),
        Column("amount", f"Amount, {currency}", "money"),
        Column("cost_after", f"Cost after it, {currency}", "money"),
        Column("share", "Of the promise", "change"),
    )
    rows: list[tuple[Cell, ...]] = [("promised", *_two(found.promised, found.promised, currency), None)]
    after = found.promised
    for name, effect in found.effects.items():
        after += effect
        rows.append((name, *_two(effect, after, currency), change_share(effect, found.promised)))
    change = change_share(found.actual - found.promised, found.promised)
    rows.append(("paid", *_two(found.actual, found.actual, currency), change))
    return Table("bridge", "From promised to paid", columns, tuple(rows))


def _promise_table(review: _Review) -> Table:
    currency, case = review.case.currency, review.case
    columns = (
        Column("what", "Cost", "text"),
        Column("promised", f"Promised, {currency}", "money"),
        Column("actual", f"Actual, {currency}", "money"),
        Column("change", f"Difference, {currency}", "money"),
        Column("change_share", "Change", "change"),
    )
    pairs = (
        (f"{case.baseline[0]}, priced", review.promised_baseline, review.actual_baseline),
        (f"{case.configuration[0]}, paid", review.promised.cost, review.bridge.actual),
        ("savings", *review.savings),
    )
    rows = []
    for name, promised, actual in pairs:
        amounts = (Money(amount, currency) for amount in (promised, actual, actual - promised))
        rows.append((name, *amounts, change_share(actual - promised, promised)))
    return Table("promise", "Promised and actual", columns, tuple(rows))


def _volume_table(review: _Review) -> Table:
    columns = (
        Column("what", "Volume", "text"),
        Column("promised", "Promised", "tokens"),
        Column("actual", "Actual", "tokens"),
        Column("change_share", "Change", "change"),
    )
    tokens = sum((line.quantity for line in review.case.lines), Fraction(0)) * review.volume
    done = sum((count for _, count, _ in models_of(review.done)), Fraction(0))
    pairs = (("calls", review.promised.calls, Fraction(review.done.calls)), ("tokens", tokens, done))
    rows = tuple((name, one, other, change_share(other - one, one)) for name, one, other in pairs)
    return Table("volume", "Volume", columns, rows)


def _model_table(review: _Review) -> Table:
    currency = review.case.currency
    columns = (
        Column("model", "Model", "text"),
        Column("promised_tokens", "Promised tokens", "tokens"),
        Column("tokens", "Tokens", "tokens"),
        Column("promised_cost", f"Promised, {currency}", "money"),
        Column("cost", f"Paid, {currency}", "money"),
    )
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for line in review.case.lines:
        tokens, cost = sums.get(line.model, (Fraction(0), Fraction(0)))
        sums[line.model] = tokens + line.quantity * review.volume, cost + line.amount * review.volume
    done = {model: (tokens, cost) for model, tokens, cost in models_of(review.done)}
    nothing = (Fraction(0), Fraction(0))
    rows: list[tuple[Cell, ...]] = []
    for model in dict.fromkeys((*done, *sums)):
        before, after = sums.get(model, nothing), done.get(model, nothing)
        rows.append((model, before[0], after[0], Money(before[1], currency), Money(after[1], currency)))
    return Table("models", "By model", columns, tuple(rows))


def _configuration_table(review: _Review) -> Table:
    columns = (
        Column("configuration", "Ran under", "text"),
        Column("attempts", "Attempts", "count"),
        Column("attempts_share", "Share", "share"),
        Column("cost", f"Paid, {review.case.currency}", "money"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, (count, cost) in sorted(review.done.by_configuration.items(), key=lambda item: -item[1][0]):
        share = Fraction(count, review.done.calls) if review.done.calls else None
        rows.append((name or "none on record", count, share, Money(cost, review.case.currency)))
    return Table("configurations", "How much was switched", columns, tuple(rows))


def _two(amount: Fraction, after: Fraction, currency: str) -> tuple[Money, Money]:
    return Money(amount, currency), Money(after, currency)


def _notes(review: _Review) -> Iterator[Note]:
    yield from _verdict(review)
    yield Note(
        "note",
        "steps in this order: volume (calls), mix (models, tokens a call), cache, price (lists, discounts, "
        "settlement), exchange rates; what two changes make together belongs to the later one",
    )
    if len(review.costs.days) < review.costs.days_in_month:
        text = "the month is not over: its {days} whole days are held against their share of the promise"
        yield Note("warning", text, {"days": (len(review.costs.days), "count")})
    if review.done.unpromised:
        text = "models of which no promised price is known, so that they are mix alone: {models}"
        yield Note("warning", text, {"models": (", ".join(sorted(review.done.unpromised)), "text")})
    if review.done.left_out:
        text = "without a cost on record, and so in nothing that was paid; attempts: {count}"
        yield Note("warning", text, {"count": (review.done.left_out, "count")})
    if review.case.inputs.growth:
        text = "the promise grows by {growth} a month; this one is for {volume} of the volume it was drawn from"
        growth = (review.case.inputs.growth, review.volume)
        yield Note("note", text, {"growth": (growth[0], "share"), "volume": (growth[1], "share")})


def _verdict(review: _Review) -> Iterator[Note]:
    promised, actual = review.savings
    currency = review.case.currency
    values: dict[str, tuple[Cell, Kind]] = {
        "actual": (Money(actual, currency), "money"),
        "promised": (Money(promised, currency), "money"),
        "currency": (currency, "text"),
    }
    word = "kept" if actual >= promised else "not kept"
    text = f"the promise is {word}: {{actual}} {{currency}} saved, {{promised}} {{currency}} promised"
    interval = next(((low, high) for level, low, high in review.case.intervals if level == Fraction(80, 100)), None)
    if interval is not None and actual < promised:
        inside = actual >= interval[0] * review.volume
        text += "; within what was promised with 80 %" if inside else "; below what was promised with 80 %"
    yield Note("note" if actual >= promised else "warning", text, values)
