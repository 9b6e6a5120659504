"""A swarm over one relay: an orchestrator writes subtasks as JSON, workers do them at once, the orchestrator merges.

In: a task, as the one argument; without it the one below. Out: the merged answer on standard output; on standard error
the subtasks, what went through by model, and what the task is expected to cost under other configurations. Invariant:
the figures of what went through are those of the calls' receipts, failed ones included.

Start, against the stand-in server: router sandbox &
                                    ROUTER_CONFIG=sandbox.toml python relay_swarm.py
"""

from __future__ import annotations

import sys
from math import ceil

from router import Result, RouterError, estimate, route

TASK = """Write a guide to heat pumps for old houses.
1. Explain how a heat pump works.
2. Compare air, ground and water as sources of heat.
3. Summarize the mistakes that are made most often.
4. Calculate the yearly bill of a house that needs 20,000 kWh of heat.
5. List what to ask an installer."""
COMPARED = ("all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash")


def figures(result: Result, model: str | None) -> str:
    """Return a line on the calls of one model, or of all: requests, how many succeeded, latency, cost."""
    calls = [call for call in result.calls if model in (None, call.model_asked)]
    requests = sum(call.attempts for call in calls)
    succeeded = sum(call.status == "succeeded" for call in calls)
    times_ms = sorted(1000 * call.latency_s for call in calls if call.latency_s is not None)
    p50_ms, p95_ms = (times_ms[ceil(share * len(times_ms)) - 1] if times_ms else 0 for share in (0.5, 0.95))
    cost_usd = sum(call.settled_usd or 0 for call in calls)
    rate = f"{requests:2} requests, {succeeded / requests:6.1%} succeeded"
    return f"{model or 'all':14} {rate}, p50 {p50_ms:.0f} ms, p95 {p95_ms:.0f} ms, {cost_usd:.6f} USD"


def compared(task: str) -> None:
    """Say what the task is expected to cost under each configuration, and the change against the first."""
    costs = {name: estimate(task, plan="always", configuration=name).cost for name in COMPARED}
    baseline = costs[COMPARED[0]]
    for name, cost in costs.items():
        if cost is not None and baseline is not None:
            change = cost.expected_usd / baseline.expected_usd - 1
            say(f"{name:14} {cost.expected_usd:.6f} USD expected, {change:+.1%}")


def say(line: str) -> None:
    """Print a line beside the answer."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    task = sys.argv[1] if len(sys.argv) > 1 else TASK
    try:
        result = route(task, configuration="hybrid", plan="always", budget_usd="0.10")
    except RouterError as error:
        sys.exit(str(error))
    for step in result.plan.steps if result.plan else ():
        say(f"subtask {step.step_id}, {step.task_class}: {step.prompt}")
    for end in result.steps:
        if end.error:
            say(f"{end.step_id} {end.status}: {end.error}")
    for model in (*sorted({call.model_asked for call in result.calls}), None):
        say(figures(result, model))
    compared(task)
    sys.stdout.write(f"{result.text}\n")
