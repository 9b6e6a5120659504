"""How much of what went before a prompt may hold: the table [context].

In: values as TOML has them. Out: `ContextSettings`. Invariant: see `router.section`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from router.section import Count, Seconds, Section, Switch


class ContextSettings(Section):
    """What of a conversation, of earlier steps and of a shared document is sent with a prompt.

    Args:
        rounds: rounds of a conversation that are kept where it is trimmed; the last ones.
        max_tokens: most tokens of a prompt, estimated; also of a merge, where its model could read more.
        trim: "overflow": a conversation is trimmed where it is longer than `max_tokens`; "always": to `rounds` each
            time.
        step_input_tokens: most tokens of a step's prompt, the shared document not counted: the answers of earlier
            steps are cut to fit, the step's own words never.
        warmup: whether the first of the workers that share a document goes ahead, so that the others read it from the
            model's prompt cache.
        warmup_wait_s: longest wait for it, seconds.
    """

    rounds: Count = Field(default=5, ge=1)
    max_tokens: Count = Field(default=200_000, ge=256)
    trim: Literal["overflow", "always"] = "overflow"
    step_input_tokens: Count = Field(default=1500, ge=64)
    warmup: Switch = True
    warmup_wait_s: Seconds = Field(default=30.0, ge=0)
