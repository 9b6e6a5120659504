"""Data sets read as candidates, held against the catalogue, and taken over into a user's price file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing import Catalog, Conditions, PricingError, UnknownModel, Usage, load_catalog, price_call
from pricing.sources import DataSet, Entry, ImportPlan, Offer, compare, plan_import, read_genai_prices, read_litellm

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = datetime(2026, 12, 10, tzinfo=UTC)
MILLION = Usage(1_000_000)


def write(folder: Path, **entries: dict[str, Any]) -> Path:
    """Write a price file of litellm's shape; numbers are given as JSON text."""
    file = folder / "prices.json"
    tables = (
        f'"{name}": {{"litellm_provider": "openai", '
        + ", ".join(f'"{key}": {value}' for key, value in table.items())
        + "}"
        for name, table in entries.items()
    )
    file.write_text("{" + ", ".join(tables) + "}", encoding="utf-8")
    return file


def offers_of(data: DataSet, entry: str) -> dict[tuple[str, str], Decimal]:
    (found,) = [each for each in data.entries if each.id == entry]
    return {(offer.component, str(offer.conditions.to_json())): offer.amount for offer in found.offers}


def test_litellms_keys_become_components_and_conditions(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        m={
            "input_cost_per_token": "2e-06",
            "input_cost_per_token_batches": "1e-06",
            "input_cost_per_token_above_272k_tokens_priority": "7e-06",
            "cache_creation_input_token_cost_above_1hr": "4e-06",
            "cache_creation_input_token_cost_above_12hr": "9e-06",
            "output_cost_per_second": "0.1",
            "source": '"https://example.com/prices"',
            "max_input_tokens": "1000",
        },
    )
    data = read_litellm(NOON, file)
    assert offers_of(data, "m") == {
        ("input", "{}"): 2,
        ("input", "{'batch': True}"): 1,
        ("input", "{'service_tier': 'priority', 'above_input_tokens': 272000}"): 7,
        ("cache_write_1h", "{}"): 4,
    }
    (entry,) = data.entries
    assert entry.left_out == ("cache_creation_input_token_cost_above_12hr", "output_cost_per_second")
    assert (entry.url, entry.context_window_tokens) == ("https://example.com/prices", 1000)


def test_float_noise_is_rounded_at_12_decimals_and_reported(tmp_path: Path) -> None:
    # 2.2499999999999997e-07 a token is 0.22499999999999997 per Mtok: 0.225 to 12 decimals. 3.625e-09 is exact.
    file = write(
        tmp_path, m={"input_cost_per_token": "2.2499999999999997e-07", "cache_read_input_token_cost": "3.625e-09"}
    )
    data = read_litellm(NOON, file)
    assert offers_of(data, "m") == {("input", "{}"): Decimal("0.225"), ("cache_read", "{}"): Decimal("0.003625")}
    (noted,) = data.roundings
    assert (noted.entry, noted.key, noted.rounded) == ("m", "input_cost_per_token", Decimal("0.225"))
    assert noted.stated == Decimal("0.22499999999999997")


@pytest.mark.parametrize("value", ["-1e-06", '"2e-06"', "true", "null", "[1]", "{}"])
def test_what_is_no_price_gives_none(value: str, tmp_path: Path) -> None:
    data = read_litellm(NOON, write(tmp_path, m={"input_cost_per_token": value}))
    assert offers_of(data, "m") == {}


@pytest.mark.parametrize(("text", "said"), [("[]", "is not litellm's price file"), ("{", "it is not JSON")])
def test_a_file_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(text, encoding="utf-8")
    with pytest.raises(PricingError, match=said):
        read_litellm(NOON, tmp_path / "prices.json")


def test_xais_thresholds_are_inclusive_and_others_strict() -> None:
    data = read_litellm(NOON)
    assert offers_of(data, "xai/grok-4.5")["input", "{'above_input_tokens': 200000, 'inclusive': True}"] == 4
    assert offers_of(data, "gemini/gemini-2.5-pro")["input", "{'above_input_tokens': 200000}"] == Decimal("2.5")


@pytest.mark.parametrize(
    ("at", "amount"),
    [
        ("2026-11-16T00:59", "0.15"),  # Monday
        ("2026-11-16T01:00", "0.3"),
        ("2026-11-16T03:59", "0.3"),
        ("2026-11-16T04:00", "0.15"),
        ("2026-11-16T10:00", "0.15"),
        ("2026-11-14T02:30", "0.15"),  # Saturday
    ],
)
def test_deepseeks_clock_is_read_and_agrees_with_the_catalogue(at: str, amount: str, catalog: Catalog) -> None:
    instant = datetime.fromisoformat(at).replace(tzinfo=UTC)
    data = read_litellm(instant)
    assert offers_of(data, "deepseek/deepseek-flash")["input", "{}"] == Decimal(amount)
    found = compare(data, catalog, {"deepseek-flash"})
    assert {each.offer.component for each in found.differences} == {
        "cache_write_5m"
    }  # it says 0; the page says nothing


@pytest.mark.parametrize(
    ("at", "model", "amount"),
    [
        ("2026-07-15T02:00", "deepseek-v4-flash", "0.14"),
        ("2026-08-16T15:59", "deepseek-v4-flash", "0.14"),
        ("2026-08-16T16:00", "deepseek-v4-flash", "0.22"),
        ("2026-08-18T02:30", "deepseek-v4-flash", "0.44"),
        ("2026-08-22T02:30", "deepseek-v4-flash", "0.44"),  # a Saturday before week-ends were off-peak
        ("2026-08-29T02:30", "deepseek-v4-flash", "0.22"),  # a Saturday after
        ("2026-11-16T02:30", "deepseek-v4-flash", "0.3"),
        ("2026-11-14T02:30", "deepseek-flash", "0.15"),
        ("2026-08-20T12:00", "gpt-5.6-sol", "5"),
        ("2026-08-21T00:00", "gpt-5.6-sol", "4"),
        ("2025-06-09T23:59", "o3", "10"),
        ("2025-06-10T00:00", "o3", "2"),
        ("2026-12-31T23:59", "gemini-3.6-flash", "0.75"),
        ("2027-01-01T00:00", "gemini-3.6-flash", "1.5"),
        ("2026-11-30T12:00", "gpt-4o-2024-05-13", "5"),
    ],
)
def test_the_catalogue_has_the_price_of_the_instant(at: str, model: str, amount: str, catalog: Catalog) -> None:
    instant = datetime.fromisoformat(at).replace(tzinfo=UTC)
    prices = catalog.price_set(model, "vendor", instant)
    cost = price_call(Usage(1), prices, at=instant)
    assert cost.lines[0].unit_amount == Decimal(amount)


@pytest.mark.parametrize(
    ("tokens", "model", "dollars"),
    [
        (32_000, "qwen3-max", "1.2"),
        (32_001, "qwen3-max", "2.4"),
        (128_001, "qwen3-max", "3"),
        (256_001, "qwen3-coder-plus", "6"),
        (199_999, "grok-4.5", "2"),
        (200_000, "grok-4.5", "4"),
        (200_000, "gemini-2.5-pro", "1.25"),
        (200_001, "gemini-2.5-pro", "2.5"),
        (272_001, "gpt-5.4", "5"),
        (100_001, "claude-haiku-5.5", "0.5"),
    ],
)
def test_an_input_range_moves_the_whole_request(tokens: int, model: str, dollars: str, catalog: Catalog) -> None:
    cost = price_call(Usage(tokens), catalog.price_set(model, "vendor", NOON), at=NOON)
    assert cost.total == tokens * Decimal(dollars) / 10**6


def test_the_yuan_list_is_its_own(catalog: Catalog) -> None:
    # The case: 2,000 uncached, 8,000 cached, 1,000 out: 0.04 + 0.016 + 0.1 CNY.
    usage = Usage(uncached_input_tokens=2_000, cache_read_tokens=8_000, plain_output_tokens=1_000)
    cost = price_call(usage, catalog.price_set("kimi-k3", "moonshot-cn", NOON), at=NOON)
    assert (cost.total, cost.currency) == (Decimal("0.156"), "CNY")
    assert catalog.vendor_list("kimi-k3") == "moonshot"


def test_one_model_at_several_relays(catalog: Catalog) -> None:
    # S9: 1 − 8/11.4 = 29.8 %, 1 − 15/21 = 28.6 %, 1 − 2.5/3.75 = 33.3 %, 1 − 0.42/0.65 = 35.4 %.
    output = Usage(plain_output_tokens=1_000_000)

    def cost(model: str, price_list: str) -> Decimal:
        return price_call(output, catalog.price_set(model, price_list, NOON), at=NOON).total or Decimal(0)

    models = ("gpt-4.1", "claude-sonnet-4.5", "gemini-2.5-flash", "deepseek-v3.2")
    saved = [round(100 * (1 - cost(model, "relay") / cost(model, "relay-other")), 1) for model in models]
    assert saved == [Decimal("29.8"), Decimal("28.6"), Decimal("33.3"), Decimal("35.4")]


@pytest.mark.parametrize(
    ("name", "price_list", "model"),
    [
        ("gpt-4.1-2027-02-28", "vendor", "gpt-4.1"),
        ("openai/gpt-4.1-2027-02-28", "vendor", "gpt-4.1"),
        ("claude-opus-4-5-20270101", "vendor", "claude-opus-4.5"),
        ("gpt-4.1-2027-02-28", "relay", "gpt-4.1"),
        ("gpt-4o-2024-05-13", "vendor", "gpt-4o-2024-05-13"),  # a model of its own, at another price
        ("qwen-plus-2025-07-28", "vendor", "qwen-plus-2025-07-28"),
    ],
)
def test_a_day_behind_a_name_is_left_out(name: str, price_list: str, model: str, catalog: Catalog) -> None:
    assert catalog.resolve(name, price_list) == model


@pytest.mark.parametrize(
    "name", ["gpt-4.1-2027-13-01", "gpt-4.1-20270228x", "gpt-4.1-2027", "gpt-4.1-2027-0228", "nothing-2027-02-28"]
)
def test_what_is_no_day_is_no_name(name: str, catalog: Catalog) -> None:
    with pytest.raises(UnknownModel, match="does not exist"):
        catalog.resolve(name)


def test_a_day_is_not_left_out_where_another_list_has_the_snapshot(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        '[[prices]]\nlist = "relay"\nmodel = "gpt-4o"\ninput = "9"\nsource = "us"\nchecked = 2026-11-01\n', "utf-8"
    )
    catalog = load_catalog([tmp_path / "p.toml"])
    assert catalog.resolve("gpt-4o-2027-01-01", "relay") == "gpt-4o"
    with pytest.raises(UnknownModel):
        catalog.resolve("gpt-4o-2024-05-13", "relay")


def test_genai_prices_agrees_on_most_and_differs_where_it_is_known_to(catalog: Catalog) -> None:
    found = compare(read_genai_prices(NOON), catalog)
    assert found.agreed > 1000
    long = [each for each in found.differences if each.offer.conditions.boundary]
    differ = {(each.model, each.offer.component) for each in long if each.offer.conditions.service_tier != "fast"}
    assert differ == {
        ("claude-sonnet-4.5", name) for name in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    }  # the window is 200,000 now; before 2026-05-01 both have the tier
    before = compare(read_genai_prices(datetime(2026, 4, 30, tzinfo=UTC)), catalog, {"claude-sonnet-4.5"})
    assert before.differences == ()


def one(offer: Offer, model: str = "gpt-4.1", price_list: str = "openai", at: datetime = LATER) -> DataSet:
    return DataSet("their data", "7", at, (Entry(f"e/{model}", price_list, (model,), (offer,), "https://example.com"),))


def plan(data: DataSet, folder: Path, *, with_new: bool = False, starts: datetime = LATER) -> ImportPlan:
    file = folder / "imported.toml"
    text = file.read_text("utf-8") if file.exists() else ""
    catalog = load_catalog([folder])
    made = plan_import(
        compare(data, catalog), catalog.placed_rows(), text, starts=starts, checked=date(2026, 12, 1), with_new=with_new
    )
    file.write_text(made.text, encoding="utf-8")
    return made


def dollars(folder: Path, model: str, at: datetime) -> Decimal | None:
    return price_call(MILLION, load_catalog([folder]).price_set(model, "vendor", at), at=at).total


def test_a_new_price_holds_from_its_instant_and_the_past_keeps_its_own(tmp_path: Path) -> None:
    made = plan(one(Offer("input", Decimal("1.8"))), tmp_path)
    (added,) = made.additions
    assert added.replaces is not None
    assert (added.row.amount, added.replaces.amount) == (Decimal("1.8"), Decimal(2))
    before = LATER.replace(day=9, hour=23, minute=59)
    assert [dollars(tmp_path, "gpt-4.1", at) for at in (NOON, before, LATER)] == [2, 2, Decimal("1.8")]


def test_a_second_import_closes_the_first_and_changes_nothing_before(tmp_path: Path) -> None:
    two = Entry(
        "e",
        "openai",
        ("gpt-4.1",),
        (Offer("input", Decimal("1.8")), Offer("output", Decimal(7))),
        "https://example.com",
    )
    plan(DataSet("their data", "7", LATER, (two,)), tmp_path)
    text = (tmp_path / "imported.toml").read_text("utf-8")
    third = datetime(2027, 1, 5, tzinfo=UTC)
    made = plan(one(Offer("input", Decimal("1.5")), at=third), tmp_path, starts=third)
    after = (tmp_path / "imported.toml").read_text("utf-8")
    assert {row.component for row in made.closed} == {"input", "output"}  # they stand in one block
    assert [line for line in text.splitlines() if line not in after.splitlines()] == []
    days = (NOON, LATER, datetime(2027, 1, 4, tzinfo=UTC), third)
    assert [dollars(tmp_path, "gpt-4.1", at) for at in days] == [2, Decimal("1.8"), Decimal("1.8"), Decimal("1.5")]
    prices = load_catalog([tmp_path]).price_set("gpt-4.1", "vendor", third)
    assert price_call(Usage(plain_output_tokens=1_000_000), prices, at=third).total == 7  # carried on
    assert (
        plan(one(Offer("input", Decimal("1.5")), at=third), tmp_path, starts=third).text == after
    )  # nothing left to do


def test_an_announced_change_is_not_hidden_by_an_imported_row(tmp_path: Path) -> None:
    plan(one(Offer("input", Decimal("0.7")), "gemini-3.6-flash", "google"), tmp_path)
    days = (LATER, datetime(2027, 1, 1, tzinfo=UTC))
    assert [dollars(tmp_path, "gemini-3.6-flash", at) for at in days] == [Decimal("0.7"), Decimal("1.5")]


def test_a_row_of_the_users_own_stands(tmp_path: Path) -> None:
    (tmp_path / "contract.toml").write_text(
        '[[prices]]\nmodel = "gpt-4.1"\ninput = "1.2"\nsource = "contract"\nchecked = 2026-11-01\n', "utf-8"
    )
    made = plan(one(Offer("input", Decimal("1.8"))), tmp_path)
    assert (made.additions, made.text) == ((), "")
    assert [each.reason for each in made.skipped] == ["a row of your own in contract.toml stands"]
    assert dollars(tmp_path, "gpt-4.1", LATER) == Decimal("1.2")


@pytest.mark.parametrize(
    ("offer", "model", "price_list", "reason"),
    [
        (Offer("input", Decimal(9), clocked=True), "gpt-4.1", "openai", "depends on the clock"),
        (Offer("input", Decimal(9)), "deepseek-flash", "deepseek", None),
        (Offer("input", Decimal("0.000002")), "gpt-4.1", "openai", "looks like a price of another unit"),
        (
            Offer("input", Decimal(9), Conditions(above_input_tokens=252_000)),
            "gpt-4.1",
            "openai",
            "no context threshold",
        ),
    ],
)
def test_what_cannot_be_a_row_is_left_and_said(
    offer: Offer, model: str, price_list: str, reason: str | None, tmp_path: Path
) -> None:
    made = plan(one(offer, model, price_list), tmp_path)
    assert bool(made.additions) == (reason is None)
    assert all(reason is not None and reason in each.reason for each in made.skipped)
    assert bool(made.skipped) == (reason is not None)


def test_a_peak_price_is_never_replaced_by_a_flat_one(tmp_path: Path) -> None:
    peak = datetime(2026, 12, 10, 2, tzinfo=UTC)  # a Thursday
    made = plan(one(Offer("input", Decimal(9)), "deepseek-flash", "deepseek", at=peak), tmp_path, starts=peak)
    assert made.additions == ()
    assert "depends on the clock" in made.skipped[0].reason


def test_new_models_are_added_only_on_request(tmp_path: Path) -> None:
    data = one(Offer("input", Decimal(3)), 'odd "name"')
    assert plan(data, tmp_path).additions == ()
    made = plan(data, tmp_path, with_new=True)
    assert [entry.id for entry in made.models] == ['e/odd "name"']
    assert dollars(tmp_path, 'odd "name"', LATER) == 3


@pytest.mark.parametrize("reader", [read_litellm, read_genai_prices])
def test_everything_a_data_set_says_can_be_taken_over(reader: Any, tmp_path: Path) -> None:
    data = reader(LATER)
    made = plan(data, tmp_path, with_new=True)
    assert len(made.additions) > 100
    left = compare(data, load_catalog([tmp_path]))
    assert left.unknown == () or all(not entry.offers for entry in left.unknown) or made.skipped
    skipped = {(each.model, each.component) for each in made.skipped}
    assert {(each.model, each.offer.component) for each in left.differences} - skipped == set()


def test_the_reader_needs_no_import_of_litellm() -> None:
    import subprocess
    import sys

    code = (
        "import sys, json; from datetime import datetime, UTC; from pricing.sources import read_litellm; "
        "read_litellm(datetime.now(UTC)); print(json.dumps('litellm' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
