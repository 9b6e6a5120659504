"""Usage reports of the APIs that are not Chat Completions, and what answers say beside their counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pricing import (
    AttemptUsage,
    Usage,
    UsageError,
    extract_attempts,
    extract_usage,
    last_per_message,
    last_snapshot,
    reported_cost_usd,
    served_tier,
)
from pricing.extract import EXTRACTORS, usage_from_gemini

Report = dict[str, Any]


def part(modality: str, count: int | None) -> Report:
    return {"modality": modality} if count is None else {"modality": modality, "tokenCount": count}


READ: list[tuple[str, str, Report, Usage]] = [
    (
        "images: what is not itemised is image",
        "openai_images",
        {"input_tokens": 9, "output_tokens": 8, "total_tokens": 17},
        Usage(uncached_input_tokens=9, image_output_tokens=8),
    ),
    (
        "images: zeros beside a count were not filled in",
        "openai_images",
        {"input_tokens": 9, "output_tokens": 8, "output_tokens_details": {"text_tokens": 0, "image_tokens": 0}},
        Usage(uncached_input_tokens=9, image_output_tokens=8),
    ),
    (
        "images: only the text is itemised: 8 - 3 = 5 image",
        "openai_images",
        {"input_tokens": 9, "output_tokens": 8, "output_tokens_details": {"text_tokens": 3}},
        Usage(uncached_input_tokens=9, plain_output_tokens=3, image_output_tokens=5),
    ),
    (
        "Anthropic: a split of zeros was not filled in; all is 5 minutes",
        "anthropic_messages",
        {
            "input_tokens": 1,
            "cache_creation_input_tokens": 9,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 2,
        },
        Usage(uncached_input_tokens=1, cache_write_5m_tokens=9, plain_output_tokens=2),
    ),
    (
        "Anthropic: thinking is inside the output: 10 - 4 = 6",
        "anthropic_messages",
        {"input_tokens": 1, "output_tokens": 10, "output_tokens_details": {"thinking_tokens": 4}},
        Usage(uncached_input_tokens=1, plain_output_tokens=6, reasoning_tokens=4),
    ),
    (
        "Anthropic: one iteration is the answer itself, billed without output too",
        "anthropic_messages",
        {"input_tokens": 5, "output_tokens": 0, "iterations": [{"input_tokens": 5, "output_tokens": 0}]},
        Usage(uncached_input_tokens=5),
    ),
    (
        "Gemini leaves zeros out; the total shows that nothing was made",
        "gemini",
        {"promptTokenCount": 7, "totalTokenCount": 7},
        Usage(uncached_input_tokens=7),
    ),
    (
        "Gemini: candidates that include the thoughts, as the total shows: 10 + 8 = 18; 8 - 5 = 3",
        "gemini",
        {"promptTokenCount": 10, "candidatesTokenCount": 8, "thoughtsTokenCount": 5, "totalTokenCount": 18},
        Usage(uncached_input_tokens=10, plain_output_tokens=3, reasoning_tokens=5),
    ),
    (
        "Gemini Live names its output responses; 20 - 15 = 5 text",
        "gemini",
        {
            "promptTokenCount": 30,
            "promptTokensDetails": [part("AUDIO", 25), part("TEXT", 5)],
            "responseTokenCount": 20,
            "responseTokensDetails": [part("AUDIO", 15), part("TEXT", 5)],
            "totalTokenCount": 50,
        },
        Usage(uncached_input_tokens=5, audio_input_tokens=25, plain_output_tokens=5, audio_output_tokens=15),
    ),
    (
        "Gemini: audio of a tool leaves the text too: 10 + 6 - 4 = 12; video stays text",
        "gemini",
        {
            "promptTokenCount": 10,
            "promptTokensDetails": [part("TEXT", 4), part("VIDEO", 6), part("AUDIO", None)],
            "toolUsePromptTokenCount": 6,
            "toolUsePromptTokensDetails": [part("AUDIO", 4)],
            "candidatesTokenCount": 1,
            "totalTokenCount": 17,
        },
        Usage(uncached_input_tokens=12, audio_input_tokens=4, plain_output_tokens=1),
    ),
    (
        "Gemini: a prompt that is not itemised is text, whatever its cache holds",
        "gemini",
        {
            "promptTokenCount": 10,
            "cachedContentTokenCount": 4,
            "cacheTokensDetails": [part("AUDIO", 4)],
            "candidatesTokenCount": 1,
        },
        Usage(uncached_input_tokens=6, cache_read_tokens=4, plain_output_tokens=1),
    ),
    (
        "Bedrock under the names of InvokeModel",
        "bedrock_converse",
        {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokenCount": 3, "cacheWriteInputTokenCount": 4},
        Usage(uncached_input_tokens=1, cache_read_tokens=3, cache_write_5m_tokens=4, plain_output_tokens=2),
    ),
    (
        "Bedrock states the split alone",
        "bedrock_converse",
        {"inputTokens": 1, "outputTokens": 2, "cacheDetails": [{"ttl": "1h", "inputTokens": 4}]},
        Usage(uncached_input_tokens=1, cache_write_1h_tokens=4, plain_output_tokens=2),
    ),
    (
        "OpenRouter: writes inside the prompt, searches, its cost aside: 194 - 100 = 94",
        "openrouter_chat",
        {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "total_tokens": 196,
            "cost": 0.95,
            "is_byok": False,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100, "audio_tokens": 0},
            "server_tool_use": {"web_search_requests": 2},
        },
        Usage(uncached_input_tokens=94, cache_write_5m_tokens=100, plain_output_tokens=2, web_searches=2),
    ),
    (
        "litellm: the top alone states what was cached: 10 - 4 - 3 = 3",
        "litellm",
        {"prompt_tokens": 10, "completion_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3},
        Usage(uncached_input_tokens=3, cache_read_tokens=4, cache_write_5m_tokens=3, plain_output_tokens=1),
    ),
    (
        "Azure, nulls and filters beside the counts",
        "azure_chat",
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "completion_tokens_details": None, "x": [1]},
        Usage(uncached_input_tokens=5, plain_output_tokens=1),
    ),
]


@pytest.mark.parametrize(("api", "report", "usage"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_buckets(api: str, report: Report, usage: Usage) -> None:
    assert extract_usage(api, report) == usage


REFUSED: list[tuple[str, Report, str]] = [
    ("openai_images", {"input_tokens": 1, "output_tokens": 2, "total_tokens": 4}, "total_tokens is 4, but its parts"),
    (
        "openai_images",
        {"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"text_tokens": 3, "image_tokens": 5}},
        r"output_tokens is 9, but text and image tokens are 3 \+ 5",
    ),
    ("openai_responses", {"input_tokens": 1, "output_tokens": -2}, "output_tokens is -2"),
    (
        "openai_responses",
        {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 2}},
        "input_tokens is 1, but its parts make 2",
    ),
    (
        "openai_chat",
        {"prompt_tokens": 9, "completion_tokens": 1, "cache_read_input_tokens": 4},
        "cache_read_input_tokens is 4, but prompt_tokens_details has 0",
    ),
    (
        "litellm",
        {"prompt_tokens": 9, "completion_tokens": 1, "cache_read_input_tokens": 4, "cached_tokens": 3},
        "cached_tokens is stated as 3 and 4",
    ),
    ("anthropic_messages", {"input_tokens": 1}, "output_tokens is missing"),
    ("anthropic_messages", {"input_tokens": 1, "output_tokens": 1, "iterations": 3}, "a list of objects is"),
    (
        "anthropic_messages_iterations",
        {"iterations": [{"model": 3, "input_tokens": 1, "output_tokens": 1}]},
        r"usage.iterations\[0\]: model is 3; a text is allowed",
    ),
    ("gemini", {"promptTokenCount": 10}, "candidatesTokenCount is missing"),
    ("gemini", {"candidatesTokenCount": 10}, "promptTokenCount is missing"),
    ("gemini", {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 16}, "totalTokenCount is 16"),
    (
        "gemini",
        {"promptTokenCount": 10, "candidatesTokenCount": 5, "cachedContentTokenCount": 11},
        "promptTokenCount is 10, but its parts make 11",
    ),
    (
        "gemini",
        {"promptTokenCount": 10, "candidatesTokenCount": 5, "promptTokensDetails": [part("TEXT", 6), part("AUDIO", 5)]},
        "promptTokenCount is 10, but its parts make 11",
    ),
    ("gemini", {"promptTokenCount": 1, "candidatesTokenCount": 5, "promptTokensDetails": {"TEXT": 1}}, "a list of"),
    ("bedrock_converse", {"inputTokens": 1, "outputTokens": 2, "totalTokens": 4}, "totalTokens is 4, but its parts"),
    (
        "bedrock_converse",
        {"inputTokens": 1, "outputTokens": 2, "cacheDetails": [{"ttl": "2h", "inputTokens": 4}]},
        "ttl is '2h'; 5m or 1h is allowed",
    ),
    (
        "bedrock_converse",
        {
            "inputTokens": 1,
            "outputTokens": 2,
            "cacheWriteInputTokens": 5,
            "cacheDetails": [{"ttl": "5m", "inputTokens": 4}],
        },
        r"cacheWriteInputTokens is 5, but 5 min and 1 h writes are 4 \+ 0",
    ),
    ("openai_chat", {"prompt_tokens": 10**12 + 1, "completion_tokens": 1}, "0 or more up to 1000000000000 is allowed"),
    (
        "gemini",  # a bucket made of two counts, each within the bound: 10**12 + 1
        {"promptTokenCount": 10**12, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 0},
        "uncached_input_tokens is 1000000000001; a whole number up to 1000000000000 is allowed",
    ),
    (
        "bedrock_converse",
        {"inputTokens": 1, "outputTokens": 2, "cacheDetails": [{"ttl": "5m", "inputTokens": 10**12}] * 2},
        "cache_write_5m_tokens is 2000000000000",
    ),
    ("openai_chat", {"prompt_tokens": 10**5000, "completion_tokens": 1}, "prompt_tokens is a int too long to show"),
]


def test_attempts_whose_sum_no_request_has_are_refused() -> None:
    entry = {"type": "message", "model": "m", "input_tokens": 1, "output_tokens": 10**12}
    report = {"input_tokens": 1, "output_tokens": 1, "iterations": [entry, entry]}
    with pytest.raises(UsageError, match="plain_output_tokens is 2000000000000"):
        extract_attempts("anthropic_messages", report)


@pytest.mark.parametrize(("api", "report", "said"), REFUSED)
def test_a_report_that_cannot_be_right_is_refused(api: str, report: Report, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        extract_usage(api, report)


@pytest.mark.parametrize("api", EXTRACTORS)
def test_no_counts_are_missing_usage(api: str) -> None:
    assert extract_usage(api, None) is None
    assert extract_usage(api, {}) is None
    assert extract_attempts(api, {"cost": 1}) is None


def test_grounding_by_search_is_paid_by_the_query() -> None:
    report = {"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 16}
    assert usage_from_gemini(report) == Usage(uncached_input_tokens=15, plain_output_tokens=1)
    assert usage_from_gemini(report, search_grounded=True) == Usage(uncached_input_tokens=10, plain_output_tokens=1)


def test_searches_are_counted_from_calls_made() -> None:
    report = {"input_tokens": 1, "output_tokens": 2}
    items = ["web_search_call", {"type": "web_search_call", "action": {"type": "find_in_page"}}, {"type": "message"}, 3]
    usage = extract_usage("openai_responses", report, output_items=items)
    assert usage == Usage(uncached_input_tokens=1, plain_output_tokens=2, web_searches=1)


def entry(model: str, output: int, **more: Any) -> Report:
    return {"model": model, "input_tokens": 10, "output_tokens": output, **more}


def test_each_attempt_has_its_model() -> None:
    report = {
        "input_tokens": 10,
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 2},
        "iterations": [entry("a", 0), entry("a", 3), entry("b", 5)],
    }
    expected = (
        AttemptUsage("a", Usage(10, 0, 0, 0, 0, 0, 3)),
        AttemptUsage("b", Usage(10, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2)),
    )
    assert extract_attempts("anthropic_messages_iterations", report) == expected
    assert extract_attempts("anthropic_messages", report) == expected
    with pytest.raises(UsageError, match=r"iterations are of several models \(a, b\)"):
        extract_usage("anthropic_messages", report)


def test_nothing_is_billed_where_every_attempt_was_declined() -> None:
    assert extract_attempts("anthropic_messages_iterations", {"iterations": [entry("a", 0), entry("b", 0)]}) == ()
    assert extract_usage("anthropic_messages_iterations", {"iterations": [entry("a", 0)]}) == Usage()


def test_an_hour_that_only_the_sum_states_cannot_be_told() -> None:
    split = {"ephemeral_1h_input_tokens": 4}
    iterations = [entry("a", 1, cache_creation_input_tokens=4), entry("a", 1)]
    report = {"input_tokens": 20, "output_tokens": 2, "cache_creation": split, "iterations": iterations}
    with pytest.raises(UsageError, match=r"iterations\[0\] does not split its cache writes"):
        extract_attempts("anthropic_messages", report)


def test_the_last_snapshot_of_a_stream_holds() -> None:
    start = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}
    snapshots = [None, start, {"output_tokens": 5}, {"output_tokens": 8, "input_tokens": None}]
    assert last_snapshot("anthropic_messages", snapshots) == {**start, "output_tokens": 8}
    assert last_snapshot("openai_chat", [{"prompt_tokens": 1}, {"prompt_tokens": 2}, {}, None]) == {"prompt_tokens": 2}
    assert last_snapshot("gemini", [None, {}]) is None


def test_a_message_that_grows_in_a_transcript_counts_once() -> None:
    records = [("m1", {"n": 1}), ("m2", {"n": 9}), ("m1", {"n": 2}), ("m1", None), (None, {"n": 3}), ("", {"n": 3})]
    assert last_per_message(records) == ({"n": 2}, {"n": 9}, {"n": 3}, {"n": 3})
    assert last_per_message([("m1", None)]) == (None,)


@pytest.mark.parametrize(
    ("api", "report", "tier"),
    [
        ("anthropic_messages", {"service_tier": "priority"}, "priority"),
        ("anthropic_messages", {"service_tier": "standard", "speed": "fast"}, "fast"),
        ("gemini", {"serviceTier": "FLEX"}, "flex"),
        ("gemini", {"trafficType": "ON_DEMAND"}, "standard"),
        ("gemini", {"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
        ("gemini", {"trafficType": "PROVISIONED_THROUGHPUT"}, "provisioned_throughput"),
        ("gemini", {}, None),
        ("openai_chat", {"service_tier": "x"}, None),
        ("gemini", None, None),
    ],
)
def test_the_tier_that_a_usage_names(api: str, report: Report | None, tier: str | None) -> None:
    assert served_tier(api, report) == tier


@pytest.mark.parametrize(
    ("report", "cost"),
    [
        (None, None),
        ({}, None),
        ({"cost": None}, None),
        ({"cost": 0}, "0"),
        ({"cost": 0.00014}, "0.00014"),
        ({"cost": Decimal("0.1234567890123456789")}, "0.1234567890123456789"),
        ({"cost": 0.95, "cost_details": {"upstream_inference_cost": 19}}, "0.95"),
        ({"cost": 0.95, "is_byok": True, "cost_details": {"upstream_inference_cost": 19}}, "19.95"),
        ({"cost": 0.95, "is_byok": True}, None),
    ],
)
def test_the_cost_that_a_relay_states(report: Report | None, cost: str | None) -> None:
    assert reported_cost_usd(report) == (None if cost is None else Decimal(cost))


@pytest.mark.parametrize(
    "value",
    [-1, True, "x", float("nan"), float("inf"), [], "1e999999", "1e-999", 10**6 + 1, "0" * 100 + "1", Decimal("NaN")],
)
def test_a_stated_cost_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"usage\.cost: .* an amount in USD from 0 to 1000000 is"):
        reported_cost_usd({"cost": value})
