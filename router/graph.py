"""The graph of a plan: the one that a task brings along, and which of its steps may run.

In: a task's steps, and how they end. Out: a `Plan`, ids. Invariant: pure; a step is said to be ready once, when all it
depends on has succeeded, and never after one of them was lost.
"""

from __future__ import annotations

from router.classify import TASK_CLASSES
from router.errors import PlanError, WrongUsage, unknown_name
from router.plan import checked_plan
from router.result import Plan, Step
from router.task import Task, TaskStep


class Frontier:
    """The edge between what has succeeded and what waits for it.

    Args:
        plan: a checked graph.
    """

    def __init__(self, plan: Plan) -> None:
        self._missing: dict[str, int] = {}
        self._next: dict[str, list[str]] = {}
        for step in plan.steps:
            needs = dict.fromkeys(step.depends_on)
            self._missing[step.step_id] = len(needs)
            for need in needs:
                self._next.setdefault(need, []).append(step.step_id)

    def first(self) -> list[str]:
        """Return the steps that depend on none, in the plan's order."""
        return [step_id for step_id, count in self._missing.items() if not count]

    def succeeded(self, step_id: str) -> list[str]:
        """Return the steps that may run now that this one has succeeded, in the plan's order."""
        ready = []
        for each in self._next.get(step_id, ()):
            if each in self._missing:
                self._missing[each] -= 1
                if not self._missing[each]:
                    ready.append(each)
        return ready

    def lost(self, step_id: str) -> list[tuple[str, str]]:
        """Return the steps that can never run now that this one has failed, each with the one it waited for."""
        found: list[tuple[str, str]] = []
        over = [step_id]
        for need in over:
            for each in self._next.get(need, ()):
                if self._missing.pop(each, None) is not None:
                    found.append((each, need))
                    over.append(each)
        return found


def given_plan(task: Task, max_steps: int) -> Plan | None:
    """Return the plan that the task brings along, checked; None where it brings none.

    Raises:
        WrongUsage: an id used twice, a class or dependency that does not exist, a cycle, or too many steps.
    """
    if not task.steps:
        return None
    for step in task.steps:
        if step.task_class not in TASK_CLASSES:
            raise unknown_name(f"steps: step {step.id!r}: class", step.task_class, TASK_CLASSES)
    try:
        return checked_plan((_step(each) for each in task.steps), max_steps=max_steps)
    except PlanError as error:
        raise WrongUsage(f"steps: {str(error).removeprefix('plan: ')}", hint=error.hint) from None


def _step(given: TaskStep) -> Step:
    return Step(
        given.id,
        given.task_class,
        given.prompt,
        given.depends_on,
        given.mcp_tools,
        given.max_output_tokens,
        given.extra,
    )
