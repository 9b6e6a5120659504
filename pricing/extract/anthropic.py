"""Anthropic's usage reports, several attempts in one answer included.

In: the usage object of the Messages API. Out: a `Usage`, or one for each attempt that is billed. Invariant: cache reads
and writes lie outside `input_tokens`, and a cache write is never inferred from a cache read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

from pricing.errors import UsageError
from pricing.extract.counts import Counts, Report, contradiction, rest, split_writes
from pricing.usage import Usage


@dataclass(frozen=True, slots=True)
class AttemptUsage:
    """What one attempt inside an answer used.

    Args:
        model: the model that served it, as the provider names it; None: the one that the answer names.
        usage: its buckets.
    """

    model: str | None
    usage: Usage


def usage_from_anthropic_messages(payload: Report) -> Usage | None:
    """Return the buckets of a Messages API usage object.

    `input_tokens` excludes cache reads and writes. `cache_creation_input_tokens` is the sum of the 5-minute and the
    1-hour writes; without the split under `cache_creation` all of it is 5 minutes (Anthropic, "Prompt caching").
    Thinking is inside `output_tokens`. Where the answer took several iterations of one model, all of them count: the
    counts at the top leave out compaction (Anthropic, "Compaction").

    Args:
        payload: the usage object.

    Raises:
        UsageError: the split exceeds its sum, a count is not a whole number of 0 or more, or several models took part:
            `attempts_from_anthropic` tells them apart.
    """
    report = Counts("usage", payload)
    if report.is_empty("input_tokens", "output_tokens", "iterations"):
        return None
    if len(report.parts("iterations")) < 2:  # one iteration is the answer itself
        return _message(report)
    return _sum_of_one_model(_attempts(report))


def usage_from_anthropic_iterations(payload: Report) -> Usage | None:
    """Return the buckets of all billed attempts of an answer together, where one model made them all.

    Args:
        payload: the usage object.

    Raises:
        UsageError: as for `attempts_from_anthropic`, or several models took part.
    """
    attempts = attempts_from_anthropic(payload)
    return None if attempts is None else _sum_of_one_model(attempts)


def attempts_from_anthropic(payload: Report) -> tuple[AttemptUsage, ...] | None:
    """Return what each billed attempt of one answer used.

    `iterations` has one entry for each: tries of other models before a fallback, advice, compaction, the answer. An
    attempt without output was declined before it began and is not billed. Searches are counted for the whole answer,
    and go to the last billed attempt.

    Args:
        payload: the usage object.

    Returns:
        The billed attempts in their order, possibly none; the answer's own counts where it has no iterations; None
        where nothing is reported.

    Raises:
        UsageError: an entry contradicts itself, or the split of cache writes cannot be told for it.
    """
    report = Counts("usage", payload)
    if report.is_empty("input_tokens", "output_tokens", "iterations"):
        return None
    return _attempts(report) if report.parts("iterations") else (AttemptUsage(None, _message(report)),)


def _attempts(report: Counts) -> tuple[AttemptUsage, ...]:
    entries = report.parts("iterations")
    answered = [entry for entry in entries if entry.count("output_tokens")]  # one without output is not billed
    billed = [AttemptUsage(entry.text("model"), _message(entry)) for entry in answered]
    _check_split(report, entries)
    searches = _searches(report)
    if searches and not any(attempt.usage.web_searches for attempt in billed):
        last = billed.pop() if billed else AttemptUsage(entries[-1].text("model"), Usage())
        billed.append(AttemptUsage(last.model, last.usage + Usage(web_searches=searches)))
    return tuple(billed)


def _message(report: Counts) -> Usage:
    split = report.part("cache_creation")
    five, hour = split_writes(
        "cache_creation_input_tokens",
        report.count("cache_creation_input_tokens"),
        split.count("ephemeral_5m_input_tokens"),
        split.count("ephemeral_1h_input_tokens"),
    )
    made = report.needed("output_tokens")
    thinking = report.part("output_tokens_details").count("thinking_tokens") or 0
    return Usage(
        uncached_input_tokens=report.needed("input_tokens"),
        cache_read_tokens=report.count("cache_read_input_tokens") or 0,
        cache_write_5m_tokens=five,
        cache_write_1h_tokens=hour,
        plain_output_tokens=rest("output_tokens", made, thinking),
        reasoning_tokens=thinking,
        web_searches=_searches(report),
    )


def _searches(report: Counts) -> int:
    return report.part("server_tool_use").count("web_search_requests") or 0


def _check_split(report: Counts, entries: tuple[Counts, ...]) -> None:
    """Refuse hour-long writes that are stated for the whole answer alone: which attempt's they are cannot be told."""
    if not report.part("cache_creation").count("ephemeral_1h_input_tokens"):
        return
    for entry in entries:
        if entry.is_empty("cache_creation") and entry.count("cache_creation_input_tokens"):
            raise contradiction(
                f"{entry.place.removeprefix('usage.')} does not split its cache writes, but the sum does"
            )


def _sum_of_one_model(attempts: tuple[AttemptUsage, ...]) -> Usage:
    models = {attempt.model for attempt in attempts}
    if len(models) > 1:
        names = ", ".join(sorted(str(model) for model in models))
        message = f"usage: iterations are of several models ({names}); one price cannot hold for all of them"
        raise UsageError(message, hint="extract_attempts returns what each of them used")
    return reduce(add, (attempt.usage for attempt in attempts), Usage())
