"""From ledger rows to a page: months, comparisons, projections, and the renderers that only format them.

The names load what they need when they are first used, so that a command pays for its own report alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "baselines": ("models_named",),
    "compare": ("Singles", "bases_named", "compare_configurations", "configurations_named"),
    "exchange": ("Exchange",),
    "month": ("month_report",),
    "notebook": ("attempts_frame", "daily_frame", "focus_frame", "month_frame", "table_frame"),
    "page": ("Cell", "Chart", "Column", "Fact", "Kind", "Money", "Note", "Page", "Panel", "Table"),
    "past_work": ("work_of_month",),
    "period": ("Period", "month_bounds", "named_month", "time_zone"),
    "repricing": ("Basis", "Repriced", "reprice"),
    "served_work": ("ServedPart", "ServedWork", "served_month"),
    "whatif": ("simulate",),
    "work": ("Work",),
    "workload": ("Portion", "Split", "totals_by_hand"),
}
_HOME_OF = {name: f"reports.{home}" for home, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> object:
    """Return a public name from its module (PEP 562), once; afterwards it is an ordinary attribute."""
    if name not in _HOME_OF:
        message = f"module 'reports' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
