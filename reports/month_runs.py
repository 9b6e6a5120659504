"""The dearest runs of a period.

In: a reader, a period. Out: a `Table`. Invariant: each run's cost is that of all its attempts, exactly, converted at
the rate of the UTC day on which it started.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Column, Money, Table
from reports.period import Period, at_us

if TYPE_CHECKING:
    from router.ledger.groups import DearRun

LISTED = 10


def runs_table(reader: LedgerReader, period: Period, exchange: Exchange, total: Money | None) -> tuple[Table, ...]:
    """Return the table `dearest_runs`: the ten runs that cost most of those that started in a period; none without any.

    Args:
        reader: the ledger's.
        period: the period.
        exchange: converts into the page's currency.
        total: settled cost of the period.

    Raises:
        FxError: a run's cost cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    found: dict[str, list[DearRun]] = {}
    for run in reader.dearest_runs(period.start_us, period.end_us, LISTED):
        found.setdefault(run.run_id, []).append(run)
    costs = {run_id: sum((_shown(run, exchange) for run in runs), Fraction(0)) for run_id, runs in found.items()}
    dearest = sorted(found, key=lambda run_id: (-costs[run_id], run_id))[:LISTED]
    if not dearest:
        return ()
    columns = (
        Column("run", "Run", "text"),
        Column("started", "Started", "text"),
        Column("configuration", "Configuration", "text"),
        Column("class", "Class", "text"),
        Column("tenant", "Tenant", "text", optional=True),
        Column("attempts", "Attempts", "count"),
        Column("settled_cost", f"Settled, {exchange.currency}", "money"),
        Column("cost_share", "Share", "share"),
    )
    rows = tuple(
        (
            run_id,
            f"{at_us(first.started_us).astimezone(period.zone):%Y-%m-%d %H:%M}",
            first.configuration,
            first.task_class,
            first.tenant,
            sum(run.attempts for run in found[run_id]),
            Money(costs[run_id], exchange.currency),
            costs[run_id] / total.value if total is not None and total.value else None,
        )
        for run_id in dearest
        for first in found[run_id][:1]
    )
    return (Table("dearest_runs", "The dearest runs that started in this period", columns, rows),)


def _shown(run: DearRun, exchange: Exchange) -> Fraction:
    on = at_us(run.started_us).date()
    return exchange.convert(Fraction(run.settled.value), run.settled.currency, on)
