"""A run that is stopped when its plan is made, so that the plan can be looked at before its steps are paid.

In: a `Bench`, a task. Out: a `PlanEstimate`. Invariant: the planning call is all that is paid; whoever resumes the run
goes on with this very plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from router.errors import PlanMade, RouterError, WrongUsage
from router.estimation import estimate_task
from router.foresight import estimate_plan
from router.lifecycle import Bench, run_task

if TYPE_CHECKING:
    from router.plan_estimate import PlanEstimate
    from router.plan_value import Plan
    from router.progress import Watch
    from router.result import CallReceipt
    from router.task import Task


async def ask_plan(
    bench: Bench, task: Task, watch: Watch | None = None, *, with_frontier: bool = False
) -> PlanEstimate:
    """Return what the orchestrator's plan of a task is expected to cost.

    Args:
        bench: what is open.
        task: the task, without steps of its own; its plan is "always".
        watch: is told how far the run is; None: nobody is.
        with_frontier: whether the frontier of cost and quality is worked out, too.

    Raises:
        WrongUsage: the task brings its own steps, or its run key has its answer already.
        PlanError: no usable plan in three tries; others as for `router.lifecycle.run_task`.
    """
    if task.steps:
        raise WrongUsage("plan: the task brings its own steps: there is nothing to ask", hint="leave --ask out")
    estimate = estimate_task(bench.market, bench.settings, task)
    try:
        await run_task(replace(bench, is_plan_only=True), task, estimate, None, watch)
    except PlanMade as made:
        run_id, calls = made.run_id, cast("tuple[CallReceipt, ...]", made.calls)
        try:
            found = estimate_plan(
                bench.market, bench.settings, task, cast("Plan", made.plan), with_frontier=with_frontier
            )
        except RouterError as error:  # the receipts of what was paid are not lost with it
            error.run_id, error.calls = run_id, calls
            raise
        return replace(found, run_id=run_id, calls=calls)
    message = f"plan: run key {task.run_key!r} has its answer already: there is nothing to plan"
    raise WrongUsage(message, hint="use another run key")
