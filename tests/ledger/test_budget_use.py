"""The counts of monthly budgets, in both databases: begun with what is on record, never over a hard limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from pricing import FxTable
from router.errors import BudgetExceeded, BudgetUncounted, LedgerError
from router.ledger import Ledger
from router.ledger.budget_records import BudgetRow, BudgetUse
from router.ledger.records import Amount, AttemptStarted
from router.monthly import MonthlyBudgets
from router.settings_budgets import BudgetsSettings
from tests.ledger.conftest import OCTOBER_US, Sample

NOVEMBER_US = OCTOBER_US + 31 * 86_400_000_000
OCTOBER = (OCTOBER_US, NOVEMBER_US)
ALL = BudgetRow("all", "", Amount("USD", Decimal(1)), OCTOBER_US, "hard")


def use(add: str, limit: str | None = "1", *, is_start: bool = True, **changes: Any) -> BudgetUse:
    plain = BudgetUse("all", "", OCTOBER_US, "USD", Decimal(add), None if limit is None else Decimal(limit), is_start)
    return replace(plain, **changes)


def same(amount: Decimal, currency: str) -> Decimal:
    assert currency == "USD"
    return amount


def used(ledger: Ledger, scope: str = "all", name: str = "") -> Decimal:
    return ledger.reader.budgets_in_use(OCTOBER_US)[1][scope, name]


async def test_what_would_cross_is_refused_with_its_row(ledger: Ledger, sample: Sample) -> None:
    ledger.count_budget(ALL, OCTOBER, same)
    first, second = sample.started(), sample.started()
    await ledger.write(use("0.6"), first)
    with pytest.raises(BudgetExceeded, match=r"budget all: the next call may cost 0\.400001 USD, and 0\.600000 of 1 "):
        await ledger.write(use("0.400001"), second)
    assert ledger.reader.attempt(second.attempt_id) is None
    await ledger.write(use("0.4"), second)
    assert used(ledger) == 1


async def test_many_at_once_never_hold_more_than_the_limit(ledger: Ledger, sample: Sample) -> None:
    ledger.count_budget(ALL, OCTOBER, same)
    writes = [ledger.write(use("0.3"), sample.started()) for _ in range(20)]
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(end is None for end in ends) == 3  # 3 × 0.3 = 0.9, and a fourth is over 1
    assert sum(isinstance(end, BudgetExceeded) for end in ends) == 17
    assert used(ledger) == Decimal("0.9")


async def test_the_end_replaces_what_was_held_and_is_never_refused(ledger: Ledger, sample: Sample) -> None:
    ledger.count_budget(ALL, OCTOBER, same)
    started = sample.started()
    await ledger.write(use("0.9"), started)
    await ledger.write(use("-0.25", None, is_start=False), sample.ended(started))  # it cost 0.65
    assert used(ledger) == Decimal("0.65")
    dear = sample.started()
    await ledger.write(use("0.1"), dear)
    await ledger.write(use("2", None, is_start=False), sample.ended(dear))  # dearer than anybody held: it is counted
    assert used(ledger) == Decimal("2.75")


async def test_without_a_count_nothing_begins_and_an_end_is_no_error(ledger: Ledger, sample: Sample) -> None:
    started = sample.started()
    with pytest.raises(BudgetUncounted, match="budget all: its month is not counted yet"):
        await ledger.write(use("0.1"), started)
    assert ledger.reader.attempt(started.attempt_id) is None
    await ledger.write(started)
    await ledger.write(use("-0.1", None, is_start=False), sample.ended(started))
    assert ledger.reader.budgets_in_use(OCTOBER_US)[1] == {}


async def test_a_count_begins_with_what_is_on_record(ledger: Ledger, sample: Sample) -> None:
    acme, other = sample.started(tenant="acme"), sample.started(tenant="other")
    lost = sample.started(tenant="acme", reserved_usd=Decimal("0.03"))  # in flight: its process was killed
    unknown = sample.started(tenant="acme", reserved_usd=Decimal("0.004"))
    later = sample.started(tenant="acme", started_us=NOVEMBER_US)
    paid = {"cost_status": "exact", "list_cost": Amount("USD", Decimal("0.2"))}
    ends = [
        sample.ended(acme, settled_cost=Amount("USD", Decimal("0.2")), **paid),
        sample.ended(other, settled_cost=Amount("USD", Decimal("0.5")), **paid),
        sample.ended(later, settled_cost=Amount("USD", Decimal("0.1")), **paid),
        sample.ended(unknown, status="timed_out", usage=None, possibly_billed=True),
    ]
    await ledger.write(acme, other, lost, unknown, later)
    await ledger.write(*ends)
    ledger.count_budget(BudgetRow("tenant", "acme", ALL.amount, 0, "hard"), OCTOBER, same)
    ledger.count_budget(ALL, OCTOBER, same)
    assert used(ledger, "tenant", "acme") == Decimal("0.234")  # 0.2 paid, 0.03 and 0.004 possibly billed
    assert used(ledger) == Decimal("0.734")


async def test_setting_or_removing_a_budget_ends_its_count(ledger: Ledger) -> None:
    ledger.set_budget(ALL)
    ledger.count_budget(ALL, OCTOBER, same)
    await ledger.write(use("0.1"))
    ledger.set_budget(replace(ALL, amount=Amount("EUR", Decimal(2))))
    assert ledger.reader.budgets_in_use(OCTOBER_US)[1] == {}
    ledger.count_budget(ALL, OCTOBER, same)
    ledger.remove_budget("all", "")
    assert ledger.reader.budgets_in_use(OCTOBER_US) == ((), {})


async def test_a_mode_is_kept(ledger: Ledger) -> None:
    ledger.set_budget(ALL)
    ledger.set_budget(BudgetRow("class", "code", Amount("EUR", Decimal("2.50")), 5))
    assert [(each.scope, each.mode) for each in ledger.reader.budgets()] == [("all", "hard"), ("class", "soft")]


def monthly(ledger: Ledger, zone: str = "UTC", **changes: Any) -> MonthlyBudgets:
    return MonthlyBudgets(ledger, FxTable(()), zone, BudgetsSettings(refresh_s=0, **changes))


async def test_an_attempt_counts_against_the_budgets_of_its_scopes(ledger: Ledger, sample: Sample) -> None:
    for scope, name in (("all", ""), ("tenant", "acme"), ("tenant", "b"), ("class", "code"), ("model", "gpt-4.1")):
        ledger.set_budget(BudgetRow(scope, name, ALL.amount, 0, "hard"))  # type: ignore[arg-type]
    started = sample.started(tenant="acme", task_class="code", reserved_usd=Decimal("0.1"))
    held = await monthly(ledger).hold(started)
    found = {(each.scope, each.name, each.add) for each in held}
    tenth = Decimal("0.1")
    assert found == {
        ("all", "", tenth),
        ("tenant", "acme", tenth),
        ("class", "code", tenth),
        ("model", "gpt-4.1", tenth),
    }


@pytest.mark.parametrize(("zone", "start_us"), [("UTC", OCTOBER_US), ("Asia/Tokyo", OCTOBER_US - 9 * 3_600_000_000)])
async def test_months_are_cut_in_the_zone_that_is_set(ledger: Ledger, sample: Sample, zone: str, start_us: int) -> None:
    ledger.set_budget(ALL)
    held = await monthly(ledger, zone).hold(sample.started(reserved_usd=Decimal("0.1")))
    assert [each.month_start_us for each in held] == [start_us]


async def test_what_is_not_known_is_refused_by_a_hard_budget_alone(ledger: Ledger, sample: Sample) -> None:
    started: AttemptStarted = sample.started(reserved_usd=None)
    ledger.set_budget(replace(ALL, mode="soft"))
    held = await monthly(ledger).hold(started)
    assert [each.add for each in held] == [0]
    ledger.set_budget(ALL)
    with pytest.raises(BudgetExceeded, match="budget all: it stops calls, and the next one has no known price"):
        await monthly(ledger).hold(started)
    ledger.set_budget(replace(ALL, amount=Amount("EUR", Decimal(1))))
    with pytest.raises(BudgetExceeded, match="cannot be converted into EUR"):
        await monthly(ledger).hold(replace(started, reserved_usd=Decimal("0.1")))
    assert (await monthly(ledger, enforce=False).hold(started)) == ()


async def test_each_share_is_told_once_a_month(ledger: Ledger, sample: Sample) -> None:
    ledger.set_budget(replace(ALL, mode="soft"))
    told: list[str] = []
    budgets = monthly(ledger)
    budgets.notify = lambda crossing: told.append(f"{crossing.share}: {crossing}")
    for add in ("0.79", "0.02", "0.1", "0.2"):
        started = sample.started(reserved_usd=Decimal(add))
        held = await budgets.hold(started)
        await ledger.write(*held, started)
    await budgets.hold(sample.started(reserved_usd=Decimal(0)))
    assert told == [
        "0.8: budget all: 0.810000 of 1 USD are used or held in 2026-10",
        "1: budget all: 1.110000 of 1 USD are used or held in 2026-10",
    ]


async def test_a_bad_use_is_refused(ledger: Ledger) -> None:
    ledger.count_budget(ALL, OCTOBER, same)
    with pytest.raises(LedgerError):
        await ledger.write(use("NaN"))
