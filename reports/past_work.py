"""A month of the ledger as work to be priced again.

In: a ledger's reader, a month, what it will be priced at. Out: `Work`. Invariant: every attempt whose usage is known is
in exactly one portion, whose requests share role, class, context tier, served model and one price set per model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pricing import Catalog
from pricing.usage import BUCKETS, INPUT_BUCKETS, OUTPUT_BUCKETS
from reports.billed import BilledGroup, recorded_cost, recorded_groups, requests_of, sets_of
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Fact, Note
from reports.period import DAY_US, Period, at_us, no_rows, utc_day
from reports.price_periods import Span, price_spans, rows_sold
from reports.work import DayUsage, Recorded, Work
from reports.workload import Portion, Split, portion_of, split_portion

if TYPE_CHECKING:
    from router.ledger.cube import UsageCube
    from router.ledger.groups import UsageGroup

_BY = ("day", "role", "task_class", "context_tier", "model_served", "model_asked", "origin")


def work_of_month(
    reader: LedgerReader,
    month: Period,
    *,
    split: Split | None,
    catalog: Catalog,
    price_list: str,
    exchange: Exchange,
    sold: Iterable[tuple[str, str]] | None = None,
    by_day: bool = True,
) -> Work:
    """Return the month's attempts as portions: per role, class, context tier, served model, price period and day.

    Args:
        reader: the ledger's.
        month: the month.
        split: how attempts without a role are split between orchestrator and worker; None: they are left as they are.
        catalog: says when prices change.
        price_list: the list that will be priced at, or "vendor".
        exchange: for the cost on record.
        sold: pairs of model and price list that will be priced; None: every model of `price_list`.
        by_day: whether each UTC day has portions of its own, which exchange rates need; else a price period has.

    Raises:
        RouterError: the month has no rows; those that have some are named.
        FxError: the cost on record cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    priced = ((model, price_list) for model in catalog.models(price_list)) if sold is None else sold
    spans = price_spans(rows_sold(priced, catalog), month.start_us, month.end_us)
    cube = reader.usage_cube([(span.start_us, span.end_us) for span in spans], ("day",))
    billed = recorded_groups(cube, exchange)
    if not billed:
        raise no_rows(month, reader.months_present(month.zone))
    groups = tuple(_groups(cube, spans))
    portions = tuple(_portions(groups, by_day=by_day))
    if split is not None:
        parts = (split_portion(each, split) if each.role is None else (each,) for each in portions)
        portions = tuple(part for each in parts for part in each)
    recorded = recorded_cost(billed, sets_of(reader, billed), exchange.currency)
    unknown = sum(group.unknown for group in billed)
    return Work(
        title=f"the calls of {month.name}",
        portions=portions,
        parameters=_parameters(month, split),
        notes=(*_recorded_notes(billed, recorded, unknown, exchange.currency), *_role_notes(portions, split)),
        rows_counted=sum(group.records for group in billed),
        rows_unpriced=unknown,
        estimates=sum(group.records for group in billed if group.key["usage_estimated"]),
        time_zone=month.zone.key,
        recorded=recorded,
        usage=_usage(groups),
        latencies=_latencies(reader, month),
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """Attempts of one day, price period, role, class, context tier and model."""

    day: date
    start_us: int
    span_us: int
    period: int
    role: Any
    task_class: str | None
    tier: int | None
    model: str
    counts: Mapping[str, int]
    requests: int | None

    @property
    def kind(self) -> tuple[Any, ...]:
        return self.period, self.role, self.task_class, self.tier, self.model


def _groups(cube: UsageCube, spans: Sequence[Span]) -> Iterable[_Group]:
    for group in cube.groups(("span", *_BY)):
        found = _group(group, spans)
        if found.counts or found.requests:
            yield found


def _group(group: UsageGroup, spans: Sequence[Span]) -> _Group:
    place, day, role, task_class, tier, served, asked, _ = group.key
    span, sums = spans[place], group.sums
    return _Group(
        day=utc_day(day),
        start_us=max(span.start_us, day * DAY_US),
        span_us=span.start_us,
        period=span.period,
        role=role,
        task_class=task_class,
        tier=tier,
        model=served or asked,
        counts={bucket: sums[bucket] for bucket in BUCKETS if sums[bucket]},
        requests=requests_of(sums),
    )


def _portions(groups: Sequence[_Group], *, by_day: bool) -> Iterable[Portion]:
    together: dict[tuple[Any, ...], list[_Group]] = {}
    for group in groups:
        together.setdefault((*group.kind, group.day if by_day else None), []).append(group)
    starts: dict[int, int] = {}
    for group in groups:
        starts[group.period] = min(group.span_us, starts.get(group.period, group.span_us))
    for found in together.values():
        first = found[0]
        start_us = min(group.start_us for group in found) if by_day else starts[first.period]
        yield _portion(found, start_us, by_day=by_day)


def _portion(groups: Sequence[_Group], start_us: int, *, by_day: bool) -> Portion:
    first = groups[0]
    counts: dict[str, int] = {}
    for group in groups:
        for bucket, count in group.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    known = [group.requests for group in groups]
    requests = None if None in known else sum(count for count in known if count is not None)
    is_sized = first.tier is not None and bool(requests)
    about: dict[str, Any] = {"at": at_us(start_us), "role": first.role, "task_class": first.task_class}
    portion = portion_of(counts, requests, is_sized=is_sized, **about)
    day = first.day if by_day else None
    return replace(portion, served=first.model, tier=first.tier if is_sized else None, period=first.period, day=day)


def _usage(groups: Iterable[_Group]) -> tuple[DayUsage, ...]:
    sums: dict[tuple[Any, ...], list[int]] = {}
    for group in groups:
        if group.tier is None:
            continue
        found = sums.setdefault((group.day, group.role, group.task_class, group.model), [0, 0, 0])
        found[0] += group.requests or 0
        found[1] += sum(group.counts.get(bucket, 0) for bucket in INPUT_BUCKETS)
        found[2] += sum(group.counts.get(bucket, 0) for bucket in OUTPUT_BUCKETS)
    return tuple(DayUsage(*key, *found) for key, found in sums.items())


def _latencies(reader: LedgerReader, month: Period) -> Mapping[tuple[str | None, str], Mapping[int, int]]:
    found: dict[tuple[str | None, str], dict[int, int]] = {}
    by = ("task_class", "model_served", "model_asked")
    for group in reader.latency_histogram(month.start_us, month.end_us, by):
        task_class, served, asked = group.key
        counts = found.setdefault((task_class, served or asked), {})
        for bucket, count in group.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return found


def _parameters(month: Period, split: Split | None) -> tuple[Fact, ...]:
    calls = "as recorded" if split is None else f"{split.orchestrator}:{split.worker} where no role is recorded"
    return Fact("month", "month", month.name), Fact("calls", "orchestrator : worker", calls)


def _recorded_notes(billed: Sequence[BilledGroup], recorded: Recorded, unknown: int, currency: str) -> Iterable[Note]:
    yield Note(
        "note",
        "on record: {list} {currency} at list, {settled} {currency} settled; attempts: {count}",
        {
            "count": (sum(group.records for group in billed), "count"),
            "list": (recorded.listed, "money"),
            "settled": (recorded.settled, "money"),
            "currency": (currency, "text"),
        },
    )
    if unknown:
        text = "without known usage, and so in no configuration's cost; attempts: {count}"
        yield Note("warning", text, {"count": (unknown, "count")})


def _role_notes(portions: Sequence[Portion], split: Split | None) -> Iterable[Note]:
    if any(portion.role == "single" for portion in portions):
        yield Note("note", "calls that needed no plan (role single) are priced at a pair's orchestrator")
    if any(portion.role is None for portion in portions):
        text = "no role on record, so priced at a pair's orchestrator (--calls A:B splits them); attempts: {count}"
        requests = sum((portion.requests or 0 for portion in portions if portion.role is None), Fraction(0))
        yield Note("note", text, {"count": (requests, "count")})
    if any(portion.tier is None for portion in portions):
        text = "usage that somebody else has added up is priced as small requests, which reach no context tier"
        yield Note("note", text)
    if split is not None:
        yield Note(
            "note", f"attempts without a role are split {split.orchestrator} : {split.worker}, their tokens alike"
        )
