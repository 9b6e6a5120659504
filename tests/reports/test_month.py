"""The month's report: figures worked out by hand, and the law that total, lines and ledger agree in every cut."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pricing import Catalog, FxTable, Terms, Usage, join_amount, operator_rate
from reports import Money, Page, month_bounds, month_report, time_zone
from reports.render.sections import fill
from router.errors import RouterError, WrongUsage
from router.ledger import Ledger
from router.ledger.importers.trace import import_trace
from tests.reports.scenes import Scene, write

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = datetime(2026, 10, 14, 9, 30, tzinfo=UTC)
MEBI = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # at gpt-4.1's 2 and 8: 2.00 + 0.80 USD
RELAY = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))


def report(
    ledger: Ledger,
    catalog: Catalog,
    fx: FxTable,
    *,
    by: str = "model",
    month: str | None = "2026-10",
    currency: str = "USD",
    zone: str = "UTC",
    now: datetime = NOW,
) -> Page:
    return month_report(
        ledger.reader, month=month, by=by, currency=currency, time_zone_name=zone, fx=fx, catalog=catalog, now=now
    )


def line(page: Page, label: str | None) -> dict[str, object]:
    table = page.table("lines")
    row = next(row for row in table.rows if row[0] == label)
    return {column.key: cell for column, cell in zip(table.columns, row, strict=True)}


def usd(amount: str, *, lower_bound: bool = False) -> Money:
    return Money(Fraction(amount), "USD", lower_bound)


def footer(page: Page) -> dict[str, object]:
    return {fact.key: fact.value for fact in page.footer}


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def test_tokens_cost_and_share_of_each_line(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    cached = Usage(
        uncached_input_tokens=200_000, cache_read_tokens=800_000, plain_output_tokens=60_000, reasoning_tokens=40_000
    )
    write(
        ledger,
        catalog,
        Scene(at=DAY, usage=MEBI),
        Scene(at=DAY, usage=cached),  # 0.2 × 2.00 + 0.8 × 0.50 + 0.1 × 8.00 = 1.60
        Scene(at=DAY, usage=MEBI, model="gemini-2.5-flash"),  # 1 × 0.30 + 0.1 × 2.50 = 0.55
    )
    page = report(ledger, catalog, fx)
    first = line(page, "gpt-4.1")
    assert first["list_cost"] == first["settled_cost"] == usd("4.40")
    assert (first["input_tokens"], first["cache_read_tokens"], first["cache_write_tokens"]) == (2_000_000, 800_000, 0)
    assert (first["output_tokens"], first["reasoning_tokens"]) == (200_000, 40_000)
    assert first["cost_share"] == Fraction(440, 495)
    assert line(page, "gemini-2.5-flash")["list_cost"] == usd("0.55")
    assert page.table("lines").total_of("list_cost") == usd("4.95")
    assert page.table("lines").total_of("cost_share") == 1
    assert [row[0] for row in page.table("lines").rows] == ["gpt-4.1", "gemini-2.5-flash"]  # the dearest first
    assert footer(page)["rows_counted"] == 3
    assert footer(page)["rows_unpriced"] == 0


def test_amounts_are_converted_at_the_rate_of_each_calls_own_day(ledger: Ledger, catalog: Catalog) -> None:
    fx = FxTable(
        operator=[
            operator_rate("USD", "JPY", Decimal(150), date(2026, 10, 1)),
            operator_rate("USD", "JPY", Decimal(160), date(2026, 10, 2)),
            operator_rate("CNY", "JPY", Decimal(20), date(2026, 10, 1)),
        ]
    )
    write(
        ledger,
        catalog,
        Scene(at=datetime(2026, 10, 1, 23, 59, 59, tzinfo=UTC), usage=MEBI),
        Scene(at=datetime(2026, 10, 2, tzinfo=UTC), usage=MEBI, terms=RELAY),
    )
    total = report(ledger, catalog, fx, currency="JPY").table("lines")
    assert total.total_of("list_cost") == Money(Fraction("2.8") * 150 + Fraction("2.8") * 160, "JPY")
    # In Tokyo both calls are on 2 October; the rate is still that of each call's UTC day.
    days = report(ledger, catalog, fx, currency="JPY", by="day", zone="Asia/Tokyo").table("lines")
    assert days.rows[0][0] == "2026-10-02"
    assert days.column("list_cost") == (total.total_of("list_cost"),)
    assert total.total_of("settled_cost") == Money(Fraction("2.8") * 150 + Fraction("2.8") * 20, "JPY")


def test_a_rate_that_is_carried_forward_is_said(ledger: Ledger, catalog: Catalog) -> None:
    fx = FxTable(operator=[operator_rate("USD", "JPY", Decimal(150), date(2026, 9, 30), "contract")])
    write(ledger, catalog, Scene(at=DAY, usage=MEBI))
    page = report(ledger, catalog, fx, currency="JPY")
    carried = "of 2026-09-30 and is carried forward to 2026-10-14, 14 days"
    assert f"warning: exchange rate USD/JPY: the last known is {carried}" in notes(page)
    assert footer(page)["exchange_rates"] == "USD/JPY of 2026-09-30 (contract)"


def test_an_unpriced_attempt_makes_a_lower_bound_and_is_counted(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    relay = Scene(at=DAY, usage=MEBI, price_list="relay")  # publishes output prices only: 0.1 × 8.00
    write(
        ledger,
        catalog,
        relay,
        Scene(at=DAY, usage=MEBI, model="gpt-4o", served="who-knows"),
        Scene(
            at=DAY,
            usage=None,
            model="gpt-4o-mini",
            possibly_billed=True,
            status="timed_out",
            reserved_usd=Decimal("0.7"),
        ),
    )
    page = report(ledger, catalog, fx)
    assert line(page, "gpt-4.1")["list_cost"] == usd("0.80", lower_bound=True)
    assert line(page, "gpt-4.1")["attempts_partial"] == 1
    assert line(page, "who-knows")["list_cost"] is None
    assert line(page, "gpt-4o-mini")["input_tokens"] is None
    assert line(page, "gpt-4o-mini")["possibly_billed"] == usd("0.70")
    assert page.table("lines").total_of("list_cost") == usd("0.80", lower_bound=True)
    assert footer(page)["rows_unpriced"] == 3
    assert "warning: gpt-4o was asked for and who-knows answered, priced as what answered; attempts: 1" in notes(page)
    assert "warning: a cost marked ≥ is a lower bound, because a price or a usage is unknown; attempts: 3" in notes(
        page
    )
    possibly = [note for note in notes(page) if "attempts: 1; 0.70 USD was reserved" in note]
    assert len(possibly) == 1


def test_an_attempt_in_flight_is_counted_and_possibly_billed(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=DAY, usage=MEBI),
        Scene(at=DAY, status="started", reserved_usd=Decimal("0.25")),
    )
    total = report(ledger, catalog, fx).table("lines")
    assert total.total_of("attempts") == 2
    assert total.total_of("possibly_billed") == usd("0.25")
    assert total.total_of("list_cost") == usd("2.80", lower_bound=True)
    assert total.total_of("success_share") == 1  # of those that have ended


def test_a_refused_attempt_is_a_row_but_costs_nothing(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=DAY, status="failed", latency_us=3000),
        Scene(at=DAY, usage=MEBI, number=2),
    )
    page = report(ledger, catalog, fx)
    total = page.table("lines")
    assert (total.total_of("attempts"), total.total_of("calls")) == (2, 1)
    assert total.total_of("success_share") == Fraction(1, 2)
    assert total.total_of("list_cost") == usd("2.80")  # whole: no lower bound
    assert footer(page)["rows_unpriced"] == 0
    assert "note: failed before they were served, with no usage and nothing to pay; attempts: 1" in notes(page)


def test_where_the_time_went(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    times = [(100, 2, 40, 58, 1), (200, 4, 60, 136, 3), (900, 0, 80, 818, 2)]
    write(
        ledger,
        catalog,
        *(
            Scene(
                at=DAY,
                usage=MEBI,
                latency_us=latency * 1000,
                queue_us=queue * 1000,
                network_us=network * 1000,
                inference_us=inference * 1000,
                state_us=state * 1000,
            )
            for latency, queue, network, inference, state in times
        ),
        Scene(at=DAY, status="failed", latency_us=3_000, queue_us=9_000_000),  # not answered: in no time
    )
    page = report(ledger, catalog, fx)
    found = line(page, "gpt-4.1")
    assert (found["queue_ms"], found["network_ms"], found["state_ms"]) == (2, 60, 2)
    assert found["inference_ms"] == Fraction(58 + 136 + 818, 3)
    p50, p95 = found["p50_ms"], found["p95_ms"]
    assert isinstance(p50, Fraction)
    assert isinstance(p95, Fraction)
    assert abs(p50 - 200) <= 10  # 5 %
    assert abs(p95 - 900) <= 45
    assert "note: percentiles are read from a histogram: each is within 5.0 % of the exact one" in notes(page)


def test_a_time_that_was_not_measured_is_unknown(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI))
    found = line(report(ledger, catalog, fx), "gpt-4.1")
    assert (found["queue_ms"], found["network_ms"], found["inference_ms"], found["state_ms"]) == (0, None, None, None)


def test_what_the_upstream_stated_stands_beside_what_was_computed(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI, reported_usd=Decimal("2.75")), Scene(at=DAY, usage=MEBI))
    page = report(ledger, catalog, fx)
    assert line(page, "gpt-4.1")["reported_cost"] == usd("2.75")
    assert line(page, "gpt-4.1")["attempts_reported"] == 1
    assert line(page, "gpt-4.1")["list_cost"] == usd("5.60")


def test_estimates_and_retired_models_are_said(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI, estimated=True), Scene(at=DAY, usage=MEBI, model="kimi-k2"))
    page = report(ledger, catalog, fx)
    assert footer(page)["estimates"] == 1
    assert footer(page)["attempts_estimated"] == 1
    assert "warning: kimi-k2 left its price list on 2026-05-25 and is priced at its last list; attempts: 1" in notes(
        page
    )


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("model", ["gpt-4.1"]),
        ("role", ["worker", None]),
        ("class", ["math", None]),
        ("configuration", ["hybrid", None]),
        ("tenant", ["acme", None]),
        ("day", ["2026-10-14", "2026-10-15"]),
    ],
)
def test_every_grouping(ledger: Ledger, catalog: Catalog, fx: FxTable, by: str, labels: list[str | None]) -> None:
    late = DAY.replace(hour=23, minute=45)
    write(
        ledger,
        catalog,
        Scene(at=DAY, usage=MEBI, role="worker", task_class="math", configuration="hybrid", tenant="acme"),
        Scene(at=late, usage=Usage(plain_output_tokens=1), role=None, configuration=None),
    )
    page = report(ledger, catalog, fx, by=by, zone="Europe/London" if by == "day" else "UTC")  # +1:00 in October
    assert [row[0] for row in page.table("lines").rows] == labels


def test_a_running_month_is_reported_and_says_so(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI))
    page = report(ledger, catalog, fx, month=None, now=DAY + timedelta(hours=1))
    assert "note: the month is still running: figures up to 2026-10-14 10:30" in notes(page)


@pytest.mark.parametrize("month", ["2026-09", "this"])
def test_a_month_without_rows_names_those_that_have_some(
    ledger: Ledger, catalog: Catalog, fx: FxTable, month: str
) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI))
    with pytest.raises(RouterError, match=r"month: the ledger has no rows in .*; it has rows in 2026-10") as caught:
        report(ledger, catalog, fx, month=month)
    assert caught.value.exit_code == 1


def test_a_month_in_the_future_says_so(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=MEBI))
    said = r"month: 2030-01 \(UTC\) is in the future, and the ledger has no rows in it; it has rows in 2026-10"
    with pytest.raises(RouterError, match=said):
        report(ledger, catalog, fx, month="2030-01")


def test_an_unknown_group_names_near_ones(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    with pytest.raises(WrongUsage, match="group: 'modle' does not exist; did you mean model"):
        report(ledger, catalog, fx, by="modle")


def test_a_published_trace_costs_what_it_does_by_hand(
    shared: Path, ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    # 144,793,823 input tokens at 2.00 and 4,122,048 output tokens at 8.00 USD per Mtok: 289.587646 + 32.976384
    file = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    import_trace(ledger, file, model="gpt-4.1", start=datetime(2026, 10, 1, tzinfo=UTC), catalog=catalog)
    page = report(ledger, catalog, fx)
    assert page.table("lines").total_of("list_cost") == usd("322.564030")
    (stored,) = ledger.reader.usage_groups(*month_bounds("2026-10", time_zone("UTC")))
    assert join_amount(stored.sums["cost_micro"], stored.sums["cost_pico"]) == Decimal("322.564030")
    assert "note: imported from a record of another system; attempts: 12,031" in notes(page)
    # A trace does not say how a request ended: it is neither a success nor a failure.
    assert page.table("lines").total_of("success_share") is None
    assert any("imported ones say nothing" in note for note in notes(page))
