"""The work of one run: one call, or a plan, its steps and their merge.

In: a desk, the task and its estimate. Out: the last call's outcome, and the `Result`. Invariant: the run's own end is
not written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from router.answering import Want, asking, said
from router.asked import call_spec
from router.attempts import Desk, Say
from router.calls import CallOutcome
from router.conversation import converse
from router.errors import CallFailed, PlanError, PlanMade, RunFailed
from router.estimation import configuration_of, decide_task, loosened
from router.graph import given_plan
from router.mending import carry_out, recalled
from router.opening import Bench
from router.placing import Placer
from router.plan import separable_parts
from router.receipt import cost_of, usage_of
from router.replanning import Course
from router.result import CallReceipt, Decision, Estimate, Plan, Result
from router.settings import Settings
from router.settings_plan import ByPlanSettings
from router.swarm import REFUSED, RunLog, Swarm, make_plan, merge
from router.task import Role, Task
from router.tooling import equipped, fitting, kit_of
from router.tools.toolbox import wanted_tools


def require_tools(settings: Settings, task: Task) -> None:
    """Refuse a task that wants a tool that it may not use, before anything is sent.

    Raises:
        WrongUsage: a name of another form, of a server that is not set, or of a tool that its server's allow lacks.
    """
    names = [*task.mcp_tools, *(name for step in task.steps for name in step.mcp_tools)]
    if names:
        wanted_tools(settings.tools, names)


async def work(
    bench: Bench, desk: Desk, task: Task, estimate: Estimate, log: RunLog, say: Say | None
) -> tuple[CallOutcome, Result]:
    """Do the task: in one call, or as a plan; return the last call's outcome and the result.

    Args:
        bench: what is open.
        desk: what the calls are made with.
        task: the task.
        estimate: what was estimated of it: whether it is planned.
        log: takes the receipts.
        say: takes the answer's text as it streams; None: not streamed.

    Raises:
        CallFailed, RunFailed, PlanError, BudgetExceeded, RunHeld, LedgerError, ToolServerError, ToolRefused: see
            `router.Router.route`.
    """
    settings = bench.settings

    def decide(part: Task, role: Role) -> Decision:
        return decide_task(desk.market, settings, part, role)

    swarm = Swarm(
        desk,
        task,
        decide,
        settings.swarm,
        log,
        over_at_s=_over_at_s(settings),
        context=settings.context,
        tools=None if bench.toolbox is None else (bench.toolbox, bench.toolbox.allowance()),
    )
    given = given_plan(task, settings.swarm.max_steps)
    if given is None and not estimate.planned:
        return await _single(swarm, estimate.decision, say)
    part = replace(swarm, task=loosened(task, configuration_of(settings, task)[1]))
    if given is not None:
        course = Course(given.steps, given.merges)
        return await _swarm(await _placed(part, settings, task, given), course, estimate.decision, say)
    try:
        plan = await make_plan(part, separable_parts(task.text))
    except (PlanError, RunFailed, *REFUSED) as error:
        if task.plan == "always":
            raise
        log.warnings.append(f"done in one call, since planning failed: {error}")
    else:
        if bench.is_plan_only:
            raise PlanMade(desk.run_id, plan)
        course = await recalled(part, plan)
        placed = await _placed(part, settings, task, course.plan)
        return await _swarm(placed, course, estimate.decision, say, may_replan=True)
    return await _single(swarm, None, say)


async def _placed(swarm: Swarm, settings: Settings, task: Task, plan: Plan) -> Swarm:
    """Return the swarm with every step of the plan on a model, where its configuration puts them on together.

    Raises:
        Infeasible: no assignment holds the limits; no step was begun.
        NoCandidate: a step has no model that fits.
    """
    name, configuration = configuration_of(settings, task)
    if task.candidates or not isinstance(configuration, ByPlanSettings):
        return swarm
    placer = Placer(swarm.desk, settings, task, plan, (name, configuration), swarm.log)
    await placer.begin()
    return replace(swarm, placer=placer)


async def _single(swarm: Swarm, decision: Decision | None, say: Say | None) -> tuple[CallOutcome, Result]:
    """Do the task in one call, or, where it may use tools, in as many as the model asks for.

    Args:
        swarm: what it works with.
        decision: what was decided on; None: nothing yet.
        say: takes the answer's text as it streams.

    Raises:
        CallFailed: the call failed.
    """
    task, log, deadline_s = swarm.task, swarm.log, swarm.until(None)
    async with kit_of(swarm, task.mcp_tools, deadline_s) as kit:
        if decision is None or kit is not None:
            decision = swarm.decide(equipped(task, kit), "single")
        spec = call_spec(decision, task, is_last=True, deadline_s=deadline_s)
        ask = asking(Want(json=True), log.add) if task.json_output else said
        talk = await converse(swarm.desk, spec, kit, log.add, say, ask=ask, fit=fitting(swarm, decision, kit))
    outcome = talk.outcome
    if outcome.error is not None:
        raise CallFailed(str(outcome.error), outcome.error, hint=outcome.error.hint)
    result = _result(swarm.desk, decision, None, log, outcome)
    return outcome, replace(result, messages=talk.messages) if len(talk.messages) > 1 else result


def _over_at_s(settings: Settings) -> float | None:
    timeout_s = settings.swarm.run_timeout_s
    return None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s


async def _swarm(
    swarm: Swarm, course: Course, decision: Decision, say: Say | None, *, may_replan: bool = False
) -> tuple[CallOutcome, Result]:
    """Run a plan's steps and merge their texts; where the merge fails they are handed on as they are.

    Raises:
        RunFailed: no step succeeded.
    """
    course, ends = await carry_out(swarm, course, may_replan=may_replan)
    plan, steps = course.plan, course.results(ends)
    texts = {step_id: end.text for step_id, end in ends.items() if end.status == "succeeded"}
    if not texts:
        reason = next(step.error for step in steps)
        raise RunFailed(f"none of {len(steps)} steps succeeded; the first: {reason}", hint="router config check")
    status: Literal["succeeded", "partial"] = "succeeded" if len(texts) == len(ends) else "partial"
    if not swarm.task.merge:
        text = texts.get(plan.last.step_id, "") if plan.last else ""
        if text and say is not None:
            await say(text)
        outcome = CallOutcome(_no_call(decision), text=text, message={"role": "assistant", "content": text})
        result = _result(swarm.desk, decision, plan, swarm.log, outcome)
        return outcome, replace(result, messages=result.messages if text else (), status=status, steps=steps)
    outcome, problem = await _merged(swarm, texts, decision, say)
    if problem is not None:
        swarm.log.warnings.append(f"the results stand unmerged, since merging failed: {problem}")
        unmerged = "\n\n".join(f"[{name}]\n{text}" for name, text in texts.items())
        outcome = replace(outcome, text=unmerged, message={"role": "assistant", "content": unmerged})
        status = "partial"
        if say is not None:
            await say(unmerged)
    return outcome, replace(_result(swarm.desk, decision, plan, swarm.log, outcome), status=status, steps=steps)


async def _merged(
    swarm: Swarm, texts: Mapping[str, str], decision: Decision, say: Say | None
) -> tuple[CallOutcome, str | None]:
    """Return the merge's outcome, and why there is none, or None."""
    if swarm.is_over():
        return CallOutcome(_no_call(decision)), swarm.over_reason
    try:
        outcome = await merge(swarm, texts, say)
    except REFUSED as error:
        return CallOutcome(_no_call(decision)), str(error)
    return outcome, str(outcome.error) if outcome.error else None


def _no_call(decision: Decision) -> CallReceipt:
    nothing = Decimal(0)
    model, endpoint = decision.chosen.model, decision.chosen.endpoint or ""
    return CallReceipt(
        "orchestrator", None, model, None, endpoint, 0, "failed", None, "exact", (), (), None, nothing, None
    )


def _result(desk: Desk, decision: Decision, plan: Plan | None, log: RunLog, last: CallOutcome) -> Result:
    calls = tuple(log.receipts)
    watching = [log.counter.problem] if log.counter.problem else []
    crossed = [str(each) for each in desk.monthly.crossings] if desk.monthly else []
    chosen = [decision.chosen.warning] if decision.chosen.warning else []
    noted = dict.fromkeys([*log.warnings, *chosen, *crossed, *watching])
    return Result(
        text=last.text,
        messages=(last.message or {"role": "assistant", "content": last.text},),
        decision=decision,
        plan=plan,
        calls=calls,
        usage=usage_of(calls),
        cost=cost_of(calls),
        run_id=desk.run_id,
        finish_reason=last.finish_reason,
        warnings=tuple(noted),
    )
