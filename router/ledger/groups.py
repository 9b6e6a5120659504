"""What a reader gives back of many rows: groups of records, with their sums or their latencies.

In: what was grouped by. Out: frozen values of whole numbers. Invariant: sums are exact; unknown is None and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router.ledger.records import Amount


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """One group of records: its values of the columns grouped by, in their order, and its sums."""

    key: tuple[Any, ...]
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LatencyGroup:
    """One group of attempts: its values of the columns grouped by, and its counts per latency bucket."""

    key: tuple[Any, ...]
    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """One group of runs: its values of the columns grouped by, in their order, and how many runs it has."""

    key: tuple[Any, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class DearRun:
    """A run, and what its attempts cost, settled, in one currency.

    Args:
        run_id: the run; it may have been pruned since.
        started_us: microseconds since 1970 UTC.
        configuration, task_class, tenant: as of the run.
        attempts: its attempts that were settled in that currency.
        settled: the sum over them.
    """

    run_id: str
    started_us: int
    configuration: str
    task_class: str | None
    tenant: str | None
    attempts: int
    settled: Amount
