"""OpenAI's usage: buckets as documented, counted once, and nothing of a file that contradicts itself.

The samples follow https://platform.openai.com/docs/api-reference/usage/completions_object and the types of
openai-python (`types/admin/organization/usage_completions_response.py`); the CSV has the columns of a published export
of October 2025. Bucket 1 begins at 2026-10-01T00:00:00Z: 20,727 days of 86,400 s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.errors import RouterError, WrongUsage
from router.ledger import Ledger
from router.ledger.importers.file import inspect_file
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Counts, Record, Rejected
from router.ledger.importers.tally import ImportResult
from router.ledger.records import Amount

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]

OCTOBER_US = 1_790_812_800_000_000
DAY_US = 86_400_000_000


def _result(**changes: Any) -> dict[str, Any]:
    plain = {
        "object": "organization.usage.completions.result",
        "input_tokens": 1000,
        "output_tokens": 500,
        "input_cached_tokens": 800,
        "num_model_requests": 5,
        "project_id": None,
        "user_id": None,
        "api_key_id": None,
        "model": "gpt-4.1",
        "batch": False,
        "service_tier": "default",
    }
    return {**plain, **changes}


def _page(*results: dict[str, Any], start: int = 1_790_812_800, **page: Any) -> str:
    bucket = {"object": "bucket", "start_time": start, "end_time": start + 86_400, "results": list(results)}
    return json.dumps({"object": "page", "data": [bucket], "has_more": False, "next_page": None, **page})


def test_a_page_has_a_bucket_for_each_result(read: Read, samples: Path) -> None:
    found, rejected = read("openai", samples / "openai_usage.json")
    assert rejected == []
    # Cached tokens are inside input_tokens: 59,200 − 5,760 = 53,440; 1,000,000 − 100,000 − 40,000
    # written to the cache = 860,000; of gpt-realtime 5,000 − 1,200 − 3,000 audio = 800
    # of text, and 900 − 800 of audio = 100.
    assert [record.counts for record in found] == [
        Counts(uncached_input_tokens=53_440, cache_read_tokens=5_760, plain_output_tokens=10_646),
        Counts(860_000, 100_000, 40_000, plain_output_tokens=200_000),
        Counts(800, 1_200, 0, 0, 3_000, 0, 100, 0, 800, 0, 0),
        Counts(uncached_input_tokens=38_072, cache_read_tokens=8_192, plain_output_tokens=60_000),
    ]
    first = found[0]
    assert (first.at_us, first.end_us) == (OCTOBER_US, OCTOBER_US + DAY_US)
    assert (first.model, first.requests, first.tenant) == ("gpt-4.1-2025-04-14", 10, "proj_search")
    assert first.tags == (("api_key", "key_nightly"), ("user", "user-ada"))
    assert [record.service_tier for record in found] == ["default", "batch", "default", "default"]
    assert not any(record.estimated for record in found)


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_page_is_priced_by_hand_and_only_once(ledger: Ledger, take: Take, samples: Path) -> None:
    result = take(ledger, "openai", samples / "openai_usage.json")
    assert (result.rows, result.buckets, result.added, result.rejected_rows, result.unpriced) == (4, 4, 4, 0, 0)
    assert (result.requests, result.requests_unknown) == (10 + 400 + 4 + 8, 0)
    assert result.input_tokens == 59_200 + 1_000_000 + 5_000 + 46_264
    assert result.output_tokens == 10_646 + 200_000 + 900 + 60_000
    # gpt-4.1 (2, cached 0.5, out 8): (53,440 + 38,072) × 2 + 13,952 × 0.5 + 70,646 × 8 = 183,024 + 6,976 + 565,168.
    # gpt-6.1-terra by batch (0.5, 0.025, write 0.625, 2.5): 430,000 + 2,500 + 25,000 + 500,000.
    # gpt-realtime (4, cached 0.4, audio 32, out 16, audio out 64): 3,200 + 480 + 96,000 + 1,600 + 51,200.
    # Together, in millionths: 755,168 + 957,500 + 152,480.
    assert result.list_cost == (Amount("USD", Decimal("1.865148")),)
    again = take(ledger, "openai", samples / "openai_usage.json")
    assert (again.added, again.skipped, again.differing) == (0, 4, 0)


def test_the_dashboards_csv_is_the_same_buckets(ledger: Ledger, take: Take, samples: Path) -> None:
    assert take(ledger, "openai", samples / "openai_usage.json").added == 4
    result = take(ledger, "openai", samples / "openai_usage.csv")
    # Its row of a day without usage counts as nothing; its first two buckets are those of the page.
    assert (result.rows, result.added, result.skipped, result.rejected_rows) == (3, 1, 2, 0)
    assert (result.input_tokens, result.output_tokens) == (59_200 + 46_264 + 5_783, 10_646 + 60_000 + 16_000)


def test_embeddings_and_searches_are_taken_and_images_are_not(read: Read, samples: Path) -> None:
    found, rejected = read("openai", samples / "openai_other_usage.jsonl")
    assert [record.counts for record in found] == [Counts(uncached_input_tokens=16_000), Counts(web_searches=25)]
    # The 20 requests that searched are among the completions' already.
    assert [record.requests for record in found] == [2, 0]
    assert [line.reason for line in rejected] == ["is of images, which are not counted in tokens"]


def test_pages_may_follow_each_other(read: Read, write: Write) -> None:
    pages = [_page(_result(), has_more=True), _page(_result(), start=1_790_899_200)]
    for text in ("\n".join(pages), json.dumps([json.loads(page) for page in pages], indent=2), "".join(pages)):
        found, rejected = read("openai", write(text))
        assert ([record.at_us for record in found], rejected) == ([OCTOBER_US, OCTOBER_US + DAY_US], [])


def test_a_page_on_one_long_line_is_read_as_a_page(read: Read, write: Write) -> None:
    page = _page(_result(), _result(project_id="p" * 4_000_000))  # JSON lines end at 4,000,000 characters
    assert "\n" not in page
    found, rejected = read("openai", write(page))
    assert ([record.line for record in found], rejected) == ([1, 2], [])
    with pytest.raises(WrongUsage, match="nothing of the file is imported"):
        read("openai", write(page[:-20]))


def test_a_last_page_that_is_not_the_last_is_said(read: Read, write: Write) -> None:
    found, rejected = read("openai", write(_page(_result(), has_more=True)))
    assert len(found) == 1
    assert "more pages follow" in rejected[0].reason


def test_what_is_not_grouped_by_tier_is_an_estimate(read: Read, write: Write) -> None:
    found, _ = read("openai", write(_page(_result(batch=None), _result(service_tier=None), _result(batch=True))))
    assert [record.estimated for record in found] == [True, True, False]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, "model is not stated; export it grouped by model"),
        ({"input_cached_tokens": 1001}, r"input_tokens is 1000, less than its parts \(1001 \+ 0 \+ 0 \+ 0\)"),
        ({"input_uncached_tokens": 300}, "input_uncached_tokens is 300, but the other counts make 200"),
        ({"output_text_tokens": 499}, "output_text_tokens is 499, but the other counts make 500"),
        ({"input_cached_text_tokens": 700}, "input_cached_tokens is 800, but the other counts make 700"),
        ({"input_video_tokens": 7}, "input_video_tokens is 7; no such count of tokens is known"),
        ({"input_audio_tokens": 10}, "does not split input_tokens into text and audio"),
        ({"input_tokens": None}, "input_tokens is missing"),
        ({"input_tokens": -1}, "input_tokens is -1; a whole number"),
        ({"input_tokens": "1,000"}, "without signs between its thousands"),
        ({"num_model_requests": 1.5}, "num_model_requests is 1.5; a whole number"),
        ({"batch": "perhaps"}, "batch is 'perhaps'; true or false"),
        ({"object": "organization.costs.result"}, "is a cost, no usage"),
        ({"object": "organization.usage.moderations.result"}, "moderation, which is free"),
    ],
)
def test_a_result_that_is_none_is_rejected_alone(
    read: Read, write: Write, changes: dict[str, Any], reason: str
) -> None:
    found, rejected = read("openai", write(_page(_result(**changes), _result(project_id="other"))))
    assert [record.tenant for record in found] == ["other"]
    assert re.search(reason, rejected[0].reason), rejected[0].reason


def test_a_bucket_that_is_not_over_is_rejected(take: Take, write: Write) -> None:
    path, during_us = write(_page(_result(), _result(project_id="p"), start=1_790_726_400)), OCTOBER_US - 1
    with pytest.raises(RouterError, match="2026-10-01 00:00Z and is not over yet"):
        take(None, "openai", path, now_us=during_us)
    assert take(None, "openai", path, now_us=during_us, allow_open=True).rows == 2
    assert take(None, "openai", path, now_us=OCTOBER_US).rows == 2


def test_a_csv_of_embeddings_is_told_by_its_columns(read: Read, write: Write) -> None:
    head = "start_time,end_time,project_id,num_model_requests,user_id,api_key_id,model,input_tokens"
    row = "1790812800,1790899200,p,2,,,text-embedding-3-small,16000"
    [record], rejected = read("openai", write(f"{head}\n{row}\n"))
    assert (record.counts, record.estimated, rejected) == (Counts(uncached_input_tokens=16_000), False, [])


def test_results_of_one_name_are_told_apart_whatever_their_order(read: Read, write: Write) -> None:
    # A published export has rows of one bucket that differ in their counts alone.
    large, small, least = (_result(num_model_requests=number) for number in (8, 2, 1))
    one, _ = read("openai", write(_page(large, small, least)))
    other, _ = read("openai", write(_page(least, large, small)))
    assert len({record.identity for record in one}) == 3
    # Another bucket of the same name is not counted with them.
    assert read("openai", write(_page(large, start=1_790_899_200)))[0][0].identity not in {
        each.identity for each in one
    }
    assert {record.identity: record.counts for record in one} == {record.identity: record.counts for record in other}


def test_the_same_result_twice_is_one(ledger: Ledger, take: Take, write: Write) -> None:
    result = take(ledger, "openai", write(_page(_result(), _result())))
    assert (result.rows, result.added, result.skipped) == (2, 1, 1)


def test_a_bucket_that_has_changed_since_is_said_and_kept(ledger: Ledger, take: Take, write: Write) -> None:
    take(ledger, "openai", write(_page(_result())))
    result = take(ledger, "openai", write(_page(_result(output_tokens=501))))
    assert (result.added, result.skipped, result.differing) == (0, 1, 1)


def test_a_cost_report_is_not_usage(write: Write, take: Take) -> None:
    cost = {"object": "organization.costs.result", "amount": {"value": 0.06, "currency": "usd"}, "line_item": None}
    with pytest.raises(RouterError, match="all 1 lines were rejected; line 1: is a cost, no usage; router reconcile"):
        take(None, "openai", write(_page(cost)))


@pytest.mark.parametrize(
    "text", ['{"error": {"message": "Incorrect API key"}}', "a,b\n1,2\n", "[]", "not a file at all"]
)
def test_something_else_is_not_recognised(text: str, write: Write) -> None:
    assert not source_named("openai").recognises(inspect_file(write(text)).head)
