"""A plan in a file: its steps, and what else is asked for with them.

In: a path. Out: a `PlanFile`. Invariant: what is wrong is said with its line or its place; no key is passed over in
silence, but for "assignment", which holds what `router plan` has found.

Four forms: a JSON list of steps; one JSON object a line; one object with "steps"; an orchestrator's own, with "tasks".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS = ("auto", "always", "never")
_FORMAT = 'a step is {"id": "a", "prompt": "…"}, with task_class, depends_on, max_output_tokens … (docs/plans.md)'
_ASKED = ("task", "merge", "configuration", "quality_floor", "latency_objective_s", "budget_usd")
_FOUND = "assignment"
_ORCHESTRATORS = {"class": "task_class", "output_tokens": "expected_output_tokens", "weight": "quality_weight"}


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a plan's file says.

    Args:
        task: the task's words; None: it has none.
        options: fields of `router.Task`; "steps" among them.
    """

    task: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def plan_said(plan: str) -> PlanFile:
    """Return what an option `--plan` says: auto, always, never, or a file.

    Raises:
        WrongUsage: it is neither, or see `read_plan`.
    """
    from router.errors import WrongUsage

    if plan in WORDS:
        return PlanFile(options={"plan": plan})
    path = Path(plan)
    if not _is_there(path):
        hint = 'name a file, or say "auto", "always" or "never"'
        raise WrongUsage(f"--plan: {plan[:80]!r} is no file that is there, nor auto, always or never", hint=hint)
    return read_plan(path)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


def read_plan(path: Path) -> PlanFile:
    """Return the plan in a file.

    Raises:
        WrongUsage: it cannot be read, holds no step, or one that is wrong.
    """
    from router.cli.text_file import text_in
    from router.errors import WrongUsage

    found = _plan(text_in(path, "--plan"))
    if not found.options["steps"]:
        raise WrongUsage(f"--plan: {str(path)!r} holds no step", hint=_FORMAT)
    return found


def _plan(text: str) -> PlanFile:
    start = text.lstrip()
    if start.startswith("["):
        listed = _json(text, "")
        return PlanFile(options={"steps": _steps((f"step {number}", each) for number, each in enumerate(listed, 1))})
    lines = [(f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) != 1 and not _is_json(lines[0][1] if lines else ""):
        return _whole(_json(text, "")) if start.startswith("{") else PlanFile(options={"steps": _of_lines(lines)})
    first = _json(lines[0][1], f"{lines[0][0]}: ")
    if len(lines) == 1 and isinstance(first, dict) and ("steps" in first or "tasks" in first):
        return _whole(first)
    return PlanFile(options={"steps": _of_lines(lines)})


def _of_lines(lines: list[tuple[str, str]]) -> tuple[Any, ...]:
    return _steps((where, _json(line, f"{where}: ")) for where, line in lines)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json(text: str, where: str) -> Any:
    from router.errors import WrongUsage

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(f"--plan: {where}no JSON: {error}", hint=_FORMAT) from None


def _whole(value: Any) -> PlanFile:
    """Return the plan in one object.

    Raises:
        WrongUsage: a key is unknown or wrong, or it is cut.
    """
    from router.errors import WrongUsage, unknown_name

    key = "tasks" if "tasks" in value else "steps"
    allowed = (key, *(["n_tasks"] if key == "tasks" else []), *_ASKED, _FOUND)
    for name in value:
        if name not in allowed:
            raise unknown_name("--plan: key", name, allowed)
    listed, words = value.get(key, []), value.get("task")
    if not isinstance(listed, list) or not isinstance(words, str | None):
        wrong = "task" if isinstance(listed, list) else key
        raise WrongUsage(f"--plan: {wrong} is {str(value[wrong])[:40]!r}; a {_KINDS[wrong]} is allowed", hint=_FORMAT)
    count = value.get("n_tasks")
    if key == "tasks" and (isinstance(count, bool) or count != len(listed)):  # in Python, true is 1
        message = f"--plan: n_tasks is {count}, but there are {len(listed)} tasks"
        raise WrongUsage(message, hint="the file may be cut; n_tasks is the number of tasks")
    steps = _steps((f"{key[:-1]} {number}", each) for number, each in enumerate(listed, 1))
    asked = {name: value[name] for name in _ASKED if name != "task" and value.get(name) is not None}
    return PlanFile(words, {**asked, "steps": steps})


_KINDS = {"task": "text", "steps": "list", "tasks": "list"}


def _steps(placed: Any) -> tuple[Any, ...]:
    return tuple(_step(where, each) for where, each in placed)


def _step(where: str, value: Any) -> Any:
    """Return one step; an orchestrator's names of fields are taken, too.

    Raises:
        WrongUsage: a field is unknown, missing or out of range.
    """
    from pydantic import ValidationError

    from router.errors import WrongUsage
    from router.task import TaskStep

    if isinstance(value, dict):
        names = {short: name for short, name in _ORCHESTRATORS.items() if name not in value}
        value = {names.get(name, name): each for name, each in value.items() if name != _FOUND}
    try:
        return TaskStep.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        named = ".".join(map(str, fault["loc"])) or "it"
        raise WrongUsage(f"--plan: {where}: {named}: {fault['msg']}", hint=_FORMAT) from None
