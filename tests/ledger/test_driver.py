"""The driver's own cursor writes what SQLAlchemy would write, on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import PriceRow, PriceSet, Terms, Usage, operator_rate
from router.ledger import Ledger, statements
from router.ledger.driver import prepare
from router.ledger.records import (
    Amount,
    Answer,
    AttemptEnded,
    AttemptStarted,
    Import,
    ImportedAttempt,
    Outcome,
    RunEnded,
    RunRequest,
    RunStarted,
    StepEnded,
    StepRow,
    UsageBucket,
)
from router.ledger.rows import Kind, Record, rows_of
from router.ledger.tables import attempts, metadata
from router.ledger.tool_records import ToolCallEnded, ToolCallStarted

NOW_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
TEXTS = st.none() | st.sampled_from(["", "plain", "naïve ☂", "nul \x00", "'; --", "%s %(x)s ? :x"])
MONEY = st.none() | st.decimals(0, 10**9, places=12, allow_nan=False)
FLAGS = st.booleans()
DISCOUNT = Terms(discount_share=Decimal("0.1"))
PRICES = PriceSet(
    "openai", "m", "USD", (PriceRow("openai", "m", "input", "USD", Decimal(2), "u", "s", date(2026, 10, 1)),)
)


def identity(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012d}"


@st.composite
def attempt(draw: st.DrawFn, number: int) -> tuple[AttemptStarted, AttemptEnded]:
    run_id = draw(st.sampled_from([None, identity(1)]))
    amount = draw(MONEY)
    money = None if amount is None else Amount("USD", amount)
    usage = draw(st.none() | st.just(Usage(*range(11))))
    tags = draw(st.sampled_from([{}, {"a": "☂"}]))
    started = AttemptStarted(
        identity(number),
        f"key {number}",
        number,
        draw(TEXTS),
        "sandbox",
        "openai",
        "m",
        NOW_US,
        run_id,
        role=draw(st.sampled_from([None, "single"])),
        tenant=draw(TEXTS),
        reserved_usd=draw(MONEY),
        tags=tags,
    )
    ended = AttemptEnded(
        started.attempt_id,
        draw(st.sampled_from(["succeeded", "failed"])),
        "exact",
        draw(st.integers(0, 10**9)),
        model_served=draw(TEXTS),
        upstream_id=draw(TEXTS),
        usage=usage,
        usage_estimated=draw(FLAGS),
        list_cost=money,
        settled_cost=money,
        reported_cost_usd=draw(MONEY),
        price_set_id=PRICES.id if usage else None,
        terms=draw(st.sampled_from([Terms(), DISCOUNT])),
        possibly_billed=draw(FLAGS),
    )
    return started, ended


@st.composite
def told(draw: st.DrawFn) -> list[Record]:
    """Return records of every kind but of budgets, messages and state, which are no plain rows."""
    run, call = identity(1), identity(7)
    pairs = [draw(attempt(number)) for number in range(10, draw(st.integers(11, 13)))]
    start, end = draw(attempt(20))
    imported = ImportedAttempt(identity(5), replace(start, tags={"b": "c"}), replace(end, terms=DISCOUNT))
    span = (NOW_US, NOW_US + 1)
    bucket = UsageBucket(identity(8), identity(5), *span, "e", "openai", "m", "unknown", tenant=draw(TEXTS))
    return [
        PRICES,
        operator_rate("CNY", "USD", Decimal("0.14"), date(2026, 10, 1)),
        Import(identity(5), "f", "file", "digest", "m", "l", draw(TEXTS), 0),
        RunStarted(run, "one", "1", NOW_US, prompt=draw(TEXTS), budget_usd=draw(MONEY), tags={"t": "v"}, owner="me"),
        StepRow(run, "s", 0, "chat", ("a", "b")),
        *(start for start, _ in pairs),
        imported,
        bucket,
        Answer("answer", run, {"content": draw(TEXTS)}, draw(TEXTS), None),
        RunRequest(run, "{}", None),
        ToolCallStarted(call, run, "key", 0, "server", "tool", NOW_US, 3),
        *(end for _, end in pairs),
        ToolCallEnded(call, "succeeded", 5, 7, draw(FLAGS), draw(TEXTS)),
        Outcome(identity(9), run, "key", 0.5, "judge", NOW_US),
        StepEnded(run, "s", "succeeded", draw(TEXTS)),
        RunEnded(run, "succeeded", NOW_US, draw(TEXTS), draw(st.sampled_from([None, "me"]))),
    ]


def everything(connection: sa.Connection) -> dict[str, list[Any]]:
    """Return what all tables hold, as the driver gives it, but for the marks: SQLAlchemy writes none."""
    names = [table.name for table in metadata.sorted_tables if not table.name.startswith("rollup")]
    rows = {name: connection.exec_driver_sql(f"SELECT * FROM {name}").all() for name in names}  # noqa: S608 - our own
    return {name: sorted(map(repr, found)) for name, found in rows.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(written=told())
def test_law_rows_are_written_as_sqlalchemy_writes_them(ledger: Ledger, written: list[Record]) -> None:
    """Both ways in transactions that are rolled back; the order of kinds is that of `execute_rows`."""
    rows = rows_of(written)
    assert {kind for kind, _ in rows} == set(Kind) - {Kind.BUDGET_USE, *statements.TRANSACTED}

    def by_sqlalchemy(connection: sa.Connection) -> dict[str, list[Any]]:
        for kind, row in sorted(rows, key=lambda each: each[0]):
            connection.execute(statements._statement(kind, connection.dialect.name), row)  # noqa: SLF001 - the same
        return everything(connection)

    def by_driver(connection: sa.Connection) -> dict[str, list[Any]]:
        statements.execute_rows(connection, rows)
        return everything(connection)

    with ledger._engine.connect() as connection:  # noqa: SLF001 - nothing of it is to stay
        expected = by_sqlalchemy(connection)
        connection.rollback()
        assert by_driver(connection) == expected
        connection.rollback()
    assert expected["attempts"]


@given(written=st.lists(told(), min_size=2, max_size=3))
def test_law_all_rows_of_a_kind_have_the_same_columns(written: list[list[Record]]) -> None:
    """A group of them is run with the text that was made for the first."""
    columns: dict[Kind, set[frozenset[str]]] = {}
    for kind, row in (each for records in written for each in rows_of(records)):
        columns.setdefault(kind, set()).add(frozenset(row))

    assert {kind: len(found) for kind, found in columns.items()} == dict.fromkeys(columns, 1)


def test_a_value_that_no_row_has_is_refused() -> None:
    where = attempts.c.status == "started"
    with pytest.raises(ValueError, match="have no value in its rows"):
        prepare(sa.update(attempts).where(where), sa.create_engine("sqlite://").dialect, ["number"])
