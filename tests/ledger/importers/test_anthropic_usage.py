"""Anthropic's usage report: disjoint as it comes, priced by tier and context window, without a number of requests.

The sample follows https://platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages: its first result is the
documentation's own example, at another model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.ledger import Ledger
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
        "uncached_input_tokens": 1500,
        "cache_creation": {"ephemeral_1h_input_tokens": 1000, "ephemeral_5m_input_tokens": 500},
        "cache_read_input_tokens": 200,
        "output_tokens": 500,
        "server_tool_use": {"web_search_requests": 10},
        "api_key_id": None,
        "workspace_id": None,
        "model": "claude-sonnet-4-5-20250929",
        "service_tier": "standard",
        "context_window": "0-200k",
        "inference_geo": "global",
    }
    return {**plain, **changes}


def _page(*results: dict[str, Any], **page: Any) -> str:
    bucket = {"starting_at": "2026-10-01T00:00:00Z", "ending_at": "2026-10-02T00:00:00Z", "results": list(results)}
    return json.dumps({"data": [bucket], "has_more": False, "next_page": None, **page})


def test_a_report_has_a_bucket_for_each_result(read: Read, samples: Path) -> None:
    found, rejected = read("anthropic", samples / "anthropic_usage.json")
    assert rejected == []
    assert [record.counts for record in found] == [
        Counts(1_500, 200, 500, 1_000, 0, 0, 500, 0, 0, 0, 10),
        Counts(uncached_input_tokens=2_000_000, plain_output_tokens=400_000),
    ]
    first = found[0]
    assert (first.at_us, first.end_us, first.requests) == (OCTOBER_US, OCTOBER_US + DAY_US, None)
    assert (first.tenant, first.tags) == (
        "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ",
        (("api_key", "apikey_01Rj2N8SVvo6BePZj99NhmiT"),),
    )
    assert [record.service_tier for record in found] == ["standard", "batch"]


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_report_is_priced_by_hand_and_only_once(ledger: Ledger, take: Take, samples: Path) -> None:
    result = take(ledger, "anthropic", samples / "anthropic_usage.json")
    assert (result.rows, result.added, result.rejected_rows, result.unpriced) == (2, 2, 0, 0)
    assert (result.requests, result.requests_unknown) == (0, 2)
    assert result.input_tokens == 1_500 + 200 + 500 + 1_000 + 2_000_000
    assert result.output_tokens == 500 + 400_000
    # claude-sonnet-4.5 (3, read 0.3, write 3.75, for an hour 6, out 15), in millionths: 4,500 + 60 + 1,875 + 6,000 +
    # 7,500 = 19,935, and 10 searches at 10 a thousand. claude-fable-5.2 by batch: 2 × 4 + 0.4 × 20.
    assert result.list_cost == (Amount("USD", Decimal("0.019935") + Decimal("0.1") + 16),)
    again = take(ledger, "anthropic", samples / "anthropic_usage.json")
    assert (again.added, again.skipped) == (0, 2)


def test_the_consoles_csv_has_a_bucket_for_each_row(ledger: Ledger, read: Read, take: Take, samples: Path) -> None:
    found, rejected = read("anthropic", samples / "anthropic_console.csv")
    assert rejected == []
    assert [record.counts for record in found] == [
        Counts(1_500, 200, 500, 1_000, 0, 0, 500, 0, 0, 0, 10),
        Counts(uncached_input_tokens=2_000_000, plain_output_tokens=400_000),
        Counts(uncached_input_tokens=600_000, plain_output_tokens=10_000),
    ]
    last = found[2]
    assert (last.at_us, last.end_us, last.requests) == (OCTOBER_US + DAY_US, OCTOBER_US + 2 * DAY_US, None)
    assert (last.tenant, last.tags, last.service_tier) == ("Research", (("api_key", "nightly"),), "standard")
    result = take(ledger, "anthropic", samples / "anthropic_console.csv")
    # As above, and claude-haiku-5.5 above 100,000 tokens (0.5, 2.5): 0.3 + 0.025.
    assert result.list_cost == (Amount("USD", Decimal("0.019935") + Decimal("0.1") + 16 + Decimal("0.325")),)
    assert (result.added, take(ledger, "anthropic", samples / "anthropic_console.csv").added) == (3, 0)


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        # claude-haiku-5.5 costs 0.1 and 0.5, above 100,000 tokens 0.5 and 2.5.
        ({"context_window": "200k-1M"}, "0.325"),  # 0.6 × 0.5 + 0.01 × 2.5
        ({"context_window": "0-200k"}, "0.065"),  # 0.6 × 0.1 + 0.01 × 0.5, at the smallest size
        ({"context_window": None}, "0.065"),
    ],
)
def test_a_context_window_says_which_prices_hold(take: Take, write: Write, changes: dict[str, Any], usd: str) -> None:
    counts = {"uncached_input_tokens": 600_000, "cache_read_input_tokens": 0, "output_tokens": 10_000}
    nothing = {"cache_creation": None, "server_tool_use": None}
    page = _page(_result(model="claude-haiku-5-5", **counts, **nothing, **changes))
    assert take(None, "anthropic", write(page)).list_cost == (Amount("USD", Decimal(usd)),)


def test_what_is_not_told_apart_is_an_estimate(read: Read, write: Write) -> None:
    found, _ = read("anthropic", write(_page(_result(), _result(service_tier=None), _result(inference_geo="us"))))
    assert [record.estimated for record in found] == [False, True, True]
    assert found[2].tags == (("inference_geo", "us"),)


def test_fast_mode_is_a_tier_of_its_own(take: Take, write: Write) -> None:
    result = take(None, "anthropic", write(_page(_result(speed="fast"), _result(speed="standard"))))
    assert (result.rows, result.unpriced, dict(result.unpriced_models)) == (2, 1, {"claude-sonnet-4.5": 1})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, r"model is not stated; export it grouped by model \(group_by\[\]=model\)"),
        ({"uncached_input_tokens": None}, "uncached_input_tokens is None; a number"),
        ({"output_tokens": -2}, "output_tokens is -2; a whole number"),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 1}}, "ephemeral_1h_input_tokens is missing"),
        ({"cache_creation": {"ephemeral_24h_input_tokens": 1}}, "ephemeral_24h_input_tokens is 1; no such count"),
        ({"thinking_tokens": 9}, "thinking_tokens is 9; no such count"),
        ({"server_tool_use": {"code_executions": 3}}, "code_executions is 3; no such count"),
        ({"context_window": "1M-2M"}, "context_window is '1M-2M'; 0-200k and 200k-1M are known"),
        ({"cache_creation": 5}, "cache_creation is '5'; a JSON object"),
        ({"amount": "12.5", "currency": "USD"}, "is a cost, no usage"),
    ],
)
def test_a_result_that_is_none_is_rejected_alone(
    read: Read, write: Write, changes: dict[str, Any], reason: str
) -> None:
    found, rejected = read("anthropic", write(_page(_result(**changes), _result(workspace_id="other"))))
    assert [record.tenant for record in found] == ["other"]
    assert re.search(reason, rejected[0].reason), rejected[0].reason


def test_pages_a_line_and_a_missing_page(read: Read, write: Write) -> None:
    found, rejected = read("anthropic", write(_page(_result(), has_more=True) + "\n" + _page(_result(), has_more=True)))
    assert [record.line for record in found] == [1, 2]
    assert [(line.line, "more pages follow" in line.reason) for line in rejected] == [(2, True)]


def test_two_results_of_one_name_are_two_and_a_repeated_one_is_one(ledger: Ledger, take: Take, write: Write) -> None:
    page = _page(_result(), _result(output_tokens=7), _result())
    result = take(ledger, "anthropic", write(page))
    assert (result.rows, result.added, result.skipped, result.differing) == (3, 2, 1, 0)


def test_an_hour_has_its_own_zone(read: Read, write: Write) -> None:
    text = _page(_result()).replace("2026-10-01T00:00:00Z", "2026-10-01T09:00:00+09:00")
    [record], _ = read("anthropic", write(text))
    assert record.at_us == OCTOBER_US
