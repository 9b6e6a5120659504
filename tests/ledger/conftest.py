"""What the ledger's tests share: a ledger in a real database of each kind, and a maker of records with few words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pricing import Usage
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.records import AttemptEnded, AttemptStarted, RunStarted
from tests.new_ledger import new_ledger

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z: 20,727 days of 86,400 s


@dataclass(slots=True)
class Sample:
    """Makes records; what is not asked for has a plain value."""

    numbers: Iterator[int] = field(default_factory=count)

    def run(self, **changes: Any) -> RunStarted:
        plain: dict[str, Any] = {"configuration": "hybrid", "policy_version": "1", "started_us": OCTOBER_US}
        return RunStarted(**{"run_id": new_id(), **plain, **changes})

    def started(self, **changes: Any) -> AttemptStarted:
        plain: dict[str, Any] = {
            "attempt_id": new_id(),
            "call_key": f"call {next(self.numbers)}",
            "number": 1,
            "configuration": "hybrid",
            "endpoint": "sandbox",
            "price_list": "openai",
            "model_asked": "gpt-4.1",
            "started_us": OCTOBER_US,
        }
        return AttemptStarted(**plain | changes)

    def ended(self, started: AttemptStarted, **changes: Any) -> AttemptEnded:
        plain: dict[str, Any] = {
            "status": "succeeded",
            "cost_status": "unknown",
            "latency_us": 1_000,
            "usage": Usage(uncached_input_tokens=10, plain_output_tokens=2),
        }
        return AttemptEnded(started.attempt_id, **plain | changes)


@pytest.fixture
def sample() -> Sample:
    """Return a maker of records."""
    return Sample()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a SQLite database that is not there yet, in a folder that is not there either."""
    return f"sqlite:///{tmp_path / 'data' / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """Return an open, empty ledger, once in each kind of database: `url` is SQLite's."""
    if request.param == "sqlite":
        found = new_ledger(tmp_path / "data" / "ledger.db")
    else:
        found = request.getfixturevalue("postgres_ledger_url")
    with open_ledger(found) as opened:
        yield opened
