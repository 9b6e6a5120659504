"""How long an answer will be: by public records, and by the user's own once there is one.

In: class of task, size of input, cap on output, what was learnt. Out: an `OutputForecast`.
Invariant: 0 ≤ low ≤ expected ≤ high ≤ cap. What was not measured says "assumption".

The constants are the 10 % quantile, the mean and the 90 % quantile of public records, rounded to whole tokens; a test
computes them again from the records. All are of models that answered without thinking: a thinking model's forecast is
too low until its own record is there. No share of failed calls is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pricing.quick import quick


@quick
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

_TRANSLATION: Final = OutputForecast(500, 1000, 2000, "assumption: as long as the input, within a factor of 2")

SCALED: Final = frozenset({"translate"})
"""Classes whose answers grow with their input: their lengths are those for 1,000 tokens of input."""
_BY_CLASS: Final = MappingProxyType({"chat": _CONVERSATION, "math": _GRADE_SCHOOL_MATH, "translate": _TRANSLATION})

PRIOR_ANSWERS: Final = 5
"""How many answers on record the prior counts for: the variance of lengths within a group over that between groups, by
moments. It is 5.1 for the two services of the conversation traces, and 4.9 for the two models of GSM8K."""

# Hourly probes of 15 models through one gateway over 30 hours (https://www.jonathanwrede.de/en/blog/
# ttft-varies-13x-across-llm-providers/, read 2026-11): the median of their median times to the first token is 1.7 s;
# three of the four general models of OpenAI and Anthropic there write 44 to 45 tokens a second. From answers of at most
# 20 tokens: no more than an order of magnitude.
_FIRST_TOKEN_S: Final = 1.7
_TOKENS_PER_S: Final = 44


@dataclass(frozen=True, slots=True)
class LearntLengths:
    """How long the answers on record were, blended with the prior; of `SCALED`, for 1,000 tokens of input.

    Args:
        answers: how many answers on record.
        whole: all output.
        visible: output without thinking.
        reasoned: how many of the answers were thought about.
        reasoning_tokens: mean thinking of those, tokens.
    """

    answers: int
    whole: OutputForecast
    visible: OutputForecast
    reasoned: int = 0
    reasoning_tokens: int = 0

    def thought(self, asked: OutputForecast) -> OutputForecast:
        """Return the thinking that will be done where some is asked for: what is on record counts as in `whole`.

        Args:
            asked: the thinking that is asked for; "given" as its source: it is known.
        """
        if not self.reasoned or asked.source == "given":
            return asked
        total = PRIOR_ANSWERS * asked.expected_tokens + self.reasoned * self.reasoning_tokens
        expected = min(total // (PRIOR_ANSWERS + self.reasoned), asked.high_tokens)
        source = f"thinking of {self.reasoned} answers on record, blended with: {asked.source}"
        return OutputForecast(min(asked.low_tokens, expected), expected, asked.high_tokens, source)


def forecast_output(
    task_class: str | None,
    input_tokens: int,
    max_output_tokens: int | None,
    learnt: LearntLengths | None = None,
    *,
    thinking: OutputForecast | None = None,
    answers: int = 1,
) -> OutputForecast:
    """Return how long an answer will be.

    Args:
        task_class: a key of `router.classify.TASK_CLASSES`, or None where unknown.
        input_tokens: all input, tokens, ≥ 0; only the length of a translation is taken from it (in the conversation
            traces input and output lengths hardly go together: correlation of the logarithms 0.15).
        max_output_tokens: the request's cap on its answer, thinking not included, tokens, ≥ 0; None: no cap.
        learnt: what the user's own record says (`Experience.lengths`); None: nothing.
        thinking: the thinking that is asked for, on top of the answer; None: none is asked for, and what the model
            thinks by itself is in its record.
        answers: how many answers this one holds.
    """
    if learnt is None:
        measured = prior_output(task_class)
        forecast = scaled(measured, input_tokens) if task_class in SCALED else measured
    else:
        forecast = learnt.whole if thinking is None else learnt.visible
        if task_class in SCALED:
            forecast = scaled(forecast, input_tokens)
    if answers > 1:
        forecast = _held(forecast, answers)
    if max_output_tokens is not None:
        forecast = clipped(forecast, max_output_tokens)
    return forecast if thinking is None else _both(forecast, thinking if learnt is None else learnt.thought(thinking))


def prior_output(task_class: str | None) -> OutputForecast:
    """Return the length of an answer before anything is on record, tokens; of `SCALED`, for 1,000 tokens of input."""
    return _BY_CLASS.get(task_class or "", _WIDEST)


def scaled(per_mille: OutputForecast, input_tokens: int) -> OutputForecast:
    """Return the length of an answer to an input of that many tokens, from that of one to 1,000.

    Args:
        per_mille: for 1,000 tokens of input.
        input_tokens: all input, tokens, ≥ 0.
    """
    size = max(1, input_tokens)
    low, expected, high = (
        -(-tokens * size // 1000) for tokens in (per_mille.low_tokens, per_mille.expected_tokens, per_mille.high_tokens)
    )
    return OutputForecast(low, expected, high, per_mille.source)


def clipped(forecast: OutputForecast, cap: int) -> OutputForecast:
    """Return a forecast none of whose numbers is above the cap, tokens."""
    if forecast.high_tokens <= cap:
        return forecast
    return OutputForecast(
        min(forecast.low_tokens, cap),
        min(forecast.expected_tokens, cap),
        min(forecast.high_tokens, cap),
        forecast.source,
    )


def _held(forecast: OutputForecast, answers: int) -> OutputForecast:
    """Return the forecast of one answer that holds several, all short or long together."""
    low, expected, high = forecast.low_tokens, forecast.expected_tokens, forecast.high_tokens
    return OutputForecast(low * answers, expected * answers, high * answers, forecast.source)


def _both(answer: OutputForecast, thinking: OutputForecast) -> OutputForecast:
    """Return an answer and its thinking, short or long together."""
    return OutputForecast(
        answer.low_tokens + thinking.low_tokens,
        answer.expected_tokens + thinking.expected_tokens,
        answer.high_tokens + thinking.high_tokens,
        f"{answer.source}; {thinking.source}",
    )


def assumed_latency_s(output_tokens: int) -> float:
    """Return how long a call takes, seconds, where nothing is on record: an assumption, to be shown as one.

    Args:
        output_tokens: expected output, thinking included, tokens.
    """
    return _FIRST_TOKEN_S + output_tokens / _TOKENS_PER_S
