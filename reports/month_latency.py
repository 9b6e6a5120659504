"""How long a period's attempts took, as histograms by any line.

In: a reader, spans. Out: `Histograms`. Invariant: a line's histogram counts exactly the answered attempts of that line
that have the measure, so that a percentile is read from it and never from percentiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.figures import Counts
from reports.frames import LedgerReader
from reports.month_groups import Group
from reports.period import DayPart, Period, day_parts

if TYPE_CHECKING:
    from router.ledger.cube import LatencyCube

ALL = Group("all", "All", ())
"""One line of everything."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """Answered attempts by bucket of their latency, and streamed ones by that of their time to the first token."""

    latencies: Mapping[Any, Counts]
    ttfts: Mapping[Any, Counts]


class Latencies:
    """The histograms of a period and of the one before it, read once.

    Args:
        reader: the ledger's.
        period: the period.
        before: the one that it is compared with.
        group: what lines are: where they follow each other in time, each is a span of its own.

    Raises:
        LedgerError: the ledger cannot be read.
    """

    def __init__(self, reader: LedgerReader, period: Period, before: Period, group: Group) -> None:
        self._parts: tuple[DayPart, ...] = (whole_part(period),)
        if group.is_timed:
            self._parts = day_parts(period.start_us, period.end_us, period.zone, hours=group.is_of_hours)
        spans = [(part.start_us, part.end_us) for part in (*self._parts, whole_part(before))]
        self._cubes = reader.latency_cube(spans), reader.latency_cube(spans, measure="ttft")

    def of_period(self, group: Group) -> Histograms:
        """Return the period's histograms by line."""
        return Histograms(*(self._by_line(cube, group, range(len(self._parts))) for cube in self._cubes))

    def of_before(self) -> Histograms:
        """Return the histograms of the period before, of all together."""
        return Histograms(*(self._by_line(cube, ALL, (len(self._parts),)) for cube in self._cubes))

    def _by_line(self, cube: LatencyCube, group: Group, spans: Sequence[int]) -> Mapping[Any, Counts]:
        found: dict[Any, dict[int, int]] = {}
        for each in cube.groups(("span", *group.ledger_columns)):
            if each.key[0] in spans:
                counts = found.setdefault(self._line(each.key, group), {})
                for bucket, count in each.counts.items():
                    counts[bucket] = counts.get(bucket, 0) + count
        return found

    def _line(self, key: tuple[Any, ...], group: Group) -> Any:
        part = self._parts[key[0]] if key[0] < len(self._parts) else None
        known = dict(zip(group.ledger_columns, key[1:], strict=True))
        if part is not None:
            known |= {"local_day": part.day, "hour": part.hour}
        return group.name_for([known[column] for column in group.columns])


def whole_part(period: Period) -> DayPart:
    """Return a whole period as one span, which lies in no day alone."""
    return DayPart(period.first_day, 0, period.first_day, period.start_us, period.end_us)
