"""Processes that work on runs and are killed: a parent that has everything loaded forks one for each task it is told.

In: lines of JSON on stdin. Out: a line with the child's process id for each. A child ends by `os._exit`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CODE = """
import sys
sys.path.insert(0, {folder!r})
from tests.router.killed import serve
serve()
"""


class Runners:
    """Starts processes that each route one task; all are gone when the block ends."""

    def __enter__(self) -> Self:
        """Start the parent."""
        code = CODE.format(folder=str(Path(__file__).parents[2]))
        self._stack = ExitStack()
        self._parent = self._stack.enter_context(
            subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the parent, which waits for its children."""
        self._parent.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        self._parent.wait(timeout=60)
        self._stack.close()

    def start(self, base_url: str, database: str, task: dict[str, Any], **settings: Any) -> int:
        """Start a process that routes a task (fields of Task, `work` its text); return its id."""
        order = {"base_url": base_url, "database": database, "task": task, "settings": settings}
        return int(self._ask(order))

    def wait(self, process: int) -> int:
        """Wait for a process to end; return its wait status."""
        return int(self._ask({"wait": process}))

    def _ask(self, order: dict[str, Any]) -> str:
        print(json.dumps(order), file=self._parent.stdin, flush=True)
        return self._parent.stdout.readline()  # type: ignore[union-attr]  # it is a pipe


def serve() -> None:
    """Fork a process for each line; load what they need first, so that none waits for it."""
    import router.endpoints.openai_wire
    import router.ledger.database
    import router.ledger.leases
    import router.lifecycle  # noqa: F401 — loaded for the children

    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(os.waitpid(order["wait"], 0)[1], flush=True)
        elif child := os.fork():
            print(child, flush=True)
        else:
            code = 1
            try:
                asyncio.run(_route(order))
                code = 0
            finally:
                os._exit(code)


async def _route(order: dict[str, Any]) -> None:
    from router.client import Router
    from tests.router.conftest import settings_for

    task = dict(order["task"])
    settings = settings_for(order["base_url"], order["database"], **order["settings"])
    async with Router(settings, environ={}) as router:
        await router.route(task.pop("work"), **task)
