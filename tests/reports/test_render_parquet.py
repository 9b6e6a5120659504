"""Pages as Parquet: typed rows, exact amounts, what has no row in the file's metadata, and the option's door."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pricing import Catalog, Usage
from reports import Column, Fact, Money, Note, Page, Table
from reports.render.json import render_json
from reports.render.parquet import render_parquet
from router.cli import main
from router.errors import RouterError, WrongUsage
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

COLUMNS = (
    Column("name", "Name", "text"),
    Column("calls", "Calls", "count"),
    Column("tokens", "Tokens", "tokens"),
    Column("cost", "Cost, USD", "money"),
    Column("rate", "Per Mtok", "rate"),
    Column("share", "Share", "share"),
    Column("took_ms", "Took, ms", "duration_ms"),
)
BOUND = Money(Fraction(28, 10), "USD", lower_bound=True)
ROWS = (
    ("=a", 2, Fraction(3, 2), BOUND, Money(Fraction(1, 3), "CNY"), Fraction(1, 4), 7),
    ("b", None, 10**15, None, None, None, Fraction(1, 2)),
)
TOTAL = ("all", 2, 10**15, Money(Fraction(10**15), "USD"), None, Fraction(1), None)
PAGE = Page(
    "test",
    "Title",
    (Fact("month", "month", "2026-10"),),
    (Table("main", "Main", COLUMNS, ROWS, TOTAL), Table("other", "Other", COLUMNS[:1], (("x",),))),
    (Note("warning", "{n} rows", {"n": (3, "count")}),),
    (Fact("rows_counted", "rows counted", 3, "count"),),
)


def read(page: Page, name: str | None = None) -> Any:
    file = BytesIO()
    render_parquet(page, file, name)
    return import_module("pyarrow.parquet").read_table(BytesIO(file.getvalue()))


def test_rows_are_those_of_csv_and_typed_by_kind() -> None:
    table = read(PAGE)
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("row", "string"),
        ("name", "string"),
        ("calls", "int64"),
        ("tokens", "decimal128(38, 6)"),
        ("cost", "decimal128(38, 22)"),
        ("cost_currency", "string"),
        ("rate", "decimal128(38, 22)"),
        ("rate_currency", "string"),
        ("share", "double"),
        ("took_ms", "double"),
        ("lower_bounds", "string"),
    ]
    first, second, total = table.to_pylist()
    # A third has no finite decimal form: rounded at 1e-12, as in JSON. No apostrophe: this is no spreadsheet's.
    third = Decimal("0.333333333333")
    assert tuple(first.values()) == (
        *("line", "=a", 2, Decimal("1.5"), Decimal("2.8"), "USD", third, "CNY", 0.25, 7.0),
        "cost",
    )
    assert tuple(second.values()) == ("line", "b", None, Decimal(10**15), None, None, None, None, None, 0.5, "")
    assert (total["row"], total["cost"], total["lower_bounds"]) == ("total", Decimal(10**15), "")


def test_another_table_has_its_name() -> None:
    assert read(PAGE, "other").to_pylist() == [{"row": "line", "name": "x", "lower_bounds": ""}]
    with pytest.raises(WrongUsage, match="'mian' does not exist; did you mean main"):
        read(PAGE, "mian")


def test_what_has_no_row_is_in_the_metadata() -> None:
    told = json.loads(read(PAGE).schema.metadata[b"farebox"])
    whole = json.loads(render_json(PAGE))
    assert told == {**whole, "tables": {}, "charts": []}
    assert told["notes"][0]["text"] == "3 rows"


def test_the_types_do_not_hang_on_the_values() -> None:
    empty = replace(PAGE, tables=(replace(PAGE.tables[0], rows=(), total=None),))
    assert read(empty).schema.types == read(PAGE).schema.types
    assert read(empty).num_rows == 0


def test_a_number_without_room_is_one_line() -> None:
    huge = replace(PAGE.tables[0], rows=(("x", 2**63, *[None] * 5),), total=None)
    with pytest.raises(RouterError, match="column calls: a value does not fit into int64"):
        read(replace(PAGE, tables=(huge,)))


# ----------------------------------------------------------------------------------------------------------------------
# The option


@pytest.fixture
def router(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str, str]]:
    """Return a function that runs the command line over a ledger with one call of this month: 2 and 0.8 USD."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    with open_ledger(url) as ledger:
        used = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)
        write(ledger, catalog, Scene(at=datetime.now(UTC), usage=used), Scene(at=datetime.now(UTC), usage=None))

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


EVERY_REPORT = (
    "report",
    "compare all-gpt-4.1 hybrid",
    "diff all-gpt-4.1 hybrid --month this",
    "whatif --volume 2",
    "roi --baseline all-gpt-4.1 --configuration hybrid --input-tokens 1M --output-tokens 1M --calls 1:5",
    "fleet gpt-4.1 --agents 1 --tasks-per-day 1 --output-tokens-per-task 1 --input-tokens-per-task 1",
    "case list",
    "budget list",
    "prices list",
    "prices show gpt-4.1",
    "prices history gpt-4.1",
    "fx list",
)


@pytest.mark.parametrize("command", EVERY_REPORT)
def test_every_report_has_the_same_rows_as_its_json(
    router: Callable[[str], tuple[int, str, str]], tmp_path: Path, command: str
) -> None:
    code, out, err = router(f"{command} --format parquet --output page.parquet")
    assert (code, out) == (0, ""), err
    found = import_module("pyarrow.parquet").read_table(tmp_path / "page.parquet").to_pylist()
    told = next(iter(json.loads(router(f"{command} --json")[1])["tables"].values()))
    rows = [("line", row) for row in told["rows"]] + ([("total", told["total"])] if told["total"] else [])
    assert len(found) == len(rows)
    for mine, (label, row) in zip(found, rows, strict=True):
        assert mine["row"] == label
        assert mine["lower_bounds"].split() == row.get("lower_bounds", [])
        for column in told["columns"]:
            cell, other = mine[column["key"]], row[column["key"]]
            same = cell is None if other is None else cell == other if isinstance(cell, str) else cell == Decimal(other)
            assert same, (column["key"], cell, other)


def test_what_rows_have_no_place_for_is_talk(router: Callable[[str], tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, err = router("report --format parquet --output page.parquet")
    assert (code, out) == (0, "")
    assert "rows counted: 2" in err
    [total] = [
        row
        for row in import_module("pyarrow.parquet").read_table(tmp_path / "page.parquet").to_pylist()
        if row["row"] == "total"
    ]
    assert (total["settled_cost"], total["settled_cost_currency"]) == (Decimal("2.8"), "USD")
    assert "settled_cost" in total["lower_bounds"].split()


def test_parquet_needs_a_file_and_says_so_before_anything_is_read(
    router: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUTER_DATABASE_URL", "nonsense")
    code, out, err = router("report --format parquet")
    assert (code, out) == (2, "")
    assert err == "error: --format parquet: is only written to a file\nhint: --output october.parquet\n"
    code, _, err = router("report --format parquet --output none/x.parquet")
    assert (code, err.splitlines()[0]) == (2, "error: --output: folder 'none' does not exist")


@pytest.mark.parametrize("command", ["report", "export calls"])
def test_parquet_without_its_package_is_one_line(tmp_path: Path, command: str) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from router.cli import main\n"
        f"main([*{command.split()!r}, '--format', 'parquet', '--output', 'x.parquet'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: --format parquet: Parquet needs the package pyarrow\nhint: pip install 'farebox[parquet]'\n"
    )
