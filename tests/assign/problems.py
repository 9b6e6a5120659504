"""Made problems: graphs of steps, each with the options of a few models.

In: a seed, sizes. Out: a `Problem`. Invariant: the same seed makes the same problem.
"""

from __future__ import annotations

import random
from decimal import Decimal

from router.assign import Limits, Option, Problem, StepOptions


def made(seed: int, *, steps: int = 8, models: int = 4, limits: Limits = Limits()) -> Problem:  # noqa: B008 -- frozen
    """Return a random graph: each model has a price and a speed, each step a size and a difficulty of its own."""
    draw = random.Random(seed)
    prices = [draw.lognormvariate(0, 1.5) for _ in range(models)]
    return Problem(tuple(_step(draw, number, prices) for number in range(steps)), limits)


def _step(draw: random.Random, number: int, prices: list[float]) -> StepOptions:
    size, needs = draw.lognormvariate(0, 1), min(number, draw.choice((0, 1, 1, 2, 3)))
    options = tuple(
        Option(
            f"model-{place}",
            Decimal(round(price * size * draw.uniform(0.5, 1.5) * 1e6)).scaleb(-6),
            round(min(1.0, max(0.0, 0.6 + 0.12 * place + draw.gauss(0, 0.15))), 4),
            round(draw.uniform(1, 10), 3),
        )
        for place, price in enumerate(prices)
    )
    names = tuple(f"s{each}" for each in sorted(draw.sample(range(number), needs)))
    return StepOptions(f"s{number}", options, names, draw.choice((0.5, 1.0, 1.0, 2.0)))
