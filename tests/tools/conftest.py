"""Real MCP servers as child processes, a stand-in model server, a real ledger."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from router.attempts import CallSpec, Desk, now_us
from router.budget import Budget
from router.calls import CallOutcome
from router.client import Router
from router.conversation import Conversation, converse
from router.endpoints.sandbox import Sandbox
from router.estimation import decide_task
from router.ledger.keys import new_id
from router.ledger.records import RunStarted
from router.ledger.tool_calls import ToolCallRow
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from router.task import Task
from router.tools import Toolbox
from router.tools.approval import LOCK_NAME, approval, lock_text
from router.tools.descriptors import Descriptor
from tests.new_ledger import new_ledger

PLAIN = Path(__file__).with_name("plain_server.py")
TOKEN = "tok-planted-9f8e7d6c5b4a"


@dataclass(frozen=True, slots=True)
class Shop:
    """A folder with a router.toml, plain MCP servers that log their calls there, and a toolbox of them."""

    folder: Path
    settings: Settings
    environ: dict[str, str]
    toolbox: Toolbox

    def calls(self, server: str = "plain") -> list[dict[str, Any]]:
        """Return the calls that reached a server, in order."""
        path = self.folder / server / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self, server: str = "plain") -> list[int]:
        """Return the processes that a server has been, in order."""
        path = self.folder / server / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def describe(self, server: str, **descriptions: str) -> None:
        """Have a server describe its tools otherwise from its next start on."""
        (self.folder / server / "describe.json").write_text(json.dumps(descriptions))

    async def approve(self, servers: Iterable[str] = ()) -> tuple[Descriptor, ...]:
        """Approve whatever servers offer now."""
        names = tuple(servers) or tuple(self.settings.tools.servers)
        offered = [each for name in names for each in await self.toolbox.offered(name)]
        (self.folder / LOCK_NAME).write_text(lock_text(map(approval, offered)))
        return tuple(offered)


def is_alive(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Shop]]]:
    """Give a function that makes a shop: `servers` are names or settings by name, the rest goes into [tools]."""
    made: list[Toolbox] = []

    async def make(servers: Any = ("plain",), *, approved: bool = True, more: Any = None, **tools: Any) -> Shop:
        tables = servers if isinstance(servers, dict) else {name: {} for name in servers}
        for name in tables:
            (tmp_path / name).mkdir(exist_ok=True)
            plain = {
                "command": sys.executable,
                "args": ["-I", "-S", str(PLAIN), str(tmp_path / name), name],
                "allow": ["*"],
            }
            tables[name] = tables[name] if "url" in tables[name] or "command" in tables[name] else plain | tables[name]
        environ = {**os.environ, "PLAIN_TOKEN": TOKEN}
        settings = Settings.model_validate(
            {
                "source": tmp_path / "router.toml",
                "tools": {"servers": tables, **tools},
                "configurations": dict(BUILT_IN_CONFIGURATIONS),
                "default_configuration": "all-gpt-4.1",
                "retry": {"base_s": 0.01, "max_s": 0.05},
                **(more or {}),
            }
        )
        toolbox = Toolbox(settings, environ)
        made.append(toolbox)
        whole = Shop(tmp_path, settings, environ, toolbox)
        if approved:
            await whole.approve()
        return whole

    yield make
    for toolbox in made:
        await toolbox.aclose()


class Listening(Sandbox):
    """The stand-in server, and every body that it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        return await super()._complete(request)


@dataclass(frozen=True, slots=True)
class Talk:
    """A model (the stand-in server) with a shop's tools, and what its conversations came to."""

    shop: Shop
    router: Router
    sandbox: Listening
    outcomes: list[CallOutcome] = field(default_factory=list)

    async def desk(self, run_id: str | None = None, **fields: Any) -> Desk:
        """Return a desk for a new run, or for one that is on record already."""
        bench = await self.router._bench(self.router.market())  # noqa: SLF001 — what a run is made with
        fresh = run_id is None
        run_id = run_id or new_id()
        started = RunStarted(run_id, "all-gpt-4.1", "1", now_us())
        desk = Desk(
            ledger=bench.ledger,
            endpoints=bench.endpoints,
            gates=bench.gates,
            market=bench.market,
            retry=self.shop.settings.retry,
            budget=Budget(Decimal(1)),
            run_id=run_id,
            configuration="all-gpt-4.1",
            opening=[started] if fresh else [],
        )
        return replace(desk, **fields)

    def spec(self, text: str, **fields: Any) -> CallSpec:
        """Return the call of a text."""
        task = Task.of(text)
        decision = decide_task(self.router.market(), self.router.settings, task, "single")
        parameters = fields.pop("parameters", {})
        spec = CallSpec(decision.chosen, "single", decision.task_class, task.messages, parameters)
        return replace(spec, **fields)

    async def converse(
        self, text: str, *tools: str, desk: Desk | None = None, allowance: Any = None, say: Any = None, **fields: Any
    ) -> Conversation:
        """Have a conversation about a text with these tools of the shop."""
        desk = desk or await self.desk()
        spec = self.spec(text, **fields)
        own = spec.parameters.get("tools", ())
        async with self.shop.toolbox.kit(tools or ("plain__*",), allowance, own) as kit:
            return await converse(desk, spec, kit, self._add, say)

    def _add(self, outcome: CallOutcome) -> CallOutcome:
        self.outcomes.append(outcome)
        return outcome

    async def rows(self, desk: Desk) -> tuple[ToolCallRow, ...]:
        """Return the tool calls of a run as the ledger has them."""
        return await desk.ledger.tool_calls(desk.run_id)


@asynccontextmanager
async def talking(shop: Shop) -> AsyncIterator[Talk]:
    """Give a conversation's parts: the stand-in server keeps the bodies it was sent."""
    async with Listening() as sandbox:
        endpoint = {"base_url": sandbox.base_url, "price_list": "vendor", "last_list": True}
        settings = shop.settings.model_copy(
            update={
                "endpoints": Settings.model_validate({"endpoints": {"sandbox": endpoint}}).endpoints,
                "database": Settings.model_validate(
                    {"database": {"url": new_ledger(shop.folder / "ledger.db")}}
                ).database,
            }
        )
        async with Router(settings, environ=shop.environ) as router:
            yield Talk(shop, router, sandbox)


@pytest.fixture
async def talk(shop: Callable[..., Awaitable[Shop]]) -> AsyncIterator[Callable[..., Awaitable[Talk]]]:
    """Give a function that makes a shop and a model with its tools; its arguments are the shop's."""
    async with AsyncExitStack() as stack:

        async def make(*arguments: Any, **options: Any) -> Talk:
            return await stack.enter_async_context(talking(await shop(*arguments, **options)))

        yield make
