"""What a forecast says of series whose month can be told by hand, and the laws it keeps for any series."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.projection import DailySeries, forecast, outlook_of
from reports.projection.widening import widenings
from router.errors import WrongUsage

# 1 June 2026 is a Monday: June has 22 working days and 8 days of week-ends.
JUNE, LAST = date(2026, 6, 1), date(2026, 6, 30)


def _series(
    known: int, until: date, spend: Callable[[date], float], calls: Callable[[date], int] = lambda _: 100
) -> DailySeries:
    """Return `known` whole days before `until`."""
    first = until - timedelta(known)
    days = [first + timedelta(number) for number in range(known)]
    amounts = tuple(Fraction(round(spend(day) * 10**6), 10**6) for day in days)
    return DailySeries(first, tuple(calls(day) for day in days), amounts, "USD")


def test_a_month_like_every_other_ends_where_it_must() -> None:
    found = forecast(_series(100, date(2026, 6, 11), lambda _: 10), LAST)

    assert found.method == "state_space"
    assert found.to_date == 100
    assert found.run_rate == 300
    assert float(found.point or 0) == pytest.approx(300, abs=0.01)
    inner, outer = found.intervals
    assert (inner.level, outer.level) == (Fraction(80, 100), Fraction(95, 100))
    assert float(outer.high - outer.low) < 0.1
    assert [day.is_forecast for day in found.days] == [False] * 10 + [True] * 20
    assert found.days[9].total == 100
    assert found.days[-1].total == found.point


def test_quiet_week_ends_are_no_surprise_where_run_rate_is_a_quarter_off() -> None:
    found = forecast(_series(100, date(2026, 6, 6), lambda day: 10 if day.weekday() < 5 else 2), LAST)

    assert found.run_rate == 300  # five working days at 10, times 6
    assert float(found.point or 0) == pytest.approx(22 * 10 + 8 * 2, rel=0.005)


def test_days_off_are_no_low_days() -> None:
    def working(day: date) -> int:
        return 100 if day.weekday() < 5 else 0

    found = forecast(_series(100, date(2026, 6, 6), lambda day: working(day) / 10, working), LAST)

    assert float(found.point or 0) == pytest.approx(22 * 10, rel=0.005)


def test_a_change_of_price_is_a_step_of_cost_per_call() -> None:
    new = date(2026, 6, 8)

    def noisy(day: date) -> int:
        return 100 + day.toordinal() * 7919 % 19

    found = forecast(
        _series(100, date(2026, 6, 11), lambda day: noisy(day) * (0.05 if day >= new else 0.1), noisy), LAST
    )

    assert found.step is not None
    assert found.step[0] == new
    assert float(found.step[1]) == pytest.approx(-0.5, abs=0.001)
    # 7 days at 109 × 0.10, and 23 at 109 × 0.05, within what the volume varies by.
    assert float(found.point or 0) == pytest.approx(7 * 10.9 + 23 * 5.45, rel=0.03)


def test_one_day_of_a_batch_job_is_no_new_level() -> None:
    odd = date(2026, 6, 9)
    found = forecast(
        _series(100, date(2026, 6, 11), lambda day: 100 if day == odd else 10, lambda day: 1000 if day == odd else 100),
        LAST,
    )

    assert float(found.point or 0) == pytest.approx(29 * 10 + 100, rel=0.03)


def test_work_that_has_stopped_is_not_told_on() -> None:
    stopped = date(2026, 5, 20)
    going = _series(
        100, date(2026, 6, 11), lambda day: 10 if day < stopped else 0, lambda day: 1 if day < stopped else 0
    )

    assert forecast(going, LAST).point == 0


def test_spend_without_a_count_of_calls_is_told_as_it_is() -> None:
    found = forecast(_series(100, date(2026, 6, 11), lambda _: 10, lambda _: 0), LAST)

    assert found.method == "state_space"
    assert float(found.point or 0) == pytest.approx(300, abs=0.01)
    assert found.step is None


@pytest.mark.parametrize(
    ("known", "spend", "reason"),
    [
        (20, lambda _: 10, "20 whole days of history; an interval needs 21"),
        (60, lambda day: 10 if day.day in (1, 15) else 0, "spend on 3 of the last 56 days; an interval needs 14"),
    ],
)
def test_too_little_is_told_by_its_mean_and_without_an_interval(
    known: int, spend: Callable[[date], float], reason: str
) -> None:
    found = forecast(_series(known, date(2026, 6, 11), spend), LAST)

    assert (found.method, found.reason, found.intervals) == ("run_rate", reason, ())
    assert all(day.bounds == () for day in found.days)
    # 20 days at 10; or 2 days of 10 (1 June, 15 May) in the last 28, of which 1 June is on record.
    assert found.point == (300 if known == 20 else 10 + 20 * Fraction(20, 28))


def test_nothing_known_is_nothing_told() -> None:
    found = forecast(DailySeries(date(2026, 6, 11), (), (), "USD"), LAST)

    assert found.point is None
    assert found.run_rate == 0
    assert found.to_date == 0


def test_today_counts_for_what_it_has_cost_so_far() -> None:
    whole = _series(100, date(2026, 6, 11), lambda _: 10)
    begun = DailySeries(whole.first, whole.calls, whole.spend, "USD", 40, Fraction(4))
    dear = DailySeries(whole.first, whole.calls, whole.spend, "USD", 900, Fraction(90))

    assert forecast(begun, LAST).to_date == 104
    assert forecast(begun, LAST).point == forecast(whole, LAST).point  # a day is told as a whole one
    assert float(forecast(dear, LAST).point or 0) == pytest.approx(10 * 10 + 90 + 19 * 10, abs=0.01)
    assert forecast(dear, LAST).intervals[1].low >= 190


def test_a_later_month_is_told_alone() -> None:
    found = forecast(_series(100, date(2026, 6, 11), lambda _: 10), date(2026, 7, 31))

    assert (found.first, found.to_date, found.run_rate) == (date(2026, 7, 1), Fraction(0), None)
    assert float(found.point or 0) == pytest.approx(310, abs=0.01)
    assert len(found.days) == 31


@pytest.mark.parametrize("through", [date(2026, 6, 10), date(2029, 1, 31)])
def test_a_span_that_is_over_or_too_far_is_refused(through: date) -> None:
    with pytest.raises(WrongUsage, match=f"{through} is not allowed"):
        forecast(_series(100, date(2026, 6, 11), lambda _: 10), through)


def test_a_method_that_needs_more_days_is_refused() -> None:
    with pytest.raises(WrongUsage, match="state_space is not allowed with 5 whole days of history"):
        forecast(_series(5, date(2026, 6, 11), lambda _: 10), LAST, "state_space")


def test_without_a_past_an_interval_is_as_wide_as_a_student_t_says() -> None:
    inner, outer = widenings(np.zeros(0), 20)

    # Aim: level + 0.3 standard errors of four windows; the two-sided quantiles of t with 3 degrees of freedom.
    for found, level in ((inner, 0.8), (outer, 0.95)):
        aim = level + 0.3 * math.sqrt(level * (1 - level) / 4)
        scaled = found.deviations / math.sqrt(3)
        held = 2 / math.pi * (scaled / (1 + scaled**2) + math.atan(scaled))
        assert held == pytest.approx(aim, abs=0.005)
        assert found.covered_before is None
    assert inner.factor == pytest.approx(2.00 / 1.2816, rel=0.02)


def test_a_long_past_decides_how_wide_an_interval_is() -> None:
    # 2,000 windows of one day, of which 1,700 were off by 1 standard deviation and 300 by 3.
    scores = np.array([3.0 if number % 20 in (0, 7, 13) else 1.0 for number in range(2000)])
    inner, outer = widenings(scores, 1)

    assert inner.factor == 1  # 85 % lay within 1.28 already
    assert inner.covered_before == Fraction(85, 100)
    assert outer.deviations == pytest.approx(3, rel=0.02)
    assert outer.covered_before == Fraction(85, 100)
    assert outer.covered_after is not None
    assert outer.covered_after > Fraction(99, 100)


spends = st.lists(st.one_of(st.just(0), st.integers(1, 10**9), st.integers(900, 1100)), min_size=0, max_size=90)


@settings(max_examples=40, deadline=None)
@given(spends, st.integers(0, 10**6), st.integers(1, 30))
def test_bounds_are_nested_and_never_below_what_is_spent(values: list[int], today: int, day: int) -> None:
    until = date(2026, 6, day)
    amounts = tuple(Fraction(value, 1000) for value in values)
    series = DailySeries(
        until - timedelta(len(values)), tuple(int(v > 0) for v in values), amounts, "USD", 1, Fraction(today)
    )
    found = forecast(series, LAST)

    assert found.to_date == sum(
        (amount for number, amount in enumerate(amounts) if series.first + timedelta(number) >= JUNE), Fraction(today)
    )
    assert (found.point is None) == (not values)
    totals = [each.total for each in found.days]
    assert totals == sorted(totals)
    for ahead in found.days:
        if ahead.bounds:
            (low80, high80), (low95, high95) = ahead.bounds
            assert found.to_date <= low95 <= low80 <= ahead.total <= high80 <= high95
    if found.point is not None:
        assert found.days[-1].total == found.point >= found.to_date


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=40, max_size=70), st.integers(22, 39))
def test_what_comes_later_changes_no_forecast(values: list[int], cut: int) -> None:
    first = date(2026, 4, 1)
    series = DailySeries(first, tuple(values), tuple(Fraction(value, 7) for value in values), "USD")
    at = first + timedelta(cut)
    last = (at.replace(day=1) + timedelta(31)).replace(day=1) - timedelta(1)

    assert outlook_of(series).forecast(last, at=at) == forecast(series.until(at), last)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(50, 500), min_size=30, max_size=60), st.sampled_from([2, 10, 1000]))
def test_another_currency_unit_changes_no_share(values: list[int], factor: int) -> None:
    until = date(2026, 6, 11)
    one, other = (
        forecast(
            DailySeries(
                until - timedelta(len(values)), tuple(values), tuple(Fraction(value * times) for value in values), "USD"
            ),
            LAST,
        )
        for times in (1, factor)
    )

    assert one.point is not None
    assert other.point is not None
    assert float(other.point) == pytest.approx(float(one.point) * factor, rel=1e-4)  # rounded at the cent
    for mine, theirs in zip(one.intervals, other.intervals, strict=True):
        assert float(theirs.high) == pytest.approx(float(mine.high) * factor, rel=1e-4)
