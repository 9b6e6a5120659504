"""`router report` as a user types it: which days, which lines, how it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pricing import Catalog, Usage
from router.cli.month_option import MonthCommand
from router.cli.report import report
from router.errors import RouterError
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

app = typer.Typer()
app.command("report", cls=MonthCommand)(report)
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a ledger with a call of now and one of three days ago, 2.80 USD each, and stand in an empty folder."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)
    with open_ledger(url) as ledger:
        write(
            ledger, catalog, *(Scene(at=at, usage=usage, tags={"team": "x"}) for at in (NOW, NOW - timedelta(days=3)))
        )


def page(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output or result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def settled(*arguments: str) -> str:
    return str(page(*arguments, "--json")["tables"]["lines"]["total"]["settled_cost"])


def test_which_days() -> None:
    today, before = f"{NOW:%Y-%m-%d}", f"{NOW - timedelta(days=3):%Y-%m-%d}"
    assert settled("--last", "1d") == settled("--since", today) == settled("--since", today, "--until", today) == "2.8"
    assert settled("--last", "4d") == settled("--since", before) == "5.6"  # the last day and the first are in it
    assert settled("--since", before, "--until", before, "-z", "UTC") == "2.8"


def test_json_is_format_json_and_compact_is_the_lines() -> None:
    assert page("--last", "7d", "--json") == page("--last", "7d", "--format", "json")
    assert list(page("--last", "7d", "--compact", "--json")["tables"]) == ["lines"]


def test_lines_by_a_tag_and_prices_of_another_day() -> None:
    rows = page("--last", "7d", "--by", "tag:team", "--json")["tables"]["lines"]["rows"]
    assert [row["tag:team"] for row in rows] == ["x"]
    assert settled("--last", "7d", "--prices", "catalogue") == "5.6"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--month 2026-10 --last 7d", "--month: not allowed beside --last"),
        ("--since 2026-10-01 --last 7d", "--since: not allowed beside --last"),
        ("--until 2026-10-01", "--until: not allowed without --since"),
        ("--since 2026-10-32", "--since: '2026-10-32' is not allowed"),
        ("--since 2999-01-01", "--since: 2999-01-01 is in the future; without --until, a day up to today ("),
        ("--since 2026-10-02 --until 2026-10-01", "period: 2026-10-01 is before 2026-10-02"),
        ("--since 2999-01-01 --until 2999-01-02", "period: 2999-01-01 to 2999-01-02 (UTC) is in the future"),
        ("--last week", "--last: 'week' is not allowed"),
        ("--json --format csv", "--json: not allowed beside --format csv"),
        ("--prices book", "--prices: 'book' is not allowed"),
        ("--by tag:taem", "group: 'tag:taem' does not exist; did you mean tag:team"),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(arguments: str, message: str) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert result.stdout == ""
    error = result.exception
    assert isinstance(error, RouterError), error
    assert str(error).startswith(message)
    assert error.hint
    assert "\n" not in f"{error}{error.hint}"
