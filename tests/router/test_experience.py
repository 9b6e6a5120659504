"""What is learnt from the record: by hand, its laws, and where it goes: forecasts, decisions, reservations."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import FxTable, load_catalog
from router.estimation import decide_task, estimate_task
from router.experience import (
    EVERY_MODEL,
    NO_EXPERIENCE,
    ClassRecord,
    EndedAttempt,
    EndedRun,
    Experience,
    InputRatio,
    Latency,
    Widths,
)
from router.forecast import PRIOR_ANSWERS, LearntLengths, OutputForecast, assumed_latency_s, forecast_output
from router.learning import Base, base_of, forecast_of, input_ratio, latency_of, learn, updated, widths_of
from router.policy import Market
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import EndpointSettings, Settings
from router.task import Task

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LENGTHS = st.lists(st.integers(1, 5_000).map(float), min_size=1, max_size=60)


def ended(output: int | None = 100, **more: Any) -> EndedAttempt:
    fields: dict[str, Any] = {
        "model": "gpt-4.1",
        "task_class": "write",
        "has_failed": False,
        "script": "latin",
        "estimated_input_tokens": 100,
        "input_tokens": 120,
        "output_tokens": output,
        "reasoning_tokens": 0,
        "latency_us": 1_000_000,
        "ttft_us": None,
        **more,
    }
    return EndedAttempt(**fields)


def numbers(forecast: OutputForecast) -> tuple[int, int, int]:
    return forecast.low_tokens, forecast.expected_tokens, forecast.high_tokens


def market(experience: Experience = NO_EXPERIENCE, **more: Any) -> Market:
    endpoints = {"all": EndpointSettings(base_url="http://x", price_list="vendor", last_list=True)}
    return Market(load_catalog(), endpoints, FxTable(()), NOW, experience=experience, **more)


SETTINGS = Settings.model_validate({"configurations": dict(BUILT_IN_CONFIGURATIONS)})


def task(text: str = "Tell me about the harbour.", **more: Any) -> Task:
    return Task.of(text, task_class="write", configuration="all-gpt-4.1", plan="never", **more)


# Lengths


def test_a_base_moves_to_the_record_by_its_weight() -> None:
    """Five answers on record weigh as much as the prior: the mean of logarithms is halfway."""
    base = Base(math.log(400), 1.0)
    known = updated(base, [100.0] * PRIOR_ANSWERS)
    assert PRIOR_ANSWERS == 5
    assert known.mean == pytest.approx((math.log(400) + math.log(100)) / 2)
    assert known.variance == pytest.approx(0.5)  # of the five, none


def test_the_base_of_a_prior_has_its_ends() -> None:
    base = base_of(OutputForecast(47, 262, 499, ""))
    assert base.point(0.1) == pytest.approx(47)
    assert base.point(0.9) == pytest.approx(499)


def test_few_answers_leave_much_of_the_prior_and_many_next_to_nothing() -> None:
    base = base_of(OutputForecast(7, 262, 597, ""))
    low, expected, high = numbers(forecast_of(base, [20.0, 21.0], ""))
    assert (low < 20, expected > 30, high > 100) == (True, True, True)
    low, expected, high = numbers(forecast_of(base, [20.0 + number % 11 for number in range(1100)], ""))
    assert (low, expected, high) == (21, 25, 29)  # uniform on 20 … 30: one in ten is below 21 and above 29


def test_empty_answers_beside_very_long_ones_make_no_absurd_forecast() -> None:
    """Their logarithms have a standard deviation of 9: a lognormal mean of exp(8 + 41) tokens, which none can price."""
    _, expected, high = numbers(forecast_of(base_of(OutputForecast(10, 100, 1000, "")), [0.0, 2e7] * 50, ""))
    assert expected <= high <= 3e7


@given(LENGTHS)
def test_a_forecast_is_in_order_and_within_reach(lengths: list[float]) -> None:
    """0 ≤ low ≤ expected ≤ high; the low end is not above the longest answer, nor the high end below the shortest."""
    base = base_of(OutputForecast(7, 262, 597, ""))
    low, expected, high = numbers(forecast_of(base, lengths, ""))
    assert 0 <= low <= expected <= high
    assert low <= max(*lengths, 597)
    assert high >= min(lengths)


@given(LENGTHS, st.randoms(use_true_random=False))
def test_the_order_of_the_record_makes_no_difference(lengths: list[float], chance: random.Random) -> None:
    records = [ended(int(each)) for each in lengths]
    shuffled = records[:]
    chance.shuffle(shuffled)
    assert learn(records, (), 1) == learn(shuffled, (), 1)


def test_how_often_the_next_answer_is_within() -> None:
    """Nominal is 80 %; of lognormal answers, after 40 of them."""
    chance = random.Random(3)
    held = 0
    for _ in range(300):
        mean = chance.gauss(5, 0.25)
        record = [math.exp(chance.gauss(mean, 0.6)) for _ in range(40)]
        forecast = forecast_of(base_of(OutputForecast(7, 262, 597, "")), record, "")
        held += forecast.low_tokens <= math.exp(chance.gauss(mean, 0.6)) <= forecast.high_tokens
    assert 0.75 <= held / 300 <= 0.88


def test_a_model_without_a_record_has_that_of_its_class() -> None:
    found = learn([ended(50, model="a") for _ in range(200)], (), 1)
    assert found.lengths("a", "write") is not None
    assert found.lengths("b", "write") == found.lengths(None, "write")
    assert found.lengths("b", "code") is None
    assert found.record(EVERY_MODEL, "write") is not None


def test_thinking_is_kept_apart() -> None:
    found = learn([ended(900, reasoning_tokens=800) for _ in range(100)], (), 1).lengths("gpt-4.1", "write")
    assert found is not None
    assert (found.reasoned, found.reasoning_tokens) == (100, 800)
    assert found.whole.expected_tokens > 850
    assert found.visible.expected_tokens < 150
    # 100 of 105 parts of 800 and 5 of 500
    asked = OutputForecast(0, 500, 1000, "assumption")
    assert found.thought(asked).expected_tokens == (100 * 800 + 5 * 500) // 105
    assert found.thought(OutputForecast(700, 700, 700, "given")).expected_tokens == 700


def test_translations_are_learnt_for_their_input() -> None:
    records = [ended(n * 3, task_class="translate", input_tokens=n) for n in range(50, 250)]
    lengths = learn(records, (), 1).lengths("gpt-4.1", "translate")
    forecast = forecast_output("translate", 2_000, None, lengths)
    assert forecast.expected_tokens == pytest.approx(6_000, rel=0.05)


def test_caps_thinking_and_several_answers() -> None:
    learnt = LearntLengths(50, OutputForecast(10, 20, 30, "w"), OutputForecast(5, 8, 12, "v"))
    assert numbers(forecast_output("chat", 1, None, learnt)) == (10, 20, 30)
    assert numbers(forecast_output("chat", 1, 25, learnt)) == (10, 20, 25)
    assert numbers(forecast_output("chat", 1, 50, learnt, answers=3)) == (30, 50, 50)
    thinking = OutputForecast(0, 100, 200, "t")
    assert numbers(forecast_output("chat", 1, 10, learnt, thinking=thinking)) == (5, 108, 210)


# Input, latency, failures


def test_input_ratios_by_hand() -> None:
    """Five calls weigh as much as none: of 1.2, 1.1."""
    assert input_ratio([1.2] * 5) == InputRatio(5, 1100, 1100, 1100)
    found = learn([ended(), ended(script="hangul", input_tokens=80), ended(script=None)], (), 1)
    assert set(found.inputs) == {("gpt-4.1", "latin"), ("gpt-4.1", "hangul")}
    assert found.input_ratio("gpt-4.1", None) is None


def test_latencies_by_hand() -> None:
    some = [ended(latency_us=seconds * 1_000_000, ttft_us=seconds * 1000) for seconds in range(1, 11)]
    assert latency_of(some) == Latency(10, 5.0, 9.0, 0.005)
    assert latency_of(some[:4]) is None
    assert latency_of([each._replace(has_failed=True) for each in some]) is None


def test_a_class_too_seldom_timed_has_the_latency_of_the_model() -> None:
    found = learn([*(ended() for _ in range(5)), ended(task_class="code")], (), 1)
    assert found.latency("gpt-4.1", "code") == found.latencies["gpt-4.1"]
    assert found.latency("kimi-k2", "code") is None


def test_failures_are_counted_and_shrunk() -> None:
    found = learn([*(ended() for _ in range(14)), ended(None, has_failed=True)], (), 1)
    record = found.record("gpt-4.1", "write")
    assert record is not None
    assert (record.attempts, record.failed) == (15, 1)
    assert found.failure_share("gpt-4.1", "write") == 1 / 20
    assert found.failure_share("kimi-k2", "write") == 0


def test_an_assumed_latency_is_the_first_token_and_the_rest() -> None:
    assert assumed_latency_s(440) == pytest.approx(1.7 + 10)


# Intervals of runs


def test_widths_by_hand() -> None:
    """Costs of 100 + 0 … 89 for a forecast of 80 / 100 / 120: the tenth highest is four times as far as the end."""
    runs = [EndedRun(False, 80, 100, 120, 100 + number) for number in range(90)]
    # ⌈0.9 · 91⌉ = 82nd of 90: 81 / 20 = 4.05 on the way up; shrunk with 90 / 110. Down: 82nd of 0 … −89: −8, so 0.
    widths = widths_of(runs)
    assert widths.high_milli == round(1000 * (1 + 90 / 110 * (4.05 - 1)))
    assert widths.low_milli == round(1000 * (1 - 90 / 110))
    assert widths_of([EndedRun(False, 100, 100, 100, 5)]) == Widths()


# Where it goes


def experience_of(**more: Any) -> Experience:
    lengths = LearntLengths(50, OutputForecast(10, 20, 30, "learnt"), OutputForecast(10, 20, 30, "learnt"))
    records = {("gpt-4.1", "write"): ClassRecord(50, 0, lengths, Latency(50, 2.5, 4.0))}
    return Experience(1, 50, records, {("gpt-4.1", "latin"): InputRatio(50, 900, 1200, 1500)}, **more)


def test_decisions_take_lengths_input_and_latency_from_the_record() -> None:
    before = decide_task(market(), SETTINGS, task()).chosen
    chosen = decide_task(market(experience_of()), SETTINGS, task()).chosen
    assert (before.script, before.latency_s, before.input_tokens) == ("latin", None, before.estimated_input_tokens)
    assert chosen.estimated_input_tokens == before.input_tokens
    assert chosen.input_tokens == before.input_tokens * 1200 // 1000
    assert chosen.output_tokens == (10, 20, 30)
    assert chosen.prior_high_tokens == before.output_tokens[2]
    assert chosen.latency_s == 2.5
    # 2 and 8 USD per Mtok
    assert chosen.cost is not None
    assert chosen.cost.expected_usd == (Decimal(chosen.input_tokens) * 2 + 20 * 8) / 10**6
    output_alone = (30 - 20) * Decimal(8) / 10**6
    assert chosen.cost.high_usd - chosen.cost.expected_usd > output_alone


def test_what_the_caller_states_is_not_corrected() -> None:
    stated = task(expected_input_tokens=1_000, expected_output_tokens=77)
    chosen = decide_task(market(experience_of()), SETTINGS, stated).chosen
    assert (chosen.input_tokens, chosen.output_tokens) == (1_000, (77, 77, 77))
    assert decide_task(market(experience_of(), latency_s={"gpt-4.1": 9.0}), SETTINGS, stated).chosen.latency_s == 9.0


def test_a_latency_objective_is_held_against_the_record() -> None:
    decision = decide_task(market(experience_of()), SETTINGS, task(latency_objective_s=3))
    assert decision.chosen.warning is None
    assert "no latency is on record" in (
        decide_task(market(), SETTINGS, task(latency_objective_s=3)).chosen.warning or ""
    )


def test_a_memo_does_not_outlive_its_experience() -> None:
    plain = market()
    before = decide_task(plain, SETTINGS, task()).chosen
    assert decide_task(market(experience_of()), SETTINGS, task()).chosen != before
    assert decide_task(plain, SETTINGS, task()).chosen == before


def test_ends_of_runs_are_moved_as_measured_and_the_forecast_itself_is_kept() -> None:
    plain = estimate_task(market(experience_of()), SETTINGS, task())
    moved = estimate_task(market(experience_of(single=Widths(30, 500, 2000))), SETTINGS, task())
    assert plain.cost is not None
    assert moved.cost is not None
    assert plain.uncorrected is None
    assert moved.uncorrected == plain.cost
    assert moved.cost.high_usd - moved.cost.expected_usd == 2 * (plain.cost.high_usd - plain.cost.expected_usd)
