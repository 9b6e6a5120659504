"""What each day of the past could foresee of the days after it: sums over windows, with their spread.

In: calls and spend by day. Out: expected totals and standard deviations of their logarithms, for any day's end as the
origin and any window after it. Invariant: an origin's numbers depend on its days and earlier ones alone.

Volume and cost per call are filtered apart and multiplied, so that a change of prices or configuration is a step of the
one and no noise of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.projection.series import DailySeries
from reports.projection.state_space import Filtered, Floats, Oddness, filtered

_VOLUME = Oddness(limit=5.0, confirm=3)  # storms and holidays last two days; a third is no accident
_COST_PER_CALL = Oddness(limit=4.0, confirm=2)
_WEEKS_OF_HABIT = 8
_RECENT_DAYS = 14


@dataclass(frozen=True, slots=True)
class Past:
    """A series, filtered.

    Args:
        weekday: of the first day, 0 for Monday.
        spend: by day, in units of the currency.
        parts: volume and cost per call, or spend alone where calls are not counted.
        active: expected share of days with any spend, by day known and weekday of the day to come.
        steps: days on which cost per call started anew, by number.
    """

    weekday: int
    spend: Floats
    parts: tuple[Filtered, ...]
    active: Floats
    steps: tuple[int, ...]

    def weekdays(self, days: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the weekdays of days by number."""
        return (days + self.weekday) % 7


@dataclass(frozen=True, slots=True)
class Windows:
    """Forecasts of windows, one for each origin.

    Args:
        daily: expected spend of each day. Axes: origin, day of the window.
        deviation: standard deviation of the logarithm of the window's total; NaN where nothing is expected.
    """

    daily: Floats
    deviation: Floats

    @property
    def total(self) -> Floats:
        """The expected total of each window."""
        return np.asarray(self.daily.sum(axis=1))


def past_of(series: DailySeries) -> Past:
    """Return a series filtered, so that any of its days can be forecast from."""
    calls, spend = np.array(series.calls, dtype=float), np.array([float(value) for value in series.spend])
    weekday = series.first.weekday()
    weekdays = (np.arange(len(spend)) + weekday) % 7
    if bool(np.any((spend > 0) & (calls == 0))):  # somebody else's sums, without a count of calls
        parts: tuple[Filtered, ...] = (filtered(_logs(spend), weekdays, _VOLUME),)
        steps: tuple[int, ...] = ()
    else:
        cost_per_call = np.divide(spend, calls, out=np.zeros_like(spend), where=calls > 0)
        parts = (
            filtered(np.where(spend > 0, _logs(calls), np.nan), weekdays, _VOLUME),
            filtered(_logs(cost_per_call), weekdays, _COST_PER_CALL),
        )
        steps = parts[1].steps
    return Past(weekday, spend, parts, _activity(spend > 0, weekdays), steps)


def windows(
    past: Past, origins: NDArray[np.intp], gap: int, length: int, days: NDArray[np.intp] | None = None
) -> Windows:
    """Return the forecasts of the same window after each origin.

    Args:
        past: the series.
        origins: the last known day of each, by number.
        gap: days between that and the window.
        length: days of the window.
        days: how many of its days each origin's window has; None: all. The rest are expected to cost nothing.
    """
    ahead = np.arange(gap + 1, gap + length + 1)
    weekdays = past.weekdays(origins[:, None] + ahead)
    logs = np.zeros(weekdays.shape)
    for part in past.parts:
        state = part.state[origins]
        logs += state[:, :1] + np.take_along_axis(state[:, 1:], weekdays, axis=1)
        # A day's mean is above its middle; of all that is not known, only the noise averages out over a window.
        logs += 0.5 * part.calm[origins][:, None]
    share = np.take_along_axis(past.active[origins], weekdays, axis=1)
    daily = np.exp(logs) * share
    if days is not None:
        daily = daily * (np.arange(length) < days[:, None])
    total = daily.sum(axis=1, keepdims=True)
    portion = np.divide(daily, total, out=np.zeros_like(daily), where=total > 0)
    variance = (portion**2 * np.divide(1 - share, share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
    for part in past.parts:
        variance += _variance(part, origins, portion, weekdays, ahead)
    return Windows(daily, np.where(total[:, 0] > 0, np.sqrt(variance), np.nan))


def totals_after(past: Past, origins: NDArray[np.intp], gap: int, length: int) -> Floats:
    """Return what the same window after each origin really came to, in the series' currency; one for each origin.

    Args:
        past: the series.
        origins: indices of days; every window after one must lie within the series.
        gap: days between an origin and its window.
        length: the window's days.
    """
    running = np.concatenate(([0.0], np.cumsum(past.spend)))
    start = origins + gap + 1
    return np.asarray(running[start + length] - running[start])


def _variance(
    part: Filtered, origins: NDArray[np.intp], portion: Floats, weekdays: NDArray[np.intp], ahead: NDArray[np.intp]
) -> Floats:
    """Return the variance of the logarithm of a window's total that comes from one part, to first order."""
    on = [portion * (weekdays == day) for day in range(7)]
    direction = np.stack([portion.sum(axis=1), *(each.sum(axis=1) for each in on)], axis=1)
    known = np.einsum("oi,oij,oj->o", direction, part.spread[origins], direction)
    common = np.minimum(ahead[:, None], ahead[None, :]).astype(float)  # days whose changes two days share
    level = ((portion @ common) * portion).sum(axis=1)
    change = sum((((each @ common) * each).sum(axis=1) for each in on), -level / 7)
    noise = (portion**2).sum(axis=1)
    return np.asarray(known + level * part.level[origins] + change * part.change[origins] + noise * part.noise[origins])


def _logs(values: Floats) -> Floats:
    return np.log(values, out=np.full(len(values), np.nan), where=values > 0)


def _activity(is_active: NDArray[np.bool_], weekdays: NDArray[np.intp]) -> Floats:
    """Return the share of days with spend to expect, by day known and weekday of a day to come.

    It is the share among the last eight such weekdays, and lower where the last two weeks had fewer than those shares
    say: work that has stopped is seen in days, not in months.
    """
    days = len(is_active)
    habit = np.ones((days, 7))
    for weekday in range(7):
        at = np.flatnonzero(weekdays == weekday)
        running = np.concatenate(([0], np.cumsum(is_active[at])))
        upto = np.searchsorted(at, np.arange(days), side="right")
        count = np.minimum(upto, _WEEKS_OF_HABIT)
        share = (running[upto] - running[upto - count]) / np.maximum(count, 1)
        habit[:, weekday] = np.where(count > 0, share, 1.0)
    running = np.concatenate(([0.0], np.cumsum(is_active, dtype=float)))
    start = np.maximum(np.arange(days) + 1 - _RECENT_DAYS, 0)
    recent = running[1:] - running[start]
    back = np.arange(days)[:, None] - np.arange(_RECENT_DAYS)
    usual = (np.take_along_axis(habit, weekdays[np.maximum(back, 0)], axis=1) * (back >= 0)).sum(axis=1)
    ratio = np.minimum(np.divide(recent, usual, out=np.ones(days), where=usual > 0), 1.0)
    return np.asarray(habit * ratio[:, None])
