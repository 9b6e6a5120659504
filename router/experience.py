"""What the user's own record says of models: how long they answer and take, how often they fail, how they count tokens.

In: what `router.learning` has made of ended attempts. Out: look-ups, one dictionary each.
Invariant: frozen, and as of one instant: two experiences as of the same instant of one ledger are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from router.forecast import PRIOR_ANSWERS, LearntLengths

EVERY_MODEL: Final = ""
"""Stands for all models together where a class is asked about before its model is known."""
LEAST_TIMED: Final = 5
"""Fewest answers whose median time says something: that of five lies between the shortest and the longest with a
probability of 1 − 2 · (1/2)^5 = 94 %."""


class EndedAttempt(NamedTuple):
    """One attempt on record, as it is learnt from.

    Args:
        model: our id of the model that was asked.
        task_class: class of the call, or None.
        has_failed: whether it failed or timed out; else it was answered.
        script: what its text was mostly written in, or None where its size was not estimated.
        estimated_input_tokens: size of its input by the text alone, or None.
        input_tokens, output_tokens: as the provider counted them, or None.
        reasoning_tokens: part of the output.
        latency_us, ttft_us: of the whole answer and to its first token, microseconds, or None.
    """

    model: str
    task_class: str | None
    has_failed: bool
    script: str | None
    estimated_input_tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int
    latency_us: int | None
    ttft_us: int | None


class EndedRun(NamedTuple):
    """One run on record whose cost was forecast and is known, in 1e-9 USD; `is_planned`: it took several calls."""

    is_planned: bool
    low_nano: int
    expected_nano: int
    high_nano: int
    actual_nano: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long answered attempts took, seconds.

    Args:
        answers: how many were timed, at least `LEAST_TIMED`.
        median_s: half took longer.
        high_s: one in ten took longer.
        ttft_s: median time to the first token, or None where fewer than `LEAST_TIMED` were streamed.
    """

    answers: int
    median_s: float
    high_s: float
    ttft_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """What is on record of one model at one class.

    Args:
        attempts: attempts that ended, those the caller stopped left out.
        failed: of those, how many failed or timed out.
        lengths: of its answers; None: there is none with known usage.
        latency: of its answers; None: too few.
    """

    attempts: int
    failed: int
    lengths: LearntLengths | None = None
    latency: Latency | None = None


@dataclass(frozen=True, slots=True)
class InputRatio:
    """Input tokens as counted by the provider against `router.tokens.estimate_message_tokens`, thousandths.

    Args:
        calls: how many calls on record.
        low_milli, expected_milli, high_milli: the 10 % point, the mean and the 90 % point, shrunk towards 1,000.
    """

    calls: int
    low_milli: int
    expected_milli: int
    high_milli: int


@dataclass(frozen=True, slots=True)
class Widths:
    """By how much the ends of runs' cost intervals are moved so that the measured coverage is the nominal one.

    Args:
        runs: how many runs on record.
        low_milli: by how many thousandths of it the low end is away from the expected cost; 1,000: as it was.
        high_milli: the high end, alike.
    """

    runs: int = 0
    low_milli: int = 1000
    high_milli: int = 1000


AS_FORECAST: Final = Widths()


@dataclass(frozen=True, slots=True)
class Experience:
    """What is on record, as of an instant.

    Args:
        as_of_us: only attempts that had ended before it are in here, microseconds since 1970 UTC; None: nothing is.
        attempts: how many were looked at.
        records: by model and class; `EVERY_MODEL` with a class: all models of it together.
        inputs: by model and script.
        latencies: by model, all classes together.
        single, planned: of runs that took one call, and of those that took several.
    """

    as_of_us: int | None = None
    attempts: int = 0
    records: Mapping[tuple[str, str], ClassRecord] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[tuple[str, str], InputRatio] = field(default_factory=lambda: MappingProxyType({}))
    latencies: Mapping[str, Latency] = field(default_factory=lambda: MappingProxyType({}))
    single: Widths = AS_FORECAST
    planned: Widths = AS_FORECAST

    def record(self, model: str, task_class: str) -> ClassRecord | None:
        """Return what is on record of a model at a class, or None."""
        return self.records.get((model, task_class))

    def lengths(self, model: str | None, task_class: str | None) -> LearntLengths | None:
        """Return how long the answers of a model at a class are; where it has none, those of all models; else None.

        Args:
            model: our model id; None: not known yet.
            task_class: the class; None: unknown.
        """
        of_class = task_class or ""
        found = self.records.get((model or EVERY_MODEL, of_class))
        if found is None or found.lengths is None:
            found = self.records.get((EVERY_MODEL, of_class))
        return None if found is None else found.lengths

    def latency(self, model: str, task_class: str) -> Latency | None:
        """Return how long a model takes at a class; where too few were timed, at all classes; else None."""
        found = self.records.get((model, task_class))
        own = None if found is None else found.latency
        return own or self.latencies.get(model)

    def failure_share(self, model: str, task_class: str) -> float:
        """Return the share of a model's attempts at a class that fail, 0 to 1, shrunk towards 0; 0 without a record."""
        found = self.records.get((model, task_class))
        return 0.0 if found is None else found.failed / (found.attempts + PRIOR_ANSWERS)

    def input_ratio(self, model: str, script: str | None) -> InputRatio | None:
        """Return how a model's count of input compares with our estimate of a text in a script; None: not known."""
        return None if script is None else self.inputs.get((model, script))


NO_EXPERIENCE: Final = Experience()
