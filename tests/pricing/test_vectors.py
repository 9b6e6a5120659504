"""Cases from the field: a provider's own usage and prices, and the right cost, line by line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing import Conditions, PriceRow, PriceSet, extract_usage, price_call
from pricing.extract import EXTRACTORS
from pricing.prices import UNITS

FILE = Path(__file__).parents[2].parent / "shared" / "cases" / "pricing_vectors.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["vectors"] if FILE.is_file() else []
NAMES = {name: name for name in UNITS} | {"web_search_per_1k": "web_search"}


def rows_of(rates: dict[str, Any], conditions: Conditions) -> list[PriceRow]:
    return [
        PriceRow("v", "m", NAMES[name], "USD", Decimal(amount), "", "vector", date(2026, 11, 30), conditions=conditions)
        for name, amount in rates.items()
        if name in NAMES
    ]


def minutes(window: str) -> tuple[int, int]:
    start, end = (int(part[:2]) * 60 + int(part[3:]) for part in window.split("-"))
    return start, end


def prices_of(vector: dict[str, Any], at: datetime) -> PriceSet | None:
    price = vector["price"]
    if price is None:
        return None
    for step in vector.get("price_history", []):
        if datetime.fromisoformat(step["effective_from"]) <= at:
            price = {**price, **step}
    plain = price
    rows = []
    if "off_peak" in price:
        windows = tuple(minutes(window) for window in price["peak_windows_utc"])
        peak = Conditions(weekdays=tuple(price.get("peak_weekdays", ())), windows_utc=windows)
        rows += rows_of(price, peak)
        plain = price["off_peak"]
    rows += rows_of(plain, Conditions())
    for tier in price.get("tiers", []):
        above = Conditions(above_input_tokens=tier["above_input_tokens"], inclusive=tier.get("inclusive", False))
        rows += rows_of(tier, above)
    for name, rates in price.get("service_tiers", {}).items():
        rows += rows_of(rates, Conditions(batch=True) if name == "batch" else Conditions(service_tier=name))
    return PriceSet("v", "m", "USD", tuple(rows))


def test_the_cases_are_there(shared: Path) -> None:
    assert len(VECTORS) == 20, f"{shared.name}/cases/pricing_vectors.json"


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    if vector["api"] not in EXTRACTORS or "output_items" in vector:
        pytest.skip(f"usage of {vector['api']} is not read yet, or not with output items")
    at = datetime.fromisoformat(vector.get("request_time", "2026-11-30T00:00:00+00:00")).astimezone(UTC)
    usage = extract_usage(vector["api"], vector["usage"])
    tier = vector.get("response", {}).get("service_tier")
    cost = price_call(usage, prices_of(vector, at), at=at, service_tier=tier)
    lines = {line.component: line.amount for line in cost.lines if line.amount}
    assert lines == {name: Decimal(amount) for name, amount in vector["expected_lines"].items()}
    expected = vector["expected_total"]
    assert cost.total == (None if expected is None else Decimal(expected))
    assert cost.status == ("unknown" if expected is None else "exact")
    assert str(cost.total) not in vector.get("trap", {}).values()
