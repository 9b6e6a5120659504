"""The main table of a period's report: one line for each model, tenant, day or whatever was asked for, and the total.

In: rows, what lines are, histograms by line. Out: a `Table` and its chart. Invariant: the total line is the sum of the
lines, exactly; a percentile is read from the histogram of the line itself and never added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reports.figures import NONE, STATUSES, Figures, figures, sum_of_histograms, sum_of_lines
from reports.month_groups import Group
from reports.month_latency import Histograms
from reports.month_rows import MonthRows
from reports.page import Cell, Chart, Column, Money, Panel, Table

PANELS = (
    Panel("Cost", ("calls", "attempts", "list_cost", "settled_cost", "cost_share", "attempts_unpriced")),
    Panel("Beside the cost", ("requests_added_up", "possibly_billed", "reported_cost", "attempts_reported")),
    Panel(
        "Tokens",
        (
            "input_tokens",
            "cache_read_tokens",
            "cache_hit_share",
            "cache_write_tokens",
            "output_tokens",
            "reasoning_tokens",
        ),
    ),
    Panel(
        "Service: percentiles of answered attempts in ms",
        ("success_share", "rate_limited_share", "p50_ms", "p95_ms", "p99_ms", "ttft_p50_ms", "ttft_p95_ms"),
    ),
    Panel("Where the time went: means in ms", ("queue_ms", "inference_ms", "network_ms", "state_ms")),
)


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a page by name, in the order in which they are shown, and all of them together."""

    by_name: Mapping[Any, Figures]
    total: Figures


def lines_of(data: MonthRows, group: Group, found: Histograms) -> Lines:
    """Return the figures of each line: the dearest first, or the earliest where they follow each other in time.

    Args:
        data: the period's rows.
        group: what lines are.
        found: its histograms.
    """
    sums, currency = data.sums_by_line(), data.exchange.currency
    lines = {
        name: figures(line, found.latencies.get(name, NONE), currency, found.ttfts.get(name, NONE))
        for name, line in sums.items()
    }
    ordered = sorted(lines.items(), key=_earliest if group.is_timed else _dearest)
    everything = sum_of_histograms(found.latencies), sum_of_histograms(found.ttfts)
    return Lines(dict(ordered), figures(sum_of_lines(sums), everything[0], currency, everything[1]))


def lines_table(lines: Lines, group: Group, currency: str) -> Table:
    """Return the main table."""
    return Table(
        name="lines",
        title=f"By {group.name}",
        columns=_columns(group, currency),
        rows=tuple(_cells(name, line, lines.total) for name, line in lines.by_name.items()),
        total=_cells("total", lines.total, lines.total),
        panels=PANELS,
    )


def cost_chart(group: Group, currency: str) -> Chart:
    """Return the chart of settled cost by line."""
    title = f"Settled cost by {group.name}, {currency}"
    return Chart(
        "cost_by_line",
        title,
        "bars",
        "lines",
        group.name,
        ("settled_cost",),
        description=f"One bar for each {group.title}: what was paid for it, in {currency}.",
    )


def _earliest(line: tuple[str | None, Figures]) -> tuple[Fraction, int, str]:
    return Fraction(0), 0, line[0] or ""


def _dearest(line: tuple[str | None, Figures]) -> tuple[Fraction, int, str]:
    label, found = line
    return -(found.settled_cost.value if found.settled_cost else Fraction(0)), -found.attempts, label or ""


def _columns(group: Group, currency: str) -> tuple[Column, ...]:
    return (
        Column(group.name, group.title, "text"),
        Column("calls", "Calls", "count"),
        Column("attempts", "Attempts", "count"),
        Column("list_cost", f"List, {currency}", "money"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("cost_share", "Share", "share"),
        Column("attempts_unpriced", "Unpriced", "count", optional=True),
        Column("requests_added_up", "Added-up requests", "count", optional=True),
        Column("possibly_billed", f"Possibly billed, {currency}", "money", optional=True),
        Column("reported_cost", f"Reported, {currency}", "money", optional=True),
        Column("attempts_reported", "With reported cost", "count", optional=True),
        Column("input_tokens", "Input", "tokens"),
        Column("cache_read_tokens", "Cache read", "tokens"),
        Column("cache_hit_share", "Cache share", "share"),
        Column("cache_write_tokens", "Cache write", "tokens", optional=True),
        Column("output_tokens", "Output", "tokens"),
        Column("reasoning_tokens", "Reasoning", "tokens", optional=True),
        Column("success_share", "Success", "share"),
        Column("rate_limited_share", "429", "share", optional=True),
        Column("p50_ms", "p50", "duration_ms"),
        Column("p95_ms", "p95", "duration_ms"),
        Column("p99_ms", "p99", "duration_ms"),
        Column("ttft_p50_ms", "TTFT p50", "duration_ms", optional=True),
        Column("ttft_p95_ms", "TTFT p95", "duration_ms", optional=True),
        Column("queue_ms", "Queue", "duration_ms"),
        Column("inference_ms", "Inference", "duration_ms"),
        Column("network_ms", "Network", "duration_ms"),
        Column("state_ms", "State", "duration_ms"),
        *(Column(f"attempts_{status}", status.capitalize(), "count") for status in STATUSES),
    )


def _cells(label: str | None, line: Figures, total: Figures) -> tuple[Cell, ...]:
    return (
        label,
        line.calls,
        line.attempts,
        line.list_cost,
        line.settled_cost,
        share_of(line.settled_cost, total.settled_cost),
        line.unpriced,
        line.added_up,
        line.possibly_billed,
        line.reported_cost,
        line.reported,
        line.input_tokens,
        line.cache_read_tokens,
        line.cache_hit_share,
        line.cache_write_tokens,
        line.output_tokens,
        line.reasoning_tokens,
        line.success_share,
        line.rate_limited_share,
        line.p50_ms,
        line.p95_ms,
        line.p99_ms,
        line.ttft_p50_ms,
        line.ttft_p95_ms,
        line.queue_ms,
        line.inference_ms,
        line.network_ms,
        line.state_ms,
        *(line.by_status[status] for status in STATUSES),
    )


def share_of(cost: Money | None, total: Money | None) -> Fraction | None:
    """Return a cost's share of a total, 0 to 1; None where either is not known, or the total is 0."""
    return None if cost is None or total is None or total.value == 0 else cost.value / total.value
