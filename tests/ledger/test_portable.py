"""One set of statements for all databases: each SELECT that reading comes down to gives the same rows on both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import pytest
import sqlalchemy as sa

from pricing import load_catalog
from router.ledger import Ledger, open_ledger
from router.ledger.budget_records import CaseRow
from router.ledger.prune import prune
from router.ledger.queries import GROUP_COLUMNS
from router.ledger.reader import Reader
from router.ledger.records import AttemptStarted
from router.ledger.rollup_read import RUN_COLUMNS
from router.ledger.rollup_tables import rollup_keys
from router.ledger.rows import DAY_US, QUARTER_HOUR_US, Record
from tests.reports.random_ledger import DAYS, FIRST, fill, random_records, run_ids

START_US = round(FIRST.timestamp() * 10**6)
ALL = (0, 2**62)
SPAN = (START_US + 5 * DAY_US - 3 * QUARTER_HOUR_US, START_US + 40 * DAY_US + QUARTER_HOUR_US)
SPANS = [(START_US + day * DAY_US - 36 * QUARTER_HOUR_US, START_US + (day + 1) * DAY_US) for day in (0, 3, 33)]
Run: TypeAlias = tuple[Any, Any]
"""A statement and its parameters: a Core select, or a text."""
Both: TypeAlias = tuple[Ledger, Ledger, list[Record]]


@pytest.fixture(params=[1, 2], ids="seed {}".format)
def both(request: pytest.FixtureRequest, url: str, postgres_ledger_url: str) -> Iterator[Both]:
    """Give a ledger on SQLite and one on PostgreSQL with the same records."""
    records = random_records(request.param, load_catalog())
    with open_ledger(url) as sqlite, open_ledger(postgres_ledger_url) as postgres:
        for ledger in (sqlite, postgres):
            fill(ledger, records)
            for name in ("b", "B", "a", "ä"):
                ledger.freeze_case(CaseRow(name, ord(name) % 2, "{}"))
            for budget in ledger.reader.budgets():
                ledger.count_budget(budget, SPAN, lambda amount, _currency: amount)
        yield sqlite, postgres, records


def reads(records: list[Record]) -> dict[str, Callable[[Reader], object]]:
    """Return something for each public method of a reader, by its name."""
    ids = list(run_ids(records))
    attempt = next(each for each in records if isinstance(each, AttemptStarted))
    return {
        "usage_groups": lambda reader: [sorted_groups(reader.usage_groups(*SPAN, (name,))) for name in GROUP_COLUMNS],
        "usage_groups_by_span": lambda reader: [
            sorted_groups(groups) for groups in reader.usage_groups_by_span(SPANS, GROUP_COLUMNS)
        ],
        "usage_cube": lambda reader: sorted_groups(reader.usage_cube(SPANS, ("day",)).groups(("span", "day", "role"))),
        "latency_histogram": lambda reader: sorted_groups(reader.latency_histogram(*ALL, GROUP_COLUMNS)),
        "latency_cube": lambda reader: sorted_groups(
            reader.latency_cube(SPANS, ("quarter_hour",), "ttft").groups(("quarter_hour", "tenant"), None)
        ),
        "run_groups": lambda reader: sorted(map(repr, reader.run_groups(*ALL, RUN_COLUMNS))),
        "dearest_runs": lambda reader: reader.dearest_runs(*ALL),
        "tag_sets": lambda reader: reader.tag_sets(
            group.key[0] for group in reader.usage_groups(*ALL, ("tags_id",)) if group.key[0]
        ),
        "months_present": lambda reader: reader.months_present(),
        "count_attempts": lambda reader: reader.count_attempts(SPAN[1]),
        "attempts": lambda reader: [reader.attempts(each) for each in ids],
        "in_flight": lambda reader: [reader.in_flight(each) for each in ids],
        "attempt": lambda reader: reader.attempt(attempt.attempt_id),
        "last_number": lambda reader: reader.last_number(attempt.call_key),
        "answer": lambda reader: reader.answer("call 1"),
        "run": lambda reader: [reader.run(each) for each in ids],
        "runs": lambda reader: [reader.runs(*ALL), reader.runs(*SPAN, limit=3)],
        "run_counts": lambda reader: reader.run_counts(*ALL),
        "steps": lambda reader: [reader.steps(each) for each in ids],
        "price_sets": lambda reader: reader.price_sets(ids_of(reader, "price_set_id")),
        "terms": lambda reader: reader.terms(ids_of(reader, "terms_id")),
        "iterate_attempts": lambda reader: [row for rows in reader.iterate_attempts(*SPAN) for row in map(tuple, rows)],
        "fx_rates": lambda reader: reader.fx_rates(),
        "tool_calls": lambda reader: [reader.tool_calls(each) for each in ids],
        "stage_times": lambda reader: {name: sorted(times) for name, times in reader.stage_times(*ALL).items()},
        "budgets": lambda reader: reader.budgets(),
        "budgets_in_use": lambda reader: reader.budgets_in_use(START_US),
        "cases": lambda reader: reader.cases(),
    }


def ids_of(reader: Reader, column: str) -> list[str]:
    return [group.key[0] for group in reader.usage_groups(*ALL, (column,)) if group.key[0]]


def sorted_groups(groups: Sequence[Any]) -> list[str]:
    return sorted(f"{each.key} {sorted(getattr(each, 'sums', None) or each.counts.items())}" for each in groups)


def test_there_is_a_read_for_each_method_of_a_reader() -> None:
    public = {name for name, _ in inspect.getmembers(Reader, inspect.isfunction) if not name.startswith("_")}
    assert public == reads(random_records(1, load_catalog(), 1)).keys()


def test_reads_and_each_statement_of_them_give_the_same_on_both(both: Both) -> None:
    """SQL is the portable subset: whole numbers and texts come out alike, and in the order that was asked for."""
    sqlite, postgres, records = both
    with noted(sqlite) as statements:
        sqlite.refresh()
        for name, read in reads(records).items():
            assert read(sqlite.reader) == read(postgres.reader), name
        assert sqlite.verify(*ALL) == postgres.verify(*ALL)
        for ledger in (sqlite, postgres):
            raw = ledger.reader._rollups  # noqa: SLF001 - what a read-only database is read by
            raw._raw_usage([SPAN], ("day",))  # noqa: SLF001
            raw._raw_latencies([SPAN], (), "ttft")  # noqa: SLF001
    assert len(statements) > 50
    for statement, parameters in statements:
        rows = [rows_of(ledger, statement, parameters) for ledger in (sqlite, postgres)]
        assert rows[0] == rows[1], str(statement)


@pytest.mark.parametrize("both", [2], indirect=True)
def test_what_is_verified_and_pruned_is_the_same_on_both(both: Both) -> None:
    sqlite, postgres, records = both
    day = START_US // DAY_US + 31
    before = sorted_groups(sqlite.reader.usage_groups(*ALL, GROUP_COLUMNS))
    steps: list[Callable[[Ledger], object]] = [
        lambda ledger: prune(ledger._engine, day, START_US + 2 * DAYS * DAY_US),  # noqa: SLF001
        lambda ledger: sorted_groups(ledger.reader.usage_groups(*ALL, GROUP_COLUMNS)),
        lambda ledger: ledger.verify(*ALL),
        lambda ledger: ledger.rebuild(),
        lambda ledger: sorted_groups(ledger.reader.usage_groups(*ALL, GROUP_COLUMNS)),
        lambda ledger: ledger.reader.dearest_runs(*ALL),
        lambda ledger: ledger.verify(*ALL),
    ]
    for place, step in enumerate(steps):
        one, other = step(sqlite), step(postgres)
        assert one == other, place
        assert place not in (1, 4) or one == before
    for read in ("usage_cube", "latency_histogram", "run_groups", "months_present"):
        assert reads(records)[read](sqlite.reader) == reads(records)[read](postgres.reader)


@contextmanager
def noted(ledger: Ledger) -> Iterator[list[Run]]:
    """Give the list of SELECT statements that a ledger's database is asked within the block, each text once."""
    found: dict[str, Run] = {}

    def note(_connection: object, element: Any, many: Any, one: Any, _options: object) -> None:
        if isinstance(element, sa.Select) and "group_concat" not in str(element):  # its like has another name
            parameters = many[0] if many else one
            found.setdefault(str(element), (element, parameters))

    def note_text(_connection: object, _cursor: object, text: str, *_: object) -> None:
        if text.startswith("WITH"):
            found.setdefault(text, (text, None))

    sa.event.listen(ledger._engine, "before_execute", note)  # noqa: SLF001
    sa.event.listen(ledger._engine, "before_cursor_execute", note_text)  # noqa: SLF001
    statements: list[Run] = []
    try:
        yield statements
    finally:
        sa.event.remove(ledger._engine, "before_execute", note)  # noqa: SLF001
        sa.event.remove(ledger._engine, "before_cursor_execute", note_text)  # noqa: SLF001
        statements.extend(found.values())


def rows_of(ledger: Ledger, statement: Any, parameters: Any) -> list[tuple[Any, ...]]:
    """Return a statement's rows as whole numbers, texts and bytes; sorted where it asks for no order."""
    with ledger._engine.connect() as connection:  # noqa: SLF001 - past the reader
        digests = dict(connection.execute(sa.select(rollup_keys.c.key_id, rollup_keys.c.digest)).all())
        if isinstance(statement, str):
            result = connection.exec_driver_sql(statement)
        else:
            result = connection.execute(statement, parameters)
        keys = [place for place, name in enumerate(result.keys()) if name == "key_id"]
        rows = [
            tuple(digests[value] if place in keys else plain(value) for place, value in enumerate(row))
            for row in result
        ]
    is_ordered = not isinstance(statement, str) and bool(statement._order_by_clauses)  # noqa: SLF001
    return rows if is_ordered else sorted(rows, key=repr)


def plain(value: Any) -> Any:
    """Return a value as both databases mean it: sums of PostgreSQL are `Decimal`, ids as the driver gives them."""
    if isinstance(value, Decimal):
        assert value == int(value)
        return int(value)
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        return value.replace("-", "")
    return value
