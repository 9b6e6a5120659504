"""Providers' usage reports → disjoint buckets."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Usage, UsageError, extract_usage

CHAT: list[tuple[str, dict[str, Any], Usage]] = [
    (
        "cached inside prompt, reasoning inside completion: 2006 - 1920 = 86; 300 - 100 = 200",
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 100},
        },
        Usage(uncached_input_tokens=86, cache_read_tokens=1920, plain_output_tokens=200, reasoning_tokens=100),
    ),
    (
        "audio and image leave text first: 100 - 30 - 20 = 50; 40 - 25 - 5 = 10",
        {
            "prompt_tokens": 100,
            "completion_tokens": 40,
            "total_tokens": 140,
            "prompt_tokens_details": {"audio_tokens": 30, "image_tokens": 20},
            "completion_tokens_details": {"audio_tokens": 25, "image_tokens": 5},
        },
        Usage(
            uncached_input_tokens=50,
            audio_input_tokens=30,
            image_input_tokens=20,
            plain_output_tokens=10,
            audio_output_tokens=25,
            image_output_tokens=5,
        ),
    ),
    (
        "cached audio is a cache read, once: 100 - 40 cached - (30 - 10) audio = 40",
        {
            "prompt_tokens": 100,
            "completion_tokens": 0,
            "prompt_tokens_details": {
                "audio_tokens": 30,
                "cached_tokens": 40,
                "cached_tokens_details": {"audio_tokens": 10, "text_tokens": 30},
            },
        },
        Usage(uncached_input_tokens=40, cache_read_tokens=40, audio_input_tokens=20),
    ),
    (
        "Moonshot writes cached tokens at the top",
        {"prompt_tokens": 19, "completion_tokens": 21, "total_tokens": 40, "cached_tokens": 10},
        Usage(uncached_input_tokens=9, cache_read_tokens=10, plain_output_tokens=21),
    ),
    (
        "a zero in the details beside it was not filled in",
        {
            "prompt_tokens": 19,
            "completion_tokens": 21,
            "cached_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        Usage(uncached_input_tokens=9, cache_read_tokens=10, plain_output_tokens=21),
    ),
    (
        "DeepSeek writes hits and misses, and mirrors the hits",
        {
            "prompt_tokens": 100,
            "prompt_cache_hit_tokens": 90,
            "prompt_cache_miss_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 90},
            "completion_tokens": 20,
            "total_tokens": 120,
        },
        Usage(uncached_input_tokens=10, cache_read_tokens=90, plain_output_tokens=20),
    ),
    (
        "litellm: cache writes inside prompt, 1 h split: 1000 - 300 - 200 = 500; 200 - 50 = 150",
        {
            "prompt_tokens": 1000,
            "completion_tokens": 1,
            "total_tokens": 1001,
            "prompt_tokens_details": {
                "cached_tokens": 300,
                "cache_creation_tokens": 200,
                "cache_write_tokens": 200,
                "cache_creation_token_details": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50},
            },
        },
        Usage(
            uncached_input_tokens=500,
            cache_read_tokens=300,
            cache_write_5m_tokens=150,
            cache_write_1h_tokens=50,
            plain_output_tokens=1,
        ),
    ),
    (
        "xAI counts reasoning beside completion, as its total shows: 10 + 5 + 7 = 22",
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 22,
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        Usage(uncached_input_tokens=10, plain_output_tokens=5, reasoning_tokens=7),
    ),
    ("embeddings have no completion", {"prompt_tokens": 8, "total_tokens": 8}, Usage(uncached_input_tokens=8)),
    (
        "nulls are absent",
        {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": None},
        Usage(1, 0, 0, 0, 0, 0, 2),
    ),
    ("nothing used", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage()),
]


@pytest.mark.parametrize(("report", "usage"), [case[1:] for case in CHAT], ids=[case[0] for case in CHAT])
def test_chat(report: dict[str, Any], usage: Usage) -> None:
    assert extract_usage("openai_chat", report) == usage


@pytest.mark.parametrize("report", [None, {}, {"prompt_tokens": None, "completion_tokens": None}, {"cost": 0.1}])
@pytest.mark.parametrize("api", ["openai_chat", "openai_responses", "anthropic_messages", "moonshot_chat"])
def test_no_usage_is_none_never_zero(api: str, report: dict[str, Any] | None) -> None:
    assert extract_usage(api, report) is None


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"prompt_tokens": 10, "completion_tokens": -1}, "completion_tokens is -1"),
        ({"prompt_tokens": 10.5, "completion_tokens": 1}, "prompt_tokens is 10.5"),
        ({"prompt_tokens": True, "completion_tokens": 1}, "prompt_tokens is True"),
        ({"prompt_tokens": "10", "completion_tokens": 1}, "prompt_tokens is '10'"),
        ({"prompt_tokens": 10}, "completion_tokens is missing"),
        ({"completion_tokens": 10}, "prompt_tokens is missing"),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 12},
            "total_tokens is 12, but its parts make 11",
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 11}},
            "prompt_tokens is 10, but its parts make 11",
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 2}},
            "completion_tokens is 1, but its parts make 2",
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "cached_tokens": 3, "prompt_cache_hit_tokens": 4},
            "cached_tokens is stated as 3 and 4",
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 4},
            "cache hits and misses are 4 [+] 4",
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 5, "cached_tokens_details": {"audio_tokens": 2}},
            },
            "audio_tokens is 0, but its parts make 2",
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": [1]}, "an object of counts is"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(report: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        extract_usage("openai_chat", report)


@pytest.mark.parametrize("api", ["openai_chat", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize("report", [[], "usage", 3])
def test_what_is_no_object_is_refused(api: str, report: Any) -> None:
    with pytest.raises(UsageError, match="an object of counts is"):
        extract_usage(api, report)


def test_an_unknown_api_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'openai' is not known; openai_chat,"):
        extract_usage("openai", {})


def test_responses_parts_lie_inside() -> None:
    report = {
        "input_tokens": 300,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 350,
    }
    usage = Usage(uncached_input_tokens=200, cache_read_tokens=100, plain_output_tokens=30, reasoning_tokens=20)
    assert extract_usage("openai_responses", report) == usage


def test_anthropic_input_excludes_reads_and_writes() -> None:
    report = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 400},
        "cache_read_input_tokens": 70,
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 2},
    }
    usage = extract_usage("anthropic_messages", report)
    assert usage == Usage(
        uncached_input_tokens=3,
        cache_read_tokens=70,
        cache_write_5m_tokens=600,
        cache_write_1h_tokens=400,
        plain_output_tokens=5,
        web_searches=2,
    )
    assert usage is not None
    assert usage.input_tokens == 1073


def test_anthropic_writes_without_a_split_are_five_minutes() -> None:
    report = {"input_tokens": 1, "cache_creation_input_tokens": 9, "output_tokens": 1}
    assert extract_usage("anthropic_messages", report) == Usage(1, 0, 9, 0, 0, 0, 1)


def test_anthropic_split_that_misses_its_sum_is_refused() -> None:
    split = {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4}
    report = {"input_tokens": 1, "cache_creation_input_tokens": 9, "cache_creation": split, "output_tokens": 1}
    with pytest.raises(UsageError, match=r"is 9, but 5 min and 1 h writes are 6 \+ 4"):
        extract_usage("anthropic_messages", report)


counts = st.integers(0, 10**7)


@given(counts, counts, counts, counts, counts, counts)
def test_law_buckets_add_up(fresh: int, cached: int, audio: int, text: int, reasoning: int, spoken: int) -> None:
    report = {
        "prompt_tokens": fresh + cached + audio,
        "completion_tokens": text + reasoning + spoken,
        "total_tokens": fresh + cached + audio + text + reasoning + spoken,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": audio},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": spoken},
    }
    usage = extract_usage("openai_chat", report)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (report["prompt_tokens"], report["completion_tokens"])
    assert (usage.uncached_input_tokens, usage.cache_read_tokens, usage.reasoning_tokens) == (fresh, cached, reasoning)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**19) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "audio_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens",
    "output_tokens",
    "cache_creation",
    "cache_creation_input_tokens",
    "ephemeral_1h_input_tokens",
    "server_tool_use",
    "prompt_cache_hit_tokens",
]
names = st.sampled_from(FIELDS)
reports = st.dictionaries(names, junk | st.dictionaries(names, junk, max_size=3), max_size=6)


@given(st.sampled_from(["openai_chat", "openai_responses", "anthropic_messages"]), reports)
def test_law_a_malformed_report_ends_in_a_typed_error_or_whole_buckets(api: str, report: dict[str, Any]) -> None:
    try:
        usage = extract_usage(api, report)
    except UsageError:
        return
    assert usage is None or usage.input_tokens + usage.output_tokens >= 0


ODD = st.sampled_from([None, 0, 3, 7, -1, 1.5, "4", True, {}, {"text_tokens": 2}, 10**13])
DETAILS = st.none() | st.dictionaries(
    st.sampled_from(["cached_tokens", "reasoning_tokens", "audio_tokens", "text_tokens", "new_tokens"]), ODD, max_size=3
)


@given(
    prompt=st.sampled_from([0, 7, 10, None, -1, 10**13]),
    completion=st.sampled_from([0, 3, 7, None, "7"]),
    more=st.sampled_from([0, 1, 3, None]),
    inside=DETAILS | st.just([1]),
    apart=DETAILS,
    extra=st.dictionaries(st.sampled_from(["cached_tokens", "cost", "prompt_cache_hit_tokens"]), ODD, max_size=1),
)
def test_law_the_short_way_through_an_ordinary_report_says_what_the_long_one_does(
    prompt: object, completion: object, more: int | None, inside: object, apart: object, extra: dict[str, object]
) -> None:
    """Only a dict is read the short way, so the same report behind another Mapping is read with care."""
    whole = prompt + completion + more if type(prompt) is type(completion) is type(more) is int else more
    report = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": whole,
        "prompt_tokens_details": inside,
        "completion_tokens_details": apart,
        **extra,
    }

    def read(payload: Any) -> object:
        try:
            return extract_usage("openai_chat", payload)
        except UsageError as error:
            return str(error)

    assert read(report) == read(MappingProxyType(report))
