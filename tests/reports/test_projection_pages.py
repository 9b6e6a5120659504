"""From a ledger's attempts to a projection and a back-test: sums by hand, golden pages, the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pricing import Catalog, FxRate, FxTable, Usage
from pricing.terms import Terms
from reports import Exchange, Page, month_bounds, named_month, time_zone
from reports.page import Money
from reports.projection import Projected, backtest_report, daily_series, projection_of
from reports.render import render
from router.cli import main
from router.errors import RouterError
from router.ledger import Ledger, open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

UTC_ZONE = time_zone("UTC")
NOW = datetime(2026, 6, 11, 12, 0, tzinfo=UTC)  # a Thursday


def _usd(value: str) -> Usage:
    """Return usage that costs so much at gpt-4.1's 2 USD per Mtok of input."""
    return Usage(uncached_input_tokens=int(Decimal(value) * 500_000))


def _daily(days: int, now: datetime) -> Iterator[Scene]:
    """Yield one attempt a day at noon: 10 USD on working days, 2 at week-ends, and 4 so far on the last day."""
    for back in range(days, 0, -1):
        at = now - timedelta(back)
        yield Scene(at=at, usage=_usd("2" if at.weekday() >= 5 else "10"))
    yield Scene(at=now, usage=_usd("4"))


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, catalog: Catalog) -> Iterator[Ledger]:
    """Return a ledger with 150 days behind it, to be read alone."""
    with open_ledger(new_ledger(tmp_path_factory.mktemp("used") / "ledger.db")) as opened:
        write(opened, catalog, *_daily(150, NOW))
        yield opened


def _projected(ledger: Ledger, fx: FxTable, **options: object) -> Projected:
    month = named_month("this", UTC_ZONE, NOW)
    return projection_of(ledger.reader, month, Exchange(fx, "USD"), NOW + timedelta(hours=1), **options)  # type: ignore[arg-type]


def test_days_are_the_zones_own_and_today_stands_apart(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=datetime(2026, 6, 8, 14, 59, tzinfo=UTC), usage=_usd("1")),  # 8 June, 23:59 in Tokyo
        Scene(at=datetime(2026, 6, 8, 15, 0, tzinfo=UTC), usage=_usd("2")),  # 9 June there
        Scene(at=datetime(2026, 6, 8, 16, 0, tzinfo=UTC), usage=_usd("4"), number=2),  # a retry is no call
        Scene(at=datetime(2026, 6, 10, 23, 0, tzinfo=UTC), usage=_usd("8")),  # 11 June there, as is now
        Scene(at=datetime(2026, 6, 10, 1, 0, tzinfo=UTC), usage=_usd("16"), configuration="hybrid"),
    )
    zone = time_zone("Asia/Tokyo")
    month = named_month("this", zone, NOW)
    exchange = Exchange(fx, "USD")

    found = daily_series(ledger.reader, month, exchange, NOW)
    assert (found.first, found.today) == (date(2026, 6, 8), date(2026, 6, 11))
    assert found.spend == (Fraction(1), Fraction(6), Fraction(16))
    assert found.calls == (1, 1, 1)
    assert found.today_calls == 1
    assert found.today_spend == 8
    assert found.spent(date(2026, 6, 9), date(2026, 6, 30)) == 6 + 16 + 8

    part = daily_series(ledger.reader, month, exchange, NOW, where={"configuration": "hybrid"})
    assert (part.first, part.spend, part.today_spend) == (date(2026, 6, 10), (Fraction(16),), Fraction(0))
    model = daily_series(ledger.reader, month, exchange, NOW, where={"model": "gpt-4.1"})
    assert model == found

    write(ledger, catalog, Scene(at=datetime(2026, 6, 9, 1, tzinfo=UTC), usage=_usd("1"), model="nobody-prices-this"))
    write(ledger, catalog, Scene(at=datetime(2026, 6, 9, 1, tzinfo=UTC), status="failed"))  # refused: nothing to pay
    found = daily_series(ledger.reader, month, exchange, NOW)
    assert found.unpriced == 1
    assert sum(found.spend) == 23

    over = daily_series(ledger.reader, month, exchange, NOW + timedelta(days=60))
    assert over.today == date(2026, 7, 1)
    assert sum(over.spend) == 31


def test_a_past_without_a_rate_is_left_out_and_a_month_without_one_is_not(ledger: Ledger, catalog: Catalog) -> None:
    yuan = Terms(settlement_currency="CNY", settlement_rate=Decimal(7))
    days = (datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 6, 2, 12, tzinfo=UTC))
    write(ledger, catalog, *(Scene(at=day, usage=_usd("1"), terms=yuan) for day in days))
    month = named_month("this", UTC_ZONE, NOW)
    rate = FxRate("by-hand:CNY", "CNY", "USD", Decimal("0.14"), date(2026, 6, 2), "by hand")

    found = daily_series(ledger.reader, month, Exchange(FxTable([rate]), "USD"), NOW)
    assert (found.first, sum(found.spend)) == (date(2026, 6, 2), Fraction(98, 100))
    with pytest.raises(Exception, match="CNY"):
        daily_series(ledger.reader, month, Exchange(FxTable([]), "USD"), NOW)


def test_a_running_month_is_projected(
    used: Ledger, fx: FxTable, golden: Callable[[Path, str], None], golden_folder: Path
) -> None:
    found = _projected(used, fx)
    months = found.tables[0]

    # June 2026: 8 working days and 2 of a week-end are over (92 USD), and 4 USD of today.
    assert months.column("to_date")[0] == Money(Fraction(8 * 10 + 2 * 2 + 4), "USD")
    (expected, *_) = months.column("expected")
    assert isinstance(expected, Money)
    assert float(expected.value) == pytest.approx(22 * 10 + 8 * 2, rel=0.001)
    assert months.column("month") == ("2026-06", "2026-07", "2026-08", "2026-09")
    (chart,) = found.charts
    assert set(chart.y) < {column.key for column in found.tables[1].columns}
    assert len(found.tables[1].rows) == 30
    page = Page("month", "Projection", (), found.tables, found.notes, (), found.charts)
    golden(golden_folder / "projection.txt", render(page, "text", width=110, color=False))


def test_growth_is_of_each_later_month(used: Ledger, fx: FxTable) -> None:
    plain, grown = (_projected(used, fx, growth=growth).tables[0] for growth in (Fraction(0), Fraction(5, 100)))

    for key in ("expected", "low_80", "high_95"):
        pairs = zip(plain.column(key), grown.column(key), strict=True)
        factors = [float(theirs.value / mine.value) for mine, theirs in pairs]  # type: ignore[union-attr]
        assert factors == pytest.approx([1, 1.05, 1.1025, 1.157625], rel=1e-4)  # amounts are rounded at the cent


def test_a_month_that_is_over_is_not_projected(used: Ledger, fx: FxTable) -> None:
    month = named_month("2026-05", UTC_ZONE, NOW)

    assert projection_of(used.reader, month, Exchange(fx, "USD"), NOW) == Projected()


def test_a_young_ledger_has_no_interval_and_says_so(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, *_daily(10, NOW))
    found = _projected(ledger, fx)

    assert found.tables[0].column("low_80")[0] is None
    assert found.tables[0].column("expected")[0] == Money(Fraction(84) + 20 * Fraction(84, 10), "USD")
    assert [table.name for table in found.tables] == ["projected_months", "projection"]
    assert "10 whole days of history" in str(found.notes[0].values["reason"][0])


def test_past_months_are_told_from_what_was_known_then(
    used: Ledger, fx: FxTable, golden: Callable[[Path, str], None], golden_folder: Path
) -> None:
    page = backtest_report(used.reader, Exchange(fx, "USD"), UTC_ZONE, NOW)
    summary, each = page.tables

    # The first day is 12 January: February to May are whole, and 5 February has 24 days before it.
    assert each.column("forecast")[:3] == ("2026-02, 5", "2026-02, 10", "2026-02, 17")
    assert summary.column("days_passed") == ("5", "10", "17")
    assert summary.column("forecasts") == (4, 4, 4)
    # February: 20 working days and 8 of week-ends, 216 USD. Sunday 1 to Thursday 5: 42 USD, at run-rate 42/5 × 28.
    assert each.column("actual")[0] == Money(Fraction(216), "USD")
    assert each.column("run_rate_error")[0] == Fraction(42, 5) * 28 / 216 - 1
    golden(golden_folder / "backtest.txt", render(page, "text", width=110, color=False))


def test_a_ledger_too_young_for_a_backtest_says_what_it_needs(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    for days, known in ((0, "no whole day"), (15, "5 whole days from 2026-05-27")):
        if days:
            write(ledger, catalog, *_daily(days, NOW))
        with pytest.raises(RouterError, match=f"history before this month is too short \\({known}\\)") as found:
            backtest_report(ledger.reader, Exchange(fx, "USD"), UTC_ZONE, NOW)
        assert found.value.hint
    assert month_bounds("2026-06", UTC_ZONE)[0]


def test_the_command_prints_it_and_explains_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], catalog: Catalog
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)

    with pytest.raises(SystemExit) as ended:
        main(("backtest",))
    assert ended.value.code == 1
    assert "error: backtest: the history before this month is too short (no whole day)" in capsys.readouterr().err

    noon = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with open_ledger(url) as opened:
        write(opened, catalog, *_daily(85, noon))
    with pytest.raises(SystemExit) as ended:
        main(("backtest", "--months", "1", "--format", "json"))
    assert ended.value.code == 0
    page = json.loads(capsys.readouterr().out)
    assert page["tables"]["backtest"]["total"]["forecasts"] == 3
    assert page["tables"]["forecasts"]["rows"][0]["method"] == "state_space"
