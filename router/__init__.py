"""Route LLM work to the cheapest models that are good enough, and keep the receipt of every call.

    from router import route
    result = route("Summarize the attached minutes: …", configuration="hybrid")
    print(result.text, result.cost.settled_usd)
"""

from router.client import Router
from router.run import aroute, astream, decide, estimate, route
from router.task import Candidate, Cost, Decision, Estimate, Plan, Result, Step, Task

__all__ = [
    "Candidate",
    "Cost",
    "Decision",
    "Estimate",
    "Plan",
    "Result",
    "Router",
    "Step",
    "Task",
    "aroute",
    "astream",
    "decide",
    "estimate",
    "route",
]
