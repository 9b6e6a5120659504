"""What goes into the router: `Task`.

In: a string, OpenAI-style messages, or a `Task`. Out: a checked, frozen `Task`. Invariant: what one holds can be sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from router.errors import WrongUsage

Messages = Sequence[Mapping[str, Any]]
Role = Literal["single", "orchestrator", "worker", "judge", "shadow"]
ROLES_OF_MESSAGES = ("system", "developer", "user", "assistant", "tool")


LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""Body fields that limit an answer, tokens."""
_OWN_FIELDS: Final = ("messages", "model", "stream")


def _is_passed_on(extra: dict[str, Any]) -> dict[str, Any]:
    """Refuse what a request sets itself, and counts that make a reservation senseless: it holds the most they allow."""
    for name in _OWN_FIELDS:
        if name in extra:
            raise ValueError(f"{name} is set by the router; other body fields are allowed")
    for name in (*LIMITS, "n"):
        value = extra.get(name, 1)
        if type(value) is not int or not 1 <= value <= 10**9:
            raise ValueError(f"{name} is {str(value)[:40]}; a whole number from 1 to 1,000,000,000 is allowed")
    return extra


def _is_printable(step_id: str) -> str:
    """Refuse an id that a terminal would act on."""
    if not step_id.isprintable():
        raise ValueError("control characters are not allowed in an id")
    return step_id


StepId = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_is_printable)]
BodyFields = Annotated[dict[str, Any], AfterValidator(_is_passed_on)]


class TaskStep(BaseModel):
    """One step of a plan that the caller gives.

    Args:
        id: unique in the task, printable.
        prompt: what the worker is asked; the answers of the steps it depends on are added.
        task_class: one of `router.classify.TASK_CLASSES`.
        depends_on: ids of steps whose answers it needs.
        mcp_tools: tools of MCP servers that may be called for it, beside the task's own.
        max_output_tokens: limit of its answer; None: the task's, else [swarm] step_max_output_tokens.
        extra: further body fields for its vendor, over those of the task.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: StepId
    prompt: str = Field(min_length=1)
    task_class: str = "chat"
    depends_on: tuple[str, ...] = ()
    mcp_tools: tuple[str, ...] = ()
    max_output_tokens: int | None = Field(default=None, ge=1)
    extra: BodyFields = Field(default_factory=dict)


class Task(BaseModel):
    """One piece of work.

    Args:
        messages: OpenAI-style messages; at least one.
        task_class: one of `router.classify.TASK_CLASSES`; None: judged from the text.
        configuration: a named configuration; None: the default one.
        candidates: choose the cheapest of these models instead of a configuration's.
        plan: "auto" plans where it is estimated to pay, "always" and "never" say it themselves. With `steps` given
            there is nothing to plan.
        steps: the caller's own plan, in place of an orchestrator's; each runs when those it depends on have succeeded.
        merge: whether the answers of a plan's steps are merged into one; without it the result has them by step.
        shared: a document that every step reads; it stands first in each prompt, so that it is paid as a cached read.
        tools: OpenAI-style tool descriptors, passed through: the caller answers their calls.
        mcp_tools: tools of MCP servers that may be called for it, as `server__tool` or `server__*`; none by default.
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
        extra: further body fields for the vendor (thinking, reasoning_effort …), passed through; not messages, model
            or stream.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: tuple[dict[str, Any], ...] = Field(min_length=1)
    task_class: str | None = None
    configuration: str | None = None
    candidates: tuple[str, ...] = ()
    plan: Literal["auto", "always", "never"] = "auto"
    steps: tuple[TaskStep, ...] = ()
    merge: bool = True
    shared: str | None = Field(default=None, min_length=1)
    tools: tuple[dict[str, Any], ...] = ()
    mcp_tools: tuple[str, ...] = ()
    json_output: bool = False
    max_output_tokens: int | None = Field(default=None, ge=1)
    expected_input_tokens: int | None = Field(default=None, ge=0)
    expected_output_tokens: int | None = Field(default=None, ge=0)
    quality_floor: float | None = Field(default=None, ge=0, le=1)
    latency_objective_s: float | None = Field(default=None, gt=0)
    budget_usd: Decimal | None = Field(default=None, gt=0, le=10**9, decimal_places=12)
    tenant: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    run_key: str | None = Field(default=None, min_length=1, max_length=200)
    extra: BodyFields = Field(default_factory=dict)

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
        is_checked = isinstance(work, str) and "messages" not in options and _is_sendable(work)
        _check_sendable(task, _SENT[1:] if is_checked else _SENT)
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


_SENT = ("messages", "steps", "tools", "extra", "tenant", "tags")  # other texts are checked by name, or by pydantic
_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _is_sendable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_sendable(task: Task, names: Sequence[str]) -> None:
    """Refuse what no JSON can carry, be it a request's or a kept task's: lone surrogates, NaN, objects.

    Args:
        task: the task.
        names: fields that are looked at.

    Raises:
        WrongUsage: one of them holds such a thing.
    """
    for key in names:
        value = getattr(task, key)
        if not value:
            continue
        try:
            _write([vars(step) for step in value] if key == "steps" else value).encode()
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
