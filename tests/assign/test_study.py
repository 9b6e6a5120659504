"""A few instances of the study; `python -m benchmarks.assign` holds all 20 to the same laws."""

from __future__ import annotations

import pytest

from tests.assign.instances import instance
from tests.assign.study import measured


@pytest.mark.parametrize("seed", [0, 11])
def test_a_plan_costs_half_of_the_best_threshold_and_caution_keeps_the_quality(seed: int) -> None:
    found = measured(instance(seed), seed)
    assert found.threshold >= 2
    assert found.class_thresholds > 1.5
    assert found.naive_quality < 0.99  # the best by noisy estimates is what they over-rate
    assert found.naive_quality < found.shrunk_quality < found.cautious_quality
    assert found.cautious_quality >= 0.99
    assert found.cautious_cost < 1.6


def test_the_same_seed_makes_the_same_instance() -> None:
    assert instance(7, 20).problem == instance(7, 20).problem
    assert instance(7, 20).problem != instance(8, 20).problem
