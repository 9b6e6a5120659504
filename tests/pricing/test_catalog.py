"""Names, lists and what is in force when, in the bundled catalogue."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, PricingError, UnknownModel, Usage, load_catalog, price_call

AT = datetime(2026, 11, 30, tzinfo=UTC)
OCTOBER = datetime(2026, 10, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("openai/gpt-4o", "gpt-4o"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4.5"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4.5"),
        ("gemini/gemini-2.5-flash", "gemini-2.5-flash"),
        ("moonshotai/kimi-k2-0905-preview", "kimi-k2"),
        ("deepseek-chat", "deepseek-v3.2"),
        # the write-ups' aliases
        ("kimi_8k", "moonshot-v1-8k"),
        ("kimi_32k", "moonshot-v1-32k"),
        ("kimi_128k", "moonshot-v1-128k"),
        ("deepseek_v3", "deepseek-v3.2"),
        ("gemini_flash", "gemini-2.5-flash"),
        ("gpt_4", "gpt-4.1"),
        ("claude_sonnet", "claude-sonnet-4.5"),
        ("gpt-4", "gpt-4"),
    ],
)
def test_names_of_vendors_models(name: str, model: str, catalog: Catalog) -> None:
    assert catalog.resolve(name, "vendor") == model
    assert catalog.find(name) == model


@pytest.mark.parametrize(
    "name", ["kimi_8k", "gpt_4", "openai/gpt-4.1", "relay/gpt-4.1", "claude-sonnet-4-5", "kimi_k2"]
)
def test_a_relay_knows_the_aliases_of_what_it_resells(name: str, catalog: Catalog) -> None:
    assert catalog.resolve(name, "relay") in catalog.models("relay")


@pytest.mark.parametrize(
    ("name", "price_list", "near"),
    [
        ("gpt-4.l", "vendor", "gpt-4.1"),
        ("azure/gpt-4o", "vendor", "gpt-4o"),  # another seller's prices
        ("kimi-k2-turbo-preview", "vendor", "kimi-k2-0905-preview"),  # another model
        ("GPT-4.1", "vendor", None),
        ("deepseek-chat", "relay", None),  # at the vendor it means whatever is current
        ("gpt-4o", "relay", "gpt-4.1"),
        ("claude-sonnet-4.5", "openai", None),
        ("", "vendor", None),
        ("openai/", "vendor", None),
    ],
)
def test_a_near_miss_is_named_and_never_used(name: str, price_list: str, near: str | None, catalog: Catalog) -> None:
    with pytest.raises(UnknownModel, match="does not exist in price list") as caught:
        catalog.resolve(name, price_list)
    assert near is None or near in caught.value.near
    assert caught.value.hint is not None
    assert "models that exist: " in caught.value.hint


@given(st.text(max_size=12) | st.sampled_from(["gpt-4.1", "kimi-k2"]).map(lambda name: name + "x"))
def test_law_only_listed_names_resolve(name: str) -> None:
    catalog = load_catalog()
    try:
        model = catalog.find(name)
    except UnknownModel:
        return
    info = catalog.info(model)
    assert name.rpartition("/")[2] in {model, info.wire_id, *info.aliases}


def test_an_unknown_list_is_named_with_those_that_exist(catalog: Catalog) -> None:
    with pytest.raises(PricingError, match="price list: 'opnai' does not exist; did you mean 'openai'") as caught:
        catalog.models("opnai")
    assert "relay" in str(caught.value.hint)


def test_lists_and_vendors(catalog: Catalog) -> None:
    assert set(catalog.lists) >= {"openai", "anthropic", "google", "deepseek", "moonshot", "relay"}
    vendors = {model: catalog.vendor_list(model) for model in catalog.models("vendor")}
    assert vendors["gpt-4.1-nano"] == "openai"
    assert vendors["kimi-k2.5"] == "moonshot"
    assert catalog.list_info("relay").kind == "relay"
    assert {catalog.list_info(name).currency for name in catalog.lists} == {"USD", "CNY"}


def test_info_at_the_vendor_and_at_a_relay(catalog: Catalog) -> None:
    own = catalog.info("deepseek_v3")
    resold = catalog.info("deepseek_v3", "relay")
    assert (own.wire_id, own.context_window_tokens, own.max_output_tokens) == ("deepseek-chat", 131_072, 8_192)
    assert (resold.wire_id, resold.context_window_tokens) == ("deepseek-v3.2", 131_072)
    assert "tools" in resold.capabilities
    assert catalog.info("gpt-4.1-nano").announced_shutdown == date(2026, 10, 23)


@pytest.mark.parametrize(
    ("model", "rates"),
    [
        ("gpt-4.1", ("2", "0.5", "8")),
        ("gpt-4.1-mini", ("0.4", "0.1", "1.6")),
        ("gpt-4.1-nano", ("0.1", "0.025", "0.4")),
        ("gpt-4o", ("2.5", "1.25", "10")),
        ("gpt-4o-mini", ("0.15", "0.075", "0.6")),
        ("gpt-4", ("30", None, "60")),
        ("claude-sonnet-4.5", ("3", "0.3", "15")),
        ("gemini-2.5-flash", ("0.3", "0.03", "2.5")),
        ("kimi-k2", ("0.6", "0.15", "2.5")),
        ("kimi-k2.5", ("0.6", "0.1", "3")),
        ("moonshot-v1-8k", ("0.2", None, "2")),
        ("moonshot-v1-32k", ("1", None, "3")),
        ("moonshot-v1-128k", ("2", None, "5")),
        ("deepseek-v3.2", ("0.28", "0.028", "0.42")),
    ],
)
def test_plain_prices_at_the_vendor(model: str, rates: tuple[str | None, ...], catalog: Catalog) -> None:
    prices = catalog.price_set(model, "vendor", AT, last_list=True)
    assert prices is not None
    found = {row.component: row.amount for row in prices.rows if row.conditions.specificity == 0}
    assert [found.get(name) for name in ("input", "cache_read", "output")] == [rate and Decimal(rate) for rate in rates]


@pytest.mark.parametrize(
    ("model", "amount"),
    [
        ("kimi-k2", "2.50"),
        ("deepseek-v3.2", "0.42"),
        ("gpt-4.1", "8.00"),
        ("claude-sonnet-4.5", "15.00"),
        ("gemini-2.5-flash", "2.50"),
        ("moonshot-v1-8k", "1.20"),
    ],
)
def test_the_relay_has_output_prices_only(model: str, amount: str, catalog: Catalog) -> None:
    prices = catalog.price_set(model, "relay", AT)
    assert prices is not None
    assert [(row.component, row.amount) for row in prices.rows] == [("output", Decimal(amount))]
    cost = price_call(Usage(uncached_input_tokens=1, plain_output_tokens=1_000_000), prices, at=AT)
    assert (cost.status, cost.total, cost.unpriced) == ("partial", Decimal(amount), ("input",))


def test_a_model_without_prices_at_the_relay_is_known_and_unpriced(catalog: Catalog) -> None:
    assert catalog.price_set("kimi_32k", "relay", AT) is None


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("kimi-k2", "2026-05-25"),
        ("deepseek-v3.2", "2026-07-24"),
        ("kimi-k2.5", "2026-08-31"),
        ("kimi_8k", "2026-08-31"),
    ],
)
def test_a_retired_model_is_unpriced_from_its_end_unless_the_last_list_is_asked_for(
    model: str, end: str, catalog: Catalog
) -> None:
    instant = datetime.fromisoformat(end).replace(tzinfo=UTC)
    before = catalog.price_set(model, "vendor", instant - timedelta(microseconds=1), last_list=True)
    assert before is not None
    assert before.retired_at is None
    assert catalog.price_set(model, "vendor", instant) is None
    last = catalog.price_set(model, "vendor", instant, last_list=True)
    assert last is not None
    assert (last.retired_at, last.rows) == (instant, before.rows)
    assert catalog.price_set(model, "vendor", AT, last_list=True) is last


@pytest.mark.parametrize("model", ["gpt-4.1-nano", "gpt-4", "claude-sonnet-4.5", "gemini-2.5-flash"])
def test_an_announced_end_does_not_close_a_list(model: str, catalog: Catalog) -> None:
    prices = catalog.price_set(model, "vendor", datetime(2027, 1, 1, tzinfo=UTC), last_list=True)
    assert prices is not None
    assert prices.retired_at is None


def test_before_the_first_row_nothing_is_in_force(catalog: Catalog) -> None:
    assert catalog.price_set("gpt-4o", "vendor", datetime(2024, 10, 1, tzinfo=UTC), last_list=True) is None
    assert catalog.price_set("gpt-4o", "vendor", datetime(2024, 10, 2, tzinfo=UTC)) is not None


def test_the_instant_counts_not_the_day(catalog: Catalog) -> None:
    beijing = timezone(timedelta(hours=8))
    assert catalog.price_set("kimi-k2", "vendor", datetime(2026, 5, 25, 7, 59, tzinfo=beijing)) is not None
    assert catalog.price_set("kimi-k2", "vendor", datetime(2026, 5, 25, 8, 0, tzinfo=beijing)) is None
    with pytest.raises(PricingError, match="has no zone"):
        catalog.price_set("kimi-k2", "vendor", datetime(2026, 5, 25))  # noqa: DTZ001 - that is the case


def test_sonnets_long_context_prices_end_with_the_beta(catalog: Catalog) -> None:
    usage = Usage(uncached_input_tokens=300_000, plain_output_tokens=1_000_000)
    instants = (datetime(2026, 4, 30, 23, 59, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC))
    totals = [price_call(usage, catalog.price_set("claude_sonnet", "vendor", at), at=at).total for at in instants]
    # 0.3 × 6 + 22.5 while it lasted, 0.3 × 3 + 15 after
    assert totals == [Decimal("24.3"), Decimal("15.9")]


def test_r6_the_model_that_served_is_priced(catalog: Catalog) -> None:
    usage = Usage(uncached_input_tokens=176, cache_read_tokens=1024, plain_output_tokens=20)
    cost = price_call(usage, catalog.price_set("gpt-4o-mini", "vendor", AT), at=AT)
    # 176 × 0.15 + 1,024 × 0.075 + 20 × 0.6 = 26.4 + 76.8 + 12 = 115.2 per Mtok
    assert (cost.status, cost.total) == ("exact", Decimal("0.0001152"))


def test_r1_the_cheapest_of_three_prefixed_names(catalog: Catalog) -> None:
    usage = Usage(uncached_input_tokens=1000, plain_output_tokens=100)
    totals = {
        name: price_call(usage, catalog.price_set(name, "vendor", AT), at=AT).total or Decimal("Infinity")
        for name in ("openai/gpt-4o", "openai/gpt-4o-mini", "openai/gpt-4.1-nano")
    }
    # per Mtok: 2,500 + 1,000; 150 + 60; 100 + 40
    assert totals == {
        "openai/gpt-4o": Decimal("0.0035"),
        "openai/gpt-4o-mini": Decimal("0.00021"),
        "openai/gpt-4.1-nano": Decimal("0.00014"),
    }


@pytest.mark.parametrize(
    ("orchestrator", "worker", "total_times_six"),
    # S6: 3.2M output tokens, 1/6 orchestrator and 5/6 worker; six times the total is 3.2 × (price + 5 × price).
    [
        ("gpt-4.1", "gpt-4.1", "153.6"),  # 25.60 × 6
        ("kimi-k2", "deepseek-v3.2", "14.72"),  # 2.4533… × 6
        ("kimi-k2", "claude-sonnet-4.5", "248"),  # 41.3333… × 6
        ("kimi-k2", "gemini-2.5-flash", "48"),  # 8.00 × 6
    ],
)
@pytest.mark.parametrize("price_list", ["vendor", "relay"])
def test_s6_monthly_totals(
    orchestrator: str, worker: str, total_times_six: str, price_list: str, catalog: Catalog
) -> None:
    total = Decimal(0)
    for model, share in ((orchestrator, 1), (worker, 5)):
        prices = catalog.price_set(model, price_list, AT, last_list=True)
        total += price_call(Usage(plain_output_tokens=3_200_000 * share), prices, at=AT).total or Decimal("NaN")
    assert total == Decimal(total_times_six)


def test_the_kimi_trace_month_at_gpt_4_1_has_no_conditional_price(catalog: Catalog) -> None:
    prices = catalog.price_set("gpt-4.1", "vendor", OCTOBER)
    cost = price_call(Usage(uncached_input_tokens=144_762_015, plain_output_tokens=4_130_000), prices, at=OCTOBER)
    assert cost.total == Decimal("322.564030")  # 144.762015 × 2 + 4.13 × 8 = 289.52403 + 33.04


def test_every_bundled_row_says_where_it_is_from(catalog: Catalog) -> None:
    for _, placed in catalog.placed_rows():
        assert placed.row.url.startswith("https://")
        assert placed.row.source
        assert placed.row.checked <= catalog.checked
    assert catalog.checked == date(2026, 11, 30)


def test_history_keeps_closed_rows(catalog: Catalog) -> None:
    assert [row.amount for row in catalog.history("kimi-k2")] == [Decimal("0.6"), Decimal("0.15"), Decimal("2.5")]


def test_the_bundled_catalogue_is_loaded_once_and_equal_content_has_one_digest() -> None:
    assert load_catalog() is load_catalog()
    assert load_catalog().digest == load_catalog((), {"prices": []}).digest
    inline = {"prices": [{"model": "x", "input": "1", "source": "me", "checked": date(2026, 1, 1)}]}
    assert load_catalog(inline=inline).digest != load_catalog().digest


def test_importing_pricing_loads_nothing_heavy() -> None:
    code = "import json, sys, pricing; pricing.load_catalog(); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"babel", "pydantic", "litellm", "genai_prices", "pandas", "numpy", "sqlalchemy", "aiohttp"}
    heavy |= {"currency_converter"}
    assert not heavy & set(json.loads(done.stdout))


# The cache. Each load below is a process of its own, as what is loaded once stays in memory.

OVERLAY = """
[[models]]
list = "custom"
id = "mine"
aliases = ["my-model"]
announced_shutdown = 2027-01-02
[[prices]]
model = "mine"
input = "1.50"
output = "2.0000001"
effective_from = 2026-01-01T02:00:00+02:00
when = { service_tier = "default", weekdays = [1], windows_utc = ["22:00-02:00"], holidays = [2026-10-01] }
source = "contract; \u00a7 7"
checked = 2026-12-01
[[prices]]
model = "gpt-4.1"
input = "1"
source = "contract"
checked = 2026-11-01
"""

SHOW = """
import sys, tomllib
from decimal import Decimal
from pathlib import Path
from pricing import CatalogError, load_catalog
inline = {"prices": tomllib.loads(sys.argv[2], parse_float=Decimal)["prices"]} if sys.argv[2] else None
try:
    catalog = load_catalog([Path(sys.argv[1])], inline)
except CatalogError as error:
    print(*error.faults, sep="\\n")
else:
    print(catalog.digest, catalog.checked, catalog.lists, catalog.resolve("my-model"), catalog.find("claude_sonnet"))
    print(catalog.info("mine"), catalog.info("gpt-4.1", "relay"))
    for layer, placed in catalog.placed_rows():
        if sys.argv[3] == "all" or placed.row.model == "mine":
            print(layer, placed.row, placed.citation, placed.place.fault("here"), placed.place.path)
"""


def shown(overlay: Path, cache: Path, inline: str = "", rows: str = "its own") -> str:
    command = [sys.executable, "-c", SHOW, str(overlay), inline, rows]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)}
    )
    return done.stdout


def kept(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.cache"), key=lambda file: file.stat().st_size)


def test_a_catalogue_from_the_cache_says_what_the_files_say(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY, encoding="utf-8")
    cold = shown(overlay, cache, rows="all")
    assert len(kept(cache)) == 2  # the bundled files alone, and with the overlay
    before = {file: file.stat().st_mtime_ns for file in kept(cache)}
    assert shown(overlay, cache, rows="all") == cold
    assert {file: file.stat().st_mtime_ns for file in kept(cache)} == before
    assert "Decimal('2.0000001')" in cold
    assert "mine.toml:10: here ('prices', 0, 'output')" in cold
    assert " 2026-12-01 (" in cold  # the newest day a source was read


def test_the_cache_is_what_a_second_load_reads(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY, encoding="utf-8")
    shown(overlay, cache)
    file = kept(cache)[-1]
    content = file.read_bytes().partition(b"\n")[2].replace(b'"2.0000001"', b'"9.0000001"')
    file.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    assert "Decimal('9.0000001')" in shown(overlay, cache)
    overlay.write_text(OVERLAY.replace("2.0000001", "3.5"), encoding="utf-8")
    assert "Decimal('3.5')" in shown(overlay, cache)


def test_a_damaged_cache_is_read_over_in_silence(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY, encoding="utf-8")
    cold = shown(overlay, cache)
    whole = {file: file.read_bytes() for file in kept(cache)}
    changed = {file: content.replace(b'"2.0000001"', b'"9.0000001"') for file, content in whole.items()}
    assert changed != whole
    for damaged in (changed, dict.fromkeys(whole, b""), {file: content[:-40] for file, content in whole.items()}):
        for file, content in damaged.items():
            file.write_bytes(content)
        assert shown(overlay, cache) == cold
        assert {file: file.read_bytes() for file in kept(cache)} == whole  # made again


def test_without_a_place_for_a_cache_all_is_as_ever(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY, encoding="utf-8")
    (tmp_path / "no folder").write_text("a file", encoding="utf-8")
    assert shown(overlay, tmp_path / "no folder" / "cache") == shown(overlay, cache)


def test_inline_rows_are_laid_over_a_cached_catalogue_alike(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY, encoding="utf-8")
    inline = '[[prices]]\nmodel = "my-model"\nlist = "custom"\ncache_read = "7"\nsource = "me"\nchecked = 2026-12-05\n'
    first, second = (shown(overlay, cache, inline) for _ in range(2))
    assert first == second
    assert "model='mine', component='cache_read'" in first
    assert " 2026-12-05 (" in first
    tie = inline + inline
    assert shown(overlay, cache, tie) == shown(overlay, tmp_path / "other", tie)
    assert "cache_read of 'mine': overlaps the row at router.toml" in shown(overlay, cache, tie)


def test_files_with_faults_are_not_kept(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    overlay.write_text(OVERLAY.replace('"1.50"', '"-1"'), encoding="utf-8")
    for _ in range(2):
        assert shown(overlay, cache) == "mine.toml:9: input: '-1' is not allowed; 0 or more is\n"
        assert len(kept(cache)) == 1


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    overlay, cache = tmp_path / "mine.toml", tmp_path / "cache"
    folder = cache / "farebox" / "catalogues"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number}.cache").write_text("old", encoding="utf-8")
    overlay.write_text(OVERLAY, encoding="utf-8")
    shown(overlay, cache)
    assert len(kept(cache)) == 8
