"""`router report` and `router compare` as a user types them, on a ledger of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from pricing import Catalog, Usage
from router.cli.amounts import terms_of
from router.cli.compare import compare
from router.cli.month_option import MonthCommand, with_month
from router.cli.output import write_whole
from router.cli.report import report
from router.errors import RouterError, WrongUsage
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

app = typer.Typer()
app.command("report", cls=MonthCommand)(report)
app.command("compare", cls=MonthCommand)(compare)


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a ledger with one call of today, set it, and stand in an empty folder."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    with open_ledger(url) as ledger:
        usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)
        write(ledger, catalog, Scene(at=datetime.now(UTC), usage=usage, model="gpt-4.1"))


def router(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def failure(*arguments: str) -> RouterError:
    result = router(*arguments)
    assert result.stdout == ""
    assert isinstance(result.exception, RouterError), result.exception
    assert result.exception.hint
    assert "\n" not in str(result.exception)
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], []),
        (["--month"], ["--month", "this"]),
        (["--month", "2026-10"], ["--month", "2026-10"]),
        (["--month", "--by", "day"], ["--month", "this", "--by", "day"]),
        (["--month=2026-10", "--month"], ["--month=2026-10", "--month", "this"]),
    ],
)
def test_a_bare_month_is_this_one(arguments: list[str], expected: list[str]) -> None:
    assert with_month(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["report", "--month"], ["report", "--month", "this"], ["report", "--month", "--by", "model"]],
)
def test_the_current_month(arguments: list[str]) -> None:
    result = router(*arguments)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    first = next(line for line in result.stdout.splitlines() if line.startswith("gpt-4.1"))
    assert first.split()[-3:] == ["2.80", "100.0", "%"]


def test_json_on_stdout_is_json_and_nothing_else() -> None:
    result = router("report", "--format", "json", "--by", "role")
    page = json.loads(result.stdout)
    assert page["tables"]["lines"]["total"]["list_cost"] == "2.8"
    assert page["footer"]["baseline"] == "none"
    assert result.stderr == ""


def test_csv_has_its_notes_on_stderr() -> None:
    result = router("report", "--format", "csv")
    assert result.stdout.splitlines()[0].startswith("row,model,calls,")
    assert "rows counted: 1" in result.stderr


def test_output_goes_to_a_file_that_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    file.write_text("old")
    result = router("report", "--format", "markdown", "--output", str(file))
    assert result.stdout == ""
    assert file.read_text(encoding="utf-8").startswith("# ")
    assert [path.name for path in tmp_path.glob("*report*")] == ["report.md"]


def test_what_cannot_be_written_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"--output: folder '.*nowhere' does not exist"):
        write_whole(tmp_path / "nowhere" / "report.txt", "text")
    with pytest.raises(WrongUsage, match="is a folder; a file is allowed"):
        write_whole(tmp_path, "text")
    with pytest.raises(RouterError, match="cannot be written: File name too long"):
        write_whole(tmp_path / ("x" * 300), "text")
    assert [path.name for path in tmp_path.iterdir() if "ledger" not in path.name] == []


def test_the_published_comparison() -> None:
    four = ("all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash")
    totals = ("--input-tokens", "0", "--output-tokens", "3.2M", "--calls", "1:5")
    result = router("compare", *four, *totals)
    assert result.exit_code == 0, result.output
    for shown in ("25.60", "2.4533", "41.3333", "8.00", "−90.4 %", "+61.5 %", "−68.8 %"):
        assert shown in result.stdout
    found = json.loads(router("compare", *four, *totals, "--format", "json").stdout)
    costs = [row["cost"] for row in found["tables"]["configurations"]["rows"]]
    assert costs == ["25.6", "2.453333333333", "41.333333333333", "8"]


def test_the_published_estimate_in_yuan() -> None:
    models = ("deepseek-v3.2", "gemini-2.5-flash", "moonshot-v1-8k", "claude-sonnet-4.5")
    options = ("--list", "relay", "--requests", "10k", "--output-tokens", "500", "--settlement", "CNY=1")
    result = router("compare", *models, *options, "--format", "json")
    rows = json.loads(result.stdout)["tables"]["configurations"]["rows"]
    assert [row["cost"] for row in rows] == ["2.1", "12.5", "6", "75"]
    assert "output alone is priced" in router("compare", *models, *options).stdout


def test_the_ledgers_month() -> None:
    result = router("compare", "all-gpt-4.1", "gemini-2.5-flash", "--month", "--format", "json")
    rows = json.loads(result.stdout)["tables"]["configurations"]["rows"]
    costs = [row["cost"] for row in rows if row["mark"] is None]
    assert costs == ["2.8", "0.55"]  # 2.00 + 0.80; 0.30 + 0.25


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ("report --month 2026-13", "month: '2026-13' is not allowed; YYYY-MM, last and this are", 2),
        ("report --month 2001-01", "month: the ledger has no rows in 2001-01 (UTC); it has rows in", 1),
        ("report --by modle", "group: 'modle' does not exist; did you mean model", 2),
        ("report --currency ZZZ", "currency: 'ZZZ' does not exist", 2),
        ("report --timezone Mars/Olympus", "time zone: 'Mars/Olympus' does not exist", 2),
        ("report --output nowhere/report.txt", "--output: folder 'nowhere' does not exist", 2),
        ("compare hybird --month", "configuration: 'hybird' does not exist; did you mean hybrid", 2),
        ("compare hybrid --list relai", "price list: 'relai' does not exist; did you mean relay", 2),
        ("compare hybrid --output-tokens 1M", "--calls: missing, and configuration 'hybrid' has two models", 2),
        ("compare by_class --output-tokens 1M", "configuration: 'by_class' chooses a model for each request", 2),
        ("compare gpt-4.1 --output-tokens 1X", "--output-tokens: '1X' is not allowed", 2),
        ("compare gpt-4.1 --output-tokens 1M --month", "--month: not allowed beside totals given by hand", 2),
        ("compare gpt-4.1 --output-tokens 1 --at 2026-02-30", "--at: '2026-02-30' is not allowed", 2),
        ("compare gpt-4.1 --output-tokens 1 --settlement CNY", "--settlement: 'CNY' is not allowed", 2),
        ("compare hybrid --output-tokens 1 --calls 1-5", "--calls: '1-5' is not allowed", 2),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(arguments: str, message: str, code: int) -> None:
    error = failure(*arguments.split())
    assert str(error).startswith(message)
    assert error.exit_code == code


def test_a_settlement_is_a_currency_and_a_rate() -> None:
    terms = terms_of("cny=7.3")
    assert (terms.settlement_currency, terms.settlement_rate) == ("CNY", Decimal("7.3"))
    for text in ("=1", "CNY=0", "CNY=-1", "CNY=nan", "XXZ=1", "CNY=1=1"):
        with pytest.raises(WrongUsage):
            terms_of(text)
