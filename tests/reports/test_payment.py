"""What is left to pay of a month: credit used before and in it, and a commitment, worked out by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pricing import Catalog, FxTable, Terms, Usage, operator_rate
from reports import Money, Page, month_report
from reports.page import Cell
from reports.render.sections import fill
from router.ledger import Ledger
from router.settings import EndpointSettings
from tests.reports.scenes import Scene, write

SEPTEMBER = datetime(2026, 9, 30, 23, 59, tzinfo=UTC)
OCTOBER = datetime(2026, 10, 14, 9, 30, tzinfo=UTC)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
MEBI = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # at gpt-4.1's 2 and 8: 2.80 USD
FX = FxTable(operator=[operator_rate("CNY", "USD", Decimal("0.125"), date(2026, 9, 1))])


def endpoint(**terms: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"base_url": "http://localhost/v1", **terms})


def credit(kind: str, amount: str, currency: str = "USD", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "amount": amount, "currency": currency, "starts": date(2026, 9, 1), **more}


def page_of(ledger: Ledger, catalog: Catalog, *, now: datetime = NOW, zone: str = "UTC", **terms: Any) -> Page:
    return month_report(
        ledger.reader,
        month="2026-10",
        by="model",
        currency="USD",
        time_zone_name=zone,
        fx=FX,
        catalog=catalog,
        now=now,
        endpoints={"here": endpoint(**terms)},
    )


def row_of(page: Page, table: str, at: int = 0) -> dict[str, Cell]:
    found = page.table(table)
    return dict(zip([column.key for column in found.columns], found.rows[at], strict=True))


def usd(amount: str, *, lower_bound: bool = False) -> Money:
    return Money(Fraction(amount), "USD", lower_bound)


def test_a_page_without_credit_or_commitment_says_nothing_of_payment(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI))
    assert {"payment", "credits"}.isdisjoint(table.name for table in page_of(ledger, catalog).tables)


def test_credit_lowers_what_is_left_to_pay_and_no_cost(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=SEPTEMBER, usage=MEBI), *[Scene(at=OCTOBER, usage=MEBI)] * 3)
    page = page_of(ledger, catalog, credits=[credit("free", "5"), credit("prepaid", "4.5")])
    assert page.table("lines").total_of("settled_cost") == usd("8.40")
    # Free: 2.80 in September, 2.20 of October's 8.40; prepaid: all 4.50; 8.40 - 2.20 - 4.50 are left.
    assert row_of(page, "payment") == {
        "endpoint": "here",
        "settled_cost": usd("8.40"),
        "free_credit": usd("2.20"),
        "prepaid_credit": usd("4.50"),
        "commitment_shortfall": None,
        "to_pay": usd("1.70"),
    }
    free = row_of(page, "credits")
    assert (free["used_before"], free["used_in_month"], free["left"]) == (usd("2.80"), usd("2.20"), usd("0"))
    assert row_of(page, "credits", 1)["left"] == usd("0")


def test_what_a_credit_still_holds_when_it_expires_is_gone(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER.replace(day=20), usage=MEBI))
    page = page_of(ledger, catalog, credits=[credit("free", "10", expires=date(2026, 10, 20))])
    assert row_of(page, "payment")["to_pay"] == usd("2.80")
    found = row_of(page, "credits")
    assert (found["used_in_month"], found["expired"], found["left"]) == (usd("2.80"), usd("7.20"), usd("0"))
    assert found["expires"] == "2026-10-20"


def test_a_prepaid_credit_in_yuan_at_the_days_rate(ledger: Ledger, catalog: Catalog) -> None:
    relay = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    # 2.80 CNY and 2.80 USD; 10 CNY pay the first, and with the 7.20 left 0.90 USD of the second.
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI, terms=relay))
    write(ledger, catalog, Scene(at=OCTOBER.replace(day=15), usage=MEBI))
    page = page_of(ledger, catalog, credits=[credit("prepaid", "10", "CNY")])
    assert row_of(page, "payment")["settled_cost"] == usd("3.15")  # 2.80 × 0.125 + 2.80
    assert row_of(page, "payment")["prepaid_credit"] == usd("1.25")  # 0.35 + 0.90
    assert row_of(page, "payment")["to_pay"] == usd("1.90")
    assert row_of(page, "credits")["used_in_month"] == Money(Fraction(10), "CNY")
    rates = {row[0]: row[-1] for row in page.table("exchange_rates").rows}
    assert rates == {
        "CNY/USD": "operator:CNY/USD:2026-09-01:0.125",
        "USD/CNY": "operator:CNY/USD:2026-09-01:0.125^-1",
    }


def test_an_unknown_cost_makes_what_is_to_pay_a_lower_bound(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER, status="timed_out", possibly_billed=True))
    page = page_of(ledger, catalog, credits=[credit("free", "1")])
    assert row_of(page, "payment")["to_pay"] == usd("1.80", lower_bound=True)


def test_a_commitment_that_was_not_reached_is_paid(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI))
    tier = {"monthly_amount": 40, "currency": "CNY", "discount_share": 0, "starts": date(2026, 10, 1)}
    page = page_of(ledger, catalog, commitments=[tier])
    # 2.80 USD are 22.40 CNY; 17.60 CNY, 2.20 USD, were not reached.
    assert row_of(page, "payment")["commitment_shortfall"] == usd("2.20")
    assert row_of(page, "payment")["to_pay"] == usd("5.00")
    running = page_of(ledger, catalog, commitments=[tier], now=OCTOBER)
    assert row_of(running, "payment")["commitment_shortfall"] is None
    assert "here: 17.60 CNY of its commitment is still to be reached this month" in map(fill, running.notes)
    late = page_of(ledger, catalog, commitments=[tier | {"starts": date(2026, 10, 2)}])
    assert row_of(late, "payment")["commitment_shortfall"] is None
    assert any("for a part of the month only" in fill(note) for note in late.notes)
