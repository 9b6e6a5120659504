"""The filter against statsmodels' own, and what an odd day and a step do to it."""

from __future__ import annotations

import math
import random
from importlib import import_module

import numpy as np
import pytest

from reports.projection.state_space import FREE, RATIOS, Bank, Oddness, filtered

DAYS = 120
WEEKDAYS = np.arange(DAYS) % 7


def _values(seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    level, found = 3.0, []
    for day in range(DAYS):
        level += chance.gauss(0, 0.05)
        found.append(level + (-0.7 if day % 7 >= 5 else 0.0) + chance.gauss(0, 0.1))
    return found


def test_each_model_is_the_filter_of_statsmodels_to_the_digit() -> None:
    statespace = import_module("statsmodels.tsa.statespace.kalman_filter")
    values = _values()
    values[40] = values[41] = math.nan
    bank = Bank(None)
    for value, weekday in zip(values, WEEKDAYS.tolist(), strict=True):
        bank.take(value, weekday)

    around_zero = np.eye(7) - 1 / 7
    for number, (level, start, change) in enumerate(RATIOS.tolist()):
        theirs = statespace.KalmanFilter(k_endog=1, k_states=8, k_posdef=8)
        theirs.bind(np.array(values)[:, None])
        design = np.zeros((1, 8, DAYS))
        design[0, 0, :] = 1
        design[0, 1 + WEEKDAYS, np.arange(DAYS)] = 1
        drift, first = np.zeros((8, 8)), np.zeros((8, 8))
        drift[0, 0], drift[1:, 1:] = level, change * around_zero
        first[0, 0], first[1:, 1:] = FREE, start * around_zero
        theirs["design"], theirs["obs_cov"] = design, np.eye(1)
        theirs["transition"], theirs["selection"], theirs["state_cov"] = np.eye(8), np.eye(8), drift
        theirs.initialize_known(np.array([values[0], *[0.0] * 7]), first + drift)
        done = theirs.filter()

        told = [day for day in range(1, DAYS) if not math.isnan(values[day])]
        errors, scales = done.forecasts_error[0, told], done.forecasts_error_cov[0, 0, told]
        assert bank.state[number] == pytest.approx(done.filtered_state[:, -1], rel=1e-7, abs=1e-9)
        assert bank.spread[number] == pytest.approx(done.filtered_state_cov[:, :, -1], rel=1e-6, abs=1e-9)
        assert bank.squares[number] == pytest.approx((errors**2 / scales).sum(), rel=1e-9)
        assert bank.logs[number] == pytest.approx(np.log(scales).sum(), rel=1e-9)


def test_weights_are_the_likelihoods_with_the_noise_concentrated_out() -> None:
    bank = Bank(None)
    for value, weekday in zip(_values(), WEEKDAYS.tolist(), strict=True):
        bank.take(value, weekday)

    # Harvey 1989, 3.4.2: log L = −½ (n log σ² + Σ log scale) up to a constant, with σ² = Σ error²/scale / n.
    count = DAYS - 1
    logs = [-0.5 * (count * math.log(s / count) + g) for s, g in zip(bank.squares, bank.logs, strict=True)]
    relative = [math.exp(each - max(logs)) for each in logs]
    assert bank.weight == pytest.approx([each / sum(relative) for each in relative], rel=1e-9)
    assert bank.weight.sum() == pytest.approx(1)


def test_one_odd_day_moves_no_level_and_a_second_one_is_a_step() -> None:
    values = np.array([1.0 + 0.01 * (-1) ** day for day in range(DAYS)])
    spike, step = values.copy(), values.copy()
    spike[60] += 2
    step[60:] += 2
    oddness = Oddness(limit=4.0, confirm=2)

    plain = filtered(values, WEEKDAYS, oddness)
    spiked, stepped = filtered(spike, WEEKDAYS, oddness), filtered(step, WEEKDAYS, oddness)

    assert plain.steps == spiked.steps == ()
    assert spiked.state[70, 0] == pytest.approx(plain.state[70, 0], abs=0.02)
    assert spiked.noise[70] > 10 * spiked.calm[70]  # it was real, and may come again
    assert stepped.steps == (61,)
    assert stepped.state[61, 0] == pytest.approx(3.0, abs=0.02)
    assert stepped.noise[70] < 0.001  # a new level is no noise


def test_a_day_knows_nothing_of_later_ones() -> None:
    values, oddness = np.array(_values(7)), Oddness(limit=5.0, confirm=3)
    long, short = filtered(values, WEEKDAYS, oddness), filtered(values[:80], WEEKDAYS[:80], oddness)

    assert np.array_equal(long.state[:80], short.state)
    assert np.array_equal(long.spread[:80], short.spread)
