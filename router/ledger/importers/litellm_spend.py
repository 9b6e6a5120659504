"""LiteLLM's spend logs: a row for each request that its proxy sent, from CSV, JSON, or straight from its database.

In: rows of "LiteLLM_SpendLogs" (schema.prisma; litellm 1.110.2, `proxy/spend_tracking/spend_tracking_utils.py`). Out: a
request for each row; a bucket for a batch, which LiteLLM books as one row. Rows of its own response cache
(`cache_hit`) are rejected: nothing was sent for them.
Invariant: `prompt_tokens` includes cache reads and writes for every vendor; how it splits is in `metadata`
(`additional_usage_values`, else `usage_object`), read as `pricing.extract` reads litellm's usage.

Verified in litellm's source: the columns, UTC instants without a zone, `completionStartTime` equal to `endTime` where
nothing was streamed, `spend` 0 also where LiteLLM had no price (so 0 beside tokens is no cost reported), the failure's
code in `metadata.error_information`. `spend` is LiteLLM's own figure, a float. Prompts and answers are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from pricing.extract import usage_from_litellm
from pricing.usage import BUCKETS
from router.ledger.importers.entries import (
    Entry,
    columns_of,
    entries,
    labelled,
    listed_texts,
    nested,
    records,
    tags_of,
)
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import BadRecordError, Counts, Record, Tags
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.values import cost, instant, text_or_none, whole, whole_or_none
from router.ledger.records import AttemptStatus

COLUMNS = (
    "request_id",
    "call_type",
    "spend",
    "total_tokens",
    "prompt_tokens",
    "completion_tokens",
    "startTime",
    "endTime",
    "completionStartTime",
    "request_duration_ms",
    "model",
    "model_group",
    "custom_llm_provider",
    "user",
    "metadata",
    "cache_hit",
    "request_tags",
    "team_id",
    "status",
)
"""What is read of a row; the first ten columns and `model` are in every version, the others where they are there."""

NEEDED = frozenset({"request_id", "startTime", "endTime", "model", "prompt_tokens", "completion_tokens"})
_OWN_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_BATCHES = frozenset({"retrieve_batch", "aretrieve_batch"})
_TOOL_CALLS = frozenset({"call_mcp_tool", "list_mcp_tools"})
_COUNTS_OF = attrgetter(*BUCKETS)
_CLIENT_ERRORS, _SERVER_ERRORS, _LAST_STATUS = 400, 500, 600
_KINDS = {
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


class _Ending(NamedTuple):
    status: AttemptStatus
    http_status: int | None = None
    error_kind: str | None = None


def _recognises(head: str) -> bool:
    if columns_of(head):
        return columns_of(head) >= NEEDED
    return '"request_id"' in head and '"startTime"' in head and '"prompt_tokens"' in head


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    return records(entries(file), partial(_record, options))


def _read_url(url: str, options: ReadOptions) -> Iterator[Found]:
    from router.ledger.importers.litellm_database import spend_rows

    return records(spend_rows(url, COLUMNS, NEEDED), partial(_record, options))


def _record(options: ReadOptions, number: int, entry: Entry) -> Record:
    call = text_or_none(entry.get("call_type"), "call_type") or ""
    _refuse_unsent(entry, call)
    about = nested(entry.get("metadata"), "metadata")
    at_us = _instant(entry, "startTime", options)
    end_us = _instant(entry, "endTime", options)
    ending = _ending(entry, about)
    counts, tier = _usage(entry, about, options)
    name = text_or_none(entry.get("request_id"), "request_id")
    record = Record(
        line=number,
        at_us=at_us,
        model=_needed(entry, "model"),
        counts=counts,
        identity=name,
        upstream_id=name,
        reported_usd=_reported(entry, counts, options),
        provider=text_or_none(entry.get("custom_llm_provider"), "custom_llm_provider"),
        tenant=_inside(about, "user_api_key_team_alias") or text_or_none(entry.get("team_id"), "team_id"),
        tags=_tags(entry, about),
        status=ending.status,
        error_kind=ending.error_kind,
        http_status=ending.http_status,
        service_tier=tier,
        latency_us=_span_us(at_us, end_us, "endTime"),
        ttft_us=_first_token_us(entry, at_us, end_us, options),
    )
    return _batch(record, about, end_us) if call in _BATCHES else record


def _refuse_unsent(entry: Entry, call: str) -> None:
    if str(entry.get("cache_hit")).lower() == "true":
        raise BadRecordError("was answered from LiteLLM's own cache: no request was sent")
    if call in _TOOL_CALLS:
        raise BadRecordError(f"is a call of a tool ({call}), not of a model")


def _needed(entry: Entry, name: str) -> str:
    found = text_or_none(entry.get(name), name)
    if found is None:
        raise BadRecordError(f"{name} is missing")
    return found


def _instant(entry: Entry, name: str, options: ReadOptions) -> int:
    value = entry.get(name)
    return instant(value.isoformat() if isinstance(value, datetime) else value, name, options.zone or UTC)


def _span_us(at_us: int, end_us: int, name: str) -> int:
    if end_us < at_us:
        raise BadRecordError(f"{name} is {at_us - end_us} microseconds before startTime")
    return end_us - at_us


def _first_token_us(entry: Entry, at_us: int, end_us: int, options: ReadOptions) -> int | None:
    """Return the time to the first token; where nothing was streamed, LiteLLM writes the call's end."""
    if entry.get("completionStartTime") in (None, ""):
        return None
    first_us = _instant(entry, "completionStartTime", options)
    return first_us - at_us if at_us <= first_us < end_us else None


def _usage(entry: Entry, about: Entry, options: ReadOptions) -> tuple[Counts | None, str | None]:
    """Return the counts, None where there are none, and the tier that was served."""
    stated = {name: whole_or_none(entry.get(name), name, options.thousands) for name in _OWN_COUNTS}
    if not any(stated.values()):
        return None, None
    details = nested(about.get("additional_usage_values"), "additional_usage_values")
    whole_usage = nested(about.get("usage_object"), "usage_object")
    if not details and all(whole_usage.get(name) == count for name, count in stated.items()):
        details = whole_usage
    report = {**{name: value for name, value in details.items() if name not in _OWN_COUNTS}, **stated}
    usage = usage_from_litellm(report)
    tier = details.get("service_tier")
    return (
        None if usage is None else Counts(*_COUNTS_OF(usage)),
        tier if isinstance(tier, str) and tier else None,
    )


def _reported(entry: Entry, counts: Counts | None, options: ReadOptions) -> Decimal | None:
    if entry.get("spend") in (None, ""):
        return None
    spend = cost(entry["spend"], "spend", options.thousands)
    return None if counts is not None and not spend else spend


def _ending(entry: Entry, about: Entry) -> _Ending:
    said = text_or_none(entry.get("status"), "status") or _inside(about, "status") or "success"
    if said == "success":
        return _Ending("succeeded")
    if said != "failure":
        raise BadRecordError(f"status is {said!r}; success and failure are known")
    error = nested(about.get("error_information"), "error_information")
    code = str(error.get("error_code") or "")
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else None  # of HTTP
    if "Timeout" in str(error.get("error_class") or "") or status in (408, 504):
        return _Ending("timed_out", status, "timeout")
    return _Ending("failed", status, None if status is None else _kind(status))


def _kind(status: int) -> str | None:
    if status in _KINDS:
        return _KINDS[status]
    if not _CLIENT_ERRORS <= status < _LAST_STATUS:
        return None
    return "rejected" if status < _SERVER_ERRORS else "server_error"


def _tags(entry: Entry, about: Entry) -> Tags:
    group = text_or_none(entry.get("model_group"), "model_group")
    return tags_of(
        {
            "api_key": _inside(about, "user_api_key_alias"),
            "user": text_or_none(entry.get("user"), "user"),
            "model_group": None if group == entry.get("model") else group,
            **labelled(listed_texts(entry.get("request_tags"), "request_tags")),
        }
    )


def _inside(about: Entry, name: str) -> str | None:
    return text_or_none(about.get(name), f"metadata.{name}")


def _batch(record: Record, about: Entry, end_us: int) -> Record:
    """Return a batch as the bucket it is: the tokens of many requests, at batch prices."""
    models: Any = about.get("batch_models")
    if isinstance(models, list) and len(set(models)) > 1:
        raise BadRecordError(
            f"is a batch of several models ({', '.join(map(str, models))}), whose tokens are not told apart"
        )
    done = [about.get(f"batch_{each}_requests") for each in ("successful", "failed")]
    requests = sum(whole(each, "batch requests") for each in done if each is not None)
    return record._replace(
        end_us=max(end_us, record.at_us + 1),
        requests=None if done == [None, None] else requests,
        service_tier="batch",
        latency_us=None,
        ttft_us=None,
    )


SOURCE = Source(
    name="litellm",
    title="LiteLLM spend logs",
    recognises=_recognises,
    expected="rows of LiteLLM_SpendLogs as CSV or JSON with request_id, model, startTime, endTime, prompt_tokens, "
    "completion_tokens, or the database's URL",
    read=_read,
    read_url=_read_url,
)
