"""The same records in SQLite and in PostgreSQL: every command prints the same bytes, but for the database's name."""

from __future__ import annotations

import csv
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from io import BytesIO, StringIO
from pathlib import Path
from typing import TypeAlias

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import Catalog, Usage
from reports import Money, month_report, named_month, time_zone
from reports.export_columns import RECORD_COLUMNS
from reports.export_files import write_rows
from reports.export_records import record_rows
from reports.focus import focus_export
from reports.focus_columns import COLUMNS
from reports.month_groups import BY
from reports.render.json import render_json
from router.cli import main
from router.ledger import Ledger, open_ledger
from router.ledger.tables import metadata
from tests.new_ledger import new_ledger
from tests.reports.random_ledger import fill, random_records
from tests.reports.scenes import Scene
from tests.reports.test_month_laws import CATALOG, CNY, FX, SCENES, ZONES

NOW = datetime(2026, 12, 5, tzinfo=UTC)
SWITCH = "--baseline all-gpt-4.1 --configuration hybrid-flash"
Run: TypeAlias = Callable[[str], tuple[int, str, str]]

REPORTS = (
    ("report --month 2026-10 --format json", 0),
    ("report --month 2026-08 --by tenant --timezone Asia/Kolkata --format json", 0),
    ("report --since 2026-08-14 --until 2026-10-25 --by tag:team --timezone Australia/Lord_Howe --format csv", 0),
    ("report --month 2026-08 --by class --currency CNY --prices catalogue@2026-09-01 --format json", 0),
    ("compare all-gpt-4.1 hybrid gpt-4o-mini --month 2026-10 --format json", 0),
    ("diff 2026-08 2026-10 --by tenant --format json", 0),
    ("whatif --month 2026-10 --cache-share 50% --format json", 0),
    (f"roi {SWITCH} --month 2026-10 --setup-cost 3 --format json", 0),
    ("backtest --months 3 --format json", 0),
    ("budget list --month 2026-10 --format json", 0),
    ("budget show tenant 日本 --month 2026-10 --format json", 0),
    ("export focus --month 2026-10 --timezone Asia/Tokyo --output out", 0),
    ("export calls --month 2026-10 --format jsonl --output out", 0),
    ("ledger verify --format json", 0),
)
"""Commands that read, and their exit codes. What they print hangs on no clock: the months are over."""
CHANGES = (
    ("case freeze spring --baseline all-gpt-4.1 --configuration hybrid --month 2026-08", 0),
    ("case review spring --month 2026-10 --format json", 0),
    ("budget set class math 5 USD", 0),
    ("budget check class math --month 2026-10", 3),
    ("import generic calls.csv --column started=time", 0),
    ("import list", 0),
    ("report --month 2026-09 --format json", 0),
    ("import undo calls.csv", 0),
    ("reconcile bill.csv --month 2026-10 --format json", 0),
    ("ledger rebuild", 0),
    ("ledger prune --before 2026-09-01 --yes --format json", 0),
    ("ledger verify --format json", 0),
    ("report --month 2026-08 --by tenant --format json", 0),
    ("import generic calls.csv --column started=time", 0),
    ("import generic early.csv --column started=time", 1),
)
"""Commands that change something, and what is read after them."""


@pytest.fixture
def both(
    tmp_path: Path,
    postgres_ledger_url: str,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> tuple[Run, Run]:
    """Return functions that run the command line on a SQLite ledger and on a PostgreSQL ledger of the same records."""
    urls = (new_ledger(tmp_path / "ledger.db"), postgres_ledger_url)
    records = random_records(3, catalog)
    for url in urls:
        with open_ledger(url) as ledger:
            fill(ledger, records)
    monkeypatch.chdir(tmp_path)

    def on(url: str) -> Run:
        def call(line: str) -> tuple[int, str, str]:
            monkeypatch.setenv("ROUTER_DATABASE_URL", url)
            with pytest.raises(SystemExit) as ended:
                main(line.split())
            out, err = (each.decode().replace(url, "URL") for each in capsysbinary.readouterr())
            # When a case was frozen: a minute may pass between one database and the other.
            return int(ended.value.code or 0), re.sub(r"\d\d:\d\d UTC", "HH:MM UTC", out), err

        return call

    return on(urls[0]), on(urls[1])


def check(both: tuple[Run, Run], lines: tuple[tuple[str, int], ...], folder: Path) -> None:
    """Run each line on both, and compare what is printed, and what is written to the file `out`."""
    written = folder / "out"
    for line, code in lines:
        found = []
        for run in both:
            said = run(line)
            found.append((*said, written.read_bytes() if written.exists() else b""))
            written.unlink(missing_ok=True)
        assert found[0] == found[1], line
        assert found[0][0] == code, (line, found[0])


def test_commands_that_read_print_the_same_bytes(both: tuple[Run, Run], tmp_path: Path) -> None:
    check(both, REPORTS, tmp_path)


def test_commands_that_change_leave_the_same_behind(both: tuple[Run, Run], tmp_path: Path) -> None:
    head = "id,time,model,input_tokens,output_tokens\n"
    rows = [f"c{number},2026-09-{number + 1:02}T10:00:00Z,gpt-4.1,1000,{number}\n" for number in range(20)]
    (tmp_path / "calls.csv").write_text(head + "".join(rows))
    (tmp_path / "early.csv").write_text(f"{head}d1,2026-08-02T10:00:00Z,gpt-4.1,1000,1\n")
    (tmp_path / "bill.csv").write_text("day,model,cost,currency\n2026-10-01,gpt-4.1,2.5,USD\n")
    check(both, CHANGES, tmp_path)


SLOW = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)


@settings(max_examples=3, deadline=None, suppress_health_check=SLOW)
@given(scenes=SCENES, zone=st.sampled_from(ZONES), by=st.sampled_from(sorted(BY)))
def test_law_report_ledger_focus_and_calls_have_one_total_on_both(
    postgres_ledger_url: str, scenes: list[Scene], zone: str, by: str
) -> None:
    """Report total = ledger total = sum of FOCUS rows = sum of CSV rows, on PostgreSQL to the byte as on SQLite."""
    priced = replace(scenes[0], usage=Usage(1_000_000), served=None, status="succeeded")  # so that FOCUS has a row
    month = f"{priced.at.astimezone(time_zone(zone)):%Y-%m}"
    records = [record for scene in (priced, *scenes[1:]) for record in scene.records(CATALOG)]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for url in (new_ledger(f"{folder}/l.db"), postgres_ledger_url):
            with open_ledger(url) as ledger:
                if url == postgres_ledger_url:
                    empty(ledger)
                ledger.write_now(*records)
                found.append(one_total(ledger, month, zone, by))
    assert found[0] == found[1]


def one_total(ledger: Ledger, month: str, zone: str, by: str) -> tuple[str, bytes, list[tuple[object, ...]]]:
    """Hold four ways to add up a month against each other; return the page, the calls and the FOCUS rows."""
    period = named_month(month, time_zone(zone), NOW)
    page = month_report(
        ledger.reader, month=month, by=by, currency="USD", time_zone_name=zone, fx=FX, catalog=CATALOG, now=NOW
    )
    file = BytesIO()
    write_rows(file, "csv", RECORD_COLUMNS, record_rows(ledger.reader, period.start_us, period.end_us), guard=True)
    focus = list(focus_export(ledger.reader, period, FX, CATALOG).rows)
    lines = page.table("lines")
    shown = lines.total_of("settled_cost")
    total = shown.value if isinstance(shown, Money) else Fraction(0)
    assert total == in_the_ledger(ledger, period.start_us, period.end_us)
    assert total == sum(cell.value for cell in lines.column("settled_cost") if isinstance(cell, Money))
    calls = csv.DictReader(StringIO(file.getvalue().decode()))
    assert total == sum(usd(row["settled_currency"], row["settled_cost"]) for row in calls)
    currency, billed = (FOCUS_NAMES.index(name) for name in ("BillingCurrency", "BilledCost"))
    assert total == sum(usd(row[currency], row[billed]) for row in focus)
    return render_json(page), file.getvalue(), focus


FOCUS_NAMES = [column.name for column in COLUMNS]


def empty(ledger: Ledger) -> None:
    """Take every row out of a ledger on PostgreSQL."""
    names = ", ".join(table.name for table in metadata.sorted_tables)
    with ledger._engine.begin() as connection:  # noqa: SLF001 - nothing of ours deletes everything
        connection.exec_driver_sql(f"TRUNCATE {names}")


def in_the_ledger(ledger: Ledger, start_us: int, end_us: int) -> Fraction:
    """Return the sum in US dollars of the raw rows of a span, as the database adds them up."""
    names = "settled_currency, sum(settled_micro), sum(settled_pico)"
    query = sa.text(f"SELECT {names} FROM attempts WHERE started_us >= :low AND started_us < :high GROUP BY 1")  # noqa: S608
    with ledger._engine.connect() as connection:  # noqa: SLF001 - past the reader
        rows = connection.execute(query, {"low": start_us, "high": end_us}).all()
    return sum(
        (usd(name, Fraction(int(micro), 10**6) + Fraction(int(pico), 10**12)) for name, micro, pico in rows if name),
        Fraction(0),
    )


def usd(currency: str, amount: str | Decimal | Fraction) -> Fraction:
    return Fraction(amount or 0) * (CNY if currency == "CNY" else 1)
