"""From an orchestrator's words to a checked `Plan`, and the prompts of planning, working and merging.

In: task text, the orchestrator's answer. Out: a `Plan`, or a `PlanError` that says what is wrong with it.
Invariant: a cut answer is never repaired, because a repaired cut plan has lost tasks without a trace.

The last object that has the key "tasks" is read, and repaired, by `router.repair`; then come the pydantic model and the
graph checks. The plan states its own count, `n_tasks`, and a plan whose count is missing or does not match is treated
as cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from router.classify import TASK_CLASSES
from router.context import cut_text, shared_messages, trimmed
from router.errors import PlanError
from router.repair import repair_json
from router.result import Plan, Step
from router.task import LIMITS, Messages, Task
from router.tokens import estimate_message_tokens

PLAN_FORMAT = (
    'Reply with one JSON object: {"tasks": [{"id": "...", "class": "...", "prompt": "...", "depends_on": []}], '
    '"n_tasks": N}'
)
SHARED_OPENING_TOKENS = 200
MERGE_ORDER = "Merge the results below into one answer."

_STEP_KEYS = frozenset({"id", "class", "prompt", "depends_on"})
_ITEM = re.compile(r"^\s*(?:[-*•]|\(?\d{1,4}[.):])\s+\S", re.MULTILINE)


class PlanCut(PlanError):
    """The plan ends before its end: it has to be asked again with more room."""


class _StepModel(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: Annotated[str, Field(min_length=1, max_length=100)]
    task_class: Annotated[str, Field(alias="class")] = "chat"
    prompt: Annotated[str, Field(min_length=1)]
    depends_on: tuple[str, ...] = ()


class _PlanModel(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    tasks: Annotated[tuple[_StepModel, ...], Field(min_length=1)]
    n_tasks: Annotated[int, Field(ge=1)]


def separable_parts(text: str) -> int:
    """Return how many separate items the text lists (numbered or bulleted lines); 0 or 1 means: not worth splitting."""
    return len(_ITEM.findall(text))


def planner_messages(text: str, shared: str | None = None) -> tuple[Mapping[str, Any], ...]:
    """Return the messages that ask an orchestrator for a plan of `text`; of a shared document it sees the beginning."""
    classes = ", ".join(name for name in TASK_CLASSES if name not in {"plan", "merge"})
    system = (
        "You split a task into independent subtasks for workers who see nothing but their own prompt and the results "
        f"of the subtasks they depend on. Classes: {classes}.\n{PLAN_FORMAT}\n"
        "n_tasks is the number of tasks. Write the JSON only."
    )
    if shared is not None:
        opening = cut_text(shared, SHARED_OPENING_TOKENS)
        system += f"\nEvery worker also reads one shared document, which begins:\n{opening}"
    return ({"role": "system", "content": system}, {"role": "user", "content": text})


def planning_task(task: Task, max_output_tokens: int | None = None) -> Task:
    """Return the task that asks an orchestrator for a plan; its own limit stands, whatever the task's extras say.

    Args:
        task: the whole task.
        max_output_tokens: limit of the plan, tokens; None: none.
    """
    extra = {name: value for name, value in task.extra.items() if name not in LIMITS}
    return _part(task, planner_messages(task.text, task.shared), "plan", max_output_tokens, extra=extra)


def step_task(
    task: Task, step: Step, results: Mapping[str, str], max_output_tokens: int, input_tokens: int | None = None
) -> Task:
    """Return the task that a step of a plan is for its worker; see `worker_messages`.

    Args:
        task: the whole task.
        step: the step.
        results: texts of the steps it depends on, by step id.
        max_output_tokens: limit of its answer, tokens.
        input_tokens: most estimated tokens of its prompt; None: no limit.
    """
    messages = worker_messages(step, results, task.shared, input_tokens)
    own = {"extra": {**task.extra, **step.extra}, "tools": task.tools, "quality_floor": task.quality_floor}
    return _part(task, messages, step.task_class, max_output_tokens, **own)


def merging_task(task: Task, results: Iterable[tuple[str, str]], text: str | None = None) -> Task:
    """Return the task that asks an orchestrator to merge; see `merge_messages`.

    Args:
        task: the whole task.
        results: (name, text) pairs.
        text: the task's words as the merge is to see them; None: as they are.
    """
    messages = merge_messages(task.text if text is None else text, results)
    return _part(task, messages, "merge", task.max_output_tokens, json_output=task.json_output)


def _part(task: Task, messages: Messages, task_class: str, max_output_tokens: int | None, **update: Any) -> Task:
    """Return a call of the task's run: what was said of the whole task's size and quality does not hold for it."""
    whole = {"tools": (), "json_output": False, "quality_floor": None, "shared": None}
    sizes = {"expected_input_tokens": None, "expected_output_tokens": None, "max_output_tokens": max_output_tokens}
    return task.model_copy(update={"messages": tuple(messages), "task_class": task_class, **whole, **sizes, **update})


def worker_messages(
    step: Step, results: Mapping[str, str], shared: str | None = None, input_tokens: int | None = None
) -> tuple[Mapping[str, Any], ...]:
    """Return the messages of one step: the shared document, the answers it builds on, and its own words.

    Args:
        step: the step; its own words are never cut.
        results: the texts of the steps it depends on, by step id; the longest are cut where they do not fit.
        shared: a document that every step reads.
        input_tokens: most estimated tokens of answers and own words together, of which the answers have a quarter at
            least; None: no limit.
    """
    needed = {name: results[name] for name in step.depends_on if name in results}
    if input_tokens is not None and needed:
        around = estimate_message_tokens(_worker_message(step, dict.fromkeys(needed, "")))
        needed = trimmed(needed, max(input_tokens - around - len(needed), input_tokens // 4))
    before = () if shared is None else shared_messages(shared)
    return (*before, *_worker_message(step, needed))


def _worker_message(step: Step, needed: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    parts = [f"Result of {name}:\n{text}" for name, text in needed.items()]
    return ({"role": "user", "content": "\n\n".join([*parts, step.prompt])},)


def merge_messages(text: str, results: Iterable[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
    """Return the messages that ask an orchestrator to merge `results`, (step id, text) pairs, for the task `text`."""
    body = "\n\n".join(f"[{name}]\n{answer}" for name, answer in results)
    system = "You merge partial results: keep every fact, say nothing that is not in them, do not mention the steps."
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": f"Task:\n{text}\n\n{MERGE_ORDER}\n\n{body}"},
    )


def parse_plan(answer: str, finish_reason: str | None, *, max_steps: int) -> Plan:
    """Return the checked plan in an orchestrator's answer.

    Args:
        answer: the orchestrator's text.
        finish_reason: as the upstream gave it; "length" means cut.
        max_steps: the most steps allowed.

    Raises:
        PlanCut: the answer was cut, or its count does not match its tasks.
        PlanError: no plan in it, or a graph that cannot be run.
    """
    if finish_reason == "length":
        raise PlanCut("plan: the answer was cut at its token limit", hint="ask again with more output tokens")
    found = repair_json(answer, ("tasks",), no_number_is_null=True)
    if found.is_cut:
        raise PlanCut("plan: the answer ends before its JSON does", hint="ask again with more output tokens")
    if found.how == "raw":
        raise PlanError(
            f'plan: no JSON object with "tasks" in {_shown(answer)}', hint="the orchestrator is asked again"
        )
    if "n_tasks" not in found.value:
        raise PlanCut('plan: "n_tasks" is missing, so the plan may be cut', hint="ask again with more output tokens")
    tasks = found.value["tasks"]
    if found.how == "repaired" and isinstance(tasks, list) and _is_uneven(tasks):
        raise PlanError("plan: its tasks have different keys, and its JSON was broken", hint="it is asked for again")
    try:
        model = _PlanModel.model_validate(found.value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise PlanError(f"plan: {where}: {fault['msg']}", hint="the orchestrator is asked again") from None
    if model.n_tasks != len(model.tasks):
        message = f"plan: n_tasks is {model.n_tasks}, but there are {len(model.tasks)} tasks"
        raise PlanCut(message, hint="ask again with more output tokens")
    return checked_plan((_step(each) for each in model.tasks), max_steps=max_steps)


def checked_plan(steps: Iterable[Step], *, max_steps: int) -> Plan:
    """Return a Plan of the steps in dependency order.

    Raises:
        PlanError: no step or too many, an id used twice, a dependency that does not exist, or a cycle.
    """
    by_id: dict[str, Step] = {}
    for step in steps:
        if step.step_id in by_id:
            raise PlanError(f"plan: step id {step.step_id!r} is used twice", hint="every step needs an id of its own")
        by_id[step.step_id] = step
    if not 0 < len(by_id) <= max_steps:
        message = f"plan: it has {len(by_id)} steps; 1 to {max_steps} are allowed"
        raise PlanError(message, hint="raise [swarm] max_steps, or split the task")
    for step in by_id.values():
        for needed in step.depends_on:
            if needed not in by_id:
                raise PlanError(f"plan: step {step.step_id!r} depends on {needed!r}, which does not exist")
    try:
        order = tuple(TopologicalSorter({name: step.depends_on for name, step in by_id.items()}).static_order())
    except CycleError as error:
        raise PlanError(f"plan: the steps {' → '.join(error.args[1])} wait for each other") from None
    return Plan(tuple(by_id[name] for name in order))


def _step(model: _StepModel) -> Step:
    task_class = model.task_class if model.task_class in TASK_CLASSES else "chat"
    return Step(model.id, task_class, model.prompt, model.depends_on)


def _is_uneven(tasks: Any) -> bool:
    """Return whether a key that no plan has stands in some tasks and not in others: a text broke at a wrong place."""
    strange = [frozenset(each) - _STEP_KEYS for each in tasks if isinstance(each, dict)]
    return len(set(strange)) > 1


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "…")
