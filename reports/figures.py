"""The figures of one line of a month: sums, shares and percentiles over some groups of attempts.

In: rows of the month's frame. Out: `Figures`. Invariant: the figures of all rows are the sums of the figures of any
partition of them, exactly; what no row knows is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from pricing.usage import BUCKETS, INPUT_BUCKETS, OUTPUT_BUCKETS
from reports.page import Money
from router.ledger.latency import percentile_us

if TYPE_CHECKING:
    import pandas as pd

Sums: TypeAlias = Mapping[str, int | Fraction]
"""A line's sum of each column of `SUMMED`."""
STATUSES = ("exact", "estimated", "partial", "unknown")
TIMES = ("queue_us", "inference_us", "network_us", "state_us")
MARKED = (
    "refused",
    "whole",
    "ended",
    "estimated",
    "timed",
    *TIMES,
    "list_known",
    "settled_known",
    *(f"cost_{status}" for status in STATUSES),
)
"""What `month_rows` counts apart, in attempts but for times: refused before they were served (no usage, and nothing
that could be billed); with a whole price; ended; with estimated token counts; answered to us, and the times of those,
microseconds; with a list cost, with a settled cost; and by cost status."""
SHOWN = ("list_shown", "settled_shown", "reported_shown", "unsettled_shown")
"""Amounts in the page's currency."""
SUMMED = (
    *("attempts", "calls", "succeeded", "usage_unknown", "reported", "unsettled"),
    *BUCKETS,
    *MARKED,
    *SHOWN,
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One line's figures. Amounts are in the page's currency, times in milliseconds.

    Args:
        attempts: requests on the wire, imported records included.
        calls: of them first attempts, so logical calls.
        input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens: usage over attempts whose
            usage is known; None where none is.
        list_cost: catalogue price × usage; a lower bound where attempts are unpriced; None where no cost is known.
        settled_cost: what is really paid, alike.
        reported_cost: what upstreams stated, over `reported` attempts; None for none.
        reported: attempts whose upstream stated a cost.
        possibly_billed: what was reserved for attempts that ended without usage after they were sent, or never ended.
        unsettled: such attempts.
        by_status: attempts by cost status.
        unpriced: attempts whose cost is not known whole, those left out that were refused before they were served.
        refused: attempts that were refused before they were served, so that there is nothing to pay.
        estimated: attempts whose token counts are estimated.
        success_share: answered attempts of those that have ended, 0 to 1; None for none.
        p50_ms, p95_ms: latency of answered attempts, within 5 %; None for none.
        queue_ms: mean wait at our own gates per attempt of ours that was answered; None for none.
        inference_ms, network_ms, state_ms: means per such attempt; None where not measured.
    """

    attempts: int
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
    success_share: Fraction | None
    p50_ms: Fraction | None
    p95_ms: Fraction | None
    queue_ms: Fraction | None
    inference_ms: Fraction | None
    network_ms: Fraction | None
    state_ms: Fraction | None


def figures(sums: Sums, latencies: Mapping[int, int], currency: str) -> Figures:
    """Return the figures of one line, or of all of them together.

    Args:
        sums: as `sums_by_line` makes them.
        latencies: answered attempts by latency bucket.
        currency: ISO 4217 code of the page.
    """
    attempts = int(sums["attempts"])
    unpriced = attempts - int(sums["whole"]) - int(sums["refused"])
    known = attempts > sums["usage_unknown"]
    return Figures(
        attempts=attempts,
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
        success_share=_mean(sums["succeeded"], sums["ended"]),
        p50_ms=_percentile_ms(latencies, 0.5),
        p95_ms=_percentile_ms(latencies, 0.95),
        queue_ms=_mean(sums["queue_us"], 1000 * sums["timed"]),
        inference_ms=_measured_ms(sums, "inference_us"),
        network_ms=_measured_ms(sums, "network_us"),
        state_ms=_measured_ms(sums, "state_us"),
    )


def sums_by_line(rows: pd.DataFrame) -> Mapping[str | None, Sums]:
    """Return each line's sums of every numeric column, in the order in which the lines first occur.

    Args:
        rows: of `month_rows.month_rows`.
    """
    labels = rows["line"].tolist()
    found: dict[str | None, dict[str, int | Fraction]] = {label: dict.fromkeys(SUMMED, 0) for label in labels}
    for column in SUMMED:
        for label, value in zip(labels, rows[column].tolist(), strict=True):
            found[label][column] += value
    return found


def sum_of_lines(lines: Mapping[str | None, Sums]) -> Sums:
    """Return the sums of all lines together."""
    return {column: sum(line[column] for line in lines.values()) for column in SUMMED}


def histograms_by_line(latencies: pd.DataFrame) -> Mapping[str | None, Mapping[int, int]]:
    """Return each line's answered attempts by latency bucket.

    Args:
        latencies: of `month_rows.month_latencies`.
    """
    found: dict[str | None, dict[int, int]] = {}
    columns = (latencies[name].tolist() for name in ("line", "latency_bucket", "attempts"))
    for label, bucket, count in zip(*columns, strict=True):
        line = found.setdefault(label, {})
        line[bucket] = line.get(bucket, 0) + count
    return found


def sum_of_histograms(lines: Mapping[str | None, Mapping[int, int]]) -> Mapping[int, int]:
    """Return the histogram of all lines together."""
    found: dict[int, int] = {}
    for line in lines.values():
        for bucket, count in line.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def _tokens(sums: Sums, buckets: tuple[str, ...], *, known: bool) -> int | None:
    return int(sum(sums[bucket] for bucket in buckets)) if known else None


def _money(sums: Sums, amount: str, known: str, currency: str, *, lower_bound: bool = False) -> Money | None:
    return Money(Fraction(sums[amount]), currency, lower_bound) if sums[known] else None


def _mean(total: int | Fraction, count: int | Fraction) -> Fraction | None:
    return Fraction(total) / Fraction(count) if count else None


def _measured_ms(sums: Sums, column: str) -> Fraction | None:
    """Return a mean time; a sum of 0 µs over real requests means that it was not measured."""
    return _mean(sums[column], 1000 * sums["timed"]) if sums[column] else None


def _percentile_ms(counts: Mapping[int, int], share: float) -> Fraction | None:
    found = percentile_us(counts, share)
    return None if found is None else Fraction(found, 1000)
