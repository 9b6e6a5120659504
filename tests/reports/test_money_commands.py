"""`router roi`, `fleet`, `case`, `budget` and `reconcile` as a user types them: pages, exit codes, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pricing import Catalog, Usage
from router.cli import main
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

NOW = datetime.now(UTC)
LAST = NOW.replace(day=1) - timedelta(days=1)
TEN = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000)  # gpt-4.1: 2.00 + 8.00
FLASH = "hybrid-flash"  # a worker's: 0.30 + 2.50
Run: TypeAlias = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def router(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs the command line on a ledger with ten dollars last month and ten today."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    with open_ledger(url) as ledger:
        write(
            ledger,
            catalog,
            Scene(at=LAST, usage=TEN, role="worker", tenant="acme"),
            Scene(at=NOW, usage=TEN, role="worker", tenant="acme"),
        )

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def table(out: str, name: str) -> Any:
    return json.loads(out)["tables"][name]


def test_a_return_on_the_ledgers_month(router: Run) -> None:
    options = f"--baseline all-gpt-4.1 --configuration {FLASH} --setup-cost 14.4 --horizon 12"
    code, out, err = router(f"roi {options} --format json")
    assert (code, err) == (0, "")
    first = table(out, "returns")["rows"][0]
    assert (first["savings_per_month"], first["payback_month"], first["npv"]) == ("7.2", 2, "72")  # 12 × 7.2 − 14.4
    assert router(f"roi {options}")[1].startswith(f"Return of switching from all-gpt-4.1 to {FLASH}: the calls of")


def test_a_return_on_totals_by_hand(router: Run) -> None:
    line = "roi --baseline gpt-4.1 --configuration gemini-2.5-flash --requests 1k --output-tokens 1M --setup-cost 1,000"
    code, out, _ = router(f"{line} --monthly-cost 550 --format json")
    assert code == 0
    assert table(out, "returns")["rows"][0]["savings_per_month"] == "5500"  # 1,000 Mtok at 8.00 and at 2.50
    assert table(out, "break_even")["rows"][0]["calls_per_month"] == 100


def test_the_published_fleet(router: Run) -> None:
    line = "fleet gpt-4.1 deepseek-v3.2 --agents 100 --tasks-per-day 50 --output-tokens-per-task 2048"
    code, out, _ = router(f"{line} --days 30 --format json")
    assert code == 0
    assert [row["cost"] for row in table(out, "fleet")["rows"]] == ["2457.6", "129.024"]


def test_a_case_from_its_freeze_to_its_review(router: Run) -> None:
    line = f"case freeze spring --baseline all-gpt-4.1 --configuration {FLASH} --setup-cost 14.4"
    code, out, _ = router(f"{line} --format json")
    assert code == 0
    assert [row["amount"] for row in table(out, "promise")["rows"]] == ["10", "2.8", "7.2"]
    code, out, err = router(line)
    assert (code, out) == (1, "")
    assert err.startswith("error: case 'spring': was frozen on ")
    assert "hint: freeze under another name; router case show spring shows it" in err
    assert table(router("case list --format json")[1], "cases")["rows"][0]["name"] == "spring"
    assert router("case show spring")[1].startswith("Business case spring: from all-gpt-4.1 to hybrid-flash")
    code, _, err = router(f"case review spring --month {LAST:%Y-%m}")
    assert code == 2
    assert f"month: {LAST:%Y-%m} is not after {LAST:%Y-%m}, which case 'spring' was drawn from" in err
    code, _, err = router("case show sprnig")
    assert (code, err.splitlines()[0]) == (2, "error: case: 'sprnig' does not exist; did you mean spring?")


def test_budgets_from_set_to_remove(router: Run) -> None:
    assert router("budget check")[::2] == (
        1,
        "error: budget: none is set, so none can be checked\nhint: router budget set all 500 USD\n",
    )
    assert router("budget set all 10 USD")[0] == 0
    code, out, err = router("budget check --format json")
    assert (code, err) == (0, "")  # as much as it is: not crossed
    assert table(out, "budgets")["rows"][0]["spent"] == "10"
    assert table(out, "budgets")["rows"][0]["state"] in ("warning", "forecast to cross")
    assert router("budget set all 9.99 USD")[2] == "budget all: 9.99 USD a month, in the place of the one before\n"
    code, out, err = router("budget check")
    assert code == 3
    assert out.startswith("Budgets of ")
    assert f"error: budget: all crossed on {NOW:%Y-%m-%d}" in err
    assert router("budget list")[0] == 0  # only `check` fails
    assert router("budget set tenant acme 20 USD")[0] == 0
    assert router("budget check tenant acme")[0] == 0
    assert router("budget check tenant acme --month last")[0] == 0
    assert router("budget show tenant acme")[1].startswith("Budget tenant acme in ")
    assert router("budget remove all")[2] == "removed: all, 9.99 USD a month\n"
    assert router("budget check")[0] == 0


def test_a_bill_against_the_ledger(router: Run, tmp_path: Path) -> None:
    day = f"{LAST:%Y-%m-%d}"
    bill = tmp_path / "bill.csv"
    bill.write_text(
        f"day,model,token_type,quantity,cost,currency\n{day},gpt-4.1,input,1000000,2,USD\n"
        f"{day},gpt-4.1,output,1000000,8.40,USD\n"
    )
    code, out, err = router("reconcile bill.csv --format json --fail-above 4%")
    assert (code, err) == (0, "")
    amounts = {row["what"]: row["amount"] for row in table(out, "summary")["rows"]}
    assert (amounts["bill"], amounts["ledger"], amounts["rate"], amounts["unexplained"]) == ("10.4", "10", "0.4", "0")
    code, _, err = router("reconcile bill.csv --fail-above 0.39")
    assert code == 3
    assert "error: --fail-above 0.39: the difference is 0.40 USD" in err


WRONG: tuple[tuple[str, int, str], ...] = (
    ("roi --baseline gpt-4.1 --configuration hybrid --horizon 0", 2, "horizon: 0 is not allowed; 1 to 600 months"),
    ("roi --baseline gpt-4.1 --configuration hybrid --setup-cost -1", 2, "setup cost: -1 is not allowed"),
    ("roi --baseline gpt-4.1 --configuration hybrid --growth -100%", 2, "growth: -100 % is not allowed"),
    ("roi --baseline gpt-4.1 --configuration hybrid --growth five", 2, "--growth: 'five' is not allowed; a share"),
    ("roi --baseline gpt-4.1 --configuration hybird", 2, "configuration: 'hybird' does not exist; did you mean"),
    ("roi --baseline gpt-4.1 --configuration gpt-4.1", 2, "--configuration: 'gpt-4.1' is the baseline too"),
    (
        "roi --baseline gpt-4.1 --configuration hybrid --month 2001-01",
        1,
        "month: the ledger has no rows in 2001-01",
    ),
    ("roi --baseline gpt-4.1 --configuration hybrid --output-tokens 1M", 2, "--calls: missing, and configuration"),
    ("roi --baseline gpt-4.1 --configuration gpt-4o --list relay", 1, "savings: price list 'relay' has no whole"),
    ("fleet gpt-4.1 --agents 0 --tasks-per-day 1 --output-tokens-per-task 1", 2, "--agents: 0 is not allowed"),
    ("case review spring", 2, "case: 'spring' does not exist; none is frozen yet"),
    ("budget set tenant 5 USD", 2, "budget: scope tenant needs one name, and 0 are given"),
    ("budget set al 5 USD", 2, "scope: 'al' does not exist; did you mean all"),
    ("budget set all 0 USD", 2, "amount: 0 is not allowed; more than 0 is"),
    ("budget set all 5 XYZ", 2, "currency: 'XYZ' does not exist"),
    ("budget set model gpt-44.1 5 USD", 2, "model: 'gpt-44.1'"),
    ("budget remove tenant acme", 2, "budget: 'tenant acme' is not set; those that are: none"),
    ("budget list --warn-at 0", 2, "--warn-at: 0 is not allowed"),
    ("reconcile nowhere.csv", 2, "bill: 'nowhere.csv' does not exist"),
    ("reconcile ledger.db", 1, "bill: 'ledger.db' is not UTF-8 at byte"),
    ("reconcile ledger.db --provider opnai", 2, "provider: 'opnai' does not exist; did you mean openai"),
)


def test_wrong_use_is_one_line_with_a_hint(router: Run) -> None:
    for line, code, message in WRONG:
        found, out, err = router(line)
        assert (found, out) == (code, "")
        assert err.startswith(f"error: {message}"), err
        assert [text.partition(":")[0] for text in err.splitlines()] == ["error", "hint"]


def test_a_budget_that_nothing_could_be_held_against_is_said_to_be(router: Run) -> None:
    code, _, err = router("budget set all 5 ZWL")
    assert code == 0
    assert err.startswith("warning: no exchange rate of ZWL is known; router fx set USD/ZWL=RATE gives one\n")
    assert router("budget set all 5 EUR")[2].startswith("budget all: 5 EUR a month")


def test_what_is_on_record_is_no_configuration_to_switch_to(router: Run) -> None:
    code, out, err = router("roi --baseline as-billed --configuration hybrid")
    assert (code, out) == (2, "")
    assert err.startswith("error: configuration: 'as-billed' is what the ledger has on record, and cannot be priced")
    assert "did you mean" not in err
