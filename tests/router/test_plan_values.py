"""Plans as values: chains of roles, jobs alike, graphs; what a task makes of them; what is none, in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import Plan, Step, Task, TaskStep
from router.context import shared_messages
from router.errors import PlanError, WrongUsage
from router.graph import given_plan
from router.plan import answer_tokens, parse_plan, planner_messages, prompt_tokens, step_task, step_tools
from router.roles import ROLES
from router.step import step_fields, step_of
from router.tokens import estimate_message_tokens

TOOL = {"type": "function", "function": {"name": "clock", "parameters": {}}}


def described(*steps: dict[str, Any]) -> str:
    return json.dumps({"tasks": steps, "n_tasks": len(steps)})


def test_a_chain_is_its_roles_in_order_each_after_all_before_it() -> None:
    plan = Plan.chain("search", "analysis", "report")

    assert [(step.step_id, step.task_class, step.depends_on) for step in plan.steps] == [
        ("search", "research", ()),
        ("analysis", "reason", ("search",)),
        ("report", "write", ("search", "analysis")),
    ]
    assert all(step.sees_task and step.max_input_tokens == 1500 for step in plan.steps)
    assert (plan.merges, plan.last) == (False, plan.steps[2])


def test_each_role_has_its_own_class_models_and_limit() -> None:
    plan = Plan.chain(
        {"role": "search", "candidates": ["kimi-k2"], "max_input_tokens": 900},
        TaskStep(id="odd", prompt="Find what is odd.", task_class="reason", quality_floor=0.7, sees_task=False),
        {"prompt": "Say it in a line.", "max_output_tokens": 60},
        "Search".lower(),
        max_input_tokens=1000,
        quality_weight=2,
    )

    search, odd, line, again = plan.steps
    assert (search.candidates, search.max_input_tokens, search.task_class) == (("kimi-k2",), 900, "research")
    assert (odd.step_id, odd.quality_floor, odd.sees_task, odd.max_input_tokens) == ("odd", 0.7, False, 1000)
    assert (line.step_id, line.task_class, line.max_output_tokens, line.depends_on) == (
        "step3",
        "chat",
        60,
        ("search", "odd"),
    )
    assert (again.step_id, again.prompt, again.quality_weight) == ("search-2", ROLES["search"][1], 2)


def test_jobs_alike_are_independent_and_each_has_its_answer() -> None:
    plan = Plan.map(
        ["good", {"id": "b", "prompt": "bad", "quality_weight": 3}], task_class="classify", candidates=("x",)
    )

    assert plan.steps == (
        Step("job1", "classify", "good", candidates=("x",)),
        Step("b", "classify", "bad", candidates=("x",), quality_weight=3),
    )
    assert (plan.merges, plan.last) == (False, None)
    assert Plan.map(["one"], merge=True).merges is True


@pytest.mark.parametrize(
    "steps",
    [
        {"b": {"prompt": "two", "depends_on": ["a"]}, "a": "one"},
        [TaskStep(id="b", prompt="two", depends_on=("a",)), {"id": "a", "prompt": "one"}],
    ],
)
def test_a_graph_stands_in_dependency_order(steps: Any) -> None:
    plan = Plan.graph(steps)

    assert plan.steps == (Step("a", "chat", "one"), Step("b", "chat", "two", ("a",)))
    assert (plan.merges, plan.last) == (True, plan.steps[1])


CYCLE = {f"s{number}": {"prompt": "x", "depends_on": [f"s{(number + 1) % 500}"]} for number in range(500)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan.chain("serch"), "^role: 'serch' does not exist; did you mean search"),
        (lambda: Plan.chain({"role": "report", "depends_on": []}), "^plan: role 1: depends_on is set"),
        (
            lambda: Plan.chain("search", candidates="kimi-k2"),
            "^plan: role 1: candidates: Input should be a valid tuple",
        ),
        (lambda: Plan.chain(cast("Any", 7)), "^plan: role 1 is '7', of type int"),
        (Plan.chain, "^plan: it has 0 steps; at least 1 is needed"),
        (lambda: Plan.map("abc"), "^plan: jobs is of type str; a list is allowed"),
        (lambda: Plan.map([""]), "^plan: job 1: prompt: String should have at least 1 character"),
        (lambda: Plan.map(["x"], weight=2), "^plan: job 1: weight: Extra inputs are not permitted"),
        (lambda: Plan.map(["x"], quality_weight=0), "^plan: job 1: quality_weight: Input should be greater than 0"),
        (lambda: Plan.map(["x"], quality_weight=float("nan")), "^plan: job 1: quality_weight: Input should be"),
        (lambda: Plan.map(["x"], quality_floor=1.1), "^plan: job 1: quality_floor: Input should be less than"),
        (lambda: Plan.graph(["x"]), "^plan: step 1: id: Field required"),
        (lambda: Plan.graph({"a": TaskStep(id="b", prompt="x")}), "^plan: step 'a' calls itself 'b'"),
        (lambda: Plan.graph([{"id": "a", "prompt": "x"}] * 2), "^plan: step id 'a' is used twice"),
        (
            lambda: Plan.graph({"a": {"prompt": "x", "task_class": "cod"}}),
            "^plan: step 'a': class: 'cod' does not exist",
        ),
        (lambda: Plan.graph({"a": {"prompt": "x", "depends_on": ["z"]}}), "'a' depends on 'z', which does not exist"),
        (lambda: Plan.graph({"a": {"prompt": "x", "depends_on": ["a"]}}), "^plan: the steps a → a wait for each other"),
        (lambda: Plan.graph(CYCLE), r"^plan: the steps (s\d+ → ){8}… \(500 steps\) wait for each other$"),
    ],
)
def test_what_is_no_plan_is_one_line(make: Callable[[], Plan], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        make()


def test_a_task_keeps_a_plan_as_its_steps() -> None:
    chain = Plan.chain("search", "report")
    task = Task.of("Which?", plan=chain)
    kept = Task.model_validate_json(task.model_dump_json(exclude_unset=True))

    assert (task.plan, task.merge) == ("auto", False)
    assert given_plan(task, 10) == given_plan(kept, 10) == chain
    assert given_plan(Task(messages=({"role": "user", "content": "x"},), plan=chain), 10) == chain
    assert Task.of("x", plan=chain, merge=True).merge is True


def test_another_plan_takes_the_place_of_the_one_that_a_task_had() -> None:
    task = Task.of(Task.of("x", plan=Plan.chain("search")), plan=Plan.graph({"a": "one"}))

    assert (given_plan(task, 10), task.merge) == (Plan((Step("a", "chat", "one"),)), True)
    with pytest.raises(WrongUsage, match="both a Plan and steps are given"):
        Task.of("x", plan=Plan.chain("search"), steps=[{"id": "a", "prompt": "x"}])


def test_ten_thousand_steps_are_refused_in_one_line() -> None:
    task = Task.of("x", plan=Plan.map(f"job {number}" for number in range(10_000)))

    with pytest.raises(WrongUsage, match=r"^steps: it has 10000 steps; 1 to 1000 are allowed$"):
        given_plan(task, 1000)


some_steps = st.builds(
    TaskStep,
    id=st.sampled_from(["a", "b"]),
    prompt=st.just("x"),
    task_class=st.sampled_from(["code", "chat"]),
    mcp_tools=st.sampled_from([(), ("s__t",)]),
    tools=st.sampled_from([None, (), ("s__t",)]),
    max_output_tokens=st.none() | st.integers(1, 99),
    extra=st.sampled_from([{}, {"seed": 1}]),
    expected_input_tokens=st.none() | st.integers(1, 99),
    expected_output_tokens=st.none() | st.integers(1, 99),
    quality_weight=st.sampled_from([1.0, 0.5, 1000.0]),
    quality_floor=st.none() | st.sampled_from([0.0, 1.0]),
    candidates=st.sampled_from([(), ("m",)]),
    max_input_tokens=st.none() | st.integers(1, 99),
    sees_task=st.booleans(),
)


@settings(max_examples=30)
@given(some_steps)
def test_law_a_step_is_the_same_when_it_has_been_written_and_read(given_step: TaskStep) -> None:
    step = step_of(given_step)

    assert TaskStep.model_validate(json.loads(json.dumps(step_fields(step)))) == given_step
    assert set(TaskStep.model_fields) - {"id"} == {name for name in Step.__slots__ if name != "step_id"}


def test_a_worker_s_task_has_what_its_step_says_before_what_the_task_says() -> None:
    task = Task.of("Whole.", quality_floor=0.5, candidates=("m",), expected_output_tokens=9, json_output=True)
    own = Step(
        "a", "code", "x", quality_floor=0.9, candidates=("n",), expected_input_tokens=70, expected_output_tokens=8000
    )
    first, second = step_task(task, own, {}, 500), step_task(task, Step("b", "chat", "x"), {}, 500, is_answer=True)

    assert (first.quality_floor, first.candidates, first.expected_input_tokens) == (0.9, ("n",), 70)
    assert (first.expected_output_tokens, first.json_output) == (500, False)
    assert (second.quality_floor, second.candidates, second.expected_output_tokens) == (0.5, ("m",), None)
    assert second.json_output is True


WORD = "seven " * 3000


@pytest.mark.parametrize("shared", [None, "a document " * 500])
def test_a_prompt_keeps_its_limit_and_cuts_answers_alone(shared: str | None) -> None:
    """The answers are far too long; the limit is the step's own, and a shared document is not counted."""
    task = Task.of("The whole question.", shared=shared)
    step = Step("c", "write", "Write it.", ("a", "b"), max_input_tokens=300, sees_task=True)
    asked = step_task(task, step, {"a": WORD, "b": "short"}, 500, 9000)
    words = str(asked.messages[-1]["content"])

    assert asked.messages[:-1] == (() if shared is None else shared_messages(shared))
    assert words.startswith("Task:\nThe whole question.\n\nResult of a:\nseven seven")
    assert words.endswith("tokens]\n\nResult of b:\nshort\n\nWrite it.")
    assert 250 <= estimate_message_tokens(asked.messages[-1:]) <= 300


def test_the_expected_size_of_a_prompt_is_that_of_the_prompt() -> None:
    """What the prompt itself holds, and 40 tokens handed on; of 4,000 as much as the limit leaves."""
    task = Task.of("The whole question.")
    step = Step("c", "write", "Write it.", ("a",), sees_task=True)
    empty = estimate_message_tokens(step_task(task, step, {"a": ""}, 500).messages)

    assert prompt_tokens(task, step, {"a": 40}, 1500) == empty + 40
    assert prompt_tokens(task, step, {"a": 4000}, 1500) == 1500
    assert prompt_tokens(task, Step("c", "write", "x", expected_input_tokens=7), {}, 1500) == 7
    assert answer_tokens(Step("c", "write", "x", expected_output_tokens=700), 500) == 500


# What an orchestrator may say of a step ------------------------------------------------------------------------------

ONE = {"id": "a", "class": "code", "prompt": "do a"}


def test_an_orchestrator_s_steps_have_sizes_weights_and_fewer_tools() -> None:
    told = described(
        {**ONE, "output_tokens": 300, "weight": 2, "tools": ["shop__query"]}, {**ONE, "id": 7, "weight": None}
    )
    plan = parse_plan(told, "stop", max_steps=9, tools=("shop__*", "clock"))
    task = Task.of("x", mcp_tools=("shop__*",), tools=(TOOL,))

    assert plan.steps == (
        Step("a", "code", "do a", expected_output_tokens=300, quality_weight=2, tools=("shop__query",)),
        Step("7", "code", "do a"),
    )
    assert [step_tools(task, step) for step in plan.steps] == [("shop__query",), ("shop__*",)]
    assert [step_task(task, step, {}, 9).tools for step in plan.steps] == [(), (TOOL,)]


@pytest.mark.parametrize(
    ("fields", "tools", "message"),
    [
        ({"tools": ["shop__drop"]}, ("shop__query",), "step 'a': tool 'shop__drop' is none of shop__query"),
        ({"tools": ["shop__*"]}, ("shop__query",), "tool 'shop__\\*' is none of"),
        ({"tools": ["shopkeeper__x"]}, ("shop__*",), "tool 'shopkeeper__x' is none of"),
        ({"output_tokens": 0}, (), "tasks.0.output_tokens: Input should be greater"),
        ({"weight": -1}, (), "tasks.0.weight: Input should be greater"),
        ({"id": "a\u001b[31m"}, (), "tasks.0.id: .*control characters"),
    ],
)
def test_what_an_orchestrator_may_not_say_is_asked_again(
    fields: dict[str, Any], tools: tuple[str, ...], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        parse_plan(described({**ONE, **fields}), "stop", max_steps=9, tools=tools)


def test_tools_of_a_task_that_has_none_are_not_read() -> None:
    assert parse_plan(described({**ONE, "tools": ["web"]}), "stop", max_steps=9).steps == (Step("a", "code", "do a"),)


def test_the_planner_is_told_of_the_tools_where_there_are_some() -> None:
    without, _ = planner_messages("x")
    told, _ = planner_messages("x", None, ("shop__*", "clock"))

    assert "tools" not in without["content"]
    assert 'There are tools: shop__*, clock. "tools" lists those a task needs' in told["content"]
    assert "output_tokens" in without["content"]


def test_a_caller_s_step_names_only_tools_that_its_task_has() -> None:
    step = {"id": "a", "prompt": "x", "tools": ["shop__drop"]}

    with pytest.raises(WrongUsage, match=r"^steps: step 'a': task's tool: 'shop__drop' does not exist"):
        given_plan(Task.of("x", steps=[step], mcp_tools=("shop__query",)), 5)
