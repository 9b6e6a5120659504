"""The law that a month's total, its lines, its days, its tenants and the ledger's raw rows agree, in every cut."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import FxTable, Terms, Usage, load_catalog, operator_rate
from reports import Money, Page, Table, month_bounds, month_report, time_zone
from reports.month_groups import BY
from router.errors import RouterError
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

CATALOG = load_catalog()
CNY = Fraction("0.137")
RATED = (date(2024, 1, 1), date(2026, 9, 1))
FX = FxTable(operator=[operator_rate("CNY", "USD", Decimal("0.137"), day) for day in RATED])
RELAY = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
MONTHS = ("2024-02", "2026-10", "2026-11")
ZONES = ("UTC", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "Pacific/Apia")
# Instants crowd around month ends, a leap day, and the hours in which clocks change (25 October, 1 November 2026).
EDGES = [
    datetime(2024, 2, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    datetime(2026, 10, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
]
INSTANTS = st.builds(
    lambda edge, offset: edge + timedelta(microseconds=offset),
    st.sampled_from(EDGES),
    st.integers(-20 * 3_600_000_000, 20 * 3_600_000_000),
)
# Up to 1e13 tokens: at 2 USD per Mtok twenty million dollars, more than 2^63 of 1e-12.
TOKENS = st.integers(0, 10**6) | st.sampled_from([0, 10**13])
USAGES = st.none() | st.builds(
    Usage,
    uncached_input_tokens=TOKENS,
    cache_read_tokens=st.integers(0, 10**6),
    plain_output_tokens=st.integers(0, 10**5),
    web_searches=st.integers(0, 1),
)
SCENES = st.lists(
    st.builds(
        Scene,
        at=INSTANTS,
        usage=USAGES,
        model=st.sampled_from(["gpt-4.1", "kimi-k2", "moonshot-v1-8k"]),
        served=st.sampled_from([None, "gpt-4o-mini", "nobody-knows"]),
        role=st.sampled_from([None, "single", "orchestrator", "worker"]),
        task_class=st.sampled_from([None, "math"]),
        configuration=st.sampled_from([None, "hybrid"]),
        tenant=st.sampled_from([None, "a", "b", ""]),
        tags=st.sampled_from([{}, {"team": "x"}, {"team": "", "app": "y"}]),
        status=st.sampled_from(["started", "succeeded", "failed", "timed_out", "stopped"]),
        number=st.integers(1, 2),
        price_list=st.sampled_from(["vendor", "relay"]),
        terms=st.sampled_from([Terms(), RELAY, Terms(discount_share=Decimal("0.15"))]),
        possibly_billed=st.booleans(),
        reserved_usd=st.none() | st.decimals(0, 1, places=12),
        reported_usd=st.none() | st.decimals(0, 1, places=12),
    ),
    min_size=1,
    max_size=12,
)


def raw_rows(path: Path, month: str, zone: str) -> list[sqlite3.Row]:
    """Return a month's attempts as they lie in the database."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        query = "SELECT * FROM attempts WHERE started_us >= ? AND started_us < ?"
        return connection.execute(query, month_bounds(month, time_zone(zone))).fetchall()
    finally:
        connection.close()


def paid(rows: list[sqlite3.Row], name: str) -> Fraction:
    """Return the sum of an amount in US dollars, row by row."""
    return sum(
        (
            (row[f"{name}_micro"] + Fraction(row[f"{name}_pico"], 10**6))
            / 10**6
            * (CNY if row[f"{name}_currency"] == "CNY" else 1)
            for row in rows
            if row[f"{name}_micro"] is not None
        ),
        Fraction(0),
    )


def value(cell: object) -> Fraction:
    return cell.value if isinstance(cell, Money) else Fraction(0)


def tables_of_settled_cost(page: Page) -> Iterator[Table]:
    """Yield the tables whose lines are a partition of the month."""
    yield from (table for table in page.tables if table.name in ("lines", "daily", "daily_models", "tenants"))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SCENES, st.sampled_from(ZONES), st.sampled_from(MONTHS), st.permutations(sorted({*BY, "tag:team"})))
def test_law_total_lines_days_and_tenants_are_the_sum_of_the_raw_rows(
    scenes: list[Scene], zone: str, month: str, groups: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder, open_ledger(new_ledger(f"{folder}/l.db")) as ledger:
        write(ledger, CATALOG, *scenes)
        rows = raw_rows(Path(folder) / "l.db", month, zone)
        has_tags = any(row["tags_id"] for row in rows)
        for by in [group for group in groups if has_tags or group != "tag:team"][:3]:

            def page_by(group: str) -> Page:
                return month_report(
                    ledger.reader,
                    month=month,
                    by=group,
                    currency="USD",
                    time_zone_name=zone,
                    fx=FX,
                    catalog=CATALOG,
                    now=datetime(2026, 12, 5, tzinfo=UTC),
                )

            if not rows:
                with pytest.raises(RouterError, match="no rows"):
                    page_by(by)
                continue
            page = page_by(by)
            lines = page.table("lines")
            for key, name in (("list_cost", "cost"), ("settled_cost", "settled")):
                assert value(lines.total_of(key)) == paid(rows, name)
                assert sum(map(value, lines.column(key))) == paid(rows, name)
            for table in tables_of_settled_cost(page):
                assert sum(map(value, table.column("settled_cost"))) == paid(rows, "settled"), table.name
            assert lines.total_of("attempts") == len(rows)
            assert lines.total_of("calls") == sum(row["number"] == 1 for row in rows)
            for key in ("attempts", "calls", "attempts_unpriced", "input_tokens", "output_tokens"):
                assert sum(cell for cell in lines.column(key) if isinstance(cell, int)) == (lines.total_of(key) or 0)
