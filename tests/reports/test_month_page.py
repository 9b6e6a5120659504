"""What stands on a month's page beside its lines: figures worked out by hand from the attempts that were written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pricing import Catalog, FxTable, Terms, Usage, operator_rate
from reports import Money, Page, Period, month_report, time_zone
from reports.month_groups import BY
from reports.month_prices import PriceBasis, price_basis
from reports.month_times import stage_times
from reports.period import days_between, last_days, named_month, to_us
from reports.render.sections import fill
from router.errors import WrongUsage
from router.ledger import Ledger, new_id
from router.ledger.records import Amount, Import, RunEnded, RunStarted, UsageBucket
from tests.reports.scenes import Scene, write

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OCTOBER = datetime(2026, 10, 14, 9, 30, tzinfo=UTC)
SEPTEMBER = datetime(2026, 9, 14, 9, 30, tzinfo=UTC)
MEBI = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # at gpt-4.1's 2 and 8: 2.00 + 0.80 USD
HALF = Usage(
    uncached_input_tokens=600_000, cache_read_tokens=400_000, plain_output_tokens=100_000
)  # 1.20 + 0.20 + 0.80


def page_of(
    ledger: Ledger,
    catalog: Catalog,
    fx: FxTable,
    month: str | Period | None = "2026-10",
    *,
    by: str = "model",
    zone: str = "UTC",
    now: datetime = NOW,
    **more: Any,
) -> Page:
    currency = more.pop("currency", "USD")
    return month_report(
        ledger.reader,
        month=month,
        by=by,
        currency=currency,
        time_zone_name=zone,
        fx=fx,
        catalog=catalog,
        now=now,
        **more,
    )


def rows(page: Page, table: str) -> list[dict[str, Any]]:
    found = page.table(table)
    return [{column.key: cell for column, cell in zip(found.columns, row, strict=True)} for row in found.rows]


def by_key(page: Page, table: str, key: str = "key") -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in rows(page, table)}


def usd(amount: str | Fraction, *, lower_bound: bool = False) -> Money:
    return Money(Fraction(amount), "USD", lower_bound)


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def names(page: Page) -> list[str]:
    return [table.name for table in page.tables]


def run(ledger: Ledger, at: datetime, *, succeeded: bool = True) -> str:
    run_id, at_us = new_id(), round(at.timestamp()) * 10**6
    ledger.write_now(RunStarted(run_id=run_id, configuration="hybrid", policy_version="1", started_us=at_us))
    ledger.write_now(RunEnded(run_id, "succeeded" if succeeded else "failed", at_us + 1))
    return run_id


def test_a_month_stands_beside_the_one_before(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    runs = [run(ledger, OCTOBER), run(ledger, OCTOBER), run(ledger, OCTOBER, succeeded=False), run(ledger, SEPTEMBER)]
    scenes = [Scene(at=OCTOBER, usage=MEBI, run_id=runs[at], latency_us=2_000_000) for at in range(3)]
    write(ledger, catalog, *scenes, Scene(at=SEPTEMBER, usage=HALF, run_id=runs[3]))
    page = page_of(ledger, catalog, fx)
    costs = by_key(page, "summary")
    # October: 3 × 2.80 = 8.40 over 3 tasks, 2 of them successful; September: 2.20 over one.
    settled = costs["settled_cost"]
    assert (settled["this_period"], settled["period_before"]) == (usd("8.40"), usd("2.20"))
    assert settled["change"] == (Fraction("8.40") - Fraction("2.20")) / Fraction("2.20")
    assert (costs["cost_per_task"]["this_period"], costs["cost_per_task"]["period_before"]) == (
        usd("2.80"),
        usd("2.20"),
    )
    assert costs["cost_per_successful_task"]["this_period"] == usd("4.20")
    volume, shares = by_key(page, "summary_volume"), by_key(page, "summary_shares")
    assert (volume["tasks"]["this_period"], volume["successful_tasks"]["this_period"]) == (3, 2)
    assert volume["input_tokens"]["change"] == 2  # 3,000,000 over 1,000,000
    assert shares["cache_hit_share"]["change_points"] == Fraction(-4, 10)
    assert shares["task_success_share"]["this_period"] == Fraction(2, 3)
    assert page.table("summary").columns[3].title == "2026-09"


def test_a_running_month_is_compared_with_the_same_days_of_the_one_before(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    late = SEPTEMBER + timedelta(hours=2)
    write(ledger, catalog, *(Scene(at=at, usage=MEBI) for at in (OCTOBER, SEPTEMBER, late)))
    page = page_of(ledger, catalog, fx, None, now=OCTOBER + timedelta(hours=1))
    assert by_key(page, "summary")["settled_cost"]["period_before"] == usd("2.80")  # the later call is not in it
    said = (
        "note: a month that is running is compared with the same days of the one before: 2026-09-01 to 2026-09-14 10:30"
    )
    assert said in notes(page)


def test_without_a_month_before_there_is_no_change(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI))
    page = page_of(ledger, catalog, fx)
    settled = by_key(page, "summary")["settled_cost"]
    assert (settled["period_before"], settled["change"]) == (None, None)
    assert "note: nothing is on record in 2026-09, the period before" in notes(page)


def test_a_month_before_that_cannot_be_converted_leaves_this_one_whole(ledger: Ledger, catalog: Catalog) -> None:
    fx = FxTable(operator=[operator_rate("USD", "JPY", Decimal(150), date(2026, 10, 1))])
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=SEPTEMBER, usage=MEBI))
    page = page_of(ledger, catalog, fx, currency="JPY")
    assert page.table("lines").total_of("settled_cost") == Money(Fraction(420), "JPY")
    assert by_key(page, "summary")["settled_cost"]["period_before"] is None
    assert any("2026-09, the period before, is not shown: " in note for note in notes(page))


def test_tokens_by_kind(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    usage = Usage(
        uncached_input_tokens=50,
        cache_read_tokens=30,
        cache_write_5m_tokens=20,
        plain_output_tokens=6,
        reasoning_tokens=2,
    )
    write(ledger, catalog, Scene(at=OCTOBER, usage=usage))
    found = {row["bucket"]: (row["tokens"], row["share"]) for row in rows(page_of(ledger, catalog, fx), "tokens")}
    assert found == {
        "uncached_input_tokens": (50, Fraction(1, 2)),
        "cache_read_tokens": (30, Fraction(3, 10)),
        "cache_write_5m_tokens": (20, Fraction(1, 5)),
        "plain_output_tokens": (6, Fraction(3, 4)),
        "reasoning_tokens": (2, Fraction(1, 4)),
    }


def test_overhead_is_shown_apart_and_shared_out_to_tenants(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    worker, plan = Scene(at=OCTOBER, usage=MEBI, role="worker"), Scene(at=OCTOBER, usage=MEBI, role="orchestrator")
    write(
        ledger,
        catalog,
        *(replace(worker, tenant=tenant) for tenant in ("a", "a", "a", "b")),  # own work: 8.40 and 2.80
        replace(plan, tenant="b"),
        plan,  # 2.80 of nobody: 3/4 to a, 1/4 to b
    )
    page = page_of(ledger, catalog, fx)
    kinds = by_key(page, "overhead", "kind")
    assert kinds["The work itself"]["settled_cost"] == usd("11.20")
    assert kinds["Orchestrator"]["settled_cost"] == usd("5.60")
    assert kinds["Orchestrator"]["cost_share"] == Fraction(1, 3)
    tenants = by_key(page, "tenants", "tenant")
    assert (tenants["a"]["work"], tenants["a"]["shared_out"], tenants["a"]["settled_cost"]) == (
        usd("8.4"),
        usd("2.1"),
        usd("10.5"),
    )
    assert (tenants["b"]["orchestrator"], tenants["b"]["shared_out"]) == (usd("2.8"), usd("0.7"))
    assert page.table("tenants").total_of("settled_cost") == page.table("lines").total_of("settled_cost") == usd("16.8")


def test_retries_are_counted_and_cost_what_second_attempts_did(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER, usage=HALF, number=2))
    page = page_of(ledger, catalog, fx)
    kinds = by_key(page, "overhead", "kind")
    assert kinds["Retries"]["attempts"] == 1
    assert kinds["Retries"]["settled_cost"] == usd("2.20")
    assert kinds["The work itself"]["settled_cost"] == usd("2.80")
    assert page.table("overhead").total_of("settled_cost") == usd("5.00")


def test_where_the_time_went_is_a_mean_over_those_that_have_the_measure(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(
        ledger,
        catalog,
        Scene(at=OCTOBER, usage=MEBI, latency_us=1_000_000, inference_us=900_000, ttft_us=200_000, queue_us=10_000),
        Scene(at=OCTOBER, usage=MEBI, latency_us=3_000_000),
    )
    page = page_of(ledger, catalog, fx, by="role")
    stages = by_key(page, "time_spent", "stage")
    assert (stages["Inference"]["mean_ms"], stages["Inference"]["attempts"]) == (900, 1)
    assert (stages["Queue"]["mean_ms"], stages["Queue"]["p50_ms"], stages["Queue"]["p99_ms"]) == (5, 0, 10)
    assert stages["Whole attempt"]["mean_ms"] == 2_000
    assert "Network" not in stages
    (latency,) = rows(page, "latency")
    assert latency["attempts"] == 2
    for share, exact in (("p50_ms", 1_000), ("p95_ms", 3_000), ("ttft_p50_ms", 200)):
        assert abs(latency[share] - exact) <= Fraction(exact, 20)


def test_percentiles_of_stages_are_the_attempts_own(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    timed = [
        Scene(at=OCTOBER, usage=MEBI, queue_us=at * 1_000, state_us=7 if at == 3 else None) for at in range(200, 0, -1)
    ]
    others = [
        Scene(at=OCTOBER, usage=None, status="failed", queue_us=10**9),
        Scene(at=datetime(2026, 9, 30, tzinfo=UTC), usage=MEBI, queue_us=10**9),
    ]
    write(ledger, catalog, *timed, *others)
    page = page_of(ledger, catalog, fx)
    stages = by_key(page, "time_spent", "stage")
    # Of 1, 2, … 200 ms the nearest ranks are the 100th, 190th and 198th.
    assert [stages["Queue"][key] for key in ("p50_ms", "p95_ms", "p99_ms", "attempts")] == [100, 190, 198, 200]
    assert [stages["State"][key] for key in ("mean_ms", "p50_ms", "p99_ms", "attempts")] == [Fraction(7, 1000)] * 3 + [
        1
    ]
    assert any("percentiles of stages are exact" in note.text for note in page.notes)


def test_stages_of_many_or_pruned_attempts_have_no_percentiles_and_the_page_says_why(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, *(Scene(at=OCTOBER, usage=MEBI, queue_us=at) for at in (1, 2, 3)))
    period = named_month("2026-10", ZoneInfo("UTC"), OCTOBER)
    sums = {f"{stage}_us_known": 3 * (stage == "queue") for stage in ("queue", "network", "inference", "state")}
    assert stage_times(ledger.reader, period, sums, at_most=3).times["queue"] == (1, 2, 3)
    many = stage_times(ledger.reader, period, sums, at_most=2)
    assert (dict(many.times), [fill(note) for note in many.note]) == (
        {},
        ["percentiles of stages are read from up to 2 single attempts; here are 3, so none is shown"],
    )
    ledger.prune_rows(to_us(OCTOBER + timedelta(days=10)), to_us(OCTOBER + timedelta(days=20)))
    page = page_of(ledger, catalog, fx)
    queue = by_key(page, "time_spent", "stage")["Queue"]
    assert [queue[key] for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")] == [Fraction(2, 1000), None, None, None]
    assert any("some of the {count} were pruned" in note.text for note in page.notes)


def test_each_day_that_has_begun_is_there(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER, usage=HALF, model="gemini-2.5-flash"))
    page = page_of(ledger, catalog, fx, None, now=OCTOBER + timedelta(days=2))
    days = by_key(page, "daily", "day")
    assert list(days) == [f"2026-10-{day:02}" for day in range(1, 17)]
    assert (days["2026-10-13"]["settled_cost"], days["2026-10-13"]["cache_hit_share"]) == (usd("0"), None)
    assert days["2026-10-14"]["cache_hit_share"] == Fraction(400, 2000)
    models = {(row["day"], row["model"]): row["settled_cost"] for row in rows(page, "daily_models")}
    assert models["2026-10-14", "gpt-4.1"] == usd("2.80")
    assert sum(cell.value for cell in models.values()) == page.table("lines").total_of("settled_cost").value  # type: ignore[union-attr]


def test_models_beyond_the_sixth_are_one_series(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    models = catalog.models("openai")[:9]
    write(ledger, catalog, *(Scene(at=OCTOBER, usage=MEBI, model=model) for model in models))
    page = page_of(ledger, catalog, fx)
    series = [row["model"] for row in rows(page, "daily_models") if row["day"] == "2026-10-14"]
    assert len(series) == 7
    assert series[-1] == "other models"
    total = page.table("lines").total_of("settled_cost")
    assert isinstance(total, Money)
    assert sum(row["settled_cost"].value for row in rows(page, "daily_models")) == total.value


def test_the_dearest_runs(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    runs = [run(ledger, OCTOBER) for _ in range(12)]
    scenes = [Scene(at=OCTOBER, usage=MEBI, run_id=run_id) for at, run_id in enumerate(runs) for _ in range(at + 1)]
    write(ledger, catalog, *scenes)
    found = rows(page_of(ledger, catalog, fx), "dearest_runs")
    assert [row["run"] for row in found] == list(reversed(runs))[:10]
    assert [row["attempts"] for row in found[:2]] == [12, 11]
    assert found[0]["settled_cost"] == usd("33.60")  # 12 × 2.80
    assert found[0]["cost_share"] == Fraction(12, 78)


def test_costs_that_are_not_exact_are_listed_with_the_reason(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=OCTOBER, usage=MEBI, price_list="relay"),
        Scene(at=OCTOBER, usage=MEBI, model="gpt-4o", served="who-knows"),
        Scene(at=OCTOBER, usage=None),
        Scene(at=OCTOBER, usage=MEBI, estimated=True),
        Scene(at=OCTOBER, status="timed_out", possibly_billed=True, reserved_usd=Decimal("0.7")),
        Scene(at=OCTOBER, status="started", reserved_usd=Decimal("0.2")),
        Scene(at=OCTOBER, status="failed"),  # refused: costs nothing
        Scene(at=OCTOBER, usage=MEBI),  # exact
    )
    page = page_of(ledger, catalog, fx)
    found = {(row["kind"], row["reason"]): (row["model"], row["rows"]) for row in rows(page, "doubts")}
    assert found == {
        ("unpriced", "a part has no price"): ("gpt-4.1", 1),
        ("unpriced", "no price"): ("who-knows", 1),
        ("unpriced", "no usage on record"): ("gpt-4.1", 1),
        ("estimated", "tokens are estimated"): ("gpt-4.1", 1),
        ("possibly billed", "ended without usage after it was sent"): ("gpt-4.1", 1),
        ("possibly billed", "never ended"): ("gpt-4.1", 1),
    }
    (swap,) = rows(page, "served_otherwise")
    assert (swap["model_asked"], swap["model_served"], swap["attempts"]) == ("gpt-4o", "who-knows", 1)


def test_told_to_wait_and_success_are_of_attempts_whose_outcome_is_on_record(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(
        ledger,
        catalog,
        Scene(at=OCTOBER, status="failed", error_kind="rate_limited", http_status=429),
        *(Scene(at=OCTOBER, usage=MEBI) for _ in range(3)),
    )
    total = page_of(ledger, catalog, fx).table("lines")
    assert (total.total_of("success_share"), total.total_of("rate_limited_share")) == (Fraction(3, 4), Fraction(1, 4))


def bucket(ledger: Ledger, catalog: Catalog, at: datetime, requests: int | None) -> None:
    """Write a day that somebody else has added up: 2.80 USD."""
    start_us = round(at.timestamp()) * 10**6
    import_id = new_id()
    prices = catalog.price_set("gpt-4.1", "vendor", at)
    assert prices is not None
    cost = Amount("USD", Decimal("2.80"))
    ledger.write_now(
        Import(import_id, "openai_usage", "usage.json", "0" * 64, "as recorded", "as recorded", None, 0),
        prices,
        UsageBucket(
            bucket_id=new_id(),
            import_id=import_id,
            start_us=start_us,
            end_us=start_us + 86_400 * 10**6,
            endpoint="openai",
            price_list="vendor",
            model_asked="gpt-4.1",
            cost_status="exact",
            requests=requests,
            usage=MEBI,
            list_cost=cost,
            settled_cost=cost,
            price_set_id=prices.id,
        ),
    )


def test_what_others_added_up_is_in_the_cost_and_in_no_success_or_time(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI, latency_us=1_000_000), Scene(at=OCTOBER, status="failed"))
    bucket(ledger, catalog, datetime(2026, 10, 1, tzinfo=UTC), 500)
    page = page_of(ledger, catalog, fx)
    table = page.table("lines")
    assert table.total_of("settled_cost") == usd("5.60")
    assert (table.total_of("attempts"), table.total_of("requests_added_up")) == (2, 500)
    assert table.total_of("success_share") == Fraction(1, 2)
    assert by_key(page, "summary")["cost_per_call"]["this_period"] == usd(Fraction("5.60") / 502)
    assert any("added up by others" in note and note.endswith("rows: 1") for note in notes(page))
    berlin = page_of(ledger, catalog, fx, zone="Europe/Berlin")
    assert any("cannot be cut at midnight of Europe/Berlin; rows: 1" in note for note in notes(berlin))


def test_added_up_usage_that_does_not_say_how_many_has_no_cost_per_call(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    bucket(ledger, catalog, datetime(2026, 10, 1, tzinfo=UTC), None)
    page = page_of(ledger, catalog, fx)
    assert "cost_per_call" not in by_key(page, "summary")
    assert page.table("lines").total_of("success_share") is None
    assert any("without a number of requests" in note for note in notes(page))


def test_lines_by_tag_provider_endpoint_week_month_and_hour(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=OCTOBER, usage=MEBI, tags={"team": "search", "app": "web"}, endpoint="one"),
        Scene(at=OCTOBER, usage=HALF, tags={"team": "ads"}, price_list="relay", endpoint="two"),
        Scene(at=OCTOBER, usage=HALF, model="claude-sonnet-4.5"),
    )
    labels = {
        by: {row[by] for row in rows(page_of(ledger, catalog, fx, by=by, zone="Asia/Kolkata"), "lines")}
        for by in ("tag:team", "provider", "endpoint", "week", "month", "hour")
    }
    assert labels == {
        "tag:team": {"search", "ads", None},
        "provider": {"openai", "relay", "anthropic"},
        "endpoint": {"one", "two", "here"},
        "week": {"2026-W42"},
        "month": {"2026-10"},
        "hour": {"15:00"},  # 9:30 UTC is 15:00 there, +5:30
    }


def test_an_unknown_group_lists_those_that_exist_and_the_tags_that_occur(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI, tags={"team": "search"}))
    for by in ("modle", "tag:taem"):
        with pytest.raises(WrongUsage, match=f"group: '{by}' does not exist; did you mean") as caught:
            page_of(ledger, catalog, fx, by=by)
        assert caught.value.hint is not None
        assert "tag:team" in caught.value.hint
        assert all(name in caught.value.hint for name in BY)


def test_a_catalogue_that_is_old_is_said(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    at = datetime.combine(catalog.checked + timedelta(days=46), datetime.min.time(), tzinfo=UTC)
    write(ledger, catalog, Scene(at=at, usage=MEBI))
    for days, is_said in ((0, True), (-1, False)):
        page = page_of(
            ledger, catalog, fx, days_between(at.date(), at.date(), time_zone("UTC")), now=at + timedelta(days=days)
        )
        assert any("the price catalogue is of" in note and "46 days before" in note for note in notes(page)) is is_said


def test_other_days_than_a_months(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    days = [datetime(2026, 10, day, 12, tzinfo=UTC) for day in (1, 8, 14, 15)]
    write(ledger, catalog, *(Scene(at=at, usage=MEBI) for at in days))
    week = last_days("7d", time_zone("UTC"), datetime(2026, 10, 14, 13, tzinfo=UTC))
    page = page_of(ledger, catalog, fx, week, now=datetime(2026, 10, 14, 13, tzinfo=UTC))
    assert page.title == "2026-10-08 to 2026-10-14 by model, USD, UTC"
    settled = by_key(page, "summary")["settled_cost"]
    assert (settled["this_period"], settled["period_before"]) == (
        usd("5.60"),
        usd("2.80"),
    )  # 1 to 7 October, until 13:00


def test_compact_has_the_cost_of_the_lines_and_the_total(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER, usage=None))
    whole, page = page_of(ledger, catalog, fx), page_of(ledger, catalog, fx, compact=True)
    assert names(page) == ["lines"]
    assert page.table("lines").total_of("settled_cost") == whole.table("lines").total_of("settled_cost")
    assert {note.kind for note in page.notes} == {"warning"}
    assert page.charts == ()
    assert page.footer == whole.footer


def test_charts_are_of_tables_and_columns_that_exist(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI))
    for by in BY:
        page = page_of(ledger, catalog, fx, by=by)
        assert {"spend_by_day", "cache_share_by_day"} <= {chart.name for chart in page.charts}
        for chart in page.charts:
            keys = {column.key for column in page.table(chart.table).columns}
            assert {chart.x, *chart.y, *((chart.group,) if chart.group else ())} <= keys


def test_at_the_catalogues_prices_of_another_day(ledger: Ledger, catalog: Catalog) -> None:
    # Prices did not change, so that nothing does: 2.80 USD at list is settled at 2.80 CNY, and 2.20 USD at 2.20.
    terms = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    rates = FxTable(operator=[operator_rate("CNY", "USD", Decimal("0.14"), date(2026, 9, 1))])
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI, terms=terms), Scene(at=OCTOBER, usage=HALF), Scene(at=OCTOBER))
    billed = page_of(ledger, catalog, rates)
    for prices in (PriceBasis(None), PriceBasis(OCTOBER)):
        page = page_of(ledger, catalog, rates, prices=prices)
        for key in ("list_cost", "settled_cost", "input_tokens", "attempts_unpriced"):
            assert page.table("lines").total_of(key) == billed.table("lines").total_of(key)
        assert any("not those on record" in note for note in notes(page))
    assert billed.table("lines").total_of("settled_cost") == usd(
        Fraction("2.8") * Fraction("0.14") + Fraction("2.2"), lower_bound=True
    )


def test_what_had_no_price_is_priced_and_what_has_none_then_is_not(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=OCTOBER, usage=MEBI), Scene(at=OCTOBER, usage=MEBI, model="nobody-knows"))
    page = page_of(ledger, catalog, fx, prices=PriceBasis(None))
    assert page.table("lines").total_of("list_cost") == usd("2.80", lower_bound=True)
    assert page.table("lines").total_of("attempts_unpriced") == 1
    missing = [note for note in notes(page) if "the catalogue has no whole price for" in note]
    assert missing == ["warning: the catalogue has no whole price for nobody-knows at vendor then; rows: 1"]
    assert "doubts" not in names(page)


@pytest.mark.parametrize(
    "text", ["catalog", "catalogue@", "catalogue@2026-13-01", "as billed", "", "catalogue@0001-01-01"]
)
def test_prices_that_do_not_exist(text: str) -> None:
    with pytest.raises(WrongUsage, match=r"--prices: .* is not allowed; as-billed, catalogue and catalogue@DATE are"):
        price_basis(text, time_zone("Asia/Tokyo"))


def test_prices_by_name() -> None:
    assert price_basis("as-billed", time_zone("UTC")) is None
    assert price_basis("catalogue", time_zone("UTC")) == PriceBasis(None)
    tokyo = price_basis("catalogue@2026-11-01", time_zone("Asia/Tokyo"))
    assert tokyo == PriceBasis(datetime(2026, 10, 31, 15, tzinfo=UTC))
