"""The figures of one line of a month: sums, shares and percentiles over some groups of attempts.

In: a line's sums and its histograms. Out: `Figures`. Invariant: the figures of all rows are those of the sums of any
partition of them, exactly; what no row knows is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from pricing.usage import BUCKETS, INPUT_BUCKETS, OUTPUT_BUCKETS
from reports.page import Money
from router.ledger.latency import percentile_us

Sums: TypeAlias = Mapping[str, int | Fraction]
"""A line's sum of each column of `SUMMED`."""
Counts: TypeAlias = Mapping[int, int]
"""Attempts by latency bucket (see `router.ledger.latency`)."""
NONE: Counts = MappingProxyType({})
STATUSES = ("exact", "estimated", "partial", "unknown")
TIMES = ("queue_us", "inference_us", "network_us", "state_us", "latency_us")
MARKED = (
    "refused",
    "whole",
    "ended",
    "judged",
    "answered",
    "rate_limited",
    "estimated",
    "timed_ours",
    *TIMES,
    *(f"{time}_known" for time in TIMES),
    "list_known",
    "settled_known",
    *(f"cost_{status}" for status in STATUSES),
)
"""What `month_rows` counts apart, in attempts but for times: refused before they were served (no usage, and nothing
that could be billed); with a whole price; ended; ended with an outcome on record, answered of those, told to wait (429)
of those; with estimated token counts; answered to us, the times of those in microseconds, and how many have each; with
a list cost, with a settled cost; and by cost status."""
SHOWN = ("list_shown", "settled_shown", "reported_shown", "unsettled_shown")
"""Amounts in the page's currency."""
SUMMED = (
    *("records", "requests", "requests_unknown", "attempts", "calls", "usage_unknown", "reported", "unsettled"),
    *BUCKETS,
    *MARKED,
    *SHOWN,
)


class Summed(Protocol):
    """Rows that know the sums of their lines; `month_rows.MonthRows` does."""

    def sums_by_line(self) -> Mapping[str | None, Sums]:
        """Return each line's sums, in the order in which the lines first occur."""
        ...


@dataclass(frozen=True, slots=True)
class Figures:
    """One line's figures. Amounts are in the page's currency, times in milliseconds.

    Args:
        records: rows of the ledger: attempts, and usage that somebody else has added up.
        attempts: requests on the wire, imported records included.
        added_up: requests that such added-up usage says it is of.
        uncounted: rows of such usage that do not say.
        calls: of them first attempts, so logical calls.
        input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens: usage over attempts whose
            usage is known; None where none is.
        list_cost: catalogue price × usage; a lower bound where attempts are unpriced; None where no cost is known.
        settled_cost: what is really paid, alike.
        reported_cost: what upstreams stated, over `reported` attempts; None for none.
        reported: records whose upstream stated a cost.
        possibly_billed: what was reserved for attempts that ended without usage after they were sent, or never ended.
        unsettled: such attempts.
        by_status: records by cost status.
        unpriced: records whose cost is not known whole, those left out that were refused before they were served.
        refused: attempts that were refused before they were served, so that there is nothing to pay.
        estimated: records whose token counts are estimated.
        cache_hit_share: cache reads of all input, 0 to 1; None without input.
        success_share: answered attempts of those that have ended with an outcome on record, 0 to 1; None for none.
        rate_limited_share: of those the ones that were told to wait (429), 0 to 1; None for none.
        p50_ms, p95_ms, p99_ms: latency of answered attempts, within 5 %; None for none.
        ttft_p50_ms, ttft_p95_ms: time to the first token of streamed ones, within 5 %; None for none.
        queue_ms: mean wait at our own gates over attempts of ours that were answered; None for none.
        inference_ms, network_ms, state_ms, latency_ms: means over those of them that have it; None where none has.
    """

    records: int
    attempts: int
    added_up: int
    uncounted: int
    calls: int
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    list_cost: Money | None
    settled_cost: Money | None
    reported_cost: Money | None
    reported: int
    possibly_billed: Money | None
    unsettled: int
    by_status: Mapping[str, int]
    unpriced: int
    refused: int
    estimated: int
    cache_hit_share: Fraction | None
    success_share: Fraction | None
    rate_limited_share: Fraction | None
    p50_ms: Fraction | None
    p95_ms: Fraction | None
    p99_ms: Fraction | None
    ttft_p50_ms: Fraction | None
    ttft_p95_ms: Fraction | None
    queue_ms: Fraction | None
    inference_ms: Fraction | None
    network_ms: Fraction | None
    state_ms: Fraction | None
    latency_ms: Fraction | None


def figures(sums: Sums, latencies: Counts, currency: str, ttfts: Counts = NONE) -> Figures:
    """Return the figures of one line, or of all of them together.

    Args:
        sums: as `sums_by_line` makes them.
        latencies: answered attempts by latency bucket.
        currency: ISO 4217 code of the page.
        ttfts: streamed attempts by the bucket of their time to the first token.
    """
    records = int(sums["records"])
    unpriced = records - int(sums["whole"]) - int(sums["refused"])
    known = records > sums["usage_unknown"]
    read = sum(sums[bucket] for bucket in INPUT_BUCKETS)
    return Figures(
        records=records,
        attempts=int(sums["attempts"]),
        added_up=int(sums["requests"] - sums["attempts"]),
        uncounted=int(sums["requests_unknown"]),
        calls=int(sums["calls"]),
        input_tokens=_tokens(sums, INPUT_BUCKETS, known=known),
        cache_read_tokens=_tokens(sums, ("cache_read_tokens",), known=known),
        cache_write_tokens=_tokens(sums, ("cache_write_5m_tokens", "cache_write_1h_tokens"), known=known),
        output_tokens=_tokens(sums, OUTPUT_BUCKETS, known=known),
        reasoning_tokens=_tokens(sums, ("reasoning_tokens",), known=known),
        list_cost=_money(sums, "list_shown", "list_known", currency, lower_bound=unpriced > 0),
        settled_cost=_money(sums, "settled_shown", "settled_known", currency, lower_bound=unpriced > 0),
        reported_cost=_money(sums, "reported_shown", "reported", currency),
        reported=int(sums["reported"]),
        possibly_billed=_money(sums, "unsettled_shown", "unsettled", currency),
        unsettled=int(sums["unsettled"]),
        by_status={status: int(sums[f"cost_{status}"]) for status in STATUSES},
        unpriced=unpriced,
        refused=int(sums["refused"]),
        estimated=int(sums["estimated"]),
        cache_hit_share=_mean(sums["cache_read_tokens"], read),
        success_share=_mean(sums["answered"], sums["judged"]),
        rate_limited_share=_mean(sums["rate_limited"], sums["judged"]),
        p50_ms=percentile_ms(latencies, 0.5),
        p95_ms=percentile_ms(latencies, 0.95),
        p99_ms=percentile_ms(latencies, 0.99),
        ttft_p50_ms=percentile_ms(ttfts, 0.5),
        ttft_p95_ms=percentile_ms(ttfts, 0.95),
        queue_ms=_mean_ms(sums, "queue_us"),
        inference_ms=_mean_ms(sums, "inference_us"),
        network_ms=_mean_ms(sums, "network_us"),
        state_ms=_mean_ms(sums, "state_us"),
        latency_ms=_mean_ms(sums, "latency_us"),
    )


def sums_by_line(rows: Summed) -> Mapping[str | None, Sums]:
    """Return each line's sums of every column of `SUMMED`, in the order in which the lines first occur."""
    return rows.sums_by_line()


def sum_of_lines(lines: Mapping[str | None, Sums]) -> Sums:
    """Return the sums of all lines together."""
    return {column: sum(line[column] for line in lines.values()) for column in SUMMED}


def sum_of_histograms(lines: Mapping[Any, Counts]) -> Counts:
    """Return the histogram of all lines together."""
    found: dict[int, int] = {}
    for line in lines.values():
        for bucket, count in line.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def percentile_ms(counts: Counts, share: float) -> Fraction | None:
    """Return a percentile (nearest rank) in milliseconds, within 5 %; None without counts.

    Args:
        counts: attempts by latency bucket.
        share: 0.95 for p95.
    """
    found = percentile_us(counts, share)
    return None if found is None else Fraction(found, 1000)


def _tokens(sums: Sums, buckets: tuple[str, ...], *, known: bool) -> int | None:
    return int(sum(sums[bucket] for bucket in buckets)) if known else None


def _money(sums: Sums, amount: str, known: str, currency: str, *, lower_bound: bool = False) -> Money | None:
    return Money(Fraction(sums[amount]), currency, lower_bound) if sums[known] else None


def _mean(total: int | Fraction, count: int | Fraction) -> Fraction | None:
    return Fraction(total) / Fraction(count) if count else None


def _mean_ms(sums: Sums, time: str) -> Fraction | None:
    """Return a mean over the attempts that have the measure."""
    return _mean(sums[time], 1000 * sums[f"{time}_known"])
