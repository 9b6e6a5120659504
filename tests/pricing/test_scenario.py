"""Scenarios: what each change does to prices, tokens and names; how they compose; how they are written and refused."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import (
    Catalog,
    Conditions,
    PriceChange,
    PriceRow,
    PriceSet,
    Scenario,
    ScenarioError,
    Settlement,
    load_catalog,
    load_scenario,
    scenario_of_options,
    scenario_to_toml,
)
from pricing.scenario_file import Known
from tests.pricing.conftest import MakeRow, MakeSet

SHARE = Decimal("0.3")
AT = datetime(2026, 12, 1, tzinfo=UTC)
KNOWN = Known(load_catalog(), ("mine",), ("house-model",))


def amounts(found: PriceSet | None) -> dict[str, list[str]]:
    assert found is not None
    rows: dict[str, list[str]] = {}
    for row in found.rows:
        rows.setdefault(row.component, []).append(f"{row.amount.normalize():f}")
    return rows


def repriced(
    found: PriceSet | None, *changes: str, model: str = "gpt-4.1", price_list: str = "openai"
) -> PriceSet | None:
    scenario = scenario_of_options({"price": list(changes)}, KNOWN)
    return scenario.prices(found, model=model, price_list=price_list, at=AT)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("gpt-4.1=+20%", {"input": ["2.4"], "output": ["9.6"]}),
        ("gpt-4.1=-25%", {"input": ["1.5"], "output": ["6"]}),
        ("gpt-4.1:output=x0.5", {"input": ["2"], "output": ["4"]}),
        ("gpt-4.1:output=1.80", {"input": ["2"], "output": ["1.8"]}),
        ("gpt-*:input=x2", {"input": ["4"], "output": ["8"]}),
        ("*=-100%", {"input": ["0"], "output": ["0"]}),
        ("gpt-4.1@relay=x2", {"input": ["2"], "output": ["8"]}),  # another list's price
        ("gpt-4o=x2", {"input": ["2"], "output": ["8"]}),
        ("gpt-4.1:cache_read=0.1", {"cache_read": ["0.1"], "input": ["2"], "output": ["8"]}),
        ("openai/gpt-4.1=x2", {"input": ["4"], "output": ["16"]}),
    ],
)
def test_a_price_change(price_set: MakeSet, change: str, expected: dict[str, list[str]]) -> None:
    assert amounts(repriced(price_set(input="2", output="8"), change)) == expected


def test_an_amount_moves_conditional_rows_in_proportion(row: MakeRow) -> None:
    batch, deep = Conditions(batch=True), Conditions(above_input_tokens=200_000)
    rows = (row("output", "8"), row("output", "4", conditions=batch), row("output", "12", conditions=deep))
    found = repriced(PriceSet("test", "m", "USD", rows), "gpt-4.1:output=6")
    assert found is not None
    assert {each.conditions: each.amount for each in found.rows} == {
        Conditions(): Decimal(6),
        batch: Decimal(3),  # 4 × 6/8
        deep: Decimal(9),  # 12 × 6/8
    }


def test_changes_are_applied_in_their_order(price_set: MakeSet) -> None:
    found = price_set(output="8")
    assert amounts(repriced(found, "gpt-4.1:output=10", "gpt-4.1=+20%")) == {"output": ["12"]}
    assert amounts(repriced(found, "gpt-4.1=+20%", "gpt-4.1:output=10")) == {"output": ["10"]}


def test_a_new_price_needs_its_list_and_nothing_else_invents_one() -> None:
    for change in ("gpt-4.1=x2", "gpt-4.1:output=5", "*:output=5"):
        assert repriced(None, change) is None
    made = repriced(
        None, "new-model@relay:input=0.5", "new-model@relay:output=2", model="new-model", price_list="relay"
    )
    assert amounts(made) == {"input": ["0.5"], "output": ["2"]}
    assert made is not None
    assert (made.currency, made.rows[0].source) == ("USD", "scenario")


def test_cache_share_moves_text_input_and_leaves_writes() -> None:
    tokens = {
        "uncached_input_tokens": Fraction(90),
        "cache_read_tokens": Fraction(10),
        "cache_write_5m_tokens": Fraction(7),
    }
    found = Scenario(cache_share=Decimal("0.6"), volume=Decimal("1.5")).tokens(tokens)
    assert found == {"uncached_input_tokens": 60, "cache_read_tokens": 90, "cache_write_5m_tokens": Fraction(21, 2)}
    assert Scenario(cache_share=Decimal(0)).tokens(tokens) == {"uncached_input_tokens": 100, "cache_write_5m_tokens": 7}


@pytest.mark.parametrize(
    ("scenario", "recorded", "expected"),
    [
        (Scenario(), "priority", [(1, "priority", False)]),
        (Scenario(), "batch", [(1, None, True)]),
        (Scenario(tier="flex"), None, [(1, "flex", False)]),
        (Scenario(batch_share=SHARE), "batch", [(Fraction(7, 10), None, False), (Fraction(3, 10), None, True)]),
        (Scenario(batch_share=SHARE, tier="a"), None, [(Fraction(7, 10), "a", False), (Fraction(3, 10), None, True)]),
        (Scenario(batch_share=Decimal(1)), "flex", [(1, None, True)]),
        (Scenario(batch_share=Decimal(0)), "flex", [(1, "flex", False)]),
    ],
)  # fmt: skip
def test_how_work_is_served(scenario: Scenario, recorded: str | None, expected: list[object]) -> None:
    assert list(scenario.served(recorded)) == expected


def test_the_last_that_fits_holds() -> None:
    scenario = scenario_of_options(
        {
            "discount": ["mine=10%", "relay=0.2"],
            "settlement": ["relay=CNY:1", "relay=market"],
            "fx": ["CNY/USD=0.14", "USD/CNY=8"],
        },
        KNOWN,
    )
    assert scenario.discount_of("mine", "openai") == Decimal("0.1")
    assert scenario.discount_of("mine", "relay") == Decimal("0.2")
    assert scenario.discount_of(None, "openai") is None
    assert scenario.settlement_of("relay") == Settlement()
    assert scenario.rate("CNY", "USD") == Fraction(1, 8)
    assert scenario.rate("USD", "CNY") == 8
    assert scenario.rate("USD", "JPY") is None


MODELS = st.sampled_from(["gpt-4.1", "kimi-k2", "gpt-4o", "deepseek-v3.2"])
PLACES = st.sampled_from(["openai", "relay"])
COMPONENTS = st.sampled_from(["input", "output", "cache_read"])
FACTORS = st.decimals("0.01", 4, places=2)
SHARES = st.decimals(0, 1, places=2)
MAPS = st.dictionaries(MODELS, MODELS, max_size=3).map(lambda found: tuple(found.items()))
CHANGES = st.one_of(
    st.builds(PriceChange, MODELS | st.just("gpt-*"), st.none() | COMPONENTS, FACTORS, price_list=st.none() | PLACES),
    st.builds(PriceChange, MODELS, COMPONENTS, amount=FACTORS, price_list=st.none()),
    st.builds(PriceChange, MODELS, COMPONENTS, amount=FACTORS, price_list=PLACES, currency=st.just("USD")),
)
SCENARIOS = st.builds(
    Scenario,
    price=st.lists(CHANGES, max_size=3).map(tuple),
    model_map=MAPS,
    volume=FACTORS,
    cache_share=st.none() | SHARES,
    batch_share=st.none() | SHARES,
    tier=st.sampled_from([None, "flex", "priority"]),
    discount=st.lists(st.tuples(st.sampled_from(["mine", "relay"]), SHARES), max_size=2).map(tuple),
    settlement=st.lists(
        st.tuples(PLACES, st.just(Settlement()) | st.builds(Settlement, st.just("CNY"), FACTORS)), max_size=2
    ).map(tuple),
    fx=st.lists(st.tuples(st.just("CNY"), st.just("USD"), FACTORS), max_size=2).map(tuple),
    at=st.sampled_from([None, AT]),
)
QUANTITIES = st.dictionaries(
    st.sampled_from(["uncached_input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "plain_output_tokens"]),
    st.integers(1, 10**9).map(Fraction),
)


def a_set(amount: Decimal = Decimal(8)) -> PriceSet:
    """Return a set with a plain, a batch and a tiered price."""
    day = AT.date()
    kinds = (Conditions(), Conditions(batch=True), Conditions(above_input_tokens=200_000))
    rows = [
        PriceRow("openai", "gpt-4.1", component, "USD", amount / (at + 1), "", "test", day, conditions=found)
        for component in ("input", "output")
        for at, found in enumerate(kinds)
    ]
    return PriceSet("openai", "gpt-4.1", "USD", tuple(rows))


@given(SCENARIOS, SCENARIOS, QUANTITIES, MODELS, PLACES, st.sampled_from([None, a_set()]))
def test_law_composed_is_one_after_the_other(
    one: Scenario, other: Scenario, tokens: dict[str, Fraction], model: str, price_list: str, found: PriceSet | None
) -> None:
    both = one | other

    def priced(scenario: Scenario, prices: PriceSet | None) -> PriceSet | None:
        return scenario.prices(prices, model=model, price_list=price_list, at=AT)

    assert priced(both, found) == priced(other, priced(one, found))
    assert both.tokens(tokens) == other.tokens(one.tokens(tokens))
    assert both.model(model) == other.model(one.model(model))
    for seller in ("mine", "relay"):
        assert both.discount_of(seller) == next(
            (share for each in (other, one) if (share := each.discount_of(seller)) is not None), None
        )
    assert both.rate("CNY", "USD") == (other.rate("CNY", "USD") or one.rate("CNY", "USD"))


@given(SCENARIOS, SCENARIOS, SCENARIOS)
def test_law_composition_is_associative_and_the_empty_scenario_is_neutral(
    one: Scenario, two: Scenario, three: Scenario
) -> None:
    assert ((one | two) | three) == (one | (two | three))
    assert (Scenario() | one) == one == (one | Scenario())


@given(QUANTITIES, MODELS)
def test_law_an_unchanged_scenario_changes_nothing(tokens: dict[str, Fraction], model: str) -> None:
    nothing = Scenario()
    assert nothing.prices(a_set(), model=model, price_list="openai", at=AT) == a_set()
    assert nothing.prices(None, model=model, price_list="openai", at=AT) is None
    assert nothing.tokens(tokens) == tokens
    assert nothing.model(model) == model


@given(SCENARIOS)
def test_law_what_is_saved_reads_back_as_the_same(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(scenario_to_toml(scenario), encoding="utf-8")
        assert load_scenario(file, KNOWN) == scenario


def test_every_option_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        """
        price = ["deepseek-v3.2:output=+20%", "gpt-4.1=x0.5"]
        map = ["gpt-4.1=kimi-k2"]
        settlement = ["relay=market"]
        discount = ["relay=15%"]
        fx = ["CNY/USD=0.14"]
        volume = 1.5
        cache_share = "60%"
        batch_share = 0.3
        tier = "flex"
        at = 2026-12-01
        """,
        encoding="utf-8",
    )
    assert load_scenario(file, KNOWN) == Scenario(
        price=(PriceChange("deepseek-v3.2", "output", Decimal("1.2")), PriceChange("gpt-4.1", None, Decimal("0.5"))),
        model_map=(("gpt-4.1", "kimi-k2"),),
        volume=Decimal("1.5"),
        cache_share=Decimal("0.6"),
        batch_share=Decimal("0.3"),
        tier="flex",
        discount=(("relay", Decimal("0.15")),),
        settlement=(("relay", Settlement()),),
        fx=(("CNY", "USD", Decimal("0.14")),),
        at=AT,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('price = ["gtp-4.1=x2"]', "price: model 'gtp-4.1' does not exist; did you mean gpt-4.1"),
        ('price = ["zz*=x2"]', "price: no model fits 'zz*'; models that exist: "),
        ('price = ["gpt-4.1:outptu=x2"]', "price: component 'outptu' does not exist; did you mean output?"),
        ('price = ["gpt-4.1@relai=x2"]', "price: price list 'relai' does not exist; did you mean relay?"),
        ('price = ["gpt-4.1=5"]', "price: '5' is an amount, and no component is named; MODEL:COMPONENT=5 is allowed"),
        ('price = ["gpt-4.1:input=0.000002"]', "price: '0.000002' looks like a price of another unit; 0 or 0.0001 to"),
        ('price = ["gpt-4.1=20%"]', "price: '20%' is not allowed; +20%, -20%, x0.5 and an amount per Mtok"),
        ('price = ["gpt-4.1=-101%"]', "price: '-101%' is not allowed; at most -100% is"),
        ('price = ["gpt-4.1=xNaN"]', "price: 'xNaN' is not allowed"),
        ('price = ["gpt-4.1"]', "price: 'gpt-4.1' is not allowed; a text NAME=VALUE is"),
        ("price = [5]", "price: 5 is not allowed; a text NAME=VALUE is"),
        ('price = "gpt-4.1=x2"', "price: 'gpt-4.1=x2' is not allowed; a list of texts is"),
        ('map = ["gpt-4.1=nobody"]', "map: model 'nobody' does not exist"),
        ('map = ["gpt-4.1=gpt-4o", "gpt-4.1=kimi-k2"]', "map: 'gpt-4.1' is mapped more than once"),
        ('tier = "flx"', "tier: 'flx' is no service tier of any list; did you mean flex?"),
        ('tier = "batch"', "tier: 'batch' is no service tier of any list; "),
        ("tier = 5", "tier: 5 is no service tier of any list"),
        ('discount = ["rely=15%"]', "discount: 'rely' is no endpoint and no price list; did you mean relay?"),
        ('discount = ["relay=15"]', "discount: '15' is not allowed; a share of 0 to 1 is, or 0% to 100%"),
        ('settlement = ["relay=CNY=1"]', "settlement: 'relay=CNY' is no endpoint and no price list"),
        ('settlement = ["relay=XYZ:1"]', "settlement: 'XYZ:1' is not allowed; market, none and CURRENCY:RATE are"),
        ('settlement = ["relay=CNY:0"]', "settlement: 'CNY:0' is not allowed"),
        ('fx = ["CNY-USD=1"]', "fx: 'CNY-USD' is no pair of currencies"),
        ('fx = ["USD/USD=1"]', "fx: 'USD/USD' is no pair of currencies"),
        ('fx = ["CNY/USD=0"]', "fx: '0' is not allowed; a factor above 0 is"),
        ("volume = 0", "volume: '0' is not allowed; a factor above 0 is"),
        ("volume = true", "volume: 'True' is not allowed"),
        ("volume = inf", "volume: 'Infinity' is not allowed"),
        ("cache_share = 1.01", "cache_share: '1.01' is not allowed; a share of 0 to 1 is"),
        ("batch_share = -0.1", "batch_share: '-0.1' is not allowed"),
        ("at = 2026-12-01T00:00:00", "at: '2026-12-01 00:00:00' is not allowed; a day (2026-12-01) or an instant with"),
        ('att = "x"', "att: this key is not known; did you mean at? allowed: price, map"),
    ],
)
def test_what_is_not_allowed_is_refused_with_file_line_and_value(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(f"# a scenario\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file, KNOWN)
    assert str(caught.value).startswith(f"s.toml:3: {message}")
    assert caught.value.hint


def test_every_fault_is_reported_and_each_on_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('price = [\n  "gpt-4.1=x2",\n  "gpt=x2",\n]\nvolume = "many"\n', encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file, KNOWN)
    assert [(fault.file, fault.line) for fault in caught.value.faults] == [("s.toml", 3), ("s.toml", 5)]


def test_composed_volumes_and_small_percentages_can_be_saved(tmp_path: Path) -> None:
    scenario = scenario_of_options({"volume": "1.123456789012", "price": ["gpt-4.1=+0.000000000001%"]}, KNOWN)
    file = tmp_path / "s.toml"
    file.write_text(scenario_to_toml(scenario | scenario), encoding="utf-8")
    assert load_scenario(file, KNOWN) == scenario | scenario


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"s.toml: scenario: cannot be read: No such file"):
        load_scenario(tmp_path / "s.toml", KNOWN)
    (tmp_path / "s.toml").write_text("volume = \n", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"s.toml:1: not TOML: "):
        load_scenario(tmp_path / "s.toml", KNOWN)
    (tmp_path / "s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match=r"s.toml: scenario: is not UTF-8 text"):
        load_scenario(tmp_path / "s.toml", KNOWN)


def test_an_option_is_named_in_place_of_a_file() -> None:
    with pytest.raises(ScenarioError, match=r"--cache-share: '2' is not allowed"):
        scenario_of_options({"cache_share": "2"}, KNOWN)


def test_names_are_the_catalogues_or_the_ledgers(catalog: Catalog) -> None:
    options = {"map": ["openai/gpt-4.1=house-model", "house-model=kimi-k2"]}
    found = scenario_of_options(options, Known(catalog, (), ("house-model",)))
    assert found.model_map == (("gpt-4.1", "house-model"), ("house-model", "kimi-k2"))
