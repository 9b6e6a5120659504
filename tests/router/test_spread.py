"""How intervals add up: laws, by hand, and held against draws from the public traces."""

from __future__ import annotations

import csv
import json
import random
import statistics
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.result import NOTHING, Interval
from router.spread import ALIKE, APART, in_all, moved, of_many

AMOUNTS = st.integers(0, 10**9).map(lambda pico: Decimal(pico).scaleb(-12))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    return Interval(*sorted(draw(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS))))


def interval(low: str, expected: str, high: str) -> Interval:
    return Interval(Decimal(low), Decimal(expected), Decimal(high))


def test_by_hand() -> None:
    """Independent: 3 and 4 below make 5; 5 and 12 above make 13. Together: 7 and 17."""
    one, other = interval("7", "10", "15"), interval("16", "20", "32")
    assert in_all([one, other]) == interval("25", "30", "43")
    assert in_all([one, other], Decimal(1)) == interval("23", "30", "47")


def test_many_by_hand() -> None:
    """25 alike and independent: five times the distances; wholly correlated: 25 times."""
    one = interval("7", "10", "15")
    assert of_many(one, 25, APART) == interval("235", "250", "275")
    assert of_many(one, 25, Decimal(1)) == interval("175", "250", "375")
    # ρ = 1/6 and 10 calls: √(100 / 6 + 10 · 5 / 6) = √25 = 5
    assert of_many(one, 10) == interval("85", "100", "125")


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one(count: int) -> None:
    one = interval("7", "10", "15")
    assert of_many(one, count) == (NOTHING, one)[count]
    assert in_all([one] * count) == (NOTHING, one)[count]


@given(st.lists(intervals(), max_size=6), st.sampled_from([APART, ALIKE, Decimal(1)]))
def test_the_expected_costs_add_up_and_the_ends_lie_between_independence_and_lockstep(
    parts: list[Interval], correlation: Decimal
) -> None:
    total, widest, narrowest = in_all(parts, correlation), sum(parts, NOTHING), in_all(parts, APART)
    assert total.expected_usd == widest.expected_usd
    assert widest.low_usd <= total.low_usd <= narrowest.low_usd <= total.expected_usd
    assert total.expected_usd <= narrowest.high_usd <= total.high_usd <= widest.high_usd


@given(intervals(), st.integers(1, 50))
def test_many_alike_are_the_sum_of_as_many_parts(one: Interval, count: int) -> None:
    many, parts = of_many(one, count), in_all([one] * count, ALIKE)
    assert many.expected_usd == parts.expected_usd
    assert abs(many.low_usd - parts.low_usd) <= Decimal("1e-11")
    assert abs(many.high_usd - parts.high_usd) <= Decimal("1e-11")


def test_moved_ends() -> None:
    one = interval("7", "10", "15")
    assert moved(one, 1000, 1000) == one
    assert moved(one, 500, 2000) == interval("8.5", "10", "20")
    assert moved(one, 9000, 0) == interval("0", "10", "10")


@pytest.mark.parametrize("count", [3, 10, 30])
def test_totals_of_answers_drawn_from_the_traces_lie_within(count: int, shared: Path) -> None:
    """Lengths are skewed, so what holds exactly for normal distributions is counted here: nominal is 80 %.

    Each total draws from one of the two services, whose means differ: that is the correlation. Three answers with their
    long tail are out more often than their 10 % and 90 % points say: docs/forecasts.md has the figures.
    """
    with (shared / "data/traces/azure_llm_2023_conv.csv").open(encoding="utf-8") as lines:
        azure = [int(row["GeneratedTokens"]) for row in csv.DictReader(lines)]
    with (shared / "data/traces/mooncake_conversation.jsonl").open(encoding="utf-8") as lines:
        kimi = [json.loads(line)["output_length"] for line in lines]
    pooled = azure + kimi
    deciles = statistics.quantiles(pooled, n=10, method="inclusive")
    one = Interval(Decimal(int(deciles[0])), Decimal(int(statistics.fmean(pooled))), Decimal(int(deciles[-1])))
    total = of_many(one, count)
    chance = random.Random(1)
    services = chance.choices((azure, kimi), (len(azure), len(kimi)), k=2_000)
    totals = [sum(chance.choices(service, k=count)) for service in services]
    held = sum(total.low_usd <= each <= total.high_usd for each in totals) / len(totals)
    assert 0.73 <= held <= 0.90
