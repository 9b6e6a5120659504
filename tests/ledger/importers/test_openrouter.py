"""OpenRouter's activity: a generation of the CSV is a request, a day of the API a bucket of unknown cached tokens.

The JSON sample follows https://openrouter.ai/docs/api/api-reference/analytics/get-user-activity (its first item is the
documentation's own). The CSV has the columns of published exports of 2026; OpenRouter documents that it can be had
(https://openrouter.ai/docs/cookbook/administration/activity-export), not its columns.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.ledger import Ledger
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Counts, Record, Rejected
from router.ledger.importers.tally import ImportResult
from router.ledger.records import Amount

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]

OCTOBER_US = 1_790_812_800_000_000
DAY_US = 86_400_000_000


def _csv(*rows: dict[str, Any]) -> str:
    plain = {
        "generation_id": "gen-1",
        "created_at": "2026-10-01 10:20:00.040",
        "cost_total": "0.01",
        "byok_usage_inference": "0",
        "tokens_prompt": "1000",
        "tokens_completion": "100",
        "tokens_reasoning": "0",
        "tokens_cached": "0",
        "model_permaslug": "openai/gpt-4.1",
        "provider_name": "OpenAI",
        "variant": "standard",
        "cancelled": "false",
        "finish_reason_normalized": "stop",
        "generation_time_ms": "4200",
        "time_to_first_token_ms": "",
        "api_key_name": "",
        "app_name": "",
    }
    text = io.StringIO()
    writer = csv.DictWriter(text, list(plain))
    writer.writeheader()
    writer.writerows(plain | row for row in rows)
    return text.getvalue()


def _day(**changes: Any) -> dict[str, Any]:
    plain = {
        "date": "2026-10-01",
        "model": "openai/gpt-4.1",
        "model_permaslug": "openai/gpt-4.1-2025-04-14",
        "endpoint_id": "e-1",
        "provider_name": "OpenAI",
        "usage": 0.015,
        "byok_usage_inference": 0,
        "requests": 5,
        "prompt_tokens": 50,
        "completion_tokens": 125,
        "reasoning_tokens": 25,
    }
    return {**plain, **changes}


def test_a_generation_is_a_request(read: Read, samples: Path) -> None:
    found, rejected = read("openrouter", samples / "openrouter_activity.csv")
    assert rejected == []
    # Cached tokens are inside the prompt, reasoning inside the completion: 10,000 − 4,000 and 500 − 120.
    assert [record.counts for record in found] == [
        Counts(6_000, 4_000, plain_output_tokens=500),
        Counts(2_000, plain_output_tokens=380, reasoning_tokens=120),
        Counts(1_000),
        Counts(300, plain_output_tokens=40),
        Counts(100, plain_output_tokens=50),
    ]
    first = found[0]
    assert first.at_us == OCTOBER_US + (10 * 3600 + 20 * 60) * 1_000_000 + 40_000  # without a zone it is UTC
    assert (first.latency_us, first.ttft_us, first.tenant) == (4_200_000, 310_000, "search")
    assert dict(first.tags) == {"app": "Finder", "provider": "OpenAI"}
    assert [record.status for record in found] == ["succeeded", "succeeded", "stopped", "succeeded", "succeeded"]
    assert found[3].model == "deepseek/deepseek-r1:free"


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_generations_are_priced_by_hand_and_only_once(ledger: Ledger, take: Take, samples: Path) -> None:
    result = take(ledger, "openrouter", samples / "openrouter_activity.csv")
    assert (result.rows, result.added, result.rejected_rows, result.unpriced) == (5, 5, 0, 1)
    assert dict(result.unpriced_models) == {"deepseek/deepseek-r1:free": 1}
    assert (result.input_tokens, result.output_tokens) == (13_400, 1_090)
    # In millionths. gpt-4.1: 6,000 × 2 + 4,000 × 0.5 + 500 × 8 = 18,000; gpt-4.1-mini (0.4, 1.6): 2,000 × 0.4 +
    # 500 × 1.6 = 1,600; 1,000 × 0.4 = 400; 100 × 0.4 + 50 × 1.6 = 120.
    assert result.list_cost == (Amount("USD", Decimal("0.02012")),)
    # What OpenRouter took has the search of the last one in it: 0.0235 + 0.0016 + 0.0004 + 0 + 0.0201.
    assert result.reported_cost_usd == Decimal("0.0456")
    assert take(ledger, "openrouter", samples / "openrouter_activity.csv").added == 0


def test_a_day_is_a_bucket(ledger: Ledger, read: Read, take: Take, samples: Path) -> None:
    found, rejected = read("openrouter", samples / "openrouter_activity.json")
    assert rejected == []
    assert [record.counts for record in found] == [
        Counts(50, plain_output_tokens=100, reasoning_tokens=25),
        Counts(3_000_000, plain_output_tokens=600_000),
    ]
    assert [(record.at_us, record.end_us) for record in found] == [
        (OCTOBER_US, OCTOBER_US + DAY_US),
        (OCTOBER_US + DAY_US, OCTOBER_US + 2 * DAY_US),
    ]
    assert all(record.estimated for record in found)  # which of them a cache served is not said
    result = take(ledger, "openrouter", samples / "openrouter_activity.json")
    assert (result.rows, result.buckets, result.added, result.requests) == (2, 2, 2, 1_205)
    # gpt-4.1: 50 × 2 + 125 × 8 millionths; Azure's prices are not known here, and not taken to be OpenAI's.
    assert (result.list_cost, result.unpriced) == ((Amount("USD", Decimal("0.0011")),), 1)
    # With a key of one's own the provider is paid as well: 0.015 + 0.012; and 2.16.
    assert result.reported_cost_usd == Decimal("2.187")


@pytest.mark.parametrize(
    ("slug", "provider", "model"),
    [
        ("anthropic/claude-4.5-sonnet-20250929", "Anthropic", "claude-sonnet-4.5"),
        ("anthropic/claude-sonnet-4.5", "Anthropic", "claude-sonnet-4.5"),
        ("google/gemini-2.5-flash", "Google AI Studio", "gemini-2.5-flash"),
        ("openai/gpt-4.1-2025-04-14", "OpenAI", "gpt-4.1"),
    ],
)
def test_a_slug_is_found_in_its_vendors_list(take: Take, write: Write, slug: str, provider: str, model: str) -> None:
    result = take(None, "openrouter", write(_csv({"model_permaslug": slug, "provider_name": provider})))
    assert (result.unpriced, dict(result.unpriced_models)) == (0, {}), model


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokens_cached": "1001"}, r"tokens_prompt is 1000, less than its parts \(1001\)"),
        ({"tokens_reasoning": "101"}, "tokens_completion is 100, less than its parts"),
        ({"tokens_prompt": "1,000"}, "without signs between its thousands"),
        ({"tokens_prompt": "1.5"}, "a whole number is allowed"),
        ({"model_permaslug": ""}, "model_permaslug is missing"),
        ({"created_at": ""}, "created_at is ''"),
        ({"cancelled": "maybe"}, "cancelled is 'maybe'; true or false"),
        ({"cost_total": "-1"}, "cost_total is '-1'; an amount from 0"),
        ({"generation_time_ms": "-5"}, "generation_time_ms is -5; milliseconds"),
    ],
)
def test_a_generation_that_is_none_is_rejected_alone(
    read: Read, write: Write, changes: dict[str, Any], reason: str
) -> None:
    found, rejected = read("openrouter", write(_csv(changes, {"generation_id": "other"})))
    assert [record.identity for record in found] == ["other"]
    assert re.search(reason, rejected[0].reason), rejected[0].reason


def test_how_a_generation_ended(read: Read, write: Write) -> None:
    rows = ({"finish_reason_normalized": "error"}, {"cancelled": "TRUE"}, {"finish_reason_normalized": "length"})
    found, _ = read("openrouter", write(_csv(*rows)))
    assert [(record.status, record.error_kind) for record in found] == [
        ("failed", "server_error"),
        ("stopped", None),
        ("succeeded", None),
    ]


def test_a_day_that_is_not_over_is_rejected(take: Take, write: Write) -> None:
    text = json.dumps({"data": [_day(), _day(date="2026-10-02 00:00:00")]})
    result = take(None, "openrouter", write(text), now_us=OCTOBER_US + DAY_US)
    assert (result.rows, result.first_us) == (1, OCTOBER_US)
    assert "ends at 2026-10-03 00:00Z and is not over yet" in result.rejected[0].reason


def test_each_endpoint_of_a_model_is_a_bucket_of_its_own(ledger: Ledger, take: Take, write: Write) -> None:
    text = json.dumps({"data": [_day(), _day(endpoint_id="e-2"), _day()]})
    result = take(ledger, "openrouter", write(text))
    assert (result.rows, result.added, result.skipped) == (3, 2, 1)


def test_a_table_without_generations_is_not_recognised() -> None:
    assert not source_named("openrouter").recognises("Model,Spend,Tokens,Requests\nopenai/gpt-4.1,1.20,3000,10\n")
