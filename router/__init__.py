"""Route LLM work to the cheapest models that are good enough, and keep the receipt of every call.

    from router import route
    result = route("Summarize the attached minutes: …", configuration="hybrid")
    print(result.text, result.cost.settled_usd)

The names load what they need when they are first used, so that `import router` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.client import Router
    from router.errors import RouterError
    from router.messages import Board
    from router.plan_estimate import PlanEstimate
    from router.progress import RunProgress
    from router.result import Candidate, Cost, Decision, Estimate, Plan, Result, Step, StepResult
    from router.run import aresume, aroute, astream, decide, estimate, resume, route
    from router.task import Task, TaskStep

__all__ = [
    "Board",
    "Candidate",
    "Cost",
    "Decision",
    "Estimate",
    "Plan",
    "PlanEstimate",
    "Result",
    "Router",
    "RouterError",
    "RunProgress",
    "Step",
    "StepResult",
    "Task",
    "TaskStep",
    "aresume",
    "aroute",
    "astream",
    "decide",
    "estimate",
    "resume",
    "route",
]

_HOMES = {
    "Board": "router.messages",
    "PlanEstimate": "router.plan_estimate",
    "Router": "router.client",
    "RouterError": "router.errors",
    "RunProgress": "router.progress",
    **dict.fromkeys(("Task", "TaskStep"), "router.task"),
    **dict.fromkeys(("aresume", "aroute", "astream", "decide", "estimate", "resume", "route"), "router.run"),
}


def __getattr__(name: str) -> object:
    """Return a public name from its module (PEP 562), once; afterwards it is an ordinary attribute."""
    if name not in __all__:
        message = f"module 'router' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "router.result")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
