"""`router run --plan FILE` and `router runs`: answers on stdout, reasons and how to go on in stderr, runs on record."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from reports.render import render
from router import Plan, TaskStep
from router.cli.plan_file import read_plan
from router.cli.run_progress import ProgressLine, words_of
from router.cli.runs_page import list_page, run_page
from router.endpoints.sandbox import Fault
from router.ledger import open_ledger
from router.ledger.records import RunEnded, RunRow, RunStarted
from router.ledger.run_reader import RunState, RunSums
from router.ledger.tool_calls import ToolCallRow
from router.ledger.tool_records import ToolCallEnded, ToolCallStarted
from router.progress import RunProgress

STEPS = [
    {"id": "a", "prompt": "describe rivers"},
    {"id": "b", "prompt": "describe boom"},
    {"id": "c", "prompt": "compare", "depends_on": ["b"]},
]
SHORT: list[dict[str, Any]] = [
    {"id": "a", "task_class": "write", "prompt": "x", "quality_weight": 2, "expected_output_tokens": 60},
    {"id": "b", "prompt": "y", "depends_on": ["a"], "sees_task": True},
]
Router = Callable[..., tuple[int, str, str]]


@pytest.fixture
def router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Callable[..., tuple[int, str, str]]
) -> Router:
    """Return a function that runs the command line in a folder whose router.toml names a stand-in server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUTER_CONFIG", raising=False)

    return command_line


@pytest.fixture
def served(router: Router, bench: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:  # noqa: ARG001 — its folder
    """Return a function that starts the server with faults and writes the router.toml."""

    def start(faults: Any = None) -> Any:
        made = bench(faults)
        (tmp_path / "router.toml").write_text(
            f'default_configuration = "hybrid"\n[database]\nurl = "{made.database}"\n[retry]\nattempts = 1\n'
            f'[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\nprice_list = "vendor"\nlast_list = true\n'
        )
        return made

    return start


def run_id_in(text: str) -> str:
    found = re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", text)
    assert found is not None, text
    return found.group()


def test_steps_from_a_file_print_each_answer_and_say_what_failed(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    served({"*": Fault(match="boom", status=400)})
    (tmp_path / "steps.jsonl").write_text("\n".join(map(json.dumps, STEPS)) + "\n\n")
    code, out, err = router("run", "--plan", "steps.jsonl", "--no-merge")

    assert code == 0
    assert out.startswith("[a]\n")
    assert "[b]" not in out
    said = err.splitlines()
    assert said[0] == "steps: 1 of 3 succeeded, 2 failed"
    assert said[1].startswith("  b: failed: endpoint sandbox")
    assert said[2] == "  c: failed: not run: b, which it depends on, failed"
    assert "Receipt of run" in err


def test_a_list_of_steps_is_merged_and_json_has_each(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    made = served()
    (tmp_path / "steps.json").write_text(json.dumps(STEPS, indent=1))
    code, out, err = router("run", "Build it.", "--plan", "steps.json", "--format", "json")

    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["text"].startswith("All 3 results taken together")
    assert [(step["step_id"], step["status"], step["error"]) for step in result["steps"]] == [
        ("a", "succeeded", None),
        ("b", "succeeded", None),
        ("c", "succeeded", None),
    ]
    assert len(made.requests) == 4


def test_quiet_says_nothing_on_stderr(served: Callable[..., Any], router: Router, tmp_path: Path) -> None:
    served()
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    code, out, err = router("run", "--plan", "steps.json", "--quiet")

    assert (code, err) == (0, "")
    assert out


def test_quiet_says_nothing_but_the_error_of_a_run_that_failed(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    served({"*": [Fault(match="rivers"), Fault(status=400)]})
    (tmp_path / "steps.json").write_text(json.dumps([{"id": "a", "prompt": "describe boom"}]))
    loud = router("run", "--plan", "steps.json")
    code, out, err = router("run", "--plan", "steps.json", "--quiet")

    assert "Receipt of run" in loud[2]
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"to go on with what it has: router runs resume \S+\nerror: none of 1 steps succeeded; .*\nhint: .*\n", err
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "error: --plan: 'steps.json' holds no step"),
        ("[1", "error: --plan: no JSON: "),
        ('{"id": "a", "prompt": "x"}\n{"id": "b",', "error: --plan: line 2: no JSON: "),
        ('{"id": "a"}', "error: --plan: line 1: prompt: Field required"),
        ('[{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y", "need": []}]', "error: --plan: step 2: need: Extra"),
        ('[{"id": "a", "prompt": "x", "depends_on": ["b"]}]', "error: steps: step 'a' depends on 'b', which does not"),
        (r'{"id": "a\u001b[31m", "prompt": "x"}', "error: --plan: line 1: id: Value error, control characters"),
        ('{"id": "a", "prompt": "x", "extra": {"model": "b"}}', "error: --plan: line 1: extra: Value error, model is"),
        ("[7]", "error: --plan: step 1: it: Input should be a valid dictionary"),
        ('{"steps": [', "error: --plan: line 1: no JSON: "),
        ('{\n"steps": [\n{"id" "a"}]}', "error: --plan: no JSON: Expecting ':' delimiter: line 3"),
        ('{"steps": []}', "error: --plan: 'steps.json' holds no step"),
        ('{"steps": {}}', "error: --plan: steps is '{}'; a list is allowed"),
        ('{"steps": [], "task": 7}', "error: --plan: task is '7'; a text is allowed"),
        ('{"steps": [], "budget": 7}', "error: --plan: key: 'budget' does not exist; did you mean budget_usd"),
        (f'{{"steps": {json.dumps(STEPS)}, "budget_usd": "lots"}}', "error: task: budget_usd is 'lots'"),
        ('{"steps": [{"id": "a"}]}', "error: --plan: step 1: prompt: Field required"),
        ('{"tasks": [{"id": "a", "class": 7, "prompt": "x"}], "n_tasks": 1}', "error: --plan: task 1: task_class: "),
        (f'{{"tasks": {json.dumps(STEPS)}, "n_tasks": 4}}', "error: --plan: n_tasks is 4, but there are 3 tasks"),
        (f'{{"tasks": {json.dumps(STEPS)}}}', "error: --plan: n_tasks is None, but there are 3 tasks"),
        (f'{{"tasks": {json.dumps(STEPS[:1])}, "n_tasks": true}}', "error: --plan: n_tasks is True, but there are 1 t"),
        (
            '[{"id": "a", "prompt": "x", "candidates": ["gpt-4.2"]}]',
            "error: steps: step 'a': candidates: model: 'gpt-4.2'",
        ),
        ('[{"id": "a", "prompt": "x", "class": "cod"}]', "error: steps: step 'a': class: 'cod' does not exist"),
        ('[{"id": "a", "prompt": "x", "depends_on": ["a"]}]', "error: steps: the steps a → a wait for each other"),
        ('[{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "x"}]', "error: steps: step id 'a' is used twice"),
        (
            json.dumps([{"id": str(n), "prompt": "x"} for n in range(10_000)]),
            "error: steps: it has 10000 steps; 1 to 1000",
        ),
    ],
)
def test_steps_that_are_wrong_are_one_line_and_a_hint(
    served: Callable[..., Any], router: Router, tmp_path: Path, text: str, message: str
) -> None:
    made = served()
    (tmp_path / "steps.json").write_text(text)
    code, out, err = router("run", "--plan", "steps.json")

    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert "Traceback" not in err
    assert made.requests == ()


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SHORT),
        "\n".join(map(json.dumps, SHORT)),
        json.dumps({"steps": [{**SHORT[0], "assignment": {"model": "m"}}, SHORT[1]], "assignment": {"total_usd": "1"}}),
        json.dumps({"task": "Write it.", "merge": True, "steps": SHORT}, indent=1),
        json.dumps(
            {
                "tasks": [{"id": "a", "class": "write", "prompt": "x", "weight": 2, "output_tokens": 60}, SHORT[1]],
                "n_tasks": 2,
            }
        ),
    ],
    ids=["list", "lines", "object", "object over lines", "an orchestrator's"],
)
def test_each_form_of_a_plan_s_file_is_the_same_plan(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)

    steps = read_plan(path).options["steps"]
    assert steps == tuple(TaskStep.model_validate(step) for step in SHORT)


def test_a_plan_s_file_says_what_is_asked_for_and_the_command_line_goes_before_it(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    made = served()
    plan = {"merge": False, "configuration": "all-gpt-4.1", "budget_usd": 0.5, **Plan.chain("search").written()}
    (tmp_path / "plan.json").write_text(json.dumps({"task": "Which one?", **plan}))
    alone = json.loads(router("run", "--plan", "plan.json", "--format", "json", "--run-key", "a")[1])
    said = ("--configuration", "hybrid", "--merge", "--format", "json")
    over = json.loads(router("run", "That one?", "--plan", "plan.json", *said)[1])

    assert (alone["text"], alone["steps"][0]["text"]) == (alone["steps"][0]["text"], alone["text"])
    assert over["text"].startswith("All 1 results taken together")
    assert [request.model for request in made.requests] == ["gpt-4.1", "deepseek-v3.2", "kimi-k2"]
    with made.ledger() as ledger:
        document = json.loads(ledger.run_reader.request(alone["run_id"]))
    assert (document["messages"][0]["content"], document["budget_usd"]) == ("Which one?", "0.5")


@pytest.mark.parametrize(("said", "shown"), [("sometimes", "sometimes"), ("x" * 5000, "x" * 80)])
def test_a_plan_that_is_neither_a_word_nor_a_file_is_one_line(
    served: Callable[..., Any], router: Router, said: str, shown: str
) -> None:
    made = served()
    code, out, err = router("run", "x", "--plan", said)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: --plan: '{shown}' is no file that is there, nor auto, always or never\nhint: ")
    assert made.requests == ()


def test_a_step_is_a_line_whatever_separators_its_text_has(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    """JSON allows these inside a text as they are; what divides JSON lines is the line feed alone."""
    made = served()
    (tmp_path / "steps.json").write_text(
        '{"id": "a", "prompt": "x\u2028y\u2029z\u0085w"}\n{"id": "b", "prompt": "x"}\n'
    )
    code, out, _ = router("run", "--plan", "steps.json", "--no-merge")

    assert code == 0
    assert out.startswith("[a]\n")
    assert len(made.requests) == 2


def test_runs_are_listed_shown_and_gone_on_with(served: Callable[..., Any], router: Router, tmp_path: Path) -> None:
    made = served({"*": Fault(match="boom", status=400)})
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    assert router("run", "hello", "--plan", "never")[0] == 0
    run_id = run_id_in(router("run", "--plan", "steps.json", "--run-key", "mine")[2])
    code, out, err = router("runs", "list", "--status", "partial")
    assert (code, err) == (0, "")
    (line,) = [line for line in out.splitlines() if run_id in line]
    assert line.split()[1] == "partial"
    assert "mine" in line
    assert json.loads(router("runs", "list", "--format", "json")[1])["footer"]["runs"] == 2
    assert json.loads(router("runs", "list", "--last", "1", "--format", "json")[1])["footer"]["runs"] == 1

    shown = router("runs", "show", run_id)[1]
    assert "not run: b, which it depends on, failed" in shown
    assert f"router runs resume {run_id} goes on with it" in shown
    made.set_faults({})
    sent = len(made.requests)
    code, out, err = router("runs", "resume", run_id)
    assert code == 0
    assert out.startswith("All 3 results")
    assert "steps: 3 of 3 succeeded, 0 failed" in err
    assert len(made.requests) - sent == 3  # b, c and the merge
    code, out, err = router("runs", "resume", run_id)
    assert code == 0
    assert "there was nothing to resume" in err
    assert router("runs", "cancel", run_id)[2] == f"run {run_id}: has ended already: there is nothing to cancel\n"
    with open_ledger(made.database) as ledger:
        assert len(ledger.reader.runs(0, 2**62)) == 2


@pytest.mark.parametrize("command", ["show", "resume", "cancel"])
def test_an_unknown_run_is_one_line_and_a_hint(served: Callable[..., Any], router: Router, command: str) -> None:
    served()
    run_id = run_id_in(router("run", "hello")[2])
    code, out, err = router("runs", command, run_id[:-1])

    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"error: run: '{run_id[:-1]}' is not in this ledger; did you mean {run_id}?",
        "hint: router runs list shows the last ones",
    ]


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGINT], 130),
        ([signal.SIGTERM], 143),
        ([signal.SIGINT] * 5, 130),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGINT], 143),
    ],
)
@pytest.mark.usefixtures("router")
def test_a_stopped_run_says_what_it_may_have_cost_and_how_it_goes_on(
    served: Callable[..., Any], router: Router, tmp_path: Path, numbers: list[int], code: int
) -> None:
    made = served({"*": [Fault(match="rivers"), Fault(hang=True)]})
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    child = subprocess.Popen(
        [sys.executable, "-m", "router", "run", "--plan", "steps.json", "--no-merge"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and [each.client_stayed for each in made.requests].count(True) < 1:
        time.sleep(0.02)
    time.sleep(0.3)  # so that the answer is on record, too
    for number in numbers:  # an impatient user's too, one after the other
        child.send_signal(number)
        time.sleep(0.01)
    out, err = child.communicate(timeout=30)

    assert (child.returncode, out) == (code, "")
    run_id = run_id_in(err)
    said = err.splitlines()
    assert said[0].startswith(f"run {run_id}: stopped after 1 of 3 steps; 2 requests were sent; paid: 0.0")
    assert re.fullmatch(r"possibly billed besides: 1 requests, 0\.0\d+ USD were reserved for them", said[1])
    assert said[2:] == [
        f"to go on with it: router runs resume {run_id}",
        "error: stopped; what was under way is in the ledger",
    ]
    made.set_faults({})
    ended, out, err = router("runs", "resume", run_id)
    assert ended == 0
    assert out.startswith("[a]\n")
    assert len(made.requests) == 2 + 2


@pytest.mark.usefixtures("router")
def test_w5_the_same_command_in_a_second_terminal_says_who_has_the_run(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    made = served({"*": Fault(latency_ms=1500)})
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    command = ("run", "--plan", "steps.json", "--run-key", "k")
    with subprocess.Popen([sys.executable, "-m", "router", *command, "--quiet"], cwd=tmp_path) as child:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not made.requests:
            time.sleep(0.02)
        code, out, err = router(*command)
        assert child.wait(timeout=30) == 0

    assert (code, out) == (1, "")
    assert re.match(rf"error: run key 'k': its run \S+ is going, held by \S+/{child.pid}$", err, re.MULTILINE)
    assert len(made.requests) == 4


def test_progress_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    spent, doubtful, held, budget = map(Decimal, ("0.5", "0.1", "0.25", "2"))
    now = RunProgress("r", "running", 10, 4, 1, 3, 7, 2, spent, doubtful, held, budget, {"sandbox": 8})
    assert (
        words_of(now)
        == "4/10 steps, 3 running, 1 failed, 2 retries; 0.5000 USD spent, 0.2500 reserved, 0.1000 possibly billed, "
        "of 2.0000"
    )
    line = ProgressLine(is_quiet=False)
    line.watch(now)
    line.stop()
    assert (line.run_id, capsys.readouterr()) == ("r", ("", ""))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = ProgressLine(is_quiet=False)
    shown.watch(now)
    shown.stop()
    assert "4/10 steps" in capsys.readouterr().err
    quiet = ProgressLine(is_quiet=True)
    quiet.watch(now)
    quiet.stop()
    assert capsys.readouterr().err == ""


def test_tool_calls_are_shown_with_their_time_and_those_without_an_end_as_such() -> None:
    """1,500 µs are 1.5 ms; the second has no end on record."""
    run = RunState(RunRow(RunStarted("r", "hybrid", "1", 0), RunEnded("r", "failed", 5)), RunSums())
    begun = ToolCallStarted("t1", "r", "k", 0, "shop", "query", 0, 2, step_id="a")
    calls = (
        ToolCallRow(begun, ToolCallEnded("t1", "failed", 1500, error="no such table")),
        ToolCallRow(replace(begun, tool_call_id="t2", tool="list", step_id=None), None),
    )
    shown = run_page(run, (), (), calls).tables[-1]

    assert shown.name == "tool_calls"
    assert shown.rows == (
        ("shop__query", "a", "failed", Fraction(3, 2), "no such table"),
        ("shop__list", None, "never completed", None, None),
    )


@pytest.mark.parametrize("width", [80, 160])
def test_the_id_of_a_run_stands_on_one_line_beside_a_long_reason(width: int) -> None:
    run_id = "0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
    why = "none of 12 steps succeeded; the first: endpoint sandbox: https://example.com/" + "x" * 90
    run = RunState(RunRow(RunStarted(run_id, "hybrid", "1", 0), RunEnded(run_id, "failed", 5, why)), RunSums())
    lines = render(list_page([run]), "text", width=width).splitlines()

    assert any(line.startswith(run_id) for line in lines)
    assert max(map(len, lines)) <= width


def test_a_pid_is_not_needed_to_see_that_a_run_was_interrupted(
    served: Callable[..., Any], router: Router, tmp_path: Path
) -> None:
    made = served({"*": Fault(hang=True)})
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    child = subprocess.Popen(
        [sys.executable, "-m", "router", "run", "--plan", "steps.json"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(made.requests) < 2:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=30)
    out = router("runs", "list")[1]

    run_id = run_id_in(out)
    assert "interrupted" in out
    shown = router("runs", "show", run_id)[1]
    assert "never completed" in shown
    assert "possibly billed" in shown
    assert router("runs", "cancel", run_id)[2] == f"run {run_id}: its process had ended, so the run is ended now\n"
    assert " stopped " in router("runs", "list")[1]
