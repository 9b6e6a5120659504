"""Nothing is cheaper, nothing is better: held against every choice there is."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from router.assign import Limits, Problem, assign
from tests.assign.every_choice import every_choice
from tests.assign.problems import made

BATCHES = 4
GRAPHS = 50  # in each


def limited(seed: int) -> tuple[Problem, int, float | None]:
    """Return a problem, the least micro-USD of all choices that hold its limits, and their best quality or None."""
    problem = made(seed)
    every = every_choice(problem)
    draw = np.random.default_rng(seed)
    latency_s = float(np.quantile(every.latency_s, draw.uniform(0.02, 0.5)))
    in_time = every.latency_s <= latency_s + 1e-9
    if seed % 4:
        floor = float(np.quantile(every.quality[in_time], draw.uniform(0.5, 0.999)))
        cheapest = int(every.cost_micro[in_time & (every.quality >= floor - 1e-9)].min())
        return replace(problem, limits=Limits(floor, latency_s)), cheapest, None
    budget = int(np.quantile(every.cost_micro[in_time], draw.uniform(0.05, 0.6)))
    held = in_time & (every.cost_micro <= budget)
    best = float(every.quality[held].max())
    cheapest = int(every.cost_micro[held & (every.quality >= best - 1e-9)].min())
    return replace(problem, limits=Limits(None, latency_s, Decimal(budget).scaleb(-6))), cheapest, best


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_choice_of_65536_is_cheaper_or_better(batch: int) -> None:
    methods = set()
    for seed in range(batch * GRAPHS, (batch + 1) * GRAPHS):
        problem, cheapest, best = limited(seed)
        found = assign(problem, objective="cost" if best is None else "quality", gap_share=0.0, time_limit_s=20)
        assert found.cost_usd == Decimal(cheapest).scaleb(-6), seed
        assert found.is_proven, seed
        assert found.gap_share == 0.0
        if best is not None:
            assert found.quality == pytest.approx(best, abs=1e-9), seed
        methods.add(found.method)
    assert "exact" in methods  # most of them need the solver


def test_greedy_holds_the_limits_and_says_how_far_off_it_may_be() -> None:
    dearer = []
    for seed in (1, 2, 3, 5, 6, 7):
        problem, cheapest, _ = limited(seed)
        found = assign(problem, is_exact=False)
        assert found.method == "greedy"
        assert found.bound_usd is not None
        assert found.bound_usd <= Decimal(cheapest).scaleb(-6) <= found.cost_usd
        dearer.append(float(found.cost_usd) / (cheapest / 10**6))
    assert sorted(dearer)[len(dearer) // 2] < 1.15
