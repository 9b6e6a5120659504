"""How long an answer will be, before anything is known about the user's own tasks.

In: class of task, size of input, cap on output. Out: an `OutputForecast`.
Invariant: 0 ≤ low ≤ expected ≤ high ≤ cap. What was not measured says "assumption".

The constants are the 10 % quantile, the mean and the 90 % quantile of public records, rounded to whole tokens; a test
computes them again from the records. All are of models that answered without thinking: a thinking model's forecast is
too low until its own record is there. No share of failed calls is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class OutputForecast:
    """Length of an answer, tokens.

    Args:
        low_tokens: one answer in ten is shorter.
        expected_tokens: the mean.
        high_tokens: one answer in ten is longer.
        source: what it was measured on; starts with "assumption" where it was not measured.
    """

    low_tokens: int
    expected_tokens: int
    high_tokens: int
    source: str


# 31,397 answers of two conversation services, one hour each, pooled: Azure (AzurePublicDataset, Splitwise, ISCA 2024;
# 19,366) and Kimi (kvcache-ai/Mooncake, FAST'25; 12,031).
_CONVERSATION: Final = OutputForecast(47, 262, 499, "31,397 answers of the Azure 2023 and Mooncake conversation traces")
# 2,638 answers to GSM8K by gpt-4-1106-preview and Mixtral-8x7B (lm-sys/RouteLLM), counted there as characters / 4.
_GRADE_SCHOOL_MATH: Final = OutputForecast(41, 90, 154, "2,638 answers to GSM8K in RouteLLM's record, characters / 4")
# Azure's code trace is of completions in an editor (8,819; mean 28), not of answers to a request: of it only the low
# end is taken, and the high end of Mooncake's conversations alone, the highest of all.
_WIDEST: Final = OutputForecast(7, 262, 597, "assumption: the widest of all traces, with the mean of conversations")

_BY_CLASS: Final = MappingProxyType({"chat": _CONVERSATION, "math": _GRADE_SCHOOL_MATH})


def forecast_output(task_class: str | None, input_tokens: int, max_output_tokens: int | None) -> OutputForecast:
    """Return how long an answer will be.

    Args:
        task_class: a key of `router.classify.TASK_CLASSES`, or None where unknown.
        input_tokens: all input, tokens, ≥ 0; only the length of a translation is taken from it (in the conversation
            traces input and output lengths hardly go together: correlation of the logarithms 0.15).
        max_output_tokens: the request's cap on its output, tokens, ≥ 0; None: no cap.
    """
    measured = _BY_CLASS.get(task_class or "", _WIDEST)
    forecast = _translation(input_tokens) if task_class == "translate" else measured
    return forecast if max_output_tokens is None else _clip(forecast, max_output_tokens)


def _translation(input_tokens: int) -> OutputForecast:
    """Return the length of a translation: as long as what it translates, give or take a factor of two."""
    length = max(1, input_tokens)
    return OutputForecast(-(-length // 2), length, 2 * length, "assumption: as long as the input, within a factor of 2")


def _clip(forecast: OutputForecast, cap: int) -> OutputForecast:
    """Return a forecast none of whose numbers is above the cap."""
    return OutputForecast(
        min(forecast.low_tokens, cap),
        min(forecast.expected_tokens, cap),
        min(forecast.high_tokens, cap),
        forecast.source,
    )
