"""Checks a ledger against itself: every cost, every sum, every stored document, derived again and compared.

In: an engine, a span. Out: a `Verification`: what was checked, and each place where what is stored is not what follows
from the rest. Invariant: nothing is mended (`router.ledger.rollups.rebuild` mends sums), and nothing is taken on trust:
costs come from usage, price set and terms, sums from the raw rows, ids of documents from their content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa

from pricing import PriceSet, bulk, join_amount, settle, split_amount
from pricing.bulk_rates import Served
from pricing.errors import PricingError
from pricing.prices import price_set_from_json
from pricing.terms import NO_TERMS, Terms, terms_from_json
from pricing.usage import BUCKETS
from router.ledger.database import database_errors
from router.ledger.rollup_read import quarter_hours
from router.ledger.rollup_tables import rollup_marks
from router.ledger.rollups import DAY, refresh
from router.ledger.rows import QUARTER_HOUR_US
from router.ledger.tables import attempt_terms, attempts, price_sets, terms
from router.ledger.verify_buckets import DerivedCost, derived_bucket_costs, stored_buckets
from router.ledger.verify_rollups import days_with_rows, rollup_differences

FindingKind = Literal["price set", "terms", "cost", "settled", "sums"]
Progress = Callable[[int, int], None]

MOST_FINDINGS = 1_000
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where what is stored does not follow from the rest.

    Args:
        kind: what is wrong.
        where: the attempt's, bucket's, price set's or terms' id, or the UTC quarter hour.
        stored: what the ledger says.
        derived: what follows.
    """

    kind: FindingKind
    where: str
    stored: str
    derived: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked and what was found.

    Args:
        attempts: attempts whose cost was derived again.
        buckets: buckets of usage that others have added up, the same.
        price_sets: stored price sets and terms whose content was checked.
        quarter_hours: quarter hours whose sums were added up again.
        pruned: sums of pruned rows, which nothing can be compared with, as rows of the rollup.
        being_written: quarter hours left out because others wrote rows of them meanwhile.
        findings: at most `MOST_FINDINGS`, in the order of time.
        found: how many there are in all.
    """

    attempts: int
    buckets: int
    price_sets: int
    quarter_hours: int
    pruned: int
    being_written: int
    findings: tuple[Finding, ...]
    found: int


def verify(engine: sa.Engine, start_us: int, end_us: int, progress: Progress | None = None) -> Verification:
    """Return what a check of a span finds; marked quarter hours are added up first.

    Args:
        engine: of a ledger at the current revision.
        start_us: first instant, microseconds since 1970 UTC, on a whole quarter hour.
        end_us: first instant that is not in it any more, alike; beyond the year 9999: all there is.
        progress: called with days done and days in all.

    Raises:
        ValueError: the span is not of whole quarter hours.
        LedgerError: the database cannot be read.
    """
    first, past = quarter_hours(start_us, end_us)
    refresh(engine, first, past)
    tally = _Tally()
    with database_errors(engine, "verify"), _snapshot(engine) as connection:
        documents = _Documents(connection, tally)
        marked = frozenset(connection.execute(_MARKED.where(_MARK.between(first, past - 1))).scalars())
        days = days_with_rows(connection, first, past)
        for done, day in enumerate(days, 1):
            low, high = max(first, day * DAY), min(past, (day + 1) * DAY)
            span = (low * QUARTER_HOUR_US, high * QUARTER_HOUR_US)
            _verify_costs(connection, *span, documents, tally)
            _verify_buckets(connection, *span, documents, tally)
            checked, pruned, differences = rollup_differences(connection, low, high, marked)
            tally.quarter_hours += checked
            tally.pruned += pruned
            for where, stored, derived in differences:
                tally.add(Finding("sums", where, stored, derived))
            if progress is not None:
                progress(done, len(days))
    counts = (tally.attempts, tally.buckets, documents.count, tally.quarter_hours, tally.pruned, len(marked))
    return Verification(*counts, tuple(tally.findings), tally.found)


_MARK = rollup_marks.c.quarter_hour
_MARKED = sa.select(_MARK).distinct()


def _snapshot(engine: sa.Engine) -> sa.Connection:
    """Return a connection that sees one state of the database, whatever is written meanwhile."""
    connection = engine.connect()
    # SQLite's transactions are so by themselves.
    is_postgresql = connection.dialect.name == "postgresql"
    return connection.execution_options(isolation_level="REPEATABLE READ") if is_postgresql else connection


class _Tally:
    def __init__(self) -> None:
        self.attempts = self.buckets = self.quarter_hours = self.pruned = self.found = 0
        self.findings: list[Finding] = []

    def add(self, finding: Finding) -> None:
        self.found += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


class _Documents:
    """Price sets and terms by id; one that was altered is a finding, and priced with as if it were not there."""

    def __init__(self, connection: sa.Connection, tally: _Tally) -> None:
        self.prices: dict[str, PriceSet | None] = {}
        self.terms: dict[str, Terms | None] = {}
        for key, text in connection.execute(sa.select(price_sets.c.price_set_id, price_sets.c.document)):
            self.prices[key] = _read("price set", key, price_set_from_json, text, tally)
        for key, text in connection.execute(sa.select(terms.c.terms_id, terms.c.document)):
            self.terms[key] = _read("terms", key, terms_from_json, text, tally)
        self.count = len(self.prices) + len(self.terms)


def _read(kind: FindingKind, key: str, read: Callable[[str], Any], text: str, tally: _Tally) -> Any:
    try:
        document = read(text)
    except PricingError as error:
        tally.add(Finding(kind, key, str(error), "a document that belongs to this id"))
        return None
    if document.id != key:
        tally.add(Finding(kind, key, f"content of {document.id}", "a document that belongs to this id"))
        return None
    return document


_COLUMNS = (
    *(attempts.c[name] for name in ("attempt_id", "started_us", "status", "service_tier", "usage_estimated")),
    *(attempts.c[name] for name in ("price_set_id", "cost_status", "cost_currency", "cost_micro", "cost_pico")),
    *(attempts.c[name] for name in ("settled_currency", "settled_micro", "settled_pico")),
    attempt_terms.c.terms_id,
    *(attempts.c[bucket] for bucket in BUCKETS),
)
_FIRST_BUCKET = len(_COLUMNS) - len(BUCKETS)


def _verify_costs(connection: sa.Connection, low_us: int, high_us: int, documents: _Documents, tally: _Tally) -> None:
    within = (attempts.c.started_us >= low_us, attempts.c.started_us < high_us, attempts.c.status != "started")
    query = sa.select(*_COLUMNS).select_from(attempts.outerjoin(attempt_terms)).where(*within)
    ordered = query.order_by(attempts.c.started_us, attempts.c.attempt_id)
    for rows in connection.execute(ordered).partitions(_ROWS_AT_ONCE):
        tally.attempts += len(rows)
        for row, derived in zip(rows, _derived(rows, documents), strict=True):
            _compare(row, derived, documents, tally)


def _derived(rows: Sequence[Any], documents: _Documents) -> Iterator[DerivedCost]:
    """Yield each row's cost as its usage and its price set give it: status, currency, and the two integers."""
    places: dict[tuple[Any, ...], int] = {}
    group = [places.setdefault((row.price_set_id, row.service_tier, row.usage_estimated), len(places)) for row in rows]
    served = [
        Served(documents.prices.get(key) if key else None, tier, estimated=estimated) for key, tier, estimated in places
    ]
    counts = {name: np.array([row[_FIRST_BUCKET + at] or 0 for row in rows]) for at, name in enumerate(BUCKETS)}
    priced = bulk.price(
        counts,
        served,
        at=np.array([row.started_us for row in rows], "datetime64[us]"),
        group=np.array(group),
        known=np.array([row[_FIRST_BUCKET] is not None for row in rows]),
    )
    columns = (priced.status.tolist(), priced.cost_micro.tolist(), priced.cost_pico.tolist())
    for row, place, status, micro, pico in zip(rows, group, *columns, strict=True):
        prices = served[place].prices
        name = bulk.STATUSES[status]
        if _used_nothing(row):  # known to cost nothing, even where no price is known
            yield "exact", prices.currency if prices else row.cost_currency, 0, 0
        elif name == "unknown" or prices is None:
            yield "unknown", None, None, None
        else:
            yield name, prices.currency, micro, pico


def _used_nothing(row: Any) -> bool:
    is_known = row[_FIRST_BUCKET] is not None
    return is_known and not any(row[_FIRST_BUCKET:]) and not row.usage_estimated and row.cost_status == "exact"


def _compare(row: Any, derived: DerivedCost, documents: _Documents, tally: _Tally) -> None:
    stored = (row.cost_status, row.cost_currency, row.cost_micro, row.cost_pico)
    if stored != derived:
        tally.add(Finding("cost", row.attempt_id, _shown(stored), _shown(derived)))
        return
    settled = (row.settled_currency, row.settled_micro, row.settled_pico)
    paid = derived[1:]
    if row.terms_id is not None and derived[2] is not None:
        given = documents.terms.get(row.terms_id) or NO_TERMS
        currency, amount = settle(join_amount(row.cost_micro, row.cost_pico), str(row.cost_currency), given)
        paid = (currency, *split_amount(amount))
    if settled != paid:
        tally.add(Finding("settled", row.attempt_id, _shown(("", *settled)), _shown(("", *paid))))


def _verify_buckets(connection: sa.Connection, low_us: int, high_us: int, documents: _Documents, tally: _Tally) -> None:
    """Compare the costs of buckets, and that they are settled where they have one: their terms are not on record."""
    for rows in stored_buckets(connection, low_us, high_us):
        tally.buckets += len(rows)
        for row in rows:
            derived = derived_bucket_costs(row, documents.prices.get(row.price_set_id))
            stored = (row.cost_status, row.cost_currency, row.cost_micro, row.cost_pico)
            if stored not in derived:
                tally.add(Finding("cost", row.bucket_id, _shown(stored), _shown(derived[0])))
            elif (row.settled_micro is None) != (row.cost_micro is None):
                paid = ("", row.settled_currency, row.settled_micro, row.settled_pico)
                tally.add(Finding("settled", row.bucket_id, _shown(paid), _shown(derived[0])))


def _shown(cost: Iterable[Any]) -> str:
    status, currency, micro, pico = cost
    amount = "unknown" if micro is None else f"{_plain(join_amount(micro, pico))} {currency}"
    return " ".join(part for part in (amount, f"({status})" if status else "") if part)


def _plain(amount: Decimal) -> str:
    return f"{amount:f}"
