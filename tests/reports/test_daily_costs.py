"""A month under two configurations, day by day, by hand; what `router compare` says of the same month is the sum."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from pricing import Catalog, FxTable, Terms, Usage
from reports import Basis, Exchange, Split, configurations_named, named_month, reprice, time_zone, work_of_month
from reports.daily_costs import DailyCosts, daily_costs
from reports.render.sections import fill
from reports.roi_drawn import drawn_of_month
from router.errors import RouterError
from router.ledger import Ledger
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from tests.reports.scenes import Scene, write

NOW = datetime(2026, 11, 30, tzinfo=UTC)
OCTOBER = named_month("2026-10", time_zone("UTC"), NOW)
NAMES = ("all-gpt-4.1", "hybrid-flash")
# all-gpt-4.1: 2.00 + 8.00; hybrid-flash: 0.60 + 2.50 for the orchestrator, 0.30 + 2.50 for the worker
MILLION = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000)
OLD, PLANNING, WORKING = Fraction(10), Fraction("3.1"), Fraction("2.8")


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 10, day, hour, tzinfo=UTC)


def basis(catalog: Catalog) -> Basis:
    return Basis(catalog, "vendor", None, Terms(), Exchange(FxTable(()), "USD"))


def of_month(
    ledger: Ledger,
    catalog: Catalog,
    *,
    zone: str = "UTC",
    now: datetime = NOW,
    month: str = "2026-10",
    split: Split | None = None,
    plain_baseline: bool = False,
) -> DailyCosts:
    settings = Settings(configurations=dict(BUILT_IN_CONFIGURATIONS))
    one, other = configurations_named(NAMES, settings, catalog).items()
    return daily_costs(
        ledger.reader,
        named_month(month, time_zone(zone), now),
        now,
        baseline=one,
        configuration=other,
        basis=basis(catalog),
        split=split,
        plain_baseline=plain_baseline,
    )


@pytest.fixture
def october(ledger: Ledger, catalog: Catalog) -> Ledger:
    """Two days: a plan with a worker that failed once; then a worker alone, twice as large."""
    write(
        ledger,
        catalog,
        Scene(at=at(1), usage=MILLION, role="orchestrator"),
        Scene(at=at(1), usage=MILLION, role="worker", status="failed"),
        Scene(at=at(1), usage=MILLION, role="worker", number=2),
        Scene(at=at(2), usage=MILLION, role="worker"),
        Scene(at=at(2), usage=MILLION, role="worker"),
        Scene(at=at(2), status="timed_out", possibly_billed=True, reserved_usd=Decimal(1)),
    )
    return ledger


def test_a_month_by_hand(october: Ledger, catalog: Catalog) -> None:
    found = of_month(october, catalog)
    assert len(found.days) == found.days_in_month == 31
    assert found.baseline == (3 * OLD, 2 * OLD, *[0] * 29)
    assert found.configuration == (PLANNING + 2 * WORKING, 2 * WORKING, *[0] * 29)
    assert found.monthly == (5 * OLD, PLANNING + 4 * WORKING)
    parts = {part.name: [part.attempts, part.baseline, part.configuration] for part in found.parts}
    assert parts == {
        "orchestrator": [1, OLD, PLANNING],
        "worker": [3, 3 * OLD, 3 * WORKING],
        "failed": [1, OLD, WORKING],
    }
    assert (found.records, found.calls, found.usage_unknown) == (6, 5, 1)
    assert dict(found.ran) == {"all-gpt-4.1": 6}


def test_it_is_what_compare_says(october: Ledger, catalog: Catalog) -> None:
    work = work_of_month(
        october.reader, OCTOBER, split=None, catalog=catalog, price_list="vendor", exchange=basis(catalog).exchange
    )
    named = configurations_named(NAMES, Settings(configurations=dict(BUILT_IN_CONFIGURATIONS)), catalog)
    totals = [reprice(name, rule, work.portions, basis(catalog)).total for name, rule in named.items()]
    assert [None if total is None else total.value for total in totals] == list(of_month(october, catalog).monthly)


def test_a_baseline_without_plans_pays_for_none(october: Ledger, catalog: Catalog) -> None:
    assert of_month(october, catalog, plain_baseline=True).monthly == (4 * OLD, PLANNING + 4 * WORKING)


def test_calls_without_a_role_are_split(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=at(1), usage=MILLION, role=None))
    assert of_month(ledger, catalog).monthly == (OLD, PLANNING)
    assert of_month(ledger, catalog, split=Split(1, 3)).monthly == (OLD, PLANNING / 4 + WORKING * 3 / 4)


def test_days_are_those_of_the_time_zone(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=at(1, 14), usage=MILLION), Scene(at=at(1, 16), usage=MILLION))
    tokyo = of_month(ledger, catalog, zone="Asia/Tokyo")  # 23:00 of the 1st, 1:00 of the 2nd
    assert list(tokyo.baseline[:3]) == [OLD, OLD, 0]
    kathmandu = of_month(ledger, catalog, zone="Asia/Kathmandu")  # 19:45, 21:45
    assert list(kathmandu.baseline[:2]) == [2 * OLD, 0]


def test_of_a_running_month_the_whole_days_are_taken(october: Ledger, catalog: Catalog) -> None:
    write(october, catalog, Scene(at=at(5, 1), usage=MILLION, role="worker"))
    found = of_month(october, catalog, now=at(5, 2))
    assert len(found.days) == 4  # today's call is in none of them
    assert found.monthly[0] == 5 * OLD * Fraction(31, 4)
    with pytest.raises(RouterError, match=r"month: no day of 2026-10 \(UTC\) is over yet"):
        of_month(october, catalog, now=at(1, 2))


def test_an_interval_holds_the_savings_and_is_the_same_each_time(ledger: Ledger, catalog: Catalog) -> None:
    scenes = [Scene(at=at(1) + timedelta(days=day), usage=MILLION, role="worker") for day in range(31) if day % 7 < 5]
    write(ledger, catalog, *scenes)
    found = of_month(ledger, catalog)
    saved = found.monthly[0] - found.monthly[1]
    assert saved == len(scenes) * (OLD - WORKING)
    inner, outer = (found.savings_interval(Fraction(level, 100)) for level in (80, 95))
    assert inner is not None
    assert outer is not None
    assert outer[0] < inner[0] < saved < inner[1] < outer[1]
    assert of_month(ledger, catalog).savings_interval(Fraction(80, 100)) == inner
    # A day saves 7.2 or nothing; of 31 days drawn, 23 in 31 save: the spread of a binomial, 7.2 × √(31 × p × (1 − p))
    share = len(scenes) / 31
    spread = 7.2 * (31 * share * (1 - share)) ** 0.5
    assert float(inner[1] - inner[0]) == pytest.approx(2 * 1.2816 * spread, rel=0.25)


def test_less_than_a_week_has_no_interval(october: Ledger, catalog: Catalog) -> None:
    found = of_month(october, catalog, now=at(7, 2))
    assert found.savings_interval(Fraction(80, 100)) is None
    drawn = drawn_of_month(found, OCTOBER, NAMES, basis(catalog))
    said = [f"{note.kind}: {fill(note)}" for note in drawn.notes]
    assert "note: fewer than seven whole days: there is no interval" in said
    assert "warning: the month is not over: its 6 whole days are taken for all 31 days" in said
    assert "note: no call ran under hybrid-flash: the same tokens are priced at it" in said
    # 10.00 of 31/6 months
    assert any("a baseline that needs no plans costs 51.6667 USD a month less" in text for text in said)
    assert "warning: without known usage, and so in neither cost; attempts: 1" in said


def test_a_month_without_rows(ledger: Ledger, catalog: Catalog) -> None:
    with pytest.raises(RouterError, match="no rows in 2026-10"):
        of_month(ledger, catalog)
