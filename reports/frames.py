"""The ledger's groups as pandas data frames.

In: spans of instants and column names. Out: frames with documented columns. Invariant: amounts are exact fractions and
counts Python integers (dtype `object`), never floats; unknown is None. pandas is loaded when a frame is first made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

from pricing import join_amount

if TYPE_CHECKING:
    from datetime import tzinfo

    import pandas as pd

    from pricing import PriceSet
    from router.ledger.cube import LatencyCube, UsageCube
    from router.ledger.groups import DearRun, LatencyGroup, UsageGroup

AMOUNTS = ("cost", "settled", "reported_usd", "unsettled_usd")
"""Amounts that the ledger sums as `x_micro` and `x_pico`; a frame has them as one exact fraction."""


class LedgerReader(Protocol):
    """What reports read of a ledger; `router.ledger.reader.Reader` has it."""

    def usage_groups(self, start_us: int, end_us: int, by: Sequence[str] = ()) -> Sequence[UsageGroup]:
        """Return sums of the attempts of a span by groups."""
        ...

    def usage_cube(self, spans: Sequence[tuple[int, int]], times: Sequence[str] = ()) -> UsageCube:
        """Return sums of several spans, read once."""
        ...

    def latency_histogram(self, start_us: int, end_us: int, by: Sequence[str] = ()) -> Sequence[LatencyGroup]:
        """Return counts of answered attempts by groups and latency bucket."""
        ...

    def latency_cube(
        self,
        spans: Sequence[tuple[int, int]],
        times: Sequence[str] = (),
        measure: Literal["latency", "ttft"] = "latency",
    ) -> LatencyCube:
        """Return latency histograms of several spans, read once."""
        ...

    def stage_times(self, start_us: int, end_us: int) -> Mapping[str, Sequence[int]]:
        """Return the times of the answered attempts of a span by stage, microseconds, ascending."""
        ...

    def dearest_runs(self, start_us: int, end_us: int, limit: int = 10) -> Sequence[DearRun]:
        """Return the runs that started in a span and cost most, so many of each currency."""
        ...

    def tag_sets(self, ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return labels by the id of their set."""
        ...

    def months_present(self, zone: tzinfo = ...) -> tuple[str, ...]:
        """Return the months that have attempts in a time zone."""
        ...

    def price_sets(self, ids: Iterable[str]) -> Mapping[str, PriceSet]:
        """Return stored price sets by id."""
        ...

    def run_counts(self, start_us: int, end_us: int) -> Mapping[str, int]:
        """Return how many runs that started in a span stand at each status."""
        ...


def usage_frame(reader: LedgerReader, start_us: int, end_us: int, by: Sequence[str]) -> pd.DataFrame:
    """Return one row per group of attempts.

    Args:
        reader: the ledger's.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
        by: names of `router.ledger.queries.GROUP_COLUMNS`.

    Returns:
        Columns: those of `by`; every one of `router.ledger.queries.SUM_NAMES` that is no amount, as integers (counts,
        tokens, microseconds); and `AMOUNTS` as fractions: `cost` in units of the row's `cost_currency`, `settled` in
        units of its `settled_currency`, the other two in USD. All are of dtype object.
    """
    import pandas as pd

    from router.ledger.queries import SUM_NAMES

    parts = {f"{amount}_{part}" for amount in AMOUNTS for part in ("micro", "pico")}
    plain = [name for name in SUM_NAMES if name not in parts]
    rows = [
        [*group.key, *(group.sums[name] for name in plain), *(_joined(group, amount) for amount in AMOUNTS)]
        for group in reader.usage_groups(start_us, end_us, by)
    ]
    return pd.DataFrame(rows, columns=[*by, *plain, *AMOUNTS], dtype=object)


def _joined(group: UsageGroup, amount: str) -> Fraction:
    return Fraction(join_amount(group.sums[f"{amount}_micro"], group.sums[f"{amount}_pico"]))
