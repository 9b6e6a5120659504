"""Where the time of a period's answered attempts went, and how long they took by model.

In: figures and histograms. Out: tables and a chart. Invariant: a mean is over the attempts that have the measure; a
percentile is read from a histogram, and percentiles of parts are never added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.figures import NONE, Counts, Figures, Sums, percentile_ms
from reports.month_latency import Histograms
from reports.page import Cell, Chart, Column, Table

_STAGES = (("Queue", "queue"), ("Network", "network"), ("Inference", "inference"), ("State", "state"))


def time_tables(total: Figures, sums: Sums) -> tuple[Table, ...]:
    """Return the table `time_spent`: stages with their mean, and whole latencies with mean and p99; none unmeasured.

    Args:
        total: the figures of all rows.
        sums: their sums.
    """
    rows: list[tuple[Cell, ...]] = [
        (title, getattr(total, f"{stage}_ms"), None, int(sums[f"{stage}_us_known"]))
        for title, stage in _STAGES
        if sums[f"{stage}_us_known"]
    ]
    if not rows:
        return ()
    rows.append(("Whole attempt", total.latency_ms, total.p99_ms, int(sums["latency_us_known"])))
    columns = (
        Column("stage", "Stage", "text"),
        Column("mean_ms", "Mean, ms", "duration_ms"),
        Column("p99_ms", "p99, ms", "duration_ms"),
        Column("attempts", "Measured attempts", "count"),
    )
    return (Table("time_spent", "Where the time of our answered attempts went", columns, tuple(rows)),)


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
        *(percentile_ms(counts, share) for share in (0.5, 0.95, 0.99)),
        *(percentile_ms(ttfts, share) for share in (0.5, 0.95)),
    )
