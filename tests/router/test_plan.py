"""The plan: what is accepted, what is repaired, what is refused, and that a cut plan is never taken for a whole one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import PlanError
from router.plan import PlanCut, merge_messages, parse_plan, separable_parts, worker_messages
from router.result import Step

TWO = [
    {"id": "a", "class": "code", "prompt": "do a", "depends_on": []},
    {"id": "b", "class": "write", "prompt": "do b", "depends_on": ["a"]},
]


def plan_text(tasks: list[dict[str, Any]], **more: Any) -> str:
    return json.dumps({"tasks": tasks, "n_tasks": len(tasks), **more})


GOOD = plan_text(TWO)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here is the plan you asked for:\n{GOOD}\nTell me if you need more.",
        f"<think>maybe {{'tasks': []}} or so</think>{GOOD}",
        f'{{"note": "a first object"}} {GOOD}',
        GOOD.replace("]}]", "],}],"),
        GOOD.replace('"', "'"),
        GOOD.replace('"depends_on": []', '"depends_on": [] // first\n'),
        f'I first thought of {{"tasks": [], "n_tasks": 0}} but settled on {GOOD}',
    ],
    ids=["strict", "fence", "prose", "thinking", "two objects", "commas", "quotes", "comment", "last one counts"],
)
def test_a_whole_plan_is_read(answer: str) -> None:
    plan = parse_plan(answer, "stop", max_steps=10)

    assert plan.steps == (Step("a", "code", "do a"), Step("b", "write", "do b", ("a",)))


def test_steps_come_in_dependency_order() -> None:
    plan = parse_plan(plan_text([TWO[1], TWO[0]]), "stop", max_steps=10)

    assert [step.step_id for step in plan.steps] == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I cannot help with that.", "no JSON object"),
        ("[]", "plan: "),
        (plan_text([]), "0 steps; 1 to 10 are allowed"),
        (plan_text([TWO[0], TWO[0]]), "'a' is used twice"),
        (plan_text([{**TWO[0], "depends_on": ["z"]}]), "depends on 'z', which does not exist"),
        (plan_text([{**TWO[0], "depends_on": ["b"]}, TWO[1]]), "wait for each other"),
        (plan_text([{**TWO[0], "prompt": ""}]), "prompt"),
        (plan_text(TWO[:1], n_tasks=True), "n_tasks: Input should be a number, not a boolean"),
        (plan_text([{"id": str(n), "class": "chat", "prompt": "x"} for n in range(11)]), "11 steps; 1 to 10"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(answer: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_plan(answer, "stop", max_steps=10)


def test_an_answer_cut_at_its_limit_is_never_read() -> None:
    with pytest.raises(PlanCut, match="token limit"):
        parse_plan(GOOD, "length", max_steps=10)


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"tasks": TWO}),
        json.dumps({"tasks": TWO, "n_tasks": 3}),
        '{"n_tasks": 2, "tasks": [{"id": "a", "class": "code", "prompt": "do a"}, {"id": "b", "prompt": "do',
    ],
    ids=["no count", "count too high", "count first, then cut"],
)
def test_a_plan_without_its_count_is_taken_as_cut(answer: str) -> None:
    with pytest.raises(PlanCut):
        parse_plan(answer, "stop", max_steps=10)


@given(st.integers(1, len(GOOD) - 1))
def test_law_no_cut_of_a_plan_is_accepted(length: int) -> None:
    """Whatever is missing at the end, and even where the upstream does not say so, a cut plan is not accepted."""
    with pytest.raises(PlanError):
        parse_plan(GOOD[:length], "stop", max_steps=10)


def test_an_unknown_class_becomes_chat() -> None:
    plan = parse_plan(plan_text([{**TWO[0], "class": "wizardry"}]), "stop", max_steps=10)

    assert plan.steps[0].task_class == "chat"


def test_separable_parts_counts_list_items() -> None:
    assert separable_parts("Do this:\n1. one\n2) two\n - three\n* four\nno item") == 4
    assert separable_parts("One question. Is 3.5 a number?") == 0


def test_a_worker_sees_the_results_it_depends_on_and_nothing_else() -> None:
    (message,) = worker_messages(Step("b", "write", "do b", ("a",)), {"a": "A!", "c": "C!"})

    assert message["content"] == "Result of a:\nA!\n\ndo b"


def test_the_merge_names_every_result() -> None:
    _, user = merge_messages("the task", [("a", "A!"), ("b", "B!")])

    assert user["content"] == "Task:\nthe task\n\nMerge the results below into one answer.\n\n[a]\nA!\n\n[b]\nB!"
