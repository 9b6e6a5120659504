"""Monthly budgets at work: which of them a call counts against, and what is said where one is used up.

In: the ledger's budgets, an attempt about to start. Out: `BudgetUse`s, committed with the attempt's own rows.
Invariant: a *hard* budget is never crossed, whatever number of processes share the ledger; a *soft* one is counted
alike, and said when it is. A ledger without budgets costs a look every few seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from pricing import FxError, FxTable
from router.alerts import Alert, Alerts
from router.errors import BudgetExceeded
from router.ledger.budget_records import BudgetRow, BudgetUse
from router.ledger.records import AttemptStarted
from router.settings_budgets import BudgetsSettings

if TYPE_CHECKING:
    from router.ledger import Ledger

USD = "USD"
Notify = Callable[["Crossing"], None]


class Month(NamedTuple):
    """A calendar month of some zone: half-open, microseconds since 1970 UTC, with its name."""

    start_us: int
    end_us: int
    name: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """A share of a budget that has been used up.

    Args:
        budget: the budget.
        share: the threshold, 0 to 1; 1: all of it.
        used: used and held in this month, in the budget's currency.
        month: as "2026-10", in the settings' time zone.
    """

    budget: BudgetRow
    share: Decimal
    used: Decimal
    month: str

    def __str__(self) -> str:
        amount = self.budget.amount
        used = f"{self.used:.6f} of {amount.value.normalize():f} {amount.currency}"
        return f"budget {name_of(self.budget)}: {used} are used or held in {self.month}"


def tell_crossing(alerts: Alerts, crossing: Crossing) -> None:
    """Push a crossing to whoever is told of budgets: as "over" where all of it is used up, else as "near"."""
    amount = crossing.budget.amount
    details = {
        "month": crossing.month,
        "share": str(crossing.share),
        "used": str(crossing.used),
        "amount": str(amount.value),
        "currency": amount.currency,
    }
    state = "over" if crossing.share >= 1 else "near"
    alerts.tell(Alert("budget", name_of(crossing.budget), state, str(crossing), details))


@dataclass(slots=True)
class MonthlyBudgets:
    """The budgets of one ledger, shared by all runs of a router.

    Args:
        ledger: theirs.
        fx: exchange rates.
        zone: IANA name of the zone that months are cut in.
        settings: whether they are enforced, how often they are read again, at which shares something is said.
        notify: told of each crossing once.
    """

    ledger: Ledger
    fx: FxTable
    zone: str
    settings: BudgetsSettings
    notify: Notify | None = None
    _budgets: tuple[BudgetRow, ...] = ()
    _counted: set[tuple[str, str, int]] = field(default_factory=set)
    _told: dict[tuple[str, str, int, Decimal], Crossing] = field(default_factory=dict)
    _read_s: float | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """What has been crossed and said since the router was opened."""
        return tuple(self._told.values())

    async def hold(self, started: AttemptStarted) -> tuple[BudgetUse, ...]:
        """Return what an attempt holds of the budgets until it has ended, to be committed with its start.

        Committing it raises `BudgetExceeded` where a hard budget would be crossed, and `BudgetUncounted` where a count
        was taken away meanwhile (an import or `router budget` has changed what it begins with): `forget`, hold again.

        Args:
            started: the attempt; its asked model is the one that counts.

        Raises:
            BudgetExceeded: a hard budget is there, and it is not known what the attempt may cost.
            LedgerError: the database cannot be read or written.
        """
        if not self.settings.enforce:
            return ()
        await self._refresh(started.started_us)
        mine = [each for each in self._budgets if _counts(each, started)]
        if not mine:
            return ()
        month = month_of(started.started_us, self.zone)
        uses = tuple(_use(budget, month, self._amount(budget, started)) for budget in mine)
        for budget in mine:
            await self._count(budget, month)
        return uses

    def forget(self) -> None:
        """Let counts be looked for again."""
        self._counted.clear()

    def _amount(self, budget: BudgetRow, started: AttemptStarted) -> Decimal:
        """Return what an attempt may cost at most, in the budget's currency; what a soft budget cannot know is 0."""
        currency = budget.amount.currency
        why = "has no known price"
        if started.reserved_usd is not None:
            try:
                return self.fx.convert(started.reserved_usd, USD, currency, _day(started.started_us))
            except FxError:
                why = f"cannot be converted into {currency}"
        if budget.mode == "soft":
            return Decimal(0)
        message = f"budget {name_of(budget)}: it stops calls, and the next one {why}"
        raise BudgetExceeded(message, hint="add its price (router.toml, price_files) or rate (router fx set)")

    async def _count(self, budget: BudgetRow, month: Month) -> None:
        key = (budget.scope, budget.name, month.start_us)
        if key in self._counted:
            return

        def convert(amount: Decimal, currency: str) -> Decimal:
            return self.fx.convert(amount, currency, budget.amount.currency, _day(month.end_us - 1))

        await asyncio.to_thread(self.ledger.count_budget, budget, (month.start_us, month.end_us), convert)
        self._counted.add(key)

    def ended(self, uses: tuple[BudgetUse, ...], cost_usd: Decimal | None, day: date) -> tuple[BudgetUse, ...]:
        """Return the records that replace what an attempt held by what it cost, to be written with its end.

        Args:
            uses: what it holds.
            cost_usd: what it cost, USD; None: its bill is not known, so it stays held.
            day: the UTC day whose exchange rates count.
        """
        if cost_usd is None:
            return ()
        changes = []
        for use in uses:
            try:
                cost = self.fx.convert(cost_usd, USD, use.currency, day)
            except FxError:  # of a soft one: a hard one would not have let it begin
                continue
            changes.append(replace(use, add=cost - use.add, limit=None, is_start=False))
        return tuple(changes)

    async def _refresh(self, at_us: int) -> None:
        if self._read_s is not None and time.monotonic() - self._read_s < self.settings.refresh_s:
            return
        async with self._reading:
            if self._read_s is not None and time.monotonic() - self._read_s < self.settings.refresh_s:
                return
            month = month_of(at_us, self.zone)
            self._budgets, used = await asyncio.to_thread(self.ledger.reader.budgets_in_use, month.start_us)
            self._read_s = time.monotonic()
            self._tell(used, month)

    def _tell(self, used: Mapping[tuple[str, str], Decimal], month: Month) -> None:
        for budget in self._budgets:
            amount = used.get((budget.scope, budget.name), Decimal(0))
            for share in self.settings.alert_shares:
                key = (budget.scope, budget.name, month.start_us, share)
                if key not in self._told and amount >= budget.amount.value * share:
                    self._told[key] = crossing = Crossing(budget, share, amount, month.name)
                    if self.notify is not None:
                        self.notify(crossing)


def name_of(budget: BudgetRow) -> str:
    """Return how a budget is called: its scope and, but for that of all, its name."""
    return " ".join(filter(None, (budget.scope, budget.name)))


def month_of(at_us: int, zone: str) -> Month:
    """Return the month that an instant lies in.

    Args:
        at_us: microseconds since 1970 UTC.
        zone: IANA name.
    """
    local = datetime.fromtimestamp(at_us // 1_000_000, ZoneInfo(zone))
    return _month(local.year, local.month, zone)


@lru_cache(maxsize=64)
def _month(year: int, month: int, zone: str) -> Month:
    start = datetime(year, month, 1, tzinfo=ZoneInfo(zone))
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=ZoneInfo(zone))
    return Month(_us(start), _us(end), f"{year:04d}-{month:02d}")


def _us(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).date()


def _counts(budget: BudgetRow, started: AttemptStarted) -> bool:
    """Return whether an attempt counts against a budget."""
    of = {"tenant": started.tenant, "class": started.task_class, "model": started.model_asked}
    return budget.scope == "all" or of[budget.scope] == budget.name


def _use(budget: BudgetRow, month: Month, amount: Decimal) -> BudgetUse:
    limit = budget.amount.value if budget.mode == "hard" else None
    return BudgetUse(budget.scope, budget.name, month.start_us, budget.amount.currency, amount, limit, is_start=True)
