"""Langfuse's observations: generations alone, from every export, and no usage key passed over.

The samples follow https://langfuse.com/docs/api-and-data-platform/features/observations-api (JSON, and the UI's CSV
with the same names) and …/blob-storage-export-fields (JSON lines, snake case, instants in UTC without a zone).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.ledger import Ledger
from router.ledger.importers.langfuse_usage import usage_counts
from router.ledger.importers.record import BadRecordError, Counts, Record, Rejected
from router.ledger.importers.tally import ImportResult
from router.ledger.records import Amount

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]

AT_US = 1_790_812_800_000_000 + (16 * 3600 + 9 * 60) * 1_000_000 + 875_000  # 2026-10-01T16:09:00.875Z


def _observation(**changes: Any) -> dict[str, Any]:
    plain = {
        "id": "obs-1",
        "traceId": "trace-1",
        "type": "GENERATION",
        "startTime": "2026-10-01T16:09:00.875Z",
        "endTime": "2026-10-01T16:09:01.456Z",
        "level": "DEFAULT",
        "model": "gpt-4.1",
        "usageDetails": {"input": 10, "output": 5, "total": 15},
    }
    return {**plain, **changes}


def _data(*observations: dict[str, Any]) -> str:
    return json.dumps({"data": list(observations), "meta": {"cursor": None}})


def test_a_generation_is_a_request_and_a_span_is_none(read: Read, samples: Path) -> None:
    found, rejected = read("langfuse", samples / "langfuse_observations.json")
    assert [record.identity for record in found] == ["obs-1", "obs-3", "obs-4"]  # obs-2 is a span
    assert [record.counts for record in found] == [
        Counts(uncached_input_tokens=86, cache_read_tokens=17_817, plain_output_tokens=188),
        Counts(500, 1_500, 700, 300, plain_output_tokens=400, reasoning_tokens=100),
        None,
    ]
    first = found[0]
    assert (first.at_us, first.latency_us, first.ttft_us) == (AT_US, 581_000, 120_000)
    assert dict(first.tags) == {
        "environment": "production",
        "trace": "support-chat",
        "user": "u-1",
        "support": "yes",
        "chat": "yes",
    }
    assert [record.status for record in found] == ["succeeded", "succeeded", "failed"]
    assert [line.reason for line in rejected] == ["some_other_token_count is 10; no such key of usage is known here"]


@pytest.mark.parametrize("name", ["langfuse_observations.csv", "langfuse_observations.jsonl"])
def test_every_export_says_the_same(read: Read, samples: Path, name: str) -> None:
    expected, _ = read("langfuse", samples / "langfuse_observations.json")
    found, rejected = read("langfuse", samples / name)
    assert [record._replace(line=0) for record in found] == [record._replace(line=0) for record in expected]
    assert len(rejected) == 1


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_observations_are_priced_by_hand_and_only_once(ledger: Ledger, take: Take, samples: Path) -> None:
    result = take(ledger, "langfuse", samples / "langfuse_observations.csv")
    assert (result.rows, result.added, result.rejected_rows, result.usage_unknown) == (3, 3, 1, 1)
    assert (result.input_tokens, result.output_tokens) == (86 + 17_817 + 3_000, 188 + 500)
    # gpt-4.1: 86 × 2 + 17,817 × 0.5 + 188 × 8 = 10,584.5 millionths; claude-sonnet-4.5: 500 × 3 + 1,500 × 0.3 +
    # 700 × 3.75 + 300 × 6 + 500 × 15 = 13,875. Langfuse says the same.
    assert result.list_cost == (Amount("USD", Decimal("0.0244595")),)
    assert result.reported_cost_usd == Decimal("0.0244595")
    again = take(ledger, "langfuse", samples / "langfuse_observations.json")
    assert (again.added, again.skipped, again.differing) == (0, 3, 0)


@pytest.mark.parametrize(
    ("details", "counts"),
    [
        # Each key is a bucket of its own (the documentation's own example).
        (
            {"input": 86, "input_cached_tokens": 17817, "output": 188, "total": 18091},
            Counts(86, 17817, 0, 0, 0, 0, 188),
        ),
        # The total is input + output: they include the others.
        (
            {"input": 17903, "input_cached_tokens": 17817, "output": 188, "total": 18091},
            Counts(86, 17817, 0, 0, 0, 0, 188),
        ),
        ({"input": 20, "output": 9, "output_reasoning_tokens": 4, "total": 29}, Counts(20, 0, 0, 0, 0, 0, 5, 4)),
        ({"input_tokens": 7, "output_tokens": 3}, Counts(7, 0, 0, 0, 0, 0, 3)),
        ({"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}, Counts(7, 0, 0, 0, 0, 0, 3, 2)),
        # Details of OpenAI's audio models: text and audio apart, nothing left in `input`.
        ({"input": 0, "input_text_tokens": 10, "input_audio_tokens": 20, "output": 5}, Counts(10, 0, 0, 0, 20, 0, 5)),
        ({"input": 4, "input_cache_creation": 6, "output": 1, "total": 11}, Counts(4, 0, 6, 0, 0, 0, 1)),
        ({"input": 4, "unheard_of": 0, "output": 1}, Counts(4, 0, 0, 0, 0, 0, 1)),
        ({"input": Decimal("4.0"), "output": None}, Counts(4)),
        ({"input": 0, "output": 0, "total": 0}, None),
        ({}, None),
    ],
)
def test_what_usage_keys_mean(details: dict[str, Any], counts: Counts | None) -> None:
    assert usage_counts(details) == counts


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"input": 10, "output": 5, "web_searches": 2}, "web_searches is 2; no such key of usage is known here"),
        ({"input": 10, "output": 5, "total": 16}, "total is 16, but input 10 [+] output 5"),
        ({"input": 10, "input_tokens": 10, "output": 5}, "input 10 and input_tokens 10 may be one count"),
        (
            {"input": 1, "input_cached_tokens": 8, "cache_read_input_tokens": 8, "output": 1, "total": 18},
            "input_cached_tokens 8 and cache_read_input_tokens 8 may be one count",
        ),
        (
            {"input": 1, "cache_creation_input_tokens": 9, "input_cache_creation_5m": 4, "input_cache_creation_1h": 5},
            "cache_creation_input_tokens is 9, and so is its split by time to live",
        ),
        ({"input": 5, "input_cached_tokens": 6, "output": 1, "total": 6}, "input is 5, less than its parts"),
        ({"total": 12}, "total is 12, without input and output"),
        ({"input": -1}, "input is -1; a whole number"),
        ({"input": 1.5}, "input is 1.5; a whole number"),
        ({"total": 3, "total_tokens": 4, "input": 3}, "total is stated as 3 and as 4"),
    ],
)
def test_usage_that_cannot_be_told_is_rejected(details: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        usage_counts(details)


@given(
    st.integers(1, 10**9),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.integers(0, 10**9),
)
def test_inclusive_and_exclusive_counts_of_one_total_are_the_same(
    fresh: int, cached: int, plain: int, reasoning: int
) -> None:
    """Law: the total is the sum of the buckets, whether `input` and `output` include their parts or not."""
    parts = {"input_cached_tokens": cached, "output_reasoning_tokens": reasoning}
    total = fresh + cached + plain + reasoning
    exclusive = usage_counts({"input": fresh, "output": plain, **parts, "total": total})
    inclusive = usage_counts({"input": fresh + cached, "output": plain + reasoning, **parts, "total": total})
    assert exclusive == inclusive == Counts(fresh, cached, plain_output_tokens=plain, reasoning_tokens=reasoning)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, "model is not stated"),
        ({"type": None}, "type is missing"),
        ({"startTime": "2026-13-01"}, "startTime is '2026-13-01'"),
        ({"endTime": "2026-10-01T16:09:00Z"}, "endTime is 875000 microseconds before startTime"),
        ({"usageDetails": "[1]"}, r"usageDetails is '\[1\]'; a JSON object"),
        ({"usageDetails": {}, "usage": {"input": 900, "output": 3, "unit": "CHARACTERS"}}, "usage is in CHARACTERS"),
        ({"costDetails": {"total": "free"}}, "total cost is 'free'; a number"),
        ({"tags": "prod"}, "tags is 'prod'; a JSON list"),
    ],
)
def test_an_observation_that_is_none_is_rejected_alone(
    read: Read, write: Write, changes: dict[str, Any], reason: str
) -> None:
    found, rejected = read("langfuse", write(_data(_observation(**changes), _observation(id="other"))))
    assert [record.identity for record in found] == ["other"]
    assert re.search(reason, rejected[0].reason), rejected[0].reason


def test_older_exports_are_read_too(read: Read, write: Write) -> None:
    old = _observation(usageDetails=None, usage={"input": 10, "output": 5, "total": 15, "unit": "TOKENS"})
    older = _observation(usageDetails="", promptTokens=10, completionTokens=5)
    quoted = _observation(model='"gpt-4.1"', type='"GENERATION"')  # CSV once had JSON texts in its cells
    unknown = _observation(usageDetails={}, usage={"input": 0, "output": 0, "total": 0, "unit": "TOKENS"})
    found, _ = read("langfuse", write(_data(old, older, quoted, unknown)))
    assert [record.counts for record in found] == [Counts(10, plain_output_tokens=5)] * 3 + [None]
    assert {record.model for record in found} == {"gpt-4.1"}


def test_a_tier_that_was_asked_for_is_kept(read: Read, write: Write) -> None:
    tiers = [_observation(modelParameters={"service_tier": tier}) for tier in ("flex", "auto", None)]
    found, _ = read("langfuse", write(_data(*tiers)))
    assert [record.service_tier for record in found] == ["flex", None, None]


def test_a_cost_of_0_is_no_cost(read: Read, write: Write) -> None:
    costs: list[dict[str, Any]] = [{"costDetails": {"total": 0}}, {"costDetails": {}, "totalCost": 0.5}, {}]
    found, _ = read("langfuse", write(_data(*(_observation(**each) for each in costs))))
    assert [record.reported_usd for record in found] == [None, Decimal("0.5"), None]


def test_prompts_are_not_in_a_rejects_file(read: Read, write: Write) -> None:
    _, [rejected] = read("langfuse", write(_data(_observation(model=None, input="my diary", output="dear diary"))))
    assert "obs-1" in rejected.text
    assert "diary" not in rejected.text
