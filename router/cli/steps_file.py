"""The steps of a plan in a file: a JSON list, or one JSON object a line.

In: a path. Out: `TaskStep`s. Invariant: what is wrong is said with its line or its place in the list.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from router.task import TaskStep


def steps_of(path: Path) -> tuple[TaskStep, ...]:
    """Return the steps in a file.

    Raises:
        WrongUsage: it cannot be read, holds no step, or one that is wrong.
    """
    from router.cli.text_file import text_in
    from router.errors import WrongUsage

    found = tuple(_step(where, each) for where, each in _objects(text_in(path, "--steps")))
    if not found:
        raise WrongUsage(f"--steps: {str(path)!r} holds no step", hint=_FORMAT)
    return found


_FORMAT = 'a step is {"id": "a", "prompt": "…"}, with task_class, depends_on, mcp_tools, max_output_tokens, extra'


def _objects(text: str) -> list[tuple[str, Any]]:
    """Return what the text holds, each with where it stands."""
    from router.errors import WrongUsage

    if text.lstrip().startswith("["):
        try:
            return [(f"step {number}", each) for number, each in enumerate(json.loads(text), 1)]
        except (ValueError, RecursionError) as error:
            raise WrongUsage(f"--steps: no JSON list: {error}", hint=_FORMAT) from None
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append((f"line {number}", json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise WrongUsage(f"--steps: line {number}: no JSON: {error}", hint=_FORMAT) from None
    return found


def _step(where: str, value: Any) -> TaskStep:
    from pydantic import ValidationError

    from router.errors import WrongUsage
    from router.task import TaskStep

    try:
        return TaskStep.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        named = ".".join(map(str, fault["loc"])) or "it"
        raise WrongUsage(f"--steps: {where}: {named}: {fault['msg']}", hint=_FORMAT) from None
