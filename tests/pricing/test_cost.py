"""What one call costs, line by line, and how sure that is. Expected sums are written out beside the cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Conditions, PriceRow, PriceSet, PricingError, Usage, UsageError, context_tier, price_call
from pricing.conditions import CONTEXT_THRESHOLDS

AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)  # a Monday
MakeRow = Callable[..., PriceRow]
MakeSet = Callable[..., PriceSet]


def test_r4_cached_input_is_priced_once(price_set: MakeSet) -> None:
    prices = price_set(input="3", cache_read="0.3", output="15")
    usage = Usage(uncached_input_tokens=100, cache_read_tokens=10_000, plain_output_tokens=100)
    # 100 × 3 + 10,000 × 0.3 + 100 × 15 = 300 + 3,000 + 1,500 = 4,800 per Mtok
    cost = price_call(usage, prices, at=AT)
    assert cost.total == Decimal("0.0048")
    assert (cost.status, cost.currency, cost.price_set_id) == ("exact", "USD", prices.id)
    amounts = [(line.component, line.quantity, line.amount) for line in cost.lines]
    assert amounts == [
        ("input", 100, Decimal("0.0003")),
        ("cache_read", 10_000, Decimal("0.003")),
        ("output", 100, Decimal("0.0015")),
    ]
    assert {line.price_row_id for line in cost.lines} == {row.id for row in prices.rows}


def test_r3_dearer_input_can_lose_against_dearer_output(price_set: MakeSet) -> None:
    usage = Usage(uncached_input_tokens=20_000, plain_output_tokens=20)
    # X: 20,000 × 1 + 20 × 10 = 20,200; Y: 20,000 × 3 + 20 × 5 = 60,100
    assert price_call(usage, price_set(input="1", output="10"), at=AT).total == Decimal("0.0202")
    assert price_call(usage, price_set(input="3", output="5"), at=AT).total == Decimal("0.0601")


def test_every_component_has_its_own_line(price_set: MakeSet) -> None:
    prices = price_set(
        input="1",
        cache_read="2",
        cache_write_5m="3",
        cache_write_1h="4",
        input_audio="5",
        input_image="6",
        output="7",
        reasoning="8",
        output_audio="9",
        output_image="10",
        web_search="11",
    )
    usage = replace(Usage(*[1_000_000] * 10), web_searches=2_000)
    cost = price_call(usage, prices, at=AT)
    # 1 Mtok each, so the amounts are the prices; 2,000 searches at 11 per 1,000 are 22
    assert [line.amount for line in cost.lines] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 22]
    assert cost.total == 77


def test_reasoning_without_a_price_of_its_own_is_output(price_set: MakeSet) -> None:
    cost = price_call(Usage(plain_output_tokens=584, reasoning_tokens=1360), price_set(output="180"), at=AT)
    # (584 + 1,360) × 180 = 349,920 per Mtok, in one line
    assert [(line.component, line.quantity) for line in cost.lines] == [("output", 1944)]
    assert cost.total == Decimal("0.34992")


def test_reasoning_alone_is_priced_as_output_too(price_set: MakeSet) -> None:
    cost = price_call(Usage(reasoning_tokens=1_000_000), price_set(output="8"), at=AT)
    assert [(line.component, line.amount) for line in cost.lines] == [("output", Decimal(8))]


def test_a_list_without_a_cached_price_bills_cached_input_as_input(price_set: MakeSet) -> None:
    prices = price_set(input="2", output="5")
    cost = price_call(Usage(uncached_input_tokens=1, cache_read_tokens=9), prices, at=AT)
    # (1 + 9) × 2 = 20 per Mtok
    assert (cost.status, cost.total) == ("exact", Decimal("0.00002"))
    assert [line.component for line in cost.lines] == ["input", "cache_read"]
    assert cost.lines[0].price_row_id == cost.lines[1].price_row_id


@pytest.mark.parametrize(
    ("usage", "unpriced"),
    [
        (Usage(cache_write_5m_tokens=1, plain_output_tokens=1), ("cache_write_5m",)),
        (Usage(cache_write_1h_tokens=1, plain_output_tokens=1), ("cache_write_1h",)),
        (Usage(audio_input_tokens=1, plain_output_tokens=1), ("input_audio",)),
        (Usage(audio_output_tokens=1, plain_output_tokens=1), ("output_audio",)),
        (Usage(image_output_tokens=1, plain_output_tokens=1), ("output_image",)),
        (Usage(web_searches=1, plain_output_tokens=1), ("web_search",)),
    ],
)
def test_what_has_no_price_is_named_and_the_total_is_a_lower_bound(
    usage: Usage, unpriced: tuple[str, ...], price_set: MakeSet
) -> None:
    cost = price_call(usage, price_set(input="1", output="1000"), at=AT)
    assert (cost.status, cost.total, cost.unpriced) == ("partial", Decimal("0.001"), unpriced)
    assert [line.amount for line in cost.lines if line.component in unpriced] == [None]


def test_an_output_only_list_leaves_input_unpriced(price_set: MakeSet) -> None:
    usage = Usage(uncached_input_tokens=10, cache_read_tokens=5, plain_output_tokens=1_000_000)
    cost = price_call(usage, price_set(output="2.5"), at=AT)
    assert (cost.status, cost.total, cost.unpriced) == ("partial", Decimal("2.5"), ("input", "cache_read"))


def test_nothing_priced_is_unknown_not_zero(price_set: MakeSet) -> None:
    cost = price_call(Usage(uncached_input_tokens=10), price_set(output="2.5"), at=AT)
    assert (cost.status, cost.total, cost.unpriced) == ("unknown", None, ("input",))


def test_no_usage_or_no_prices_is_unknown(price_set: MakeSet) -> None:
    prices = price_set(input="2", output="8")
    without_usage = price_call(None, prices, at=AT)
    without_prices = price_call(Usage(1), None, at=AT)
    assert (without_usage.status, without_usage.total, without_usage.currency) == ("unknown", None, "USD")
    assert (without_prices.status, without_prices.total, without_prices.currency) == ("unknown", None, None)


def test_a_call_that_used_nothing_costs_exactly_zero(price_set: MakeSet) -> None:
    cost = price_call(Usage(), price_set(output="2.5"), at=AT)
    assert (cost.status, cost.total, cost.lines) == ("exact", Decimal(0), ())


def test_a_free_component_costs_exactly_zero(price_set: MakeSet) -> None:
    cost = price_call(Usage(uncached_input_tokens=10), price_set(input="0"), at=AT)
    assert (cost.status, cost.total) == ("exact", Decimal(0))


def test_estimated_counts_make_an_estimated_cost_and_partial_outranks_it(price_set: MakeSet) -> None:
    prices = price_set(output="8")
    assert price_call(Usage(plain_output_tokens=1), prices, at=AT, estimated=True).status == "estimated"
    mixed = Usage(uncached_input_tokens=1, plain_output_tokens=1)
    assert price_call(mixed, prices, at=AT, estimated=True).status == "partial"


def test_a_line_is_rounded_half_even_at_a_picounit(price_set: MakeSet) -> None:
    usage = Usage(uncached_input_tokens=1, plain_output_tokens=3)
    cost = price_call(usage, price_set(input="0.0000005", output="0.0000005"), at=AT)
    # 0.5 pico rounds to 0, 1.5 pico to 2; the sum of the lines is the total
    assert [line.amount for line in cost.lines] == [0, Decimal("0.000000000002")]
    assert cost.total == Decimal("0.000000000002")


def test_a_thousand_tiny_calls_do_not_cost_zero(price_set: MakeSet) -> None:
    prices = price_set(input="0.1")
    total = sum((price_call(Usage(1), prices, at=AT).total or Decimal(0) for _ in range(1000)), Decimal(0))
    assert total == Decimal("0.0001")  # 1,000 × 0.1 per Mtok


def test_a_context_tier_moves_the_whole_request_judged_by_all_input(row: MakeRow, price_set: MakeSet) -> None:
    high = Conditions(above_input_tokens=200_000)
    prices = price_set(
        row("input", "2.50", conditions=high),
        row("output", "15", conditions=high),
        row("cache_read", "0.25", conditions=high),
        input="1.25",
        output="10",
        cache_read="0.125",
    )
    usage = Usage(
        uncached_input_tokens=200_000, cache_read_tokens=50_000, plain_output_tokens=2_000, reasoning_tokens=3_000
    )
    # 0.2 × 2.50 + 0.05 × 0.25 + 0.005 × 15 = 0.5 + 0.0125 + 0.075
    assert price_call(usage, prices, at=AT).total == Decimal("0.5875")
    at_threshold = price_call(Usage(uncached_input_tokens=200_000), prices, at=AT)
    assert at_threshold.total == Decimal("0.25")  # strictly above, so 0.2 × 1.25


def test_an_inclusive_tier_holds_at_its_threshold(row: MakeRow, price_set: MakeSet) -> None:
    prices = price_set(row("input", "4", conditions=Conditions(above_input_tokens=200_000, inclusive=True)), input="2")
    assert price_call(Usage(199_999), prices, at=AT).total == Decimal("0.399998")
    assert price_call(Usage(200_000), prices, at=AT).total == Decimal("0.8")


def test_the_highest_of_several_tiers_holds(row: MakeRow, price_set: MakeSet) -> None:
    tiers = {32_000: "2", 128_000: "3", 252_000: "4"}  # 252,000 is no threshold of the ledger, and still priced right
    rows = [row("input", amount, conditions=Conditions(above_input_tokens=size)) for size, amount in tiers.items()]
    prices = price_set(*rows, input="1")
    found = [price_call(Usage(size), prices, at=AT).lines[0].unit_amount for size in (32_000, 32_001, 252_000, 252_001)]
    assert found == [1, 2, 3, 4]


def test_the_served_tier_sets_the_price_and_an_unnamed_one_has_none(row: MakeRow, price_set: MakeSet) -> None:
    priority = Conditions(service_tier="priority")
    prices = price_set(row("input", "4.25", conditions=priority), input="2.5", web_search="10")
    usage = Usage(uncached_input_tokens=1_000_000, web_searches=1000)
    assert price_call(usage, prices, at=AT, service_tier="priority").total == Decimal(
        "14.25"
    )  # the fee is the plain one
    for plain in (None, "default", "standard", "auto"):
        assert price_call(usage, prices, at=AT, service_tier=plain).total == Decimal("12.5")
    assert price_call(usage, prices, at=AT, service_tier="flex").status == "unknown"


def test_batch_and_cache_prices_stack_and_a_tier_does_not_leak_into_batch(row: MakeRow, price_set: MakeSet) -> None:
    batch = Conditions(batch=True)
    prices = price_set(
        row("input", "1.5", conditions=batch),
        row("cache_read", "0.15", conditions=batch),
        row("output", "17", conditions=Conditions(service_tier="priority")),
        input="3",
        cache_read="0.3",
        output="15",
    )
    usage = Usage(uncached_input_tokens=1_000_000, cache_read_tokens=1_000_000, plain_output_tokens=1_000_000)
    # input and cached input at the batch price, output has none of its own: 1.5 + 0.15 + 15
    assert price_call(usage, prices, at=AT, batch=True).total == Decimal("16.65")
    assert price_call(usage, prices, at=AT, service_tier="batch").total == Decimal("16.65")
    assert price_call(usage, prices, at=AT).total == Decimal("18.3")
    assert price_call(usage, price_set(input="3"), at=AT, batch=True).status == "unknown"


def test_a_region_priced_apart(row: MakeRow, price_set: MakeSet) -> None:
    prices = price_set(row("input", "1.1", conditions=Conditions(region="us")), input="1")
    usage = Usage(1_000_000)
    assert price_call(usage, prices, at=AT, region="us").total == Decimal("1.1")
    assert price_call(usage, prices, at=AT).total == 1
    assert price_call(usage, prices, at=AT, region="eu").status == "unknown"
    assert price_call(usage, price_set(input="1"), at=AT, region="eu").total == 1


PEAK = Conditions(
    weekdays=(1, 2, 3, 4, 5), windows_utc=((60, 240), (360, 600)), holidays=(date(2026, 10, 1),)
)  # Monday to Friday, 01:00-04:00 and 06:00-10:00


@pytest.mark.parametrize(
    ("instant", "unit_amount"),
    [
        ("2026-11-16T00:59:59.999999+00:00", "0.15"),
        ("2026-11-16T01:00:00+00:00", "0.30"),
        ("2026-11-16T03:59:59+00:00", "0.30"),
        ("2026-11-16T04:00:00+00:00", "0.15"),  # half-open
        ("2026-11-16T09:59:00+00:00", "0.30"),
        ("2026-11-14T02:30:00+00:00", "0.15"),  # a Saturday
        ("2026-10-01T02:30:00+00:00", "0.15"),  # a holiday, a Thursday
        ("2026-11-16T10:30:00+08:00", "0.30"),  # 02:30 UTC
        ("2026-11-14T20:30:00-06:00", "0.15"),  # 02:30 UTC on Sunday
    ],
)
def test_windows_are_half_open_and_in_utc(instant: str, unit_amount: str, row: MakeRow, price_set: MakeSet) -> None:
    prices = price_set(row("input", "0.30", conditions=PEAK), input="0.15")
    cost = price_call(Usage(1), prices, at=datetime.fromisoformat(instant))
    assert cost.lines[0].unit_amount == Decimal(unit_amount)


def test_a_set_that_is_not_in_force_prices_nothing(row: MakeRow, price_set: MakeSet) -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    prices = price_set(row("input", "1", effective_from=start, effective_to=end))
    found = [
        price_call(Usage(1), prices, at=at).status
        for at in (start - timedelta(microseconds=1), start, end - timedelta(microseconds=1), end)
    ]
    assert found == ["unknown", "exact", "exact", "unknown"]


def test_a_last_list_prices_calls_after_its_end(row: MakeRow) -> None:
    end = datetime(2026, 5, 25, tzinfo=UTC)
    last = PriceSet("test", "m", "USD", (row("input", "0.6", effective_to=end),), retired_at=end)
    assert price_call(Usage(1_000_000), last, at=AT).total == Decimal("0.6")


def test_a_naive_instant_is_refused(price_set: MakeSet) -> None:
    with pytest.raises(PricingError, match="has no zone"):
        price_call(Usage(1), price_set(input="1"), at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the case


@pytest.mark.parametrize(
    ("tokens", "tier"),
    [
        (0, 0),
        (1, 0),
        (32_000, 0),
        (32_001, 1),
        (127_999, 2),
        (128_000, 3),
        (128_001, 4),
        (200_000, 5),
        (200_001, 6),
        (10**9, 10),
    ],
)
def test_context_tier_counts_thresholds_strictly_below(tokens: int, tier: int) -> None:
    assert context_tier(tokens) == tier


def test_no_price_changes_inside_a_context_tier(row: MakeRow, price_set: MakeSet) -> None:
    # The ledger keeps only the tier: both ends of every tier must be priced alike, for strict and inclusive rows.
    bounds = (0, *CONTEXT_THRESHOLDS, CONTEXT_THRESHOLDS[-1] + 10)
    rows = [row("output", str(size), conditions=Conditions(above_input_tokens=size)) for size in CONTEXT_THRESHOLDS]
    at_size = [
        row("output", "7", conditions=Conditions(above_input_tokens=size, inclusive=True))
        for size in (128_000, 200_000)
    ]
    for prices in (price_set(*rows, output="1"), price_set(at_size[0], output="1"), price_set(at_size[1], output="1")):
        for low, high in pairwise(bounds):
            first, last = (price_call(Usage(size, plain_output_tokens=1), prices, at=AT) for size in (low + 1, high))
            assert first.lines[-1].unit_amount == last.lines[-1].unit_amount


counts = st.integers(0, 10**12)
usages = st.builds(Usage, *[counts] * 11)
amounts = st.decimals(min_value=0, max_value=1000, places=6)
COMPONENTS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "input_audio")
rates = st.dictionaries(st.sampled_from(COMPONENTS), amounts.map(str), min_size=1)


@given(usages, usages, rates)
def test_law_pricing_is_additive_over_calls(first: Usage, second: Usage, found: dict[str, str]) -> None:
    prices = _plain_set(found)
    together = price_call(first + second, prices, at=AT)
    apart = [price_call(usage, prices, at=AT) for usage in (first, second)]
    # Prices of 6 decimals per Mtok make amounts of 12: no line is rounded.
    assert sum((cost.total or Decimal(0) for cost in apart), Decimal(0)) == (together.total or Decimal(0))


@given(usages, rates, st.sampled_from(COMPONENTS), amounts)
def test_law_a_dearer_price_never_lowers_a_cost(
    usage: Usage, found: dict[str, str], component: str, more: Decimal
) -> None:
    before = price_call(usage, _plain_set({"input": "1", "output": "1", **found}), at=AT)
    dearer = {"input": "1", "output": "1", **found}
    dearer[component] = str(
        Decimal(dearer.get(component, dearer["input" if "input" in component else "output"])) + more
    )
    if component not in found and component in {"cache_read", "reasoning"}:
        dearer[component] = str(Decimal(dearer["input" if component == "cache_read" else "output"]) + more)
    after = price_call(usage, _plain_set(dearer), at=AT)
    assert (after.total or Decimal(0)) >= (before.total or Decimal(0))


@given(usages, rates)
def test_law_the_total_is_the_sum_of_the_priced_lines(usage: Usage, found: dict[str, str]) -> None:
    cost = price_call(usage, _plain_set(found), at=AT)
    priced = [line.amount for line in cost.lines if line.amount is not None]
    assert cost.unpriced == tuple(line.component for line in cost.lines if line.amount is None)
    assert cost.total == (sum(priced, Decimal(0)) if priced or not cost.lines else None)
    assert sum(line.quantity for line in cost.lines) == usage.input_tokens + usage.output_tokens + usage.web_searches


def _plain_set(found: dict[str, str]) -> PriceSet:
    checked = date(2026, 11, 30)
    rows = [PriceRow("t", "m", name, "USD", Decimal(amount), "", "test", checked) for name, amount in found.items()]
    return PriceSet("t", "m", "USD", tuple(rows))


def test_instants_of_other_zones_are_the_same_instants(row: MakeRow, price_set: MakeSet) -> None:
    end = datetime(2026, 5, 25, tzinfo=UTC)
    prices = price_set(row("input", "1", effective_to=end))
    beijing = timezone(timedelta(hours=8))
    assert price_call(Usage(1), prices, at=datetime(2026, 5, 25, 7, 59, tzinfo=beijing)).status == "exact"
    assert price_call(Usage(1), prices, at=datetime(2026, 5, 25, 8, 0, tzinfo=beijing)).status == "unknown"


exact_amounts = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places), st.integers(0, 10**7), st.integers(0, 12)
)


@given(st.integers(0, 10**15), exact_amounts, st.sampled_from(["output", "web_search"]))
def test_law_a_line_is_quantity_times_price_rounded_half_even(quantity: int, amount: Decimal, component: str) -> None:
    usage = Usage(plain_output_tokens=quantity) if component == "output" else Usage(web_searches=quantity)
    divisor = 10**6 if component == "output" else 10**3
    cost = price_call(usage, _plain_set({component: str(amount)}), at=AT)
    # `round` of a Fraction is half-even
    assert (cost.total or Decimal(0)).scaleb(12) == round(quantity * Fraction(amount) * 10**12 / divisor)


def test_halves_of_the_last_digit_go_to_the_even_neighbour(price_set: MakeSet) -> None:
    prices = price_set(output="0.0000005")
    found = [price_call(Usage(plain_output_tokens=tokens), prices, at=AT).total for tokens in (1, 2, 3, 4, 5)]
    # 0.5, 1, 1.5, 2 and 2.5 units of 1e-12
    assert found == [Decimal(units).scaleb(-12) for units in (0, 1, 2, 2, 2)]


def test_a_count_beyond_all_digits_is_refused_and_never_rounded(price_set: MakeSet) -> None:
    prices = price_set(output="1")
    total = price_call(Usage(plain_output_tokens=10**40 + 1), prices, at=AT).total
    assert total == Decimal(f"1{'0' * 34}.000001")
    with pytest.raises(UsageError, match="of one kind cannot be priced exactly"):
        price_call(Usage(plain_output_tokens=10**60 + 1), prices, at=AT)


def test_more_regions_than_are_remembered_are_priced_alike(row: MakeRow, price_set: MakeSet) -> None:
    prices = price_set(row("output", "7", conditions=Conditions(region="r7")), output="1")
    found = [
        price_call(Usage(plain_output_tokens=1_000_000), prices, at=AT, region=f"r{number % 600}").total
        for number in range(1300)
    ]
    assert {index for index, total in enumerate(found) if total == 7} == {7, 607, 1207}
    assert found.count(None) == 1297  # the set prices a region apart: others have no price here


def test_what_was_prepared_at_one_instant_does_not_decide_another(row: MakeRow, price_set: MakeSet) -> None:
    peak = Conditions(windows_utc=((60, 120),))
    prices = price_set(row("output", "2", conditions=peak), output="1")
    usage = Usage(plain_output_tokens=1_000_000)
    beijing = timezone(timedelta(hours=8))
    found = [
        price_call(usage, prices, at=at).total
        for at in (
            datetime(2026, 11, 16, 1, 0, tzinfo=UTC),
            datetime(2026, 11, 16, 2, 0, tzinfo=UTC),
            datetime(2026, 11, 16, 9, 59, 59, tzinfo=beijing),
            datetime(2026, 11, 16, 0, 59, 59, tzinfo=UTC),
        )
    ]
    assert found == [2, 1, 2, 1]
