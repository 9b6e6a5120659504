"""Anthropic's usage of the Messages API, from the report or the Console's CSV: buckets without a number of requests.

In: `GET /v1/organizations/usage_report/messages` (platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages,
read in 2026), as one page, pages one behind the other, or a page a line; or the Console's "Export" of usage. Out: a
bucket for each result.
Invariant: all counts are disjoint as the report has them; the number of requests is unknown, never 0.

Verified against the documentation: every name, `starting_at` inclusive and `ending_at` exclusive in UTC, the tiers
(`standard`, `batch`, `priority`, `flex`, …), the context windows, "null if not grouped by". Thinking is inside
`output_tokens` and not told apart. Where the report is not grouped by `service_tier`, which prices hold is open, and
its cost is an estimate at plain ones; so is that of inference kept in one country, which costs more than the list says.
Fast mode (`speed`) has prices of its own: its tier is "fast", which no list of ours has yet. Not documented, but seen
in published exports of 2026: the CSV's columns, its days in UTC, "≤ 200k" and "> 200k". It has names where the report
has ids, so the same usage from both would count twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from functools import partial
from itertools import groupby

from router.ledger.importers.entries import Entry, columns_of, counts_lines, entries, found, nested, rejected, tags_of
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import BadRecordError, Counts, Record, Rejected
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.spans import numbered, span_of
from router.ledger.importers.values import instant, text_or_none, whole

_WINDOW_TOKENS = {"0-200k": None, "200k-1M": 500_000}
"""A size of request that is priced as all of the context window are. Of the lower one there is none: a list of
Anthropic's changes at 100,000 tokens, so a cost that depends on the size is an estimate there."""
_DAY_US = 86_400_000_000
_ANYWHERE = (None, "global", "not_available")
_COUNTED = frozenset({"uncached_input_tokens", "cache_read_input_tokens", "output_tokens"})
_WRITES = frozenset({"ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"})
_GROUPS = ("workspace_id", "api_key_id", "account_id", "service_account_id", "model", "service_tier")
_MORE_GROUPS = ("context_window", "inference_geo", "speed")
_CONSOLE_COLUMNS = frozenset({"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"})
_CONSOLE_NAMES = {
    "uncached_input_tokens": "usage_input_tokens_no_cache",
    "cache_read_input_tokens": "usage_input_tokens_cache_read",
    "output_tokens": "usage_output_tokens",
    "workspace_id": "workspace",
    "api_key_id": "api_key",
    "model": "model_version",
    "service_tier": "usage_type",
    "inference_geo": "inference_geo",
    "speed": "speed",
}
"""The report's names, by the Console's columns."""
_CONSOLE_WINDOWS = {"≤ 200k": "0-200k", "> 200k": "200k-1M"}
_NOT_APPLICABLE = "--"


def _recognises(head: str) -> bool:
    columns = columns_of(head)
    if columns:
        return columns >= _CONSOLE_COLUMNS
    return '"uncached_input_tokens"' in head or ('"starting_at"' in head and '"ending_at"' in head)


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    return _console(file, options) if file.kind == "table" else _report(file, options)


def _console(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    """Yield the rows of a day together, since two may be of one name."""
    for _, day in groupby(entries(file), key=lambda row: isinstance(row[1], Rejected) or row[1].get("usage_date_utc")):
        yield from numbered(found(line, row, partial(_console_record, options)) for line, row in day)


def _console_record(options: ReadOptions, line: int, row: Entry) -> Record:
    said = {name: None if value == _NOT_APPLICABLE else value for name, value in row.items()}
    result = {name: said[column] for name, column in _CONSOLE_NAMES.items() if column in said}
    window = said.get("context_window")
    split = {
        f"ephemeral_{life}_input_tokens": said.get(f"usage_input_tokens_cache_write_{life}") or 0
        for life in ("5m", "1h")
    }
    more = {
        "context_window": _CONSOLE_WINDOWS.get(window or "", window),
        "cache_creation": split,
        "server_tool_use": {"web_search_requests": said.get("web_search_count") or 0},
    }
    start_us = instant(said.get("usage_date_utc"), "usage_date_utc", UTC)
    day = {"starting_at": start_us, "ending_at": start_us + _DAY_US}
    record = _record(options, day, line, result | more)
    return record._replace(identity=f"console {record.identity}")


def _report(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    counter = 0
    for number, bucket in entries(file):
        results = None if isinstance(bucket, Rejected) else bucket.get("results")
        if isinstance(bucket, Rejected) or not isinstance(results, list):
            yield bucket if isinstance(bucket, Rejected) else rejected(number, "has no list of results", bucket)
            continue
        places = [number if counts_lines(file) else counter + place for place in range(1, len(results) + 1)]
        counter += len(results)
        made = partial(_record, options, bucket)
        yield from numbered(
            found(place, each, made) if isinstance(each, dict) else rejected(place, "is no object", each)
            for place, each in zip(places, results, strict=True)
        )


def _record(options: ReadOptions, bucket: Entry, number: int, entry: Entry) -> Record:
    start_us, end_us = span_of(bucket.get("starting_at"), bucket.get("ending_at"), ("starting_at", "ending_at"))
    group = {name: text_or_none(entry.get(name), name) for name in (*_GROUPS, *_MORE_GROUPS)}
    if "amount" in entry:
        raise BadRecordError("is a cost, no usage; router reconcile reads costs")
    if group["model"] is None:
        raise BadRecordError("model is not stated; export it grouped by model (group_by[]=model)")
    window, place = group["context_window"], group["inference_geo"]
    if window is not None and window not in _WINDOW_TOKENS:
        raise BadRecordError(f"context_window is {window!r}; {' and '.join(_WINDOW_TOKENS)} are known")
    is_fast = group["speed"] not in (None, "standard")
    return Record(
        line=number,
        at_us=start_us,
        end_us=end_us,
        model=group["model"],
        counts=_counts(entry, options),
        context_tokens=None if window is None else _WINDOW_TOKENS[window],
        estimated=group["service_tier"] is None or place not in _ANYWHERE,
        identity="|".join(["messages", str(start_us), str(end_us), *(each or "" for each in group.values())]),
        provider="anthropic",
        tenant=group["workspace_id"],
        tags=tags_of(
            {
                "api_key": group["api_key_id"],
                "user": group["account_id"] or group["service_account_id"],
                "inference_geo": None if place in _ANYWHERE else place,
            }
        ),
        service_tier=group["speed"] if is_fast else group["service_tier"],
    )


def _counts(entry: Entry, options: ReadOptions) -> Counts:
    writes = nested(entry.get("cache_creation"), "cache_creation")
    tools = nested(entry.get("server_tool_use"), "server_tool_use")
    _refuse_unknown({name: count for name, count in entry.items() if name.endswith("_tokens")}, _COUNTED)
    _refuse_unknown(writes, _WRITES)
    _refuse_unknown(tools, frozenset({"web_search_requests"}))

    def count(of: Entry, name: str) -> int:
        if name not in of:
            raise BadRecordError(f"{name} is missing")
        return whole(of[name], name, options.thousands)

    return Counts(
        uncached_input_tokens=count(entry, "uncached_input_tokens"),
        cache_read_tokens=count(entry, "cache_read_input_tokens"),
        cache_write_5m_tokens=count(writes, "ephemeral_5m_input_tokens") if writes else 0,
        cache_write_1h_tokens=count(writes, "ephemeral_1h_input_tokens") if writes else 0,
        plain_output_tokens=count(entry, "output_tokens"),
        web_searches=count(tools, "web_search_requests") if tools else 0,
    )


def _refuse_unknown(counts: Entry, known: frozenset[str]) -> None:
    for name, value in counts.items():
        if name not in known and value not in (None, 0):
            raise BadRecordError(f"{name} is {str(value)[:40]}; no such count is known here")


SOURCE = Source(
    name="anthropic",
    title="Anthropic usage report",
    recognises=_recognises,
    expected='pages of the usage report ({"data": [{"starting_at", "ending_at", "results": [{"uncached_input_tokens", …'
    "}]}]}), or the Console's CSV with usage_date_utc, model_version, usage_input_tokens_no_cache, usage_output_tokens",
    read=_read,
)
