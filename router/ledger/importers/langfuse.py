"""Langfuse's observations: its generations, from the export of the UI, of blob storage, or from the API.

In: CSV, JSON or JSON lines with `startTime` or `start_time`, `usageDetails` or `usage_details` and so on (langfuse.com,
"Observations API" and "Blob Storage Export Field Reference", read in 2026; the UI's export in Langfuse's source,
`observation-stream.ts`). Out: a request for each observation of the type GENERATION or EMBEDDING, which alone carry
usage; the other types are passed over. Prompts and answers are read past.

Verified against the documentation: the names, instants in UTC that the blob export writes without a zone, costs in
USD, either ingested or worked out by Langfuse at its own prices. What its usage keys mean: `langfuse_usage`.
A generation at level ERROR has failed; where it has usage, it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from functools import partial
from typing import Any

from router.ledger.importers.documents import parse_json
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
from router.ledger.importers.langfuse_usage import usage_counts
from router.ledger.importers.record import BadRecordError, Counts, Record
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.values import cost, instant, text_or_none

_PRICED_TYPES = ("GENERATION", "EMBEDDING")
_NAMES = {
    "id": ("id",),
    "type": ("type",),
    "start": ("startTime", "start_time"),
    "end": ("endTime", "end_time"),
    "first": ("completionStartTime", "completion_start_time"),
    "model": ("providedModelName", "provided_model_name", "model"),
    "usage": ("usageDetails", "usage_details"),
    "cost": ("costDetails", "cost_details"),
    "total": ("totalCost", "total_cost", "calculatedTotalCost"),
    "user": ("userId", "user_id"),
    "trace": ("traceName", "trace_name"),
    "tags": ("tags", "traceTags", "trace_tags"),
    "level": ("level",),
    "environment": ("environment",),
    "parameters": ("modelParameters", "model_parameters"),
}
"""What each field is called, in the API and the UI's export, and in the blob export."""


def _recognises(head: str) -> bool:
    named = columns_of(head)
    if named:
        return bool(named & {"startTime", "start_time"}) and bool(named & {"usageDetails", "usage_details"})
    return any(f'"{start}"' in head for start in _NAMES["start"]) and any(
        f'"{id_}"' in head for id_ in ("traceId", "trace_id")
    )


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    return records(entries(file), partial(_record, options))


def _record(options: ReadOptions, number: int, entry: Entry) -> Record | None:
    kind = _text(entry, "type")
    if kind is None:
        raise BadRecordError("type is missing; an observation has one")
    if kind.upper() not in _PRICED_TYPES:
        return None
    model = _text(entry, "model")
    if model is None:
        raise BadRecordError("model is not stated")
    at_us = instant(_value(entry, "start"), "startTime", options.zone or UTC)
    counts = usage_counts(nested(_value(entry, "usage"), "usageDetails"), options.thousands) or _old_usage(
        entry, options
    )
    name = _text(entry, "id")
    parameters = nested(_value(entry, "parameters"), "modelParameters")
    return Record(
        line=number,
        at_us=at_us,
        model=model,
        counts=counts,
        identity=name,
        reported_usd=_reported(entry, options),
        tags=tags_of(
            {
                "environment": _text(entry, "environment"),
                "trace": _text(entry, "trace"),
                "user": _text(entry, "user"),
                **labelled(listed_texts(_value(entry, "tags"), "tags")),
            }
        ),
        status="failed" if _text(entry, "level") == "ERROR" else "succeeded",
        service_tier=_tier(parameters),
        latency_us=_since(entry, "end", at_us, options),
        ttft_us=_since(entry, "first", at_us, options),
    )


def _value(entry: Entry, field: str) -> Any:
    """Return a field under whichever name it has; a text within quotes, as older exports write it, without them."""
    for name in _NAMES[field]:
        value = entry.get(name)
        if value not in (None, ""):
            return _unquoted(value) if isinstance(value, str) and value[0] == value[-1] == '"' else value
    return None


def _unquoted(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _text(entry: Entry, field: str) -> str | None:
    return text_or_none(_value(entry, field), _NAMES[field][0])


def _since(entry: Entry, field: str, at_us: int, options: ReadOptions) -> int | None:
    value = _value(entry, field)
    if value is None:
        return None
    name = _NAMES[field][0]
    us = instant(value, name, options.zone or UTC) - at_us
    if us < 0:
        raise BadRecordError(f"{name} is {-us} microseconds before startTime")
    return us


def _old_usage(entry: Entry, options: ReadOptions) -> Counts | None:
    """Return the counts of exports from before `usageDetails`: promptTokens and completionTokens, or `usage`."""
    usage = nested(entry.get("usage"), "usage")
    unit = usage.get("unit")
    if unit not in (None, "", "TOKENS"):
        raise BadRecordError(f"usage is in {unit}; TOKENS are counted")
    if not usage:
        usage = {"input": entry.get("promptTokens"), "output": entry.get("completionTokens")}
    return usage_counts({name: usage.get(name) for name in ("input", "output", "total")}, options.thousands)


def _reported(entry: Entry, options: ReadOptions) -> Decimal | None:
    """Return what Langfuse says it cost; None where it says nothing, or 0, which it also says where it has no price."""
    costs = nested(_value(entry, "cost"), "costDetails")
    total = costs.get("total", _value(entry, "total"))
    if total in (None, ""):
        return None
    return cost(total, "total cost", options.thousands) or None


def _tier(parameters: Entry) -> str | None:
    tier = parameters.get("service_tier")
    return tier if isinstance(tier, str) and tier not in ("", "auto") else None


SOURCE = Source(
    name="langfuse",
    title="Langfuse observations",
    recognises=_recognises,
    expected="observations as CSV, JSON or JSON lines with id, type, startTime, model, usageDetails (or id, type, "
    "start_time, provided_model_name, usage_details)",
    read=_read,
)
