"""What the tests of messages share: a board on a real database of each kind, and processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from router.ledger import Ledger, open_ledger
from router.messages import Board
from tests.messages.party import Job
from tests.new_ledger import new_ledger


@pytest.fixture(scope="module")
def sqlite_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """Return a ledger in a file; the tests of a module use topics of their own."""
    with open_ledger(new_ledger(tmp_path_factory.mktemp("messages") / "ledger.db")) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Return an open ledger, once in each kind of database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_ledger")
        return
    with open_ledger(request.getfixturevalue("postgres_ledger_url")) as opened:
        yield opened


@pytest.fixture
def board(ledger: Ledger) -> Board:
    """Return a board, once on each kind of database."""
    return Board(ledger)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses."""
    return str(request.node.name)


class Party:
    """Starts processes on a database, and tells how they have ended.

    Args:
        parent: forks them; see `tests.messages.party`.
        complaints: the file of what they say on standard error.
    """

    def __init__(self, parent: subprocess.Popen[str], complaints: Path) -> None:
        self._parent, self._complaints = parent, complaints
        self._going: list[int] = []

    def start(self, url: str, folder: Path, job: Job) -> int:
        """Start a process; return its id."""
        child = self._told([url, str(folder), asdict(job)])
        self._going.append(child)
        return child

    def status(self, child: int) -> int:
        """Wait until a process has ended; return its exit status, negative for a signal."""
        self._going.remove(child)
        return os.waitstatus_to_exitcode(self._told(child))

    def kill(self, child: int) -> None:
        """Kill a process."""
        os.kill(child, signal.SIGKILL)
        assert self.status(child) == -signal.SIGKILL

    def complaints(self) -> str:
        """Return what they have said on standard error."""
        return self._complaints.read_text()

    def end(self) -> None:
        """End what is left of them."""
        for child in list(self._going):
            os.kill(child, signal.SIGKILL)
            self.status(child)
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait(timeout=10)

    def _told(self, what: object) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{json.dumps(what)}\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())


@pytest.fixture(scope="module")
def party(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    """Return what starts processes on a database."""
    complaints = tmp_path_factory.mktemp("party") / "stderr"
    command = [sys.executable, "-m", "tests.messages.party"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        complaints.open("w") as file,
        subprocess.Popen(command, cwd=project, stderr=file, text=True, **pipes) as parent,  # type: ignore[call-overload]
    ):
        opened = Party(parent, complaints)
        yield opened
        opened.end()
