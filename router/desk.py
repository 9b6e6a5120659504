"""What the calls of one run are made with, and what one call and one attempt of it are.

In: what is open, what is asked. Out: values; `Desk.write` commits rows, the run's first ones before all others.
Invariant: nothing is sent here.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pricing.quick import quick
from router.budget import Budget
from router.endpoints.protocol import Endpoint
from router.errors import RouterError
from router.exchange import Whose
from router.health import Health
from router.ledger.records import ANSWER_KEPT_US, Answer
from router.limits import Gate
from router.monthly import MonthlyBudgets
from router.policy import Market
from router.reservation import Reservation
from router.result import Candidate
from router.settings import RetrySettings
from router.task import Role

if TYPE_CHECKING:
    from router.ledger import Ledger
    from router.ledger.rows import Record

_CHANCE = random.Random()  # noqa: S311 — for jitter, not for secrets
"""One for all: to seed another takes longer than to reserve, and a forked process draws numbers of its own."""
os.register_at_fork(after_in_child=_CHANCE.seed)


def now_us() -> int:
    """Return the instant, microseconds since 1970 UTC."""
    return time.time_ns() // 1000


@dataclass(slots=True)
class Lease:
    """Until when a run is this process's; after it nothing is sent. None: it has no key, so nobody takes it."""

    until_us: int | None = None

    def is_over(self) -> bool:
        """Return whether another process may have taken the run over."""
        return self.until_us is not None and now_us() >= self.until_us


@quick
@dataclass(frozen=True, slots=True)
class Desk:
    """What the calls of one run are made with.

    Args:
        ledger: where rows go.
        endpoints: open endpoints by name.
        gates: their gates by name.
        market: catalogue, endpoint settings and rates; its instant is replaced by each attempt's.
        retry: how failed attempts are tried again.
        budget: what the run may still spend.
        monthly: the ledger's monthly budgets; None: there are none.
        health: which endpoints are up; None: nobody looks.
        run_id, configuration, tenant, tags: written into each row.
        opening: rows that are written with the run's first: its own, where it has no run key.
        keep_answers: whether answers are kept for a resume.
        for_good: whether they are kept without end.
        resumed: whether the run was started before, so that answers on record are looked up first.
        lease: whether the run is still this process's.
        chance: source of the jitter.
    """

    ledger: Ledger
    endpoints: Mapping[str, Endpoint]
    gates: Mapping[str, Gate]
    market: Market
    retry: RetrySettings
    budget: Budget
    run_id: str
    configuration: str
    tenant: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    monthly: MonthlyBudgets | None = None
    health: Health | None = None
    opening: list[Record] = field(default_factory=list)
    keep_answers: bool = False
    for_good: bool = False
    resumed: bool = False
    lease: Lease = field(default_factory=Lease)
    chance: random.Random = _CHANCE

    async def write(self, *records: Record) -> None:
        """Commit records, the run's opening rows before the first of them."""
        opening, self.opening[:] = tuple(self.opening), ()
        if opening or records:
            try:
                await self.ledger.write(*opening, *records)
            except RouterError:  # nothing of it was written
                self.opening[:0] = opening
                raise

    def answers(self, key: str, message: Mapping[str, Any], finish_reason: str | None) -> tuple[Answer, ...]:
        """Return an answer as it is kept, or nothing where answers are not kept."""
        if not self.keep_answers:
            return ()
        expires_us = None if self.for_good else now_us() + ANSWER_KEPT_US
        return (Answer(key, self.run_id, message, finish_reason, expires_us),)


@quick
@dataclass(frozen=True, slots=True)
class CallSpec:
    """One logical call.

    Args:
        candidate: the model and endpoint decided on; its endpoint is not None.
        role: single, orchestrator or worker.
        task_class: class of the call.
        messages: what is sent.
        parameters: further body fields (max_tokens, tools, response_format, vendor extras).
        step_id: its plan step, or None.
        sample: 0, or n for the n-th try with the same words.
        deadline_s: time of the event loop after which it is cut off, waits at gates included, seconds, or None.
        idle_s: longest silence, from one token to the next, after which it is cut off, seconds; it is streamed for
            that. None: the endpoint's read time-out alone.
        fallbacks: where it goes while its endpoint is down, and after a failure; none given: those of the settings.
        is_last: whether the run ends with it, so that its completion is written with the run's.
    """

    candidate: Candidate
    role: Role
    task_class: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_id: str | None = None
    sample: int = 0
    deadline_s: float | None = None
    is_last: bool = False
    idle_s: float | None = None
    fallbacks: tuple[Candidate, ...] = ()

    @property
    def whose_time(self) -> Whose:
        """Whose time ends with its deadline: a step's, the run's where it is no step's, or a judgement's own."""
        if self.role == "judge":
            return "judge"
        return "run" if self.step_id is None else "step"


@quick
@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt of a call, ready to go.

    Args:
        candidate: the model and endpoint it goes to: the call's own, or a fallback.
        parameters: further body fields, the endpoint's own included.
        key: the call's key.
        number: 1 for the call's first attempt.
        queue_us: time waited at our own gates, microseconds.
        held: what is reserved for it, and the cap on its output that makes that hold.
    """

    candidate: Candidate
    parameters: Mapping[str, Any]
    key: str
    number: int
    queue_us: int
    held: Reservation
