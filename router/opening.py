"""What a run begins with: what is open, its first row, and the desk that its calls are made at.

In: a `Bench`, a task. Out: `RunStarted`, `Desk`. Invariant: nothing is sent or written here; a run that can be resumed
keeps its task and its answers, and holds a lease.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pricing.quick import quick
from router.attempts import Desk, now_us
from router.budget import Budget
from router.endpoints.protocol import Endpoint
from router.health import Health
from router.heartbeat import Heartbeat
from router.holding import LEASE_S, owner_id
from router.judge import Judge
from router.learner import Learner
from router.ledger import Ledger
from router.ledger.keys import new_id
from router.ledger.records import ANSWER_KEPT_US, RunRequest, RunStarted
from router.limits import Gate
from router.monthly import MonthlyBudgets
from router.policy import Market
from router.receipt import spent_usd
from router.result import Decision, Estimate
from router.settings import Settings
from router.task import Task
from router.tools import Toolbox


@quick
@dataclass(frozen=True, slots=True)
class Bench:
    """What is open: the ledger, endpoints with their gates, the market of the moment, settings, and what runs share.

    `is_plan_only` stops a run when its plan is made.
    """

    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    gates: Mapping[str, Gate]
    market: Market
    settings: Settings
    heart: Heartbeat
    monthly: MonthlyBudgets | None = None
    health: Health | None = None
    toolbox: Toolbox | None = None
    judge: Judge | None = None
    learner: Learner | None = None
    is_plan_only: bool = False


async def as_of(bench: Bench, run_id: str, started_us: int) -> Bench:
    """Return the bench as it was when a run began, so that it decides as it did then and finds its calls again.

    Args:
        bench: what is open.
        run_id: the run.
        started_us: when the run first started, microseconds since 1970 UTC.

    Raises:
        LedgerError: the record cannot be read.
    """
    market = bench.market.moved_to(datetime.fromtimestamp(started_us / 1_000_000, UTC))
    if bench.learner is not None:
        row = await asyncio.to_thread(bench.ledger.reader.run, run_id)
        experience = await bench.learner.at(row.started.experience_us if row else None)
        market = replace(market, experience=experience)
    return replace(bench, market=market)


def can_resume(task: Task, estimate: Estimate) -> bool:
    """Return whether a run is kept so that it can be resumed by its id: not a plain call, which is done anew."""
    return estimate.planned or task.run_key is not None or bool(task.mcp_tools)


def started_of(bench: Bench, task: Task, estimate: Estimate) -> RunStarted:
    """Return the row of a run that begins now in this process."""
    decision, at_us, expected = estimate.decision, now_us(), estimate.uncorrected or estimate.cost
    return RunStarted(
        run_id=new_id(),
        configuration=decision.configuration,
        policy_version=decision.policy_version,
        started_us=at_us,
        run_key=task.run_key,
        request_hash=_request_hash(task, decision) if task.run_key is not None else None,
        task_class=estimate.task_class,
        tenant=task.tenant,
        tags=task.tags,
        budget_usd=task.budget_usd,
        prompt=task.text if bench.settings.store_prompts else None,
        owner=owner_id(),
        lease_until_us=at_us + LEASE_S * 1_000_000,
        expected_low_usd=expected.low_usd if expected else None,
        expected_usd=expected.expected_usd if expected else None,
        expected_high_usd=expected.high_usd if expected else None,
        experience_us=bench.market.experience.as_of_us,
    )


def _request_hash(task: Task, decision: Decision) -> str:
    fields = task.model_dump(exclude={"run_key", "tags", "tenant", "budget_usd"})
    work = json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(f"{decision.configuration}\x1f{work}".encode("utf-8", "surrogatepass")).hexdigest()


def desk_of(bench: Bench, task: Task, run_id: str, lease_until_us: int | None) -> Desk:
    """Return what a run's calls are made with.

    With a lease the run can be resumed: its task and answers are kept, and nothing is sent once the lease is over.
    """
    decision_name = task.configuration or bench.settings.default_configuration
    for_good = bench.settings.store_prompts
    desk = Desk(
        ledger=bench.ledger,
        endpoints=bench.endpoints,
        gates=bench.gates,
        market=bench.market,
        retry=bench.settings.retry,
        budget=Budget(task.budget_usd),
        monthly=bench.monthly,
        health=bench.health,
        run_id=run_id,
        configuration="candidates" if task.candidates else decision_name,
        tenant=task.tenant,
        tags=task.tags,
        keep_answers=lease_until_us is not None or for_good,
        for_good=for_good,
    )
    if lease_until_us is not None:
        desk.lease.until_us = lease_until_us
        expires_us = None if for_good else now_us() + ANSWER_KEPT_US
        desk.opening.append(RunRequest(run_id, task.model_dump_json(exclude_unset=True), expires_us))
    return desk


async def resumed_desk(bench: Bench, desk: Desk) -> Desk:
    """Return the desk of a run that an earlier process has begun: what that has spent counts."""
    rows = await asyncio.to_thread(bench.ledger.reader.attempts, desk.run_id)
    budget = Budget(desk.budget.limit_usd, spent_usd(rows, bench.market))
    return replace(desk, market=bench.market, resumed=True, budget=budget)
