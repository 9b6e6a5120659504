"""A model that scores answers, and what follows where they get worse: the shared context is dropped.

In: answers that have been given. Out: `Outcome` rows, a warning. Invariant: judging never holds an answer up and never
fails a run; it has a budget of its own, a share of what the answers cost; a judgement that cannot be read is no score,
never a score of 0. The shared context is what a session's earlier rounds say, never the user's document.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from router.asked import call_spec
from router.attempts import Desk, Lease, now_us
from router.budget import Budget
from router.calls import CallOutcome, perform
from router.errors import BudgetExceeded, RouterError
from router.ledger.keys import new_id
from router.ledger.records import Outcome
from router.result import Decision
from router.scoring import Sessions, Watch, judging_task, read_score
from router.settings_judge import JudgeSettings
from router.task import Task

MOST_PENDING: Final = 100
"""Judgements at once; an answer beyond that is not judged."""

Decide = Callable[[Task], Decision]


@dataclass(frozen=True, slots=True)
class Counts:
    """What came of judging.

    Args:
        scored: answers with a score.
        unscored: answers whose judgement could not be read.
        failed: answers whose judgement was not paid for by its share, or failed.
        resets: how often the shared context was dropped.
    """

    scored: int = 0
    unscored: int = 0
    failed: int = 0
    resets: int = 0


class Judge:
    """Scores a share of the answers behind their callers' backs.

    Args:
        settings: which, by whom, at what cost.
        chance: source of the choice; None: one of its own.
    """

    def __init__(self, settings: JudgeSettings, chance: random.Random | None = None) -> None:
        self._settings = settings
        self._chance = chance or random.Random()  # noqa: S311 — a sample, no secret
        self._watches: dict[str, Watch] = {}
        self._sessions = Sessions()
        self._pending: set[asyncio.Task[None]] = set()
        self._warnings: dict[str, str] = {}
        self._trouble: str | None = None
        self._answers_usd = self._spent_usd = Decimal(0)
        self.counts = Counts()

    def kept(self, task: Task, configuration: str) -> tuple[Task, tuple[str, ...]]:
        """Return the task as it is sent now, and warnings: its shared context was dropped, judging does not work."""
        watch = self._watch(configuration)
        task, dropped = self._sessions.kept(task, configuration, watch.falls)
        trouble, self._trouble = self._trouble, None
        notes = [] if trouble is None else [f"judge: no answer is scored: {trouble}"]
        if dropped:
            notes.append(f"context: {dropped} earlier rounds were dropped: {self._warnings[configuration]}")
        return task, tuple(notes)

    def consider(self, desk: Desk, decide: Decide, asked: str, outcome: CallOutcome) -> None:
        """Take an answer that was given; begin to judge it, if the draw falls on it and its share pays for it.

        Args:
            desk: what the run's calls were made with.
            decide: decides on the judge's model for a task (role "judge").
            asked: what was asked.
            outcome: the call that answered.
        """
        self._answers_usd += outcome.receipt.settled_usd or Decimal(0)
        if outcome.error is not None or not outcome.text or outcome.receipt.attempts == 0:
            return
        if len(self._pending) >= MOST_PENDING or self._chance.random() >= self._settings.share:
            return
        judging = asyncio.get_running_loop().create_task(self._judge(desk, decide, asked, outcome))
        self._pending.add(judging)
        judging.add_done_callback(self._pending.discard)

    async def settled(self) -> None:
        """Return when everything that is being judged has been."""
        while self._pending:
            await asyncio.wait(set(self._pending))

    async def aclose(self) -> None:
        """Wait for what is being judged, at most a judgement's time, and cut off the rest."""
        if self._pending:
            _, late = await asyncio.wait(set(self._pending), timeout=self._settings.timeout_s)
            for judging in late:
                judging.cancel()
            if late:
                await asyncio.wait(late)

    def _watch(self, configuration: str) -> Watch:
        return self._watches.setdefault(configuration, Watch(self._settings))

    async def _judge(self, desk: Desk, decide: Decide, asked: str, outcome: CallOutcome) -> None:
        try:
            score, scorer = await self._score(desk, decide, asked, outcome)
        except RouterError as error:  # no budget, no endpoint, no ledger: the answer stands without a score
            self.counts = replace(self.counts, failed=self.counts.failed + 1)
            if not isinstance(error, BudgetExceeded):
                self._trouble = str(error)
            return
        if score is None:
            self.counts = replace(self.counts, unscored=self.counts.unscored + 1)
            return
        self.counts = replace(self.counts, scored=self.counts.scored + 1)
        if (reason := self._watch(desk.configuration).add(score)) is not None:
            self._warnings[desk.configuration] = reason
            self.counts = replace(self.counts, resets=self.counts.resets + 1)
        receipt = outcome.receipt
        row = Outcome(
            outcome_id=new_id(),
            run_id=desk.run_id,
            call_key=outcome.call_key,
            score_share=score,
            scorer=scorer,
            at_us=now_us(),
            step_id=receipt.step_id,
            task_class=outcome.task_class or None,
            model=receipt.model_served or receipt.model_asked,
        )
        try:
            await desk.ledger.write(row)
        except RouterError:
            self.counts = replace(self.counts, failed=self.counts.failed + 1)

    async def _score(self, desk: Desk, decide: Decide, asked: str, outcome: CallOutcome) -> tuple[float | None, str]:
        """Return the score, None where it cannot be read, and who gave it.

        Raises:
            RouterError: there was no judgement.
        """
        task = judging_task(self._settings, asked, outcome.text)
        left_usd = self._settings.budget_share * self._answers_usd - self._spent_usd
        budget = Budget(max(left_usd, Decimal(0)))
        own = replace(desk, budget=budget, opening=[], keep_answers=False, resumed=False, lease=Lease())
        deadline_s = asyncio.get_running_loop().time() + self._settings.timeout_s
        spec = call_spec(decide(task), task)
        try:
            judged = await perform(own, replace(spec, step_id=outcome.receipt.step_id, deadline_s=deadline_s))
        finally:
            self._spent_usd += budget.spent_usd
        if judged.error is not None:
            raise judged.error
        return read_score(judged.text, judged.finish_reason), f"judge:{judged.receipt.model_asked}"
