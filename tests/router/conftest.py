"""A stand-in server and a router on it: real HTTP on loopback, a real SQLite file."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.cli import main
from router.client import Router
from router.endpoints.sandbox import LogEntry, Sandbox, SandboxThread
from router.ledger import Ledger, open_ledger
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from tests.new_ledger import new_ledger


@dataclass(frozen=True, slots=True)
class Bench:
    """A router whose only endpoint is a stand-in server."""

    router: Router
    server: SandboxThread
    database: str

    @property
    def requests(self) -> tuple[LogEntry, ...]:
        """The server's own log."""
        return self.server.log

    def set_faults(self, faults: Any) -> None:
        """Replace the server's faults."""
        address = self.server.base_url.removesuffix("/v1") + "/sandbox/faults"  # loopback
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(address, json.dumps(faults).encode(), kind)  # noqa: S310 — loopback
        with urllib.request.urlopen(request) as answer:  # noqa: S310 — loopback
            assert answer.status == 200

    def ledger(self) -> Ledger:
        """Open the ledger a second time, to read what is in it."""
        return open_ledger(self.database)


def settings_for(base_url: str, database: str, **more: Any) -> Settings:
    """Return settings with one endpoint, at the vendors' lists, that prices retired models at their last list."""
    endpoint = {"base_url": base_url, "price_list": "vendor", "last_list": True, **more.pop("endpoint", {})}
    return Settings.model_validate(
        {
            "database": {"url": database},
            "endpoints": {"sandbox": endpoint},
            "configurations": dict(BUILT_IN_CONFIGURATIONS),
            "default_configuration": "all-gpt-4.1",
            "retry": {"base_s": 0.01, "max_s": 0.05},
            **more,
        }
    )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Return a function that makes a bench: `faults` go to the server, the rest into the settings."""
    with ExitStack() as stack:

        def make(faults: Any = None, **more: Any) -> Bench:
            server = stack.enter_context(SandboxThread(Sandbox(faults=faults)))
            database = new_ledger(tmp_path / "ledger.db")
            settings = settings_for(server.base_url, database, **more)
            return Bench(Router(settings, environ={}), server, database)

        yield make


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command line in this process: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call
