"""OpenAI's usage: pages of the usage API, and the CSV of the usage dashboard. Both are buckets, no single requests.

In: `GET /v1/organization/usage/{completions,embeddings,web_searches}` (platform.openai.com/docs/api-reference/usage;
types in openai-python, 2026, `types/admin/organization/usage_completions_response.py`), as one page, pages one behind
the other, or a page a line; or the dashboard's "Export" of activity. Out: a bucket for each result.
Invariant: `input_tokens` includes cached and cache-write tokens, and audio and image tokens where the result splits
them; every split it states must add up, and a token count that is not known here rejects the result.

Verified against the documentation: names, inclusiveness, the enumeration of objects. Seen in a published export of
October 2025, but not documented: the CSV's columns, its counts written "10.0", its rows for days without usage, and two
rows alike but for their counts in one bucket, which are told apart by their size (`numbered`). Older documentation
counts audio beside `input_tokens`: where a result has audio and no split, it is rejected, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

from router.ledger.importers.entries import Entry, columns_of, counts_lines, entries, found, rejected, tags_of, truth
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import BadRecordError, Counts, Record, Rejected
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.spans import numbered, span_of
from router.ledger.importers.values import part_of, text_or_none, whole, whole_or_none

_COMPLETIONS, _EMBEDDINGS, _SEARCHES = "completions", "embeddings", "web_searches"
_OBJECT = "organization.usage."
_COLUMNS = frozenset({"start_time", "end_time", "input_tokens", "num_model_requests"})
_KNOWN = frozenset(
    {
        "input_tokens",
        "input_cached_tokens",
        "input_cache_write_tokens",
        "input_uncached_tokens",
        "input_text_tokens",
        "input_audio_tokens",
        "input_image_tokens",
        "input_cached_text_tokens",
        "input_cached_audio_tokens",
        "input_cached_image_tokens",
        "output_tokens",
        "output_text_tokens",
        "output_audio_tokens",
        "output_image_tokens",
    }
)
_KEYS = ("project_id", "user_id", "api_key_id", "model", "service_tier", "context_level")
_NO_TOKENS = {
    "costs": "is a cost, no usage; router reconcile reads costs",
    "moderations": "is moderation, which is free of charge",
}


def _recognises(head: str) -> bool:
    return columns_of(head) >= _COLUMNS or _OBJECT in head or ('"bucket"' in head and '"start_time"' in head)


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    for _, bucket in groupby(_results(file), key=_bucket_key):
        yield from numbered(found(number, result, partial(_record, options)) for number, result in bucket)


def _bucket_key(result: tuple[int, Entry | Rejected]) -> Any:
    number, entry = result
    return number if isinstance(entry, Rejected) else (str(entry.get("start_time")), str(entry.get("end_time")))


def _results(file: SourceFile) -> Iterator[tuple[int, Entry | Rejected]]:
    """Yield each result with its bucket's start and end in it, as the CSV has it."""
    counter = 0
    for number, entry in entries(file):
        results = None if isinstance(entry, Rejected) else entry.get("results")
        if not isinstance(results, list) or isinstance(entry, Rejected):
            yield number, entry
            continue
        span = {name: entry.get(name) for name in ("start_time", "end_time")}
        for result in results:
            counter += 1
            place = number if counts_lines(file) else counter
            yield place, {**result, **span} if isinstance(result, dict) else rejected(place, "is no object", result)


def _record(options: ReadOptions, number: int, entry: Entry) -> Record | None:
    kind = _kind(entry)
    if not any(entry.get(name) not in (None, "") for name in entry if name not in _SPAN):
        return None  # the dashboard writes a row for a day without usage
    start_us, end_us = span_of(entry.get("start_time"), entry.get("end_time"), ("start_time", "end_time"))
    model = text_or_none(entry.get("model"), "model")
    if model is None:
        raise BadRecordError("model is not stated; export it grouped by model (group_by=model)")
    batch = truth(entry.get("batch"), "batch")
    tier = text_or_none(entry.get("service_tier"), "service_tier")
    return Record(
        line=number,
        at_us=start_us,
        end_us=end_us,
        model=model,
        counts=_READERS[kind](entry, options),
        # The requests that searched are counted with the completions.
        requests=0 if kind == _SEARCHES else whole_or_none(entry.get("num_model_requests"), "num_model_requests"),
        # Without batch and tier, which prices its tokens have is not known, and the plain ones are an estimate.
        estimated=kind == _COMPLETIONS and (batch is None or (tier is None and not batch)),
        identity="|".join([kind, str(start_us), str(end_us), *_grouping(entry), str(batch)]),
        provider="openai",
        tenant=text_or_none(entry.get("project_id"), "project_id"),
        tags=tags_of({name: text_or_none(entry.get(f"{name}_id"), f"{name}_id") for name in ("user", "api_key")}),
        service_tier="batch" if batch else tier,
    )


_SPAN = frozenset({"start_time", "end_time", "start_time_iso", "end_time_iso", "object"})


def _kind(entry: Entry) -> str:
    named = entry.get("object")
    if named is None:
        return _COMPLETIONS if "output_tokens" in entry else _EMBEDDINGS  # a CSV is told by its columns
    kind = str(named).removeprefix(_OBJECT).removeprefix("organization.").removesuffix(".result")
    if kind not in _READERS:
        raise BadRecordError(_NO_TOKENS.get(kind, f"is of {kind}, which are not counted in tokens"))
    return kind


def _grouping(entry: Entry) -> list[str]:
    return [text_or_none(entry.get(name), name) or "" for name in _KEYS]


def _completions(entry: Entry, options: ReadOptions) -> Counts:
    counts = _token_counts(entry, options)
    read, written = counts.get("input_cached_tokens", 0), counts.get("input_cache_write_tokens", 0)
    audio, image = counts.get("input_audio_tokens", 0), counts.get("input_image_tokens", 0)
    audio_out, image_out = counts.get("output_audio_tokens", 0), counts.get("output_image_tokens", 0)
    if (audio or audio_out) and "input_uncached_tokens" not in counts and "input_text_tokens" not in counts:
        message = "has audio tokens, but does not split input_tokens into text and audio: whether they are in it"
        raise BadRecordError(f"{message} differs between versions of the API")
    whole_in, whole_out = counts["input_tokens"], counts["output_tokens"]
    uncached = part_of(whole_in, read, written, audio, image, name="input_tokens")
    _check(counts, "input_uncached_tokens", whole_in - read - written)
    _check(counts, "input_text_tokens", uncached)
    if "input_cached_text_tokens" in counts:
        kinds = (counts.get(f"input_cached_{each}_tokens", 0) for each in ("text", "audio", "image"))
        _check(counts, "input_cached_tokens", sum(kinds))
    plain = part_of(whole_out, audio_out, image_out, name="output_tokens")
    _check(counts, "output_text_tokens", plain)
    return Counts(
        uncached_input_tokens=uncached,
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
        audio_input_tokens=audio,
        image_input_tokens=image,
        plain_output_tokens=plain,
        audio_output_tokens=audio_out,
        image_output_tokens=image_out,
    )


def _token_counts(entry: Entry, options: ReadOptions) -> dict[str, int]:
    counts = {}
    for name, value in entry.items():
        if name.endswith("_tokens") and value not in (None, ""):
            counts[name] = whole(value, name, options.thousands)
            if counts[name] and name not in _KNOWN:
                raise BadRecordError(f"{name} is {counts[name]}; no such count of tokens is known here")
    for name in ("input_tokens", "output_tokens"):
        if name not in counts:
            raise BadRecordError(f"{name} is missing")
    return counts


def _check(counts: dict[str, int], name: str, expected: int) -> None:
    if name in counts and counts[name] != expected:
        raise BadRecordError(f"{name} is {counts[name]}, but the other counts make {expected}")


def _embeddings(entry: Entry, options: ReadOptions) -> Counts:
    return Counts(uncached_input_tokens=whole(entry.get("input_tokens"), "input_tokens", options.thousands))


def _searches(entry: Entry, options: ReadOptions) -> Counts:
    return Counts(web_searches=whole(entry.get("num_requests"), "num_requests", options.thousands))


_READERS: dict[str, Callable[[Entry, ReadOptions], Counts]] = {
    _COMPLETIONS: _completions,
    _EMBEDDINGS: _embeddings,
    _SEARCHES: _searches,
}

SOURCE = Source(
    name="openai",
    title="OpenAI usage",
    recognises=_recognises,
    expected='pages of the usage API ({"object": "page", "data": [{"object": "bucket", …}]}), or the dashboard CSV '
    "with start_time, end_time, num_model_requests, model, input_tokens, output_tokens",
    read=_read,
)
