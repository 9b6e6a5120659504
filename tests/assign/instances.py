"""The seeded plans of the study: 100 steps, 12 models, true chances of success, and what an estimate says of them.

In: a seed. Out: an `Instance`. Invariant: the same seed makes the same instance; docs/assignment.md has the recipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from router.assign import Assignment, Limits, Option, Problem, StepOptions, assign

# USD per Mtok in and out, tokens a second, seconds to the first token, skill (log-odds): the span of the price lists.
MODELS = (
    ("nano", 0.05, 0.40, 160, 0.4, -0.6),
    ("lite", 0.10, 0.40, 180, 0.4, -0.3),
    ("mini-a", 0.15, 0.60, 90, 0.5, 0.0),
    ("open-s", 0.28, 0.42, 45, 1.2, 0.7),
    ("mini-b", 0.25, 2.00, 110, 0.6, 0.6),
    ("flash", 0.30, 2.50, 200, 0.5, 0.7),
    ("open-l", 0.60, 2.50, 55, 1.0, 1.1),
    ("haiku", 1.00, 5.00, 120, 0.6, 0.9),
    ("pro", 1.25, 10.00, 80, 2.0, 1.7),
    ("omni", 2.00, 8.00, 85, 0.6, 1.3),
    ("sonnet", 3.00, 15.00, 65, 1.0, 1.9),
    ("opus", 5.00, 25.00, 50, 1.5, 2.2),
)
NAMES = tuple(model[0] for model in MODELS)
STRONG = 10  # "sonnet": what is put on every step where nobody chooses
CLASSES, LAYERS = 6, 10
TARGET_SHARE = 0.97
SPREAD = 2.0

Grid = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Instance:
    """One plan.

    Args:
        problem: the steps with their true qualities, and the limits: 97 % of the quality of "sonnet" on every step, in
            its time.
        classes: the class of each step.
        quality: the true chance of success, a row for each step.
        cost_usd: USD, a row for each step.
        weights: of the steps, adding up to 1.
    """

    problem: Problem
    classes: tuple[int, ...]
    quality: Grid
    cost_usd: Grid
    weights: Grid

    @property
    def target(self) -> float:
        """The quality that has to be reached."""
        return self.problem.limits.quality_floor or 0.0

    def estimated(self, quality: Grid, floor: float | None = None) -> Problem:
        """Return the problem as it looks with estimates in the place of the true qualities."""
        steps = tuple(
            replace(
                step,
                options=tuple(
                    replace(option, quality=float(each)) for option, each in zip(step.options, row, strict=True)
                ),
            )
            for step, row in zip(self.problem.steps, np.clip(quality, 0, 1), strict=True)
        )
        limits = self.problem.limits if floor is None else replace(self.problem.limits, quality_floor=floor)
        return Problem(steps, limits)

    def chosen(self, assignment: Assignment) -> list[int]:
        """Return the place of the model that each step was given."""
        return [NAMES.index(option.key) for option in assignment.choices.values()]

    def noisy(self, seed: int, sd: float) -> Grid:
        """Return estimates of the qualities: the true ones and an error of this standard deviation, 0 to 1."""
        error = np.random.default_rng((seed, 1)).normal(0, sd, self.quality.shape)
        return np.clip(self.quality + error, 0, 1)

    def true_quality(self, chosen: list[int]) -> float:
        """Return the true weighted quality of a model for each step."""
        return float(self.weights @ self.quality[np.arange(len(chosen)), chosen])


def instance(seed: int, steps: int = 100, spread: float = SPREAD) -> Instance:
    """Return one plan of so many steps, whose difficulties have this standard deviation (log-odds)."""
    draw = np.random.default_rng(seed)
    prices_in, prices_out, speed, first_s, skill = (np.array(each) for each in list(zip(*MODELS, strict=True))[1:])
    classes = draw.integers(0, CLASSES, steps)
    affinity = draw.normal(0, 0.5, (CLASSES, len(MODELS)))
    own = draw.normal(0, 0.5, (steps, len(MODELS)))
    difficulty = spread * draw.normal(0, 1, steps) - 0.5
    quality = 1 / (1 + np.exp(-(skill + affinity[classes] + own - difficulty[:, None])))
    input_tokens = draw.lognormal(math.log(3000), 0.9, steps)
    output_tokens = draw.lognormal(math.log(700), 0.8, steps)
    wordy = draw.lognormal(0, 0.3, len(MODELS))
    written = output_tokens[:, None] * wordy
    cost_usd = np.round((input_tokens[:, None] * prices_in + written * prices_out) / 1e6, 9)
    latency = np.round(first_s + written / speed, 3)
    weights = draw.choice([1.0, 1.0, 2.0], steps)
    before = _layers(draw, steps)
    problem = Problem(
        tuple(
            StepOptions(f"s{number}", options, tuple(f"s{each}" for each in before[number]), float(weights[number]))
            for number, options in enumerate(_options(cost_usd, quality, latency))
        )
    )
    shares = weights / weights.sum()
    found = Instance(problem, tuple(classes.tolist()), quality, cost_usd, shares)
    ends: list[float] = []
    for number in range(steps):
        ends.append(max((ends[each] for each in before[number]), default=0.0) + float(latency[number, STRONG]))
    limits = Limits(TARGET_SHARE * found.true_quality([STRONG] * steps), max(ends))
    return replace(found, problem=replace(problem, limits=limits))


def _options(cost_usd: Grid, quality: Grid, latency: Grid) -> list[tuple[Option, ...]]:
    return [
        tuple(
            Option(model[0], Decimal(str(cost)), float(share), float(seconds))
            for model, cost, share, seconds in zip(MODELS, *row, strict=True)
        )
        for row in zip(cost_usd.tolist(), quality, latency, strict=True)
    ]


def _layers(draw: np.random.Generator, steps: int) -> list[list[int]]:
    """Return what each step depends on: one to three of the layer before."""
    size = -(-steps // LAYERS)
    found: list[list[int]] = []
    for number in range(steps):
        layer = number // size
        above = range((layer - 1) * size, layer * size)
        count = int(draw.integers(1, 4))
        found.append(sorted(draw.choice(above, min(count, size), replace=False).tolist()) if layer else [])
    return found


def threshold_usd(found: Instance) -> float:
    """Return the cost of the best rule "the cheapest model of at least this quality", one quality for all steps, USD.

    Where no model is as good, the step takes its best. The rule need not keep the latency limit.
    """
    return min(cost for cost, quality in _rules(found, list(range(len(found.classes)))) if quality >= found.target)


def class_thresholds_usd(found: Instance) -> float:
    """Return the cost of the best such rule with one quality a class, USD: classes as steps, qualities as options."""
    steps = []
    for name in sorted(set(found.classes)):
        rows = [row for row, each in enumerate(found.classes) if each == name]
        weight = float(found.weights[rows].sum())
        options = tuple(
            Option(str(number), Decimal(str(cost)), min(1.0, quality / weight), None)
            for number, (cost, quality) in enumerate(_rules(found, rows))
        )
        steps.append(StepOptions(str(name), options, (), weight))
    best = assign(Problem(tuple(steps), Limits(found.target)), gap_share=0.001)
    return float(best.cost_usd)


def _rules(found: Instance, rows: list[int]) -> list[tuple[float, float]]:
    """Return cost and weighted quality of every threshold rule over some steps."""
    quality, cost_usd, weights = found.quality[rows], found.cost_usd[rows], found.weights[rows]
    at = np.arange(len(rows))
    rules = []
    for least in np.unique(quality):
        good = quality >= least
        cheapest = np.where(good, cost_usd, np.inf).argmin(axis=1)
        columns = np.where(good.any(axis=1), cheapest, quality.argmax(axis=1))
        rules.append((float(cost_usd[at, columns].sum()), float(weights @ quality[at, columns])))
    return rules
