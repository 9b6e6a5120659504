"""A bill against the ledger: a planted difference of each kind is found, and the reasons sum for any two sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Usage, operator_rate
from reports import Exchange, Money, Page, named_month, time_zone
from reports.invoice import read_bill
from reports.ledger_entries import Wanted
from reports.reconcile import REASONS, Entry, Key, reconcile, summed
from reports.reconcile_page import Reconciliation, reconcile_page, reconciled
from reports.render.sections import fill
from router.errors import RouterError
from router.ledger import Ledger
from tests.reports.scenes import Scene, write

OCTOBER = named_month("2026-10", time_zone("UTC"), datetime(2026, 11, 30, tzinfo=UTC))
FX = FxTable([operator_rate("USD", "EUR", Decimal("0.5"), date(2026, 9, 1), "test")])
DAYS = (1, 2, 3)
# gpt-4.1: 2.00, 0.50, 8.00 per Mtok
USED = Usage(uncached_input_tokens=1_000_000, cache_read_tokens=400_000, plain_output_tokens=100_000)
LINES: Mapping[str, tuple[int, str]] = {
    "input": (1_000_000, "2"),
    "cached input": (400_000, "0.2"),
    "output": (100_000, "0.8"),
}


@pytest.fixture
def october(ledger: Ledger, catalog: Catalog) -> Ledger:
    """The same work of gpt-4.1 on three days, another vendor's, and one call that may have been billed."""
    scenes = [Scene(at=datetime(2026, 10, day, 12, tzinfo=UTC), usage=USED) for day in DAYS]
    other = Scene(at=datetime(2026, 10, 2, tzinfo=UTC), usage=USED, model="claude-sonnet-4.5")
    lost = Scene(
        at=datetime(2026, 10, 3, tzinfo=UTC), status="timed_out", possibly_billed=True, reserved_usd=Decimal("0.4")
    )
    write(ledger, catalog, *scenes, other, lost)
    return ledger


def bill_of(changes: Mapping[tuple[int, str], tuple[int, str] | None] | None = None, *, quantities: bool = True) -> str:
    """Return OpenAI's bill of the three days, with some lines changed or taken out, or another one put in."""
    buckets = []
    for day in DAYS:
        lines: dict[str, Any] = dict(LINES)
        lines |= {name: line for (on, name), line in (changes or {}).items() if on == day}
        results = []
        for name, line in lines.items():
            if line is None:
                continue
            item = name if name.startswith("web") else f"gpt-4.1-2025-04-14, {name}"
            result = {"amount": {"value": line[1], "currency": "usd"}, "line_item": item}
            results.append(result | ({"quantity": line[0]} if quantities else {}))
        start = int(datetime(2026, 10, day, tzinfo=UTC).timestamp())
        buckets.append({"start_time": start, "results": results})
    return json.dumps({"data": buckets})


def held(ledger: Ledger, catalog: Catalog, text: str, **options: Any) -> Reconciliation:
    bill = read_bill(text, **options)
    wanted = Wanted("openai")
    return reconciled(bill, ledger.reader, OCTOBER, wanted, catalog, Exchange(FX, bill.currency))


def reasons(found: Reconciliation) -> dict[str, Fraction]:
    return {name: amount for name, amount in summed(found.differences).items() if amount}


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def test_equal_sides_have_no_difference(october: Ledger, catalog: Catalog) -> None:
    found = held(october, catalog, bill_of())
    assert list(found.totals) == [9, 9]
    assert reasons(found) == {}
    page = reconcile_page(found, "bill.json")
    assert page.table("classes").column("bill_tokens") == (1_200_000, 3_000_000, 300_000)
    assert page.table("classes").column("ledger_tokens") == (1_200_000, 3_000_000, 300_000)
    said = notes(page)
    assert "note: nothing is left unexplained" in said
    assert "note: rows of the ledger that are not this bill's, left out: 1" in said
    lost = "warning: possibly billed, and in no cost of the ledger; attempts: 1; reserved: 0.40 USD"
    assert lost in said


PLANTED: tuple[tuple[dict[tuple[int, str], tuple[int, str] | None], dict[str, Fraction]], ...] = (
    ({(2, "web search tool calls"): (5, "0.05")}, {"only on the bill": Fraction("0.05")}),
    ({(2, "output"): None}, {"only in the ledger": Fraction("-0.8")}),
    ({(1, "input"): (1_100_000, "2.2")}, {"quantity": Fraction("0.2")}),
    ({(1, "cached input"): (400_000, "0.8")}, {"rate": Fraction("0.6")}),  # not billed as cached
    ({(1, "input"): (900_000, "2.25")}, {"quantity": Fraction("-0.2"), "rate": Fraction("0.45")}),  # at 2.50
    ({(3, "output"): (100_000, "0.80004"), (1, "output"): (100_000, "0.8000")}, {"rate": Fraction("0.00004")}),
    ({(3, "output"): (100_001, "0.80001")}, {"quantity": Fraction("0.000008"), "rounding": Fraction("0.000002")}),
)


def test_a_planted_difference_of_each_kind(october: Ledger, catalog: Catalog) -> None:
    for changes, expected in PLANTED:
        found = held(october, catalog, bill_of(changes))
        assert reasons(found) == expected
        assert sum(expected.values()) == found.difference
        page = reconcile_page(found, "bill.json")
        for name in ("classes", "models", "days"):
            assert page.table(name).total_of("difference") == Money(found.difference, "USD")


def test_a_bill_without_tokens_tells_a_rate_by_its_steadiness(october: Ledger, catalog: Catalog) -> None:
    dearer: dict[tuple[int, str], tuple[int, str] | None] = {(day, "output"): (0, "1") for day in DAYS}  # 0.80 before
    assert reasons(held(october, catalog, bill_of(dearer, quantities=False))) == {"rate": Fraction("0.6")}
    twice = {**dearer, (3, "output"): None}  # two days are too few to tell
    found = held(october, catalog, bill_of(twice, quantities=False))
    assert reasons(found) == {"only in the ledger": Fraction("-0.8"), "unexplained": Fraction("0.4")}
    once: dict[tuple[int, str], tuple[int, str] | None] = {(2, "output"): (0, "1")}
    found = held(october, catalog, bill_of(once, quantities=False))
    assert reasons(found) == {"unexplained": Fraction("0.2")}
    assert "warning: unexplained: 0.20 USD" in notes(reconcile_page(found, "bill.json"))


def test_a_bill_by_day_alone_in_another_currency(october: Ledger, catalog: Catalog) -> None:
    # 3.00 dollars a day are 1.50 euros
    text = "date,amount,currency\n2026-10-01,1.50,EUR\n2026-10-02,1.50,EUR\n2026-10-03,1.75,EUR\n2026-09-30,9,EUR\n"
    found = held(october, catalog, text)
    assert found.totals == (Fraction("4.75"), Fraction("4.5"))
    assert reasons(found) == {"unexplained": Fraction("0.25")}
    page = reconcile_page(found, "bill.csv")
    assert [table.name for table in page.tables] == ["summary", "days", "lines", "exchange_rates"]
    assert "note: lines of other months, left out: 1" in notes(page)


def test_a_bill_of_another_month(october: Ledger, catalog: Catalog) -> None:
    with pytest.raises(RouterError, match="bill: no line is of 2026-10; they are of 2026-08-31 to 2026-09-01"):
        held(october, catalog, "date,amount,currency\n2026-09-01,1,USD\n2026-08-31,1,USD\n")


NUMBERS = st.fractions(-(10**4), 10**6, max_denominator=1_000)
KEYS = st.builds(
    Key,
    st.sampled_from([None, date(2026, 10, 1), date(2026, 10, 2), date(2026, 10, 3)]),
    st.sampled_from([None, "one", "two"]),
    st.sampled_from(["input", "output"]),
)
SIDES = st.dictionaries(KEYS, st.builds(Entry, st.none() | st.fractions(0, 10**6, max_denominator=7), NUMBERS))


@settings(max_examples=40)
@given(SIDES, SIDES, st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1)]))
def test_law_the_reasons_sum_to_the_difference(
    bill: dict[Key, Entry], ledger: dict[Key, Entry], unit: Fraction
) -> None:
    found = reconcile(bill, ledger, unit)
    for each in found:
        assert sum(each.reasons.values()) == each.amount
        assert set(each.reasons) <= set(REASONS)
    totals = [sum((entry.amount for entry in side.values()), Fraction(0)) for side in (bill, ledger)]
    assert sum(summed(found).values()) == totals[0] - totals[1]
