"""A plan carried to its end, and mended: where steps were lost, an orchestrator plans what is left.

In: a `Swarm`, a plan. Out: the plan as it stands in the end, and how its steps ended. Invariant: a plan of what is left
is on record, with what it replaces, before a step of it is sent. From then on it holds, in whatever process: nothing
that it replaced is tried again, and nobody is asked for it a second time. So answers of two plans never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from router.assign import Infeasible
from router.errors import PlanError, RunFailed
from router.ledger.records import Answer, StepEnded, StepRow
from router.plan import answer_tokens, merging_task
from router.replanning import Course, lost_steps, named, read_rest, replaced_ends, rest_document
from router.result import Plan, Step, StepResult
from router.steps import run_steps
from router.swarm import REFUSED, Swarm, make_rest
from router.tokens import estimate_tokens

_NOTHING_DONE: Final[Mapping[str, StepResult]] = MappingProxyType({})


def rest_key(run_id: str, number: int) -> str:
    """Return the key under which a run keeps its n-th plan of what was left."""
    return f"rest:{run_id}:{number}"


async def recalled(swarm: Swarm, plan: Plan) -> Course:
    """Return an orchestrator's plan as it stands on record: with the plans of what was left that were made since.

    Raises:
        PlanError: one of them was kept by another version.
    """
    course, desk = Course(plan.steps, plan.merges), swarm.desk
    while desk.resumed and (found := await desk.ledger.find_answer(rest_key(desk.run_id, course.replans))) is not None:
        try:
            new, replaced = read_rest(found.message)
        except (ValueError, KeyError, TypeError):
            message = f"run {desk.run_id}: its plan of what was left was kept by another version and cannot be read"
            raise PlanError(message, hint="resume it with that version, or do it anew") from None
        course = course.after(new, replaced)
        if new:
            swarm.log.warnings.append(_said(new, replaced))
    return course


async def carry_out(swarm: Swarm, course: Course, *, may_replan: bool) -> tuple[Course, dict[str, StepResult]]:
    """Run the steps of a plan, and plan again what was lost, as often as that may be.

    Args:
        swarm: what it works with.
        course: the plan.
        may_replan: whether it is an orchestrator's; a caller's own is never changed.

    Returns:
        The plan as it stands in the end, and how each step that holds ended, by id, in its order.

    Raises:
        BudgetExceeded: what is left does not pay for the merge; no step was run.
        LedgerError, RunHeld: a row could not be written, or the run is another process's now.
    """
    counter, kept = swarm.log.counter, _Kept(swarm)
    await swarm.desk.write(*_rows(swarm, course, 0))
    kept.cover(course.plan)
    counter.planned(len(course.steps))
    if course.replaced:
        counter.settled(failed=len(course.replaced))
    try:
        ends = await run_steps(swarm, course.plan)
        while may_replan and (mended := await _mended(swarm, course, ends, kept)) is not None:
            course = mended
            done = [end for end in ends.values() if end.status == "succeeded"]
            ends = await run_steps(swarm, course.plan, done)
    finally:
        kept.give_back()  # the merge now reserves for itself
    return course, ends


@dataclass(slots=True)
class _Kept:
    """What is set aside for the merge, so that the steps cannot spend it."""

    swarm: Swarm
    amount_usd: Decimal = Decimal(0)

    def cover(self, plan: Plan, ends: Mapping[str, StepResult] = _NOTHING_DONE) -> None:
        """Set aside what the merge of a plan's answers is expected to cost, where that is more than is set aside.

        Args:
            plan: the plan.
            ends: how those of its steps ended that have.

        Raises:
            BudgetExceeded: it does not fit.
        """
        swarm, budget = self.swarm, self.swarm.desk.budget
        if budget.limit_usd is None or not swarm.task.merge:
            return
        read_tokens = sum(_read_tokens(swarm, step, ends.get(step.step_id)) for step in plan.steps)
        asked = merging_task(swarm.task, ()).model_copy(update={"expected_input_tokens": read_tokens})
        cost = swarm.decide(asked, "orchestrator").chosen.cost
        if cost is not None and cost.high_usd > self.amount_usd:
            self.amount_usd += budget.keep(cost.high_usd - self.amount_usd)

    def give_back(self) -> None:
        """End setting it aside."""
        self.swarm.desk.budget.give_back(self.amount_usd)


def _read_tokens(swarm: Swarm, step: Step, end: StepResult | None) -> int:
    """Return how many tokens of a step's answer the merge reads, or is expected to."""
    return answer_tokens(step, swarm.bounds.step_max_output_tokens) if end is None else estimate_tokens(end.text)


async def _mended(swarm: Swarm, course: Course, ends: dict[str, StepResult], kept: _Kept) -> Course | None:
    """Return the plan with the orchestrator's plan of what is left, on record; None: it stays as it is."""
    lost, log = lost_steps(course.plan, ends), swarm.log
    if not lost or course.replans >= swarm.bounds.replan or swarm.is_over() or log.is_out_of_budget:
        return None
    try:
        new = await make_rest(swarm, course, ends)
        replaced = replaced_ends(ends, new)
        mended = course.after(new, replaced)
        pins: tuple[Answer, ...] = ()
        if new:
            kept.cover(mended.plan, ends)
            pins = () if swarm.placer is None else await swarm.placer.extend(mended.plan)
    except (PlanError, RunFailed, Infeasible, *REFUSED) as error:
        log.warnings.append(f"steps that were not run stay so ({named(sorted(lost))}): planning again failed: {error}")
        return None
    desk = swarm.desk
    kept_plan = desk.answers(rest_key(desk.run_id, course.replans), rest_document(new, replaced), None)
    ended = (StepEnded(desk.run_id, end.step_id, end.status, end.error) for end in replaced)
    await desk.write(*kept_plan, *pins, *_rows(swarm, mended, len(course.steps)), *ended)
    if not new:
        log.warnings.append(f"the orchestrator finds nothing left to do in place of {named(sorted(lost))}")
        return None
    log.warnings.append(_said(new, replaced))
    log.counter.planned(len(mended.steps))
    return mended


def _rows(swarm: Swarm, course: Course, first: int) -> list[StepRow]:
    """Return the rows of the steps from the `first` position on; those that are there already stay as they are."""
    numbered = list(enumerate(course.steps))[first:]
    return [StepRow(swarm.desk.run_id, each.step_id, at, each.task_class, each.depends_on) for at, each in numbered]


def _said(new: tuple[Step, ...], replaced: tuple[StepResult, ...]) -> str:
    instead = named(step.step_id for step in new)
    return (
        f"planned again: {instead} in place of {named(end.step_id for end in replaced)}, which failed or were not run"
    )
