"""The call that a task is, once it is decided on.

In: a `Decision`, its task. Out: a `CallSpec`. Invariant: pure.
"""

from __future__ import annotations

from typing import Any

from router.attempts import CallSpec
from router.context import with_shared
from router.extras import body_fields
from router.result import Decision
from router.task import Task


def call_spec(decision: Decision, task: Task, sample: int = 0, *, is_last: bool = False, **more: Any) -> CallSpec:
    """Return the call of a task as decided; `sample` tells tries with the same words apart.

    Args:
        decision: what was decided on.
        task: the call's task.
        sample: see `CallSpec`.
        is_last: alike.
        more: further fields of it: `step_id`, `deadline_s`, `idle_s`.
    """
    return CallSpec(
        candidate=decision.chosen,
        role=decision.role,
        task_class=decision.task_class,
        messages=task.messages if task.shared is None else with_shared(task.messages, task.shared),
        parameters=body_fields(task, decision.extra),
        sample=sample,
        is_last=is_last,
        **more,
    )
