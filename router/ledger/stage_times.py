"""The times of a span's answered attempts by stage, one by one.

In: a connection, a span. Out: sorted times. Invariant: only our own attempts count, since nobody else's have stages,
and only rows that are there: what was pruned has left its sums alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sqlalchemy as sa

from router.ledger.latency import STAGES
from router.ledger.tables import attempts


def read_stage_times(connection: sa.Connection, start_us: int, end_us: int) -> Mapping[str, tuple[int, ...]]:
    """Return the times of each stage, microseconds, ascending; attempts without the measure are left out.

    Args:
        connection: to read.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.
    """
    at = attempts.c.started_us
    ours = (at >= start_us, at < end_us, attempts.c.status == "succeeded", attempts.c.origin == "routed")
    rows = connection.execute(sa.select(*(attempts.c[f"{stage}_us"] for stage in STAGES)).where(*ours))
    columns = list(zip(*rows, strict=True)) or [()] * len(STAGES)
    found = {
        stage: tuple(sorted(value for value in values if value is not None))
        for stage, values in zip(STAGES, columns, strict=True)
    }
    return MappingProxyType(found)
