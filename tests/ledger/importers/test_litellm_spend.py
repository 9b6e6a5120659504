"""LiteLLM's spend logs: one request a row, the same from CSV, JSON, JSON lines and the database.

The sample has the columns of `LiteLLM_SpendLogs` in https://github.com/BerriAI/litellm/blob/main/schema.prisma, filled
as `proxy/spend_tracking/spend_tracking_utils.py` of litellm 1.110.2 fills them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from router.errors import LedgerError, RouterError, WrongUsage
from router.ledger import Ledger
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Counts, Record, Rejected
from router.ledger.importers.source import ReadOptions
from router.ledger.importers.tally import ImportResult
from router.ledger.records import Amount

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]

TEN_US = 1_790_848_800_000_000  # 2026-10-01T10:00:00Z: 36,000 s after the month began
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "spend": sa.Double(),
    **dict.fromkeys(("total_tokens", "prompt_tokens", "completion_tokens", "request_duration_ms"), sa.Integer()),
    **dict.fromkeys(("startTime", "endTime", "completionStartTime"), sa.DateTime()),
    **dict.fromkeys(("metadata", "request_tags", "messages", "response"), _JSON),
}


def _row(**changes: Any) -> dict[str, Any]:
    plain = {
        "request_id": "chatcmpl-1",
        "call_type": "acompletion",
        "spend": 0.0028,
        "total_tokens": 1100,
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "startTime": "2026-10-01T10:00:00.000Z",
        "endTime": "2026-10-01T10:00:01.000Z",
        "completionStartTime": "2026-10-01T10:00:01.000Z",
        "model": "gpt-4.1",
        "model_group": "gpt-4.1",
        "custom_llm_provider": "openai",
        "user": "",
        "metadata": {},
        "cache_hit": "False",
        "request_tags": [],
        "team_id": None,
        "status": "success",
    }
    return {**plain, **changes}


def _rows(*rows: dict[str, Any]) -> str:
    return json.dumps(list(rows), indent=1)


def test_a_row_is_a_request(read: Read, samples: Path) -> None:
    found, rejected = read("litellm", samples / "litellm_spend_logs.json")
    # Cache reads and writes are inside prompt_tokens for every vendor: 3,000 − 1,500 − 1,000 = 500.
    assert [record.counts for record in found] == [
        Counts(uncached_input_tokens=1_000, cache_read_tokens=1_000, plain_output_tokens=100),
        Counts(500, 1_500, 1_000, plain_output_tokens=500),
        None,
    ]
    first, second, third = found
    assert (first.at_us, first.latency_us, first.ttft_us) == (TEN_US, 2_500_000, 400_000)
    assert (second.latency_us, second.ttft_us) == (4_000_000, None)  # it was not streamed
    assert (first.tenant, first.provider, first.upstream_id) == ("search", "openai", "chatcmpl-A1")
    named = {"api_key": "nightly", "env": "prod", "finder": "yes", "model_group": "smart", "user": "ada"}
    assert dict(first.tags) == named
    assert (third.status, third.http_status, third.error_kind) == ("failed", 429, "rate_limited")
    assert [line.reason for line in rejected] == ["was answered from LiteLLM's own cache: no request was sent"]


@pytest.mark.parametrize("name", ["litellm_spend_logs.csv", "litellm_spend_logs.jsonl"])
def test_every_file_of_the_same_rows_says_the_same(read: Read, samples: Path, name: str) -> None:
    expected, _ = read("litellm", samples / "litellm_spend_logs.json")
    found, rejected = read("litellm", samples / name)
    assert [record._replace(line=0) for record in found] == [record._replace(line=0) for record in expected]
    assert len(rejected) == 1


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_rows_are_priced_by_hand_and_only_once(ledger: Ledger, take: Take, samples: Path) -> None:
    result = take(ledger, "litellm", samples / "litellm_spend_logs.csv")
    assert (result.rows, result.buckets, result.added, result.rejected_rows) == (3, 0, 3, 1)
    assert (result.usage_unknown, result.unpriced, dict(result.unpriced_models)) == (1, 1, {})
    assert (result.input_tokens, result.output_tokens, result.cache_read_tokens) == (5_000, 600, 2_500)
    # gpt-4.1: 1,000 × 2 + 1,000 × 0.5 + 100 × 8 = 3,300 millionths; claude-sonnet-4.5: 500 × 3 + 1,500 × 0.3 +
    # 1,000 × 3.75 + 500 × 15 = 13,200. LiteLLM itself says 0.0033 + 0.0132 + 0 for the refused one.
    assert result.list_cost == (Amount("USD", Decimal("0.0165")),)
    assert result.reported_cost_usd == Decimal("0.0165")
    again = take(ledger, "litellm", samples / "litellm_spend_logs.jsonl")
    assert (again.added, again.skipped, again.differing) == (0, 3, 0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cache_hit": True}, "LiteLLM's own cache"),
        ({"call_type": "call_mcp_tool"}, r"is a call of a tool \(call_mcp_tool\)"),
        ({"model": ""}, "model is missing"),
        ({"prompt_tokens": 999}, "total_tokens is 1100"),
        ({"prompt_tokens": "1,000"}, "without signs between its thousands"),
        ({"endTime": "2026-10-01T09:59:59Z"}, "endTime is 1000000 microseconds before startTime"),
        ({"startTime": "yesterday"}, "startTime is 'yesterday'; a date and time"),
        ({"metadata": "{"}, "metadata is '{'; a JSON object"),
        ({"request_tags": ["a", 1]}, "a list of texts is allowed"),
        ({"status": "perhaps"}, "status is 'perhaps'; success and failure"),
        ({"spend": -1}, "spend is -1; an amount from 0"),
        (
            {"metadata": {"additional_usage_values": {"prompt_tokens_details": {"cached_tokens": 1001}}}},
            "prompt_tokens is 1000",
        ),
        ({"call_type": "aretrieve_batch", "metadata": {"batch_models": ["a", "b"]}}, "is a batch of several models"),
    ],
)
def test_a_row_that_is_none_is_rejected_alone(read: Read, write: Write, changes: dict[str, Any], reason: str) -> None:
    found, rejected = read("litellm", write(_rows(_row(**changes), _row(request_id="other"))))
    assert [record.identity for record in found] == ["other"]
    assert re.search(reason, rejected[0].reason), rejected[0].reason


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ({"error_code": "500", "error_class": "InternalServerError"}, ("failed", 500, "server_error")),
        ({"error_code": "400", "error_class": "BadRequestError"}, ("failed", 400, "rejected")),
        ({"error_code": "529"}, ("failed", 529, "overloaded")),
        ({"error_code": "408", "error_class": "Timeout"}, ("timed_out", 408, "timeout")),
        ({"error_code": "", "error_class": "APIConnectionError"}, ("failed", None, None)),
        (None, ("failed", None, None)),
    ],
)
def test_a_failure_keeps_its_kind(read: Read, write: Write, error: Any, ending: tuple[Any, ...]) -> None:
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "spend": 0}
    rows = _rows(_row(status="failure", metadata={"error_information": error}, **nothing))
    [record], _ = read("litellm", write(rows))
    assert (record.status, record.http_status, record.error_kind) == ending
    assert record.counts is None


def test_a_cost_of_0_beside_tokens_is_no_cost(read: Read, write: Write) -> None:
    found, _ = read("litellm", write(_rows(_row(spend=0.0), _row(spend=2.8e-03, request_id="2"))))
    assert [record.reported_usd for record in found] == [None, Decimal("0.0028")]


def test_the_split_may_stand_in_the_usage_object(read: Read, write: Write) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    details = {"prompt_tokens_details": {"cached_tokens": 600}, "completion_tokens_details": {"reasoning_tokens": 40}}
    whole = _row(metadata=json.dumps({"usage_object": usage | details}))
    other = _row(metadata={"usage_object": usage | details | {"prompt_tokens": 7}}, request_id="2")
    found, _ = read("litellm", write(_rows(whole, other)))
    assert found[0].counts == Counts(400, 600, plain_output_tokens=60, reasoning_tokens=40)
    assert found[1].counts == Counts(1_000, plain_output_tokens=100)  # that usage is of something else


def test_a_batch_is_a_bucket_at_batch_prices(read: Read, write: Write) -> None:
    about = {"batch_models": ["gpt-6.1-terra"], "batch_successful_requests": 9, "batch_failed_requests": 1}
    [record], _ = read("litellm", write(_rows(_row(call_type="aretrieve_batch", metadata=about))))
    assert (record.end_us, record.requests, record.service_tier) == (TEN_US + 1_000_000, 10, "batch")


def test_neither_prompt_nor_key_is_in_a_rejects_file(read: Read, write: Write) -> None:
    secret = {"api_key": "sk-1234567890", "messages": ["my diary"], "response": "dear diary", "model": ""}
    _, [rejected] = read("litellm", write(_rows(_row(**secret))))
    assert "chatcmpl-1" in rejected.text
    assert not re.search("sk-1234567890|diary", rejected.text)


# ── the database ──


def _fill(url: str, samples: Path) -> None:
    """Make LiteLLM's table with the types of its schema, and fill it with the sample."""
    rows = json.loads((samples / "litellm_spend_logs.json").read_text())
    listed = (sa.Column(name, _TYPES.get(name, sa.Text()), primary_key=name == "request_id") for name in rows[0])
    table = sa.Table("LiteLLM_SpendLogs", sa.MetaData(), *listed)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        table.create(connection)
        for row in rows:
            times = {
                name: datetime.fromisoformat(row[name]).replace(tzinfo=None) for name in row if name.endswith("Time")
            }
            connection.execute(table.insert().values(row | times))
    engine.dispose()


def _found(url: str) -> list[Any]:
    read_url = source_named("litellm").read_url
    assert read_url is not None
    return list(read_url(url, ReadOptions(now_us=2**62)))


@pytest.fixture
def litellm_sqlite(tmp_path: Path, samples: Path) -> str:
    url = f"sqlite:///{tmp_path / 'litellm.db'}"
    _fill(url, samples)
    return url


@pytest.fixture
def litellm_postgres(postgres_url: str, samples: Path) -> str:
    _fill(postgres_url, samples)
    return postgres_url


def _same_as_the_file(found: list[Any], read: Read, samples: Path) -> None:
    expected, _ = read("litellm", samples / "litellm_spend_logs.json")
    records = [each for each in found if isinstance(each, Record)]
    assert [record._replace(line=0) for record in records] == [record._replace(line=0) for record in expected]
    assert len(found) - len(records) == 1


def test_a_sqlite_database_says_the_same(litellm_sqlite: str, read: Read, samples: Path, tmp_path: Path) -> None:
    before = (tmp_path / "litellm.db").read_bytes()
    _same_as_the_file(_found(litellm_sqlite), read, samples)
    assert (tmp_path / "litellm.db").read_bytes() == before


def test_a_postgresql_database_says_the_same(litellm_postgres: str, read: Read, samples: Path) -> None:
    _same_as_the_file(_found(litellm_postgres), read, samples)
    # LiteLLM's own URL may carry what is Prisma's alone.
    sign = "&" if "?" in litellm_postgres else "?"
    _same_as_the_file(_found(f"{litellm_postgres}{sign}schema=public&connection_limit=10"), read, samples)


def test_an_older_table_has_fewer_columns(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute(
            'CREATE TABLE "LiteLLM_SpendLogs" (request_id TEXT, startTime TEXT, endTime TEXT, model TEXT, prompt_tokens'
            " INTEGER, completion_tokens INTEGER)"
        )
        values = ("1", "2026-10-01 10:00:00", "2026-10-01 10:00:02", "gpt-4.1", 10, 2)
        connection.execute('INSERT INTO "LiteLLM_SpendLogs" VALUES (?, ?, ?, ?, ?, ?)', values)
    [record] = _found(f"sqlite:///{tmp_path / 'old.db'}")
    assert (record.counts, record.at_us, record.latency_us) == (Counts(10, plain_output_tokens=2), TEN_US, 2_000_000)


def test_what_is_no_such_database_is_said(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"database .*none\.db: is not there"):
        _found(f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(WrongUsage, match=r"has no table LiteLLM_SpendLogs; it has songs"):
        _found(f"sqlite:///{tmp_path / 'other.db'}")
    with sqlite3.connect(tmp_path / "strange.db") as connection:
        connection.execute('CREATE TABLE "LiteLLM_SpendLogs" (request_id TEXT)')
    with pytest.raises(LedgerError, match="has no column completion_tokens, endTime, model, prompt_tokens, startTime"):
        _found(f"sqlite:///{tmp_path / 'strange.db'}")


def test_a_password_is_never_shown() -> None:
    with pytest.raises(RouterError) as refused:
        _found("postgresql://ada:hunter2@127.0.0.1:1/litellm?schema=public")
    assert "hunter2" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
