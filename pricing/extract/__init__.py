"""A provider's own usage report → disjoint buckets, once, here.

In: the provider's usage object, as JSON gave it. Out: a `Usage`, or None where nothing is reported. Invariant: no token
is counted twice; the provider's own total is checked; a report that contradicts itself is an error, never clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pricing.errors import UsageError
from pricing.extract.answers import last_per_message, last_snapshot, reported_cost_usd, served_tier
from pricing.extract.anthropic import (
    AttemptUsage,
    attempts_from_anthropic,
    usage_from_anthropic_iterations,
    usage_from_anthropic_messages,
)
from pricing.extract.bedrock import usage_from_bedrock_converse
from pricing.extract.counts import Counts, Report, bounded
from pricing.extract.google import usage_from_gemini
from pricing.extract.openai import (
    usage_from_litellm,
    usage_from_openai_chat,
    usage_from_openai_images,
    usage_from_openai_responses,
)
from pricing.usage import Usage

__all__ = [
    "EXTRACTORS",
    "AttemptUsage",
    "Report",
    "attempts_from_anthropic",
    "extract_attempts",
    "extract_usage",
    "last_per_message",
    "last_snapshot",
    "reported_cost_usd",
    "served_tier",
    "usage_from_anthropic_iterations",
    "usage_from_anthropic_messages",
    "usage_from_bedrock_converse",
    "usage_from_gemini",
    "usage_from_litellm",
    "usage_from_openai_chat",
    "usage_from_openai_images",
    "usage_from_openai_responses",
]

EXTRACTORS: Mapping[str, Callable[[Report], Usage | None]] = {
    "openai_chat": usage_from_openai_chat,
    "openai_responses": usage_from_openai_responses,
    "openai_images": usage_from_openai_images,
    "anthropic_messages": usage_from_anthropic_messages,
    "anthropic_messages_iterations": usage_from_anthropic_iterations,
    "gemini": usage_from_gemini,
    "deepseek_chat": usage_from_openai_chat,
    "moonshot_chat": usage_from_openai_chat,
    "bedrock_converse": usage_from_bedrock_converse,
    "openrouter_chat": usage_from_openai_chat,
    "azure_chat": usage_from_openai_chat,
    "litellm": usage_from_litellm,
}
"""How each API writes its usage."""


def extract_usage(api: str, payload: Report | None, *, output_items: Sequence[object] = ()) -> Usage | None:
    """Return what one attempt used.

    Args:
        api: a key of `EXTRACTORS`: how the report is written.
        payload: the provider's usage object, or None.
        output_items: the items a Responses answer is made of, or their types; its searches are counted there.

    Returns:
        Disjoint buckets; None where the report is missing or holds no counts.

    Raises:
        UsageError: the API is not known, or the report contradicts itself, is not of its documented shape, or has a
            bucket of more than 10**12.
    """
    extractor = EXTRACTORS.get(api)
    if extractor is None:
        message = f"api: {api!r} is not known; {', '.join(EXTRACTORS)} are"
        raise UsageError(message)
    if payload is None:
        return None
    if extractor is usage_from_openai_responses:
        usage = usage_from_openai_responses(payload, output_items)
    else:
        usage = extractor(payload)
    return None if usage is None else bounded(usage)


def extract_attempts(
    api: str, payload: Report | None, *, output_items: Sequence[object] = ()
) -> tuple[AttemptUsage, ...] | None:
    """Return what each billed attempt inside one answer used; each is to be priced at its own model.

    Args:
        api: a key of `EXTRACTORS`. Only Anthropic's reports tell attempts apart; any other is one attempt.
        payload: the provider's usage object, or None.
        output_items: as for `extract_usage`.

    Returns:
        The billed attempts, possibly none; None where the report is missing or holds no counts.

    Raises:
        UsageError: as for `extract_usage`.
    """
    if payload is not None and (
        api == "anthropic_messages_iterations"
        or (api == "anthropic_messages" and Counts("usage", payload).parts("iterations")[1:])
    ):
        attempts = attempts_from_anthropic(payload)
        bounded(sum((attempt.usage for attempt in attempts or ()), Usage()))
        return attempts
    usage = extract_usage(api, payload, output_items=output_items)
    return None if usage is None else (AttemptUsage(None, usage),)
