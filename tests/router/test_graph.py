"""The graph of a plan: what a task may bring along, and which steps may run when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import WrongUsage
from router.graph import Frontier, given_plan
from router.result import Plan, Step
from router.task import Task


def plan_of(needs: dict[str, list[str]]) -> Plan:
    return Plan(tuple(Step(name, "chat", name, tuple(some)) for name, some in needs.items()))


def test_a_step_is_ready_when_all_its_needs_have_succeeded() -> None:
    frontier = Frontier(plan_of({"a": [], "b": [], "c": ["a", "b", "a"], "d": ["c"], "e": ["b"]}))

    assert frontier.first() == ["a", "b"]
    assert frontier.succeeded("b") == ["e"]
    assert frontier.succeeded("a") == ["c"]
    assert frontier.succeeded("c") == ["d"]


def test_what_waits_for_a_lost_step_is_lost_with_it() -> None:
    frontier = Frontier(plan_of({"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": ["b"]}))
    frontier.first()

    assert frontier.lost("a") == [("c", "a"), ("d", "c")]
    assert frontier.lost("c") == []
    assert frontier.succeeded("b") == ["e"]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], frozenset[str]]:
    """Return the needs of each of some steps, and which of them fail when they run."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 12)))]
    needs = {
        name: draw(st.lists(st.sampled_from(names[:at]), max_size=4)) if at else [] for at, name in enumerate(names)
    }
    return needs, frozenset(draw(st.sets(st.sampled_from(names))))


@given(graphs(), st.randoms(use_true_random=False))
def test_law_each_step_runs_once_after_its_needs_or_is_lost_with_one_of_them(
    drawn: tuple[dict[str, list[str]], frozenset[str]], chance: Any
) -> None:
    needs, failing = drawn
    frontier = Frontier(plan_of(needs))
    ready, done, ran, lost = frontier.first(), set[str](), list[str](), set[str]()
    while ready:
        step_id = ready.pop(chance.randrange(len(ready)))
        assert set(needs[step_id]) <= done
        ran.append(step_id)
        if step_id in failing:
            found = [name for name, _ in frontier.lost(step_id)]
            assert lost.isdisjoint(found)
            lost.update(found)
        else:
            done.add(step_id)
            ready += frontier.succeeded(step_id)

    assert len(ran) == len(set(ran))
    assert set(ran) | lost == set(needs)
    assert lost.isdisjoint(ran)
    assert all(set(needs[name]) & (lost | failing) for name in lost)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "steps: step id 'a' is used twice"),
        ([{"id": "a", "prompt": "x", "depends_on": ["z"]}], "steps: step 'a' depends on 'z', which does not exist"),
        (
            [{"id": "a", "prompt": "x", "depends_on": ["b"]}, {"id": "b", "prompt": "y", "depends_on": ["a"]}],
            "steps: the steps .* wait for each other",
        ),
        ([{"id": "a", "prompt": "x", "task_class": "cod"}], "steps: step 'a': class: 'cod' does not exist; did you"),
        ([{"id": str(number), "prompt": "x"} for number in range(6)], "steps: it has 6 steps; 1 to 5 are allowed"),
    ],
)
def test_what_is_no_graph_is_said_before_anything_is_sent(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        given_plan(Task.of("x", steps=steps), 5)


def test_a_task_without_steps_has_no_plan_of_its_own() -> None:
    assert given_plan(Task.of("x"), 5) is None
