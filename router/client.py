"""The router as an object: settings, catalogue, ledger and connections held open, tasks in, results out.

In: tasks. Out: `Result`s, and rows in the ledger. Invariant: one `Router` belongs to one event loop; nothing is opened
before the first task is run, and everything is closed by `aclose`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pricing import Catalog, FxTable, load_catalog
from router.context import fitted
from router.environment import FILE_NAME, load_environment, shown_path
from router.errors import NoEndpoint, WrongUsage
from router.estimation import estimate_task, with_own_budget
from router.experience import NO_EXPERIENCE, Experience
from router.ledger.rates import fx_of
from router.policy import Market
from router.presets import preset_keys
from router.result import Decision, Estimate, Result
from router.settings import EndpointSettings, Settings
from router.settings_file import load_settings
from router.task import Messages, Task
from router.turns import Turns

if TYPE_CHECKING:
    from router.endpoints.protocol import Endpoint
    from router.exchange import Say
    from router.health import EndpointHealth, Health
    from router.heartbeat import Heartbeat
    from router.judge import Judge
    from router.learner import Learner
    from router.ledger import Ledger
    from router.lifecycle import Bench
    from router.limits import Gate, GateState
    from router.messages import Board
    from router.monthly import MonthlyBudgets
    from router.plan_estimate import PlanEstimate
    from router.progress import Watch
    from router.tools import Toolbox


class Router:
    """Routes tasks. Nothing is opened before the first task is run.

    Args:
        settings: what is set; None: `router.toml`, environment and `.env`, found from the working directory.
        environ: where keys are read from; None: the process's environment and `.env`.
        catalog: price catalogue; None: the bundled one and the settings' own price files.
        fx: exchange rates; None: the bundled ones, the settings' own, and, once a task has run, the ledger's.
        latency_s: median latency by model, seconds, for latency objectives; None: as the ledger has it.
        experience: what decisions and estimates take from the record before a task has run (`recorded_experience`);
            from then on it is the ledger's own.

    Raises:
        ConfigError: the settings are wrong; every fault is listed.
        CatalogError: a price file is wrong; every fault is listed.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        catalog: Catalog | None = None,
        fx: FxTable | None = None,
        latency_s: Mapping[str, float] | None = None,
        experience: Experience = NO_EXPERIENCE,
    ) -> None:
        self.environ = load_environment() if environ is None else environ
        self.settings = load_settings() if settings is None else settings
        self.catalog = catalog or catalog_of(self.settings)
        self._fx = fx
        self._fx_given = fx is not None
        self._latency_s = latency_s or {}
        self._experience = experience
        self._market: Market | None = None
        self._ledger: Ledger | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._gates: dict[str, Gate] = {}
        self._health: Health | None = None
        self._monthly: MonthlyBudgets | None = None
        self._heart: Heartbeat | None = None
        self._toolbox: Toolbox | None = None
        self._judge: Judge | None = None
        self._learner: Learner | None = None
        self._opening, self._turns = asyncio.Lock(), Turns()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def usable_endpoints(self) -> Mapping[str, EndpointSettings]:
        """The endpoints that can be used: those that need no key or whose key is set, and whose client is installed."""
        return {
            name: each
            for name, each in self.settings.endpoints.items()
            if (each.key_env is None or self.environ.get(each.key_env)) and (each.kind != "litellm" or _has_litellm())
        }

    def market(self, at: datetime | None = None) -> Market:
        """Return what is on offer at an instant; None: now."""
        if self._fx is None:
            self._fx = fx_of(self.settings)
        at, usable, known = at or datetime.now(UTC), self.usable_endpoints, self._market
        learnt = self._experience if self._learner is None else self._learner.experience
        is_same = known is not None and known.fx is self._fx and known.experience is learnt
        if known is None or not is_same or known.endpoints.keys() != usable.keys():
            known = Market(self.catalog, usable, self._fx, at, self.settings.aliases, self._latency_s, learnt)
            self._market = known
        return known.moved_to(at)

    def decide(self, work: str | Messages | Task, **options: Any) -> Decision:
        """Return the decision for the task's one call, or for its orchestrator where it is planned; nothing is sent.

        Args:
            work: the text, messages or Task.
            options: fields of Task.

        Raises:
            WrongUsage: an unknown configuration, class or model.
            NoCandidate: no candidate fits.
            NoEndpoint: no configured endpoint offers any of them.
        """
        return self.estimate(work, **options).decision

    def estimate(self, work: str | Messages | Task, **options: Any) -> Estimate:
        """Return what the task is expected to cost; nothing is sent. See `decide` for arguments and errors."""
        task, _ = fitted(Task.of(work, **options), self.settings.context)
        return estimate_task(self.market(), self.settings, task)

    def plan(self, work: str | Messages | Task, *, with_frontier: bool = False, **options: Any) -> PlanEstimate:
        """Return the task's plan with each step's model, cost, latency and quality: `router.foresight.estimate_plan`.

        Nothing is sent. Without steps of its own they are drawn from the text's list. See `decide` for what is raised.
        """
        from router.foresight import estimate_plan

        return estimate_plan(self.market(), self.settings, Task.of(work, **options), with_frontier=with_frontier)

    async def ask_plan(
        self, work: str | Messages | Task, *, watch: Watch | None = None, with_frontier: bool = False, **options: Any
    ) -> PlanEstimate:
        """Return the orchestrator's plan of the task, as `plan` does, for one paid call: `router.plan_run.ask_plan`.

        The run stands until `resume` goes on with it: the plan is not paid again.
        """
        from router.plan_run import ask_plan

        task, _ = self._as_sent(Task.of(work, **{**options, "plan": "always"}))
        bench = await self._bench(self.market())
        self._require_endpoint(estimate_task(bench.market, self.settings, task).decision)
        return await ask_plan(bench, task, watch, with_frontier=with_frontier)

    def _as_sent(self, task: Task) -> tuple[Task, tuple[str, ...]]:
        """Return the task as it is sent, and a warning for what of its conversation is not."""
        notes: tuple[str, ...] = ()
        task = with_own_budget(self.settings, task)
        if self._judge is not None and task.run_key is None:  # a run key's task is the same each time
            task, notes = self._judge.kept(task, task.configuration or self.settings.default_configuration)
        task, trimmed = fitted(task, self.settings.context)
        return task, notes if trimmed is None else (*notes, trimmed)

    async def route(self, work: str | Messages | Task, *, watch: Watch | None = None, **options: Any) -> Result:
        """Do the task and return its answer and receipt.

        Args:
            work: the text, messages or Task.
            watch: is told how far the run is, whenever that changes, on the event loop; None: nobody is.
            options: fields of Task.

        Raises:
            WrongUsage, NoCandidate: see `decide`.
            NoEndpoint: no endpoint with a key offers the model.
            CallFailed: the one call of an unplanned task failed.
            RunFailed: no step succeeded, or the merge failed.
            PlanError: no usable plan, where the task asked for one.
            BudgetExceeded: the next call could cross the budget.
            RunHeld: another process works on this run key.
            RunStopped: somebody has cancelled the run.
            LedgerError: a row could not be committed.
        """
        return await self._run(Task.of(work, **options), None, watch)

    async def resume(self, run_id: str, *, budget_usd: Decimal | None = None, watch: Watch | None = None) -> Result:
        """Go on with a run of the ledger that was stopped, killed, or succeeded only in part, and return its result.

        What is finished is not paid again; what failed, and what was in flight, is tried again.

        Args:
            run_id: the run.
            budget_usd: in the place of the run's own budget, what it has spent before included, USD; None: its own.
            watch: as for `route`.

        Raises:
            WrongUsage: there is no such run, or its task is not kept: it was one call without a run key.
            RunHeld: another process works on it.
            RunFailed: it has finished, and its answer is no longer kept.
            RouterError: as for `route`.
        """
        from router.lifecycle import resume_run

        return await resume_run(await self._bench(self.market()), run_id, budget_usd, watch=watch)

    async def stream(
        self, work: str | Messages | Task, *, watch: Watch | None = None, **options: Any
    ) -> AsyncGenerator[str | Result, None]:
        """Do the task; yield the answer's text as it comes, then the Result. See `route` for arguments and errors.

        Where the consumer stops early, the request is cut off and what it used is estimated.
        """
        task = Task.of(work, **options)
        pieces: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)  # so that no more is read than is consumed

        async def produce() -> Result:
            try:
                result = await self._run(task, pieces.put, watch)
            except Exception:
                await pieces.put(None)
                raise
            await pieces.put(None)
            return result

        running = asyncio.create_task(produce())
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield await running
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _run(self, task: Task, say: Say | None, watch: Watch | None = None) -> Result:
        from router.lifecycle import run_task  # the wire and the ledger load with the first run

        await self._turns.take()
        task, notes = self._as_sent(task)
        market = self.market()
        estimate = estimate_task(market, self.settings, task)
        self._require_endpoint(estimate.decision)
        bench = await self._bench(market)
        if bench.market.experience is not market.experience:  # the record was not open yet
            estimate = estimate_task(bench.market, self.settings, task)
        result = await run_task(bench, task, estimate, say, watch)
        return replace(result, warnings=(*notes, *result.warnings)) if notes else result

    def _require_endpoint(self, decision: Decision) -> None:
        if decision.chosen.endpoint is not None:
            return
        named = {each.key_env for each in self.settings.endpoints.values() if each.key_env} | set(preset_keys())
        raise NoEndpoint(
            f"no endpoint is set that could serve {decision.chosen.model}",
            hint=f"set one of {', '.join(sorted(named))}, or describe one in router.toml; see router config check",
        )

    async def _bench(self, market: Market) -> Bench:
        from router.heartbeat import Heartbeat
        from router.lifecycle import Bench

        ledger, monthly = await self._opened(market)
        if self._fx is not None and market.fx is not self._fx:
            market = replace(market, fx=self._fx)
        learner = self._learner or await self._open_learner(ledger)
        learner.look()
        if market.experience is not learner.experience:
            market = replace(market, experience=learner.experience)
        if self._heart is None:
            self._heart = Heartbeat(ledger)
        if self._judge is None and self.settings.judge.is_on:
            from router.judge import Judge

            self._judge = Judge(self.settings.judge)
        shared = (self._heart, monthly, self._health, self._open_toolbox(), self._judge, learner)
        return Bench(ledger, self._endpoints, self._gates, market, self.settings, *shared)

    async def _open_learner(self, ledger: Ledger) -> Learner:
        from router.learner import Learner

        async with self._opening:
            if self._learner is None:
                learner = Learner(ledger, self.settings.forecast, self._experience)
                await learner.open()
                self._learner = learner
            return self._learner

    def _open_toolbox(self) -> Toolbox | None:
        """Return the servers of tools, where there are any; each is started when it is first wanted."""
        if self._toolbox is None and self.settings.tools.servers:
            from router.tools import Toolbox

            self._toolbox = Toolbox(self.settings, self.environ)
        return self._toolbox

    async def _opened(self, market: Market) -> tuple[Ledger, MonthlyBudgets]:
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise WrongUsage("router: it was first used on another event loop", hint="make one Router an event loop")
        if self._ledger is None or self._monthly is None or not market.endpoints.keys() <= self._endpoints.keys():
            return await self._open(market)
        return self._ledger, self._monthly

    async def _open(self, market: Market) -> tuple[Ledger, MonthlyBudgets]:
        """Open what is not open yet."""
        from router.alerts import Alerts
        from router.endpoints import open_endpoint
        from router.health import Health
        from router.ledger import default_url, open_ledger
        from router.limits import open_gate
        from router.monthly import MonthlyBudgets, tell_crossing

        async with self._opening:
            if self._ledger is None:
                self._ledger = await asyncio.to_thread(open_ledger, default_url(self.settings))
            if self._monthly is None:
                await self._ledger.prune(time.time_ns() // 1000)
                if not self._fx_given:
                    self._fx = await asyncio.to_thread(fx_of, self.settings, self._ledger.reader)
                fx = self._fx or market.fx
                self._monthly = MonthlyBudgets(self._ledger, fx, self.settings.time_zone, self.settings.budgets)
            health = self._health = self._health or Health(
                self.settings.health, Alerts(self.settings.alerts, self.environ)
            )
            self._monthly.notify = self._monthly.notify or partial(tell_crossing, health.alerts)
            for name, settings in market.endpoints.items():
                if name not in self._endpoints:
                    self._endpoints[name] = open_endpoint(name, settings, self.environ)
                    self._gates[name] = open_gate(name, settings, self.settings.gates, self.settings.retry)
                    health.add(name, self._endpoints[name], settings, self._gates[name].turn_away)
            return self._ledger, self._monthly

    async def board(self) -> Board:
        """Return messages and state between agents, on the router's own ledger; it needs no endpoint and no key."""
        from router.messages import Board

        ledger, _ = await self._opened(self.market())  # the record of past work is of no use to it
        return Board(ledger)

    def health(self) -> Mapping[str, EndpointHealth]:
        """Return whether each endpoint is up, by name; empty before the first task was run."""
        return {} if self._health is None else self._health.states

    def gates(self) -> Mapping[str, GateState]:
        """Return how each endpoint's gate stands, and the course of its limit, by name; empty before the first task."""
        return {name: gate.state for name, gate in self._gates.items()}

    async def aclose(self) -> None:
        """Close connections and the ledger, everything written; a second call does nothing."""
        judge, self._judge = self._judge, None
        if judge is not None:
            await judge.aclose()
        endpoints, self._endpoints = self._endpoints, {}
        learner, self._learner = self._learner, None
        if learner is not None:
            await learner.aclose()
        ledger, self._ledger, self._monthly = self._ledger, None, None
        heart, self._heart = self._heart, None
        health, self._health = self._health, None
        if heart is not None:
            await heart.aclose()
        toolbox, self._toolbox = self._toolbox, None
        if health is not None:
            await health.aclose()
        if toolbox is not None:
            await toolbox.aclose()
        for endpoint in endpoints.values():
            await endpoint.aclose()
        if ledger is not None:
            self._loop = None
            ledger.close()  # not in a thread: at the interpreter's exit no thread can be had any more

    async def __aenter__(self) -> Self:
        """Return the router; it is closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections and the ledger."""
        await self.aclose()


@cache
def _has_litellm() -> bool:
    return importlib.util.find_spec("litellm") is not None


def catalog_of(settings: Settings) -> Catalog:
    """Return the bundled catalogue with the settings' own price files and tables laid over it.

    Raises:
        CatalogError: a price file is wrong; every fault is listed.
    """
    name = shown_path(settings.source, Path.cwd()) if settings.source else FILE_NAME
    return load_catalog(settings.price_files, settings.prices or None, name)
