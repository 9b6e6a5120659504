"""From a task to what its call has to be given.

In: a `Task`. Out: a `Need`. Invariant: a class that nobody gave and the text does not show is the stated default, and
the decision says so.
"""

from __future__ import annotations

from router.classify import TASK_CLASSES, classify
from router.context import with_shared
from router.errors import unknown_name
from router.forecast import OutputForecast, forecast_output
from router.policy.choose import ClassSource, Need
from router.task import Role, Task
from router.tokens import estimate_message_tokens, message_script

DEFAULT_CLASS = "chat"


def class_of(task: Task, default_class: str = DEFAULT_CLASS) -> tuple[str, ClassSource]:
    """Return the task's class and where it comes from.

    Args:
        task: the task.
        default_class: the class where none was given and the text shows none.

    Raises:
        WrongUsage: a class was given that does not exist.
    """
    if task.task_class is not None:
        if task.task_class not in TASK_CLASSES:
            raise unknown_name("task class", task.task_class, TASK_CLASSES)
        return task.task_class, "given"
    found = classify(task.text).task_class
    return (found, "classified") if found is not None else (default_class, "default")


def need_of(task: Task, role: Role = "single", default_class: str = DEFAULT_CLASS) -> Need:
    """Return what one call of the task has to be given.

    Args:
        task: the task, or the task that a step of a plan is.
        role: single, orchestrator or worker.
        default_class: the class where none was given and the text shows none.

    Raises:
        WrongUsage: a class was given that does not exist.
    """
    task_class, source = class_of(task, default_class)
    input_tokens, script = task.expected_input_tokens, None
    if input_tokens is None:
        messages = task.messages if task.shared is None else with_shared(task.messages, task.shared)
        input_tokens, script = estimate_message_tokens(messages, task.tools), message_script(messages)
    expected = task.expected_output_tokens
    if expected is None:
        output = forecast_output(task_class, input_tokens, task.max_output_tokens)
    else:
        output = OutputForecast(expected, expected, expected, "given")
    able = frozenset(["tools"] * bool(task.tools) + ["json"] * task.json_output)
    return Need(
        role,
        task_class,
        source,
        input_tokens,
        output,
        able,
        task.quality_floor,
        task.latency_objective_s,
        script=script,
        max_output_tokens=task.max_output_tokens,
        is_output_given=expected is not None,
    )
