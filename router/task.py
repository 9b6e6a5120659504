"""What goes into the router and what comes out: `Task`, `Decision`, `Estimate`, `Result`.

In: a string, OpenAI-style messages, or a `Task`. Out: frozen values. Invariant: nothing here decides or acts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pricing.terms import NO_TERMS, Terms
from pricing.usage import Usage
from router.errors import WrongUsage

Messages = Sequence[Mapping[str, Any]]
Role = Literal["single", "orchestrator", "worker"]
ROLES_OF_MESSAGES = ("system", "developer", "user", "assistant", "tool")


class Task(BaseModel):
    """One piece of work.

    Args:
        messages: OpenAI-style messages; at least one.
        task_class: one of `router.classify.TASK_CLASSES`; None: judged from the text.
        configuration: a named configuration; None: the default one.
        candidates: choose the cheapest of these models instead of a configuration's.
        plan: "auto" plans where it is estimated to pay, "always" and "never" say it themselves.
        tools: OpenAI-style tool descriptors, passed through.
        json_output: whether the answer must be a JSON object.
        max_output_tokens: limit of the answer; None: the model's.
        expected_input_tokens: overrides the estimate from the text, tokens.
        expected_output_tokens: overrides the forecast, tokens.
        quality_floor: least quality lower bound, 0 to 1; overrides the class's.
        latency_objective_s: longest acceptable median latency, seconds.
        budget_usd: the run may not cost more, USD.
        tenant: who is charged.
        tags: free labels.
        run_key: the same key is the same run: it is never paid twice.
        extra: further body fields for the vendor (thinking, reasoning_effort …), passed through.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: tuple[dict[str, Any], ...] = Field(min_length=1)
    task_class: str | None = None
    configuration: str | None = None
    candidates: tuple[str, ...] = ()
    plan: Literal["auto", "always", "never"] = "auto"
    tools: tuple[dict[str, Any], ...] = ()
    json_output: bool = False
    max_output_tokens: int | None = Field(default=None, ge=1)
    expected_input_tokens: int | None = Field(default=None, ge=0)
    expected_output_tokens: int | None = Field(default=None, ge=0)
    quality_floor: float | None = Field(default=None, ge=0, le=1)
    latency_objective_s: float | None = Field(default=None, gt=0)
    budget_usd: Decimal | None = Field(default=None, gt=0, le=10**9)
    tenant: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    run_key: str | None = Field(default=None, min_length=1, max_length=200)
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("messages")
    @classmethod
    def _messages_have_roles(cls, messages: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for position, message in enumerate(messages):
            role = message.get("role")
            if role not in ROLES_OF_MESSAGES:
                expected = f"one of {', '.join(ROLES_OF_MESSAGES)} is allowed"
                raise ValueError(f"message {position} has role {role!r}; {expected}")
        return messages

    @classmethod
    def of(cls, work: str | Messages | Task, **options: Any) -> Self:
        """Return a Task from a text, from messages, or from another Task with some fields replaced.

        Args:
            work: the text, the messages, or a Task.
            options: fields of Task.

        Raises:
            WrongUsage: an empty text, or a field that is unknown or out of range.
        """
        if isinstance(work, cls) and not options:
            return work
        if isinstance(work, Task):
            fields = {name: getattr(work, name) for name in work.model_fields_set}
        elif isinstance(work, str):
            if not work.strip():
                raise WrongUsage("task: the text is empty", hint="give the task as text, or - to read standard input")
            fields = {"messages": ({"role": "user", "content": work},)}
        else:
            fields = {"messages": _messages(work)}
        try:
            task = cls(**{**fields, **options})
        except ValidationError as error:
            raise WrongUsage(_first_fault(error), hint="see help(router.Task) for the fields") from None
        _check_sendable(task)
        return task

    @property
    def text(self) -> str:
        """The user's words: the text parts of all messages, joined by blank lines."""
        return "\n\n".join(part for message in self.messages for part in _texts(message.get("content")))


def _messages(work: object) -> tuple[dict[str, Any], ...]:
    """Return the messages, or say what was given instead.

    Raises:
        WrongUsage: it is no sequence of mappings.
    """
    if isinstance(work, Sequence) and all(isinstance(message, Mapping) for message in work):
        return tuple(dict(message) for message in work)
    shown = type(work).__name__
    raise WrongUsage(f"task: a {shown} is not allowed; a text, a list of messages or a Task is")


def _check_sendable(task: Task) -> None:
    """Refuse what no JSON request can carry: lone surrogates, NaN, objects.

    Raises:
        WrongUsage: a message, a tool or an extra field holds such a thing.
    """
    for key, value in (("messages", task.messages), ("tools", task.tools), ("extra", task.extra)):
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            message = f"task: {key} holds half of a surrogate pair, which is no character"
            raise WrongUsage(message, hint="decode the text with the encoding it was written in") from None
        except (TypeError, ValueError, RecursionError) as error:
            words = str(error)[:100]
            raise WrongUsage(
                f"task: {key} cannot be sent as JSON: {words}", hint="texts, numbers, lists, dicts"
            ) from None


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, Sequence):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return [text for text in parts if isinstance(text, str)]
    return []


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"]) or "task"
    given = repr(fault.get("input"))
    shown = given if len(given) <= 80 else given[:77] + "…"
    return f"task: {where} is {shown}; {fault['msg']}"


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
    """

    cost: Interval | None
    planned: bool
    calls: int
    decision: Decision
    task_class: str
    single_cost: Interval | None
    plan_cost: Interval | None


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


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: what a worker is asked, of which class, after which others."""

    step_id: str
    task_class: str
    prompt: str
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked graph of steps: unique ids, known dependencies, no cycle. `steps` are in dependency order."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer and its receipt.

    Args:
        text: the answer.
        messages: the assistant message(s) that end the conversation.
        decision: the decision for the single call, or for the orchestrator.
        plan: the plan, or None where one call did it.
        calls: every logical call of the run, those of an earlier process included.
        usage: sum of the known usages.
        cost: the run's cost, what earlier processes paid included.
        run_id: its row in the ledger.
        finish_reason: why the answer ended, as the upstream gave it ("length": it was cut), or None.
        status: "succeeded", or "partial" where steps failed (their errors are in `calls`).
        replayed: whether the answer was on record under its run key, so that nothing was called.
        warnings: one line each: another model served, a retired model's last list …
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
