"""Amazon Bedrock's usage reports.

In: the usage object of the Converse API. Out: a `Usage`. Invariant: cache reads and writes lie outside `inputTokens`.
"""

from __future__ import annotations

from pricing.errors import UsageError
from pricing.extract.counts import Counts, Report, agreed, check_total, split_writes
from pricing.usage import Usage

_LIVES = ("5m", "1h")


def usage_from_bedrock_converse(payload: Report) -> Usage | None:
    """Return the buckets of a Converse usage object.

    `cacheDetails` splits the writes by their time to live; without it all are 5 minutes. Models count the cached tokens
    in `totalTokens` or leave them out; both sums are allowed. Cache counts are also read under the names that
    InvokeModel gives them (`cacheReadInputTokenCount`).

    Args:
        payload: the usage object.

    Raises:
        UsageError: the split does not add up, the total fits neither sum, a time to live is not known, or a count is
            not a whole number of 0 or more.
    """
    report = Counts("usage", payload)
    if report.is_empty("inputTokens", "outputTokens", "totalTokens"):
        return None
    fresh, made = report.needed("inputTokens"), report.needed("outputTokens")
    read = agreed("cacheReadInputTokens", *(report.count(f"cacheReadInputToken{end}") for end in ("s", "Count")))
    five, hour = _writes(report)
    total = report.count("totalTokens")
    if total != fresh + made:
        check_total("totalTokens", total, fresh + made + read + five + hour)
    return Usage(
        uncached_input_tokens=fresh,
        cache_read_tokens=read,
        cache_write_5m_tokens=five,
        cache_write_1h_tokens=hour,
        plain_output_tokens=made,
    )


def _writes(report: Counts) -> tuple[int, int]:
    names = ("cacheWriteInputTokens", "cacheWriteInputTokenCount")
    by_life: dict[str, int] = {}
    for entry in report.parts("cacheDetails"):
        life = entry.text("ttl")
        if life not in _LIVES:
            message = f"{entry.place}: ttl is {life!r}; {' or '.join(_LIVES)} is allowed"
            raise UsageError(message, hint="no price is known for a cache that lives so long")
        by_life[life] = by_life.get(life, 0) + (entry.count("inputTokens") or 0)
    written = None if report.is_empty(*names) else agreed(names[0], *(report.count(name) for name in names))
    return split_writes(names[0], written, by_life.get("5m"), by_life.get("1h"))
