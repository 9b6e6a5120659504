"""Where monthly budgets stand: spent, left, and the day on which each is or will be used up.

In: a ledger's reader, budgets, a month, exchange rates. Out: `BudgetState`s. Invariant: what is spent is the settled
cost on record, in the budget's own currency at each day's rate; possibly billed amounts stand apart and are in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from pricing import FxTable, join_amount
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Note
from reports.period import DAY_US, Period, at_us
from reports.projection import DailySeries, ForecastDay, MonthForecast, daily_series, forecast
from router.ledger.budget_records import BudgetRow, BudgetScope

State: TypeAlias = Literal["ok", "warning", "forecast to cross", "crossed"]
COLUMN_OF: Mapping[BudgetScope, str] = {"tenant": "tenant", "class": "task_class", "model": "model"}
"""What a scope limits, as `reports.projection.daily_series` names it; a budget of all limits everything."""
_BY = ("day", "tenant", "task_class", "model_served", "model_asked", "context_tier", "settled_currency")


@dataclass(frozen=True, slots=True)
class BurnDay:
    """One day of a budget. Amounts are in its currency.

    Args:
        day: the day.
        spent: on it, of today so far; None: it has not come.
        total: from the first of the month to its end: on record, or expected.
        is_forecast: whether the total is expected.
        bounds: low and high of the expected total with 80 %; None: no interval.
    """

    day: date
    spent: Fraction | None
    total: Fraction
    is_forecast: bool
    bounds: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, slots=True)
class BudgetState:
    """Where a budget stands in a month. Amounts are in its currency.

    Args:
        budget: the budget.
        spent: settled cost so far.
        unpriced: attempts with usage and no price, so that more was spent.
        possibly_billed: what was reserved for attempts that ended without usage after they were sent.
        days: the month by day.
        forecast: of the month; None: it is over, has not begun, or nothing is known to tell it from.
        crossed_on: the day on which it was crossed; None: it is not.
        crosses_on: the first day, from today on, at whose end it is expected to be; None: not in this month.
        notes: about exchange rates.
    """

    budget: BudgetRow
    spent: Fraction
    unpriced: int
    possibly_billed: Fraction
    days: tuple[BurnDay, ...]
    forecast: MonthForecast | None
    crossed_on: date | None
    crosses_on: date | None
    notes: tuple[Note, ...] = ()

    @property
    def amount(self) -> Fraction:
        """The budget of the month."""
        return Fraction(self.budget.amount.value)

    @property
    def used(self) -> Fraction:
        """The share of it that is spent."""
        return self.spent / self.amount

    def state(self, warn_at: Fraction) -> State:
        """Return the worst that is to be said of it.

        Args:
            warn_at: the share from which on to warn.
        """
        if self.spent > self.amount:
            return "crossed"
        if self.crosses_on is not None:
            return "forecast to cross"
        return "warning" if self.used >= warn_at else "ok"


def budget_states(
    reader: LedgerReader, budgets: Iterable[BudgetRow], month: Period, now: datetime, fx: FxTable
) -> tuple[BudgetState, ...]:
    """Return where budgets stand in a month.

    Args:
        reader: the ledger's.
        budgets: the budgets.
        month: the month.
        now: aware instant.
        fx: converts each day's cost into a budget's currency.

    Raises:
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    groups = [
        (dict(zip(_BY, group.key, strict=True)), group.sums)
        for group in reader.usage_groups(month.start_us, month.end_us, _BY)
    ]
    return tuple(_state(reader, budget, month, now, fx, groups) for budget in budgets)


def scope_filter(scope: BudgetScope, name: str) -> Mapping[str, str]:
    """Return what calls must have to count against a budget; empty: all do."""
    return {} if scope == "all" else {COLUMN_OF[scope]: name}


def _state(
    reader: LedgerReader,
    budget: BudgetRow,
    month: Period,
    now: datetime,
    fx: FxTable,
    groups: Sequence[tuple[Mapping[str, Any], Mapping[str, int]]],
) -> BudgetState:
    exchange = Exchange(fx, budget.amount.currency)
    series = daily_series(reader, month, exchange, now, where=scope_filter(budget.scope, budget.name))
    amount = Fraction(budget.amount.value)
    found = forecast(series, month.last_day) if _is_forecast(series, month, now) else None
    days = tuple(_days(series, month, now, found))
    mine = [(key, sums) for key, sums in groups if _counts(budget, key)]
    return BudgetState(
        budget=budget,
        spent=series.spent(month.first_day, month.last_day),
        unpriced=sum(sums["records"] for key, sums in mine if _is_unpriced(key)),
        possibly_billed=sum((_possibly(key, sums, exchange) for key, sums in mine), Fraction(0)),
        days=days,
        forecast=found,
        crossed_on=next((day.day for day in days if not day.is_forecast and day.total > amount), None),
        crosses_on=next((day.day for day in _expected(found) if day.total > amount), None),
        notes=exchange.notes(),
    )


def _is_forecast(series: DailySeries, month: Period, now: datetime) -> bool:
    return month.is_running(now) and bool(series.calls or series.today_calls)


def _expected(found: MonthForecast | None) -> tuple[ForecastDay, ...]:
    """Return the days that are not over, today first; none where nothing is expected."""
    return () if found is None or found.point is None else tuple(day for day in found.days if day.is_forecast)


def _days(series: DailySeries, month: Period, now: datetime, found: MonthForecast | None) -> Iterable[BurnDay]:
    """Yield the month's days: those on record, today so far, then the expected ones."""
    today = now.astimezone(month.zone).date()
    expected = {day.day: day for day in _expected(found)}
    total = Fraction(0)
    day = month.first_day
    while day <= month.last_day:
        on_record = series.spent(day, day)
        total += on_record
        if day <= today:
            yield BurnDay(day, on_record, total, is_forecast=False)
        elif day in expected:
            ahead = expected[day]
            yield BurnDay(day, None, ahead.total, is_forecast=True, bounds=ahead.bounds[0] if ahead.bounds else None)
        day += timedelta(days=1)


def _counts(budget: BudgetRow, key: Mapping[str, Any]) -> bool:
    values = {**key, "model": key["model_served"] or key["model_asked"]}
    return all(values[name] == value for name, value in scope_filter(budget.scope, budget.name).items())


def _is_unpriced(key: Mapping[str, Any]) -> bool:
    return key["settled_currency"] is None and key["context_tier"] is not None


def _possibly(key: Mapping[str, Any], sums: Mapping[str, int], exchange: Exchange) -> Fraction:
    amount = Fraction(join_amount(sums["unsettled_usd_micro"], sums["unsettled_usd_pico"]))
    return exchange.convert(amount, "USD", at_us(key["day"] * DAY_US).date())
