"""Unusual days: medians and deviations worked out by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from pricing import Catalog, FxTable, Usage
from reports import Money, month_report
from reports.anomalies import DayTotals, Driver, unusual_days
from router.ledger import Ledger
from tests.reports.scenes import Scene, write

FIRST = date(2026, 9, 7)  # a Monday
DAY = date(2026, 10, 12)  # the sixth one


def totals(*mondays: int, calls: tuple[int, ...] = (), tenant_b: tuple[int, ...] = ()) -> DayTotals:
    """Return spend of consecutive Mondays, one call a unit unless said; other days cost 10."""
    days = [FIRST + timedelta(days=at) for at in range(7 * len(mondays) - 6)]
    spend = {day: Fraction(mondays[at // 7] if at % 7 == 0 else 10) for at, day in enumerate(days)}
    number = {day: int(spend[day]) for day in days}
    number.update(zip(days[::7], calls, strict=False))
    of_b = dict(zip(days[::7], map(Fraction, tenant_b), strict=False))
    of_a = {day: spend[day] - of_b.get(day, 0) for day in days}
    return DayTotals(spend, number, {"tenant": {"a": of_a, "b": of_b}})


def test_a_day_is_held_against_the_median_of_its_weekday() -> None:
    # Median of 9, 10, 10, 11, 12 is 10; deviations 1, 0, 0, 1, 2 have the median 1, so a spread is 1.4826.
    for spend, is_unusual in ((15, False), (16, True), (5, False), (4, True)):
        found = unusual_days(totals(9, 10, 10, 11, 12, spend), [DAY], FIRST)
        assert bool(found) is is_unusual
        if found:
            assert found[0].usual == 10
            assert found[0].spreads == (spend - 10) / Fraction(14826, 10_000)


def test_four_earlier_days_are_needed() -> None:
    found = totals(10, 10, 10, 100)
    assert unusual_days(found, [date(2026, 9, 28)], FIRST) == ()
    assert unusual_days(totals(10, 10, 10, 10, 100), [date(2026, 10, 5)], FIRST)


def test_days_that_never_differ_are_not_unusual_for_cents() -> None:
    # The deviation is 0; the spread is 5 % of 10, so that more than 1.75 is needed.
    assert unusual_days(totals(10, 10, 10, 10, 10, 11), [DAY], FIRST) == ()
    assert unusual_days(totals(10, 10, 10, 10, 10, 12), [DAY], FIRST)[0].spreads == 4


def test_a_later_day_says_nothing() -> None:
    assert unusual_days(totals(10, 10, 10, 10, 10, 10, 99), [DAY], FIRST) == ()


def test_the_driver_is_the_member_that_moved_most_and_the_cause_what_moved() -> None:
    found = totals(10, 10, 10, 10, 10, 40, tenant_b=(2, 2, 2, 2, 2, 27))
    (anomaly,) = unusual_days(found, [DAY], FIRST)
    assert anomaly.drivers == (Driver("tenant", "b", Fraction(25)),)  # a moved from 8 to 13
    assert anomaly.cause == "volume"  # 40 calls at 1 each
    (anomaly,) = unusual_days(totals(10, 10, 10, 10, 10, 40, calls=(10,) * 6), [DAY], FIRST)
    assert anomaly.cause == "cost per call"  # 10 calls at 4 each
    fall = totals(10, 10, 10, 10, 10, 1, tenant_b=(2, 2, 2, 2, 2, 1))
    assert unusual_days(fall, [DAY], FIRST)[0].drivers[0].member == "a"  # from 8 to 0, b from 2 to 1


def test_a_month_page_names_the_day_and_what_drove_it(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    usage = Usage(uncached_input_tokens=1_000_000)  # 2.00 USD at gpt-4.1
    mondays = [datetime(2026, 9, 7, 12, tzinfo=UTC) + timedelta(weeks=week) for week in range(6)]
    late = mondays[5]
    write(
        ledger,
        catalog,
        *(Scene(at=at, usage=usage, tenant="a", task_class="math") for at in mondays),
        *(Scene(at=late + timedelta(minutes=at), usage=usage, tenant="b", task_class="math") for at in range(9)),
    )
    page = month_report(
        ledger.reader,
        month="2026-10",
        by="model",
        currency="USD",
        time_zone_name="Asia/Kolkata",
        fx=fx,
        catalog=catalog,
        now=late + timedelta(days=2),
    )
    table = page.table("anomalies")
    assert table.column("day") == ("2026-10-12",)
    (row,) = (dict(zip([column.key for column in table.columns], row, strict=True)) for row in table.rows)
    assert row["weekday"] == "Mon"
    assert (row["settled_cost"], row["usual_cost"]) == (Money(Fraction(20), "USD"), Money(Fraction(2), "USD"))
    assert (row["driver_tenant"], row["moved_tenant"]) == ("b", Money(Fraction(18), "USD"))
    assert (row["driver_model"], row["driver_class"], row["cause"]) == ("gpt-4.1", "math", "volume")
