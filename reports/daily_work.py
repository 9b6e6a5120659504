"""A month's whole days as work: what the ledger has of them by local day, price period and part of the work.

In: a ledger's reader, a month, price basis and rules. Out: `DayWork`, which yields portions with their day and part.
Invariant: every attempt of the days whose usage is known is in exactly one portion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from pricing.usage import BUCKETS
from reports.billed import requests_of
from reports.frames import LedgerReader
from reports.period import DayPart, Period, at_us, day_parts
from reports.price_periods import Span, price_spans, rows_sold
from reports.repricing import Basis
from reports.workload import Portion, Split, portion_of, split_portion
from router.errors import RouterError
from router.settings import ConfigurationSettings, FixedSettings

NO_ROLE = "no role"
FAILED = "failed"
"""The part of attempts that did not succeed: what failing, and trying again, has cost."""
_KEYS = ("role", "task_class", "context_tier", "status", "configuration", "usage_estimated", "origin")
_KEPT = (*BUCKETS, "requests", "requests_unknown", "usage_unknown")
_NOT_ANSWERED = ("started", "failed", "timed_out", "stopped")


@dataclass(frozen=True, slots=True)
class Placed:
    """A portion, the local day it lies on, and the part of the work that it is."""

    day: date
    part: str
    portion: Portion


@dataclass(slots=True)
class DayWork:
    """What the ledger has of the days.

    Args:
        end_us: where the last of them ends, microseconds since 1970 UTC.
        sums: usage by what is priced alike.
        ran: requests by the configuration they ran under.
        records: rows of the ledger.
        calls: first attempts, and requests that somebody else has added up.
        alone: answered attempts that belong to no run.
        usage_unknown: rows in no portion, because their usage is not known.
        estimates: rows with estimated token counts.
    """

    end_us: int
    sums: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
    ran: dict[str | None, int] = field(default_factory=dict)
    records: int = 0
    calls: int = 0
    alone: int = 0
    usage_unknown: int = 0
    estimates: int = 0

    def add(self, where: tuple[Any, ...], key: Mapping[str, Any], sums: Mapping[str, int]) -> None:
        """Take in a group of attempts; `where` is its local day, UTC day, first instant and price period."""
        self.records += sums["records"]
        self.calls += sums["calls"] + sums["requests"] - sums["attempts"]
        self.usage_unknown += sums["usage_unknown"]
        self.estimates += sums["records"] if key["usage_estimated"] else 0
        self.alone += sums["succeeded"] if key["origin"] == "imported" else 0
        self.ran[key["configuration"]] = self.ran.get(key["configuration"], 0) + sums["requests"]
        if not any(sums[bucket] for bucket in BUCKETS) and key["context_tier"] is None:
            return
        part = FAILED if key["status"] in _NOT_ANSWERED else key["role"] or NO_ROLE
        kind = (*where, part, key["role"], key["task_class"], key["context_tier"])
        kept = self.sums.setdefault(kind, dict.fromkeys(_KEPT, 0))
        for name in _KEPT:
            kept[name] += sums[name]

    def placed(self, split: Split | None) -> Iterable[Placed]:
        """Yield the usage as portions."""
        for (day, utc_day, at, period, part, role, task_class, tier), sums in self.sums.items():
            requests = requests_of(sums)
            is_sized = tier is not None and bool(requests)
            whole = portion_of(sums, requests, at=at, role=role, task_class=task_class, is_sized=is_sized)
            whole = replace(whole, tier=tier if is_sized else None, period=period, day=utc_day)
            parts = (whole,) if split is None or role is not None else split_portion(whole, split)
            yield from (Placed(day, part, portion) for portion in parts)


def whole_days(month: Period, now: datetime) -> tuple[date, ...]:
    """Return the days of a month that are over.

    Raises:
        RouterError: none is.
    """
    today = now.astimezone(month.zone).date()
    last = min(month.last_day, today - timedelta(days=1))
    count = (last - month.first_day).days + 1
    if count < 1:
        message = f"month: no day of {month.name} ({month.zone.key}) is over yet"
        raise RouterError(message, hint="the month before is --month last")
    return tuple(month.first_day + timedelta(days=number) for number in range(count))


def day_work(
    reader: LedgerReader, month: Period, days: tuple[date, ...], basis: Basis, rules: Sequence[ConfigurationSettings]
) -> DayWork:
    """Return what the ledger has of some whole days of a month, in groups that are priced alike.

    Args:
        reader: the ledger's.
        month: the month.
        days: of `whole_days`.
        basis: the prices.
        rules: what it will be priced under; where a price of their models changes, groups end.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    spans = _spans(month, basis, rules)
    parts = [part for part in day_parts(month.start_us, month.end_us, month.zone) if part.day <= days[-1]]
    found = DayWork(parts[-1].end_us)
    for part, span in _overlaps(parts, spans):
        start_us, end_us = max(part.start_us, span.start_us), min(part.end_us, span.end_us)
        where = (part.day, part.utc_day, at_us(start_us), span.period)
        for group in reader.usage_groups(start_us, end_us, _KEYS):
            found.add(where, dict(zip(_KEYS, group.key, strict=True)), group.sums)
    return found


def _spans(month: Period, basis: Basis, rules: Sequence[ConfigurationSettings]) -> tuple[Span, ...]:
    """Return the month cut where a price changes of a model that either configuration may use."""
    if basis.at is not None:
        return (Span(month.start_us, month.end_us, 0),)
    models = {model for rule in rules if isinstance(rule, FixedSettings) for model in (rule.orchestrator, rule.worker)}
    if not all(isinstance(rule, FixedSettings) for rule in rules):
        models = set(basis.catalog.models(basis.price_list))
    sold = ((model, basis.price_list) for model in sorted(models))
    return price_spans(rows_sold(sold, basis.catalog), month.start_us, month.end_us)


def _overlaps(parts: Sequence[DayPart], spans: Sequence[Span]) -> Iterable[tuple[DayPart, Span]]:
    return ((one, other) for one in parts for other in spans if _overlap(one, other))


def _overlap(part: DayPart, span: Span) -> bool:
    return part.start_us < span.end_us and span.start_us < part.end_us
