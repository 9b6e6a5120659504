"""`router fx` and `router prices explain` as a user types them, on a ledger of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pricing import Terms, Usage, load_catalog
from router.ledger import new_id, open_ledger
from router.ledger.records import AttemptStarted, RunStarted
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Stand in an empty folder with an empty ledger; return its URL."""
    monkeypatch.chdir(tmp_path)
    found = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", found)
    return found


@pytest.fixture
def router(url: str, command_line: Call) -> Call:
    """Return a function that runs the command line: exit code, stdout, stderr."""
    assert url

    return command_line


def rates(text: str) -> dict[str, Any]:
    return {row["pair"]: row for row in json.loads(text)["tables"]["rates"]["rows"]}


def test_a_rate_that_is_set_holds_from_its_day_and_is_corrected_by_the_next(router: Call) -> None:
    code, out, err = router("fx", "set", "CNY/USD=0.41", "--on", "2026-10-01", "--source", "contract")
    assert (code, out, err) == (0, "", "on record: operator:CNY/USD:2026-10-01:0.41\n")
    assert (
        "it corrects operator:CNY/USD:2026-10-01:0.41" in router("fx", "set", "cny/usd=0.14", "--on", "2026-10-01")[2]
    )
    assert "on record already" in router("fx", "set", "CNY/USD=0.14", "--on", "2026-10-01")[2]
    found = rates(router("fx", "list", "CNY/USD", "USD/CNY", "--on", "2026-10-02", "--format", "json")[1])
    assert found["CNY/USD"]["rate"] == "0.14"
    assert found["CNY/USD"]["fx_rate_id"] == "operator:CNY/USD:2026-10-01:0.14:2"
    assert found["USD/CNY"]["fx_rate_id"] == "operator:CNY/USD:2026-10-01:0.14:2^-1"
    before = rates(router("fx", "list", "CNY/USD", "--on", "2026-09-30", "--format", "json")[1])
    assert before["CNY/USD"]["source"].startswith("ECB")


def test_the_report_uses_the_operators_rate_and_names_it(router: Call, url: str) -> None:
    relay = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # 2.80 at list, 2.80 CNY
    with open_ledger(url) as ledger:
        write(ledger, load_catalog(), Scene(at=datetime(2026, 10, 14, tzinfo=UTC), usage=usage, terms=relay))
    router("fx", "set", "CNY/USD=0.125", "--on", "2026-10-01", "--source", "contract")
    page = json.loads(router("report", "--month", "2026-10", "--format", "json")[1])
    assert page["tables"]["lines"]["total"]["settled_cost"] == "0.35"
    assert [row["fx_rate_id"] for row in page["tables"]["exchange_rates"]["rows"]] == [
        "operator:CNY/USD:2026-10-01:0.125"
    ]


def test_import_reads_the_banks_rates_once(router: Call) -> None:
    import_module("currency_converter")
    code, out, err = router("fx", "import", "--since", "2026-10-29")
    assert (code, out) == (0, "")
    assert err == "read: 58 rates of 29 currencies up to 2026-10-30; new: 58\n"  # 29 currencies on each of two days
    assert router("fx", "import", "--since", "2026-10-29")[2].endswith("new: 0\n")
    found = rates(router("fx", "list", "EUR/CHF", "--on", "2026-10-30", "--format", "json")[1])
    assert found["EUR/CHF"]["rate"] == "0.9194"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "CNY/USD"), "rate: 'CNY/USD' is not allowed; PAIR=RATE is"),
        (("set", "CNY/USD=0"), "rate: 'CNY/USD=0' is not allowed"),
        (("set", "CNY/USD=nan"), "rate: 'CNY/USD=nan' is not allowed"),
        (("set", "RMB/USD=1"), "fx pair: 'RMB/USD' is not allowed"),
        (("set", "CNY/USD=1", "--on", "October"), "--on: 'October' is not allowed; a date YYYY-MM-DD is"),
        (("set", "CNY/USD=1", "--source", " "), "--source: ' ' is not allowed"),
        (("import", "--source", "fed"), "source: 'fed' does not exist"),
        (("import", "--since", "1999"), "--since: '1999' is not allowed"),
        (("list", "USD/VND"), "fx USD/VND: no rate on or before"),
        (("list", "USD"), "fx pair: 'USD' is not allowed"),
    ],
)
def test_what_is_not_allowed_is_one_line_and_a_hint(router: Call, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = router("fx", *arguments)
    assert code in (1, 2)
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith(f"error: {said}")
    assert second.startswith("hint: ")


def test_explain_names_the_attempts_of_a_run_and_refuses_what_is_no_id(router: Call, url: str) -> None:
    code, _, err = router("prices", "explain", "x")
    assert (code, err.splitlines()[0]) == (2, "error: attempt: 'x' is not allowed; a UUID of 36 characters is")
    nobody = "01981f2e-7c3b-7d51-9b1c-3f0a5d2e8c44"
    code, _, err = router("prices", "explain", nobody)
    assert (code, err.splitlines()[0]) == (1, f"error: attempt: {nobody} is not in the ledger")
    run = RunStarted(new_id(), "hybrid", "1", 0)
    started = AttemptStarted(new_id(), "call", 1, "hybrid", "here", "openai", "gpt-4.1", 0, run_id=run.run_id)
    with open_ledger(url) as ledger:
        ledger.write_now(run, started)
    code, _, err = router("prices", "explain", run.run_id)
    assert code == 1
    assert err.splitlines()[1] == f"hint: {started.attempt_id} (gpt-4.1)"
    code, out, _ = router("prices", "explain", started.attempt_id, "--format", "json")
    assert code == 0
    assert json.loads(out)["parameters"]["attempt_id"] == started.attempt_id
