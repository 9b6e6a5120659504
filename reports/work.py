"""What is compared: portions of work, and what the ledger says of the same calls.

In: values of `past_work` or totals given by hand. Out: `Work`. Invariant: what is on record covers the calls that the
portions are made of, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction

from reports.page import Fact, Money, Note
from reports.workload import Portion
from router.task import Role


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the calls cost as they were billed, in the page's currency.

    Args:
        listed: list cost on record; a lower bound where a used bucket has no price; None: unknown.
        settled: settled cost on record, alike.
        uncached: list cost, had every cached token been plain input; None: unknown.
    """

    listed: Money | None
    settled: Money | None
    uncached: Fraction | None


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What one model used on one UTC day for one role and class.

    Args:
        day: the UTC day.
        role: single, orchestrator or worker; None where it is not known.
        task_class: the class, or None.
        model: the model that answered, or else the one that was asked for.
        calls: attempts whose usage is known.
        input_tokens: all input, cached included.
        output_tokens: all output, reasoning included.
    """

    day: date
    role: Role | None
    task_class: str | None
    model: str
    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Work:
    """What is compared.

    Args:
        title: what it is, for the page's heading.
        portions: the work.
        parameters: what was asked for.
        notes: what must be said about it.
        rows_counted: rows of the ledger that are in it; 0 for totals given by hand.
        rows_unpriced: rows of the ledger that are not in it, because their usage is not known.
        estimates: rows whose token counts are estimated.
        time_zone: IANA name.
        recorded: what it cost as it was billed; None for totals given by hand.
        usage: what each model used day by day.
        latencies: answered attempts by latency bucket, by class and model.
    """

    title: str
    portions: tuple[Portion, ...]
    parameters: tuple[Fact, ...]
    notes: tuple[Note, ...]
    rows_counted: int
    rows_unpriced: int
    estimates: int
    time_zone: str
    recorded: Recorded | None = None
    usage: tuple[DayUsage, ...] = ()
    latencies: Mapping[tuple[str | None, str], Mapping[int, int]] = field(default_factory=dict)
