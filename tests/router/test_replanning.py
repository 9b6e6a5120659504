"""What is left is planned again: asked once, on record before it is begun, paid once, within budget and time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import PlanError, RunFailed
from router.plan_value import checked_plan
from router.replanning import (
    QUESTION_TOKENS,
    STEP_TOKENS,
    Course,
    lost_steps,
    parse_rest,
    read_rest,
    replaced_ends,
    replanner_messages,
    rest_document,
)
from router.result import Result, StepResult
from router.step import Step
from router.task import Task
from router.tokens import estimate_tokens
from tests.router.conftest import settings_for
from tests.router.killed import Runners
from tests.router.test_placing import CHEAP, GOOD, rules

Make = Callable[..., Any]
WORKER = "deepseek-v3.2"
LISTED = "Do it:\n1. describe rivers\n2. describe boom\n3. compare them (after 1, 2)\n4. describe lakes"
ASKED: dict[str, Any] = {"configuration": "hybrid", "plan": "always"}
BOOM = Fault(match="describe boom", status=400)
FIRST = 1 + 3
"""Requests until the first plan's steps have ended: the plan, t1, t2 that fails, t4; t3 is not run."""


def rest(*tasks: Mapping[str, Any]) -> str:
    """Return the task's words with what the stand-in server is to plan of what is left."""
    return f"{LISTED}\n[rest {json.dumps({'tasks': tasks, 'n_tasks': len(tasks)})}]"


SEAS = {"id": "n1", "class": "write", "prompt": "describe seas", "depends_on": []}
HILLS = {"id": "n2", "class": "write", "prompt": "describe hills", "depends_on": ["t1"]}
END = {"id": "n3", "class": "write", "prompt": "sum up", "depends_on": ["t4", "n1", "n2"]}


def statuses(result: Result) -> dict[str, str]:
    """Return how each step ended."""
    return {step.step_id: step.status for step in result.steps}


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, looking often."""
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.005)


# The question and its answer -----------------------------------------------------------------------------------------

SHORT = checked_plan(
    [
        Step("a", "write", "describe rivers"),
        Step("b", "code", "write it"),
        Step("c", "reason", "compare\nthem", ("a", "b")),
    ],
    max_steps=9,
)
ENDS = {
    "a": StepResult("a", "succeeded", "Rivers run.\n\nThey do."),
    "b": StepResult("b", "failed", error="endpoint own (http://10.0.0.7:80/v1): HTTP 400: no"),
    "c": StepResult("c", "failed", error="not run: b, which it depends on, failed"),
}
COURSE = Course(SHORT.steps, merges=True)


def described(*tasks: Mapping[str, Any]) -> str:
    return json.dumps({"tasks": tasks, "n_tasks": len(tasks)})


def parsed(*tasks: Mapping[str, Any], course: Course = COURSE, most: int = 9) -> tuple[Step, ...]:
    return parse_rest(described(*tasks), "stop", course, ENDS, max_steps=most)


def test_the_question_shows_what_is_finished_what_failed_and_what_was_not_run() -> None:
    system, user = replanner_messages(Task.of("Do it."), SHORT, ENDS)

    assert user["content"] == (
        "Do it.\n\n"
        "Subtasks that are finished:\n"
        "- a (write): describe rivers\n"
        "  result: Rivers run. They do.\n\n"
        "Subtasks that failed:\n"
        "- b (code): write it\n"
        "  reason: endpoint own: HTTP 400: no\n\n"
        "Subtasks that were not run, since one they depend on failed:\n"
        "- c (reason), after a, b: compare them"
    )
    assert 'Reply with one JSON object: {"tasks":' in system["content"]
    assert "Ids must be new" in system["content"]


@pytest.mark.parametrize("count", [3, 60, 1000])
def test_the_question_of_many_long_steps_is_bounded(count: int) -> None:
    """160 tokens a step and 8,000 in all, and for each some 20 of its id, class and marks of what was cut."""
    steps = [Step(f"s{number}", "write", "words of it " * 300) for number in range(count - 1)]
    last = Step("end", "write", "compare " * 300, tuple(step.step_id for step in steps))
    ends = {step.step_id: StepResult(step.step_id, "succeeded", "answer " * 500) for step in steps}
    ends["s0"] = StepResult("s0", "failed", error="reason " * 500)
    ends["end"] = StepResult("end", "failed", error="not run")
    _, user = replanner_messages(Task.of("Do it."), checked_plan([*steps, last], max_steps=1000), ends)

    assert estimate_tokens(user["content"]) < min(STEP_TOKENS * count, QUESTION_TOKENS) + 20 * count
    assert f"- s{count - 2} (write)" in user["content"]
    assert "after s0, s1" in user["content"]


def test_the_answer_s_steps_follow_what_they_build_on() -> None:
    second = {"id": "y", "prompt": "end", "depends_on": ["x", "a"]}

    assert parsed(second, {"id": "x", "prompt": "begin"}) == (
        Step("x", "chat", "begin"),
        Step("y", "chat", "end", ("x", "a")),
    )
    assert parsed() == ()


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{"id": "b", "prompt": "x"}], r"plan: step id 'b' is an earlier step's; it must be new"),
        ([{"id": "a", "prompt": "x"}], r"plan: step id 'a' is an earlier step's"),
        ([{"id": "x", "prompt": "x", "depends_on": ["c"]}], r"plan: step 'x' depends on 'c', which did not succeed"),
        ([{"id": "x", "prompt": "x", "depends_on": ["z"]}], r"plan: step 'x' depends on 'z', which does not exist"),
        ([{"id": "x", "prompt": "x"}] * 2, r"plan: step id 'x' is used twice"),
        ([{"id": "x", "prompt": "x", "depends_on": ["x"]}], r"plan: the steps x → x wait for each other"),
        (
            [{"id": f"x{number}", "prompt": "x"} for number in range(9)],
            r"plan: it has 10 steps; 1 to 9 are allowed",  # one is finished
        ),
    ],
)
def test_an_answer_that_cannot_be_run_says_why(tasks: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parsed(*tasks)


def test_what_was_replaced_is_not_built_on_and_no_id_comes_twice() -> None:
    new = parsed({"id": "x", "prompt": "x", "depends_on": ["a"]})
    course = COURSE.after(*read_rest(json.loads(json.dumps(rest_document(new, replaced_ends(ENDS, new))))))
    ends = {"a": ENDS["a"], "x": StepResult("x", "failed", error="no")}

    assert course == COURSE.after(new, replaced_ends(ENDS, new))
    assert [step.step_id for step in course.plan.steps] == ["a", "x"]
    assert [(end.step_id, end.error) for end in course.results(ends)] == [
        ("a", None),
        ("b", f"{ENDS['b'].error}; replaced by x"),
        ("c", "not run: b, which it depends on, failed; replaced by x"),
        ("x", "no"),
    ]
    for gone in ("b", "c", "x"):
        with pytest.raises(PlanError, match=f"depends on '{gone}', which did not succeed"):
            parse_rest(described({"id": "y", "prompt": "y", "depends_on": [gone]}), "stop", course, ends, max_steps=9)
    with pytest.raises(PlanError, match="'b' is an earlier step's"):
        parse_rest(described({"id": "b", "prompt": "y"}), "stop", course, ends, max_steps=9)


@settings(max_examples=30)
@given(st.data())
def test_law_lost_is_what_can_be_reached_from_a_step_that_failed(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    needs = [data.draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set() for number in range(count)]
    failing = data.draw(st.sets(st.integers(0, count - 1)))
    reached: set[int] = set()
    for number in range(count):
        if needs[number] & (failing | reached):
            reached.add(number)
    steps = [Step(f"s{number}", "chat", "x", tuple(f"s{need}" for need in needs[number])) for number in range(count)]
    over = failing | reached
    ends = {
        f"s{number}": StepResult(f"s{number}", "failed" if number in over else "succeeded") for number in range(count)
    }

    assert lost_steps(checked_plan(steps, max_steps=9), ends) == {f"s{number}" for number in reached}


# Runs ----------------------------------------------------------------------------------------------------------------


async def test_what_a_failed_step_left_undone_is_planned_again(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    async with made.router as router:
        result = await router.route(rest(SEAS, HILLS, END), **ASKED)
        again = await router.resume(result.run_id)

    assert result.status == "succeeded"
    assert result.plan is not None
    assert [step.step_id for step in result.plan.steps] == ["t1", "t4", "n1", "n2", "n3"]
    reasons = {step.step_id: step.error for step in result.steps}
    assert list(reasons) == ["t1", "t2", "t4", "t3", "n1", "n2", "n3"]
    assert (reasons["t2"] or "").endswith("; replaced by n1, n2, n3")
    assert reasons["t3"] == "not run: t2, which it depends on, failed; replaced by n1, n2, n3"
    assert {name for name, reason in reasons.items() if reason is None} == {"t1", "t4", "n1", "n2", "n3"}
    assert result.text.startswith("All 5 results taken together")
    assert "planned again: n1, n2, n3 in place of t2, t3, which failed or were not run" in result.warnings
    assert len(made.requests) == FIRST + 1 + 3 + 1  # the question, n1 to n3, the merge
    assert [call.role for call in result.calls].count("orchestrator") == 3
    with made.ledger() as ledger:
        on_record = [(row.step_id, row.position, error) for row, error in ledger.run_reader.steps(result.run_id)]
    assert on_record == [(step.step_id, at, step.error) for at, step in enumerate(result.steps)]
    assert (again.replayed, again.steps) == (True, result.steps)


async def test_new_steps_read_the_answers_of_finished_ones(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    async with made.router as router:
        result = await router.route(rest(HILLS), **ASKED)
        text = {step.step_id: step.text for step in result.steps}
        by_hand = f"Result of t1:\n{text['t1']}\n\ndescribe hills"
        alone = await router.route(
            by_hand, plan="never", candidates=(WORKER,), task_class="write", max_output_tokens=2048
        )

    assert text["n2"] == alone.text  # the stand-in server's answer is a function of model and prompt


async def test_unmerged_the_answer_is_the_new_last_step_s(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    async with made.router as router:
        result = await router.route(rest(SEAS, HILLS, END), merge=False, **ASKED)

    assert result.text == result.steps[-1].text != ""
    assert (result.status, result.steps[-1].step_id) == ("succeeded", "n3")


@pytest.mark.parametrize(
    ("text", "swarm", "why"),
    [
        (rest(HILLS), {"replan": 0}, "it is switched off"),
        (LISTED.replace(" (after 1, 2)", ""), {}, "nothing depends on what failed"),
        (rest(HILLS), {"run_timeout_s": 0.6}, "the run's time is over"),
    ],
    ids=["0", "leaf", "time"],
)
async def test_it_is_not_asked_where_that_may_not_be(bench: Make, text: str, swarm: dict[str, Any], why: str) -> None:
    slow = [Fault(match="describe lakes", latency_ms=5000)] if "run_timeout_s" in swarm else []
    made = bench({WORKER: [BOOM, *slow]}, swarm=swarm)
    async with made.router as router:
        result = await router.route(text, **ASKED)

    assert result.status == "partial", why
    roles = [call.role for call in result.calls if call.attempts]
    assert roles.count("orchestrator") == (1 if slow else 2)  # the plan, and the merge where there is time
    assert all("replaced" not in (step.error or "") for step in result.steps)
    assert not any("planning again" in each for each in result.warnings)


async def test_a_failing_leaf_is_told_of_where_others_are_lost_and_replaced_with_them(bench: Make) -> None:
    made = bench({WORKER: [BOOM, Fault(match="describe lakes", status=400)]})
    async with made.router as router:
        result = await router.route(rest(HILLS), **ASKED)

    assert result.status == "succeeded"
    assert {step.step_id for step in result.steps if "replaced by n2" in (step.error or "")} == {"t2", "t3", "t4"}


async def test_where_nothing_succeeded_the_new_plan_is_all_there_is(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    only = f"Do it:\n1. describe boom\n2. shorten it (after 1)\n{rest(SEAS).splitlines()[-1]}"
    async with made.router as router:
        result = await router.route(only, **ASKED)
        with pytest.raises(RunFailed, match=r"^none of 2 steps succeeded; the first: endpoint sandbox"):
            await router.route(only.replace(only.splitlines()[-1], "[rest no plan]"), **ASKED)

    assert (result.status, statuses(result)) == ("succeeded", {"t1": "failed", "t2": "failed", "n1": "succeeded"})


async def test_nothing_left_to_do_replaces_nothing_and_a_resume_tries_what_failed(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    async with made.router as router:
        first = await router.route(rest(), **ASKED)
        assert first.status == "partial"
        assert "the orchestrator finds nothing left to do in place of t3" in first.warnings
        assert len(made.requests) == FIRST + 1 + 1
        still = await router.resume(first.run_id)
        assert (still.status, len(made.requests)) == ("partial", FIRST + 2 + 1)  # t2 alone: nobody is asked again
        await asyncio.to_thread(made.set_faults, {})
        again = await router.resume(first.run_id)

    assert (again.status, set(statuses(again).values())) == ("succeeded", {"succeeded"})
    assert len(made.requests) == FIRST + 3 + 3  # t2, t3, and a merge of four


async def test_nonsense_three_times_leaves_the_run_as_it_is_and_is_not_paid_again(bench: Make) -> None:
    made = bench({WORKER: BOOM})
    async with made.router as router:
        first = await router.route(f"{LISTED}\n[rest no plan]", **ASKED)
        (warning,) = [each for each in first.warnings if "planning again failed" in each]
        assert warning.startswith("steps that were not run stay so (t3): planning again failed: plan: no JSON object")
        assert warning.endswith("in 3 tries")
        assert (first.status, statuses(first)["t3"]) == ("partial", "failed")
        assert len(made.requests) == FIRST + 3 + 1
        again = await router.resume(first.run_id)

    assert again.status == "partial"
    assert len(made.requests) == FIRST + 4 + 1  # t2 alone: the three answers and the merge are on record


async def test_it_may_be_done_twice(bench: Make) -> None:
    """What failed is asked for another way each time; the third time it would succeed is never reached with 1."""
    made = bench({WORKER: Fault(match="describe boom", status=400, first=2)}, swarm={"replan": 2})
    async with made.router as router:
        result = await router.route(LISTED, **ASKED)

    assert result.status == "succeeded"
    assert [step.step_id for step in result.steps][4:] == [
        "again-t2",
        "again-t3",
        "again-again-t2",
        "again-again-t3",
    ]
    assert len(made.requests) == FIRST + (1 + 1) + (1 + 2) + 1
    with made.ledger() as ledger:
        assert [row.position for row, _ in ledger.run_reader.steps(result.run_id)] == list(range(8))


async def test_a_budget_that_kept_a_step_from_being_sent_is_not_spent_on_planning(bench: Make) -> None:
    """A worker holds 2,048 × 8 USD per Mtok = 0.0164 USD; what t2 costs leaves less than that of 0.0172 for t3."""
    own = {"policy": "fixed", "orchestrator": WORKER, "worker": "gpt-4.1"}
    named = {"configurations": {"own": own}, "default_configuration": "own"}
    made = bench({"gpt-4.1": BOOM}, swarm={"concurrency": 1}, **named)
    text = "Do it:\n1. describe boom\n2. describe rivers\n3. describe lakes\n4. compare them (after 1, 2)"
    async with made.router as router:
        short = await router.route(text, budget_usd="0.0172", plan="always")
        sent = len(made.requests)
        enough = await router.route(text, budget_usd="0.03", plan="always")

    assert statuses(short) == {"t1": "failed", "t2": "succeeded", "t3": "failed", "t4": "failed"}
    assert (short.steps[2].error or "").startswith("not run: budget: the next call may cost 0.0164")
    assert sent == 1 + 2 + 1  # the plan, t1, t2, the merge
    assert short.cost.settled_usd < Decimal("0.0172")
    assert [step.step_id for step in enough.steps[4:]] == ["again-t1", "again-t4"]


async def test_what_the_merge_needs_is_not_spent_on_planning(bench: Make) -> None:
    """The question may cost 4,096 × 2.5 USD per Mtok = 0.0102 USD, and what it reads.

    Of 0.013 more than that is left, but not beside what is set aside for the merge: it is not sent, and the merge is.
    """
    made = bench({WORKER: BOOM})
    async with made.router as router:
        result = await router.route(rest(SEAS), budget_usd="0.013", **ASKED)

    (warning,) = [each for each in result.warnings if "planning again failed" in each]
    assert warning.startswith(
        "steps that were not run stay so (t3): planning again failed: budget: the next call may cost"
    )
    assert result.cost.settled_usd < Decimal("0.013") - Decimal("0.0110")
    assert result.text.startswith("All 2 results taken together")
    assert len(made.requests) == FIRST + 1


# Together with assignment, and with processes that die ---------------------------------------------------------------


def measured(model: str, share: float) -> dict[str, Any]:
    """Return a candidate whose quality was measured on so many problems that its bound is near the share."""
    kinds = {"write": share, "reason": share, "plan": 0.8, "merge": 0.8}
    return {"model": model, "quality": kinds, "sample_size": 1_000_000}


def models(result: Result) -> dict[str | None, str]:
    """Return the model that each step was asked of last."""
    return {call.step_id: call.model_asked for call in result.calls if call.step_id}


async def test_under_by_plan_new_steps_make_up_for_what_is_done_and_keep_their_models(bench: Make) -> None:
    """Of t1, t4, n1 and n2 one has to be a good one: (0.8 + 3 × 0.3) / 4 = 0.425, and t4 is; n3 fails, and is resumed.

    By themselves n1 and n2 would need one: (0.3 + 0.3) / 2 is under 0.42.
    """
    calm = [Fault(match="You split a task"), Fault(match="You merge partial")]
    made = bench(
        {"*": [*calm, BOOM, Fault(match="sum up", status=400)]},
        **rules(measured(CHEAP, 0.3), measured(GOOD, 0.8), quality_floor=0.42),
    )
    async with made.router as router:
        first = await router.route(rest(SEAS, {**HILLS, "depends_on": ["t4"]}), plan="always")
        partial = await router.route(rest(SEAS, END | {"depends_on": ["t4"]}), plan="always")
    assert first.status == "succeeded"
    on = models(first)
    assert {on["t1"], on["t4"]} == {CHEAP, GOOD}
    assert (on["n1"], on["n2"]) == (CHEAP, CHEAP)

    assert statuses(partial)["n3"] == "failed"  # on both models, the last one the one that is chosen no more
    assert models(partial)["n3"] == GOOD
    await asyncio.to_thread(made.set_faults, {})
    sent = len(made.requests)
    changed = settings_for(made.server.base_url, made.database, **rules(measured(CHEAP, 0.8), measured(GOOD, 0.81)))
    async with Router(changed, environ={}) as router:
        again = await router.resume(partial.run_id)
    assert again.status == "succeeded"
    assert [entry.model for entry in made.requests[sent:]] == [GOOD, CHEAP]  # n3 and the merge
    assert {step.step_id: step.text for step in partial.steps}["n1"] == again.steps[4].text


@pytest.fixture(scope="module")
def runners() -> Any:
    """Return what starts processes that can be killed."""
    with Runners() as started:
        yield started


async def test_killed_in_its_second_plan_a_run_goes_on_with_it(bench: Make, runners: Runners) -> None:
    """By then the failed step would succeed; it is not tried, nobody is asked again, and what is finished is read."""
    made = bench({WORKER: [BOOM, Fault(match="sum up", hang=True)]})
    task = {"work": rest(SEAS, HILLS, END), "run_key": "k", **ASKED}
    process = runners.start(made.server.base_url, made.database, task)
    sent = FIRST + 1 + 3  # the question; n1, n2, and n3 that hangs
    await until(lambda: len(made.requests) == sent)
    os.kill(process, signal.SIGKILL)
    runners.wait(process)
    await asyncio.to_thread(made.set_faults, {})
    async with made.router as router, made.ledger() as ledger:
        result = await router.route(task.pop("work"), **task)
        rows = ledger.reader.attempts(result.run_id)

    assert len(made.requests) == sent + 2  # n3 and the merge
    assert result.status == "succeeded"
    assert result.plan is not None
    assert [step.step_id for step in result.plan.steps] == ["t1", "t4", "n1", "n2", "n3"]
    assert result.text.startswith("All 5 results taken together")
    assert [row.started.step_id for row in rows if row.ended is None] == ["n3"]
    assert len([row for row in rows if row.started.step_id == "t2"]) == 1


async def test_killed_while_it_asks_a_run_tries_first_what_failed(bench: Make, runners: Runners) -> None:
    """That succeeds now, so the first plan goes on, and nobody is asked."""
    made = bench({WORKER: BOOM, "kimi-k2": Fault(match="Subtasks that failed:", hang=True)})
    task = {"work": rest(HILLS), "run_key": "k", **ASKED}
    process = runners.start(made.server.base_url, made.database, task)
    await until(lambda: len(made.requests) == FIRST + 1)
    os.kill(process, signal.SIGKILL)
    runners.wait(process)
    await asyncio.to_thread(made.set_faults, {})
    async with made.router as router:
        result = await router.route(task.pop("work"), **task)

    assert (result.status, list(statuses(result))) == ("succeeded", ["t1", "t2", "t4", "t3"])
    assert len(made.requests) == FIRST + 1 + 3  # t2, t3, the merge
    assert [each for each in result.warnings if each.startswith("possibly billed before")] != []
