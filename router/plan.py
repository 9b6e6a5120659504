"""From an orchestrator's words to a checked `Plan`, and the prompts of planning, working and merging.

In: task text, the orchestrator's answer. Out: a `Plan`, or a `PlanError` that says what is wrong with it.
Invariant: a cut answer is never repaired, because a repaired cut plan has lost tasks without a trace.

The last object that has the key "tasks" is read, and repaired, by `router.repair`; then come the pydantic model and the
graph checks. The plan states its own count, `n_tasks`, and a plan whose count is missing or does not match is treated
as cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from router.classify import TASK_CLASSES
from router.context import cut_text, shared_messages, trimmed
from router.errors import PlanError
from router.experience import NO_EXPERIENCE, Experience
from router.forecast import forecast_output
from router.plan_value import Plan, checked_plan
from router.repair import repair_json
from router.step import LIMITS, NUMBER, QualityWeight, Step, StepId, Tokens
from router.task import Messages, Task
from router.tokens import estimate_message_tokens, estimate_tokens

PLAN_FORMAT = (
    'Reply with one JSON object: {"tasks": [{"id": "...", "class": "...", "prompt": "...", "depends_on": []}], '
    '"n_tasks": N}'
)
PLAN_EXTRAS = (
    'A task may also have "output_tokens", the length of its result, and "weight", how much its quality counts (1 is '
    "usual)."
)
SHARED_OPENING_TOKENS = 200
MERGE_ORDER = "Merge the results below into one answer."

_STEP_KEYS = frozenset({"id", "class", "prompt", "depends_on", "output_tokens", "weight", "tools"})
_EVERY = "__*"
_ITEM = re.compile(r"^\s*(?:[-*•]|\(?\d{1,4}[.):])\s+\S", re.MULTILINE)


class PlanCut(PlanError):
    """The plan ends before its end: it has to be asked again with more room."""


class _StepModel(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: StepId
    task_class: Annotated[str, Field(alias="class")] = "chat"
    prompt: Annotated[str, Field(min_length=1)]
    depends_on: tuple[str, ...] = ()
    output_tokens: Tokens | None = None
    weight: QualityWeight | None = None
    tools: tuple[str, ...] | None = None


class _PlanModel(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    tasks: tuple[_StepModel, ...]
    n_tasks: Annotated[int, NUMBER]


def separable_parts(text: str) -> int:
    """Return how many separate items the text lists (numbered or bulleted lines); 0 or 1 means: not worth splitting."""
    return len(_ITEM.findall(text))


def listed_parts(text: str) -> tuple[str, ...]:
    """Return the items that a text lists, each with the lines that follow it, in order; none: it lists nothing."""
    starts = [found.start() for found in _ITEM.finditer(text)]
    return tuple(text[start:end].strip() for start, end in pairwise([*starts, len(text)])) if starts else ()


def planner_messages(text: str, shared: str | None = None, tools: Sequence[str] = ()) -> tuple[Mapping[str, Any], ...]:
    """Return the messages that ask an orchestrator for a plan.

    Args:
        text: the task's words.
        shared: a document that every worker reads; the orchestrator sees the beginning of it.
        tools: names of the tools that the task may use.
    """
    classes = ", ".join(name for name in TASK_CLASSES if name not in {"plan", "merge"})
    system = (
        "You split a task into independent subtasks for workers who see nothing but their own prompt and the results "
        f"of the subtasks they depend on. Classes: {classes}.\n{PLAN_FORMAT}\n"
        f"n_tasks is the number of tasks. {PLAN_EXTRAS} Write the JSON only."
    )
    if tools:
        system += f'\nThere are tools: {", ".join(tools)}. "tools" lists those a task needs, [] none of them.'
    if shared is not None:
        opening = cut_text(shared, SHARED_OPENING_TOKENS)
        system += f"\nEvery worker also reads one shared document, which begins:\n{opening}"
    return ({"role": "system", "content": system}, {"role": "user", "content": text})


def planning_task(task: Task, max_output_tokens: int | None = None, messages: Messages | None = None) -> Task:
    """Return the task that asks an orchestrator for a plan; its own limit stands, whatever the task's extras say.

    Args:
        task: the whole task.
        max_output_tokens: limit of the plan, tokens; None: none.
        messages: what it is asked; None: `planner_messages`.
    """
    extra = {name: value for name, value in task.extra.items() if name not in LIMITS}
    if messages is None:
        messages = planner_messages(task.text, task.shared, usable_tools(task))
    return _part(task, messages, "plan", max_output_tokens, extra=extra)


def step_task(
    task: Task,
    step: Step,
    results: Mapping[str, str],
    max_output_tokens: int,
    input_tokens: int | None = None,
    *,
    is_answer: bool = False,
) -> Task:
    """Return the task that a step of a plan is for its worker; see `worker_messages`.

    Args:
        task: the whole task.
        step: the step; what it says of itself goes before what the task says.
        results: texts of the steps it depends on, by step id.
        max_output_tokens: limit of its answer, tokens.
        input_tokens: most estimated tokens of its prompt, where the step has no limit of its own; None: no limit.
        is_answer: whether its answer is the task's, so that it has to be JSON where that has to be.
    """
    words = task.text if step.sees_task else None
    messages = worker_messages(step, results, task.shared, step.max_input_tokens or input_tokens, words)
    expected = step.expected_output_tokens
    own = {
        "extra": {**task.extra, **step.extra},
        "tools": tuple(tool for tool in task.tools if step.tools is None or _name_of(tool) in step.tools),
        "quality_floor": task.quality_floor if step.quality_floor is None else step.quality_floor,
        "candidates": step.candidates or task.candidates,
        "expected_input_tokens": step.expected_input_tokens,
        "expected_output_tokens": None if expected is None else min(expected, max_output_tokens),
        "json_output": is_answer and task.json_output,
    }
    return _part(task, messages, step.task_class, max_output_tokens, **own)


def answer_tokens(step: Step, most_tokens: int, experience: Experience = NO_EXPERIENCE) -> int:
    """Return how long a step's answer is expected to be, tokens: as it says itself, else as its class's are.

    Args:
        step: the step.
        most_tokens: limit of its answer, where it has none of its own.
        experience: what is on record of its class.
    """
    limit = step.max_output_tokens or most_tokens
    if step.expected_output_tokens is not None:
        return min(step.expected_output_tokens, limit)
    return forecast_output(step.task_class, 0, limit, experience.lengths(None, step.task_class)).expected_tokens


def prompt_tokens(task: Task, step: Step, answers: Mapping[str, int], most_tokens: int) -> int:
    """Return how long a step's prompt is expected to be, tokens.

    Args:
        task: the whole task.
        step: the step; what it says itself is taken.
        answers: expected tokens of the answers it builds on, by step id.
        most_tokens: limit of its prompt but for a shared document, where it has none of its own.
    """
    if step.expected_input_tokens is not None:
        return step.expected_input_tokens
    words = task.text if step.sees_task else None
    own = estimate_message_tokens(_worker_message(step, dict.fromkeys(step.depends_on, ""), words))
    limit = step.max_input_tokens or most_tokens
    handed_on = min(sum(answers[name] for name in step.depends_on), max(limit - own, limit // 4))
    return own + handed_on + (estimate_tokens(task.shared) if task.shared else 0)


def usable_tools(task: Task) -> tuple[str, ...]:
    """Return the names of the tools that a task may use: of MCP servers (`server__*`: all of one), and its own."""
    return (*task.mcp_tools, *filter(None, map(_name_of, task.tools)))


def is_usable(name: str, tools: Iterable[str]) -> bool:
    """Return whether a tool is among the named ones, of which `server__*` stands for all of a server."""
    return any(name == each or (each.endswith(_EVERY) and name.startswith(each[:-1])) for each in tools)


def step_tools(task: Task, step: Step) -> tuple[str, ...]:
    """Return the names of the tools of MCP servers that a step may use."""
    if step.tools is None:
        return (*task.mcp_tools, *step.mcp_tools)
    return (*(name for name in step.tools if is_usable(name, task.mcp_tools)), *step.mcp_tools)


def _name_of(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


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
    step: Step,
    results: Mapping[str, str],
    shared: str | None = None,
    input_tokens: int | None = None,
    task_text: str | None = None,
) -> tuple[Mapping[str, Any], ...]:
    """Return the messages of one step: the shared document, the task, the answers it builds on, and its own words.

    Args:
        step: the step; its own words are never cut.
        results: the texts of the steps it depends on, by step id; the longest are cut where they do not fit.
        shared: a document that every step reads.
        input_tokens: most estimated tokens of all but the document, of which the answers have a quarter at least;
            None: no limit.
        task_text: the task's words, where the step sees them; never cut.
    """
    needed = {name: results[name] for name in step.depends_on if name in results}
    if input_tokens is not None and needed:
        around = estimate_message_tokens(_worker_message(step, dict.fromkeys(needed, ""), task_text))
        needed = trimmed(needed, max(input_tokens - around - len(needed), input_tokens // 4))
    before = () if shared is None else shared_messages(shared)
    return (*before, *_worker_message(step, needed, task_text))


def _worker_message(step: Step, needed: Mapping[str, str], task_text: str | None) -> tuple[Mapping[str, Any], ...]:
    whole = [] if task_text is None else [f"Task:\n{task_text}"]
    parts = [f"Result of {name}:\n{text}" for name, text in needed.items()]
    return ({"role": "user", "content": "\n\n".join([*whole, *parts, step.prompt])},)


def merge_messages(text: str, results: Iterable[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
    """Return the messages that ask an orchestrator to merge `results`, (step id, text) pairs, for the task `text`."""
    body = "\n\n".join(f"[{name}]\n{answer}" for name, answer in results)
    system = "You merge partial results: keep every fact, say nothing that is not in them, do not mention the steps."
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": f"Task:\n{text}\n\n{MERGE_ORDER}\n\n{body}"},
    )


def parse_plan(answer: str, finish_reason: str | None, *, max_steps: int, tools: Sequence[str] = ()) -> Plan:
    """Return the checked plan in an orchestrator's answer.

    Args:
        answer: the orchestrator's text.
        finish_reason: as the upstream gave it; "length" means cut.
        max_steps: the most steps allowed.
        tools: names of the tools that the task may use; where there is none, what a step says of tools is not read.

    Raises:
        PlanCut: the answer was cut, or its count does not match its tasks.
        PlanError: no plan in it, or a graph that cannot be run.
    """
    return checked_plan(parse_steps(answer, finish_reason, tools=tools), max_steps=max_steps)


def parse_steps(answer: str, finish_reason: str | None, *, tools: Sequence[str] = ()) -> tuple[Step, ...]:
    """Return the steps in an orchestrator's answer, maybe none; whether they are a graph is not looked at.

    Args:
        answer: the orchestrator's text.
        finish_reason: as the upstream gave it; "length" means cut.
        tools: as of `parse_plan`.

    Raises:
        PlanCut: the answer was cut, or its count does not match its tasks.
        PlanError: no plan in it, or a step with a fault.
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
    return tuple(_step(each, tools) for each in model.tasks)


def _step(model: _StepModel, tools: Sequence[str]) -> Step:
    """Return a step of the plan's; of the task's tools it has those it names.

    Raises:
        PlanError: it names one that the task may not use.
    """
    task_class = model.task_class if model.task_class in TASK_CLASSES else "chat"
    step = Step(model.id, task_class, model.prompt, model.depends_on, expected_output_tokens=model.output_tokens)
    strange = next((name for name in model.tools or () if tools and not is_usable(name, tools)), None)
    if strange is not None:
        message = f"plan: step {model.id!r}: tool {_shown(strange)} is none of {', '.join(tools)}"
        raise PlanError(message, hint="the orchestrator is asked again")
    return replace(step, quality_weight=model.weight or 1.0, tools=model.tools if tools else None)


def _is_uneven(tasks: Any) -> bool:
    """Return whether a key that no plan has stands in some tasks and not in others: a text broke at a wrong place."""
    strange = [frozenset(each) - _STEP_KEYS for each in tasks if isinstance(each, dict)]
    return len(set(strange)) > 1


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "…")
