"""Estimates pulled towards row and column."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.shrinkage import Estimate, shrunk_estimates

# Rows a, b; columns x, y. Row means 0.6 and 0.4, column means 0.65 and 0.35, mean 0.5: the additive fit is
# a: 0.75, 0.45; b: 0.55, 0.25. Each residual is ±0.05; 4 × 0.0025 over one degree of freedom (4 − 3) is 0.01.
OBSERVED = {("a", "x"): 0.8, ("a", "y"): 0.4, ("b", "x"): 0.5, ("b", "y"): 0.3}


def test_a_residual_is_kept_by_the_share_that_error_does_not_explain() -> None:
    found = shrunk_estimates(OBSERVED, 0.05)
    # σ² = 0.01 − 0.0025 = 0.0075; w = 0.0075 / 0.01 = 0.75
    expected = {("a", "x"): 0.7875, ("a", "y"): 0.4125, ("b", "x"): 0.5125, ("b", "y"): 0.2875}
    assert {cell: each.mean_share for cell, each in found.items()} == pytest.approx(expected)
    # 0.75 × 0.0025 + 0.25² × (3 / 4 × 0.01) = 0.00234375
    assert [each.sd_share for each in found.values()] == pytest.approx(4 * [math.sqrt(0.00234375)])


def test_where_error_explains_all_the_row_and_the_column_are_left() -> None:
    found = shrunk_estimates(OBSERVED, 0.2)
    expected = {("a", "x"): 0.75, ("a", "y"): 0.45, ("b", "x"): 0.55, ("b", "y"): 0.25}
    assert {cell: each.mean_share for cell, each in found.items()} == pytest.approx(expected)


def test_without_error_nothing_changes() -> None:
    assert {cell: each.mean_share for cell, each in shrunk_estimates(OBSERVED, 0.0).items()} == pytest.approx(OBSERVED)


@pytest.mark.parametrize(
    "observed",
    [
        {("a", "x"): 0.8, ("a", "y"): 0.4},  # one row
        {("a", "x"): 0.8, ("a", "y"): 0.4, ("b", "x"): 0.5},  # as many effects as cells
        {},
    ],
)
def test_where_nothing_tells_interaction_from_error_all_stays(observed: dict[tuple[str, str], float]) -> None:
    assert shrunk_estimates(observed, 0.1) == {cell: Estimate(share, 0.1) for cell, share in observed.items()}


def test_caution_takes_off_standard_deviations_and_stays_a_share() -> None:
    assert Estimate(0.7, 0.05).cautious(2) == pytest.approx(0.6)
    assert Estimate(0.02, 0.05).cautious(2) == 0.0


def test_a_missing_cell_leaves_the_fit_least_squares() -> None:
    # Exactly additive: whatever is missing, the fit is the observation.
    whole = {(row, column): 0.1 * row + 0.05 * column for row in range(4) for column in range(5)}
    holed = {cell: share for cell, share in whole.items() if cell not in {(0, 0), (2, 3), (3, 1)}}
    assert {cell: each.mean_share for cell, each in shrunk_estimates(holed, 0.05).items()} == pytest.approx(holed)


@given(st.integers(0, 10**6))
def test_shrunk_estimates_are_closer_to_the_truth(seed: int) -> None:
    draw = np.random.default_rng(seed)
    true = 0.5 + draw.normal(0, 0.1, (12, 1)) + draw.normal(0, 0.1, (1, 12)) + draw.normal(0, 0.02, (12, 12))
    seen = true + draw.normal(0, 0.05, true.shape)
    found = shrunk_estimates({(int(r), int(c)): float(seen[r, c]) for r, c in np.ndindex(12, 12)}, 0.05)
    before = statistics.fmean(float((seen[cell] - true[cell]) ** 2) for cell in found)
    after = statistics.fmean(float((each.mean_share - true[cell]) ** 2) for cell, each in found.items())
    assert after < before
