"""How a stored cost came about: lines, terms and rate by hand, and where they do not add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

from pricing import Catalog, FxTable, PriceSet, Terms, Usage, operator_rate, price_call
from reports import Money, Page
from reports.explanation import explain_attempt
from reports.render import render
from reports.render.sections import fill
from router.ledger import Ledger
from router.ledger.records import Amount, AttemptRow, AttemptStarted
from tests.reports.scenes import Scene

AT = datetime(2026, 10, 14, 9, 30, tzinfo=UTC)
FX = FxTable(operator=[operator_rate("CNY", "USD", Decimal("0.125"), date(2026, 10, 1), "contract")])
SERVED = Usage(uncached_input_tokens=176, cache_read_tokens=1024, plain_output_tokens=20)


def stored(ledger: Ledger, catalog: Catalog, scene: Scene) -> tuple[AttemptRow, PriceSet | None]:
    records = list(scene.records(catalog))
    ledger.write_now(*records)
    [attempt_id] = [record.attempt_id for record in records if isinstance(record, AttemptStarted)]
    row = ledger.reader.attempt(attempt_id)
    assert row is not None
    key = row.ended.price_set_id if row.ended else None
    return row, ledger.reader.price_sets([key])[key] if key else None


def explained(ledger: Ledger, catalog: Catalog, scene: Scene, currency: str = "USD") -> Page:
    return explain_attempt(*stored(ledger, catalog, scene), FX, currency)


def said(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def test_r6_line_by_line(ledger: Ledger, catalog: Catalog) -> None:
    page = explained(ledger, catalog, Scene(at=AT, usage=SERVED, model="gpt-4o", served="gpt-4o-mini"))
    lines = page.table("lines")
    assert [row[:6] for row in lines.rows] == [
        ("input", 176, Money(Fraction("0.15"), "USD"), "USD", "per Mtok", Money(Fraction("0.0000264"), "USD")),
        ("cache_read", 1024, Money(Fraction("0.075"), "USD"), "USD", "per Mtok", Money(Fraction("0.0000768"), "USD")),
        ("output", 20, Money(Fraction("0.6"), "USD"), "USD", "per Mtok", Money(Fraction("0.000012"), "USD")),
    ]
    rows = catalog.price_set("gpt-4o-mini", "openai", AT)
    assert rows is not None
    plain = {row.component: row for row in rows.rows if row.conditions.specificity == 0}
    assert lines.column("price_row_id") == tuple(plain[name].id for name in ("input", "cache_read", "output"))
    assert set(lines.column("url")) == {plain["input"].url}
    assert set(lines.column("source")) == {plain["input"].source}
    assert set(lines.column("checked")) == {plain["input"].checked.isoformat()}
    assert lines.total_of("amount") == Money(Fraction("0.0001152"), "USD")
    assert page.table("usage").rows == (
        ("uncached_input_tokens", 176),
        ("cache_read_tokens", 1024),
        ("plain_output_tokens", 20),
    )
    assert "note: the lines add up to 0.0001152 USD, the stored list cost to the last digit" in said(page)
    assert "0.0000264" in render(page, "text", width=80, color=False)


def test_from_list_to_dollars_step_by_step(ledger: Ledger, catalog: Catalog) -> None:
    terms = Terms(Decimal("0.15"), "CNY", Decimal(1), markup_share=Decimal("0.05"), tax_share=Decimal("0.06"))
    usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # 2.80 USD at list
    page = explained(ledger, catalog, Scene(at=AT, usage=usage, terms=terms))
    steps = page.table("steps")
    assert [(row[0], row[1], row[2].value, row[3]) for row in steps.rows if isinstance(row[2], Money)] == [
        ("list cost", None, Fraction("2.8"), "USD"),
        ("discount", "0.85", Fraction("2.38"), "USD"),
        ("mark-up", "1.05", Fraction("2.499"), "USD"),
        ("settlement", "1", Fraction("2.499"), "CNY"),
        ("tax", "1.06", Fraction("2.64894"), "CNY"),
        ("settled cost", None, Fraction("2.64894"), "CNY"),
        ("in USD", "0.125", Fraction("0.3311175"), "USD"),
    ]
    assert steps.rows[-1][4] == "operator:CNY/USD:2026-10-01:0.125 (contract)"
    assert "note: the terms on record make of it 2.64894 CNY, the stored settled cost to the last digit" in said(page)


def test_reasoning_and_cached_input_without_rows_of_their_own(ledger: Ledger, catalog: Catalog) -> None:
    usage = Usage(cache_read_tokens=10, plain_output_tokens=1, reasoning_tokens=2)
    page = explained(ledger, catalog, Scene(at=AT, usage=usage, model="moonshot-v1-8k"))
    assert [row[:2] for row in page.table("lines").rows] == [("cache_read", 10), ("output", 3)]
    assert "note: cache_read has no row of its own in this list, and is billed as input" in said(page)


def test_the_tier_that_was_served_prices_it_again(ledger: Ledger, catalog: Catalog) -> None:
    at = AT.replace(month=11)  # the list's batch prices are known from October on
    row, prices = stored(ledger, catalog, Scene(at=at, usage=SERVED, model="gpt-4o-mini"))
    assert row.ended is not None
    batch = price_call(SERVED, prices, at=at, service_tier="batch").total
    assert batch is not None
    assert batch < Decimal("0.0001152")
    cost = Amount("USD", batch)
    ended = replace(row.ended, service_tier="batch", list_cost=cost, settled_cost=cost)
    notes = said(explain_attempt(replace(row, ended=ended), prices, FX, "USD"))
    assert not [note for note in notes if note.startswith("warning")]


def test_what_does_not_add_up_is_said(ledger: Ledger, catalog: Catalog) -> None:
    row, prices = stored(ledger, catalog, Scene(at=AT, usage=SERVED, model="gpt-4o-mini"))
    assert row.ended is not None
    altered = replace(row.ended, list_cost=Amount("USD", Decimal("0.0001153")))
    notes = said(explain_attempt(replace(row, ended=altered), prices, FX, "USD"))
    assert (
        "warning: the lines add up to 0.0001152 USD, and the ledger has 0.0001153 USD as list cost: they do not agree"
    ) in notes
    assert any(note.startswith("warning: the terms on record make of it 0.0001153 USD") for note in notes)


def test_an_unpriced_part_an_unknown_usage_and_an_attempt_in_flight(ledger: Ledger, catalog: Catalog) -> None:
    partial = explained(ledger, catalog, Scene(at=AT, usage=SERVED, model="gpt-4.1", price_list="relay"))
    warning = "warning: no price on record for input, cache_read: the total is a lower bound, or unknown"
    assert warning in said(partial)
    assert partial.table("lines").total_of("amount") == Money(Fraction("0.00016"), "USD", lower_bound=True)  # 20 × 8
    unknown = explained(ledger, catalog, Scene(at=AT, usage=None, status="timed_out", possibly_billed=True))
    assert said(unknown) == ["warning: its usage is not known, so there is no cost"]
    assert unknown.table("lines").rows == ()
    going = explained(ledger, catalog, Scene(at=AT, status="started"))
    assert said(going) == [
        "warning: it never ended, so neither usage nor cost is known; it may have been billed",
    ]


def test_a_call_that_used_nothing_cost_nothing(ledger: Ledger, catalog: Catalog) -> None:
    row, prices = stored(ledger, catalog, Scene(at=AT, usage=Usage(), model="gpt-4.1", status="failed"))
    notes = said(explain_attempt(row, prices, FX, "USD"))
    assert "note: the lines add up to 0 USD, the stored list cost to the last digit" in notes


def test_a_currency_without_a_rate_is_said_and_the_rest_is_shown(ledger: Ledger, catalog: Catalog) -> None:
    page = explained(ledger, catalog, Scene(at=AT, usage=SERVED, model="gpt-4o-mini"), currency="CHF")
    assert "warning: fx USD/CHF: no rate on or before 2026-10-14" in said(page)
    assert page.table("steps").rows[-1][0] == "settled cost"
