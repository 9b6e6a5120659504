"""A configuration of kind `by_plan`: what is put on all steps of a plan together, and what each step may be given to.

In: values as TOML has them. Out: `ByPlanSettings`. Invariant: see `router.section`; a candidate's own quality never
stands without the number of problems that it was measured on.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from router.section import Count, Name, Number, Seconds, Section

Quality = Annotated[Number, Field(ge=0, le=1)]
"""A share of problems solved, 0 to 1."""


class CandidateSettings(Section):
    """A model with what is sent to it beside the prompt: how hard it is to think is part of the choice.

    Args:
        model: our model id or an alias.
        effort: sent as `reasoning_effort`; None: nothing is sent.
        extra: further body fields, for vendors that say it in another way; over those of class and configuration.
        reasoning_tokens: thinking expected of it, tokens a call, added to its answer; None: what the effort stands for.
        quality: by class, the share of your own problems that it solved, 0 to 1, in place of a published figure.
        sample_size: how many problems `quality` was measured on.
    """

    model: Name
    effort: Name | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    reasoning_tokens: Count | None = Field(default=None, ge=0)
    quality: dict[str, Quality] = Field(default_factory=dict)
    sample_size: Count | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _says_it_once(self) -> Self:
        if self.effort is not None and "reasoning_effort" in self.extra:
            raise PydanticCustomError("candidate", "should give its effort once: effort, or reasoning_effort in extra")
        if self.quality and self.sample_size is None:
            raise PydanticCustomError("candidate", "should give the sample_size that its quality was measured on")
        return self


def _as_table(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


PlanCandidate = Annotated[CandidateSettings, BeforeValidator(_as_table)]
"""A model's name alone, or a table."""


class PlanRule(Section):
    """What the steps of a class may be given to, and what is asked of them.

    Args:
        quality_floor: what the class adds to the plan's floor, 0 to 1; None: nothing.
        candidates: what to choose from; empty: the configuration's own, else the built-in ones of the class.
        extra: further body fields of its calls, whichever candidate is chosen; over those of the configuration.
    """

    quality_floor: Number | None = Field(default=None, ge=0, le=1)
    candidates: tuple[PlanCandidate, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)


class ByPlanSettings(Section):
    """A configuration that puts models on all steps of a plan at once: the cheapest way that holds its limits.

    A task's own quality floor, latency objective and budget stand in place of those here. A call that is no step of a
    plan is decided on as `by_class` does.

    Args:
        default_class: the class of a task whose class is unknown.
        classes: rules that replace or extend the built-in ones.
        candidates: what steps of a class without candidates of its own may be given to; empty: the built-in ones.
        quality_floor: least weighted mean of the steps' quality bounds, 0 to 1; None: that of their classes' floors.
        latency_objective_s: longest critical path, planning and merge included, expected seconds; None: no limit.
        budget_usd: most expected cost of plan, steps and merge, USD; it is the run's budget too. None: no limit.
        objective: "cost": the cheapest that holds the limits; "quality": the best that budget and latency allow.
        time_limit_s: longest time of solving, seconds; then the best that was found is taken.
        gap_share: distance from the best possible at which solving ends, 0 to 1.
        extra: further body fields of all its calls, over those of the endpoint.
    """

    policy: Literal["by_plan"]
    default_class: str = "chat"
    classes: dict[str, PlanRule] = Field(default_factory=dict)
    candidates: tuple[PlanCandidate, ...] = ()
    quality_floor: Number | None = Field(default=None, ge=0, le=1)
    latency_objective_s: Seconds | None = Field(default=None, gt=0)
    budget_usd: Decimal | None = Field(default=None, gt=0, le=10**9, decimal_places=12)
    objective: Literal["cost", "quality"] = "cost"
    time_limit_s: Seconds = Field(default=2.0, gt=0, le=600)
    gap_share: Number = Field(default=0.005, ge=0, lt=1)
    extra: dict[str, Any] = Field(default_factory=dict)
