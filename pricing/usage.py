"""What one attempt used, as disjoint integer buckets.

In: counts from `extract` (a provider's own report) or from an estimate. Out: a frozen `Usage`.
Invariant: no token is in two buckets, and none is negative, so a cost is a plain sum over buckets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter

from pricing.errors import UsageError
from pricing.quick import quick

INPUT_BUCKETS = (
    "uncached_input_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "audio_input_tokens",
    "image_input_tokens",
)
OUTPUT_BUCKETS = ("plain_output_tokens", "reasoning_tokens", "audio_output_tokens", "image_output_tokens")


@quick
@dataclass(frozen=True, slots=True)
class Usage:
    """Disjoint counts of one attempt. All are whole numbers ≥ 0, in tokens unless the name says otherwise.

    Args:
        uncached_input_tokens: text input that was neither read from nor written to a prompt cache.
        cache_read_tokens: input served from a prompt cache.
        cache_write_5m_tokens: input written to a cache with the short time to live (5 min, or the only one there is).
        cache_write_1h_tokens: input written to a cache kept for one hour.
        audio_input_tokens: audio input that was not cached.
        image_input_tokens: image input that was not cached.
        plain_output_tokens: generated text that is not reasoning.
        reasoning_tokens: generated reasoning ("thinking").
        audio_output_tokens: generated audio.
        image_output_tokens: generated images.
        web_searches: calls made of the provider's web search tool (a count, not tokens).

    Raises:
        UsageError: a count is negative or not a whole number.
    """

    uncached_input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    audio_input_tokens: int = 0
    image_input_tokens: int = 0
    plain_output_tokens: int = 0
    reasoning_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    web_searches: int = 0

    def __post_init__(self) -> None:
        """Refuse a negative or non-integer count; nothing is ever clamped."""
        for count in COUNTS(self):
            if type(count) is not int or count < 0:
                name = BUCKETS[next(at for at, each in enumerate(COUNTS(self)) if each is count)]
                message = f"usage: {name} is {count!r}; a whole number of 0 or more is allowed"
                raise UsageError(message, hint="the provider's report contradicts itself; the attempt stays unpriced")

    @property
    def input_tokens(self) -> int:
        """All input tokens, cache reads and writes included."""
        return (
            self.uncached_input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
            + self.audio_input_tokens
            + self.image_input_tokens
        )

    @property
    def output_tokens(self) -> int:
        """All generated tokens, reasoning included."""
        return self.plain_output_tokens + self.reasoning_tokens + self.audio_output_tokens + self.image_output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the bucket-wise sum."""
        return Usage(*map(add, COUNTS(self), COUNTS(other)))


BUCKETS = tuple(field.name for field in fields(Usage))
COUNTS: Callable[[Usage], tuple[int, ...]] = attrgetter(*BUCKETS)
"""Every bucket of a usage, in the order of `BUCKETS`."""
