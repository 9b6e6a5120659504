"""Monthly budgets on real calls: a hard one stops them before money is spent, a soft one is said."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from router.endpoints.sandbox import Fault
from router.errors import BudgetExceeded
from router.ledger.budget_records import BudgetMode, BudgetRow, BudgetScope
from router.ledger.records import Amount
from router.monthly import month_of

Make = Callable[..., Any]
TEN_CENTS = 12_400  # output tokens: gpt-4.1 at 8.00 an Mtok is 0.0992, and the input is less than the rest


def set_budget(made: Any, amount: str, mode: BudgetMode = "hard", scope: BudgetScope = "all", name: str = "") -> None:
    with made.ledger() as ledger:
        ledger.set_budget(BudgetRow(scope, name, Amount("USD", Decimal(amount)), 0, mode))


def used(made: Any, scope: str = "all", name: str = "") -> Decimal:
    month = month_of(time.time_ns() // 1000, "UTC")
    with made.ledger() as ledger:
        found: Decimal = ledger.reader.budgets_in_use(month.start_us)[1][scope, name]
        return found


def settled(made: Any) -> Decimal:
    with made.ledger() as ledger:
        rows = [row for run in ledger.reader.runs(0, 2**62) for row in ledger.reader.attempts(run.started.run_id)]
    return sum((row.ended.settled_cost.value for row in rows if row.ended and row.ended.settled_cost), Decimal(0))


async def test_twenty_at_once_never_hold_more_than_a_dollar(bench: Make) -> None:
    made = bench({"*": Fault(latency_ms=500)}, endpoint={"first_concurrency": 20})
    set_budget(made, "1")
    async with made.router as router:
        calls = (router.route(f"question {n}", max_output_tokens=TEN_CENTS) for n in range(20))
        ends = await asyncio.gather(*calls, return_exceptions=True)

    # Each holds more than 0.0992 and less than 0.1, and all begin before the first has ended: 10 fit.
    assert [type(end) for end in ends].count(BudgetExceeded) == 10
    assert len(made.requests) == 10
    assert settled(made) <= used(made) <= settled(made) + 20 * Decimal("1e-9")  # each count is rounded up at 1e-9


@pytest.mark.parametrize("kind", ["hard", "soft"])
async def test_only_a_hard_budget_stops(bench: Make, kind: BudgetMode) -> None:
    made = bench(budgets={"refresh_s": 0})
    set_budget(made, "0.0001", kind, "tenant", "acme")
    async with made.router as router:
        await router.route("hello", tenant="other", max_output_tokens=20)
        if kind == "hard":
            with pytest.raises(BudgetExceeded, match=r"budget tenant acme: the next call may cost 0\.00"):
                await router.route("hello", tenant="acme", max_output_tokens=20)
        else:
            await router.route("hello", tenant="acme", max_output_tokens=20)
            second = await router.route("hello", tenant="acme", max_output_tokens=20)
            assert any(each.startswith("budget tenant acme: ") for each in second.warnings)
    assert len(made.requests) == (1 if kind == "hard" else 3)


async def test_a_stopped_run_is_on_record_as_stopped(bench: Make) -> None:
    made = bench()
    set_budget(made, "0.00000001")
    async with made.router as router:
        with pytest.raises(BudgetExceeded):
            await router.route("hello")
    with made.ledger() as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
    assert run.ended is not None
    assert run.ended.status == "stopped"
    assert made.requests == ()


async def test_what_may_have_been_billed_stays_held(bench: Make) -> None:
    made = bench({"*": Fault(drop=True)}, retry={"attempts": 1})
    set_budget(made, "1")
    async with made.router as router:
        with pytest.raises(Exception, match="broke after the request was sent"):
            await router.route("hello", max_output_tokens=TEN_CENTS)
    assert Decimal("0.0992") < used(made) < Decimal("0.1")


CHILD = """
import asyncio, sys
from router.client import Router
from router.settings import Settings
from router.errors import BudgetExceeded

async def main():
    endpoint = {"base_url": sys.argv[1], "last_list": True}
    settings = Settings.model_validate({
        "database": {"url": sys.argv[2]}, "endpoints": {"sandbox": endpoint}, "default_configuration": "pair",
        "configurations": {"pair": {"policy": "fixed", "orchestrator": "gpt-4.1", "worker": "gpt-4.1"}}})
    async with Router(settings, environ={}) as router:
        calls = (router.route(f"question {n}", max_output_tokens=12400) for n in range(20))
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, BudgetExceeded) or not isinstance(end, Exception) for end in ends), ends
asyncio.run(main())
"""


async def test_two_processes_share_one_budget(bench: Make, tmp_path: Path) -> None:
    made = bench({"*": Fault(latency_ms=2000)})
    set_budget(made, "1")
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    command = [sys.executable, str(script), made.server.base_url, made.database]
    children = await asyncio.gather(*(asyncio.create_subprocess_exec(*command) for _ in range(2)))
    assert await asyncio.gather(*(asyncio.wait_for(child.wait(), 60) for child in children)) == [0, 0]
    events = []
    for each in made.requests:
        began_s = datetime.fromisoformat(each.received).timestamp()
        events += [(began_s, 1), (began_s + each.seconds, -1)]
    at_once = list(accumulate(change for _, change in sorted(events)))
    # A request is on its way only while its amount is held, and ten of 0.0992 USD are what a dollar holds.
    assert 8 < max(at_once) <= 10
    assert settled(made) <= used(made) <= 1
