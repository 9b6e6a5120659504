"""A market keeps what it has worked out for as long as nothing it is made of changes, and no longer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Usage, operator_rate, price_call, settle
from router.bill import bill
from router.client import Router
from router.forecast import OutputForecast
from router.policy import Market, NoCandidate, decide_among
from router.policy.choose import Need
from router.policy.memo import MOST_KEPT, Memo
from router.reservation import reservation
from router.settings import EndpointSettings, Settings

CHECKED = date(2026, 11, 1)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
EDGE = datetime(2026, 11, 17, 10, 30, tzinfo=UTC)
PRICES: list[dict[str, Any]] = [
    {"model": "steady", "input": "2", "output": "8"},
    {"model": "risen", "input": "1", "output": "4", "effective_to": EDGE},
    {"model": "risen", "input": "3", "output": "12", "effective_from": EDGE},
    {"model": "tiered", "input": "1", "output": "9"},
    {"model": "tiered", "input": "5", "output": "9", "when": {"above_input_tokens": 200_000}},
    {"model": "timed", "input": "2", "output": "6"},
    {"model": "timed", "input": "1", "output": "3", "when": {"windows_utc": ["22:00-06:30"]}},
    {"model": "gone", "input": "1", "output": "1", "effective_to": EDGE},
    {"model": "half", "output": "1"},
]
MODELS = ("steady", "risen", "tiered", "timed", "gone", "half")
ENDPOINTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "yuan": {"settlement": {"currency": "CNY", "rate": "1"}, "tax_share": "0.06", "last_list": True},
    "tier": {
        "discount_share": "0.1",
        "commitments": [
            {
                "monthly_amount": "100",
                "currency": "USD",
                "discount_share": "0.5",
                "starts": date(2026, 11, 17),
                "ends": date(2026, 11, 19),
            }
        ],
    },
}
FX = FxTable(operator=[operator_rate("CNY", "USD", Decimal("0.14"), date(2026, 11, day)) for day in (1, 18)])


@cache
def catalog() -> Catalog:
    rows = [{"source": "contract", "checked": CHECKED, **row} for row in PRICES]
    return Router(Settings.model_validate({"prices": {"prices": rows}}), environ={}).catalog


def market(at: datetime, fx: FxTable = FX) -> Market:
    """Return a market that has worked nothing out yet."""
    base = {"base_url": "http://127.0.0.1:9/v1", "price_list": catalog().vendor_list("steady")}
    endpoints = {name: EndpointSettings(**{**base, **more}) for name, more in ENDPOINTS.items()}
    return Market(catalog(), endpoints, fx, at)


def need(input_tokens: int) -> Need:
    return Need("single", "chat", "given", input_tokens, OutputForecast(10, 100, 1000, "made up"))


def decided(on: Market, models: tuple[str, ...], input_tokens: int) -> object:
    try:
        return decide_among(on, need(input_tokens), models)
    except NoCandidate as error:
        return str(error)


INSTANTS = st.lists(
    st.integers(0, 4 * 24 * 60 * 2).map(lambda halves: NOON + halves * timedelta(seconds=30)), min_size=2, max_size=6
)


@example([NOON, datetime(2026, 11, 16, 22, tzinfo=UTC)], ("timed",), [11])
@example([EDGE - timedelta(seconds=1), EDGE], ("risen", "gone"), [11])
@example([datetime(2026, 11, 16, 23, 59, 59, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC)], ("steady",), [11])
@example([EDGE, NOON], ("risen",), [11])
@given(
    instants=INSTANTS,
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=3, unique=True).map(tuple),
    sizes=st.lists(st.sampled_from([0, 11, 200_000, 200_001]), min_size=1, max_size=2),
)
def test_law_a_market_that_has_moved_decides_as_a_new_one(
    instants: list[datetime], models: tuple[str, ...], sizes: list[int]
) -> None:
    """In any order of instants: price edges, midnights and windows are between them."""
    kept = market(instants[0])
    for at in instants:
        for size in sizes:
            assert decided(kept.moved_to(at), models, size) == decided(market(at), models, size)


@given(
    at=INSTANTS.map(lambda some: some[0]),
    model=st.sampled_from(MODELS),
    sent=st.sampled_from([0, 7, 200_000, 200_001]),
    got=st.integers(0, 10**6),
)
def test_law_a_quotation_is_pricing_settling_and_converting(at: datetime, model: str, sent: int, got: int) -> None:
    on = market(at)
    usage = Usage(uncached_input_tokens=sent, plain_output_tokens=got)
    for quotation in on.quotations(model):
        offer = quotation.offer
        prices = catalog().price_set(model, offer.price_list, at, last_list=offer.last_list)
        cost = price_call(usage, prices, at=at)
        expected = None
        if cost.status == "exact" and cost.total is not None and cost.currency is not None:
            currency, settled = settle(cost.total, cost.currency, offer.terms)
            expected = settled if currency == "USD" else FX.convert(settled, currency, "USD", at.date())

        assert str(quotation.cost_usd(sent, got)) == str(expected)
        charged = bill(on, offer, served_name=model, usage=usage)
        if usage != Usage():
            assert charged.status == cost.status
            assert cost.status == "partial" or str(charged.settled_usd) == str(expected)
            assert charged.prices is prices
            assert (charged.list_cost and charged.list_cost.value) == cost.total


def test_a_quotation_of_an_offer_that_is_no_longer_made_is_still_its_own() -> None:
    """On the 16th the discount is 10 %; from the 17th on the committed tier's 50 % stands in its place."""
    before, after = market(NOON), market(NOON + timedelta(days=1))
    [offer] = [each for each in before.offers("steady") if each.endpoint == "tier"]

    # 1,000,000 × 2 per Mtok = 2; less 10 % it is 1.80, less 50 % it would be 1
    assert after.quotation(offer).cost_usd(1_000_000, 0) == Decimal("1.8")
    [now] = [each for each in after.offers("steady") if each.endpoint == "tier"]
    assert after.quotation(now).cost_usd(1_000_000, 0) == Decimal(1)
    held = reservation(after, offer, input_tokens=0, likely_output_tokens=0, max_output_tokens=1_000_000, left_usd=None)
    assert held.amount_usd == Decimal("7.2000018")  # 1,000,000 × 8 less 10 %, and 1 × 2 less 10 % for the input


def test_what_is_not_plain_is_billed_line_by_line() -> None:
    on = market(NOON)
    [offer] = [each for each in on.offers("steady") if each.endpoint == "plain"]
    usage = Usage(1_000_000, cache_read_tokens=500_000, plain_output_tokens=250_000, reasoning_tokens=250_000)

    charged = bill(on, offer, served_name="steady", usage=usage)

    # 1 × 2; cached input without a price of its own as input: 0.5 × 2; reasoning as output: 0.5 × 8
    assert charged.settled_usd == Decimal(7)
    assert bill(on, offer, served_name="steady", usage=usage, estimated=True).status == "estimated"
    plain = Usage(1_000_000, plain_output_tokens=250_000)
    assert bill(on, offer, served_name="steady", usage=plain, estimated=True).status == "estimated"
    # No row of the list is for that tier.
    assert bill(on, offer, served_name="steady", usage=plain, service_tier="priority").status == "unknown"


def test_another_rate_makes_another_market() -> None:
    on = market(NOON)
    before = decided(on, ("steady",), 11)
    dear = FxTable(operator=[operator_rate("CNY", "USD", Decimal(7), date(2026, 11, 1))])

    assert decided(replace(on, fx=dear), ("steady",), 11) != before
    assert decided(on, ("steady",), 11) == before


def test_what_was_decided_is_not_decided_again() -> None:
    on = market(NOON)
    first = decided(on, ("steady", "risen"), 11)

    assert decided(on.moved_to(NOON + timedelta(seconds=1)), ("steady", "risen"), 11) is first
    assert decided(on.moved_to(NOON + timedelta(days=1)), ("steady", "risen"), 11) is not first


@pytest.mark.parametrize(("at", "holds"), [(-1, None), (0, "kept"), (59, "kept"), (60, None)])
def test_a_memo_gives_a_value_out_within_its_span_alone(at: int, holds: str | None) -> None:
    memo: Memo[str] = Memo()
    memo.keep("k", "kept", NOON, NOON + timedelta(seconds=60))

    assert memo.get("k", NOON + timedelta(seconds=at)) == holds


def test_a_memo_is_bounded() -> None:
    memo: Memo[int] = Memo()
    for number in range(MOST_KEPT + 1):
        memo.keep(number, number, NOON, NOON + timedelta(days=1))

    assert (memo.get(0, NOON), memo.get(MOST_KEPT, NOON)) == (None, MOST_KEPT)
