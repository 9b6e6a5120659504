"""How one stored cost came about: usage × price rows, then the endpoint's terms, then an exchange rate.

In: an attempt and its price set as the ledger has them. Out: a `Page`. Invariant: everything is worked out again from
what was stored, with the engine that stored it, and where it does not add up the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pricing import Cost, FxError, FxRate, FxTable, PriceRow, PriceSet, Usage, plain, price_call, settle
from pricing.terms import NO_TERMS, settled_steps
from pricing.usage import BUCKETS
from reports.page import Cell, Column, Fact, Money, Note, Page, Panel, Table
from reports.period import at_us
from router.ledger.records import Amount, AttemptEnded, AttemptRow


def explain_attempt(row: AttemptRow, prices: PriceSet | None, fx: FxTable, currency: str) -> Page:
    """Return the page that explains an attempt's cost.

    Args:
        row: the attempt.
        prices: the price set it was priced with, as stored; None where there is none.
        fx: exchange rates.
        currency: ISO 4217 code that the settled cost is also shown in.
    """
    case = _Case(row, prices, _priced(row, prices), at_us(row.started.started_us))
    rate, missing = _rate(case, fx, currency)
    usage = Table("usage", "Usage", _USAGE, tuple(_usage(case)))
    lines = Table("lines", "Lines", _LINES, tuple(_lines(case)), total=_total(case), panels=_PANELS)
    steps = tuple(_steps(case, rate))
    return Page(
        name="cost",
        title=f"Cost of attempt {row.started.attempt_id}",
        parameters=(Fact("attempt_id", "attempt", row.started.attempt_id), Fact("currency", "currency", currency)),
        tables=(usage, lines, *((Table("steps", "From list cost to what is paid", _STEPS, steps),) if steps else ())),
        notes=(*_warnings(case), *missing, *_agreements(case), *_remarks(case)),
        footer=_footer(case),
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """An attempt with its prices, and its cost worked out again."""

    row: AttemptRow
    prices: PriceSet | None
    cost: Cost
    at: datetime

    @property
    def ended(self) -> AttemptEnded | None:
        return self.row.ended

    @property
    def by_id(self) -> dict[str, PriceRow]:
        return {} if self.prices is None else {row.id: row for row in self.prices.rows}


def _priced(row: AttemptRow, prices: PriceSet | None) -> Cost:
    """Return the cost again; what used nothing costs 0 even where there is no price."""
    ended, at = row.ended, at_us(row.started.started_us)
    if ended is None:
        return price_call(None, None, at=at)
    if ended.usage == Usage() and not ended.usage_estimated:
        stored = ended.list_cost.currency if ended.list_cost else None
        return Cost("exact", stored, (), Decimal(0), ended.price_set_id)
    return price_call(ended.usage, prices, at=at, service_tier=ended.service_tier, estimated=ended.usage_estimated)


_USAGE = (Column("bucket", "Bucket", "text"), Column("count", "Tokens, or calls of a tool", "tokens"))
_LINES = (
    Column("component", "Component", "text"),
    Column("quantity", "Quantity", "tokens"),
    Column("rate", "Rate", "exact"),
    Column("currency", "Currency", "text"),
    Column("unit", "Unit", "text"),
    Column("amount", "Amount", "exact"),
    Column("price_row_id", "Row", "text"),
    Column("checked", "Checked", "text"),
    Column("source", "Source", "text"),
    Column("url", "Page", "text"),
)
_PANELS = (
    Panel("Quantity × rate", ("quantity", "rate", "currency", "unit", "amount")),
    Panel("Where each rate is from", ("price_row_id", "checked", "source", "url")),
)
_STEPS = (
    Column("step", "Step", "text"),
    Column("factor", "Times", "text"),
    Column("amount", "Amount", "exact"),
    Column("currency", "Currency", "text"),
    Column("by", "By", "text"),
)


def _usage(case: _Case) -> Iterator[tuple[Cell, ...]]:
    usage = None if case.ended is None else case.ended.usage
    for bucket in BUCKETS:
        count = None if usage is None else getattr(usage, bucket)
        if count:
            yield bucket, count


def _lines(case: _Case) -> Iterator[tuple[Cell, ...]]:
    rows = case.by_id
    for line in case.cost.lines:
        row = rows.get(line.price_row_id or "")
        if row is None:
            yield line.component, line.quantity, *([None] * 8)
            continue
        rate, amount = (
            None if each is None else _money(each, row.currency) for each in (line.unit_amount, line.amount)
        )
        said = (row.id, row.checked.isoformat(), row.source, row.url or None)
        yield line.component, line.quantity, rate, row.currency, row.unit, amount, *said


def _total(case: _Case) -> tuple[Cell, ...]:
    cost = case.cost
    known = cost.total is not None and cost.currency is not None
    amount = Money(Fraction(cost.total or 0), cost.currency or "", cost.status == "partial") if known else None
    return ("total", None, None, cost.currency, None, amount, None, None, None, None)


def _steps(case: _Case, rate: FxRate | None) -> Iterator[tuple[Cell, ...]]:
    ended = case.ended
    if ended is None or ended.list_cost is None:
        return
    listed, terms = ended.list_cost, ended.terms
    yield "list cost", None, _money(listed.value, listed.currency), listed.currency, case.cost.price_set_id
    for step, currency, amount in settled_steps(listed.value, listed.currency, terms):
        yield step.name, plain(step.factor), _money(amount, currency), currency, terms.id
    settled = ended.settled_cost
    if settled is None:
        return
    yield "settled cost", None, _money(settled.value, settled.currency), settled.currency, None
    if rate is not None:
        shown = Money(Fraction(settled.value) * Fraction(rate.rate), rate.quote)
        yield f"in {rate.quote}", plain(rate.rate), shown, rate.quote, f"{rate.id} ({rate.source})"


def _rate(case: _Case, fx: FxTable, currency: str) -> tuple[FxRate | None, tuple[Note, ...]]:
    """Return the rate of the call's UTC day; None, and why, where there is none or none is needed."""
    settled = None if case.ended is None else case.ended.settled_cost
    if settled is None or settled.currency == currency:
        return None, ()
    try:
        return fx.rate(settled.currency, currency, case.at.date()), ()
    except FxError as error:
        return None, (Note("warning", "{error}", {"error": (str(error), "text")}),)


def _warnings(case: _Case) -> Iterator[Note]:
    ended = case.ended
    if ended is None:
        yield Note("warning", "it never ended, so neither usage nor cost is known; it may have been billed")
        return
    if ended.usage is None:
        yield Note("warning", "its usage is not known, so there is no cost")
    elif ended.price_set_id is None and ended.list_cost is None:
        yield Note("warning", "no price was known for what answered, so there is no cost")
    if case.cost.unpriced:
        text = "no price on record for {components}: the total is a lower bound, or unknown"
        yield Note("warning", text, {"components": (", ".join(case.cost.unpriced), "text")})
    if case.prices is not None and case.prices.retired_at is not None:
        text = "{model} left its price list on {day} and is priced at its last list"
        day = f"{case.prices.retired_at:%Y-%m-%d}"
        yield Note("warning", text, {"model": (case.prices.model, "text"), "day": (day, "text")})


def _agreements(case: _Case) -> Iterator[Note]:
    """Yield whether the lines add up to the stored list cost, and the terms make the stored settled cost of it."""
    ended = case.ended
    if ended is None:
        return
    again = None if case.cost.total is None else Amount(case.cost.currency or "", case.cost.total)
    if again is not None or ended.list_cost is not None:
        yield _agreement("the lines add up to", again, ended.list_cost, "list cost")
    if ended.list_cost is not None:
        paid = Amount(*settle(ended.list_cost.value, ended.list_cost.currency, ended.terms))
        yield _agreement("the terms on record make of it", paid, ended.settled_cost, "settled cost")


def _agreement(what: str, again: Amount | None, stored: Amount | None, name: str) -> Note:
    made, found = _amount_text(again), _amount_text(stored)
    if again == stored:
        return Note("note", f"{what} {{again}}, the stored {name} to the last digit", {"again": (made, "text")})
    text = f"{what} {{again}}, and the ledger has {{stored}} as {name}: they do not agree"
    return Note("warning", text, {"again": (made, "text"), "stored": (found, "text")})


def _remarks(case: _Case) -> Iterator[Note]:
    ended, rows = case.ended, case.by_id
    for line in case.cost.lines:
        row = rows.get(line.price_row_id or "")
        if row is not None and row.component != line.component:
            text = "{component} has no row of its own in this list, and is billed as {other}"
            yield Note("note", text, {"component": (line.component, "text"), "other": (row.component, "text")})
    if ended is None:
        return
    if ended.usage_estimated:
        yield Note("note", "the token counts are estimated")
    if ended.list_cost is not None and ended.settled_cost == ended.list_cost and ended.terms == NO_TERMS:
        yield Note("note", "no terms are on record: the list cost is what is paid")
    if ended.reported_cost_usd is not None:
        text = "the upstream itself stated {amount} USD"
        yield Note("note", text, {"amount": (plain(ended.reported_cost_usd), "text")})


def _footer(case: _Case) -> tuple[Fact, ...]:
    started, ended = case.row.started, case.ended
    facts = [
        Fact("run_id", "run", started.run_id),
        Fact("started", "at", case.at.isoformat()),
        Fact("endpoint", "endpoint", started.endpoint),
        Fact("price_list", "price list", started.price_list),
        Fact("model_asked", "model asked for", started.model_asked),
    ]
    if ended is not None:
        facts += [
            Fact("model_served", "model that answered", ended.model_served),
            Fact("service_tier", "service tier", ended.service_tier),
            Fact("status", "status", ended.status),
            Fact("cost_status", "cost", ended.cost_status),
            Fact("price_set_id", "price set", ended.price_set_id),
            Fact("terms_id", "terms", None if ended.terms == NO_TERMS else ended.terms.id),
        ]
    return tuple(facts)


def _money(value: Decimal, currency: str) -> Money:
    return Money(Fraction(value), currency)


def _amount_text(amount: Amount | None) -> str:
    return "no amount" if amount is None else f"{plain(amount.value)} {amount.currency}"
