"""The command line as its users meet it: help, answers on stdout, talk on stderr, one line for what is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.cli.commands import PLACES, load_command
from router.cli.page_options import PageFormat
from router.endpoints.sandbox import Fault
from router.ledger import open_ledger
from tests.new_ledger import new_ledger

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = (
    (),
    ("run",),
    ("plan",),
    ("runs",),
    ("runs", "list"),
    ("runs", "show"),
    ("runs", "resume"),
    ("runs", "cancel"),
    ("topics",),
    ("topics", "list"),
    ("topics", "show"),
    ("topics", "prune"),
    ("state",),
    ("state", "show"),
    ("tools",),
    ("tools", "list"),
    ("tools", "approve"),
    ("tools", "check"),
    ("tools", "call"),
    ("explain",),
    ("report",),
    ("compare",),
    ("diff",),
    ("whatif",),
    ("roi",),
    ("fleet",),
    ("case",),
    ("case", "freeze"),
    ("case", "list"),
    ("case", "show"),
    ("case", "review"),
    ("budget",),
    ("budget", "set"),
    ("budget", "list"),
    ("budget", "show"),
    ("budget", "check"),
    ("budget", "remove"),
    ("reconcile",),
    ("backtest",),
    ("forecast",),
    ("forecast", "check"),
    ("export",),
    ("export", "focus"),
    ("export", "calls"),
    ("ledger",),
    ("ledger", "verify"),
    ("ledger", "rebuild"),
    ("ledger", "prune"),
    ("prices",),
    ("prices", "list"),
    ("prices", "show"),
    ("prices", "history"),
    ("prices", "check"),
    ("prices", "diff"),
    ("prices", "import"),
    ("prices", "explain"),
    ("fx",),
    ("fx", "list"),
    ("fx", "set"),
    ("fx", "import"),
    ("import",),
    ("import", "trace"),
    ("import", "generic"),
    ("import", "openai"),
    ("import", "anthropic"),
    ("import", "litellm"),
    ("import", "langfuse"),
    ("import", "openrouter"),
    ("import", "list"),
    ("import", "undo"),
    ("init",),
    ("config",),
    ("config", "check"),
    ("sandbox",),
    ("demo",),
)


@pytest.fixture
def router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", new_ledger(tmp_path / "ledger.db"))

    return command_line


@pytest.fixture
def served(bench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that starts a stand-in server and writes a router.toml that points to it."""

    def start(faults: Any = None, extra: str = "") -> Any:
        made = bench(faults)
        (tmp_path / "router.toml").write_text(
            'default_configuration = "all-gpt-4.1"\n[retry]\nattempts = 1\n'
            f'[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\n'
            f'price_list = "vendor"\nlast_list = true\n{extra}'
        )
        monkeypatch.delenv("ROUTER_CONFIG", raising=False)
        return made

    return start


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "router")
def test_help_is_as_it_was_agreed(
    command: tuple[str, ...], router: Callable[..., tuple[int, str, str]], golden: Callable[[Path, str], None]
) -> None:
    code, out, _ = router(*command, "--help")

    assert code == 0
    golden(GOLDEN / f"help-{'-'.join(command) or 'router'}.txt", out)


@pytest.mark.parametrize("name", PLACES)
def test_what_the_help_says_of_a_command_is_its_own_first_sentence(name: str) -> None:
    own = load_command(name).help.split("\n\n")[0]
    assert " ".join(own.split()) == PLACES[name].about


def test_every_command_has_its_help_agreed() -> None:
    def walked(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for name, sub in getattr(command, "commands", {}).items():
            yield from walked(sub, (*path, name))

    assert {path for name in PLACES for path in walked(load_command(name), (name,))} | {()} == set(COMMANDS)


def test_what_writes_a_page_takes_json_and_a_file() -> None:
    def options(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
        for name, sub in getattr(command, "commands", {}).items():
            yield from options(sub, f"{path} {name}")
        if any(isinstance(parameter.default, PageFormat) for parameter in command.params):
            yield path, {option for parameter in command.params for option in parameter.opts}

    found = {path: taken for name in PLACES for path, taken in options(load_command(name), name)}
    assert {"report", "compare", "budget check", "case show", "prices show", "fx list", "explain"} <= set(found)
    assert {path for path, taken in found.items() if not {"--json", "--output"} <= taken} == set()


@pytest.mark.parametrize("command", [("diff", "last", "this"), ("budget", "list"), ("case", "list"), ("backtest",)])
def test_json_beside_another_format_is_wrong_usage(
    command: tuple[str, ...], router: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = router(*command, "--json", "--format", "csv")

    assert code == 2
    assert err.splitlines()[0] == "error: --json: not allowed beside --format csv"


def test_help_loads_nothing_but_the_parser() -> None:
    code = (
        "import sys\nfrom router.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    heavy = {"pricing", "reports", "pydantic", "rich", "asyncio", "sqlalchemy", "pandas", "aiohttp", "babel"}
    assert loaded & heavy == set()
    commands = {f"router.cli.{place.module}" for place in PLACES.values()}
    assert commands & set(done.stderr.split()) == set()  # each is loaded when it is called


def test_the_answer_is_data_and_the_receipt_is_talk(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]]
) -> None:
    made = served()
    code, out, err = router("run", "What is the capital of Portugal?")

    (request,) = made.requests
    cost = (Decimal(request.input_tokens) * 2 + Decimal(request.output_tokens) * 8) / 10**6
    assert code == 0
    assert out.strip()
    assert "Receipt" not in out
    assert "Receipt of run" in err
    assert f"list cost: {cost}" in err


def test_json_carries_money_as_exact_text(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]]
) -> None:
    made = served()
    code, out, err = router("run", "hello", "--format", "json", "--tag", "team=a", "--tenant", "acme")

    result = json.loads(out)
    (request,) = made.requests
    cost = (Decimal(request.input_tokens) * 2 + Decimal(request.output_tokens) * 8) / 10**6
    assert (code, err) == (0, "")
    assert Decimal(result["cost"]["list_cost"]["USD"]) == cost
    assert isinstance(result["cost"]["settled_usd"], str)
    assert result["usage"]["uncached_input_tokens"] == request.input_tokens


def test_a_task_comes_from_a_file_or_from_standard_input(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    served()
    (tmp_path / "task.md").write_text("Hello from a file.")
    assert router("run", "--file", "task.md")[0] == 0
    piped = subprocess.run(
        [sys.executable, "-m", "router", "run", "-"], input=b"Hello from a pipe.", capture_output=True, check=False
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", ""), 2, "error: task: the text is empty"),
        (("run", "x", "-c", "hybird"), 2, "error: configuration: 'hybird' does not exist; did you mean hybrid"),
        (("run", "x", "--class", "cod"), 2, "error: task class: 'cod' does not exist; did you mean code"),
        (("run", "x", "--model", "gpt-4.2"), 2, "error: model: 'gpt-4.2' does not exist"),
        (("run", "x", "--budget", "lots"), 2, "error: task: budget_usd is 'lots'"),
        (("run", "x", "--budget", "0"), 2, "error: task: budget_usd is '0'"),
        (("run", "x", "--tag", "nonsense"), 2, "error: --tag: 'nonsense' is not name=value"),
        (("run", "--file", "absent.md"), 2, "error: --file: 'absent.md' cannot be read"),
        (("run", "x", "--format", "yaml"), 2, "error: Invalid value for '--format'"),
        (("run", "x"), 1, "error: no endpoint is set that could serve"),
        (("explian", "x"), 2, "error: No such command 'explian'"),
        (("report", "--month", "2026-13"), 2, "error: "),
        (("report", "--month", "2026-10"), 1, "error: month: the ledger has no rows in 2026-10"),
        (("compare", "all-gpt-4.1", "nothing", "--output-tokens", "1M"), 2, "error: configuration: 'nothing'"),
        (("import", "trace", "absent.jsonl", "--model", "gpt-4.1", "--start", "2026-10-01T00:00:00Z"), 2, "error: "),
    ],
)
def test_what_is_wrong_is_one_line_and_a_hint(
    arguments: tuple[str, ...], code: int, message: str, router: Callable[..., tuple[int, str, str]]
) -> None:
    got, out, err = router(*arguments)

    assert got == code, err
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]


def test_a_wrong_key_names_the_variable_and_never_the_key(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    served({"*": Fault(status=401)}, 'key_env = "OFFICE_API_KEY"\n')
    monkeypatch.setenv("OFFICE_API_KEY", "sk-planted-secret-1234567890")
    code, out, err = router("run", "hello")

    assert code == 1
    assert "OFFICE_API_KEY" in err
    assert "planted" not in out + err


def test_a_crossed_budget_has_an_exit_code_of_its_own(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]]
) -> None:
    made = served()
    code, _, err = router("run", "hello", "--budget", "0.0000001")

    assert code == 3
    assert "error: budget: the next call may cost" in err
    assert made.requests == ()


def test_a_database_newer_than_the_program_is_left_alone(
    served: Callable[..., Any], router: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    import sqlite3

    served()
    open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}").close()
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("UPDATE router_version SET version_num = '9999_from_the_future'")
    code, _, err = router("report")

    assert code == 1
    assert "newer" in err
    assert len(err.splitlines()) == 2


@pytest.mark.usefixtures("router")
def test_a_full_disk_is_one_line(served: Callable[..., Any], tmp_path: Path) -> None:
    served()
    (tmp_path / "ledger.db").unlink()  # so that its tables are what does not fit
    import resource

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    ended = subprocess.run(
        [sys.executable, "-m", "router", "run", "hello"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("error: database")


@pytest.mark.usefixtures("router")
def test_ctrl_c_ends_in_one_line_and_leaves_the_row(served: Callable[..., Any], tmp_path: Path) -> None:
    made = served({"*": Fault(hang=True)})
    child = subprocess.Popen([sys.executable, "-m", "router", "run", "hello"], stderr=subprocess.PIPE, cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not made.requests and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)

    assert child.returncode == 130
    said = err.decode().splitlines()
    assert said[0].endswith(": stopped; 1 requests were sent; paid: nothing")
    assert said[1].startswith("possibly billed besides: 1 requests, 0.")
    assert said[2:] == ["error: stopped; what was under way is in the ledger"]
    with open_ledger(os.environ["ROUTER_DATABASE_URL"]) as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
        (row,) = ledger.reader.attempts(run.started.run_id)
    assert run.ended is not None
    assert run.ended.status == "stopped"
    assert row.ended is not None
    assert (row.ended.status, row.ended.possibly_billed) == ("stopped", True)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("report", "--month", ""), "--month"),
        (("explain", "x", "-c", " "), "--configuration"),
        (("run", "x", "--class", ""), "--class"),
        (("fx", "list", "--on", ""), "--on"),
    ],
)
def test_an_option_that_is_given_empty_is_not_one_that_was_left_out(
    router: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], option: str
) -> None:
    code, out, err = router(*arguments)
    assert (code, out) == (2, "")
    assert re.match(rf"error: {option}: '\s*' is not allowed; it takes a value that is not empty\nhint: leave ", err)


def test_a_pipe_that_closes_early_is_no_error(served: Callable[..., Any], tmp_path: Path) -> None:
    served()
    command = f"{sys.executable} -m router explain hello --format json | head -c 1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, cwd=tmp_path, check=False)

    assert ended.stdout == b"{"
    assert b"Traceback" not in ended.stderr


def test_the_demo_does_the_main_job(router: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, _ = router("demo", "--workers", "10", "--ledger", str(tmp_path / "demo.db"))

    assert code == 0
    assert "the answers come from a stand-in server" in out
    assert "own log counts 84 requests" in out  # twice: 30 tasks, and a plan, 10 workers, a merge
    assert "all-gpt-4.1" in out
    assert "Configurations compared" in out
    assert (tmp_path / "demo-report.html").as_uri() in out
    assert (tmp_path / "demo-report.html").is_file()
    with open_ledger(f"sqlite:///{tmp_path / 'demo.db'}") as ledger:
        (group,) = ledger.reader.usage_groups(0, 2**62)
    assert group.sums["attempts"] == 84
