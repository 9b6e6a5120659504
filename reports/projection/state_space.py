"""A level that wanders and an effect for each weekday, under forty ratios of their noises at once, in one pass.

The model of a day's logarithm: y = level + effect of its weekday + noise of variance σ². The level changes by a noise
of variance `level ratio` × σ² a day, the effects by one of `change ratio` × σ²; at the start the effects have variance
`weekday ratio` × σ². (Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989, chapters 2 and 4;
σ² is concentrated out as in section 3.4.2.) A maximum over the ratios would need a search for each origin. Instead each
of `RATIOS` is filtered, and weighed by its likelihood up to a day: one pass gives what could have been foreseen on each
day of the past, and no search can fail to converge.

In: logarithms by day, NaN on a day that tells nothing. Out: `Filtered`. Invariant: what stands for a day depends on
that day and earlier ones alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEVEL = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_WEEKDAY = ((0.0, 0.0), (1.0, 0.0), (25.0, 0.0), (25.0, 0.001), (25.0, 0.01))
RATIOS: Floats = np.array([(level, start, change) for level in _LEVEL for start, change in _WEEKDAY])
"""(level ratio, weekday ratio, change ratio) of each model, in units of the noise's variance."""

FREE = 1e4
"""Variance of a level that nothing is known of, in units of σ²."""
AROUND_ZERO: Floats = np.eye(7) - 1 / 7
"""Covariance of weekday effects, and of their changes, up to a factor: they add up to 0."""
_TRUSTED_FROM = 10  # days before which no day is called odd: the spread is not known yet
_LEAST_VARIANCE = 1e-10


@dataclass(frozen=True, slots=True)
class Oddness:
    """When a day is too odd to be believed, and when several of them are a step.

    Args:
        limit: how many standard deviations from its forecast; what goes beyond does not move the level.
        confirm: how many days in a row on one side are a step: the level starts anew there.
    """

    limit: float
    confirm: int


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is known at the end of each day, averaged over the models by their probability. The first axis is the day.

    Args:
        state: expected level and seven effects.
        spread: covariance of those, what the models disagree about included.
        noise: variance of a day around them, odd days included.
        calm: the same, without what was not believed of odd days.
        level, change: variance by which the level, and each weekday's effect before they are brought back to 0 in sum,
            wander a day.
        steps: the days on which the level started anew, by number.
    """

    state: Floats
    spread: Floats
    noise: Floats
    calm: Floats
    level: Floats
    change: Floats
    steps: tuple[int, ...]


class Bank:
    """All models side by side. The first axis of its arrays is the model of `RATIOS`.

    Attributes:
        state: expected state of each model: level, seven effects.
        spread: its covariance, in units of σ².
        seen: days that told something.
        squares, logs: sums over those but the first of squared errors over their scale, and of the scale's logarithm:
            σ² is squares / (seen − 1), the scale being in units of it.
        weight: probability of each model, from its likelihood so far; adds up to 1.
        calm: σ² of each model, without what was not believed of odd days.

    Args:
        oddness: None: every day is believed.
    """

    def __init__(self, oddness: Oddness | None) -> None:
        models = len(RATIOS)
        self.state, self.spread = np.zeros((models, 8)), np.zeros((models, 8, 8))
        self.spread[:, 0, 0] = FREE
        self.spread[:, 1:, 1:] = RATIOS[:, 1, None, None] * AROUND_ZERO
        self.seen = 0
        self.logs, self.squares = np.zeros(models), np.zeros(models)
        self.weight, self.calm = np.full(models, 1 / models), np.full(models, _LEAST_VARIANCE)
        self._drift = np.zeros((models, 8, 8))
        self._drift[:, 0, 0] = RATIOS[:, 0]
        self._drift[:, 1:, 1:] = RATIOS[:, 2, None, None] * AROUND_ZERO
        self._oddness = oddness
        self._row = 0
        self._excess, self._pending = np.zeros(models), np.zeros(models)

    def take(self, value: float, weekday: int) -> bool:
        """Let a day pass and learn from its value, unless that is NaN; return whether a step is confirmed by it.

        Args:
            value: the day's logarithm.
            weekday: 0 to 6.
        """
        self.spread += self._drift
        if value != value:  # noqa: PLR0124 — true of NaN alone
            return False
        at = 1 + weekday
        if not self.seen:
            self.state[:, 0] = value
        error = value - self.state[:, 0] - self.state[:, at]
        reach = self.spread[:, :, 0] + self.spread[:, :, at]
        believed, is_step = self._believed(error, reach[:, 0] + reach[:, at] + 1)
        if is_step:
            self.spread[:, 0, 0] += FREE
            reach = self.spread[:, :, 0] + self.spread[:, :, at]
        scale = reach[:, 0] + reach[:, at] + 1
        gain = reach / scale[:, None]
        self.state += gain * believed[:, None]
        self.spread -= gain[:, :, None] * reach[:, None, :]
        self.seen += 1
        if self.seen > 1:
            self._count(error, believed, scale)
        return is_step

    def noise(self) -> Floats:
        """Return σ² of each model, odd days included."""
        return np.asarray(self.calm + (self._excess + self._pending) / max(self.seen - 1, 1))

    def _believed(self, error: Floats, scale: Floats) -> tuple[Floats, bool]:
        """Return how much of each model's error is believed, and whether odd days in a row confirm a step."""
        if self._oddness is None or self.seen < _TRUSTED_FROM:
            return error, False
        bound = self._oddness.limit * float(np.sqrt(self.weight @ (self.calm * scale)))
        mean = float(self.weight @ error)
        if abs(mean) <= bound:
            self._row, self._excess = 0, self._excess + self._pending
            self._pending = np.zeros(len(error))
            return error, False
        side = 1 if mean > 0 else -1
        self._row = self._row + side if self._row * side > 0 else side
        if abs(self._row) < self._oddness.confirm:
            return np.clip(error, -bound, bound), False
        # They were the new level's first days, and say nothing about noise.
        self._row, self._pending = 0, np.zeros(len(error))
        return error, True

    def _count(self, error: Floats, believed: Floats, scale: Floats) -> None:
        """Add a day to each model's likelihood; what was not believed widens the spread and moves no weight."""
        self.squares += believed**2 / scale
        self._pending = self._pending + (error**2 - believed**2) / scale
        self.logs += np.log(scale)
        self.calm = np.maximum(self.squares / (self.seen - 1), _LEAST_VARIANCE)
        likelihood = -0.5 * ((self.seen - 1) * np.log(self.calm) + self.logs)
        relative = np.exp(likelihood - likelihood.max())
        self.weight = relative / relative.sum()


def filtered(values: Floats, weekdays: NDArray[np.intp], oddness: Oddness | None) -> Filtered:
    """Return what each day's end knows.

    Args:
        values: logarithms by day; NaN: nothing is known of the day.
        weekdays: 0 to 6 of each day.
        oddness: None: every day is believed.
    """
    days = len(values)
    noise, calm, level, change = np.zeros((4, days))
    found = Filtered(np.zeros((days, 8)), np.zeros((days, 8, 8)), noise, calm, level, change, ())
    bank, steps = Bank(oddness), []
    for day, (value, weekday) in enumerate(zip(values.tolist(), weekdays.tolist(), strict=True)):
        if bank.take(value, weekday):
            steps.append(day)
        _note(found, day, bank)
    return replace(found, steps=tuple(steps))


def _note(found: Filtered, day: int, bank: Bank) -> None:
    """Write down a day's averages; the covariance by the law of total variance."""
    variance = bank.weight * bank.noise()
    mean = bank.weight @ bank.state
    apart = bank.state - mean
    found.state[day] = mean
    found.spread[day] = (variance @ bank.spread.reshape(len(RATIOS), 64)).reshape(8, 8) + (
        bank.weight[:, None] * apart
    ).T @ apart
    found.noise[day], found.calm[day] = variance.sum(), bank.weight @ bank.calm
    found.level[day], found.change[day] = variance @ RATIOS[:, 0], variance @ RATIOS[:, 2]
