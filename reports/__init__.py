"""From ledger rows to a page: months, comparisons, and the renderers that only format them.

Loads no pandas until a page is made.
"""

from __future__ import annotations

from reports.baselines import models_named
from reports.compare import Singles, bases_named, compare_configurations, configurations_named
from reports.exchange import Exchange
from reports.month import month_report
from reports.notebook import attempts_frame, daily_frame, focus_frame, month_frame, table_frame
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Panel, Table
from reports.past_work import work_of_month
from reports.period import Period, month_bounds, named_month, time_zone
from reports.repricing import Basis, Repriced, reprice
from reports.served_work import ServedPart, ServedWork, served_month
from reports.whatif import simulate
from reports.work import Work
from reports.workload import Portion, Split, totals_by_hand

__all__ = [
    "Basis",
    "Cell",
    "Chart",
    "Column",
    "Exchange",
    "Fact",
    "Kind",
    "Money",
    "Note",
    "Page",
    "Panel",
    "Period",
    "Portion",
    "Repriced",
    "ServedPart",
    "ServedWork",
    "Singles",
    "Split",
    "Table",
    "Work",
    "attempts_frame",
    "bases_named",
    "compare_configurations",
    "configurations_named",
    "daily_frame",
    "focus_frame",
    "models_named",
    "month_bounds",
    "month_frame",
    "month_report",
    "named_month",
    "reprice",
    "served_month",
    "simulate",
    "table_frame",
    "time_zone",
    "totals_by_hand",
    "work_of_month",
]
