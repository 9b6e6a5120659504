"""Days that cost unusually much or little for their weekday, and what drove them.

In: spend and calls by day, in all and by member of a few dimensions. Out: `Anomaly` values and a table. Invariant: a
day is judged by earlier days alone, and only by whole ones; too few of them, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from statistics import median
from typing import Any

from reports.page import Column, Money, Note, Panel, Table

WEEKS = 8
"""How many earlier weeks a day is held against."""
FEWEST = 4
"""Earlier days of the same weekday below which a day is not judged."""
THRESHOLD = Fraction(35, 10)
"""Spreads from the median beyond which a day is unusual (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993:
3.5 for scores from the median absolute deviation)."""
SPREAD = Fraction(14826, 10_000)
"""What makes a median absolute deviation an estimate of the standard deviation of normal data (the same source)."""
LEAST_SHARE = Fraction(1, 20)
"""A spread is at least this share of the median, so that days that hardly ever differ are not unusual for cents."""
LEAST_SHARE_OF_DAYS = Fraction(1, 100)
"""And at least this share of the median of all days before, so that a few cents on a Sunday are none."""


@dataclass(frozen=True, slots=True)
class DayTotals:
    """Spend and calls by day. `members` has spend by dimension, then by member and day; what is not there is 0."""

    spend: Mapping[date, Fraction]
    calls: Mapping[date, int]
    members: Mapping[str, Mapping[Any, Mapping[date, Fraction]]]


@dataclass(frozen=True, slots=True)
class Driver:
    """What moved most in the direction of an unusual day: one member of a dimension, and by how much."""

    dimension: str
    member: Any
    moved: Fraction


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One unusual day.

    Args:
        day: the day.
        spend: what it cost.
        usual: the median of the earlier days of its weekday.
        spreads: how many spreads it lies from that; negative: below.
        cause: "volume", where the number of calls explains more of the difference than the cost of each, else
            "cost per call".
        drivers: the member that moved most, of each dimension.
    """

    day: date
    spend: Fraction
    usual: Fraction
    spreads: Fraction
    cause: str
    drivers: tuple[Driver, ...]


def unusual_days(totals: DayTotals, days: Sequence[date], first: date) -> tuple[Anomaly, ...]:
    """Return the unusual ones of some days, in their order.

    Args:
        totals: spend and calls, of earlier days too.
        days: whole days to judge.
        first: the first day that is on record: days before it say nothing; days after it without spend were free.
    """
    found = []
    for day in days:
        before = [day - timedelta(weeks=week) for week in range(1, WEEKS + 1)]
        peers = [each for each in before if each >= first]
        if len(peers) >= FEWEST:
            usual, spreads = _spreads(totals.spend, day, peers, first)
            if abs(spreads) > THRESHOLD:
                found.append(_explained(totals, day, peers, usual, spreads))
    return tuple(found)


def _spreads(
    spend: Mapping[date, Fraction], day: date, peers: Sequence[date], first: date
) -> tuple[Fraction, Fraction]:
    """Return what is usual for a day, and how many spreads it lies from that."""
    usual = _usual(spend, peers)
    deviation = median([abs(spend.get(each, Fraction(0)) - usual) for each in peers])
    earlier = [day - timedelta(days=count) for count in range(1, min(7 * WEEKS, (day - first).days) + 1)]
    floor = max(LEAST_SHARE * usual, LEAST_SHARE_OF_DAYS * _usual(spend, earlier))
    spread = max(SPREAD * deviation, floor)
    return usual, (spend.get(day, Fraction(0)) - usual) / spread if spread else Fraction(0)


def _explained(totals: DayTotals, day: date, peers: Sequence[date], usual: Fraction, spreads: Fraction) -> Anomaly:
    spend = totals.spend.get(day, Fraction(0))
    drivers = tuple(
        _driver(name, members, day, peers, spend - usual) for name, members in totals.members.items() if members
    )
    return Anomaly(day, spend, usual, spreads, _cause(totals, day, peers, spend, usual), drivers)


def _usual(amounts: Mapping[date, Fraction], peers: Sequence[date]) -> Fraction:
    return Fraction(median([amounts.get(each, Fraction(0)) for each in peers]))


def _driver(
    dimension: str, members: Mapping[Any, Mapping[date, Fraction]], day: date, peers: Sequence[date], change: Fraction
) -> Driver:
    moved = {member: spend.get(day, Fraction(0)) - _usual(spend, peers) for member, spend in members.items()}
    sign = 1 if change > 0 else -1
    member = max(moved, key=lambda each: (sign * moved[each], str(each)))
    return Driver(dimension, member, moved[member])


def _cause(totals: DayTotals, day: date, peers: Sequence[date], spend: Fraction, usual: Fraction) -> str:
    """Return which effect is larger: usual cost of the additional calls, or additional cost of each call."""
    calls = totals.calls.get(day, 0)
    usual_calls = Fraction(median([totals.calls.get(each, 0) for each in peers]))
    if not calls or not usual_calls:
        return "volume"
    usual_each = usual / usual_calls
    by_volume, by_cost = (calls - usual_calls) * usual_each, (spend / calls - usual_each) * calls
    return "volume" if abs(by_volume) >= abs(by_cost) else "cost per call"


def anomaly_table(found: Sequence[Anomaly], dimensions: Sequence[str], currency: str) -> tuple[Table, ...]:
    """Return the table `anomalies`, the most unusual day first; none without any.

    Args:
        found: the unusual days.
        dimensions: the dimensions that drivers are of.
        currency: ISO 4217 code of the amounts.
    """
    if not found:
        return ()
    columns = (
        Column("day", "Day", "text"),
        Column("weekday", "Weekday", "text"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("usual_cost", "Usual", "money"),
        Column("difference", "Difference", "money"),
        Column("spreads", "Spreads", "tokens"),
        Column("cause", "By", "text"),
        *(
            column
            for name in dimensions
            for column in (
                Column(f"driver_{name}", name.capitalize(), "text"),
                Column(f"moved_{name}", "Moved", "money"),
            )
        ),
    )
    ordered = sorted(found, key=lambda each: (-abs(each.spreads), each.day))
    people = (
        "weekday",
        "settled_cost",
        "usual_cost",
        "difference",
        "cause",
        *(f"driver_{name}" for name in dimensions),
    )
    title = "Unusual days for their weekday"
    return (
        Table(
            "anomalies", title, columns, tuple(_row(each, currency) for each in ordered), panels=(Panel(title, people),)
        ),
    )


def anomaly_notes(found: Sequence[Anomaly]) -> tuple[Note, ...]:
    """Return the sentence that says that there are unusual days, and what makes one."""
    if not found:
        return ()
    text = (
        "{count} days cost more or less than is usual for their weekday: by more than 3.5 spreads (median absolute "
        "deviation) of up to 8 earlier ones"
    )
    return (Note("warning", text, {"count": (len(found), "count")}),)


def _row(each: Anomaly, currency: str) -> tuple[Any, ...]:
    return (
        each.day.isoformat(),
        f"{each.day:%a}",
        Money(each.spend, currency),
        Money(each.usual, currency),
        Money(each.spend - each.usual, currency),
        each.spreads,
        each.cause,
        *(cell for driver in each.drivers for cell in (driver.member, Money(driver.moved, currency))),
    )
