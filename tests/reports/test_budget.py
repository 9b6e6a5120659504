"""Budgets: spent, left and the day they are used up, by hand; each in its own scope and currency."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from pricing import Catalog, FxTable, Usage, operator_rate
from reports import Money, named_month, time_zone
from reports.budget import BudgetState, budget_states
from reports.budget_page import budget_page, budgets_page
from reports.render.sections import fill
from router.ledger import Ledger
from router.ledger.budget_records import BudgetRow, BudgetScope
from router.ledger.records import Amount
from tests.reports.scenes import Scene, write

FX = FxTable([operator_rate("USD", "EUR", Decimal("0.5"), date(2026, 9, 1), "test")])
WARN = Fraction(80, 100)
TEN = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000)  # gpt-4.1: 2.00 + 8.00
OVER = datetime(2026, 11, 30, tzinfo=UTC)


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 10, day, hour, tzinfo=UTC)


def budget(amount: str, scope: BudgetScope = "all", name: str = "", currency: str = "USD") -> BudgetRow:
    return BudgetRow(scope, name, Amount(currency, Decimal(amount)), 0)


def state(ledger: Ledger, row: BudgetRow, now: datetime = OVER, zone: str = "UTC") -> BudgetState:
    month = named_month("2026-10", time_zone(zone), now)
    return budget_states(ledger.reader, [row], month, now, FX)[0]


@pytest.fixture
def october(ledger: Ledger, catalog: Catalog) -> Ledger:
    """10.00 on the 3rd for acme, 10.00 on the 5th for zeta's maths, 10.00 on the 9th by gpt-4o for nobody."""
    half = Usage(plain_output_tokens=1_000_000)  # gpt-4o: 10.00
    write(
        ledger,
        catalog,
        Scene(at=at(3), usage=TEN, tenant="acme"),
        Scene(at=at(5), usage=TEN, tenant="zeta", task_class="math"),
        Scene(at=at(9), usage=half, model="gpt-4o"),
        Scene(at=at(9), status="timed_out", possibly_billed=True, reserved_usd=Decimal(7)),
    )
    return ledger


CASES: tuple[tuple[BudgetRow, int, date | None], ...] = (
    (budget("30"), 30, None),  # as much as it is: not crossed
    (budget("29.99"), 30, date(2026, 10, 9)),
    (budget("10", "tenant", "acme"), 10, None),
    (budget("9", "tenant", "zeta"), 10, date(2026, 10, 5)),
    (budget("4", "class", "math", "EUR"), 5, date(2026, 10, 5)),  # 10.00 at a half
    (budget("5", "model", "gpt-4o"), 10, date(2026, 10, 9)),
    (budget("5", "model", "gpt-4.1"), 20, date(2026, 10, 3)),
    (budget("5", "tenant", "nobody"), 0, None),
)


def test_what_is_spent_and_when_it_was_crossed(october: Ledger) -> None:
    month = named_month("2026-10", time_zone("UTC"), OVER)
    states = budget_states(october.reader, [row for row, *_ in CASES], month, OVER, FX)
    assert [found.spent for found in states] == [spent for _, spent, _ in CASES]
    assert [found.crossed_on for found in states] == [crossed for *_, crossed in CASES]
    assert [found.state(WARN) for found in states] == [
        "crossed" if crossed else "warning" if spent else "ok" for _, spent, crossed in CASES
    ]
    assert all(found.forecast is None for found in states)  # the month is over


def test_the_page_by_hand(october: Ledger) -> None:
    found = state(october, budget("32"))
    month = named_month("2026-10", time_zone("UTC"), OVER)
    page = budget_page(found, month, WARN)
    left = {row[0]: row[3] for row in page.table("burn_down").rows}
    assert len(left) == 31
    assert [left[f"2026-10-{day:02}"] for day in (1, 3, 9, 31)] == [Money(Fraction(n), "USD") for n in (32, 22, 2, 2)]
    said = [f"{note.kind}: {fill(note)}" for note in page.notes]
    assert "warning: all: 93.8 % is spent" in said  # 30 of 32
    assert "warning: all: with what is possibly billed (7.00 USD) it would be crossed" in said
    row = budgets_page([found], month, WARN).table("budgets").rows[0]
    assert row[3:7] == (
        Money(Fraction(32), "USD"),
        Money(Fraction(30), "USD"),
        Fraction(30, 32),
        Money(Fraction(2), "USD"),
    )


def test_days_are_those_of_the_time_zone(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=at(31, 16), usage=TEN), Scene(at=datetime(2026, 9, 30, 16, tzinfo=UTC), usage=TEN))
    assert state(ledger, budget("100")).spent == 10
    tokyo = state(ledger, budget("100"), zone="Asia/Tokyo")  # 1 November there, 1 October there
    assert tokyo.spent == 10
    assert [day.day.day for day in tokyo.days if day.spent] == [1]


def test_the_forecast_says_on_which_day_it_will_be_crossed(ledger: Ledger, catalog: Catalog) -> None:
    # 10.00 on each of nine days; on the 10th at noon nothing yet: 10.00 a day go on
    write(ledger, catalog, *[Scene(at=at(day), usage=TEN) for day in range(1, 10)])
    found = state(ledger, budget("155"), now=at(10))
    assert found.spent == 90
    assert found.crossed_on is None
    assert found.crosses_on == date(2026, 10, 16)  # 160 at the end of the 16th
    assert found.state(WARN) == "forecast to cross"
    assert state(ledger, budget("400"), now=at(10)).crosses_on is None
    assert [day.day.day for day in found.days if day.is_forecast] == list(range(11, 32))
    page = budget_page(found, named_month("2026-10", time_zone("UTC"), at(10)), WARN)
    assert any("all: crosses it on 2026-10-16, as things go; 58.1 % is spent" in fill(note) for note in page.notes)


def test_unpriced_calls_make_it_a_lower_bound(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=at(3), usage=TEN), Scene(at=at(3), usage=TEN, served="unheard-of"))
    found = state(ledger, budget("20"))
    assert [found.spent, found.unpriced] == [10, 1]
    row = budgets_page([found], named_month("2026-10", time_zone("UTC"), OVER), WARN).table("budgets").rows[0]
    assert row[4] == Money(Fraction(10), "USD", lower_bound=True)
