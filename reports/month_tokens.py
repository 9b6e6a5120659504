"""Tokens of a period by kind, and what share of all input or output each is.

In: a period's sums. Out: a `Table`. Invariant: the kinds of input add up to all input, those of output to all output.
"""

from __future__ import annotations

from fractions import Fraction

from pricing.usage import INPUT_BUCKETS, OUTPUT_BUCKETS
from reports.figures import Sums
from reports.page import Cell, Column, Panel, Table

_TITLES = {
    "uncached_input_tokens": "Input, not cached",
    "cache_read_tokens": "Input, read from cache",
    "cache_write_5m_tokens": "Input, written to cache (5 min)",
    "cache_write_1h_tokens": "Input, written to cache (1 h)",
    "audio_input_tokens": "Input, audio",
    "image_input_tokens": "Input, images",
    "plain_output_tokens": "Output",
    "reasoning_tokens": "Output, reasoning",
    "audio_output_tokens": "Output, audio",
    "image_output_tokens": "Output, images",
}
_COLUMNS = (
    Column("kind", "Kind", "text"),
    Column("bucket", "Bucket", "text"),
    Column("tokens", "Tokens", "tokens"),
    Column("share", "Of input or output", "share"),
)


def tokens_table(sums: Sums) -> tuple[Table, ...]:
    """Return the table `tokens`; none where no usage is known.

    Args:
        sums: of all rows of the period.
    """
    rows: list[tuple[Cell, ...]] = []
    for buckets in (INPUT_BUCKETS, OUTPUT_BUCKETS):
        whole = sum(sums[bucket] for bucket in buckets)
        rows.extend(
            (_TITLES[bucket], bucket, int(sums[bucket]), Fraction(sums[bucket]) / whole)
            for bucket in buckets
            if sums[bucket]
        )
    if sums["web_searches"]:
        rows.append(("Web searches", "web_searches", int(sums["web_searches"]), None))
    if not rows:
        return ()
    return (
        Table(
            "tokens", "Tokens by kind", _COLUMNS, tuple(rows), panels=(Panel("Tokens by kind", ("tokens", "share")),)
        ),
    )
