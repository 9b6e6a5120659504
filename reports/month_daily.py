"""A period day by day, in all and by model: what the charts of spend and of cache share show.

In: rows, a period, the instant. Out: two tables and their charts. Invariant: every day of the period that has begun is
there, with 0 where nothing was called; the days add up to the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from reports.figures import SUMMED, figures
from reports.month_rows import MODEL, MonthRows
from reports.page import HIDDEN, Cell, Chart, Column, Money, Table
from reports.period import Period
from reports.rows import Labels

SHOWN_MODELS = 6
OTHER = "other models"


def daily_tables(data: MonthRows, period: Period, now: datetime) -> tuple[Table, ...]:
    """Return `daily`, a line a day, and `daily_models`, a line for each day and model.

    Args:
        data: the period's rows.
        period: the period.
        now: aware instant; days after it are left out.
    """
    days = days_begun(period, now)
    return (_daily(data, days), _daily_models(data, days))


def daily_charts(currency: str) -> tuple[Chart, ...]:
    """Return the charts of the two tables."""
    return (
        Chart(
            "spend_by_day",
            f"Settled cost by day, {currency}",
            "stacked_bars",
            "daily_models",
            "day",
            ("settled_cost",),
            group="model",
            description=f"One bar a day, cut by model: what was paid for its calls, in {currency}.",
        ),
        Chart(
            "cache_share_by_day",
            "Input read from cache by day, share",
            "line",
            "daily",
            "day",
            ("cache_hit_share",),
            description="The share of each day's input tokens that a prompt cache served.",
        ),
    )


def days_begun(period: Period, now: datetime) -> tuple[date, ...]:
    """Return the days of a period up to the one that an instant lies in."""
    last = min(period.last_day, now.astimezone(period.zone).date())
    return tuple(period.first_day + timedelta(days=count) for count in range((last - period.first_day).days + 1))


def _daily(data: MonthRows, days: tuple[date, ...]) -> Table:
    currency = data.exchange.currency
    sums = data.sums_by(data.rows.labels(("local_day",)))
    found = {day: figures(line, {}, currency) for day, line in sums.items()}
    nothing = figures(dict.fromkeys(SUMMED, 0), {}, currency)
    columns = (
        Column("day", "Day", "text"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("list_cost", f"List, {currency}", "money"),
        Column("calls", "Calls", "count"),
        Column("attempts", "Attempts", "count"),
        Column("input_tokens", "Input", "tokens"),
        Column("cache_hit_share", "Cache share", "share"),
        Column("output_tokens", "Output", "tokens"),
        Column("success_share", "Success", "share"),
    )
    rows: list[tuple[Cell, ...]] = []
    for day in sorted({*days, *found}):
        each, free = found.get(day, nothing), Money(Fraction(0), currency)
        known = day in found
        rows.append(
            (
                day.isoformat(),
                each.settled_cost if known else free,
                each.list_cost if known else free,
                each.calls,
                each.attempts,
                each.input_tokens if known else 0,
                each.cache_hit_share,
                each.output_tokens if known else 0,
                each.success_share,
            )
        )
    return Table("daily", "Day by day", columns, tuple(rows), panels=HIDDEN)


def _daily_models(data: MonthRows, days: tuple[date, ...]) -> Table:
    currency = data.exchange.currency
    models = data.rows.labels(MODEL)
    spent = dict(zip(models.names, data.amounts(models, "settled_shown"), strict=True))
    shown = _shown_models(spent)
    both = data.rows.labels(("local_day", *MODEL), lambda day, served, asked: (day, _name(served or asked, shown)))
    amounts = _amounts(data, both)
    names = [*shown, OTHER] if len(spent) > len(shown) else list(shown)
    found = {day for day, _ in amounts}
    rows = [
        (day.isoformat(), name, Money(amounts.get((day, name), Fraction(0)), currency))
        for day in sorted({*days, *found})
        for name in names
        if (day, name) in amounts or name == names[0]
    ]
    columns = (
        Column("day", "Day", "text"),
        Column("model", "Model", "text"),
        Column("settled_cost", f"Settled, {currency}", "money"),
    )
    return Table("daily_models", "Day by day and by model", columns, tuple(rows), panels=HIDDEN)


def _amounts(data: MonthRows, labels: Labels) -> Mapping[Any, Fraction]:
    return dict(zip(labels.names, data.amounts(labels, "settled_shown"), strict=True))


def _shown_models(spent: Mapping[str, Fraction]) -> tuple[str, ...]:
    """Return the dearest models; all of them where only one would be left."""
    ordered = sorted(spent, key=lambda model: (-spent[model], model))
    return tuple(ordered if len(ordered) <= SHOWN_MODELS + 1 else ordered[:SHOWN_MODELS])


def _name(model: str, shown: tuple[str, ...]) -> str:
    return model if model in shown else OTHER
