"""Where the time of a period's answered attempts went, and how long they took by model.

In: figures, histograms, single times. Out: tables, a note and a chart. Invariant: a mean is over the attempts that have
the measure; a percentile is read from a histogram or, of a stage, from each attempt; percentiles are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from reports.figures import NONE, Counts, Figures, Sums, percentile_ms
from reports.frames import LedgerReader
from reports.month_latency import Histograms
from reports.page import Cell, Chart, Column, Kind, Note, Table
from reports.period import Period
from router.ledger.latency import STAGES

_SHARES = (0.5, 0.95, 0.99)
MOST_TIMED = 20_000
"""Attempts whose times are read one by one: they are in no sum, and a page is to be there in half a second."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """The times of each stage, microseconds, ascending; without them, why.

    Args:
        times: by stage; empty: not read.
        note: what a reader must know of the percentiles.
    """

    times: Mapping[str, Sequence[int]]
    note: tuple[Note, ...]


def stage_times(reader: LedgerReader, period: Period, sums: Sums, at_most: int = MOST_TIMED) -> StageTimes:
    """Return the times of a period's answered attempts by stage, where they are few and all there.

    Args:
        reader: the ledger's.
        period: the period.
        sums: the sums of all rows.
        at_most: how many attempts are read one by one.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    counts = {stage: int(sums[f"{stage}_us_known"]) for stage in STAGES}
    most = max(counts.values())
    if not most:
        return StageTimes({}, ())
    values: dict[str, tuple[Cell, Kind]] = {"most": (at_most, "count"), "count": (most, "count")}
    if most > at_most:
        text = "percentiles of stages are read from up to {most} single attempts; here are {count}, so none is shown"
        return StageTimes({}, (Note("note", text, values),))
    found = reader.stage_times(period.start_us, period.end_us)
    if any(len(found[stage]) != count for stage, count in counts.items()):
        text = "percentiles of stages are read from single attempts; some of the {count} were pruned, so none is shown"
        return StageTimes({}, (Note("note", text, values),))
    return StageTimes(found, (Note("note", "percentiles of stages are exact, and do not add up to the whole's"),))


def time_tables(total: Figures, sums: Sums, stages: StageTimes) -> tuple[Table, ...]:
    """Return the table `time_spent`: stages and whole latencies, their mean and percentiles; none unmeasured.

    Args:
        total: the figures of all rows.
        sums: their sums.
        stages: times of the stages.
    """
    rows: list[tuple[Cell, ...]] = [
        (
            stage.capitalize(),
            getattr(total, f"{stage}_ms"),
            *(_percentile_ms(stages.times.get(stage, ()), share) for share in _SHARES),
            int(sums[f"{stage}_us_known"]),
        )
        for stage in STAGES
        if sums[f"{stage}_us_known"]
    ]
    if not rows:
        return ()
    whole = (total.latency_ms, total.p50_ms, total.p95_ms, total.p99_ms)
    rows.append(("Whole attempt", *whole, int(sums["latency_us_known"])))
    columns = (
        Column("stage", "Stage", "text"),
        Column("mean_ms", "Mean, ms", "duration_ms"),
        *(Column(f"p{share * 100:.0f}_ms", f"p{share * 100:.0f}, ms", "duration_ms") for share in _SHARES),
        Column("attempts", "Measured attempts", "count"),
    )
    return (Table("time_spent", "Where the time of our answered attempts went", columns, tuple(rows)),)


def _percentile_ms(times: Sequence[int], share: float) -> Fraction | None:
    """Return a percentile (nearest rank) of ascending microseconds in milliseconds; None without times."""
    return Fraction(times[max(1, ceil(share * len(times))) - 1], 1000) if times else None


def latency_table(found: Histograms) -> tuple[Table, ...]:
    """Return the table `latency`: percentiles by model; none where no latency is on record.

    Args:
        found: histograms by model.
    """
    columns = (
        Column("model", "Model", "text"),
        Column("attempts", "Answered", "count"),
        Column("p50_ms", "p50", "duration_ms"),
        Column("p95_ms", "p95", "duration_ms"),
        Column("p99_ms", "p99", "duration_ms"),
        Column("ttft_p50_ms", "TTFT p50", "duration_ms", optional=True),
        Column("ttft_p95_ms", "TTFT p95", "duration_ms", optional=True),
    )
    rows = tuple(_row(model, found) for model in _busiest(found.latencies))
    return (Table("latency", "Latency by model, ms", columns, rows),) if rows else ()


def latency_chart(table: str) -> Chart:
    """Return the chart of latency by model, from the table of that name."""
    return Chart(
        "latency_by_model",
        "Latency of answered attempts by model, ms",
        "bars",
        table,
        "model",
        ("p50_ms", "p95_ms"),
        description="Two bars for each model: half of its answers came within the first, 95 % within the second.",
    )


def _busiest(latencies: Mapping[Any, Counts]) -> list[Any]:
    return sorted(latencies, key=lambda model: (-sum(latencies[model].values()), model or ""))


def _row(model: Any, found: Histograms) -> tuple[Cell, ...]:
    counts, ttfts = found.latencies[model], found.ttfts.get(model, NONE)
    return (
        model,
        sum(counts.values()),
        *(percentile_ms(counts, share) for share in _SHARES),
        *(percentile_ms(ttfts, share) for share in (0.5, 0.95)),
    )
