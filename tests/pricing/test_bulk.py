"""Columns are priced as calls are, to the last digit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricing import (
    Conditions,
    PriceRow,
    PriceSet,
    PricingError,
    Usage,
    UsageError,
    bulk,
    price_call,
    split_amount,
)
from pricing.conditions import CONTEXT_THRESHOLDS
from pricing.prices import UNITS
from pricing.rates import BUCKET_COMPONENTS

AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)  # a Monday
BUCKETS = [bucket for bucket, _ in BUCKET_COMPONENTS]
MakeRow = Callable[..., PriceRow]
MakeSet = Callable[..., PriceSet]


def column(*counts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(counts, np.int64)


def rows_of(found: bulk.PricedColumns) -> list[tuple[int, int, str]]:
    statuses = [bulk.STATUSES[index] for index in found.status]
    return list(zip(found.cost_micro.tolist(), found.cost_pico.tolist(), statuses, strict=True))


def test_rows_of_two_groups_priced_by_hand(price_set: MakeSet) -> None:
    dear, cheap = price_set(input="3", cache_read="0.3", output="15"), price_set(output="0.000001")
    found = bulk.price(
        {
            "uncached_input_tokens": column(100, 0, 7, 0),
            "cache_read_tokens": column(10_000, 0, 0, 0),
            "plain_output_tokens": column(100, 1, 2_000_003, 0),
        },
        [bulk.Served(dear), bulk.Served(cheap, estimated=True)],
        at=AT,
        group=column(0, 1, 1, 1),
    )
    assert rows_of(found) == [
        (4800, 0, "exact"),  # 100 × 3 + 10,000 × 0.3 + 100 × 15 = 4,800 per Mtok
        (0, 1, "estimated"),  # 1e-6 / 1e6 = 1e-12
        (2, 3, "partial"),  # 2,000,003 × 1e-12; the input has no price
        (0, 0, "estimated"),  # nothing used
    ]


@pytest.mark.parametrize(
    ("amount", "tokens", "pico"),
    # amount × tokens × 1e6 in units of 1e-12: a half goes to the even neighbour
    [
        ("0.0000005", 1, 0),  # 0.5
        ("0.0000005", 3, 2),  # 1.5
        ("0.0000005", 5, 2),  # 2.5
        ("0.00000050001", 1, 1),
        ("0.0000015", 1, 2),  # 1.5: whole and part of a rate
        ("0.0000025", 1, 2),  # 2.5
        ("0.0000025", 3, 8),  # 7.5
        ("0.000001000000000001", 1_000_000, 1_000_000),  # 1,000,000.000001
    ],
)
def test_a_line_is_rounded_half_even(amount: str, tokens: int, pico: int, price_set: MakeSet) -> None:
    found = bulk.price({"plain_output_tokens": column(tokens)}, bulk.Served(price_set(output=amount)), at=AT)
    assert rows_of(found) == [(*divmod(pico, 1_000_000), "exact")]


def test_each_line_is_rounded_and_reasoning_joins_the_outputs(price_set: MakeSet) -> None:
    halves = {"plain_output_tokens": column(1), "reasoning_tokens": column(1)}
    together = bulk.price(halves, bulk.Served(price_set(output="0.0000005")), at=AT)
    apart = bulk.price(halves, bulk.Served(price_set(output="0.0000005", reasoning="0.0000005")), at=AT)
    # one line of 2 × 0.5 = 1, two lines of 0.5 that each round to 0
    assert (rows_of(together), rows_of(apart)) == ([(0, 1, "exact")], [(0, 0, "exact")])


def test_context_clock_and_dates_are_decided_row_by_row(row: MakeRow, price_set: MakeSet) -> None:
    tier = Conditions(above_input_tokens=200_000)
    peak = Conditions(weekdays=(1,), windows_utc=((60, 120),), holidays=(date(2026, 11, 23),))
    end = datetime(2026, 12, 1, tzinfo=UTC)
    prices = price_set(
        row("input", "1", effective_to=end), row("input", "2", conditions=tier), row("output", "10", conditions=peak),
        row("output", "5"),
    )  # fmt: skip
    at = np.array(
        ["2026-11-16T01:00", "2026-11-16T00:59:59.999999", "2026-11-16T02:00", "2026-11-17T01:00", "2026-11-23T01:00",
         "2026-12-01T00:00", "2026-11-30T01:59:59"],
        "datetime64[us]",
    )  # fmt: skip
    counts = {
        "uncached_input_tokens": column(200_000, 199_999, 200_001, 0, 0, 0, 0),
        "cache_read_tokens": column(0, 2, 0, 0, 0, 0, 0),
        "plain_output_tokens": column(1, 1, 1, 1, 1, 1, 1),
    }
    found = bulk.price(counts, bulk.Served(prices), at=at)
    assert rows_of(found) == [
        (200_010, 0, "exact"),  # not above 200,000; Monday in the window: 10
        (400_007, 0, "exact"),  # 200,001 × 2 with the cached ones; before the window: 5
        (400_007, 0, "exact"),  # at the window's end
        (5, 0, "exact"),  # Tuesday
        (5, 0, "exact"),  # a holiday
        (bulk.UNPRICED, bulk.UNPRICED, "unknown"),  # a row has ended
        (10, 0, "exact"),
    ]


def test_what_has_no_usage_or_no_prices_is_unknown(price_set: MakeSet) -> None:
    served = [bulk.Served(None), bulk.Served(price_set(output="1")), bulk.Served(price_set(output="1"), "flex")]
    found = bulk.price(
        {"plain_output_tokens": column(1, 1, 0, 1, 0)},
        served,
        at=AT,
        group=column(0, 1, 1, 2, 2),
        known=np.array([True, True, False, True, True]),
    )
    nothing = (bulk.UNPRICED, bulk.UNPRICED, "unknown")
    assert rows_of(found) == [nothing, (1, 0, "exact"), nothing, nothing, (0, 0, "exact")]
    totals = bulk.total({"plain_output_tokens": column(1, 1)}, served[:2], at=AT, group=column(0, 1))
    assert (totals.total, totals.currency) == (Decimal("0.000001"), "USD")
    assert totals.rows == {"exact": 1, "estimated": 0, "partial": 0, "unknown": 1}


def test_counts_that_leave_64_bits_on_the_way_are_priced_exactly(price_set: MakeSet) -> None:
    # 1e15 tokens at 600 per Mtok are 6e11, 6e23 in 1e-12: 2^63 is 9.2e18
    found = bulk.price({"plain_output_tokens": column(10**15, 1)}, bulk.Served(price_set(output="600")), at=AT)
    assert rows_of(found) == [(6 * 10**17, 0, "exact"), (600, 0, "exact")]
    with pytest.raises(UsageError, match=r"row 1 costs 5534023222112865.*; at most"):
        bulk.price({"plain_output_tokens": column(0, 2**63 - 1)}, bulk.Served(price_set(output="600")), at=AT)


def test_a_sum_of_large_costs_is_exact(price_set: MakeSet) -> None:
    # 40 rows of 9e11 each: 3.6e13, in 1e-6 units 3.6e19
    many = {"plain_output_tokens": np.full(40, 9 * 10**15, np.int64)}
    assert bulk.total(many, bulk.Served(price_set(output="100")), at=AT).total == Decimal(36_000_000_000_000)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"buckets": {"input_tokens": column(1)}}, PricingError, "columns: 'input_tokens' is no bucket of usage; did"),
        ({"buckets": {}}, PricingError, "columns: none"),
        ({"buckets": {BUCKETS[0]: column(1), BUCKETS[1]: column(1, 2)}}, PricingError, "columns: lengths .* differ"),
        ({"buckets": {BUCKETS[0]: np.array([1.0])}}, PricingError, "uncached_input_tokens is of float64 in 1 dim"),
        ({"buckets": {BUCKETS[0]: np.array([True])}}, PricingError, "a column of whole numbers is allowed"),
        ({"buckets": {BUCKETS[0]: column(1).reshape(1, 1)}}, PricingError, "int64 in 2 dimensions"),
        ({"buckets": {BUCKETS[0]: column(-1)}}, UsageError, "uncached_input_tokens of row 0 is -1; 0 or more"),
        ({"group": column(2)}, PricingError, "group: 2 is not allowed; an index of one of 1 of `served` is"),
        ({"group": column(-1)}, PricingError, "group: -1 is not allowed"),
        ({"served": []}, PricingError, "group: 0 is not allowed; an index of one of 0"),
        ({"at": datetime(2026, 1, 1)}, PricingError, "has no zone"),  # noqa: DTZ001 - that is the case
        ({"at": np.array(["NaT"], "datetime64[s]")}, PricingError, "at: NaT of row 0 is not allowed"),
        ({"at": column(1)}, PricingError, "at is of int64 .* UTC instants"),
        ({"known": column(1)}, PricingError, "known is of int64 .* booleans"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(
    change: dict[str, Any], error: type[PricingError], said: str, price_set: MakeSet
) -> None:
    given: dict[str, Any] = {
        "buckets": {BUCKETS[0]: column(1)}, "served": bulk.Served(price_set(input="1")), "at": AT, **change
    }  # fmt: skip
    with pytest.raises(error, match=said):
        bulk.price(given.pop("buckets"), given.pop("served"), **given)


def test_amounts_of_two_currencies_are_not_added_up(price_set: MakeSet) -> None:
    served = [bulk.Served(price_set(output="1")), bulk.Served(PriceSet("t", "m", "CNY", ()))]
    with pytest.raises(PricingError, match="currency: amounts in CNY, USD cannot be added up"):
        bulk.total({BUCKETS[0]: column(1)}, served, at=AT)


def test_no_rows_are_priced_to_no_rows(price_set: MakeSet) -> None:
    none = np.array([], np.int64)
    assert rows_of(bulk.price({BUCKETS[0]: none}, bulk.Served(price_set(input="1")), at=AT, group=none)) == []


def test_importing_pricing_does_not_load_numpy() -> None:
    code = "import pricing, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Laws. A catalogue is drawn as any rows at all, ties and absurd prices included: bulk has to agree with whatever
# `price_call` does.

STEPS = [AT + timedelta(minutes=minutes) for minutes in (-20_000, -60, -1, 0, 1, 60, 720, 1440, 9000)]
sizes = st.sampled_from([0, 1, 2, 3, 5, 999, *CONTEXT_THRESHOLDS, 10**12, 10**17]) | st.integers(0, 400_000)
tiers = st.sampled_from([None, "default", "flex", "batch"])
regions = st.sampled_from([None, None, "us", "eu"])
amounts = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(0, 10**7),
    st.sampled_from([0, 2, 6, 7, 9, 15, 30]),
)
conditions = st.builds(
    Conditions,
    service_tier=tiers,
    batch=st.sampled_from([False, False, True]),
    region=regions,
    above_input_tokens=st.sampled_from([None, None, 128_000, 200_000]),
    inclusive=st.booleans(),
    weekdays=st.sampled_from([(), (), (1,), (1, 2, 3)]),
    windows_utc=st.sampled_from([(), (), ((0, 720),), ((0, 60), (719, 721))]),
    holidays=st.sampled_from([(), (), (AT.date(),)]),
).filter(lambda found: found.above_input_tokens is not None or not found.inclusive)
edges = st.none() | st.sampled_from(STEPS)


@st.composite
def price_rows(draw: st.DrawFn) -> PriceRow:
    first, last = sorted((draw(st.sampled_from(STEPS)), draw(st.sampled_from(STEPS))))
    start, end = first, last + timedelta(minutes=1)
    return PriceRow(
        "t", "m", draw(st.sampled_from(list(UNITS))), "USD", draw(amounts), "", "test", AT.date(),
        start if draw(st.booleans()) else None, end if draw(st.booleans()) else None,
        draw(st.just(Conditions()) | conditions),
    )  # fmt: skip


price_sets = st.builds(
    lambda rows, retired_at: PriceSet("t", "m", "USD", tuple(rows), retired_at),
    st.lists(price_rows(), max_size=8),
    edges,
)
groups = st.builds(
    bulk.Served,
    st.none() | price_sets,
    service_tier=tiers,
    batch=st.booleans(),
    region=regions,
    estimated=st.booleans(),
)
calls = st.tuples(
    st.builds(Usage, **{bucket: st.just(0) | sizes for bucket in BUCKETS}), st.sampled_from(STEPS), st.booleans()
)


@given(st.lists(groups, min_size=1, max_size=4), st.lists(st.tuples(calls, st.integers(0, 3)), min_size=1, max_size=12))
def test_law_a_column_is_priced_as_its_calls_are(
    served: list[bulk.Served], rows: list[tuple[tuple[Usage, datetime, bool], int]]
) -> None:
    group = [index % len(served) for _, index in rows]
    expected = [_single(served[index], *call) for (call, _), index in zip(rows, group, strict=True)]
    given_columns: dict[str, Any] = {
        "at": np.array([at.replace(tzinfo=None) for (_, at, _), _ in rows], "datetime64[us]"),
        "group": np.array(group, np.uint8),
        "known": np.array([known for (_, _, known), _ in rows]),
    }
    buckets = {bucket: column(*(getattr(usage, bucket) for (usage, _, _), _ in rows)) for bucket in BUCKETS}
    assert rows_of(bulk.price(buckets, served, **given_columns)) == expected
    amount = sum(
        (
            Decimal(micro).scaleb(-6) + Decimal(pico).scaleb(-12)
            for micro, pico, status in expected
            if status != "unknown"
        ),
        Decimal(0),
    )
    assert bulk.total(buckets, served, **given_columns).total == amount


def _single(served: bulk.Served, usage: Usage, at: datetime, known: bool) -> tuple[int, int, str]:  # noqa: FBT001
    cost = price_call(
        usage if known else None,
        served.prices,
        at=at,
        service_tier=served.service_tier,
        batch=served.batch,
        region=served.region,
        estimated=served.estimated,
    )
    if cost.total is None:
        return bulk.UNPRICED, bulk.UNPRICED, cost.status
    return (*split_amount(cost.total), cost.status)


plain_counts = st.lists(st.integers(0, 10**7), min_size=1, max_size=20)


@given(plain_counts, amounts, amounts)
@example([1, 3, 5], Decimal("0.0000005"), Decimal(0))
def test_law_a_line_is_its_fraction_rounded_half_even(counts: list[int], rate: Decimal, other: Decimal) -> None:
    rows = tuple(
        PriceRow("t", "m", name, "USD", amount, "", "test", AT.date())
        for name, amount in (("input", rate), ("output", other))
    )
    found = bulk.price(
        {"uncached_input_tokens": column(*counts), "plain_output_tokens": column(*counts[::-1])},
        bulk.Served(PriceSet("t", "m", "USD", rows)),
        at=AT,
    )
    # `round` of a Fraction is half-even
    expected = [
        round(first * Fraction(rate) * 10**6) + round(last * Fraction(other) * 10**6)
        for first, last in zip(counts, counts[::-1], strict=True)
    ]
    assert [micro * 10**6 + pico for micro, pico, _ in rows_of(found)] == expected


def test_pieces_join_without_a_seam(price_set: MakeSet) -> None:
    rows = 70_001  # two pieces and a bit
    counts = np.arange(rows, dtype=np.int32)
    found = bulk.price({"plain_output_tokens": counts}, bulk.Served(price_set(output="2")), at=AT)
    assert (found.cost_micro == 2 * np.arange(rows)).all()
    total = bulk.total({"plain_output_tokens": counts}, bulk.Served(price_set(output="2")), at=AT).total
    assert total == Decimal(2 * (rows * (rows - 1) // 2)).scaleb(-6)
