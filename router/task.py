"""What goes into the router: `Task`.

In: a string, OpenAI-style messages, or a `Task`. Out: a checked, frozen `Task`. Invariant: what one holds can be sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from router.errors import WrongUsage
from router.plan_value import Plan
from router.step import LIMITS, NUMBER, BodyFields, Name, Quality, StepId, TaskStep, Tokens

__all__ = ["LIMITS", "ROLES_OF_MESSAGES", "BodyFields", "Messages", "Role", "StepId", "Task", "TaskStep"]

Messages = Sequence[Mapping[str, Any]]
Role = Literal["single", "orchestrator", "worker", "judge", "shadow"]
ROLES_OF_MESSAGES = ("system", "developer", "user", "assistant", "tool")


if TYPE_CHECKING:
    PlanChoice = Literal["auto", "always", "never"] | Plan  # a Plan is taken apart into steps and merge
else:
    PlanChoice = Literal["auto", "always", "never"]


class Task(BaseModel):
    """One piece of work.

    Args:
        messages: OpenAI-style messages; at least one.
        task_class: one of `router.classify.TASK_CLASSES`; None: judged from the text.
        configuration: a named configuration; None: the default one.
        candidates: choose the cheapest of these models instead of a configuration's.
        plan: "auto" plans where it is estimated to pay, "always" and "never" say it themselves. A `Plan` of the
            caller's own is kept as `steps` and `merge`. With steps given there is nothing to plan.
        steps: the caller's own plan, in place of an orchestrator's; each runs when those it depends on have succeeded.
        merge: whether the answers of a plan's steps are merged into one; without it the result has them by step, and
            the answer is that of the plan's last step, where it has one.
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
    task_class: Name | None = None
    configuration: Name | None = None
    candidates: tuple[Name, ...] = ()
    plan: PlanChoice = "auto"
    steps: tuple[TaskStep, ...] = ()
    merge: bool = True
    shared: str | None = Field(default=None, min_length=1)
    tools: tuple[dict[str, Any], ...] = ()
    mcp_tools: tuple[Name, ...] = ()
    json_output: bool = False
    max_output_tokens: Tokens | None = None
    expected_input_tokens: Annotated[int, NUMBER, Field(ge=0, le=10**9)] | None = None
    expected_output_tokens: Annotated[int, NUMBER, Field(ge=0, le=10**9)] | None = None
    quality_floor: Quality | None = None
    latency_objective_s: Annotated[float, NUMBER, Field(gt=0, allow_inf_nan=False)] | None = None
    budget_usd: Decimal | None = Field(default=None, gt=0, le=10**9, decimal_places=12)
    tenant: Name | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    run_key: str | None = Field(default=None, min_length=1, max_length=200)
    extra: BodyFields = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _plan_is_taken_apart(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(plan := given.get("plan"), Plan):
            return given
        if given.get("steps"):
            raise WrongUsage("task: both a Plan and steps are given", hint="give one of them")
        rest = {name: value for name, value in given.items() if name not in ("plan", "steps")}
        return {**plan.written(), **rest}

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
        if isinstance(options.get("plan"), Plan):  # it takes the place of the plan that the task had
            fields = {name: value for name, value in fields.items() if name not in ("steps", "merge")}
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
        if len(self.messages) == 1 and type(content := self.messages[0].get("content")) is str:
            return content
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
_MOST_NESTED = 100  # a kept task is written by pydantic, which goes 255 levels down
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
            plain = [vars(step) for step in value] if key == "steps" else value
            _write(plain).encode()
            _check_depth(plain, _MOST_NESTED)
        except UnicodeEncodeError:
            message = f"task: {key} holds half of a surrogate pair, which is no character"
            raise WrongUsage(message, hint="decode the text with the encoding it was written in") from None
        except (TypeError, ValueError, RecursionError) as error:
            words = str(error)[:100]
            raise WrongUsage(
                f"task: {key} cannot be sent as JSON: {words}", hint="texts, numbers, lists, dicts"
            ) from None


def _check_depth(value: Any, levels: int) -> None:
    """Refuse what is nested more than so many levels.

    Raises:
        ValueError: it is.
    """
    if not isinstance(value, dict | list | tuple):
        return
    if not levels:
        raise ValueError(f"it is nested too deeply; {_MOST_NESTED} levels are allowed")
    for each in value.values() if isinstance(value, dict) else value:
        _check_depth(each, levels - 1)


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
