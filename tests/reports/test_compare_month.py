"""A month's comparison by hand: what is on record, savings and their causes, baselines, frontier, bands, latency."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Terms, Usage, load_catalog, operator_rate
from reports import (
    Basis,
    Exchange,
    Money,
    Page,
    Singles,
    bases_named,
    compare_configurations,
    configurations_named,
    named_month,
    time_zone,
    work_of_month,
)
from reports.bands import LEAST_DAYS, measured_ratio, student_t
from reports.frontier import Point, beaten_by
from reports.price_periods import Span, price_spans
from reports.render.sections import fill
from reports.savings import Levels, saving
from reports.sold import needs_days, sold_at
from router.errors import WrongUsage
from router.ledger import Ledger, new_id
from router.ledger.records import Amount, Import, UsageBucket
from router.policy import NoCandidate
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import ByClassSettings, ClassRule, EndpointSettings, FixedSettings, Settings, SettlementSettings
from tests.reports.scenes import Scene, write

DAY = datetime(2026, 10, 5, 12, tzinfo=UTC)
OCTOBER = named_month("2026-10", time_zone("UTC"), DAY)
M = 1_000_000
NO_SINGLES = Singles()
YUAN = EndpointSettings(
    base_url="https://relay.example/v1",
    price_list="vendor",
    settlement=SettlementSettings(currency="CNY", rate=Decimal(1)),
)
SETTINGS = Settings(configurations=dict(BUILT_IN_CONFIGURATIONS), endpoints={"yuan": YUAN})
EIGHT, NINE = (
    operator_rate("USD", "CNY", Decimal(rate), DAY.date().replace(day=day), "by hand") for rate, day in ((8, 1), (9, 7))
)
FX, RISING = FxTable((EIGHT,)), FxTable((EIGHT, NINE))


def month(
    ledger: Ledger,
    catalog: Catalog,
    names: Sequence[str],
    *,
    settings: Settings = SETTINGS,
    singles: Singles = NO_SINGLES,
    currency: str = "USD",
    against_record: bool = False,
    fx: FxTable | None = None,
) -> Page:
    basis = Basis(catalog, "vendor", None, Terms(), Exchange(fx or FX, currency))
    rules = configurations_named(names, settings, catalog)
    bases = bases_named(rules, settings, basis, DAY)
    sold = sold_at(rules, bases, catalog)
    work = work_of_month(
        ledger.reader,
        OCTOBER,
        split=None,
        catalog=catalog,
        price_list="vendor",
        exchange=basis.exchange,
        sold=sold,
        by_day=needs_days(sold, (basis, *bases.values()), currency),
    )
    return compare_configurations(rules, work, basis, bases=bases, singles=singles, against_record=against_record)


def row(page: Page, table: str, name: str) -> Mapping[str, object]:
    found = page.table(table)
    keys = [column.key for column in found.columns]
    return next(dict(zip(keys, cells, strict=True)) for cells in found.rows if cells[0] == name)


def usd(amount: str) -> Money:
    return Money(Fraction(amount), "USD")


def notes(page: Page) -> str:
    return "\n".join(fill(note) for note in page.notes)


def test_what_is_on_record_stands_first_and_may_be_the_baseline(ledger: Ledger, catalog: Catalog) -> None:
    half = Terms(discount_share=Decimal("0.5"))
    write(ledger, catalog, Scene(at=DAY, usage=Usage(uncached_input_tokens=M, plain_output_tokens=M), terms=half))
    page = month(ledger, catalog, ["gpt-4.1", "gpt-4.1-mini"])
    # gpt-4.1: 2 + 8, paid half; gpt-4.1-mini: 0.40 + 1.60
    assert page.table("configurations").column("configuration") == ("as-billed", "gpt-4.1", "gpt-4.1-mini")
    assert page.table("configurations").column("cost") == (usd("5"), usd("10"), usd("2"))
    assert row(page, "configurations", "as-billed")["change"] == usd("-5")
    page = month(ledger, catalog, ["gpt-4.1-mini"], against_record=True)
    assert row(page, "configurations", "gpt-4.1-mini")["change"] == usd("-3")
    assert {fact.key: fact.value for fact in page.footer}["baseline"] == "as-billed"
    # settled 5 = 10 of list less 5; mini saves 8 at list, and the 5 that the discount took off is lost again
    saved = row(page, "savings", "gpt-4.1-mini")
    assert [saved[key] for key in ("saving", "model", "settlement", "cache")] == [
        usd("3"),
        usd("8"),
        usd("-5"),
        usd("0"),
    ]


def test_a_saving_is_split_by_model_settlement_and_cache(ledger: Ledger, catalog: Catalog) -> None:
    usage = Usage(uncached_input_tokens=M, cache_read_tokens=M, plain_output_tokens=M)
    write(ledger, catalog, Scene(at=DAY, usage=usage))
    page = month(ledger, catalog, ["gpt-4.1", "gpt-4.1-mini@yuan"])
    # gpt-4.1: 2 + 0.5 + 8 = 10.50, without caching 12; gpt-4.1-mini: 0.4 + 0.1 + 1.6 = 2.10, without caching 2.40,
    # paid with 2.10 yuan at 8 yuan a dollar: 0.2625
    assert row(page, "configurations", "gpt-4.1-mini@yuan")["cost"] == usd("0.2625")
    saved = row(page, "savings", "gpt-4.1-mini@yuan")
    assert saved["model"] == usd("9.6")  # 12 − 2.40
    assert saved["cache"] == usd("-1.2")  # 0.30 − 1.50
    assert saved["settlement"] == usd("1.8375")  # 2.10 − 0.2625
    assert saved["saving"] == usd("10.2375")  # 10.50 − 0.2625
    assert "gpt-4.1-mini@yuan: bought at price list vendor; on top of it: settlement ×1 CNY" in notes(page)


AMOUNTS = st.fractions(0, 10**6, max_denominator=10**6)
LEVELS = st.builds(Levels, AMOUNTS, AMOUNTS, AMOUNTS)


@given(LEVELS, LEVELS)
def test_law_effects_add_up_to_the_saving(one: Levels, other: Levels) -> None:
    found = saving(one, other)
    assert found is not None
    assert one.settled is not None
    assert other.settled is not None
    assert found.model + found.settlement + found.cache == one.settled - other.settled
    back = saving(other, one)
    assert back is not None
    assert back.total == -found.total


def test_an_unknown_level_has_no_effects() -> None:
    known = Levels(Fraction(3), Fraction(2), Fraction(1))
    assert saving(known, Levels(None, Fraction(2), Fraction(1))) is None
    assert saving(Levels(Fraction(3), Fraction(2), None), known) is None


def test_the_baselines_are_the_best_and_the_cheapest_that_are_good_enough(ledger: Ledger, catalog: Catalog) -> None:
    usage = Usage(uncached_input_tokens=1000, plain_output_tokens=1000)
    write(ledger, catalog, *(Scene(at=DAY, usage=usage, task_class=name) for name in ("code", "code", "chat")))
    models = ("gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "kimi-k2", "claude-sonnet-4.5", "deepseek-v3.2")
    page = month(ledger, catalog, ["gpt-4.1"], singles=Singles(models))
    # Code has the floor 0.40; docs/quality-priors.md has the bounds .42, .45, .30, .57, .55 and .55. kimi-k2 and
    # deepseek-v3.2 can not be bought any more. Of the others gpt-4.1-mini is the cheapest: 3 × (0.40 + 1.60) / 1000.
    best, cheapest = (row(page, "configurations", name) for name in ("best-single", "cheapest-single"))
    assert (best["worker"], best["mark"]) == ("claude-sonnet-4.5", "best single")
    assert (cheapest["worker"], cheapest["cost"]) == ("gpt-4.1-mini", usd("0.006"))
    assert best["benchmark_share"] == Fraction(2, 3)
    lost = {cells[0]: cells[1] for cells in page.table("unfit").rows}
    assert lost["gpt-4.1-nano"] == "quality bound 0.298 for code is below the floor 0.40"
    assert lost["kimi-k2"] == "retired on 2026-05-25"
    frontier = {cells[0]: cells[4] for cells in page.table("frontier").rows}
    assert frontier["gpt-4.1"] == "no"  # gpt-4.1-mini is cheaper and has the higher bound
    assert frontier["gpt-4.1-nano"] == "yes"  # nothing is cheaper
    assert [chart.name for chart in page.charts] == ["costs", "frontier"]


def test_without_a_class_nothing_is_said_of_quality(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=Usage(plain_output_tokens=M)))
    page = month(ledger, catalog, ["gpt-4.1", "hybrid"], singles=Singles(("gpt-4.1", "gpt-4.1-nano")))
    assert "best-single" not in page.table("configurations").column("configuration")
    assert row(page, "configurations", "cheapest-single")["worker"] == "gpt-4.1-nano"
    assert {table.name for table in page.tables} == {"configurations", "savings", "choices", "lines"}
    assert "quality is – because scores of judged answers are not compared yet" in notes(page)
    assert "no best single: no single model that could do all of it has a published quality" in notes(page)


def test_a_request_that_does_not_fit_rules_a_model_out(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=Usage(uncached_input_tokens=250_000, plain_output_tokens=10)))
    page = month(ledger, catalog, ["gpt-4.1"], singles=Singles(("claude-sonnet-4.5", "gpt-4.1")))
    assert page.table("unfit").column("model") == ("claude-sonnet-4.5",)  # a window of 200,000


def test_latency_is_the_models_own_in_the_same_class(ledger: Ledger, catalog: Catalog) -> None:
    usage = Usage(plain_output_tokens=100)
    slow = [Scene(at=DAY, usage=usage, task_class="code", latency_us=10_000_000) for _ in range(9)]
    fast = Scene(at=DAY, usage=usage, model="gpt-4.1-mini", task_class="chat", latency_us=1_000_000)
    write(ledger, catalog, *slow, fast)
    page = month(ledger, catalog, ["gpt-4.1", "gpt-4.1-mini"])
    billed = row(page, "configurations", "as-billed")
    assert abs(billed["p50_ms"] - 10_000) <= 500  # type: ignore[operator]
    assert row(page, "configurations", "gpt-4.1")["p50_ms"] is None  # it never did chat
    shown = {(cells[0], cells[1]): cells[5] for cells in page.table("choices").rows}
    assert abs(shown["gpt-4.1", "code"] - 10_000) <= 500  # type: ignore[operator]
    assert shown["gpt-4.1", "chat"] is None
    assert "no latency, since some class was not run by the model that is to do it: gpt-4.1, gpt-4.1-mini" in notes(
        page
    )


def test_a_band_is_measured_where_both_models_did_the_class(ledger: Ledger, catalog: Catalog) -> None:
    made = []
    for day in range(10):
        for _ in range(4):
            at = DAY + timedelta(days=day)
            plain = Scene(at=at, usage=Usage(uncached_input_tokens=1000, plain_output_tokens=100), task_class="code")
            made += [
                plain,
                Scene(
                    at=at,
                    model="gpt-4.1-mini",
                    task_class="code",
                    usage=Usage(uncached_input_tokens=1000, plain_output_tokens=150),
                ),
            ]
    write(ledger, catalog, *made)
    page = month(ledger, catalog, ["gpt-4.1-mini", "gpt-4.1", "hybrid"])
    # Every day alike, so the interval has no width. mini writes half as much again as gpt-4.1, in place of 40 of its
    # calls; its own 40 calls are sure: 80 × 1000 × 0.40, 40 × 100 × 1.5 × 1.60 + 40 × 150 × 1.60
    band = row(page, "configurations", "gpt-4.1-mini")
    assert band["cost"] == usd("0.048")
    assert band["cost_low"] == band["cost_high"] == usd("0.0512")
    ratio = row(page, "bands", "gpt-4.1 → gpt-4.1-mini")
    assert [ratio[key] for key in ("output_low", "output", "output_high")] == [Fraction(1, 2)] * 3
    assert (ratio["served_calls"], ratio["model_calls"], ratio["days"]) == (40, 40, 10)
    assert ratio["input"] == 0  # one tokenizer
    assert row(page, "configurations", "hybrid")["cost_low"] is None
    said = "hybrid: no band, since tokens were measured for 0.0 % of its cost only; fewer than 5 days or 30 calls"
    assert said in notes(page)
    assert row(page, "configurations", "as-billed")["cost_low"] == row(page, "configurations", "as-billed")["cost"]


def test_a_ratio_and_its_interval() -> None:
    old = [(10, 1000)] * 6
    new = [(10, tokens) for tokens in (1000, 1200, 1400, 1600, 1800, 2000)]
    found = measured_ratio(old, new)
    assert found is not None
    assert found.middle == Fraction("1.5")  # 9000 / 60 against 6000 / 60
    assert found.low < Fraction("1.5") < found.high
    # The jackknife of a mean of 6 has its standard error: s / √6 = 374.17 / 2.449 = 152.75 a day of 1500, so about
    # 10.2 % of the ratio, times t(0.9, 5) = 1.476: exp(±0.150)
    assert abs(float(found.high) / 1.5 - 1.162) < 0.005
    assert abs(float(found.low) / 1.5 - 0.861) < 0.005
    assert measured_ratio(old[: LEAST_DAYS - 1], new[: LEAST_DAYS - 1]) is None
    assert measured_ratio([(1, 100)] * 6, new) is None  # 6 calls are too few
    assert measured_ratio([(10, 0)] * 6, new) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 1.533), (5, 1.476), (10, 1.372), (30, 1.310)])
def test_students_t(freedom: int, quantile: float) -> None:
    assert abs(student_t(0.9, freedom) - quantile) < 0.01  # from a printed table


def test_an_interval_holds_about_as_often_as_it_says() -> None:
    source = random.Random(5)
    held = 0
    for _ in range(400):
        old = [(20, round(2000 * source.lognormvariate(0, 0.2))) for _ in range(12)]
        new = [(20, round(3000 * source.lognormvariate(0, 0.2))) for _ in range(12)]
        found = measured_ratio(old, new)
        assert found is not None
        held += found.low <= Fraction(3, 2) <= found.high
    assert 0.74 <= held / 400 <= 0.87


POINTS = st.lists(
    st.builds(
        Point,
        st.text("abc", min_size=1, max_size=3),
        st.just("x"),
        st.none() | st.integers(0, 5).map(Fraction),
        st.none() | st.integers(0, 5).map(Fraction),
    ),
    max_size=6,
)


@given(POINTS)
def test_law_the_frontier_is_what_nothing_beats(points: list[Point]) -> None:
    for point, rival in zip(points, beaten_by(points), strict=True):
        cost, quality = point.cost, point.quality
        beats = [
            other
            for other in points
            if None not in (cost, quality, other.cost, other.quality)
            and other.cost <= cost  # type: ignore[operator]
            and other.quality >= quality  # type: ignore[operator]
            and (other.cost, other.quality) != (cost, quality)
        ]
        assert (rival is None) == (not beats)


def test_a_policy_is_asked_by_class_and_context_tier(ledger: Ledger, catalog: Catalog) -> None:
    short, long = (
        Usage(uncached_input_tokens=1000, plain_output_tokens=10),
        Usage(uncached_input_tokens=150_000, plain_output_tokens=10),
    )
    write(ledger, catalog, *(Scene(at=DAY + timedelta(days=day), usage=short, task_class="chat") for day in (0, 1)))
    write(ledger, catalog, Scene(at=DAY, usage=long, task_class="chat", model="gpt-4.1-mini"))
    rule = ByClassSettings(policy="by_class", classes={"chat": ClassRule(candidates=("gpt-4o-mini", "gpt-4.1-mini"))})
    settings = Settings(configurations={"mine": rule})
    page = month(ledger, catalog, ["mine"], settings=settings)
    # gpt-4o-mini (0.15, 0.60) is cheaper, but its window is 128,000
    chosen = {cells[2]: cells[3] for cells in page.table("choices").rows}
    assert chosen == {"gpt-4o-mini": 2, "gpt-4.1-mini": 1}
    yuan = month(ledger, catalog, ["mine"], settings=settings, currency="CNY")
    assert {cells[2]: cells[3] for cells in yuan.table("choices").rows} == chosen
    dollars = row(page, "configurations", "mine")["cost"]
    assert isinstance(dollars, Money)
    assert row(yuan, "configurations", "mine")["cost"] == Money(dollars.value * 8, "CNY")


def test_each_call_is_converted_at_the_rate_of_its_own_day(ledger: Ledger, catalog: Catalog) -> None:
    output = Usage(plain_output_tokens=M)
    write(ledger, catalog, Scene(at=DAY, usage=output), Scene(at=DAY + timedelta(days=3), usage=output))
    page = month(ledger, catalog, ["gpt-4.1", "gpt-4.1-mini@yuan"], currency="CNY", fx=RISING)
    # 8 dollars at 8 yuan and 8 at 9; the other is paid in yuan
    costs = page.table("configurations").column("cost")
    assert costs == (Money(Fraction(136), "CNY"), Money(Fraction(136), "CNY"), Money(Fraction("3.2"), "CNY"))


def test_a_policy_without_a_candidate_says_so_by_name(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=DAY, usage=Usage(uncached_input_tokens=150_000), task_class="chat"))
    rule = ByClassSettings(policy="by_class", classes={"chat": ClassRule(candidates=("gpt-4o-mini",))})
    with pytest.raises(NoCandidate, match="configuration mine: no model fits a single call of class chat") as error:
        month(ledger, catalog, ["mine"], settings=Settings(configurations={"mine": rule}))
    assert error.value.hint is not None


def test_an_endpoint_that_does_not_exist(catalog: Catalog) -> None:
    with pytest.raises(WrongUsage, match="endpoint: 'yuann' does not exist; did you mean yuan"):
        configurations_named(["hybrid@yuann"], SETTINGS, catalog)
    pair = configurations_named(
        ["hybrid@relay"],
        Settings(configurations={"hybrid": FixedSettings(orchestrator="kimi-k2", worker="kimi-k2")}),
        catalog,
    )
    assert list(pair) == ["hybrid@relay"]  # a preset needs no key to have prices


def test_usage_that_somebody_else_has_added_up_is_in_it(ledger: Ledger, catalog: Catalog) -> None:
    prices = catalog.price_set("gpt-4.1", "vendor", DAY)
    assert prices is not None
    day_us = int(DAY.replace(hour=0).timestamp()) * M
    origin = Import(
        import_id=new_id(),
        format="buckets",
        file_name="usage.json",
        file_sha256="00",
        model="",
        price_list="openai",
        configuration=None,
        start_us=day_us,
    )
    bucket = UsageBucket(
        bucket_id=new_id(),
        import_id=origin.import_id,
        start_us=day_us,
        end_us=day_us + 86_400 * M,
        endpoint="imported",
        price_list="openai",
        model_asked="gpt-4.1",
        cost_status="exact",
        requests=2,
        usage=Usage(uncached_input_tokens=300 * M, plain_output_tokens=M),
        list_cost=Amount("USD", Decimal(608)),
        settled_cost=Amount("USD", Decimal(608)),
        price_set_id=prices.id,
    )
    ledger.write_now(prices, origin, bucket, *Scene(at=DAY, usage=Usage(plain_output_tokens=M)).records(catalog))
    page = month(ledger, catalog, ["gpt-4.1", "gemini-2.5-pro"])
    # 300 × 2 + 8, and 8 of the single call; 300 × 1.25 + 10, and 10: that its requests are long is not known
    assert page.table("configurations").column("cost") == (usd("616"), usd("616"), usd("395"))
    assert "usage that somebody else has added up is priced as small requests" in notes(page)
    assert page.table("choices").column("calls") == (3, 3)
    assert {fact.key: fact.value for fact in page.footer}["rows_counted"] == 2


PEAK = """
[[prices]]
model = "peaky"
input = "1"
output = "1"
source = "contract"
checked = 2026-10-01

[[prices]]
model = "peaky"
input = "2"
output = "2"
when = { windows_utc = ["08:00-10:00"], weekdays = ["mon"] }
source = "contract"
checked = 2026-10-01
"""


def test_peak_hours_are_periods_of_their_own(ledger: Ledger) -> None:
    text = PEAK.replace('weekdays = ["mon"]', "weekdays = [1]")
    catalog = load_catalog(inline=tomllib.loads(text, parse_float=Decimal))
    monday = datetime(2026, 10, 5, tzinfo=UTC)
    start = int(monday.timestamp()) * M
    hour = 3600 * M
    spans = price_spans(catalog.history("peaky", "custom"), start, start + 24 * hour)
    assert spans == (
        Span(start, start + 8 * hour, 0),
        Span(start + 8 * hour, start + 10 * hour, 1),
        Span(start + 10 * hour, start + 24 * hour, 0),
    )
    usage = Usage(plain_output_tokens=M)
    hours = (7, 9, 9.99, 10)
    write(ledger, catalog, *(Scene(at=monday + timedelta(hours=at), usage=usage, model="peaky") for at in hours))
    write(ledger, catalog, Scene(at=monday + timedelta(days=1, hours=9), usage=usage, model="peaky"))
    page = month(ledger, catalog, ["peaky"])
    assert page.table("configurations").column("cost") == (usd("7"), usd("7"))  # 1 + 2 + 2 + 1, and 1 on Tuesday
