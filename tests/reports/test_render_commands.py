"""Pages as a user asks for them: `--format html`, and the demo that leaves one behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pricing import Catalog, Usage
from router.cli.demo import demo
from router.cli.month_option import MonthCommand
from router.cli.report import report
from router.errors import WrongUsage
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

app = typer.Typer()
app.command("report", cls=MonthCommand)(report)
app.command("demo")(demo)


def test_a_report_is_a_page(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    with open_ledger(url) as ledger:
        usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)
        write(ledger, catalog, Scene(at=datetime.now(UTC), usage=usage, model="<b>gpt</b>", served="gpt-4.1"))
    result = CliRunner().invoke(app, ["report", "--format", "html", "--output", str(tmp_path / "page.html")])
    assert (result.exit_code, result.stdout) == (0, "")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    # a million in at 2 USD, a hundred thousand out at 8 USD a million
    assert '<dd class="figure" data-value="2.8"><span>2.80</span> <small>USD</small></dd>' in html
    assert "&lt;b&gt;gpt&lt;/b&gt;" in html
    assert "<b>gpt" not in html


def test_the_demo_leaves_a_page_and_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    page = folder / "page.html"
    arguments = ["demo", "--workers", "2", "--ledger", str(tmp_path / "demo.db"), "--html", str(page)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert f"The same as a page to open or send: file://{str(page).replace(' ', '%20')}\n" in result.stdout
    html = page.read_text(encoding="utf-8")
    assert html.count('data-report="') == 2
    assert html.count("<h1>") == 1


def test_a_page_that_cannot_be_written_stops_the_demo_before_it_starts(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--html", str(tmp_path / "none" / "page.html")])
    assert isinstance(result.exception, WrongUsage)
    assert str(result.exception) == f"--html: folder {str(tmp_path / 'none')!r} does not exist"
    assert result.stdout == ""
