"""OpenRouter's activity: the CSV with a row for each generation, and the activity API's JSON with one for a day.

In: the CSV of openrouter.ai/activity, or `GET /api/v1/activity` (openrouter.ai/docs/api-reference/analytics, read in
2026). Out: a request for each row of the CSV; a bucket of a UTC day for each item of the API.
Invariant: cached tokens are inside the prompt, reasoning inside the completion ("reasoning tokens are included in
completion tokens for billing", Activity Export); what it cost is what OpenRouter took plus, with a key of one's own,
what it says the provider took ("Spend: OpenRouter credits + estimated BYOK spend").

Verified against the documentation: the API's names, its UTC days, both sentences above. Not documented, but as seen in
published exports: the CSV's columns and its instants without a zone, taken to be UTC. Assumed: `created_at` is when the
request was sent, `generation_time_ms` the whole call. The API tells no cached tokens apart, so its counts are an
estimate: all input is priced as uncached. Fees for searches and files are inside what it cost, in no count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from functools import partial

from router.ledger.importers.entries import Entry, columns_of, entries, records, tags_of, truth
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import BadRecordError, Counts, Record
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.values import cost, decimal, instant, part_of, text_or_none, whole, whole_or_none
from router.ledger.records import AttemptStatus

_COLUMNS = frozenset({"generation_id", "created_at", "tokens_prompt", "tokens_completion", "model_permaslug"})
_DAY_US = 86_400_000_000
_PLAIN_VARIANTS = (None, "standard")
_CLAUDE_SLUG = re.compile(r"anthropic/claude-((?:[4-9]|\d\d)(?:\.\d+)?)-([a-z]+)(?:-\d{8})?")
"""A slug of Claude 4 or later, "claude-4.5-sonnet-20250929"; Anthropic, and OpenRouter's own ids, say sonnet-4.5."""
_SELLERS = {"Google AI Studio": "google", "Google Vertex": "google", "Moonshot AI": "moonshot"}
"""Providers whose name here is not that of their price list."""


def _recognises(head: str) -> bool:
    return columns_of(head) >= _COLUMNS or ('"model_permaslug"' in head and '"prompt_tokens"' in head)


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    return records(entries(file), partial(_generation if file.kind == "table" else _day, options))


def _generation(options: ReadOptions, number: int, entry: Entry) -> Record:
    prompt, cached = _count(entry, "tokens_prompt", options), _count(entry, "tokens_cached", options)
    made, reasoning = _count(entry, "tokens_completion", options), _count(entry, "tokens_reasoning", options)
    name = text_or_none(entry.get("generation_id"), "generation_id")
    provider = text_or_none(entry.get("provider_name"), "provider_name")
    status, error_kind = _ending(entry)
    return Record(
        line=number,
        at_us=instant(entry["created_at"], "created_at", options.zone or UTC),
        model=_priced_name(_slug(entry)),
        counts=Counts(
            uncached_input_tokens=part_of(prompt, cached, name="tokens_prompt"),
            cache_read_tokens=cached,
            plain_output_tokens=part_of(made, reasoning, name="tokens_completion"),
            reasoning_tokens=reasoning,
        ),
        identity=name,
        upstream_id=name,
        reported_usd=_spent(entry, "cost_total", options),
        provider=_SELLERS.get(provider or "", provider),
        tenant=text_or_none(entry.get("api_key_name"), "api_key_name"),
        tags=tags_of(
            {
                "app": text_or_none(entry.get("app_name"), "app_name"),
                "provider": provider,
                "user": text_or_none(entry.get("user"), "user"),
            }
        ),
        status=status,
        error_kind=error_kind,
        finish_reason=text_or_none(entry.get("finish_reason_normalized"), "finish_reason_normalized"),
        latency_us=_microseconds(entry, "generation_time_ms"),
        ttft_us=_microseconds(entry, "time_to_first_token_ms"),
    )


def _day(options: ReadOptions, number: int, entry: Entry) -> Record:
    start_us = instant(entry.get("date"), "date", UTC)
    start_us -= start_us % _DAY_US
    prompt = whole(entry.get("prompt_tokens"), "prompt_tokens", options.thousands)
    made = whole(entry.get("completion_tokens"), "completion_tokens", options.thousands)
    reasoning = _count(entry, "reasoning_tokens", options)
    provider = text_or_none(entry.get("provider_name"), "provider_name")
    place = text_or_none(entry.get("endpoint_id"), "endpoint_id")
    slug = _slug(entry)
    return Record(
        line=number,
        at_us=start_us,
        end_us=start_us + _DAY_US,
        model=text_or_none(entry.get("model"), "model") or _priced_name(slug),
        counts=Counts(
            uncached_input_tokens=prompt,
            plain_output_tokens=part_of(made, reasoning, name="completion_tokens"),
            reasoning_tokens=reasoning,
        ),
        estimated=True,
        requests=whole_or_none(entry.get("requests"), "requests", options.thousands),
        identity="|".join(["activity", str(start_us), slug, place or "", provider or ""]),
        reported_usd=_spent(entry, "usage", options),
        provider=_SELLERS.get(provider or "", provider),
        tags=tags_of({"provider": provider}),
    )


def _count(entry: Entry, name: str, options: ReadOptions) -> int:
    return whole_or_none(entry.get(name), name, options.thousands) or 0


def _slug(entry: Entry) -> str:
    """Return the model with its variant, since a variant (":free") has prices of its own."""
    slug = text_or_none(entry.get("model_permaslug"), "model_permaslug")
    if slug is None:
        raise BadRecordError("model_permaslug is missing")
    variant = text_or_none(entry.get("variant"), "variant")
    return slug if variant in _PLAIN_VARIANTS or ":" in slug else f"{slug}:{variant}"


def _priced_name(slug: str) -> str:
    return _CLAUDE_SLUG.sub(r"anthropic/claude-\2-\1", slug)


def _spent(entry: Entry, name: str, options: ReadOptions) -> Decimal | None:
    own = entry.get("byok_usage_inference")
    if entry.get(name) in (None, ""):
        return None
    paid = cost(entry[name], name, options.thousands)
    return paid if own in (None, "") else paid + cost(own, "byok_usage_inference", options.thousands)


def _ending(entry: Entry) -> tuple[AttemptStatus, str | None]:
    if truth(entry.get("cancelled"), "cancelled"):
        return "stopped", None
    if entry.get("finish_reason_normalized") == "error":
        return "failed", "server_error"
    return "succeeded", None


def _microseconds(entry: Entry, name: str) -> int | None:
    value = entry.get(name)
    if value in (None, ""):
        return None
    found = decimal(value, name)
    if not 0 <= found <= _DAY_US // 1000:
        raise BadRecordError(f"{name} is {found}; milliseconds from 0 to a day are allowed")
    return int(found * 1000)


SOURCE = Source(
    name="openrouter",
    title="OpenRouter activity",
    recognises=_recognises,
    expected="the activity CSV with generation_id, created_at, model_permaslug, tokens_prompt, tokens_completion, or "
    'the activity API\'s JSON ({"data": [{"date", "model_permaslug", "prompt_tokens", …}]})',
    read=_read,
)
