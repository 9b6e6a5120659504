"""What a month will end at: from calls and spend by day to a forecast with intervals, and how good such forecasts were.

In: a ledger's days. Out: `MonthForecast` values, parts of a page, a page. Invariant: pure but for the reader; the same
days give the same numbers, and nothing after the last known day is looked at.
"""

from __future__ import annotations

from reports.projection.backtest import Accuracy, Trial, accuracy, backtest
from reports.projection.backtest_page import backtest_report
from reports.projection.forecast import ForecastDay, Interval, Method, MonthForecast
from reports.projection.outlook import Outlook, forecast, outlook_of
from reports.projection.projected import Projected, projection_of
from reports.projection.series import MOST_DAYS, DailySeries, daily_series

__all__ = [
    "MOST_DAYS",
    "Accuracy",
    "DailySeries",
    "ForecastDay",
    "Interval",
    "Method",
    "MonthForecast",
    "Outlook",
    "Projected",
    "Trial",
    "accuracy",
    "backtest",
    "backtest_report",
    "daily_series",
    "forecast",
    "outlook_of",
    "projection_of",
]
