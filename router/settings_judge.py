"""Which answers are judged, by whom, and what follows from the scores: the table [judge].

In: values as TOML has them. Out: `JudgeSettings`. Invariant: see `router.section`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from router.section import Count, Name, Number, Seconds, Section, Share


class JudgeSettings(Section):
    """A model that scores a share of the answers.

    Args:
        model: the model that judges; None: the configuration's, or nobody where there is none either.
        configuration: the configuration whose orchestrator judges.
        share: share of the answers that are judged, 0 to 1.
        window: number of last scores whose mean is watched.
        least_score: mean below which the shared context is dropped, 0 to 1.
        drop: fall of the mean below the best one since the last reset that does the same, 0 to 1; 1: never.
        budget_share: most of what answers have cost that may be spent on judging them, 0 to 1.
        max_output_tokens: limit of a judgement, tokens.
        timeout_s: longest time of a judgement, seconds.
    """

    model: Name | None = None
    configuration: Name | None = None
    share: Share = Decimal("0.1")
    window: Count = Field(default=20, ge=1, le=100_000)
    least_score: Number = Field(default=0.6, ge=0, le=1)
    drop: Number = Field(default=0.2, gt=0, le=1)
    budget_share: Share = Decimal("0.25")
    max_output_tokens: Count = Field(default=256, ge=16)
    timeout_s: Seconds = Field(default=60.0, gt=0)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.model is not None and self.configuration is not None:
            raise PydanticCustomError("judge", "should name a model or a configuration, not both")
        return self

    @property
    def is_on(self) -> bool:
        """Whether anything is judged."""
        return self.share > 0 and (self.model is not None or self.configuration is not None)
