"""What Langfuse's usage keys mean, as disjoint counts.

In: an observation's `usageDetails`. Out: `Counts`, or None where it holds no count. Invariant: no key with a count is
passed over: one that is not known here rejects the observation, and so does a total that its parts do not make.

Langfuse treats each key as a bucket of its own: "`input` excludes any `input_*` values", "`total` is the sum of the
buckets" (langfuse.com/docs, "Token & Cost Tracking", "Usage types are mutually exclusive buckets", 2026). But it stores
flat keys unchanged, and integrations have sent inclusive ones (langfuse issues 12306 and 10592). The total tells: where
it is `input` + `output` alone, they include the others, which are then taken out of them. Where Langfuse worked the
total out itself, nothing tells, and the counts are as Langfuse shows them. The keys are those of its price file,
`default-model-prices.json`, and OpenAI's details with `input_` and `output_` before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from router.ledger.importers.record import BadRecordError, Counts
from router.ledger.importers.source import Thousands
from router.ledger.importers.values import part_of, whole

_WHOLE_INPUT = frozenset({"input", "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount"})
_WHOLE_OUTPUT = frozenset(
    {"output", "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount"}
)
_TOTALS = frozenset({"total", "total_tokens", "total_token_count", "totalTokenCount"})
_BUCKETS: Mapping[str, str] = {
    **dict.fromkeys(_WHOLE_INPUT, "uncached_input_tokens"),
    "input_text_tokens": "uncached_input_tokens",
    "input_text": "uncached_input_tokens",
    "input_modality_1": "uncached_input_tokens",
    "tool_use_prompt_token_count": "uncached_input_tokens",
    "input_cached_tokens": "cache_read_tokens",
    "input_cached_text_tokens": "cache_read_tokens",
    "input_cache_read": "cache_read_tokens",
    "input_cache_read_tokens": "cache_read_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cached_tokens": "cache_read_tokens",
    "cached_content_token_count": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_5m_tokens",
    "input_cache_creation": "cache_write_5m_tokens",
    "input_cache_creation_tokens": "cache_write_5m_tokens",
    "input_cache_write_tokens": "cache_write_5m_tokens",
    "input_cache_creation_5m": "cache_write_5m_tokens",
    "input_cache_creation_1h": "cache_write_1h_tokens",
    "input_audio_tokens": "audio_input_tokens",
    "input_audio": "audio_input_tokens",
    "input_image_tokens": "image_input_tokens",
    "input_image": "image_input_tokens",
    **dict.fromkeys(_WHOLE_OUTPUT, "plain_output_tokens"),
    "output_text_tokens": "plain_output_tokens",
    "output_text": "plain_output_tokens",
    "output_modality_1": "plain_output_tokens",
    # Predicted tokens are generated text, billed as such whether they were taken or not (OpenAI, "Predicted Outputs").
    "output_accepted_prediction_tokens": "plain_output_tokens",
    "output_rejected_prediction_tokens": "plain_output_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
    "output_reasoning": "reasoning_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "thoughts_token_count": "reasoning_tokens",
    "thoughtsTokenCount": "reasoning_tokens",
    "output_audio_tokens": "audio_output_tokens",
    "output_audio": "audio_output_tokens",
    "output_image_tokens": "image_output_tokens",
    "output_image": "image_output_tokens",
}
_MAY_ADD_UP = frozenset(
    {
        "input_text_tokens",
        "output_text_tokens",
        "output_accepted_prediction_tokens",
        "output_rejected_prediction_tokens",
        "input_cache_creation_5m",
        "tool_use_prompt_token_count",
    }
)
"""Keys that stand beside another of their bucket by rights; two others of one bucket are two names of one count."""


def usage_counts(details: Mapping[str, Any], thousands: Thousands | None = None) -> Counts | None:
    """Return an observation's counts.

    Args:
        details: counts by key.
        thousands: as for `router.ledger.importers.values.whole`.

    Returns:
        The counts; None where no key has one.

    Raises:
        BadRecordError: a key with a count is not known, two keys name one count, or the parts do not make the total.
    """
    stated = {name: whole(value, name, thousands) for name, value in details.items() if value not in (None, "")}
    total = _one(stated, _TOTALS, "total")
    parts = {name: count for name, count in stated.items() if name not in _TOTALS and count}
    if not parts:
        if total:
            raise BadRecordError(f"total is {total}, without input and output")
        return None  # an observation of 0 tokens is one whose tokens are not known
    unknown = [name for name in parts if name not in _BUCKETS]
    if unknown:
        raise BadRecordError(f"{unknown[0]} is {parts[unknown[0]]}; no such key of usage is known here")
    _refuse_two_names(parts, adds_up=total == sum(parts.values()))
    if total is not None and total != sum(parts.values()):
        parts = _without_parts(parts, total)
    found: Counter[str] = Counter()
    for name, count in parts.items():
        found[_BUCKETS[name]] += count
    return Counts(**found)


def _one(stated: Mapping[str, int], names: frozenset[str], meaning: str) -> int | None:
    found = {stated[name] for name in names if name in stated}
    if len(found) > 1:
        raise BadRecordError(f"{meaning} is stated as {' and as '.join(map(str, sorted(found)))}")
    return next(iter(found), None)


def _without_parts(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Return disjoint counts where input and output were stated inclusive of their parts."""
    into = {name: count for name, count in parts.items() if name in _WHOLE_INPUT}
    out = {name: count for name, count in parts.items() if name in _WHOLE_OUTPUT}
    if len(into) > 1 or len(out) > 1 or sum(into.values()) + sum(out.values()) != total:
        raise BadRecordError(f"total is {total}, but {' + '.join(f'{name} {count}' for name, count in parts.items())}")
    rest = {name: count for name, count in parts.items() if name not in into and name not in out}
    found = dict(rest)
    for wholes, is_input in ((into, True), (out, False)):
        inside = [count for name, count in rest.items() if _is_input(name) == is_input]
        for name, count in wholes.items():
            found[name] = part_of(count, *inside, name=name)
        if inside and not wholes:
            raise BadRecordError(f"total is {total}, but {'input' if is_input else 'output'} is missing")
    return found


def _is_input(name: str) -> bool:
    return _BUCKETS[name].startswith(("uncached", "cache", "audio_input", "image_input"))


def _refuse_two_names(parts: Mapping[str, int], *, adds_up: bool) -> None:
    """Refuse two names of one bucket, unless the total counts both and they differ."""
    split = sum(parts.get(name, 0) for name in ("input_cache_creation_5m", "input_cache_creation_1h"))
    seen: dict[str, str] = {}
    for name, count in parts.items():
        if name in _MAY_ADD_UP:
            continue
        bucket = _BUCKETS[name]
        if bucket == "cache_write_5m_tokens" and count == split:
            raise BadRecordError(f"{name} is {count}, and so is its split by time to live: they may be one count")
        other = seen.setdefault(bucket, name)
        if other != name and (not adds_up or parts[other] == count):
            raise BadRecordError(f"{other} {parts[other]} and {name} {count} may be one count")
