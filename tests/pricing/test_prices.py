"""Ids of rows and sets, and the ledger's copy of a set."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, Conditions, PriceRow, PriceSet, PricingError, price_set_from_json, price_set_to_json

MakeRow = Callable[..., PriceRow]
MakeSet = Callable[..., PriceSet]
START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 5, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    "change",
    [
        {"price_list": "other"},
        {"model": "n"},
        {"component": "output"},
        {"currency": "CNY"},
        {"amount": Decimal("2.01")},
        {"effective_from": START},
        {"conditions": Conditions(batch=True)},
    ],
)
def test_what_is_charged_makes_the_id(change: dict[str, object], row: MakeRow) -> None:
    first = row("input", "2")
    assert replace(first, **change).id != first.id  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"effective_to": END}, {"checked": date(2026, 12, 1)}, {"source": "x"}, {"url": "y"}]
)
def test_closing_a_row_or_checking_it_again_keeps_its_id(change: dict[str, object], row: MakeRow) -> None:
    first = row("input", "2")
    assert replace(first, **change).id == first.id  # type: ignore[arg-type]


def test_amounts_written_differently_are_one_price(row: MakeRow) -> None:
    assert row("input", "2.50").id == row("input", "2.5").id


def test_a_last_list_is_another_set(price_set: MakeSet) -> None:
    prices = price_set(input="2")
    assert replace(prices, retired_at=END).id != prices.id


def test_every_bundled_set_survives_the_round_trip(catalog: Catalog) -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    seen = 0
    for price_list in catalog.lists:
        for model in catalog.models(price_list):
            prices = catalog.price_set(model, price_list, at, last_list=True)
            if prices is not None:
                seen += 1
                assert price_set_from_json(price_set_to_json(prices)) == prices
    assert seen >= 20


conditions = st.builds(
    Conditions,
    service_tier=st.none() | st.just("flex"),
    batch=st.booleans(),
    region=st.none() | st.just("us"),
    above_input_tokens=st.none() | st.just(200_000),
    weekdays=st.just((1, 2)) | st.just(()),
    windows_utc=st.just(((60, 240), (360, 1440))) | st.just(()),
    holidays=st.just((date(2026, 10, 1),)) | st.just(()),
)


@given(conditions, st.decimals(min_value=0, max_value=10**5, places=12), st.none() | st.just(END))
def test_law_ids_survive_the_round_trip(found: Conditions, amount: Decimal, retired_at: datetime | None) -> None:
    one = PriceRow("l", "m", "input", "USD", amount, "u", "s", date(2026, 1, 1), START, END, found)
    prices = PriceSet("l", "m", "USD", (one,), retired_at)
    back = price_set_from_json(price_set_to_json(prices))
    assert back == prices
    assert (back.id, back.rows[0].id) == (prices.id, one.id)


def test_json_holds_amounts_as_decimal_text(row: MakeRow, price_set: MakeSet) -> None:
    document = json.loads(price_set_to_json(price_set(row("input", "0.0000001", effective_to=END))))
    assert document["rows"][0]["amount"] == "0.0000001"
    assert document["rows"][0]["effective_to"] == "2026-05-25T00:00:00+00:00"


def test_an_altered_copy_is_refused(price_set: MakeSet) -> None:
    text = price_set_to_json(price_set(input="2")).replace('"amount":"2"', '"amount":"1"')
    with pytest.raises(PricingError, match="a stored set never changes"):
        price_set_from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"id": "x", "rows": [{}]}'])
def test_what_is_no_stored_set_is_refused(text: str) -> None:
    with pytest.raises(PricingError, match="is not a stored price set"):
        price_set_from_json(text)
