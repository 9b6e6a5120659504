"""What forecasts learn from the ledger, and how often: the table [forecast].

In: values as TOML has them. Out: `ForecastSettings`. Invariant: see `router.section`.
"""

from __future__ import annotations

from pydantic import Field

from router.section import Count, Seconds, Section


class ForecastSettings(Section):
    """How forecasts follow the user's own record.

    Args:
        learn: whether they do; false: public records alone.
        days: how far back the record is looked at, days.
        refresh_s: how long an experience is kept before the record is looked at again, seconds.
    """

    learn: bool = True
    days: Count = Field(default=30, ge=1, le=365)
    refresh_s: Seconds = Field(default=600.0, ge=1)
