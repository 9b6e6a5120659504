"""What follows from attempts and runs that have ended: an `Experience`.

In: `EndedAttempt`s and `EndedRun`s, in any order. Out: an `Experience`.
Invariant: pure; the same records give the same experience, whatever their order.

Lengths are blended with their prior as a Dirichlet process has it (Ferguson, "A Bayesian Analysis of Some Nonparametric
Problems", Annals of Statistics 1, 1973): the next answer is drawn from the prior with weight k / (n + k), else from the
n answers on record; quantiles are those of this mixture. The prior itself is moved to where the record lies and made as
wide as it is, with the same weight. What is known of a model at a class before its own record is the published prior
moved so by the other models at that class: the same user's tasks tell more of the next than a trace.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import NormalDist
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from router.experience import (
    AS_FORECAST,
    EVERY_MODEL,
    LEAST_TIMED,
    ClassRecord,
    EndedAttempt,
    EndedRun,
    Experience,
    InputRatio,
    Latency,
    Widths,
)
from router.forecast import PRIOR_ANSWERS, SCALED, LearntLengths, OutputForecast, prior_output

LOW, HIGH = 0.1, 0.9
_STEPS: Final = 24  # halvings: a millionth of a token, where lengths go to 16 million
_LONGEST: Final = math.log(10**7)  # of a mean, tokens: empty answers beside very long ones would have any
_PRIOR_RUNS: Final = 20  # that a width of 1 counts for: with fewer than 9 runs no one is the tenth beyond an end
_NORMAL: Final = NormalDist()
_Z: Final = _NORMAL.inv_cdf(HIGH)
_LEAST_WIDTH, _MOST_WIDTH = 0.0, 10.0
Item = TypeVar("Item")
KeyT = TypeVar("KeyT")


def learn(attempts: Iterable[EndedAttempt], runs: Iterable[EndedRun], as_of_us: int | None) -> Experience:
    """Return what follows from the records.

    Args:
        attempts: ended attempts.
        runs: ended runs.
        as_of_us: the instant before which they had ended, microseconds since 1970 UTC.
    """
    ended = tuple(attempts)
    known = [each for each in ended if each.task_class is not None]
    classes = {name: _Class(name, some) for name, some in _grouped(known, _CLASS).items()}
    records = {
        (model, task_class): classes[task_class].record_of(model, some)
        for (model, task_class), some in _grouped(known, lambda each: (each.model, each.task_class or "")).items()
    }
    records.update({(EVERY_MODEL, name): each.record() for name, each in classes.items()})
    over = tuple(runs)
    return Experience(
        as_of_us,
        len(ended),
        MappingProxyType(records),
        MappingProxyType(_input_ratios(ended)),
        MappingProxyType(_known({model: latency_of(some) for model, some in _grouped(ended, _MODEL).items()})),
        single=widths_of([run for run in over if not run.is_planned]),
        planned=widths_of([run for run in over if run.is_planned]),
    )


_MODEL: Callable[[EndedAttempt], str] = attrgetter("model")
_CLASS: Callable[[EndedAttempt], str] = attrgetter("task_class")


def _grouped(items: Iterable[Item], key: Callable[[Item], KeyT]) -> Mapping[KeyT, list[Item]]:
    found: dict[KeyT, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _known(found: Mapping[KeyT, Item | None]) -> dict[KeyT, Item]:
    return {key: value for key, value in found.items() if value is not None}


# Lengths --------------------------------------------------------------------------------------------------------------


class Base(NamedTuple):
    """What is known of lengths before a record is looked at: a lognormal distribution, by its logarithms."""

    mean: float
    variance: float

    def beyond(self, length: float) -> float:
        """Return the share of answers that are longer, 0 to 1."""
        deviation = math.sqrt(self.variance)
        return 1 - _NORMAL.cdf((math.log(max(length, 0.5)) - self.mean) / deviation) if deviation else 0.0

    def point(self, share: float) -> float:
        """Return the length that a share of the answers is not above."""
        return math.exp(self.mean + math.sqrt(self.variance) * _NORMAL.inv_cdf(share))


def base_of(prior: OutputForecast) -> Base:
    """Return the lognormal distribution through the 10 % and 90 % points of a prior."""
    low, high = math.log(max(prior.low_tokens, 1)), math.log(max(prior.high_tokens, 1))
    return Base((low + high) / 2, ((high - low) / (2 * _Z)) ** 2)


def updated(base: Base, lengths: Sequence[float]) -> Base:
    """Return what is known with some lengths on record, `PRIOR_ANSWERS` as many standing for what was known before."""
    logs = [math.log(max(length, 0.5)) for length in lengths]
    total = PRIOR_ANSWERS + len(logs)
    mean = (PRIOR_ANSWERS * base.mean + math.fsum(logs)) / total
    own = math.fsum(logs) / len(logs) if logs else mean
    squares = math.fsum((each - own) ** 2 for each in logs)
    return Base(mean, (PRIOR_ANSWERS * base.variance + squares) / total)


def forecast_of(base: Base, lengths: Sequence[float], source: str) -> OutputForecast:
    """Return how long the next answer will be: with weight k / (n + k) as is known, else as one of the n on record.

    Args:
        base: what is known without them.
        lengths: on record, at least one.
        source: where it is from.
    """
    known = updated(base, lengths)
    weight = PRIOR_ANSWERS / (PRIOR_ANSWERS + len(lengths))
    known_mean = math.exp(min(known.mean + known.variance / 2, _LONGEST))
    mean = weight * known_mean + (1 - weight) * math.fsum(lengths) / len(lengths)
    ordered = sorted(lengths)
    expected = round(mean)
    low, high = (round(_mixed_point(known, ordered, weight, share)) for share in (LOW, HIGH))
    return OutputForecast(min(low, expected), expected, max(high, expected), source)


def _mixed_point(known: Base, ordered: Sequence[float], weight: float, share: float) -> float:
    """Return a quantile of the mixture, by bisection between the ends of both its parts."""
    low = min(ordered[0], known.point(share)) - 1
    high = max(ordered[-1], known.point(share)) + 1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        below = weight * (1 - known.beyond(middle)) + (1 - weight) * bisect_right(ordered, middle) / len(ordered)
        low, high = (middle, high) if below < share else (low, middle)
    return high


class _Class:
    """What is on record of a class, and what it says of one model's answers before that model is looked at."""

    def __init__(self, task_class: str, attempts: Sequence[EndedAttempt]) -> None:
        self._attempts = attempts
        published = prior_output(task_class)
        self._published, self._source = base_of(published), published.source

    def base_for(self, model: str) -> tuple[Base, str]:
        """Return what is known of a model's answers by the published prior and those of the others; and the source.

        Thinking is left out of those: how much a model thinks is its own.
        """
        visible = _lengths((each for each in self._attempts if each.model != model), with_thinking=False)
        if not visible:
            return self._published, self._source
        return updated(self._published, visible), f"{_counted(visible)} of other models and {self._source}"

    def record(self) -> ClassRecord:
        """Return the class's own record: of all models together, thinking left out."""
        visible = _lengths(self._attempts, with_thinking=False)
        failed, lengths = _failed(self._attempts), None
        if visible:
            forecast = forecast_of(self._published, visible, f"{_counted(visible)} of this class and {self._source}")
            lengths = LearntLengths(len(visible), forecast, forecast)
        return ClassRecord(len(self._attempts), failed, lengths)

    def record_of(self, model: str, attempts: Sequence[EndedAttempt]) -> ClassRecord:
        """Return one model's record; `attempts` are its own."""
        lengths = _learnt(attempts, *self.base_for(model))
        return ClassRecord(len(attempts), _failed(attempts), lengths, latency_of(attempts))


def _failed(attempts: Iterable[EndedAttempt]) -> int:
    return sum(each.has_failed for each in attempts)


def _counted(answers: Sequence[float]) -> str:
    return "1 answer" if len(answers) == 1 else f"{len(answers):,} answers"


def _learnt(attempts: Sequence[EndedAttempt], base: Base, base_source: str) -> LearntLengths | None:
    whole, visible = _lengths(attempts, with_thinking=True), _lengths(attempts, with_thinking=False)
    if not whole:
        return None
    thought = [each.reasoning_tokens for each in attempts if not each.has_failed and each.reasoning_tokens]
    source = f"{_counted(whole)} on record, blended with {base_source}"
    whole_forecast = forecast_of(base, whole, source)
    if not thought:
        return LearntLengths(len(whole), whole_forecast, whole_forecast)
    mean_thought = round(sum(thought) / len(thought))
    return LearntLengths(len(whole), whole_forecast, forecast_of(base, visible, source), len(thought), mean_thought)


def _lengths(attempts: Iterable[EndedAttempt], *, with_thinking: bool) -> list[float]:
    """Return the lengths of answers, tokens; of a class whose answers grow with their input, for 1,000 tokens of it."""
    return [
        (each.output_tokens - (0 if with_thinking else each.reasoning_tokens))
        * (1000 / max(1, each.input_tokens or 0) if each.task_class in SCALED else 1)
        for each in attempts
        if not each.has_failed and each.output_tokens is not None
    ]


# Latency and input ----------------------------------------------------------------------------------------------------


def latency_of(attempts: Iterable[EndedAttempt]) -> Latency | None:
    """Return how long the answered ones took, or None where they are fewer than `LEAST_TIMED`."""
    answered = [each for each in attempts if not each.has_failed]
    times = sorted(each.latency_us for each in answered if each.latency_us is not None)
    if len(times) < LEAST_TIMED:
        return None
    firsts = sorted(each.ttft_us for each in answered if each.ttft_us is not None)
    ttft_s = _point(firsts, 0.5) / 1e6 if len(firsts) >= LEAST_TIMED else None
    return Latency(len(times), _point(times, 0.5) / 1e6, _point(times, HIGH) / 1e6, ttft_s)


def _point(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered values: the one at rank ⌈share · n⌉."""
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def _input_ratios(attempts: Iterable[EndedAttempt]) -> dict[tuple[str, str], InputRatio]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in attempts:
        if each.script and each.estimated_input_tokens and each.input_tokens and not each.has_failed:
            found[each.model, each.script].append(each.input_tokens / each.estimated_input_tokens)
    return {key: input_ratio(ratios) for key, ratios in found.items()}


def input_ratio(ratios: Sequence[float]) -> InputRatio:
    """Return the ratio of counted to estimated input, shrunk towards 1 as lengths are towards their prior.

    Args:
        ratios: of single calls, at least one.
    """
    count = len(ratios)
    weight = count / (count + PRIOR_ANSWERS)
    ordered = sorted(ratios)
    points = (_point(ordered, LOW), math.fsum(ordered) / count, _point(ordered, HIGH))
    low, expected, high = (round(1000 * (1 + weight * (point - 1))) for point in points)
    return InputRatio(count, min(low, expected), expected, max(high, expected))


# Intervals of runs ----------------------------------------------------------------------------------------------------


def widths_of(runs: Iterable[EndedRun]) -> Widths:
    """Return by how much the ends of runs' intervals are to be moved so that one run in ten is beyond each.

    For each end, how many times its distance from the forecast a run's cost was away: the 90 % point of that, as split
    conformal prediction takes it (Lei et al., "Distribution-Free Predictive Inference for Regression", JASA 113, 2018),
    shrunk towards 1.

    Args:
        runs: those whose forecast has no width are passed over.
    """
    measured = [run for run in runs if run.low_nano < run.expected_nano < run.high_nano]
    if not measured:
        return AS_FORECAST
    down = [(run.expected_nano - run.actual_nano) / (run.expected_nano - run.low_nano) for run in measured]
    up = [(run.actual_nano - run.expected_nano) / (run.high_nano - run.expected_nano) for run in measured]
    return Widths(len(measured), _width(down), _width(up))


def _width(scores: Sequence[float]) -> int:
    count = len(scores)
    rank = min(count, math.ceil(HIGH * (count + 1) - 1e-9))
    width = min(max(sorted(scores)[rank - 1], _LEAST_WIDTH), _MOST_WIDTH)
    weight = count / (count + _PRIOR_RUNS)
    return round(1000 * (1 + weight * (width - 1)))
