"""`router plan`: the page, the file that can be run again, the picture; asking for the plan, and doing it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reports.plan_page import plan_page
from reports.render import render
from router.client import Router
from router.endpoints.sandbox import Fault
from router.foresight import estimate_plan
from router.task import Task
from tests.new_ledger import new_ledger

Make = Callable[..., Any]
Call = Callable[..., tuple[int, str, str]]
GOLDEN = Path(__file__).parent / "golden"
RULES = """
[configurations.own]
policy = "by_plan"
[[configurations.own.candidates]]
model = "gpt-4.1-nano"
quality = { chat = 0.3, math = 0.3 }
sample_size = 1000
[[configurations.own.candidates]]
model = "gpt-4.1-mini"
quality = { chat = 0.6, math = 0.6 }
sample_size = 1000
[[configurations.own.candidates]]
model = "gpt-4.1"
effort = "high"
reasoning_tokens = 500
quality = { chat = 0.9, math = 0.9 }
sample_size = 1000
"""
STEPS: dict[str, Any] = {
    "task": "Look at the rivers.",
    "steps": [
        {"id": "find", "prompt": "Name the rivers.", "expected_output_tokens": 400},
        {"id": "count", "prompt": "Count them.", "task_class": "math", "depends_on": ["find"], "quality_weight": 3},
        {"id": "say", "prompt": "Say it in one line.", "depends_on": ["find", "count"], "max_output_tokens": 60},
    ],
    "configuration": "own",
    "quality_floor": 0.55,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a router.toml that knows no endpoint, and a plan."""
    (tmp_path / "router.toml").write_text(RULES)
    (tmp_path / "plan.json").write_text(json.dumps(STEPS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", new_ledger(tmp_path / "ledger.db"))
    return tmp_path


@pytest.fixture
def online(folder: Path, bench: Make) -> Callable[..., Any]:
    """Return a function that starts a stand-in server and names it in router.toml."""

    def start(faults: Any = None) -> Any:
        made = bench(faults)
        text = (folder / "router.toml").read_text()
        endpoint = f'\n[endpoints.sandbox]\nbase_url = "{made.server.base_url}"\nprice_list = "vendor"\n'
        (folder / "router.toml").write_text(text + endpoint)
        return made

    return start


@pytest.mark.usefixtures("folder")
def test_the_page_is_as_it_was_agreed(golden: Callable[[Path, str], None]) -> None:
    router = Router(environ={})
    task = Task.of(STEPS["task"], **{name: value for name, value in STEPS.items() if name != "task"})
    market = router.market(datetime(2026, 9, 1, tzinfo=UTC))  # prices of that day stay what they were
    page = plan_page(estimate_plan(market, router.settings, task, with_frontier=True))
    golden(GOLDEN / "plan.txt", render(page, "text", width=80))


@pytest.mark.usefixtures("folder")
def test_the_page_fits_80_columns(command_line: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("free.json").write_text(json.dumps(STEPS["steps"]))
    for configuration in ("own", "by_class", "all-gpt-4.1"):
        code, out, err = command_line("plan", "--plan", "free.json", "-c", configuration, "--frontier")
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80


@pytest.mark.usefixtures("folder")
def test_the_json_is_a_plan_that_loads_again_and_says_the_same(command_line: Call) -> None:
    code, out, _ = command_line("plan", "--plan", "plan.json", "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert document["quality_floor"] == 0.55
    assert [step["id"] for step in document["steps"]] == ["find", "count", "say"]
    assert document["steps"][1]["quality_weight"] == 3
    assert {step["assignment"]["model"] for step in document["steps"]} <= {"gpt-4.1-nano", "gpt-4.1-mini", "gpt-4.1"}
    assert document["assignment"]["method"] in {"exact", "greedy"}
    low, expected, high = map(float, document["assignment"]["cost_usd"])
    assert low < expected < high
    Path("again.json").write_text(out)
    assert command_line("plan", "--plan", "again.json", "--format", "json")[1] == out


@pytest.mark.usefixtures("folder")
def test_the_picture_has_a_box_a_call_and_an_arrow_a_dependency(command_line: Call) -> None:
    code, out, _ = command_line("plan", "--plan", "plan.json", "--format", "mermaid")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "flowchart TD")
    assert [line for line in lines if "-->" in line] == [
        "  s0 --> s1",
        "  s0 --> s2",
        "  s1 --> s2",
        "  s2 --> merge",
    ]
    assert sum('["' in line for line in lines) == 4
    assert "<br/>gpt-4.1" in lines[1]


@pytest.mark.usefixtures("folder")
def test_a_picture_of_odd_names_stays_one(command_line: Call) -> None:
    Path("odd.json").write_text(json.dumps([{"id": 'a"]-->b<x>#', "prompt": "x"}]))
    code, out, _ = command_line("plan", "--plan", "odd.json", "--format", "mermaid", "-c", "by_class")
    assert code == 0
    assert 's0["a#quot;]--#gt;b#lt;x#gt;#35;: chat<br/>' in out


@pytest.mark.usefixtures("folder")
def test_html_has_the_frontier_as_a_chart(command_line: Call) -> None:
    code, out, _ = command_line("plan", "--plan", "plan.json", "--frontier", "--format", "html")
    assert code == 0
    assert "<svg" in out
    assert "Quality against cost of the whole plan" in out


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("x", "-c", "owm"), "error: configuration: 'owm' does not exist; did you mean own?", 2),
        (
            ("--plan", "plan.json", "--budget", "0.000001"),
            "error: budget_usd: 0.000001 USD is not enough; the cheap",
            3,
        ),
        (
            ("1. a\n2. b", "-c", "all-gpt-4.1", "--budget", "0.0000001", "--output", "page.txt"),
            "error: budget_usd: 0.0000001 USD is not enough; the plan is expected to cost 0.0",
            3,
        ),
        (
            ("--plan", "plan.json", "--latency", "inf"),
            "error: task: latency_objective_s is inf; Input should be a fin",
            2,
        ),
        (("--plan", "plan.json", "--quality-floor", "0.95"), "error: quality_floor: 0.95 cannot be reached; the be", 3),
        (("--plan", "circle.json"), "error: steps: the steps ", 2),
        (("--plan", "dangling.json"), "error: steps: step 'a' depends on 'z', which does not exist", 2),
        (("--plan", "many.json"), "error: steps: it has 10000 steps; 1 to 1000 are allowed", 2),
        (("--plan", "missing.json"), "error: --plan: ", 2),
        (
            ("--plan", "plan.json", "--class", "code"),
            "error: --class: 'code' is given with --plan, whose steps have",
            2,
        ),
        (("--plan", "plan.json", "--latency", "-1"), "error: task: latency_objective_s is -1.0; ", 2),
    ],
)
def test_bad_input_is_one_clear_line(
    folder: Path, command_line: Call, arguments: tuple[str, ...], message: str, code: int
) -> None:
    circle = [{"id": "a", "prompt": "x", "depends_on": ["b"]}, {"id": "b", "prompt": "x", "depends_on": ["a"]}]
    (folder / "circle.json").write_text(json.dumps(circle))
    (folder / "dangling.json").write_text(json.dumps([{"id": "a", "prompt": "x", "depends_on": ["z"]}]))
    (folder / "many.json").write_text(json.dumps([{"id": f"s{number}", "prompt": "x"} for number in range(10_000)]))
    found, _, err = command_line("plan", *arguments)
    lines = [line for line in err.splitlines() if not line.startswith("hint: ")]
    assert found == code
    assert len(lines) == 1
    assert lines[0].startswith(message)


def test_asking_pays_one_call_and_resuming_does_the_rest(online: Callable[..., Any], command_line: Call) -> None:
    made = online()
    text = "1. Describe rivers.\n2. Describe lakes.\n3. Describe seas."
    code, out, err = command_line("plan", text, "-c", "own", "--ask", "--format", "json")
    assert code == 0
    assert len(made.requests) == 1
    document = json.loads(out)
    run_id = document["assignment"]["run_id"]
    assert document["assignment"]["is_expected"] is False
    assert f"to go on with this plan: router runs resume {run_id}" in err
    assert "Receipt of run" in err
    code, out, _ = command_line("runs", "resume", run_id)
    assert code == 0
    assert out.strip()
    assert len(made.requests) == 1 + len(document["steps"]) + 1


def test_run_goes_on_with_the_plan_that_it_shows(online: Callable[..., Any], command_line: Call) -> None:
    made = online()
    text = "1. Describe rivers.\n2. Describe lakes.\n3. Describe seas."
    code, out, err = command_line("plan", text, "-c", "own", "--run")
    assert code == 0
    assert out.strip()
    assert "The plan of 3 steps under own" in err
    assert len(made.requests) == 1 + 3 + 1
    assert err.count("Receipt of run") == 1


def test_a_plan_of_ones_own_is_done_as_it_was_shown(online: Callable[..., Any], command_line: Call) -> None:
    made = online()
    code, shown, _ = command_line("plan", "--plan", "plan.json", "--format", "json")
    models = [step["assignment"]["model"] for step in json.loads(shown)["steps"]]
    assert code == 0
    assert made.requests == ()
    code, out, err = command_line("plan", "--plan", "plan.json", "--run", "--quiet")
    assert (code, err) == (0, "")
    assert out.strip()
    assert [entry.model for entry in made.requests[:3]] == models


def test_what_is_run_is_shown_in_the_file_that_was_named(
    online: Callable[..., Any], command_line: Call, folder: Path
) -> None:
    online()
    code, out, err = command_line("plan", "--plan", "plan.json", "--run", "--quiet", "--output", "page.txt")
    assert (code, err) == (0, "")
    assert out.startswith("All 3 results taken together")
    assert (folder / "page.txt").read_text().startswith("The plan of 3 steps under own")


def test_more_budget_is_advised_only_where_the_budget_binds(online: Callable[..., Any], command_line: Call) -> None:
    made = online()
    for limit, ending in (("budget_usd", " --budget MORE\n"), ("latency_objective_s", "\n")):
        Path("limited.json").write_text(json.dumps({**STEPS, limit: 0.000001}))
        code, out, err = command_line("run", "--plan", "limited.json")
        assert (code, out) == (3, "")
        assert re.search(rf"router runs resume \S+{ending}", err)
    code, _, err = command_line("run", "x", "-c", "all-gpt-4.1", "--budget", "0.0000001")
    assert (code, made.requests) == (3, ())
    assert " of 0.0000001 is left" in err


def test_a_limit_that_cannot_be_held_is_refused_before_a_step_is_begun(
    online: Callable[..., Any], command_line: Call
) -> None:
    made = online()
    code, out, err = command_line("plan", "--plan", "plan.json", "--run", "--quality-floor", "0.99", "--quiet")
    assert (code, out) == (3, "")
    assert err.startswith("error: quality_floor: 0.99 cannot be reached")
    assert made.requests == ()


def test_nonsense_three_times_is_one_clear_line_and_its_receipt(online: Callable[..., Any], command_line: Call) -> None:
    made = online({"*": Fault(bad_plan="truncated")})
    code, out, err = command_line("plan", "1. a\n2. b\n3. c", "-c", "own", "--ask")
    assert (code, out) == (1, "")
    assert len(made.requests) == 3
    assert "error: plan: " in err
    assert " in 3 tries" in err
    assert "Receipt of run" in err
