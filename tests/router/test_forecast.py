"""Output forecasts: their numbers come from public records, and are computed again from them here."""

from __future__ import annotations

import csv
import json
import statistics
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.classify import TASK_CLASSES
from router.forecast import OutputForecast, forecast_output

CLASSES = st.sampled_from([*TASK_CLASSES, None, "a class of the user's own"])


def numbers(forecast: OutputForecast) -> tuple[int, int, int]:
    return forecast.low_tokens, forecast.expected_tokens, forecast.high_tokens


def measured(lengths: list[int]) -> tuple[int, int, int]:
    """Return the 10 % quantile, the mean and the 90 % quantile, rounded."""
    deciles = statistics.quantiles(lengths, n=10, method="inclusive")
    return round(deciles[0]), round(statistics.fmean(lengths)), round(deciles[-1])


def trace(path: Path) -> list[int]:
    with path.open(encoding="utf-8") as lines:
        if path.suffix == ".jsonl":
            return [json.loads(line)["output_length"] for line in lines]
        return [int(row["GeneratedTokens"]) for row in csv.DictReader(lines)]


def test_chat_is_the_two_conversation_traces_pooled(shared: Path) -> None:
    azure = trace(shared / "data/traces/azure_llm_2023_conv.csv")
    kimi = trace(shared / "data/traces/mooncake_conversation.jsonl")
    assert len(azure) + len(kimi) == 31_397
    assert numbers(forecast_output("chat", 100, None)) == measured(azure + kimi)


def test_the_assumption_is_the_widest_of_the_traces(shared: Path) -> None:
    traces = shared / "data/traces"
    every = [measured(trace(path)) for path in sorted(traces.iterdir()) if path.suffix in {".csv", ".jsonl"}]
    assert len(every) == 3
    forecast = forecast_output("plan", 100, None)
    assert forecast.low_tokens == min(low for low, _, _ in every)
    assert forecast.high_tokens == max(high for _, _, high in every)


def test_math_is_the_record_of_grade_school_problems(shared: Path) -> None:
    parquet = import_module("pyarrow.parquet")
    table = parquet.read_table(shared / "data/routing/outcomes.parquet").to_pylist()
    rows = [row for row in table if (row["source"], row["dataset"]) == ("routellm", "gsm8k")]
    assert len(rows) == 2_638
    assert numbers(forecast_output("math", 100, None)) == measured([int(row["output_tokens"]) for row in rows])


@pytest.mark.parametrize(
    ("task_class", "input_tokens", "cap", "expected"),
    [
        ("chat", 10, None, (47, 262, 499)),
        ("chat", 100_000, None, (47, 262, 499)),
        ("chat", 10, 300, (47, 262, 300)),
        ("chat", 10, 20, (20, 20, 20)),
        ("chat", 10, 0, (0, 0, 0)),
        ("math", 10, None, (41, 90, 154)),
        ("code", 10, None, (7, 262, 597)),
        (None, 10, None, (7, 262, 597)),
        ("translate", 101, None, (51, 101, 202)),
        ("translate", 101, 150, (51, 101, 150)),
        ("translate", 0, None, (1, 1, 2)),
    ],
)
def test_by_hand(task_class: str | None, input_tokens: int, cap: int | None, expected: tuple[int, int, int]) -> None:
    assert numbers(forecast_output(task_class, input_tokens, cap)) == expected


@pytest.mark.parametrize("task_class", [name for name in TASK_CLASSES if name not in {"chat", "math"}])
def test_what_was_not_measured_says_so(task_class: str) -> None:
    assert forecast_output(task_class, 10, None).source.startswith("assumption")


@pytest.mark.parametrize("task_class", ["chat", "math"])
def test_what_was_measured_names_its_record(task_class: str) -> None:
    assert "answers" in forecast_output(task_class, 10, None).source


@given(CLASSES, st.integers(0, 2_000_000), st.one_of(st.none(), st.integers(0, 100_000)))
def test_in_order_and_under_the_cap(task_class: str | None, input_tokens: int, cap: int | None) -> None:
    """0 ≤ low ≤ expected ≤ high ≤ cap."""
    low, expected, high = numbers(forecast_output(task_class, input_tokens, cap))
    assert 0 <= low <= expected <= high
    assert cap is None or high <= cap
