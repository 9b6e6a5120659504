"""Cases with a provider's own usage and prices, and the right cost, line by line; and the command that runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pricing.vectors import read_vectors, run_vector

MORE = Path(__file__).parent / "vectors_more.json"
SHARED = Path(__file__).parents[2].parent / "shared" / "cases" / "pricing_vectors.json"
FILES = [file for file in (MORE, SHARED) if file.is_file()]
VECTORS = [vector for file in FILES for vector in read_vectors(file)]
GOOD = next(vector for vector in VECTORS if vector["id"] == "M06")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pricing.vectors", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def test_the_cases_are_there(shared: Path) -> None:
    assert len(read_vectors(shared / "cases" / "pricing_vectors.json")) == 20
    assert len(read_vectors(MORE)) >= 20


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    assert run_vector(vector).faults == ()


TRAPPED = [(vector, trap) for vector in VECTORS for trap in vector.get("trap", {}).values()]


@pytest.mark.parametrize(("vector", "trap"), TRAPPED, ids=[f"{vector['id']} {trap}" for vector, trap in TRAPPED])
def test_a_case_fails_with_any_wrong_answer_seen_in_the_wild(vector: dict[str, Any], trap: str) -> None:
    wrong = run_vector({**vector, "expected_total": trap.removesuffix(" USD")})
    same = trap.removesuffix(" USD") == vector["expected_total"]  # V18: the right number in the wrong currency
    assert wrong.passed is same


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"expected_total": "0.0074"}, "total: expected 0.0074, got 0.0075"),
        ({"expected_total": None}, "total: expected unknown, got 0.0075"),
        ({"expected_lines": {"input": "0.004"}}, "lines: expected input 0.004, got input 0.004, cache_read 0.0015"),
        ({"repeat": 10, "expected_total_repeated": "0.07"}, "10 calls: expected 0.07, got 0.075"),
        ({"usage": None}, r"total: expected 0.0075, got unknown \(unknown\)"),
        ({"usage": {"prompt_tokens": -1}}, r"got unknown \(usage: prompt_tokens is -1;"),
        ({"price": None}, "got unknown"),
        ({"api": "cohere"}, "api: 'cohere' is not known; openai_chat,"),
        (
            {"request_time": "2026-10-01T00:00:00"},
            "request_time: '2026-10-01T00:00:00' is not allowed; an instant with",
        ),
        ({"price": {"input": "1"}}, "price.currency: None is not allowed"),
        ({"price": {"currency": "USD", "unit": "per_token", "input": "1"}}, "price.unit: 'per_token' is not allowed"),
        ({"price": {"currency": "USD", "input": "-1"}}, "price.input: '-1' is not allowed"),
        ({"price": {"currency": "USD", "input": True}}, "price.input: True is not allowed"),
        ({"price": {"currency": "USD", "off_peak": {"input": "1"}}}, "has no peak_windows_utc"),
        (
            {"price": {"currency": "USD", "off_peak": {"input": "1"}, "peak_windows_utc": ["9-10"]}},
            "windows_utc: '9-10' is not allowed",
        ),
        ({"price": {"currency": "USD", "tiers": [{"input": "1"}]}}, "above_input_tokens = None is not allowed"),
        ({"price": {"currency": "USD", "tiers": "none"}}, "price.tiers: 'none' is not allowed"),
        ({"usage": [1]}, r"usage: \[1\] is not allowed; an object of counts is"),
        ({"catalogue_ids": ["gpt-4.1-mini"]}, "got unknown"),
    ],
)
def test_a_case_that_does_not_hold_says_what_was_expected_and_got(change: dict[str, Any], said: str) -> None:
    assert re.search(said, "; ".join(run_vector({**GOOD, **change}).faults))


@pytest.mark.parametrize("missing", ["api", "usage", "price", "expected_total", "model"])
def test_a_case_without_a_needed_key_fails(missing: str) -> None:
    outcome = run_vector({key: value for key, value in GOOD.items() if key != missing})
    assert outcome.faults == (f"the case is not of the format: KeyError: '{missing}'",)


def test_the_command_prints_each_case_and_the_count(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    wrong = {**GOOD, "id": "X1", "expected_total": "1.00"}
    file.write_text(json.dumps({"vectors": [GOOD, wrong]}, default=str), encoding="utf-8")
    done = run(str(file))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "pass M06 batch and cache discounts stack",
        "FAIL X1 batch and cache discounts stack",
        "     total: expected 1.00, got 0.0075",
        "1 passed, 1 failed",
    ]


def test_the_command_ends_well_where_all_hold() -> None:
    done = run(str(MORE))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{len(read_vectors(MORE))} passed, 0 failed")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'{"vectors": []}', "has no list of cases under 'vectors'"),
        (b'{"vectors": [1]}', "has no list of cases under 'vectors'"),
        (b"3", "has no list of cases under 'vectors'"),
    ],
)
def test_what_is_no_file_of_cases_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "cases.json"
    if content is not None:
        file.write_bytes(content)
    done = run(str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_no_file_is_wrong_usage() -> None:
    done = run("")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: no file of cases")
