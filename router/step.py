"""One step of a plan: as it is given (`TaskStep`), and as everything inside reads it (`Step`).

In: what a user, a file or a kept task says of a step. Out: checked `TaskStep`s, plain `Step`s. Invariant: the two have
the same fields, so that one is made of the other without a word lost; only what comes from outside is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""Body fields that limit an answer, tokens."""
MOST_WEIGHT: Final = 1000
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


def _is_no_boolean(value: object) -> object:
    """Refuse what Python takes for 0 or 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "Input should be a number, not a boolean")
    return value


def _is_named(name: str) -> str:
    if not name:
        raise PydanticCustomError("name", "Input should be a name, not empty")
    return name


Name = Annotated[str, AfterValidator(_is_named)]
"""A name: half of a surrogate pair in it is refused with the whole task, which says more than pydantic's own check."""
StepId = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_is_printable)]
BodyFields = Annotated[dict[str, Any], AfterValidator(_is_passed_on)]
NUMBER: Final = BeforeValidator(_is_no_boolean)
"""Stands in the type of every number that comes from outside, but for those of router.toml (see `router.section`)."""
Tokens = Annotated[int, NUMBER, Field(ge=1, le=10**9)]
Quality = Annotated[float, NUMBER, Field(ge=0, le=1)]
QualityWeight = Annotated[float, NUMBER, Field(gt=0, le=MOST_WEIGHT)]


class TaskStep(BaseModel):
    """One step of a plan that the caller gives.

    Args:
        id: unique in the task, printable.
        prompt: what the worker is asked; the answers of the steps it depends on are added.
        task_class: one of `router.classify.TASK_CLASSES`.
        depends_on: ids of steps whose answers it needs.
        mcp_tools: tools of MCP servers that may be called for it, beside the task's own.
        tools: the only ones of the task's own tools that it may use, by name; None: all of them.
        max_output_tokens: limit of its answer; None: the task's, else [swarm] step_max_output_tokens.
        extra: further body fields for its vendor, over those of the task.
        expected_input_tokens: overrides the estimate from its prompt, tokens.
        expected_output_tokens: overrides the forecast, tokens.
        quality_weight: how much its quality counts among the plan's steps, more than 0 to 1,000.
        quality_floor: least quality lower bound of its model, 0 to 1; None: the task's, else its class's.
        candidates: models it may be done by; the cheapest that is good enough is taken. Empty: the configuration's.
        max_input_tokens: limit of its prompt, a shared document not counted, tokens: answers handed on are cut to fit,
            its own words and the task's never. None: [context] step_input_tokens.
        sees_task: whether the task's own text stands before its prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: StepId
    prompt: str = Field(min_length=1)
    task_class: str = "chat"
    depends_on: tuple[str, ...] = ()
    mcp_tools: tuple[Name, ...] = ()
    tools: tuple[str, ...] | None = None
    max_output_tokens: Tokens | None = None
    extra: BodyFields = Field(default_factory=dict)
    expected_input_tokens: Tokens | None = None
    expected_output_tokens: Tokens | None = None
    quality_weight: QualityWeight = 1.0
    quality_floor: Quality | None = None
    candidates: tuple[Name, ...] = ()
    max_input_tokens: Tokens | None = None
    sees_task: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: what a worker is asked, of which class, after which others.

    Args:
        step_id: unique in its plan.
        task_class: what kind of work it is.
        prompt: its own words.
        depends_on: ids of the steps whose answers it needs.
        mcp_tools, max_output_tokens, extra, expected_input_tokens, expected_output_tokens, quality_weight,
            quality_floor, candidates, max_input_tokens, sees_task, tools: as of `TaskStep`. An orchestrator's own plan
            sets expected_output_tokens, quality_weight and tools at the most.
    """

    step_id: str
    task_class: str
    prompt: str
    depends_on: tuple[str, ...] = ()
    mcp_tools: tuple[str, ...] = ()
    max_output_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    expected_input_tokens: int | None = None
    expected_output_tokens: int | None = None
    quality_weight: float = 1.0
    quality_floor: float | None = None
    candidates: tuple[str, ...] = ()
    max_input_tokens: int | None = None
    sees_task: bool = False
    tools: tuple[str, ...] | None = None


_ALIKE: Final = tuple(each.name for each in fields(Step) if each.name != "step_id")
_DEFAULTS: Final = {name: each.get_default(call_default_factory=True) for name, each in TaskStep.model_fields.items()}


def step_of(given: TaskStep) -> Step:
    """Return a given step as everything inside reads it."""
    return Step(given.id, **{name: getattr(given, name) for name in _ALIKE})


def step_fields(step: Step) -> dict[str, Any]:
    """Return a step as `TaskStep` and plan files take it; what is as by default is left out, but for its class."""
    set_apart = {name: getattr(step, name) for name in _ALIKE if getattr(step, name) != _DEFAULTS[name]}
    return {"id": step.step_id, "task_class": step.task_class, "prompt": step.prompt, **set_apart}
