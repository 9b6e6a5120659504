"""The graph of a plan: the one that a task brings along, and which of its steps may run.

In: a task's steps, and how they end. Out: a `Plan`, ids. Invariant: pure; a step is said to be ready once, when all it
depends on has succeeded, and never after one of them was lost.
"""

from __future__ import annotations

from router.errors import PlanError, WrongUsage, unknown_name
from router.plan import is_usable, usable_tools
from router.plan_value import Plan, checked_plan, require_classes
from router.step import step_of
from router.task import Task


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
    try:
        plan = checked_plan(map(step_of, task.steps), max_steps=max_steps, merges=task.merge)
    except PlanError as error:
        raise WrongUsage(f"steps: {str(error).removeprefix('plan: ')}", hint=error.hint) from None
    require_classes(plan.steps, "steps")
    tools = usable_tools(task)
    for step in plan.steps:
        for name in step.tools or ():
            if not is_usable(name, tools):
                raise unknown_name(f"steps: step {step.step_id!r}: task's tool", name, tools)
    return plan
