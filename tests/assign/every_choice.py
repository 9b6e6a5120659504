"""Every choice there is for a small problem, worked out without any of the optimizer's code.

In: a `Problem` whose steps all have known figures. Out: cost, quality and latency of each combination of options, as
arrays with an axis for each step. Invariant: costs are whole micro-USD, so that they compare exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.assign import Problem, StepOptions


@dataclass(frozen=True, slots=True)
class Choices:
    """Figures of all choices: micro-USD, 0 to 1, seconds."""

    cost_micro: NDArray[np.int64]
    quality: NDArray[np.float64]
    latency_s: NDArray[np.float64]


def every_choice(problem: Problem) -> Choices:
    """Return the figures of every choice; dependencies must point at earlier steps."""
    count = len(problem.steps)

    def along(place: int, values: list[Any]) -> NDArray[Any]:
        return np.array(values).reshape([-1 if axis == place else 1 for axis in range(count)])

    whole = tuple(len(step.options) for step in problem.steps)
    cost, quality, latency = np.zeros(whole, np.int64), np.zeros(whole), np.zeros(whole)
    ends: dict[str, NDArray[Any]] = {}
    weight = sum(step.weight for step in problem.steps)
    for place, step in enumerate(problem.steps):
        cost = cost + along(place, [int(option.cost_usd * 10**6) for option in step.options])
        quality = quality + along(place, [(option.quality or 0) * step.weight / weight for option in step.options])
        end = along(place, [option.latency_s for option in step.options])
        ends[step.step_id] = _latest(step, ends) + end
        latency = np.maximum(latency, ends[step.step_id])
    return Choices(cost, quality, latency)


def _latest(step: StepOptions, ends: dict[str, NDArray[Any]]) -> Any:
    found: Any = 0.0
    for need in step.depends_on:
        found = np.maximum(found, ends[need])
    return found
