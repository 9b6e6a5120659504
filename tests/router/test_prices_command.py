"""`router prices`: what it prints, what it writes, and that nothing it does changes the past."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from pricing import load_catalog
from tests.new_ledger import new_ledger

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Call) -> Call:
    """Return a function that runs the command line in a folder with a folder of price files."""
    (tmp_path / "prices").mkdir()
    (tmp_path / "router.toml").write_text('price_files = ["prices/"]\n[aliases]\ncheap = "gpt-4.1-nano"\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUTER_CONFIG", raising=False)
    monkeypatch.setenv("ROUTER_DATABASE_URL", new_ledger(tmp_path / "ledger.db"))

    return command_line


def rows(text: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["tables"][table]["rows"]
    return found


def test_a_list_shows_each_model_once(router: Call) -> None:
    code, out, _ = router("prices", "list", "--list", "deepseek", "--on", "2026-07-01", "--format", "json")
    assert code == 0
    found = {row["model"]: row for row in rows(out, "models")}
    assert found["deepseek-v4-flash"]["input_per_mtok"] == "0.14"
    assert found["deepseek-v4-pro"]["cache_read_per_mtok"] == "0.003625"
    assert len(found) == len(load_catalog().models("deepseek"))


def test_show_names_source_and_page_of_every_row(router: Call) -> None:
    code, out, _ = router("prices", "show", "cheap", "--on", "2026-10-01", "--format", "json")
    assert code == 0
    found = rows(out, "rows")
    assert [(row["component"], row["amount"]) for row in found] == [
        ("cache_read", "0.025"),
        ("input", "0.1"),
        ("output", "0.4"),
    ]
    assert all(row["url"].startswith("https://") and "litellm" in row["source"] for row in found)


def test_show_says_that_a_list_has_ended(router: Call) -> None:
    code, out, _ = router("prices", "show", "kimi-k2", "--on", "2026-10-01")
    assert code == 0
    assert "its list ended at 2026-05-25T00:00Z; these are its last prices" in out


def test_history_is_oldest_first_and_whole(router: Call) -> None:
    _, out, _ = router("prices", "history", "o3", "--format", "json")
    plain = [row for row in rows(out, "rows") if row["component"] == "input" and row["when"] is None]
    assert [(row["amount"], row["effective_from"], row["effective_to"]) for row in plain] == [
        ("10", None, "2025-06-10T00:00Z"),
        ("2", "2025-06-10T00:00Z", None),
    ]


def test_diff_shows_known_disagreements(router: Call) -> None:
    arguments = ("prices", "diff", "claude-sonnet-4.5", "--source", "genai-prices", "--on", "2026-11-30")
    code, out, _ = router(*arguments, "--format", "json")
    assert code == 0
    found = {(row["component"], row["when"]): row for row in rows(out, "differences")}
    tier = found["input", "above 200,000 input tokens"]
    assert (tier["ours"], tier["theirs"]) == ("3", "6")


def test_import_asks_first(router: Call, tmp_path: Path) -> None:
    code, out, err = router("prices", "import", "gpt-4.1", "--source", "litellm")
    assert (code, list((tmp_path / "prices").iterdir())) == (0, [])
    assert "written: no" in out
    assert "--yes writes without asking" in err


def test_importing_a_price_leaves_last_months_report_as_it_was(router: Call, tmp_path: Path) -> None:
    day = date.today().replace(day=1)  # noqa: DTZ011 — any day of a month that is over does
    last = f"{day.year - (day.month == 1)}-{(day.month - 2) % 12 + 1:02}"
    (tmp_path / "trace.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0,3180,8\n"
    )
    start = f"{last}-03T00:00:00Z"
    assert router("prices", "import", "trace.csv")[0] != 0  # a file is no model
    assert router("import", "trace", "trace.csv", "--model", "gpt-4.1", "--start", start)[0] == 0
    months = (("report", "--month", last), ("compare", "all-gpt-4.1", "--month", last))
    before = [json.loads(router(*command, "--format", "json")[1])["tables"] for command in months]
    # 7,988 tokens in at 2 and 18 out at 8 per Mtok: 0.015976 + 0.000144.
    assert "0.01612" in json.dumps(before[0])
    assert "0.01612" in json.dumps(before[1])
    now = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).isoformat().replace("+00:00", "Z")
    (tmp_path / "prices" / "imported.toml").write_text(
        f'[[prices]]\nlist = "openai"\nmodel = "gpt-4.1"\neffective_from = {now}\n'
        'input = "99"\nsource = "us"\nchecked = 2026-11-01\n',
        "utf-8",
    )  # dear since today
    code, out, err = router("prices", "import", "gpt-4.1", "--source", "litellm", "--yes", "--format", "json")
    assert (code, err) == (0, "")
    changed = {row["component"]: row for row in rows(out, "rows")}
    assert (changed["input"]["before"], changed["input"]["after"]) == ("99", "2")
    text = (tmp_path / "prices" / "imported.toml").read_text("utf-8")
    assert 'input = "99"' in text
    assert "effective_to = " in text
    after = [json.loads(router(*command, "--format", "json")[1])["tables"] for command in months]
    assert after == before


def test_check_counts_the_prices_of_good_files_and_names_every_fault(router: Call, tmp_path: Path) -> None:
    good = '[[prices]]\nmodel = "gpt-4.1"\ninput = "1"\noutput = "2"\nsource = "us"\nchecked = 2026-11-01\n'
    (tmp_path / "prices" / "a.toml").write_text(good, "utf-8")
    code, out, _ = router("prices", "check")
    assert (code, out.endswith("a.toml: 2 prices, good\n")) == (0, True)
    (tmp_path / "prices" / "b.toml").write_text(good.replace('"1"', '"-1"').replace('"2"', '"0.000002"'), "utf-8")
    code, out, err = router("prices", "check", "prices/b.toml")
    assert (code, out) == (1, "")
    assert "prices/b.toml:3: input: '-1' is not allowed; 0 or more is" in err
    assert "prices/b.toml:4: output: '0.000002' is not allowed" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "gpt-4.l"), 1, "error: model: 'gpt-4.l' does not exist in price list 'vendor'; did you mean gpt-4.1"),
        (
            ("history", "gpt-4.1", "--list", "opnai"),
            1,
            "error: price list: 'opnai' does not exist; did you mean 'openai'",
        ),
        (("list", "--list", "opnai"), 1, "error: price list: 'opnai' does not exist"),
        (("list", "--on", "soon"), 2, "error: --on: 'soon' is not allowed; a date YYYY-MM-DD is"),
        (("diff", "--source", "rumours"), 2, "error: Invalid value for '--source'"),
        (("diff", "gpt-4.l"), 1, "error: model: 'gpt-4.l' does not exist"),
        (("import", "gpt-4.1", "--from", "2026-01-01", "--yes"), 2, "error: --from: 2026-01-01 is past"),
        (("import", "gpt-4.1", "--file", "elsewhere.toml", "--yes"), 2, "error: --file: 'elsewhere.toml' is not among"),
        (("check", "absent.toml"), 1, "error: absent.toml: price file: does not exist"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_hint(arguments: tuple[str, ...], code: int, said: str, router: Call) -> None:
    got, out, err = router("prices", *arguments)
    assert (got, out) == (code, "")
    assert said in err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["error", "hint"]


def test_without_a_folder_of_price_files_import_says_what_to_set(router: Call, tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text("", "utf-8")
    code, _, err = router("prices", "import", "gpt-4.1", "--yes")
    assert code == 2
    assert 'add price_files = ["prices/"] to router.toml' in err
