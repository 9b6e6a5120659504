"""OpenAI's usage reports, and those of everyone who writes them alike.

In: the usage object of Chat Completions, Responses or Images, or of an API compatible with one. Out: a `Usage`.
Invariant: cached, audio and image tokens and cache writes are parts of the input; reasoning, audio and image tokens are
parts of the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pricing.extract.counts import (
    MOST_TOKENS,
    Counts,
    Report,
    agreed,
    check_total,
    contradiction,
    rest,
    split_writes,
)
from pricing.usage import Usage

_SEARCH_CALL = "web_search_call"


class _Keys(NamedTuple):
    """What an API calls its counts."""

    input: str
    output: str
    input_details: str
    output_details: str


_CHAT = _Keys("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
_RESPONSES = _Keys("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")


_ORDINARY = frozenset((*_CHAT, "total_tokens"))


class _Stated(NamedTuple):
    """Cache reads and writes that are stated at the top, as litellm does for every vendor."""

    read: int | None
    written: int | None


_NOWHERE = _Stated(None, None)


def usage_from_openai_chat(payload: Report) -> Usage | None:
    """Return the buckets of a Chat Completions usage object, and of what is compatible with it.

    Cached, audio and image tokens and cache writes are parts of `prompt_tokens`; reasoning, audio and image tokens are
    parts of `completion_tokens` (OpenAI, "Chat completion object"; Azure OpenAI and OpenRouter, "Usage accounting",
    alike). Cached tokens are also read where Moonshot (`cached_tokens`) and DeepSeek (`prompt_cache_hit_tokens`, which
    with `prompt_cache_miss_tokens` makes the prompt) write them, since relays pass both on. xAI counts reasoning beside
    `completion_tokens`: the total shows it. OpenRouter counts searches under `server_tool_use`.

    Args:
        payload: the usage object.

    Raises:
        UsageError: parts exceed their whole, the total does not add up, a count is not a whole number of 0 or more, or
            Anthropic's cache counts stand beside a prompt that may or may not include them.
    """
    if (plain := _plain(payload)) is not None:
        return plain
    report = Counts("usage", payload)
    if report.is_empty("prompt_tokens", "completion_tokens", "total_tokens"):
        return None
    usage = _read(report, _CHAT)
    _check_mirrored("cache_read_input_tokens", report, usage.cache_read_tokens)
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    _check_mirrored("cache_creation_input_tokens", report, written)
    return usage


def usage_from_litellm(payload: Report) -> Usage | None:
    """Return the buckets of litellm's normalised usage, whichever vendor it was made from.

    As Chat Completions; cache reads and writes are inside `prompt_tokens` for every vendor (litellm 1.110.2 adds them
    for Anthropic and Bedrock), and stand at the top under Anthropic's names too. Searches are counted in
    `prompt_tokens_details.web_search_requests` or under `server_tool_use`.

    Args:
        payload: its `Usage`, as a mapping.

    Raises:
        UsageError: as for `usage_from_openai_chat`.
    """
    report = Counts("usage", payload)
    if report.is_empty("prompt_tokens", "completion_tokens", "total_tokens"):
        return None
    top = _Stated(report.count("cache_read_input_tokens"), report.count("cache_creation_input_tokens"))
    return _read(report, _CHAT, top)


def usage_from_openai_responses(payload: Report, output_items: Sequence[object] = ()) -> Usage | None:
    """Return the buckets of a Responses API usage object; the parts lie inside as in Chat Completions.

    Args:
        payload: the usage object.
        output_items: the items of the response's `output`, or only their types: searches are counted from the calls
            that were made, not from the tools that were declared. A call that opened a page or looked for text in one
            is no search (OpenAI, "Web search": search actions incur the tool call cost).

    Raises:
        UsageError: as for `usage_from_openai_chat`.
    """
    report = Counts("usage", payload)
    if report.is_empty("input_tokens", "output_tokens", "total_tokens"):
        return None
    return _read(report, _RESPONSES) + Usage(web_searches=sum(_is_search(item) for item in output_items))


def usage_from_openai_images(payload: Report) -> Usage | None:
    """Return the buckets of an Images API usage object.

    Text and image input as in Responses. The output is not itemised by every model: what is not stated to be text is
    image tokens (OpenAI, "Image generation").

    Args:
        payload: the usage object.

    Raises:
        UsageError: as for `usage_from_openai_chat`.
    """
    report = Counts("usage", payload)
    if report.is_empty("input_tokens", "output_tokens", "total_tokens"):
        return None
    whole, made = report.needed("input_tokens"), report.needed("output_tokens")
    check_total("total_tokens", report.count("total_tokens"), whole + made)
    details = report.part("output_tokens_details")
    text, image = details.count("text_tokens"), details.count("image_tokens")
    if text and image and text + image != made:
        raise contradiction(f"output_tokens is {made}, but text and image tokens are {text} + {image}")
    images = image or rest("output_tokens", made, text or 0)
    return Usage(
        **_input(report, _RESPONSES, whole),
        plain_output_tokens=rest("output_tokens", made, images),
        image_output_tokens=images,
    )


def _plain(payload: Report) -> Usage | None:
    """Return the buckets of a report that has nothing out of the ordinary, as most have; None: read it with care.

    That is: input, output and a total that is their sum; inside them nothing but cached and reasoning tokens.
    """
    if type(payload) is not dict or not payload.keys() <= _ORDINARY:
        return None
    whole, made, total = payload.get(_CHAT.input), payload.get(_CHAT.output), payload.get("total_tokens")
    cached = _only(payload.get(_CHAT.input_details), "cached_tokens")
    reasoning = _only(payload.get(_CHAT.output_details), "reasoning_tokens")
    if not (type(whole) is type(made) is type(total) is int) or cached is None or reasoning is None:
        return None
    if total != whole + made or total > MOST_TOKENS or not 0 <= cached <= whole or not 0 <= reasoning <= made:
        return None
    return Usage(whole - cached, cached, plain_output_tokens=made - reasoning, reasoning_tokens=reasoning)


def _only(details: object, name: str) -> int | None:
    """Return the one count of some details, 0 where there is none; None where there is anything else."""
    if details is None:
        return 0
    if type(details) is not dict:
        return None
    found = 0
    for key, value in details.items():
        if value is not None and type(value) is not int:
            return None
        if key == name:
            found = value or 0
        elif value:
            return None
    return found


def _read(report: Counts, keys: _Keys, top: _Stated = _NOWHERE) -> Usage:
    whole = report.needed(keys.input)
    total = report.count("total_tokens")
    stated = report.count(keys.output)
    if stated is None and total != whole:
        report.needed(keys.output)
    made = stated or 0
    details = report.part(keys.output_details)
    reasoning = details.count("reasoning_tokens") or 0
    if total is not None and total == whole + made + reasoning:
        made += reasoning
    check_total("total_tokens", total, whole + made)
    return Usage(
        **_input(report, keys, whole, top),
        **_output(details, keys, made, reasoning),
        web_searches=_searches(report, keys),
    )


def _input(report: Counts, keys: _Keys, whole: int, top: _Stated = _NOWHERE) -> dict[str, int]:
    inside = report.part(keys.input_details)
    cached = agreed("cached_tokens", inside.count("cached_tokens"), *_cached_at_the_top(report, keys, whole), top.read)
    cached_apart = inside.part("cached_tokens_details")
    audio, image = (
        rest(name, inside.count(name) or 0, cached_apart.count(name) or 0) for name in ("audio_tokens", "image_tokens")
    )
    # litellm writes both names for one count, and the split by time to live beside it.
    names = ("cache_write_tokens", "cache_creation_tokens")
    written = agreed("cache_write_tokens", *(inside.count(name) for name in names), top.written)
    split = inside.part("cache_creation_token_details")
    five, hour = split_writes(
        "cache_write_tokens",
        written,
        split.count("ephemeral_5m_input_tokens"),
        split.count("ephemeral_1h_input_tokens"),
    )
    return {
        "uncached_input_tokens": rest(keys.input, whole, cached + written + audio + image),
        "cache_read_tokens": cached,
        "cache_write_5m_tokens": five,
        "cache_write_1h_tokens": hour,
        "audio_input_tokens": audio,
        "image_input_tokens": image,
    }


def _cached_at_the_top(report: Counts, keys: _Keys, whole: int) -> tuple[int | None, ...]:
    """Return the cached tokens that Moonshot and DeepSeek state beside the prompt."""
    if keys is not _CHAT:
        return ()
    hits, misses = report.count("prompt_cache_hit_tokens"), report.count("prompt_cache_miss_tokens")
    if hits is not None and misses is not None and hits + misses != whole:
        raise contradiction(f"prompt_tokens is {whole}, but cache hits and misses are {hits} + {misses}")
    return report.count("cached_tokens"), hits


def _output(details: Counts, keys: _Keys, made: int, reasoning: int) -> dict[str, int]:
    audio, image = details.count("audio_tokens") or 0, details.count("image_tokens") or 0
    return {
        "plain_output_tokens": rest(keys.output, made, reasoning + audio + image),
        "reasoning_tokens": reasoning,
        "audio_output_tokens": audio,
        "image_output_tokens": image,
    }


def _searches(report: Counts, keys: _Keys) -> int:
    inside = report.part(keys.input_details).count("web_search_requests")
    return agreed("web_search_requests", report.part("server_tool_use").count("web_search_requests"), inside)


def _check_mirrored(name: str, report: Counts, counted: int) -> None:
    """Refuse a cache count at the top that the details do not have: the prompt may or may not include it."""
    stated = report.count(name)
    if stated and stated != counted:
        raise contradiction(f"{name} is {stated}, but prompt_tokens_details has {counted}")


def _is_search(item: object) -> bool:
    if not isinstance(item, Mapping):
        return item == _SEARCH_CALL
    action: Any = item.get("action")
    kind = action.get("type") if isinstance(action, Mapping) else None
    return item.get("type") == _SEARCH_CALL and kind in (None, "search")
