"""The router as an object: settings, catalogue, ledger and connections held open, tasks in, results out.

In: tasks. Out: `Result`s, and rows in the ledger. Invariant: one `Router` belongs to one event loop; nothing is opened
before the first task is run, and everything is closed by `aclose`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pricing import Catalog, FxTable, load_catalog
from router.environment import FILE_NAME, load_environment, shown_path
from router.errors import NoEndpoint, WrongUsage
from router.estimation import estimate_task
from router.ledger.rates import fx_of
from router.policy import Market
from router.presets import preset_keys
from router.result import Decision, Estimate, Result
from router.settings import EndpointSettings, Settings
from router.settings_file import load_settings
from router.task import Messages, Task

if TYPE_CHECKING:
    from router.endpoints.protocol import Endpoint
    from router.ledger import Ledger
    from router.lifecycle import Bench
    from router.limits import Gate


class Router:
    """Routes tasks. Nothing is opened before the first task is run.

    Args:
        settings: what is set; None: `router.toml`, environment and `.env`, found from the working directory.
        environ: where keys are read from; None: the process's environment and `.env`.
        catalog: price catalogue; None: the bundled one and the settings' own price files.
        fx: exchange rates; None: the bundled ones, the settings' own, and, once a task has run, the ledger's.
        latency_s: median latency by model, seconds, for latency objectives; None: not known.

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
    ) -> None:
        self.environ = load_environment() if environ is None else environ
        self.settings = load_settings() if settings is None else settings
        self.catalog = catalog or catalog_of(self.settings)
        self._fx = fx
        self._fx_given = fx is not None
        self._latency_s = latency_s or {}
        self._ledger: Ledger | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._gates: dict[str, Gate] = {}
        self._opening = asyncio.Lock()
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
        return Market(
            self.catalog,
            self.usable_endpoints,
            self._fx,
            at or datetime.now(UTC),
            self.settings.aliases,
            self._latency_s,
        )

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
        return estimate_task(self.market(), self.settings, Task.of(work, **options))

    async def route(self, work: str | Messages | Task, **options: Any) -> Result:
        """Do the task and return its answer and receipt.

        Args:
            work: the text, messages or Task.
            options: fields of Task.

        Raises:
            WrongUsage, NoCandidate: see `decide`.
            NoEndpoint: no endpoint with a key offers the model.
            CallFailed: the one call of an unplanned task failed.
            RunFailed: no step succeeded, or the merge failed.
            PlanError: no usable plan, where the task asked for one.
            BudgetExceeded: the next call could cross the budget.
            RunHeld: another process works on this run key.
            LedgerError: a row could not be committed.
        """
        return await self._run(Task.of(work, **options), None)

    async def stream(self, work: str | Messages | Task, **options: Any) -> AsyncGenerator[str | Result, None]:
        """Do the task; yield the answer's text as it comes, then the Result. See `route` for arguments and errors.

        Where the consumer stops early, the request is cut off and what it used is estimated.
        """
        task = Task.of(work, **options)
        pieces: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)  # so that no more is read than is consumed

        async def produce() -> Result:
            try:
                result = await self._run(task, pieces.put)
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

    async def _run(self, task: Task, say: Callable[[str], Awaitable[None]] | None) -> Result:
        from router.lifecycle import run_task  # the wire and the ledger load with the first run

        market = self.market()
        estimate = estimate_task(market, self.settings, task)
        self._require_endpoint(estimate.decision)
        return await run_task(await self._bench(market), task, estimate, say)

    def _require_endpoint(self, decision: Decision) -> None:
        if decision.chosen.endpoint is not None:
            return
        named = {each.key_env for each in self.settings.endpoints.values() if each.key_env} | set(preset_keys())
        raise NoEndpoint(
            f"no endpoint is set that could serve {decision.chosen.model}: no key was found in the environment",
            hint=f"set one of {', '.join(sorted(named))}, or describe an endpoint in router.toml (router init)",
        )

    async def _bench(self, market: Market) -> Bench:
        """Open what is not open yet."""
        from router.endpoints import open_endpoint
        from router.ledger import default_url, open_ledger
        from router.lifecycle import Bench
        from router.limits import Gate

        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise WrongUsage("router: it was first used on another event loop", hint="make one Router an event loop")
        async with self._opening:
            if self._ledger is None:
                self._ledger = await asyncio.to_thread(open_ledger, default_url(self.settings))
                await self._ledger.prune(time.time_ns() // 1000)
                if not self._fx_given:
                    self._fx = await asyncio.to_thread(fx_of, self.settings, self._ledger.reader)
            for name, settings in market.endpoints.items():
                if name not in self._endpoints:
                    self._endpoints[name] = open_endpoint(name, settings, self.environ)
                    self._gates[name] = Gate(settings.concurrency)
        return Bench(
            self._ledger, self._endpoints, self._gates, replace(market, fx=self._fx or market.fx), self.settings
        )

    async def aclose(self) -> None:
        """Close connections and the ledger, everything written; a second call does nothing."""
        endpoints, self._endpoints = self._endpoints, {}
        ledger, self._ledger = self._ledger, None
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
