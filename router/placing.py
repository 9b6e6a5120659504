"""A plan's steps on their models while it runs: put on them together, and once more when something surprises.

In: a run's task, its plan, its `by_plan` configuration. Out: the decision for each step's call; rows in the ledger that
say what each step was put on. Invariant: what a step is put on is committed before its call is sent, so that a resumed
run asks the same models; a step that has begun is never moved, but for one that has failed, once.

The rest is solved again when a step fails, and when the money spent, or the answers' lengths, are beyond the high end
of what was forecast: at most `MOST_SOLVED` times a run, with the budget, the floor and the time that are left.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from router.assign import Assignment, Infeasible
from router.assigned_plan import solved_plan
from router.attempts import Desk
from router.efforts import Pin, decide_by_ways
from router.planning import ALL_LEFT, Left, Workbook, option_key, workbook_of
from router.policy import NoCandidate, need_of
from router.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from router.calls import CallOutcome
    from router.ledger.records import Answer
    from router.plan_value import Plan
    from router.result import Candidate, Decision
    from router.settings import Settings
    from router.settings_plan import ByPlanSettings
    from router.step import Step
    from router.swarm import RunLog
    from router.task import Task

MOST_SOLVED: Final = 5
"""How often a run's plan is solved again at most."""
MOST_LOST: Final = 2
"""Steps that a model loses before no other is put on it in this run."""
LEAST_ENDED: Final = 3
"""Fewest steps whose cost or length is held against their forecast: one answer in ten is longer than its high end."""


def placement_key(run_id: str, number: int) -> str:
    """Return the key under which a run keeps what its steps were put on, the n-th time."""
    return f"plan:{run_id}:{number}"


@dataclass(slots=True)
class _Sum:
    """What some calls have come to, against their forecast and the square of the distance to its high end."""

    actual: Decimal = Decimal(0)
    expected: Decimal = Decimal(0)
    squares: Decimal = Decimal(0)

    def add(self, actual: Decimal, expected: Decimal, high: Decimal) -> None:
        self.actual += actual
        self.expected += expected
        self.squares += (high - expected) ** 2

    @property
    def is_beyond(self) -> bool:
        """Whether they came to more than the high end of the forecast of their total."""
        return self.actual > self.expected + Decimal(math.sqrt(self.squares))


@dataclass(slots=True)
class _Watch:
    """Steps that have ended since the plan was last solved."""

    ended: int = 0
    cost: _Sum = field(default_factory=_Sum)
    length: _Sum = field(default_factory=_Sum)

    def surprise(self) -> str | None:
        """Return what is beyond its forecast, in words, or None."""
        if self.ended < LEAST_ENDED:
            return None
        if self.cost.is_beyond:
            return f"{self.ended} steps cost {self.cost.actual:.6f} USD, {self.cost.expected:.6f} were expected"
        if self.length.is_beyond:
            return (
                f"{self.ended} answers have {self.length.actual:.0f} tokens, {self.length.expected:.0f} were expected"
            )
        return None


class Placer:
    """Decides on the calls of a plan's steps.

    Args:
        desk: the run's; its market is what is chosen from.
        settings: bounds of a plan's execution.
        task: the whole task, with the limits of its own.
        plan: its plan.
        named: the configuration's name and rules.
        log: takes warnings.
    """

    def __init__(
        self, desk: Desk, settings: Settings, task: Task, plan: Plan, named: tuple[str, ByPlanSettings], log: RunLog
    ) -> None:
        self._desk = desk
        self._settings = settings
        self._task = task
        self._plan = plan
        self._name, self._rules = named
        self._log = log
        self._weights = {step.step_id: step.quality_weight for step in plan.steps}
        self._pins: dict[str, Pin] = {}
        self._written = 0
        self._solved = 0
        self._begun: set[str] = set()
        self._over: set[str] = set()
        self._chosen: dict[str, Candidate] = {}
        self._counted: dict[str, float] = {}
        self._answers: dict[str, int] = {}
        self._ways: dict[str, frozenset[str]] = {}
        self._barred: dict[str, frozenset[str]] = {}
        self._moved: set[str] = set()
        self._lost: Counter[str] = Counter()
        self._watch = _Watch()
        self._floor: float | None = None
        self._began_s = 0.0
        self._solving = asyncio.Lock()

    async def begin(self) -> None:
        """Put every step on a model: as the record has it, else as the optimizer says; what it says is committed.

        Raises:
            Infeasible: no assignment holds the limits; nothing was put on anything.
            NoCandidate, WrongUsage: a step has no model, or a model is not known.
            LedgerError: it could not be written.
        """
        self._began_s = asyncio.get_running_loop().time()
        if self._desk.resumed and await self._take_from_record():
            workbook = await asyncio.to_thread(self._workbook)
        else:
            left = Left(spent_usd=self._desk.budget.spent_usd)
            workbook, assignment = await asyncio.to_thread(self._solve, left)
            self._take(workbook, assignment)
            await self._write(self._pins)
        self._begin_with(workbook)

    def _begin_with(self, workbook: Workbook) -> None:
        """Take the forecasts of what the steps are on, and what of it counts for the plan's quality."""
        self._floor = workbook.problem.limits.quality_floor
        options = {step.step_id: {each.key: each for each in step.options} for step in workbook.problem.steps}
        self._ways |= {step_id: frozenset(ways) for step_id, ways in options.items()}
        for step_id, pin in self._pins.items():
            key = option_key(pin)
            if step_id in options and key in options[step_id]:
                self._chosen[step_id] = workbook.steps[step_id].fit[key]
                if (quality := options[step_id][key].quality) is not None:
                    self._counted[step_id] = quality

    def _workbook(self, left: Left = ALL_LEFT) -> Workbook:
        return workbook_of(self._desk.market, self._settings, self._task, self._plan, self._rules, left=left)

    def _solve(self, left: Left) -> tuple[Workbook, Assignment]:
        if self._solved > MOST_SOLVED:
            raise NoCandidate(f"the plan was solved again {MOST_SOLVED} times already")
        return solved_plan(self._desk.market, self._settings, self._task, self._plan, self._rules, left=left)

    async def decide(self, step: Step, asked: Task) -> Decision:
        """Return the decision for a step's call; while the rest is being solved again, it is waited for.

        Args:
            step: the step, which begins now.
            asked: what its worker is asked.

        Raises:
            NoCandidate: its prompt is more than the model can read.
        """
        market = self._desk.market
        need = need_of(asked, "worker", self._rules.default_class)
        async with self._solving:
            pin = self._pins[step.step_id]
            self._begun.add(step.step_id)
        return decide_by_ways(market, self._name, self._rules, need, asked.extra, (pin, step.candidates))

    async def succeeded(self, step_id: str, outcome: CallOutcome) -> None:
        """Take a step's answer; where steps have become dearer or longer than forecast, solve again for the rest.

        Args:
            step_id: the step.
            outcome: its call's.

        Raises:
            LedgerError: what the rest was put on could not be written.
        """
        self._over.add(step_id)
        self._answers[step_id] = estimate_tokens(outcome.text) or 1
        forecast, receipt = self._chosen.get(step_id), outcome.receipt
        if not receipt.attempts or forecast is None or step_id in self._moved:
            return
        self._note(receipt.settled_usd, None if receipt.usage is None else receipt.usage.output_tokens, forecast)
        surprise = self._watch.surprise()
        if surprise is not None and self._solved < MOST_SOLVED and self._waiting():
            self._watch = _Watch()
            await self._solve_again(surprise, None)

    def failed(self, step_ids: Iterable[str]) -> None:
        """Take which steps have failed for good, or can never run."""
        for step_id in step_ids:
            self._over.add(step_id)
            self._counted.pop(step_id, None)

    async def again(self, step_id: str, reason: str) -> bool:
        """Put a step that has failed on its next best model; return whether there is one. It is done once a step.

        Args:
            step_id: the step.
            reason: why it failed, one line.

        Raises:
            LedgerError: it could not be written.
        """
        if step_id in self._moved or step_id not in self._begun:
            return False
        failed = self._pins[step_id]
        self._moved.add(step_id)
        self._begun.discard(step_id)
        self._bar(option_key(failed), step_id)
        return await self._solve_again(f"step {step_id}: {failed.model} failed ({reason})", step_id)

    def _bar(self, key: str, step_id: str) -> None:
        """Keep a step off a way that has failed it; off one that has failed several, others too that have another."""
        self._lost[key] += 1
        self._barred[step_id] = frozenset({key})
        if self._lost[key] >= MOST_LOST:
            for each in self._waiting():
                barred = self._barred.get(each, frozenset()) | {key}
                if self._ways.get(each, frozenset()) - barred:
                    self._barred[each] = barred

    async def extend(self, plan: Plan) -> tuple[Answer, ...]:
        """Put the new steps of a plan that takes the first one's place on models.

        Args:
            plan: what has succeeded of the first one, and the new steps.

        Returns:
            The rows that say so; the caller commits them before a new step begins.

        Raises:
            Infeasible, NoCandidate: the limits that are left cannot be held, or a step has no model.
        """
        self._plan, self._weights = plan, {step.step_id: step.quality_weight for step in plan.steps}
        fresh = self._waiting()
        asked = self._task.quality_floor if self._task.quality_floor is not None else self._rules.quality_floor
        if asked is not None:  # they have to make up for what is done; else their own classes' floors hold
            self._counted.update(dict.fromkeys(fresh, 0.0))
        async with self._solving:
            workbook, assignment = await asyncio.to_thread(self._solve, self._left(fresh))
        self._counted, self._watch = {}, _Watch()
        self._take(workbook, assignment)
        self._begin_with(workbook)
        return self._rows({step_id: self._pins[step_id] for step_id in fresh})

    def _note(self, cost_usd: Decimal | None, output_tokens: int | None, forecast: Candidate) -> None:
        self._watch.ended += 1
        cost, (_, expected, high) = forecast.cost, forecast.output_tokens
        if cost_usd is not None and cost is not None:
            self._watch.cost.add(cost_usd, cost.expected_usd, cost.high_usd)
        if output_tokens is not None:
            self._watch.length.add(Decimal(output_tokens), Decimal(expected), Decimal(high))

    def _waiting(self) -> list[str]:
        """Return the steps that have not begun."""
        return [
            step.step_id
            for step in self._plan.steps
            if step.step_id not in self._begun and step.step_id not in self._over
        ]

    async def _solve_again(self, words: str, failed: str | None) -> bool:
        """Solve for the steps that have not begun; return whether the failed one, where there is one, has a model."""
        async with self._solving:
            waiting, how = self._waiting(), "the rest of the plan was solved again"
            self._solved += 1
            try:
                self._take(*await asyncio.to_thread(self._solve, self._left(waiting)))
            except (Infeasible, NoCandidate) as error:
                how = f"the rest stays as it is, since {error}"
                if failed is not None and not await self._next_best(failed):
                    self._log.warnings.append(f"{words}; no other model can do it")
                    return False
            instead = "" if failed is None else f"{self._pins[failed].model} does it instead; "
            self._log.warnings.append(f"{words}; {instead}{how}")
            await self._write({step_id: self._pins[step_id] for step_id in waiting})
        return True

    async def _next_best(self, step_id: str) -> bool:
        """Put one step on the cheapest other model that is as good, else on the best; return whether there is one."""
        others = frozenset(self._weights) - {step_id}
        alone = Left(others, dict(self._answers), dict(self._barred))
        before = self._chosen[step_id].quality_bound if step_id in self._chosen else None
        try:
            workbook = await asyncio.to_thread(self._workbook, alone)
        except NoCandidate:
            return False
        options = list(workbook.steps[step_id].fit.values())
        good = [each for each in options if (each.quality_bound or 0.0) >= (before or 0.0)]
        self._put(step_id, good[0] if good else max(options, key=lambda each: each.quality_bound or 0.0))
        return True

    def _left(self, waiting: Sequence[str]) -> Left:
        """Return what is left of the plan, and of its limits."""
        running = [self._chosen[name] for name in self._begun - self._over if name in self._chosen]
        under_way = sum((each.cost.expected_usd for each in running if each.cost), Decimal(0))
        return Left(
            frozenset(self._weights).difference(waiting),
            dict(self._answers),
            dict(self._barred),
            floor=self._floor_left(frozenset(waiting)),
            spent_usd=self._desk.budget.spent_usd + under_way,
            elapsed_s=asyncio.get_running_loop().time() - self._began_s,
        )

    def _floor_left(self, waiting: frozenset[str]) -> float | None:
        """Return the mean quality that the rest has to reach for the plan to reach its floor, 0 to 1."""
        weight = sum(self._weights[name] for name in self._counted if name in waiting)
        if self._floor is None or not weight:
            return None
        whole = self._floor * sum(self._weights[name] for name in self._counted)
        reached = sum(self._weights[name] * share for name, share in self._counted.items() if name not in waiting)
        return min(1.0, max(0.0, (whole - reached) / weight))

    def _take(self, workbook: Workbook, assignment: Assignment) -> None:
        """Put steps on what the optimizer says."""
        for step_id, option in assignment.choices.items():
            self._put(step_id, workbook.steps[step_id].fit[option.key])
            if option.quality is not None and step_id in self._counted:
                self._counted[step_id] = option.quality

    def _put(self, step_id: str, candidate: Candidate) -> None:
        self._chosen[step_id] = candidate
        self._pins[step_id] = Pin(candidate.model, candidate.endpoint, candidate.effort)

    async def _write(self, pins: Mapping[str, Pin]) -> None:
        await self._desk.write(*self._rows(pins))

    def _rows(self, pins: Mapping[str, Pin]) -> tuple[Answer, ...]:
        document: dict[str, Any] = {name: [pin.model, pin.endpoint, pin.effort] for name, pin in pins.items()}
        key = placement_key(self._desk.run_id, self._written)
        self._written += 1
        return self._desk.answers(key, {"pins": document}, None)

    async def _take_from_record(self) -> bool:
        """Put the steps on what an earlier process has; return whether there was anything on record."""
        while (
            found := await self._desk.ledger.find_answer(placement_key(self._desk.run_id, self._written))
        ) is not None:
            for step_id, (model, endpoint, effort) in found.message["pins"].items():
                self._pins[step_id] = Pin(model, endpoint, effort)
            self._written += 1
        return self._written > 0
