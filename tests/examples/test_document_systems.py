"""The examples of docs/examples as a stranger runs them: a copied folder, a stand-in server, processes of their own.

The chain of roles is run in tests/router/test_chains.py, the two agents in tests/messages/test_example.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from router.cli import main
from router.endpoints.sandbox import EVERY_MODEL, Fault, LogEntry, Sandbox, SandboxThread, faults_from_texts
from tests.new_ledger import new_ledger

PROGRAMS = ("relay_swarm", "hundred_agents", "chain", "mcp_swarm")
USD_PER_MTOK = {"kimi-k2": (Decimal("0.60"), Decimal("2.50")), "deepseek-v3.2": (Decimal("0.28"), Decimal("0.42"))}
"""Input and output: the last lists of Moonshot and DeepSeek."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A copy of the examples, with a stand-in server and an empty ledger, so that nothing has to be made first."""

    folder: Path
    server: SandboxThread

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every request that reached the server."""
        return self.server.log

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an example to its end."""
        command = [sys.executable, str(self.folder / f"{name}.py"), *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)

    def set(self, old: str, new: str) -> None:
        """Change sandbox.toml."""
        path = self.folder / "sandbox.toml"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is not in sandbox.toml once"
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def stage(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    """Give a function that sets the stage, with a server that misbehaves or wants a key as it is told."""
    folder = tmp_path / "examples"
    shutil.copytree(project / "docs" / "examples", folder, ignore=shutil.ignore_patterns("*.db*", "*.lock", "__*"))
    new_ledger(folder / "examples.db")
    monkeypatch.setenv("ROUTER_CONFIG", str(folder / "sandbox.toml"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.setenv("PYTHONPATH", str(project))
    with ExitStack() as stack:

        def make(sandbox: Sandbox | None = None) -> Stage:
            made = Stage(folder, stack.enter_context(SandboxThread(sandbox or Sandbox())))
            made.set("http://127.0.0.1:8080/v1", made.server.base_url)
            return made

        yield make


def told(folder: Path, name: str, pattern: str) -> list[str]:
    """Return what an example's first lines tell a stranger to type."""
    head = (folder / f"{name}.py").read_text(encoding="utf-8").partition("from __future__")[0]
    return re.findall(pattern, head)


def most_at_once(log: Sequence[LogEntry]) -> int:
    """Return how many of the requests were under way at once, at the most."""
    starts = [datetime.fromisoformat(each.received).timestamp() for each in log]
    ends = [at + (each.seconds or 0) for at, each in zip(starts, log, strict=True)]
    now, most = 0, 0
    for _, change in sorted([*((at, 1) for at in starts), *((at, -1) for at in ends)]):
        now += change
        most = max(most, now)
    return most


def price(entries: Sequence[LogEntry], model: str) -> Decimal:
    """Return what a model's requests cost, nothing of them read from a cache, USD."""
    mine = [each for each in entries if each.model == model]
    read, written = USD_PER_MTOK[model]
    assert sum(each.cached_tokens for each in mine) == 0
    return sum((each.input_tokens * read + each.output_tokens * written for each in mine), Decimal(0)) / 1_000_000


def test_s3_a_swarm_over_one_relay_with_its_figures_and_a_comparison(stage: Callable[..., Stage]) -> None:
    """Five subtasks: a plan, five workers and a merge are 7 requests, 2 of them the orchestrator's."""
    there = stage(Sandbox(faults={"deepseek-v3.2": Fault(latency_ms=300)}))
    ended = there.run("relay_swarm")

    assert ended.returncode == 0, ended.stderr
    assert [each.model for each in there.log] == ["kimi-k2", *["deepseek-v3.2"] * 5, "kimi-k2"]
    assert most_at_once(there.log) == 5
    said = ended.stderr.splitlines()
    assert said[0] == "subtask t1, write: Explain how a heat pump works."
    assert [line.split(",")[0] for line in said[:5]] == [f"subtask t{number}" for number in range(1, 6)]
    assert ended.stdout.startswith("All 5 results taken together:\n- [t1] ")
    shown = [re.fullmatch(r"(\S+) +(\d+) requests, (\S+) succeeded, p50 (\d+) ms, p95 (\d+) ms, (\S+) USD", line)
             for line in said[5:8]]  # fmt: skip
    rows = [found.groups() for found in shown if found]
    costs = {model: price(there.log, model) for model in ("deepseek-v3.2", "kimi-k2")}
    assert [row[:3] for row in rows] == [
        ("deepseek-v3.2", "5", "100.0%"),
        ("kimi-k2", "2", "100.0%"),
        ("all", "7", "100.0%"),
    ]
    assert [row[5] for row in rows] == [f"{cost:.6f}" for cost in (*costs.values(), sum(costs.values()))]
    assert all(int(p50) <= int(p95) for *_, p50, p95, _ in rows)
    assert int(rows[0][3]) >= 300
    changes = {line.split()[0]: line.split()[-1] for line in said[8:]}
    assert changes["all-gpt-4.1"] == "+0.0%"
    assert [changes[name][0] for name in ("hybrid", "hybrid-sonnet", "hybrid-flash")] == ["-", "+", "-"]


def test_s7_s8_one_hundred_agents_of_whom_three_fail(stage: Callable[..., Stage], project: Path) -> None:
    """A ticket is refused; one has half an object for an answer, one none, and both are tried twice: 97 + 1 + 2 + 2."""
    faults = faults_from_texts(told(project / "docs" / "examples", "hundred_agents", r'--fault "([^"]+)"'))
    there = stage(Sandbox(faults={EVERY_MODEL: [*faults[EVERY_MODEL], Fault(latency_ms=100)]}))
    there.set("idle_timeout_s = 5", "idle_timeout_s = 3")
    ended = there.run("hundred_agents")

    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["id"] for each in answers] == [f"job{n}" for n in range(1, 101) if n not in (17, 42, 99)]
    assert all(each["text"] for each in answers)
    expected, summary, *reasons, cached, cost = ended.stderr.splitlines()
    assert expected.startswith("expected: 0.0")
    assert summary == "97 of 100 agents succeeded, 3 failed:"
    assert [re.sub(r" \(http\S+\)", "", line)[:60] for line in reasons] == [
        "job17 failed: endpoint sandbox: HTTP 400: The stand-in serve",
        "job42 failed: endpoint sandbox: a JSON object was expected: ",
        "job99 timed_out: endpoint sandbox: deepseek-v3.2 sent no tok",
    ]
    assert Counter(each.fault for each in there.log) == {None: 97, "status": 1, "malformed": 2, "hang": 2}
    assert {each.fields["max_tokens"] for each in there.log} == {2048}
    assert 20 < most_at_once(there.log) <= 50
    good = [each for each in there.log if each.fault is None]
    assert [each.sequence for each in there.log if each.cached_tokens == 0] == [1]  # all others wait for that one
    read, from_cache = sum(each.input_tokens for each in good), sum(each.cached_tokens for each in good)
    assert cached == f"{from_cache / read:.1%} of {read} tokens were read from the cache"
    assert re.fullmatch(r"cost: 0\.0\d+ USD, possibly billed besides: 0\.0\d+ USD", cost)


def test_a_stranger_who_names_no_settings_is_told_so_in_one_line(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = stage()
    monkeypatch.delenv("ROUTER_CONFIG")
    ended = there.run("chain", "Why is the sky blue?")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1].startswith("no endpoint is set that could serve ")
    assert "Traceback" not in ended.stderr


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(program: Path, port: int) -> Iterator[None]:
    """Run a server until the end of the block; it listens when the block begins."""
    with subprocess.Popen([sys.executable, program, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            until_s = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < until_s:
                with closing(socket.socket()) as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield
        finally:
            process.kill()


def test_s23_workers_use_tools_of_two_servers(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Four workers with 7 tool calls in 5 rounds: 5 + 4 answers of theirs, and a merge."""
    there = stage(Sandbox(faults={EVERY_MODEL: Fault(latency_ms=200)}))
    port = free_port()
    there.set("http://127.0.0.1:8081/mcp", f"http://127.0.0.1:{port}/mcp")
    with closing(sqlite3.connect(there.folder / "shop.db")) as connection:
        connection.executescript(*told(there.folder, "mcp_swarm", r'sqlite3 shop.db "([^"]+)"'))
    monkeypatch.chdir(there.folder)
    with listening(there.folder / "stock_server.py", port):
        with pytest.raises(SystemExit) as approved:
            main(["tools", "approve"])
        ended = there.run("mcp_swarm")

    assert not approved.value.code
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("All 4 results taken together:\n- [sales] ")
    answer = re.compile(r"^== (\S+) succeeded: The tools say:\n(.*?)(?=^== |^cost: )", re.MULTILINE | re.DOTALL)
    answers = dict(answer.findall(ended.stderr))
    assert json.loads(answers["sales"])["rows"] == [["rum", 95], ["tea", 40]]
    assert answers["tables"].startswith("CREATE TABLE sale (product TEXT, amount INTEGER)\n")
    assert json.loads(answers["tables"].partition("\n{\n")[2].join("{ "))["rows"] == [[2]]
    assert answers["stock"].splitlines() == [
        '{"product": "tea", "in_stock": 120}',
        "[not JSON, though it should be: handed on as it came]",
        '{"product": "rum", "in_stock": 4, "shelf": "B7", "orde',
    ]
    assert answers["clean-up"].startswith("[tool error]\n")
    assert "only SELECT is allowed" in answers["clean-up"]
    assert most_at_once(there.log) == 4
    assert [each.fields["thinking"] for each in there.log] == [{"type": "enabled", "budget_tokens": 1024}] * 10
    with closing(sqlite3.connect(there.folder / "examples.db")) as connection:
        calls = connection.execute("SELECT tool, status, is_raw FROM tool_calls ORDER BY 1, 2, 3").fetchall()
        spans = connection.execute(
            "SELECT started_us, started_us + latency_us FROM tool_calls WHERE step_id = 'tables' ORDER BY 1"
        ).fetchall()
    assert calls == [
        ("list_tables", "succeeded", 0),
        ("query", "failed", 0),
        *[("query", "succeeded", 0)] * 2,
        ("stock", "succeeded", 0),
        ("stock", "succeeded", 1),
    ]
    assert spans[1][0] < spans[0][1]  # the second is under way before the first has ended


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_short_and_says_how_it_is_started(name: str, project: Path) -> None:
    folder = project / "docs" / "examples"
    lines = (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()

    assert 30 <= len(lines) <= 80
    assert told(folder, name, r"\brouter sandbox\b")
    assert told(folder, name, rf"\bpython {name}\.py\b")
    imported = {line for line in lines if re.match(r"(from|import) (router|reports|pricing)", line)}
    assert len(imported) == 1
    assert next(iter(imported)).startswith("from router import ")


def test_every_program_is_in_the_list_of_examples(project: Path) -> None:
    folder = project / "docs" / "examples"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in folder.glob("*.py") if f"`{path.name}`" not in listed] == []
    faults = told(folder, "hundred_agents", r'--fault "([^"]+)"')
    assert re.findall(r'--fault "([^"]+)"', listed) == faults
    assert told(folder, "mcp_swarm", r"sqlite3 shop.db .*")[0] in listed
