"""A month of the ledger as frames whose rows know their line's label and their amounts in the page's currency.

In: a reader, a month, what lines are. Out: data frames. Invariant: every attempt of the month is in exactly one row; an
amount is converted at the rate of the UTC day of its call, whatever the page's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reports.exchange import Exchange
from reports.figures import STATUSES, TIMES
from reports.frames import LedgerReader, latency_frame, usage_frame
from reports.period import Period, quarter_hour_date, utc_day

if TYPE_CHECKING:
    import pandas as pd

BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "model": ("model_served", "model_asked"),
        "role": ("role",),
        "class": ("task_class",),
        "day": ("quarter_hour",),
        "configuration": ("configuration",),
        "tenant": ("tenant",),
    }
)
"""What lines can be: the ledger's columns each is read from, the first one that is known. `model` is the model that
answered, or else the one that was asked for; a day in a time zone is made of quarter hours."""

_FAILED = ("failed", "timed_out")
QUARTER_HOURS_A_DAY = 96
_ALWAYS = (
    "status",
    "cost_status",
    "cost_currency",
    "settled_currency",
    "origin",
    "usage_estimated",
    "possibly_billed",
    "model_asked",
    "model_served",
    "price_set_id",
)


def month_rows(reader: LedgerReader, month: Period, by: str, exchange: Exchange) -> pd.DataFrame:
    """Return the month's groups of attempts.

    Args:
        reader: the ledger's.
        month: the month.
        by: a key of `BY`.
        exchange: converts into the page's currency.

    Returns:
        The columns of `frames.usage_frame` (times over answered attempts of ours alone), `line` (the label, None where
        unknown), and those of `figures.MARKED` (integers) and `figures.SHOWN` (fractions of the page's currency).

    Raises:
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    when = "quarter_hour" if by == "day" else "day"
    keys = tuple(dict.fromkeys((*BY[by], when, *_ALWAYS)))
    rows = _labelled(usage_frame(reader, month.start_us, month.end_us, keys), by, month)
    days = [utc_day(value // QUARTER_HOURS_A_DAY if by == "day" else value) for value in rows[when].tolist()]
    usd = ["USD"] * len(days)
    amounts = {
        "list_shown": ("cost", rows["cost_currency"].tolist()),
        "settled_shown": ("settled", rows["settled_currency"].tolist()),
        "reported_shown": ("reported_usd", usd),
        "unsettled_shown": ("unsettled_usd", usd),
    }
    shown = {
        name: _objects(
            # A group without an amount needs no rate, and must not fail for want of one.
            [
                exchange.convert(value, code, day) if value else Fraction(0)
                for value, code, day in zip(rows[amount].tolist(), codes, days, strict=True)
            ]
        )
        for name, (amount, codes) in amounts.items()
    }
    return _marked(rows.assign(**shown))


def month_latencies(reader: LedgerReader, month: Period, by: str) -> pd.DataFrame:
    """Return the month's answered attempts by `line` and `latency_bucket`; see `frames.latency_frame`."""
    return _labelled(latency_frame(reader, month.start_us, month.end_us, BY[by]), by, month)


def _marked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the columns of `figures.MARKED`."""
    attempts, priced, status = rows["attempts"], rows["cost_status"], rows["status"]
    answered = (rows["origin"] == "routed") & (status == "succeeded")
    billable = rows["possibly_billed"].astype(bool) | ~status.isin(_FAILED) | (priced != "unknown")
    return rows.assign(
        refused=rows["usage_unknown"].where(~billable, 0),
        whole=attempts.where(priced.isin(("exact", "estimated")), 0),
        ended=attempts.where(status != "started", 0),
        estimated=attempts.where(rows["usage_estimated"].astype(bool), 0),
        timed=attempts.where(answered, 0),
        list_known=attempts.where(rows["cost_currency"].notna(), 0),
        settled_known=attempts.where(rows["settled_currency"].notna(), 0),
        **{name: rows[name].where(answered, 0) for name in TIMES},
        **{f"cost_{name}": attempts.where(priced == name, 0) for name in STATUSES},
    )


def _labelled(rows: pd.DataFrame, by: str, month: Period) -> pd.DataFrame:
    values = zip(*(rows[column].tolist() for column in BY[by]), strict=True)
    labels: list[str | None]
    if by == "day":
        labels = [quarter_hour_date(quarter_hour, month.zone).isoformat() for (quarter_hour,) in values]
    else:
        labels = [next((value for value in found if value is not None), None) for found in values]
    return rows.assign(line=_objects(labels))


def _objects(values: list[Any]) -> pd.Series[Any]:
    """Return values as they are: pandas would make texts of its own of strings, and NaN of None."""
    import pandas as pd

    return pd.Series(values, dtype=object)
