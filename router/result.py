"""What comes out of the router: `Decision`, `Estimate`, `Plan`, `Result`, and what they are made of.

In: nothing. Out: frozen values. Invariant: nothing here decides or acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from pricing.quick import quick
from pricing.terms import NO_TERMS, Terms
from pricing.usage import Usage
from router.plan_value import Plan
from router.step import Step
from router.task import Role

__all__ = [
    "NOTHING",
    "CallReceipt",
    "Candidate",
    "Cost",
    "Decision",
    "Estimate",
    "Interval",
    "Offer",
    "Plan",
    "Result",
    "Step",
    "StepResult",
]


@quick
@dataclass(frozen=True, slots=True)
class Interval:
    """A low, an expected and a high amount of USD; low and high are the 10 % and 90 % points of the forecast."""

    low_usd: Decimal
    expected_usd: Decimal
    high_usd: Decimal

    def __add__(self, other: Interval) -> Interval:
        """Return the sum, as if both were high or low together (the widest honest interval)."""
        return Interval(
            self.low_usd + other.low_usd, self.expected_usd + other.expected_usd, self.high_usd + other.high_usd
        )

    def times(self, count: int) -> Interval:
        """Return the interval of `count` equal calls."""
        return Interval(self.low_usd * count, self.expected_usd * count, self.high_usd * count)


NOTHING = Interval(Decimal(0), Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True)
class Offer:
    """One model at one endpoint.

    Args:
        model: our model id.
        endpoint: the endpoint's name; None: no configured endpoint, priced at the vendor's list.
        wire_id: the id the endpoint knows the model by.
        price_list: the list it is priced at (never "vendor").
        last_list: whether a retired model is priced at its last list there.
        terms: discount and settlement.
    """

    model: str
    endpoint: str | None
    wire_id: str
    price_list: str
    last_list: bool = False
    terms: Terms = NO_TERMS


@quick
@dataclass(frozen=True, slots=True)
class Candidate:
    """One (model, endpoint) that could have been chosen, with its numbers.

    Args:
        offer: the model and the endpoint.
        input_tokens: expected input, tokens.
        output_tokens: expected output, tokens (low, expected, high).
        cost: expected settled cost, or None where a price is unknown.
        quality_share: published quality, 0 to 1, or None.
        quality_bound: its lower bound, or None.
        latency_s: median latency on record, seconds, or None.
        lost: why it was not chosen; None for the chosen one.
        warning: what a user should know though it was chosen, or None.
        effort: reasoning effort it is asked with, or body fields that stand for it as JSON; None: none of its own.
        script: what the text is mostly written in; None: the size of the input was not estimated but given.
        estimated_input_tokens: size of the input by the text alone; `input_tokens` is corrected by the model's record.
        prior_high_tokens: high end of the output before the model's record was looked at; a reservation is no less.
    """

    offer: Offer
    input_tokens: int
    output_tokens: tuple[int, int, int]
    cost: Interval | None
    quality_share: float | None = None
    quality_bound: float | None = None
    latency_s: float | None = None
    lost: str | None = None
    warning: str | None = None
    effort: str | None = None
    script: str | None = None
    estimated_input_tokens: int = 0
    prior_high_tokens: int = 0

    @property
    def model(self) -> str:
        """Our model id."""
        return self.offer.model

    @property
    def endpoint(self) -> str | None:
        """The endpoint's name; None where no configured endpoint offers the model."""
        return self.offer.endpoint

    @property
    def wire_id(self) -> str:
        """The id the endpoint knows the model by."""
        return self.offer.wire_id

    @property
    def price_list(self) -> str:
        """The list it is priced at."""
        return self.offer.price_list


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy chose for one call, and everything it weighed.

    Args:
        configuration: the named configuration, or "candidates" where the task named its own.
        policy_version: which rule decided.
        role: single, orchestrator or worker.
        task_class: the class decided on.
        class_source: "given", "classified" (from the text) or "default" (unknown).
        quality_floor: the floor that held, 0 to 1, or None.
        chosen: the winner.
        candidates: all, the winner first, then in the order they lost.
        propensity: probability with which the policy chose this, 0 to 1.
        extra: body fields that the configuration sets for the call.
    """

    configuration: str
    policy_version: str
    role: Role
    task_class: str
    class_source: Literal["given", "classified", "default"]
    quality_floor: float | None
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    propensity: float = 1.0
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


@quick
@dataclass(frozen=True, slots=True)
class Estimate:
    """What a task is expected to cost before a cent is spent.

    Args:
        cost: the settled cost in USD with its interval; None where a price is unknown.
        planned: whether a plan would be made.
        calls: number of calls expected.
        decision: the decision for the single call, or for the orchestrator where planned.
        task_class: the class of the whole task.
        single_cost: the cost of one call, or None where unknown.
        plan_cost: the cost of plan, steps and merge, or None where unknown or not possible.
        uncorrected: `cost` before its ends were moved by what is on record of earlier runs; None: they were not.
    """

    cost: Interval | None
    planned: bool
    calls: int
    decision: Decision
    task_class: str
    single_cost: Interval | None
    plan_cost: Interval | None
    uncorrected: Interval | None = None


@quick
@dataclass(frozen=True, slots=True)
class CallReceipt:
    """One logical call: what was asked, what answered, what it cost.

    Args:
        role: single, orchestrator or worker.
        step_id: its plan step, or None.
        model_asked, model_served: our ids (a served name we do not know stands as given).
        endpoint: the endpoint's name.
        attempts: requests on the wire; 0 where the answer was already on record.
        status: succeeded, failed, timed_out or stopped.
        usage: the successful attempt's usage, or None where unknown.
        cost_status: exact, estimated, partial or unknown, of the last attempt.
        list_cost: (currency, amount) pairs over all attempts, at list price.
        settled_cost: the same as really paid.
        settled_usd: the settled cost in USD at the day's rate; None where nothing is known.
        possibly_billed_usd: amount reserved for attempts whose bill is not known, USD.
        latency_s: of the last attempt, seconds.
        error: one line, or None.
    """

    role: str
    step_id: str | None
    model_asked: str
    model_served: str | None
    endpoint: str
    attempts: int
    status: str
    usage: Usage | None
    cost_status: str
    list_cost: tuple[tuple[str, Decimal], ...]
    settled_cost: tuple[tuple[str, Decimal], ...]
    settled_usd: Decimal | None
    possibly_billed_usd: Decimal
    latency_s: float | None
    error: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run: sums over its calls, by currency, never mixed.

    Args:
        list_cost: (currency, amount) pairs at list price.
        settled_cost: (currency, amount) pairs as really paid.
        settled_usd: what of the settled cost is known, in USD.
        possibly_billed_usd: reserved for attempts whose bill is not known; never part of the cost.
        exact, estimated, partial, unknown: number of calls by cost status; with partial or unknown ones the
            amounts are a lower bound.
    """

    list_cost: tuple[tuple[str, Decimal], ...]
    settled_cost: tuple[tuple[str, Decimal], ...]
    settled_usd: Decimal
    possibly_billed_usd: Decimal
    exact: int
    estimated: int
    partial: int
    unknown: int


@quick
@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step of a plan ended.

    Args:
        step_id: the step.
        status: "succeeded", "failed" (also where a step it depends on failed, or its call was refused) or "timed_out".
        text: its answer; empty where there is none.
        error: why there is none, one line, or None.
    """

    step_id: str
    status: Literal["succeeded", "failed", "timed_out"]
    text: str = ""
    error: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class Result:
    """The answer and its receipt.

    Args:
        text: the answer; where the plan's steps are not merged, that of its last step, or nothing where it has several.
        messages: the assistant message(s) that end the conversation.
        decision: the decision for the single call, or for the orchestrator.
        plan: the plan, or None where one call did it. Where what was left was planned again, what is finished of the
            first one, and the new steps.
        calls: every logical call of the run, those of an earlier process included.
        usage: sum of the known usages.
        cost: the run's cost, what earlier processes paid included.
        run_id: its row in the ledger.
        finish_reason: why the answer ended, as the upstream gave it ("length": it was cut), or None.
        status: "succeeded", or "partial" where steps failed that were not replaced (their errors are in `calls`).
        replayed: whether the answer was on record under its run key, so that nothing was called.
        warnings: one line each: another model served, a retired model's last list …
        steps: how each step of the plan ended, in the plan's order, those that were replaced included; empty where one
            call did it.
    """

    text: str
    messages: tuple[Mapping[str, Any], ...]
    decision: Decision
    plan: Plan | None
    calls: tuple[CallReceipt, ...]
    usage: Usage
    cost: Cost
    run_id: str
    finish_reason: str | None = None
    status: Literal["succeeded", "partial"] = "succeeded"
    replayed: bool = False
    warnings: tuple[str, ...] = ()
    steps: tuple[StepResult, ...] = ()
