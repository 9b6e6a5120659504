"""The roles that a chain is made of by name: each a class of work and a worker's words.

In: a role's name. Out: fields of a `TaskStep`. Invariant: words only; every role sees the task and all earlier results.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from router.errors import unknown_name

ROLES: Final = MappingProxyType(
    {
        "search": (
            "research",
            (
                "Find what the task needs to know: facts, figures, names, dates, each in a line, with where it is from "
                "as far as you know. Say what is uncertain or missing. Do not answer the task itself."
            ),
        ),
        "extract": ("extract", "Take out of what stands above all that the task needs, word for word, in short lines."),
        "analysis": (
            "reason",
            (
                "Work out what the results above mean for the task: what follows, what contradicts, what matters most "
                "and why. Say which result each conclusion rests on. Do not write the final text."
            ),
        ),
        "outline": ("reason", "Lay out the answer to the task: its parts in order, a line on what each has to say."),
        "draft": ("write", "Write a first whole version of what the task asks for, out of the results above."),
        "review": (
            "reason",
            (
                "Check the results above against the task. List what is wrong, missing or unclear, worst first, each "
                "with how to mend it. Do not rewrite it."
            ),
        ),
        "revise": ("write", "Write the final version: what stands above, with everything mended that was found wrong."),
        "report": (
            "write",
            (
                "Write the final answer to the task out of the results above, for its reader alone: keep every fact "
                "that matters, say nothing that is not in them, do not mention the steps."
            ),
        ),
        "translate": ("translate", "Translate the last result above as the task asks. Give the translation only."),
        "summarize": ("summarize", "Say the results above in fewer words, as the task asks, without losing a figure."),
        "code": ("code", "Write the whole program text that the task asks for, as the results above say."),
        "test": ("code", "Write tests for the program text above: the usual cases, the edges, and bad input."),
    }
)
"""Task class and words by role; the words are ours."""


def role_fields(name: str) -> dict[str, Any]:
    """Return the fields of a built-in role's step.

    Args:
        name: one of `ROLES`.

    Raises:
        WrongUsage: there is no such role; those that exist are listed.
    """
    if name not in ROLES:
        raise unknown_name("role", name, ROLES)
    task_class, prompt = ROLES[name]
    return {"id": name, "task_class": task_class, "prompt": prompt}
