"""A plan of what is left, where steps of an orchestrator's plan were lost to one that failed.

In: a plan, how its steps ended, the orchestrator's answer. Out: the question, the new steps, and the plan as it stands
with them. Invariant: pure; a new step's id is no other's, and it builds on steps that have succeeded or are new: what
was replaced is never read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from router.context import cut_text
from router.errors import PlanError
from router.plan import parse_steps, planner_messages, usable_tools
from router.plan_value import Plan, checked_plan
from router.result import StepResult
from router.step import Step, TaskStep, step_fields, step_of
from router.task import Messages, Task

FINISHED: Final = "Subtasks that are finished:"
FAILED: Final = "Subtasks that failed:"
NOT_RUN: Final = "Subtasks that were not run, since one they depend on failed:"
STEP_TOKENS: Final = 160
"""Of a step's words, answer and reason that the question shows, tokens."""
QUESTION_TOKENS: Final = 8000
"""The same of all steps together: where they are many, each shows less, and in the end its id and class alone."""

_ORDER: Final = (
    "\nThis task was begun with such a plan, and some of it failed. Plan only what is left to be done, perhaps in "
    'another way. Ids must be new; "depends_on" may also name finished subtasks: their whole results are then seen. '
    'Where nothing is left to do, reply {"tasks": [], "n_tasks": 0}.'
)
_LEAST_TOKENS: Final = 12
_ADDRESS: Final = re.compile(r" ?\(?https?://[^\s)]+\)?")
"""The address of an endpoint is nobody else's business."""
_MOST_NAMED: Final = 4
_NOTHING_REPLACED: Final[Mapping[str, StepResult]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Course:
    """A plan as it stands in a run, and what became of its first versions.

    Args:
        steps: every step that was ever planned, in the order of their positions.
        merges: see `Plan`.
        replaced: how those ended that a later plan stands in place of, by id.
        replans: how often a plan of what was left is on record.
    """

    steps: tuple[Step, ...]
    merges: bool
    replaced: Mapping[str, StepResult] = field(default_factory=lambda: _NOTHING_REPLACED)
    replans: int = 0

    @property
    def plan(self) -> Plan:
        """What holds: the steps that were not replaced."""
        return Plan(tuple(step for step in self.steps if step.step_id not in self.replaced), self.merges)

    def after(self, new: Sequence[Step], replaced: Iterable[StepResult]) -> Course:
        """Return the course with one more plan of what was left."""
        gone = {**self.replaced, **{end.step_id: end for end in replaced}}
        return Course((*self.steps, *new), self.merges, gone, self.replans + 1)

    def results(self, ends: Mapping[str, StepResult]) -> tuple[StepResult, ...]:
        """Return how every step ended, those that were replaced included.

        Args:
            ends: of the steps that hold, by id.
        """
        return tuple(self.replaced.get(step.step_id) or ends[step.step_id] for step in self.steps)


def lost_steps(plan: Plan, ends: Mapping[str, StepResult]) -> frozenset[str]:
    """Return the ids of the steps that were not run since one they depend on did not succeed."""
    over = unfinished(ends)
    return frozenset(
        step.step_id for step in plan.steps if step.step_id in over and not over.isdisjoint(step.depends_on)
    )


def unfinished(ends: Mapping[str, StepResult]) -> frozenset[str]:
    """Return the ids of the steps that did not succeed."""
    return frozenset(step_id for step_id, end in ends.items() if end.status != "succeeded")


def replanner_messages(task: Task, plan: Plan, ends: Mapping[str, StepResult]) -> Messages:
    """Return the messages that ask an orchestrator for a plan of what is left.

    Args:
        task: the whole task.
        plan: the plan that holds.
        ends: how its steps ended, by id.
    """
    system, user = planner_messages(task.text, task.shared, usable_tools(task))
    lost, over = lost_steps(plan, ends), unfinished(ends)
    share = min(STEP_TOKENS, QUESTION_TOKENS // len(plan.steps))
    finished = [step for step in plan.steps if step.step_id not in over]
    reasons = {step_id: _ADDRESS.sub("", ends[step_id].error or "") for step_id in over}
    failed = [step for step in plan.steps if step.step_id in over - lost]
    parts = (
        (FINISHED, [_line(step, share // 4, ("result", ends[step.step_id].text, share * 3 // 4)) for step in finished]),
        (FAILED, [_line(step, share // 2, ("reason", reasons[step.step_id], share // 2)) for step in failed]),
        (NOT_RUN, [_line(step, share) for step in plan.steps if step.step_id in lost]),
    )
    told = "\n\n".join("\n".join([heading, *lines]) for heading, lines in parts if lines)
    return ({**system, "content": system["content"] + _ORDER}, {**user, "content": f"{user['content']}\n\n{told}"})


def _line(step: Step, tokens: int, more: tuple[str, str, int] | None = None) -> str:
    """Return what is said of a step: `- id (class), after ids: its words`, and a line of what came of it."""
    after = f", after {named(step.depends_on)}" if step.depends_on else ""
    line = f"- {step.step_id} ({step.task_class}){after}{_shortened(': ', step.prompt, tokens)}"
    return line if more is None else line + _shortened(f"\n  {more[0]}: ", more[1], more[2])


def _shortened(before: str, text: str, tokens: int) -> str:
    """Return a text on one line, cut to so many tokens; nothing, where these would hold next to nothing of it."""
    flat = " ".join(text.split())
    return before + cut_text(flat, tokens) if flat and tokens >= _LEAST_TOKENS else ""


def parse_rest(
    answer: str,
    finish_reason: str | None,
    course: Course,
    ends: Mapping[str, StepResult],
    *,
    max_steps: int,
    tools: Sequence[str] = (),
) -> tuple[Step, ...]:
    """Return the steps of an orchestrator's plan of what is left, in dependency order; none: nothing is left to do.

    Args:
        answer: the orchestrator's text.
        finish_reason: as the upstream gave it; "length" means cut.
        course: the plan so far.
        ends: how the steps that hold have ended, by id.
        max_steps: the most steps of a plan, finished ones included.
        tools: as of `router.plan.parse_plan`.

    Raises:
        PlanCut: the answer was cut, or its count does not match its tasks.
        PlanError: no plan in it; an id that there is already; a step that builds on one that did not succeed; or a
            graph that cannot be run.
    """
    new = parse_steps(answer, finish_reason, tools=tools)
    if not new:
        return ()
    over = unfinished(ends) | course.replaced.keys()
    taken = {step.step_id for step in course.steps}
    hint = "the orchestrator is asked again"
    for step in new:
        if step.step_id in taken:
            raise PlanError(f"plan: step id {step.step_id!r} is an earlier step's; it must be new", hint)
        for need in step.depends_on:
            if need in over:
                raise PlanError(f"plan: step {step.step_id!r} depends on {need!r}, which did not succeed", hint)
    finished = [step for step in course.plan.steps if step.step_id not in over]
    whole = checked_plan([*finished, *new], max_steps=max_steps)
    return tuple(step for step in whole.steps if step.step_id not in taken)


def replaced_ends(ends: Mapping[str, StepResult], new: Sequence[Step]) -> tuple[StepResult, ...]:
    """Return how the steps ended that new ones stand in place of, with that said of each; none where nothing is new."""
    if not new:
        return ()
    instead = named(step.step_id for step in new)
    over = unfinished(ends)
    return tuple(
        replace(end, error=f"{end.error}; replaced by {instead}") for name, end in ends.items() if name in over
    )


def named(ids: Iterable[str]) -> str:
    """Return some ids in words, the first few where they are many."""
    each = list(ids)
    if len(each) <= _MOST_NAMED:
        return ", ".join(each)
    return f"{', '.join(each[: _MOST_NAMED - 1])} and {len(each) - _MOST_NAMED + 1} more"


def rest_document(new: Sequence[Step], replaced: Iterable[StepResult]) -> dict[str, Any]:
    """Return a plan of what is left as it is kept for a resume."""
    return {
        "steps": [step_fields(step) for step in new],
        "replaced": [[end.step_id, end.status, end.error] for end in replaced],
    }


def read_rest(document: Mapping[str, Any]) -> tuple[tuple[Step, ...], tuple[StepResult, ...]]:
    """Return the new steps, and how those ended that they replace, of a kept plan of what is left."""
    new = tuple(step_of(TaskStep.model_validate(each)) for each in document["steps"])
    return new, tuple(StepResult(name, status, error=error) for name, status, error in document["replaced"])
