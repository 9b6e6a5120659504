"""The command line where its surroundings fail it: closed, full and narrow streams, readers that leave, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from router.cli import main
from router.cli.amounts import rate_of
from router.cli.output import printable_on, say
from router.endpoints.sandbox import Fault, Sandbox, SandboxThread
from router.ledger import open_ledger
from tests.new_ledger import new_ledger

Shell = Callable[..., subprocess.CompletedProcess[str]]
ROUTER = f"{sys.executable} -m router"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SandboxThread]:
    """Start a stand-in server, with a router.toml that points to it."""
    with SandboxThread(Sandbox()) as running:
        settings(tmp_path, running)
        yield running


def settings(folder: Path, server: SandboxThread, extra: str = "") -> None:
    (folder / "router.toml").write_text(
        'default_configuration = "all-gpt-4.1"\n[retry]\nattempts = 1\n'
        f'[endpoints.sandbox]\nbase_url = "{server.base_url}"\nprice_list = "vendor"\nlast_list = true\n{extra}'
    )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a function that runs a line of bash in an empty folder; `router` in it is the command line."""

    def run(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
        ours = {"ROUTER_DATABASE_URL": new_ledger(tmp_path / "ledger.db")}
        command = ["bash", "-c", line.replace("router ", f"{ROUTER} ")]
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            check=False,
            env={**os.environ, **ours, **environ},
        )

    return run


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("router fx list > /dev/full", "error: standard output: cannot be written: No space left on device"),
        ("router fx list >&-", "error: standard output: cannot be written: Bad file descriptor"),
        ("router --help > /dev/full", "error: standard output: cannot be read or written: No space left on device"),
        ("router --help >&-", "error: standard output: cannot be read or written: Bad file descriptor"),
        ("router --version > /dev/full", "error: standard output: cannot be written: No space left on device"),
        ("router prices check > /dev/full", "error: standard output: cannot be written: No space left on device"),
        ("router run <&-", "error: task: standard input cannot be read: Bad file descriptor"),
    ],
)
def test_a_stream_that_cannot_be_used_is_one_line(shell: Shell, line: str, error: str) -> None:
    done = shell(line)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first == error
    assert second.startswith("hint: ")


@pytest.mark.parametrize(
    "line", ["router fx list", "router fx list --format json", "router --help", "router fx list --format csv 2>&1"]
)
def test_a_reader_that_has_left_is_no_error(shell: Shell, line: str) -> None:
    done = shell(f"(sleep 0.5; {line}) | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("redirection", ["2>&-", "2> /dev/full"])
def test_talk_that_nobody_can_hear_stops_nothing(shell: Shell, redirection: str) -> None:
    done = shell(f"router fx list CNY/USD --format csv {redirection}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "CNY/USD" in done.stdout
    assert shell(f"router fx list nothing {redirection}").returncode == 1


def test_a_ledger_never_takes_a_closed_streams_number(shell: Shell, server: SandboxThread) -> None:
    done = shell("router run hello >&- 2>&- <&-; router report --format json 2>&1")
    assert done.returncode == 1
    assert "the ledger has no rows" in done.stdout
    assert server.log == ()


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_a_run_whose_answer_could_not_be_written_is_not_begun(shell: Shell, server: SandboxThread, where: str) -> None:
    done = shell(f"router run hello >{where}")
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: cannot be written: ")
    assert "; nothing was sent\nhint: " in done.stderr
    assert server.log == ()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_paid_run_whose_answer_is_lost_names_itself(
    shell: Shell, server: SandboxThread, tmp_path: Path, form: str
) -> None:
    full = "truncate -s 8M answer; ulimit -f 8192"  # KiB: not a byte more, while the ledger is far smaller
    done = shell(f"{full}; router run hello --format {form} >> answer")
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
    assert done.returncode == 1
    assert len(server.log) == 1
    assert f"run: {run.started.run_id}\n" in done.stderr
    assert done.stderr.splitlines()[-2] == "error: standard output: cannot be written: File too large"


def test_a_paid_run_whose_reader_has_left_is_no_error(shell: Shell, server: SandboxThread) -> None:
    done = shell("router run hello --format json | true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr, len(server.log)) == (0, "", 1)


def test_the_demo_prints_on_a_narrow_stream(shell: Shell) -> None:
    done = shell("router demo --workers 2", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "Configurations compared" in done.stdout


def test_help_prints_on_a_narrow_stream(shell: Shell) -> None:
    done = shell("router sandbox --help", PYTHONIOENCODING="latin-1")  # of the three dots it has none
    assert (done.returncode, done.stderr) == (0, "")
    assert "--fault MODEL:KEY=VALUE,?" in done.stdout


def test_json_loses_nothing_on_a_narrow_stream(shell: Shell, server: SandboxThread) -> None:
    line = "router run --format json --plan never 'Répète: naïve 🙂'"
    narrow, wide = (shell(line, PYTHONIOENCODING=encoding) for encoding in ("ascii", "utf-8"))
    assert (narrow.returncode, wide.returncode, len(server.log)) == (0, 0, 2)
    assert narrow.stdout.isascii()
    answers = [json.loads(done.stdout)["text"] for done in (narrow, wide)]
    assert answers[0] == answers[1]


def test_json_of_a_page_loses_nothing_on_a_narrow_stream(shell: Shell) -> None:
    assert shell("router fx set CNY/USD=0.14 --source 'Vertrag für 🙂' --on 2026-10-01").returncode == 0
    done = shell("router fx list CNY/USD --on 2026-10-01 --format json", PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    (row,) = json.loads(done.stdout)["tables"]["rates"]["rows"]
    assert row["source"] == "Vertrag für 🙂"


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_a_run_says_what_it_cost_and_completes_its_row(tmp_path: Path, name: str, code: int) -> None:
    with SandboxThread(Sandbox(faults={"*": Fault(hang=True)})) as server:
        settings(tmp_path, server)
        url = new_ledger(tmp_path / "ledger.db")
        child = subprocess.Popen(
            [sys.executable, "-m", "router", "run", "hello"],
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "ROUTER_DATABASE_URL": url},
        )
        give_up = time.monotonic() + 30
        while not server.log and time.monotonic() < give_up:
            time.sleep(0.05)
        child.send_signal(getattr(signal, name))
        _, err = child.communicate(timeout=30)
    assert child.returncode == code
    stopped, besides, last = err.decode().splitlines()
    assert stopped.endswith(": stopped; 1 requests were sent; paid: nothing")
    assert besides.startswith("possibly billed besides: 1 requests, 0.00")
    assert last == "error: stopped; what was under way is in the ledger"
    with open_ledger(url) as ledger:
        (run,) = ledger.reader.runs(0, 2**62)
        (row,) = ledger.reader.attempts(run.started.run_id)
    assert run.ended is not None
    assert row.ended is not None
    assert (run.ended.status, row.ended.status, row.ended.possibly_billed) == ("stopped", "stopped", True)


def test_a_run_that_fails_after_paying_prints_the_receipt(shell: Shell, tmp_path: Path) -> None:
    with SandboxThread(Sandbox(faults={"gpt-4.1": Fault(bad_plan="truncated")})) as server:
        settings(tmp_path, server)
        done = shell("router run --plan always 'Write a line on each: 1. Lisbon 2. Porto 3. Braga'")
        paid = [(each.input_tokens, each.output_tokens) for each in server.log]
    cost = sum((Decimal(2 * took + 8 * gave) for took, gave in paid), Decimal(0)) / 10**6  # USD 2 and 8 per Mtok
    assert (done.returncode, done.stdout) == (1, "")
    assert "status: failed\n" in done.stderr
    assert "configuration: all-gpt-4.1\n" in done.stderr
    assert f"list cost: {cost.normalize():f}" in done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()[-2:]] == ["error", "hint"]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1", 1),
        ("1e-9", Decimal("0.000000001")),
        ("1e9", 10**9),
        ("1000000001", None),
        ("9e-10", None),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("one", None),
        ("", None),
        ("1e9999999", None),
        ("1e-9999999", None),
        ("0e9999999", None),
        ("0.1" + "0" * 27, Decimal("0.1")),
        ("0.1" + "0" * 28, None),
    ],
)
def test_a_rate_is_a_number_that_can_be_worked_with(text: str, rate: Decimal | int | None) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--settlement", "CNY=1e9999999"),
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--settlement", "CNY=1e-9999999"),
        ("compare", "gpt-4.1", "--output-tokens", "1e9999999"),
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--requests", "9" * 40),
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--calls", "1:1e9999999"),
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--at", "0001-01-01", "--timezone", "Asia/Tokyo"),
        ("compare", "gpt-4.1", "--output-tokens", "1M", "--at", "9999-12-31", "--timezone", "America/New_York"),
        ("prices", "list", "--on", "0001-01-01"),
        ("fx", "set", "CNY/USD=1e9999999"),
        ("fx", "set", "CNY/USD=1", "--on", "0001-01-01"),
        ("fx", "list", "--on", "9999-12-31"),
        ("run", "x", "--budget", "1e-9999999"),
        ("run", "x", "--budget", "1e9999999"),
        ("run", "x", "--max-output-tokens", "9" * 30),
        ("import", "trace", "absent", "--model", "gpt-4.1", "--start", "0001-01-01T00:00:00+14:00"),
    ],
    ids=" ".join,
)
def test_a_number_or_day_beyond_all_bounds_is_wrong_usage(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", new_ledger(tmp_path / "ledger.db"))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]
    assert len(err) < 500


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--volume", "1e9999999"), 2),
        (("--cache-share", "1e-9999999"), 2),
        (("--batch-share", "1e-9999999"), 2),
        (("--fx", "CNY/USD=1e9999999"), 2),
        (("--price", "gpt-4.1=x1e9999999"), 2),
        (("--discount", "openai=1e-9999999"), 2),
        (("--settlement", "openai=CNY:1e9999999"), 2),
        (("--at", "0001-01-01", "--timezone", "Asia/Tokyo"), 2),
        (("--scenario", "deep.toml"), 1),
    ],
)
def test_a_scenario_beyond_all_bounds_is_one_line(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", new_ledger(tmp_path / "ledger.db"))
    (tmp_path / "deep.toml").write_text(f"volume = {'[' * 3000}")
    (tmp_path / "trace.jsonl").write_text('{"timestamp": 0, "input_length": 9, "output_length": 9, "hash_ids": [0]}\n')
    with pytest.raises(SystemExit) as ended:
        main(("import", "trace", "trace.jsonl", "--model", "gpt-4.1", "--start", "2026-10-01"))
    assert ended.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(("whatif", "--month", "2026-10", *arguments))
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (code, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]
    assert len(err) < 500


def test_a_link_that_leads_in_a_circle_is_one_line(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    done = shell("router compare gpt-4.1 --output-tokens 1 --output circle")
    assert done.returncode == 1
    assert done.stderr.startswith("error: --output: 'circle' cannot be written: ")
    assert len(done.stderr.splitlines()) == 2


def test_what_a_stream_cannot_write_becomes_a_question_mark() -> None:
    with Path(os.devnull).open("w", encoding="ascii") as narrow:
        assert printable_on(narrow, "né \udcff") == "n? ?"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "gbk"])
def test_a_minus_and_a_lower_bound_keep_their_meaning_where_the_stream_lacks_the_sign(encoding: str) -> None:
    with Path(os.devnull).open("w", encoding=encoding) as narrow:
        for text in ("−69.4 %", "≥ 5.00", "–"):
            shown = printable_on(narrow, text)
            assert len(shown) == len(text)
            assert shown[0] in "−-≥>–"  # never "?"


def test_what_is_said_of_others_words_never_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("error: file a\x1b[2Jb\u202ec\x9b.csv\nhint: a second line stays one")
    assert capsys.readouterr().err == "error: file a?[2Jb?c?.csv\nhint: a second line stays one\n"
