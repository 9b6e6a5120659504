"""Gemini's usage reports, of AI Studio and of Vertex.

In: `usageMetadata` of generateContent or the Live API. Out: a `Usage`. Invariant: cached content is inside the prompt;
tool-use prompts and thoughts stand beside it and are added; a count that is left out is 0, as the wire format has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pricing.extract.counts import Counts, Report, agreed, check_total, contradiction, rest
from pricing.usage import Usage

_WHOLES = ("promptTokenCount", "candidatesTokenCount", "responseTokenCount", "totalTokenCount")
_Modalities = Mapping[str, int]


def usage_from_gemini(payload: Report, *, search_grounded: bool = False) -> Usage | None:
    """Return the buckets of a `usageMetadata` object.

    The total is prompt + tool-use prompt + candidates + thoughts (Google, "UsageMetadata"); where it is only
    prompt + tool-use prompt + candidates, the candidates include the thoughts. The `…Details` lists tell modalities
    apart: audio and image leave the text bucket before text is priced; video and documents are priced as text is.
    Cached audio and images are cache reads.

    Args:
        payload: the object.
        search_grounded: whether the answer was grounded by Google Search, whose retrieved tokens are paid by the query,
            not as input (Google, "Gemini API pricing"); tool-use prompt tokens are then left out.

    Raises:
        UsageError: parts exceed their whole, the total does not add up, or a count is not a whole number of 0 or more.
    """
    report = Counts("usageMetadata", payload)
    if report.is_empty(*_WHOLES):
        return None
    if report.is_empty("totalTokenCount"):
        report.needed("promptTokenCount")
    thoughts, candidates = report.count("thoughtsTokenCount") or 0, _candidates(report)
    return Usage(
        **_input(report, tools_are_billed=not search_grounded),
        **_output(report, candidates),
        reasoning_tokens=thoughts,
    )


def _candidates(report: Counts) -> int:
    """Return the tokens of the candidates without thoughts, after checking the total."""
    candidates = agreed("candidatesTokenCount", *(report.count(name) for name in _WHOLES[1:3]))
    thoughts = report.count("thoughtsTokenCount") or 0
    if report.is_empty("totalTokenCount", "thoughtsTokenCount", *_WHOLES[1:3]):
        report.needed("candidatesTokenCount")
    read = (report.count("promptTokenCount") or 0) + (report.count("toolUsePromptTokenCount") or 0)
    total = report.count("totalTokenCount")
    if total == read + candidates:
        return rest("candidatesTokenCount", candidates, thoughts)
    check_total("totalTokenCount", total, read + candidates + thoughts)
    return candidates


def _input(report: Counts, *, tools_are_billed: bool) -> dict[str, int]:
    prompt, tools = report.count("promptTokenCount") or 0, report.count("toolUsePromptTokenCount") or 0
    cached = report.count("cachedContentTokenCount") or 0
    by_prompt = _modalities(report, "promptTokensDetails", "promptTokenCount", prompt)
    by_cache = _modalities(report, "cacheTokensDetails", "cachedContentTokenCount", cached)
    by_tools = _modalities(report, "toolUsePromptTokensDetails", "toolUsePromptTokenCount", tools)
    audio, image = (_uncached(name, by_prompt, by_cache) for name in ("AUDIO", "IMAGE"))
    text = rest("promptTokenCount", prompt, cached + audio + image)
    if tools_are_billed:
        of_audio, of_image = by_tools.get("AUDIO", 0), by_tools.get("IMAGE", 0)
        text, audio, image = text + tools - of_audio - of_image, audio + of_audio, image + of_image
    return {
        "uncached_input_tokens": text,
        "cache_read_tokens": cached,
        "audio_input_tokens": audio,
        "image_input_tokens": image,
    }


def _output(report: Counts, candidates: int) -> dict[str, int]:
    names = [name for name in ("candidatesTokensDetails", "responseTokensDetails") if not report.is_empty(name)]
    if len(names) > 1:
        raise contradiction(f"{' and '.join(names)} are both there; one of them is allowed")
    made = _modalities(report, names[0], "candidatesTokenCount", candidates) if names else {}
    audio, image = made.get("AUDIO", 0), made.get("IMAGE", 0)
    return {
        "plain_output_tokens": candidates - audio - image,
        "audio_output_tokens": audio,
        "image_output_tokens": image,
    }


def _modalities(report: Counts, name: str, whole_name: str, whole: int) -> _Modalities:
    found: dict[str, int] = {}
    for entry in report.parts(name):
        modality = entry.text("modality") or ""
        found[modality] = found.get(modality, 0) + (entry.count("tokenCount") or 0)
    rest(whole_name, whole, sum(found.values()))
    return found


def _uncached(modality: str, prompt: _Modalities, cache: _Modalities) -> int:
    """Return the tokens of a modality that no cache had; where the prompt is not itemised, all of it is text."""
    return (
        rest(f"promptTokensDetails {modality}", prompt[modality], cache.get(modality, 0)) if modality in prompt else 0
    )
