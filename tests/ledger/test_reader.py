"""Reading: exact sums in every grouping, unknown counted and never 0, months in a named zone."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing import PriceSet, Usage, join_amount, load_catalog, load_fx
from router.errors import WrongUsage
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.queries import GROUP_COLUMNS, SUM_NAMES
from router.ledger.reader import instant_at, instant_us
from router.ledger.records import Amount, AttemptEnded, AttemptStarted
from router.ledger.rows import Record
from tests.new_ledger import new_ledger

OCTOBER_US = 1_790_812_800_000_000
QUARTER_US = 900_000_000
ALL = (0, 2**62)


def test_october_is_where_the_tests_say() -> None:
    assert instant_us(datetime(2026, 10, 1, tzinfo=UTC)) == OCTOBER_US
    assert instant_at(OCTOBER_US + 1) == datetime(2026, 10, 1, 0, 0, 0, 1, tzinfo=UTC)


def test_sums_and_counts_by_hand(ledger: Ledger, sample: Any) -> None:
    known, retried, lost, going = (sample.started(reserved_usd=Decimal("0.5")) for _ in range(4))
    second = sample.started(call_key=retried.call_key, number=2, reserved_usd=Decimal("0.5"))
    ledger.write_now(
        *(known, retried, second, lost, going),
        sample.ended(known, list_cost=Amount("USD", Decimal("1.000000000001")), latency_us=10, ttft_us=4),
        sample.ended(retried, status="failed", usage=Usage(), reported_cost_usd=Decimal("0.25")),
        sample.ended(second, list_cost=Amount("USD", Decimal("0.999999999999")), latency_us=20),
        sample.ended(lost, status="timed_out", usage=None, possibly_billed=True, latency_us=30),
    )
    [group] = ledger.reader.usage_groups(*ALL)
    assert tuple(group.sums) == SUM_NAMES
    wanted = {
        "attempts": 5,
        "calls": 4,
        "succeeded": 2,
        "usage_unknown": 2,  # lost and going
        "cost_unknown": 3,
        "reported": 1,
        "timed": 4,
        "streamed": 1,
        "unsettled": 2,
        "unsettled_usd_micro": 1_000_000,
        "uncached_input_tokens": 20,
        "plain_output_tokens": 4,
        "latency_us": 10 + 1_000 + 20 + 30,
        "ttft_us": 4,
        "reported_usd_micro": 250_000,
    }
    assert wanted.items() <= group.sums.items()
    assert join_amount(group.sums["cost_micro"], group.sums["cost_pico"]) == 2


def test_an_empty_span_has_no_groups(ledger: Ledger, sample: Any) -> None:
    ledger.write_now(sample.started())
    assert ledger.reader.usage_groups(OCTOBER_US + QUARTER_US, OCTOBER_US + 2 * QUARTER_US) == ()
    assert ledger.reader.usage_groups(OCTOBER_US + QUARTER_US, OCTOBER_US + 2 * QUARTER_US, ["role"]) == ()
    # Half-open: its first instant is in it, and its last is not.
    assert len(ledger.reader.usage_groups(OCTOBER_US, OCTOBER_US + QUARTER_US)) == 1
    assert ledger.reader.usage_groups(OCTOBER_US - QUARTER_US, OCTOBER_US) == ()


@pytest.mark.parametrize("span", [(OCTOBER_US + 1, OCTOBER_US + QUARTER_US), (OCTOBER_US, OCTOBER_US + 1)])
def test_a_span_that_cuts_a_quarter_hour_is_refused(ledger: Ledger, span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="lies within a quarter hour; whole ones are allowed"):
        ledger.reader.usage_groups(*span)
    with pytest.raises(ValueError, match="before its start"):
        ledger.reader.usage_groups(OCTOBER_US, OCTOBER_US - QUARTER_US)


def test_an_unknown_group_names_near_misses(ledger: Ledger) -> None:
    with pytest.raises(WrongUsage, match="group: 'model_servd' does not exist; did you mean model_served"):
        ledger.reader.usage_groups(*ALL, ["model_servd"])
    with pytest.raises(WrongUsage, match="does not exist"):
        ledger.reader.latency_histogram(*ALL, ["1; DROP TABLE attempts"])


def test_days_and_quarter_hours_are_counted_from_1970(ledger: Ledger, sample: Any) -> None:
    for us in (-1, 0, 900_000_000 - 1, 900_000_000):
        ledger.write_now(sample.started(started_us=OCTOBER_US + us))
    # 2026-10-01 is day 20,727, and its first quarter hour 20,727 × 96 = 1,989,792.
    groups = ledger.reader.usage_groups(*ALL, ["day", "quarter_hour"])
    assert {group.key: group.sums["attempts"] for group in groups} == {
        (20_726, 1_989_791): 1,
        (20_727, 1_989_792): 2,
        (20_727, 1_989_793): 1,
    }


def test_the_context_tier_is_of_all_input(ledger: Ledger, sample: Any) -> None:
    for cached in (0, 1):  # 128,000 is not above the threshold of 128,000; one more is
        started = sample.started()
        usage = Usage(uncached_input_tokens=100_000, cache_read_tokens=28_000 + cached)
        ledger.write_now(started, sample.ended(started, usage=usage))
    low, high = sorted(group.key[0] for group in ledger.reader.usage_groups(*ALL, ["context_tier"]))
    assert high == low + 1


def test_latencies_are_counted_per_bucket_and_failures_left_out(ledger: Ledger, sample: Any) -> None:
    for status, latency_us in [("succeeded", 50), ("succeeded", 60), ("succeeded", 105), ("failed", 50)]:
        started = sample.started(role="worker")
        ledger.write_now(started, sample.ended(started, status=status, latency_us=latency_us))
    [group] = ledger.reader.latency_histogram(*ALL, ["role"])
    assert (group.key, group.counts) == (("worker",), {0: 2, 1: 1})  # below 100 µs; from 100 to 110 µs
    [every] = ledger.reader.latency_histogram(*ALL, statuses=("succeeded", "failed"))
    assert every.counts == {0: 3, 1: 1}


def test_months_are_cut_in_the_zone(ledger: Ledger, sample: Any) -> None:
    last_of_september_utc = OCTOBER_US - 1
    first_of_march_us = 1_772_323_200_000_000  # 2026-03-01T00:00:00Z: day 20,513
    for us in (last_of_september_utc, first_of_march_us, first_of_march_us + 1):
        ledger.write_now(sample.started(started_us=us))
    assert ledger.reader.months_present() == ("2026-03", "2026-09")
    assert ledger.reader.months_present(ZoneInfo("Asia/Tokyo")) == ("2026-03", "2026-10")
    assert ledger.reader.months_present(ZoneInfo("America/New_York")) == ("2026-02", "2026-09")


def test_no_rows_have_no_months(ledger: Ledger) -> None:
    assert ledger.reader.months_present() == ()


def test_price_sets_and_rates_are_kept_as_they_were_used(ledger: Ledger, sample: Any) -> None:
    at = datetime(2026, 10, 1, tzinfo=UTC)
    prices = load_catalog().price_set("gpt-4.1", "openai", at)
    assert prices is not None
    rate = load_fx().rate("USD", "CNY", at.date())
    assert ledger.write_now(prices, rate) == 1 + len(prices.rows) + 1
    assert ledger.write_now(prices, rate) == 0
    started = sample.started()
    ledger.write_now(started, sample.ended(started, price_set_id=prices.id))
    found: PriceSet = ledger.reader.price_sets([prices.id, "unknown"])[prices.id]
    assert found == prices
    assert list(ledger.reader.price_sets(["unknown"])) == []


_AMOUNTS = st.decimals(Decimal(0), Decimal(10_000_000), places=12)
_ATTEMPTS = st.fixed_dictionaries(
    {
        "day": st.integers(0, 2),
        "role": st.sampled_from([None, "worker", "orchestrator"]),
        "currency": st.sampled_from(["USD", "CNY", "JPY"]),
        "cost": st.none() | _AMOUNTS,
        "tokens": st.none() | st.integers(0, 10**9),
    }
)


@settings(max_examples=25)
@given(st.lists(_ATTEMPTS, max_size=12), st.lists(st.sampled_from(GROUP_COLUMNS), unique=True, max_size=3))
def test_the_sum_of_groups_is_the_sum_of_rows_in_every_grouping(rows: list[dict[str, Any]], by: list[str]) -> None:
    """The ledger's total is the report's total, to the last digit and in every grouping."""
    costs: dict[str, Decimal] = defaultdict(Decimal)
    tokens = 0
    written: list[Record] = []
    for row in rows:
        key = new_id()
        at_us = OCTOBER_US + row["day"] * 86_400_000_000
        written.append(AttemptStarted(key, key, 1, "c", "e", "l", "m", at_us, role=row["role"]))
        usage = None if row["tokens"] is None else Usage(row["tokens"])
        cost = None if row["cost"] is None else Amount(row["currency"], row["cost"])
        written.append(AttemptEnded(key, "succeeded", "exact", 1, usage=usage, list_cost=cost))
        costs[row["currency"]] += row["cost"] or 0
        tokens += row["tokens"] or 0
    with tempfile.TemporaryDirectory() as folder, open_ledger(new_ledger(f"{folder}/l.db")) as ledger:
        ledger.write_now(*written)
        groups = ledger.reader.usage_groups(*ALL, [*by, *({"cost_currency"} - set(by))])
    place = [*by, *({"cost_currency"} - set(by))].index("cost_currency")
    found: dict[str | None, Decimal] = defaultdict(Decimal)
    for group in groups:
        found[group.key[place]] += join_amount(group.sums["cost_micro"], group.sums["cost_pico"])
    assert {key: value for key, value in found.items() if value} == {
        key: value for key, value in costs.items() if value
    }
    assert sum(group.sums["attempts"] for group in groups) == len(rows)
    assert sum(group.sums["uncached_input_tokens"] for group in groups) == tokens
    assert sum(group.sums["usage_unknown"] for group in groups) == sum(row["tokens"] is None for row in rows)
    assert sum(group.sums["cost_unknown"] for group in groups) == sum(row["cost"] is None for row in rows)
