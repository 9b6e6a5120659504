"""A provider's own usage report → disjoint buckets, once, here.

In: the provider's usage object, as JSON gave it. Out: a `Usage`, or None where nothing is reported. Invariant: no token
is counted twice; the provider's own total is checked; a report that contradicts itself is an error, never clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pricing.errors import UsageError
from pricing.usage import Usage

Report = Mapping[str, Any]


def extract_usage(api: str, payload: Report | None) -> Usage | None:
    """Return what one attempt used.

    Args:
        api: a key of `EXTRACTORS`: how the report is written.
        payload: the provider's usage object, or None.

    Returns:
        Disjoint buckets; None where the report is missing or holds no counts.

    Raises:
        UsageError: the API is not known, or the report contradicts itself or is not of its documented shape.
    """
    extractor = EXTRACTORS.get(api)
    if extractor is None:
        message = f"api: {api!r} is not known; {', '.join(EXTRACTORS)} are"
        raise UsageError(message)
    return None if payload is None else extractor(payload)


def usage_from_openai_chat(payload: Report) -> Usage | None:
    """Return the buckets of a Chat Completions usage object, and of what is compatible with it.

    Cached, audio and image tokens and cache writes are parts of `prompt_tokens`; reasoning, audio and image tokens are
    parts of `completion_tokens` (OpenAI, "Chat completion object"). Cached tokens are also read where Moonshot
    (`cached_tokens`) and DeepSeek (`prompt_cache_hit_tokens`, which with `prompt_cache_miss_tokens` makes the prompt)
    write them, since relays pass both on. xAI counts reasoning beside `completion_tokens`: the total shows it.

    Args:
        payload: the usage object.

    Raises:
        UsageError: parts exceed their whole, the total does not add up, or a count is not a whole number of 0 or more.
    """
    report = _Counts("usage", _mapping("usage", payload))
    if report.is_empty("prompt_tokens", "completion_tokens", "total_tokens"):
        return None
    prompt = report.needed("prompt_tokens")
    total = report.count("total_tokens")
    completion = report.count("completion_tokens")
    if completion is None and total != prompt:
        report.needed("completion_tokens")
    inside = report.part("prompt_tokens_details")
    outside = report.part("completion_tokens_details")
    reasoning = outside.count("reasoning_tokens") or 0
    written = completion or 0
    if total is not None and total == prompt + written + reasoning:
        written += reasoning
    _check_total(total, prompt + written)
    return Usage(**_chat_input(report, inside, prompt), **_chat_output(outside, written, reasoning))


def usage_from_openai_responses(payload: Report) -> Usage | None:
    """Return the buckets of a Responses API usage object; the parts lie inside as in Chat Completions.

    Args:
        payload: the usage object.

    Raises:
        UsageError: as for `usage_from_openai_chat`.
    """
    renamed = _mapping("usage", payload)
    names = {
        "prompt_tokens": "input_tokens",
        "completion_tokens": "output_tokens",
        "total_tokens": "total_tokens",
        "prompt_tokens_details": "input_tokens_details",
        "completion_tokens_details": "output_tokens_details",
    }
    return usage_from_openai_chat({ours: renamed.get(theirs) for ours, theirs in names.items()})


def usage_from_anthropic_messages(payload: Report) -> Usage | None:
    """Return the buckets of a Messages API usage object.

    `input_tokens` excludes cache reads and writes. `cache_creation_input_tokens` is the sum of the 5-minute and the
    1-hour writes; without the split under `cache_creation` all of it is 5 minutes (Anthropic, "Prompt caching").
    Thinking is inside `output_tokens`.

    Args:
        payload: the usage object.

    Raises:
        UsageError: the split exceeds its sum, or a count is not a whole number of 0 or more.
    """
    report = _Counts("usage", _mapping("usage", payload))
    if report.is_empty("input_tokens", "output_tokens"):
        return None
    split = report.part("cache_creation")
    hour = split.count("ephemeral_1h_input_tokens") or 0
    five = split.count("ephemeral_5m_input_tokens")
    written = report.count("cache_creation_input_tokens")
    if written is None:
        written = hour + (five or 0)
    if five is not None and five + hour != written:
        message = f"usage: cache_creation_input_tokens is {written}, but 5 min and 1 h writes are {five} + {hour}"
        raise UsageError(message)
    return Usage(
        uncached_input_tokens=report.needed("input_tokens"),
        cache_read_tokens=report.count("cache_read_input_tokens") or 0,
        cache_write_5m_tokens=_rest("cache_creation_input_tokens", written, hour),
        cache_write_1h_tokens=hour,
        plain_output_tokens=report.needed("output_tokens"),
        web_searches=report.part("server_tool_use").count("web_search_requests") or 0,
    )


EXTRACTORS: Mapping[str, Callable[[Report], Usage | None]] = {
    "openai_chat": usage_from_openai_chat,
    "openai_responses": usage_from_openai_responses,
    "anthropic_messages": usage_from_anthropic_messages,
    "deepseek_chat": usage_from_openai_chat,
    "moonshot_chat": usage_from_openai_chat,
}
"""How each API writes its usage."""


class _Counts:
    """Whole numbers out of one JSON object, with its place for messages."""

    __slots__ = ("_found", "_place")

    def __init__(self, place: str, found: Report) -> None:
        self._place = place
        self._found = found

    def count(self, name: str) -> int | None:
        """Return a count, None where it is absent or null."""
        value = self._found.get(name)
        if value is None:
            return None
        if type(value) is not int or value < 0:
            message = f"{self._place}: {name} is {value!r:.60}; a whole number of 0 or more is allowed"
            raise UsageError(message, hint="the provider's report is wrong; the attempt stays unpriced")
        return value

    def needed(self, name: str) -> int:
        """Return a count that must be there."""
        value = self.count(name)
        if value is None:
            message = f"{self._place}: {name} is missing"
            raise UsageError(message, hint="the provider's report is not complete; the attempt stays unpriced")
        return value

    def part(self, name: str) -> _Counts:
        """Return an object inside this one; an absent one has no counts."""
        value = self._found.get(name)
        return _Counts(f"{self._place}.{name}", {} if value is None else _mapping(f"{self._place}.{name}", value))

    def is_empty(self, *names: str) -> bool:
        """Return whether none of these is there."""
        return all(self._found.get(name) is None for name in names)


def _mapping(place: str, value: object) -> Report:
    if not isinstance(value, Mapping):
        message = f"{place}: {value!r:.60} is not allowed; an object of counts is"
        raise UsageError(message, hint="the provider's report is not of its documented shape")
    return value


def _check_total(total: int | None, parts: int) -> None:
    if total is not None and total != parts:
        message = f"usage: total_tokens is {total}, but its parts make {parts}"
        raise UsageError(message, hint="the provider bills tokens it does not itemise; the attempt stays unpriced")


def _rest(whole_name: str, whole: int, parts: int) -> int:
    """Return whole − parts."""
    if parts > whole:
        message = f"usage: {whole_name} is {whole}, but its parts make {parts}"
        raise UsageError(message, hint="the provider's report contradicts itself; the attempt stays unpriced")
    return whole - parts


def _agreed(name: str, *values: int | None) -> int:
    """Return the one count that several fields state; a zero beside a count is a field that was not filled in."""
    stated = {value for value in values if value}
    if len(stated) > 1:
        message = f"usage: {name} is stated as {' and '.join(str(value) for value in sorted(stated))}"
        raise UsageError(message, hint="the provider's report contradicts itself; the attempt stays unpriced")
    return stated.pop() if stated else 0


def _chat_input(report: _Counts, inside: _Counts, prompt: int) -> dict[str, int]:
    hits = report.count("prompt_cache_hit_tokens")
    misses = report.count("prompt_cache_miss_tokens")
    if hits is not None and misses is not None and hits + misses != prompt:
        message = f"usage: prompt_tokens is {prompt}, but cache hits and misses are {hits} + {misses}"
        raise UsageError(message, hint="the provider's report contradicts itself; the attempt stays unpriced")
    cached = _agreed("cached_tokens", inside.count("cached_tokens"), report.count("cached_tokens"), hits)
    cached_apart = inside.part("cached_tokens_details")
    audio, image = (
        _rest(name, inside.count(name) or 0, cached_apart.count(name) or 0) for name in ("audio_tokens", "image_tokens")
    )
    # litellm writes both names for one count, and the split by time to live beside it.
    written = _agreed("cache_write_tokens", inside.count("cache_write_tokens"), inside.count("cache_creation_tokens"))
    hour = inside.part("cache_creation_token_details").count("ephemeral_1h_input_tokens") or 0
    return {
        "uncached_input_tokens": _rest("prompt_tokens", prompt, cached + written + audio + image),
        "cache_read_tokens": cached,
        "cache_write_5m_tokens": _rest("cache_write_tokens", written, hour),
        "cache_write_1h_tokens": hour,
        "audio_input_tokens": audio,
        "image_input_tokens": image,
    }


def _chat_output(outside: _Counts, written: int, reasoning: int) -> dict[str, int]:
    audio = outside.count("audio_tokens") or 0
    image = outside.count("image_tokens") or 0
    return {
        "plain_output_tokens": _rest("completion_tokens", written, reasoning + audio + image),
        "reasoning_tokens": reasoning,
        "audio_output_tokens": audio,
        "image_output_tokens": image,
    }
