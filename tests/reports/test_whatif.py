"""What if: by hand, stage by stage, and its laws; the ledger's month and the command as a user types it."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from pricing import (
    Catalog,
    FxTable,
    PriceChange,
    Scenario,
    Settlement,
    Terms,
    Usage,
    load_catalog,
    load_fx,
    operator_rate,
    scenario_of_options,
)
from pricing.scenario_file import Known
from reports import Exchange, Money, Page, ServedPart, ServedWork, named_month, served_month, simulate, time_zone
from reports.render.sections import fill
from reports.restating import STAGES
from reports.tokenizers import token_band, tokenizer_of
from reports.workload import portion_of
from router.cli import app
from router.errors import RouterError
from router.ledger import Ledger, open_ledger
from router.settings import EndpointSettings, SettlementSettings
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

DAY = datetime(2026, 10, 5, 12, tzinfo=UTC)
LATER = DAY + timedelta(minutes=15)
OCTOBER = named_month("2026-10", time_zone("UTC"), datetime(2026, 11, 30, tzinfo=UTC))
YUAN = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
HOUSE = """
[[prices]]
model = "house"
input = "2"
cache_read = "0.5"
output = "8"
source = "contract"
checked = 2026-10-01

[[prices]]
model = "house"
input = "1"
output = "4"
when = { batch = true }
source = "contract"
checked = 2026-10-01

[[prices]]
model = "house"
input = "1.5"
output = "6"
when = { service_tier = "flex" }
source = "contract"
checked = 2026-10-01

[[prices]]
model = "house"
input = "4"
cache_read = "1"
output = "16"
when = { above_input_tokens = 200_000 }
source = "contract"
checked = 2026-10-01

[[prices]]
model = "cheap"
input = "0.2"
cache_read = "0.1"
output = "0.4"
source = "contract"
checked = 2026-10-01

[[prices]]
model = "half"
output = "1"
source = "contract"
checked = 2026-10-01

[[prices]]
model = "clock"
output = "1"
source = "contract"
checked = 2026-10-01

[[prices]]
model = "clock"
output = "3"
when = { windows_utc = ["12:00-13:00"] }
source = "contract"
checked = 2026-10-01
"""


@pytest.fixture(scope="module")
def house() -> Catalog:
    return load_catalog(inline=tomllib.loads(HOUSE, parse_float=Decimal))


def part(
    model: str = "house",
    *,
    requests: int = 1,
    price_list: str = "custom",
    endpoint: str | None = None,
    tier: str | None = None,
    **counts: int,
) -> ServedPart:
    portion = portion_of(counts, requests, role=None, task_class=None, at=DAY)
    return ServedPart(model, price_list, portion, endpoint, tier)


def what(
    catalog: Catalog,
    scenario: Scenario,
    *parts: ServedPart,
    endpoints: Mapping[str, EndpointSettings] | None = None,
    currency: str = "USD",
    fx: FxTable | None = None,
) -> Page:
    exchange = Exchange(fx or load_fx(), currency)
    work = ServedWork("work by hand", parts)
    return simulate(work, scenario, catalog=catalog, endpoints=endpoints or {}, exchange=exchange)


def made(catalog: Catalog, **options: Sequence[str] | str) -> Scenario:
    return scenario_of_options(options, Known(catalog, ("here",), ("stranger",)))


def value(cell: object) -> Fraction:
    assert isinstance(cell, Money)
    return cell.value


def sides(page: Page) -> tuple[Fraction | int, ...]:
    """Return the totals: before, after, difference."""
    table = page.table("lines")
    before, after, difference = (value(table.total_of(key)) for key in ("before", "after", "difference"))
    return before, after, difference


def effects(page: Page) -> dict[str, Fraction | int]:
    table = page.table("effects")
    return {
        str(name): value(cell) for name, cell in zip(table.column("effect"), table.column("difference"), strict=True)
    }


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def footer(page: Page) -> dict[str, object]:
    return {fact.key: fact.value for fact in page.footer}


def test_every_step_by_hand(house: Catalog) -> None:
    work = part(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000, requests=1000, endpoint="here")
    endpoints = {
        "here": EndpointSettings(
            base_url="http://here", price_list="custom", settlement=SettlementSettings(currency="CNY", rate=Decimal(1))
        )
    }
    scenario = made(
        house,
        map=["house=cheap"],
        price=["cheap=x10"],
        settlement=["here=CNY:2"],
        discount=["here=50%"],
        cache_share="0.5",
        volume="3",
        fx=["CNY/USD=0.25"],
    )
    fx = load_fx()
    yuan = Fraction(fx.rate("CNY", "USD", DAY.date()).rate)
    page = what(house, scenario, work, endpoints=endpoints, fx=fx)
    # 2 + 8 = 10 CNY; cheap: 0.2 + 0.4; × 10; × 2 × 0.5; cache: 0.5 × 2 + 0.5 × 1 + 4; × 3; at 0.25 a yuan
    costs = [Fraction(text) * yuan for text in ("10", "0.6", "6", "6", "5.5", "16.5")] + [Fraction("4.125")]
    assert effects(page) == dict(zip(STAGES, (b - a for a, b in pairwise(costs)), strict=True))
    assert sides(page) == (costs[0], costs[-1], costs[-1] - costs[0])
    assert [fact.value for fact in page.footer if fact.key == "effects_order"] == [
        "model, price, settlement, cache, volume, fx"
    ]


def test_lines_are_components_before_and_after(house: Catalog) -> None:
    page = what(
        house,
        made(house, cache_share="0.75"),
        part(uncached_input_tokens=4_000_000, plain_output_tokens=1_000_000, requests=1000),
    )
    usd = [Money(Fraction(text), "USD") for text in ("0", "1.5", "8", "2", "-6")]
    assert page.table("lines").rows == (
        ("house", "custom", "cache_read", 0, 3_000_000, usd[0], usd[1], usd[1], None),
        ("house", "custom", "input", 4_000_000, 1_000_000, usd[2], usd[3], usd[4], Fraction(-3, 4)),
        ("house", "custom", "output", 1_000_000, 1_000_000, usd[2], usd[2], usd[0], 0),
    )


def test_batch_and_tier_where_they_are_sold(house: Catalog) -> None:
    work = part(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000, requests=1000)
    # 0.3 × (1 + 4) + 0.7 × (1.5 + 6)
    page = what(house, made(house, batch_share="0.3", tier="flex"), work)
    assert sides(page)[:2] == (10, Fraction("6.75"))
    assert notes(page) == []
    kept = what(house, made(house, batch_share="0.3", tier="flex"), part("cheap", plain_output_tokens=10, requests=7))
    assert sides(kept)[2] == 0
    assert notes(kept) == [
        "warning: cheap has no batch price, and stays on its own tier; attempts: 7",
        "warning: cheap has no flex price, and stays on its own tier; attempts: 7",
    ]


def test_a_context_tier_is_each_requests_own(house: Catalog) -> None:
    long = part(uncached_input_tokens=600_000, plain_output_tokens=2000, requests=2)  # 300,000 each
    page = what(house, made(house, cache_share="0.5"), long)
    # 0.6 × 4 + 0.002 × 16; 0.3 × 4 + 0.3 × 1 + 0.032
    assert sides(page)[:2] == (Fraction("2.432"), Fraction("1.532"))
    many = part(uncached_input_tokens=300_000, requests=2)
    assert sides(what(house, made(house, volume="4"), many))[:2] == (
        Fraction("0.6"),
        Fraction("2.4"),
    )  # not one of 600k


def test_windows_are_those_of_each_calls_own_hour_whatever_the_day_of_the_prices(house: Catalog) -> None:
    page = what(house, made(house, at=DAY + timedelta(days=30, hours=3)), part("clock", plain_output_tokens=10**6))  # type: ignore[arg-type]
    assert sides(page)[:2] == (3, 3)


@pytest.mark.parametrize(
    ("model", "relay", "other", "saved"),
    [
        ("gpt-4.1", "8", "11.40", "29.8"),  # 1 − 8/11.4
        ("claude-sonnet-4.5", "15", "21.00", "28.6"),
        ("gemini-2.5-flash", "2.5", "3.75", "33.3"),
        ("deepseek-v3.2", "0.42", "0.65", "35.4"),
    ],
)
def test_one_model_at_several_sellers(catalog: Catalog, model: str, relay: str, other: str, saved: str) -> None:
    work = part(model, price_list="relay", plain_output_tokens=10**6)
    before, after, difference = sides(what(catalog, made(catalog, price=[f"{model}:output={other}"]), work))
    assert (before, after) == (Fraction(relay), Fraction(other))
    assert f"{float(difference / after):.1%}" == f"{saved}%"


def test_a_fleet_on_another_model(catalog: Catalog) -> None:
    work = part(price_list="relay", model="gpt-4.1", plain_output_tokens=307_200_000, requests=150_000)
    page = what(catalog, made(catalog, map=["gpt-4.1=deepseek-v3.2"]), work)
    # 100 agents × 50 tasks × 30 days × 2,048 tokens, at 8.00 and at 0.42
    assert sides(page)[:2] == (Fraction("2457.60"), Fraction("129.024"))
    assert page.table("lines").column("model") == ("gpt-4.1 → deepseek-v3.2",)


def test_the_market_settlement_undoes_a_relays(catalog: Catalog) -> None:
    endpoint = EndpointSettings(
        base_url="http://here", price_list="relay", settlement=SettlementSettings(currency="CNY", rate=Decimal(1))
    )
    work = part("gpt-4.1", price_list="relay", endpoint="here", plain_output_tokens=10**6)
    page = what(
        catalog,
        made(catalog, settlement=["relay=market"]),
        work,
        endpoints={"here": endpoint},
        currency="CNY",
        fx=FxTable((), operator=[operator_rate("USD", "CNY", Decimal("7.3"), DAY.date())]),
    )
    assert sides(page)[:2] == (8, Fraction("58.4"))  # ¥8 for 8 USD of list price, against 8 × 7.3
    assert effects(page)["settlement"] == Fraction("50.4")


def test_what_a_list_does_not_price_is_counted_and_in_no_sum(catalog: Catalog) -> None:
    work = part("gpt-4.1", price_list="relay", uncached_input_tokens=10**6, plain_output_tokens=10**6, requests=4)
    page = what(catalog, made(catalog, volume="2"), work, part("nobody", plain_output_tokens=9, requests=3))
    table = page.table("lines")
    assert table.column("component") == ("output",)
    assert table.total_of("before") == Money(Fraction(8), "USD", lower_bound=True)
    assert table.total_of("difference") == Money(Fraction(8), "USD")
    left_out = page.table("left_out")
    assert left_out.rows == (
        ("gpt-4.1", "relay", "text input", 4, None, None, "before and after"),
        ("nobody", "custom", "text output", 3, None, None, "before and after"),
    )
    assert footer(page)["rows_not_repriced"] == 7
    assert "could not be re-priced, and so are in no sum: parts of 7 attempts" in notes(page)[0]


def test_a_model_that_is_priced_on_one_side_only_is_left_out(house: Catalog) -> None:
    work = part(uncached_input_tokens=10**6, plain_output_tokens=10**6, requests=10)
    page = what(house, made(house, map=["house=half"]), work)
    assert page.table("left_out").rows == (
        ("house → half", "custom", "text input", 10, Money(Fraction(2), "USD"), None, "after"),
    )
    assert sides(page) == (8, 1, -7)


def test_a_new_price_makes_a_model_comparable_and_its_effect_is_the_models(house: Catalog) -> None:
    work = part(uncached_input_tokens=10**6, plain_output_tokens=10**6, requests=10)
    page = what(house, made(house, map=["house=half"], price=["half@custom:input=0.25"]), work)
    assert sides(page) == (10, Fraction("1.25"), Fraction("-8.75"))
    # input has no price before the price stage, so its −1.75 is told with the model
    assert (effects(page)["model"], effects(page)["price"]) == (Fraction("-8.75"), 0)


def test_changes_that_concern_nothing_are_said(house: Catalog) -> None:
    page = what(
        house,
        made(house, price=["gpt-4.1=x2"], map=["kimi-k2=house"], discount=["relay=1%"], fx=["CNY/USD=0.1"]),
        part(plain_output_tokens=5),
    )
    assert notes(page)[:4] == [
        f"warning: {what_it_is}: concerns no call here"
        for what_it_is in ("map kimi-k2=house", "price gpt-4.1=x2", "discount relay", "fx CNY/USD")
    ]


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("gpt-4.1", "o200k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("o3", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("claude-opus-4.6", "claude"),
        ("claude-3-5-haiku", "claude"),
        ("claude-opus-4.7", "claude, from Opus 4.7"),
        ("claude-sonnet-5", "claude, from Opus 4.7"),
        ("house", "house"),
    ],
)
def test_tokenizers(model: str, tokenizer: str) -> None:
    assert tokenizer_of(model) == tokenizer


@pytest.mark.parametrize(
    ("old", "new", "low", "high"),
    [
        ("gpt-4.1", "gpt-4o", "1", "1"),
        ("gpt-4.1", "kimi-k2", "0.9", "1.1"),
        ("claude-opus-4.6", "claude-opus-4.7", "1", "1.35"),
        ("claude-opus-4.7", "claude-opus-4.6", "20/27", "1"),  # 1/1.35
        ("gpt-4.1", "claude-opus-4.7", "0.9", "1.485"),  # 1.1 × 1.35
        ("claude-opus-4.7", "gpt-4.1", "2/3", "1.1"),  # 0.9/1.35
    ],
)
def test_the_band_of_tokens(old: str, new: str, low: str, high: str) -> None:
    assert token_band(old, new) == (Fraction(low), Fraction(high))


def test_only_a_map_between_tokenizers_has_a_band(house: Catalog) -> None:
    work = part(plain_output_tokens=10**6), part("cheap", plain_output_tokens=10**6)
    page = what(house, made(house, map=["house=half"]), *work)
    table = page.table("token_band")
    assert table.rows[0][4:] == tuple(Money(Fraction(text), "USD") for text in ("0.9", "1", "1.1"))
    assert table.total is not None
    assert table.total[4:] == tuple(Money(Fraction(text), "USD") for text in ("1.3", "1.4", "1.5"))
    with pytest.raises(KeyError):
        what(house, made(house, volume="2"), *work).table("token_band")


PARTS = st.lists(
    st.builds(
        lambda model, tier, requests, counts, endpoint: part(
            model, tier=tier, requests=requests, endpoint=endpoint, **{key: n * requests for key, n in counts.items()}
        ),
        st.sampled_from(["house", "cheap", "half", "clock", "nobody"]),
        st.sampled_from([None, "batch", "flex"]),
        st.integers(1, 50),
        st.dictionaries(
            st.sampled_from(["uncached_input_tokens", "cache_read_tokens", "plain_output_tokens", "reasoning_tokens"]),
            st.integers(1, 250_000),
            min_size=1,
        ),
        st.sampled_from([None, "here"]),
    ),
    min_size=1,
    max_size=4,
)
FACTORS = st.decimals("0.01", 4, places=2)
SHARES = st.decimals(0, 1, places=2)
NAMES = st.sampled_from(["house", "cheap", "half", "clock"])
SETTLEMENTS = (Settlement(), Settlement("CNY", Decimal(2)))
SCENARIOS = st.builds(
    Scenario,
    price=st.lists(
        st.builds(PriceChange, NAMES, st.none() | st.sampled_from(["input", "output"]), FACTORS)
        | st.builds(PriceChange, NAMES, st.sampled_from(["input", "output"]), amount=FACTORS, currency=st.just("USD")),
        max_size=2,
    ).map(tuple),
    model_map=st.dictionaries(NAMES, NAMES, max_size=2).map(lambda found: tuple(found.items())),
    volume=FACTORS,
    cache_share=st.none() | SHARES,
    batch_share=st.none() | SHARES,
    tier=st.sampled_from([None, "flex"]),
    discount=st.lists(st.tuples(st.sampled_from(["here", "custom"]), SHARES), max_size=1).map(tuple),
    settlement=st.lists(st.tuples(st.just("here"), st.sampled_from(SETTLEMENTS)), max_size=1).map(tuple),
    fx=st.lists(st.tuples(st.just("CNY"), st.just("USD"), FACTORS), max_size=1).map(tuple),
    at=st.sampled_from([None, datetime(2026, 12, 1, tzinfo=UTC)]),
)  # fmt: skip
HERE = {
    "here": EndpointSettings(
        base_url="http://here", price_list="custom", settlement=SettlementSettings(currency="CNY", rate=Decimal(1))
    )
}
LAW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@LAW
@given(PARTS)
def test_law_an_unchanged_scenario_makes_no_difference(house: Catalog, parts: list[ServedPart]) -> None:
    page = what(house, Scenario(), *parts, endpoints=HERE)
    table = page.table("lines")
    assert table.column("before") == table.column("after")
    assert sides(page)[2] == 0
    assert set(effects(page).values()) <= {0}


@LAW
@given(PARTS, SCENARIOS)
def test_law_effects_and_lines_add_up_to_the_difference(
    house: Catalog, parts: list[ServedPart], scenario: Scenario
) -> None:
    page = what(house, scenario, *parts, endpoints=HERE)
    before, after, difference = sides(page)
    assert after - before == difference == sum(effects(page).values())
    table = page.table("lines")
    assert [sum(map(value, table.column(key)), Fraction(0)) for key in ("before", "after", "difference")] == [
        before,
        after,
        difference,
    ]


@LAW
@given(PARTS, SCENARIOS, NAMES, st.sampled_from([None, "input", "output"]), st.decimals(1, 3, places=2))
def test_law_a_dearer_price_never_lowers_a_cost(
    house: Catalog, parts: list[ServedPart], scenario: Scenario, model: str, component: str | None, factor: Decimal
) -> None:
    dearer = scenario | Scenario(price=(PriceChange(model, component, factor),))
    plain, dear = (what(house, each, *parts, endpoints=HERE) for each in (scenario, dearer))
    assert sides(dear)[1] >= sides(plain)[1]
    assert sides(dear)[0] == sides(plain)[0]


@LAW
@given(PARTS, SCENARIOS)
def test_law_what_is_unknown_never_becomes_a_number(
    house: Catalog, parts: list[ServedPart], scenario: Scenario
) -> None:
    page = what(house, scenario, *parts, part("nobody", plain_output_tokens=5, requests=2), endpoints=HERE)
    assert "nobody" not in page.table("lines").column("model")
    assert sum(row[3] for row in page.table("left_out").rows if row[0] == "nobody") >= 2  # type: ignore[misc]
    without = what(house, scenario, *(each for each in parts if each.model != "nobody"), endpoints=HERE)
    assert sides(page) == sides(without)


@LAW
@given(PARTS, SCENARIOS, SCENARIOS)
def test_law_volume_and_prices_compose(house: Catalog, parts: list[ServedPart], one: Scenario, other: Scenario) -> None:
    # Pricing under (a | b) is pricing under b of work whose volume a has changed already.
    volumes = Scenario(volume=one.volume) | other
    scaled = Scenario(volume=one.volume * other.volume) | other.only(tuple(set(FIELDS) - {"volume"}))
    assert sides(what(house, volumes, *parts, endpoints=HERE)) == sides(what(house, scaled, *parts, endpoints=HERE))


FIELDS = ("price", "model_map", "volume", "cache_share", "batch_share", "tier", "discount", "settlement", "fx", "at")


def of_month(ledger: Ledger, catalog: Catalog, scenario: Scenario, endpoints: Mapping[str, EndpointSettings]) -> Page:
    exchange = Exchange(load_fx(), "USD")
    work = served_month(ledger.reader, OCTOBER, catalog=catalog, exchange=exchange)
    return simulate(work, scenario, catalog=catalog, endpoints=endpoints, exchange=exchange)


def test_before_is_what_the_ledger_has_at_the_terms_of_the_day(ledger: Ledger, catalog: Catalog) -> None:
    usage = Usage(plain_output_tokens=1_000_000)
    write(
        ledger,
        catalog,
        Scene(at=DAY, usage=usage, model="gpt-4.1", price_list="relay", terms=YUAN),
        Scene(at=DAY, usage=usage, model="gpt-4.1", price_list="openai", terms=Terms(discount_share=Decimal("0.25"))),
        Scene(at=LATER, usage=usage, model="gpt-4.1", price_list="openai", terms=Terms(markup_share=Decimal("0.5"))),
    )
    now = {"here": EndpointSettings(base_url="http://here", discount_share=Decimal("0.9"))}  # agreed on since
    rate = Fraction(load_fx().rate("CNY", "USD", DAY.date()).rate)
    assert sides(of_month(ledger, catalog, Scenario(), now))[:2] == (8 * rate + 18, 8 * rate + 18)
    # the new discount is on the list price of each: 8 yuan, 8 USD, and 8 USD with half as much on top
    cheaper = of_month(ledger, catalog, made(catalog, discount=["here=0.5"]), now)
    assert sides(cheaper)[1] == 4 * rate + 4 + 6


def test_a_discount_outlives_a_change_of_settlement(ledger: Ledger, catalog: Catalog) -> None:
    both = Terms(Decimal("0.25"), "CNY", Decimal(1))
    usage = Usage(plain_output_tokens=1_000_000)
    write(ledger, catalog, Scene(at=DAY, usage=usage, model="gpt-4.1", price_list="relay", terms=both))
    settled = SettlementSettings(currency="CNY", rate=Decimal(1))
    here = EndpointSettings(base_url="http://here", discount_share=Decimal("0.25"), settlement=settled)
    page = of_month(ledger, catalog, made(catalog, settlement=["here=market"]), {"here": here})
    assert sides(page)[1] == 6  # 8 USD less a quarter


def test_each_call_has_the_price_of_its_own_hour(ledger: Ledger, house: Catalog) -> None:
    usage = Usage(plain_output_tokens=1_000_000)
    for at in (DAY + timedelta(minutes=7), DAY + timedelta(hours=2)):
        write(ledger, house, Scene(at=at, usage=usage, model="clock", price_list="custom"))
    assert sides(of_month(ledger, house, Scenario(), {}))[0] == 4  # 3 within the window, 1 after it


def test_the_price_of_the_record_stays_whatever_the_catalogue_says_now(ledger: Ledger, house: Catalog) -> None:
    write(ledger, house, Scene(at=DAY, usage=Usage(plain_output_tokens=1_000_000), model="house", price_list="custom"))
    dearer = load_catalog(inline=tomllib.loads(HOUSE.replace('"8"', '"9"'), parse_float=Decimal))
    assert sides(of_month(ledger, dearer, Scenario(), {}))[0] == 8
    december = made(dearer, at=datetime(2026, 12, 1, tzinfo=UTC))  # type: ignore[arg-type]
    page = of_month(ledger, dearer, december, {})
    assert sides(page)[:2] == (8, 9)
    assert effects(page)["price"] == 1


def test_attempts_without_usage_are_counted_and_a_month_without_rows_is_said(ledger: Ledger, catalog: Catalog) -> None:
    with pytest.raises(RouterError, match="no rows in 2026-10"):
        of_month(ledger, catalog, Scenario(), {})
    lost = Scene(at=DAY, status="timed_out", possibly_billed=True, reserved_usd=Decimal(1))
    write(ledger, catalog, lost, Scene(at=DAY, status="failed"), Scene(at=DAY, usage=Usage(plain_output_tokens=10**6)))
    page = of_month(ledger, catalog, Scenario(), {})
    assert sides(page) == (8, 8, 0)
    assert (footer(page)["rows_counted"], footer(page)["rows_unpriced"]) == (3, 1)
    assert "warning: without known usage, and so neither before nor after; attempts: 1" in notes(page)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Scene,
            at=st.integers(-40, 40).map(lambda halves: DAY + timedelta(minutes=30 * halves + 7)),
            usage=st.builds(
                Usage,
                uncached_input_tokens=st.integers(0, 250_000),
                cache_read_tokens=st.integers(0, 9000),
                plain_output_tokens=st.integers(0, 9000),
                reasoning_tokens=st.integers(0, 9000),
            ),
            model=st.sampled_from(["house", "cheap", "clock"]),
            price_list=st.just("custom"),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_law_before_is_the_ledgers_total(house: Catalog, scenes: list[Scene]) -> None:
    # Clock has no input price: only calls that are priced whole are in the law.
    scenes = [scene for scene in scenes if scene.model != "clock" or not (scene.usage or Usage()).input_tokens]
    if not any(scene.usage != Usage() for scene in scenes):
        return
    with tempfile.TemporaryDirectory() as folder, open_ledger(new_ledger(f"{folder}/l.db")) as ledger:
        write(ledger, house, *scenes)
        groups = ledger.reader.usage_groups(OCTOBER.start_us, OCTOBER.end_us)
        page = of_month(ledger, house, Scenario(), {})
    on_record = groups[0].sums["cost_micro"] * 10**6 + groups[0].sums["cost_pico"]
    assert sides(page)[0] == Fraction(on_record, 10**12)


def router(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["whatif", *arguments])


@pytest.fixture
def ledger_of_today(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a ledger with one call of today, set it, and stand in an empty folder."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)
    with open_ledger(url) as ledger:
        write(ledger, catalog, Scene(at=datetime.now(UTC), usage=usage, model="gpt-4.1", price_list="openai"))


ALL = (
    *("--price", "deepseek-v3.2:output=+20%", "--price", "gpt-4.1=x0.5", "--settlement", "relay=market"),
    *("--map", "gpt-4.1=kimi-k2", "--volume", "1.5", "--cache-share", "0.6", "--batch-share", "0.3", "--tier", "flex"),
    *("--discount", "relay=15%", "--fx", "CNY/USD=0.14", "--at", "2026-12-01"),
)


@pytest.mark.usefixtures("ledger_of_today")
def test_every_option_and_the_file_it_is_saved_in(tmp_path: Path) -> None:
    result = router("--month", *ALL, "--save", "s.toml", "--format", "json")
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    total = page["tables"]["lines"]["total"]
    # before 2.00 + 0.80; after, kimi-k2's last list: 1.5 × (0.4 × 0.60 + 0.6 × 0.15 + 0.1 × 2.50)
    assert (total["before"], total["after"], total["difference"]) == ("2.8", "0.87", "-1.93")
    changes = [Decimal(row["difference"]) for row in page["tables"]["effects"]["rows"]]
    assert sum(changes) == Decimal("-1.93")
    again = router("--scenario", "s.toml", "--format", "json")
    assert again.stdout == result.stdout
    assert (tmp_path / "s.toml").read_text(encoding="utf-8").startswith("# A scenario")
    more = json.loads(router("--scenario", "s.toml", "--volume", "2", "--format", "json").stdout)
    assert more["tables"]["lines"]["total"]["after"] == "1.74"  # 1.5 × 2


@pytest.mark.usefixtures("ledger_of_today")
def test_as_text_csv_and_in_yen() -> None:
    text = router("--price", "gpt-4.1=x0.5").stdout
    for shown in ("Before and after", "gpt-4.1", "2.80", "1.40", "−50.0 %", "order of the effects: model, price,"):
        assert shown in text
    assert router("--format", "csv").stdout.startswith("row,model,price_list,component,before_tokens,")
    assert "exchange rates: USD/JPY" in router("--currency", "JPY").stdout


@pytest.mark.usefixtures("ledger_of_today")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--price", "gtp-4.1=x2"], "--price: model 'gtp-4.1' does not exist; did you mean gpt-4.1"),
        (["--settlement", "rely=market"], "--settlement: 'rely' is no endpoint and no price list; did you mean relay?"),
        (["--cache-share", "60"], "--cache-share: '60' is not allowed; a share of 0 to 1 is, or 0% to 100%"),
        (["--at", "soon"], "--at: 'soon' is not allowed; a date YYYY-MM-DD is"),
        (["--scenario", "none.toml"], "none.toml: scenario: cannot be read: No such file or directory"),
        (["--save", "nowhere/s.toml"], "--save: folder 'nowhere' does not exist"),
        (["--month", "2026-13"], "month: '2026-13' is not allowed"),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(arguments: list[str], message: str) -> None:
    result = router(*arguments)
    assert result.stdout == ""
    assert isinstance(result.exception, RouterError), result.exception
    assert str(result.exception).startswith(message)
    assert "\n" not in str(result.exception)
    assert result.exception.hint
    assert result.exception.exit_code == 2
