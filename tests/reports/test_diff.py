"""Past and new, line by line, by hand; the command as a user types it, with the exit codes that CI stands on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Terms, Usage
from reports import Exchange, Money
from reports.diff import Line, Side, change_of, diff_page
from router.cli import main
from router.ledger import open_ledger
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

SEPTEMBER = datetime(2026, 9, 5, 12, tzinfo=UTC)
OCTOBER = datetime(2026, 10, 5, 12, tzinfo=UTC)
M = 1_000_000
Router = Callable[..., tuple[int, str, str]]


@pytest.fixture
def router(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Router:
    """Make a ledger of two months, set it, and return what runs a command on it: code, stdout, stderr."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    tokens, half = Usage(uncached_input_tokens=M, plain_output_tokens=M), Terms(discount_share=Decimal("0.5"))
    with open_ledger(url) as ledger:
        write(
            ledger,
            catalog,
            Scene(at=SEPTEMBER, usage=tokens, role="worker", task_class="code", tenant="acme"),  # 2 + 8
            Scene(at=SEPTEMBER, usage=tokens, model="gpt-4.1-mini", tenant="acme"),  # 0.40 + 1.60
            Scene(at=OCTOBER, usage=tokens, role="worker", task_class="code", tenant="beta"),  # 10
            Scene(at=OCTOBER + timedelta(days=1), usage=tokens, role="worker", terms=half, task_class="code"),  # 5
            Scene(at=OCTOBER, usage=tokens, model="gemini-2.5-flash"),  # 0.30 + 2.50
        )

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["diff", *arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def lines(out: str) -> dict[str | None, tuple[str | None, str | None, str | None]]:
    table = json.loads(out)["tables"]["diff"]
    label = table["columns"][0]["key"]
    return {row[label]: (row["past"], row["new"], row["change"]) for row in (*table["rows"], table["total"])}


def test_two_months_by_model(router: Router) -> None:
    code, out, _ = router("2026-09", "2026-10", "--format", "json")
    assert code == 0
    found = lines(out)
    assert found == {
        "gpt-4.1": ("10", "15", "5"),
        "gemini-2.5-flash": ("0", "2.8", "2.8"),
        "gpt-4.1-mini": ("2", "0", "-2"),
        "total": ("12", "17.8", "5.8"),
    }
    assert list(found) == ["gpt-4.1", "gemini-2.5-flash", "gpt-4.1-mini", "total"]  # the greatest change first


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("role", {"worker": ("10", "15", "5"), "single": ("2", "2.8", "0.8")}),
        ("class", {"code": ("10", "15", "5"), None: ("2", "2.8", "0.8")}),
        ("tenant", {"acme": ("12", "0", "-12"), "beta": ("0", "10", "10"), None: ("0", "7.8", "7.8")}),
        # input 2 + 0.40; new 2 + half of 2 + 0.30, and output alike
        ("component", {"input": ("2.4", "3.3", "0.9"), "output": ("9.6", "14.5", "4.9")}),
    ],
)
def test_two_months_by_anything(by: str, expected: dict[str | None, tuple[str, str, str]], router: Router) -> None:
    _, out, _ = router("2026-09", "2026-10", "--by", by, "--format", "json")
    assert lines(out) == {**expected, "total": ("12", "17.8", "5.8")}


def test_two_configurations_over_one_month(router: Router) -> None:
    code, out, _ = router("all-gpt-4.1", "hybrid-flash", "--month", "2026-10", "--by", "role", "--format", "json")
    assert code == 0
    # single: 10, and kimi-k2 0.60 + 2.50; two workers: 20, and gemini-2.5-flash 2 × 2.80
    assert lines(out) == {
        "worker": ("20", "5.6", "-14.4"),
        "single": ("10", "3.1", "-6.9"),
        "total": ("30", "8.7", "-21.3"),
    }


def test_a_configuration_against_what_is_on_record(router: Router) -> None:
    _, out, _ = router("as-billed", "gpt-4.1", "--month", "2026-10", "--format", "json")
    assert lines(out)["total"] == ("17.8", "30", "12.2")


@pytest.mark.parametrize(
    ("limit", "code"),
    [("5.8", 0), ("5.79", 3), ("100", 0), ("0", 3), ("48.4%", 0), ("48.3%", 3), ("50 %", 0), ("1,000", 0)],
)
def test_a_limit_is_crossed_only_above_it(limit: str, code: int, router: Router) -> None:
    found, out, err = router("2026-09", "2026-10", "--fail-above", limit)  # 5.80 more than 12: 48.33 %
    assert found == code
    assert "17.80" in out  # the page is written in any case
    if code:
        assert f"error: the new total is 5.80 USD (+48.3 %) above the past one, more than --fail-above {limit}" in err


def test_what_falls_or_stays_crosses_no_limit(router: Router) -> None:
    assert router("2026-10", "2026-09", "--fail-above", "0")[0] == 0
    assert router("2026-10", "2026-10", "--fail-above", "0%")[0] == 0
    assert router("hybrid", "hybrid", "--month", "2026-10", "--fail-above", "0")[0] == 0


def test_a_share_of_nothing_is_crossed_by_anything(router: Router) -> None:
    arguments = ("2026-09", "2026-10", "--by", "model")
    assert router(*arguments, "--fail-above", "0%")[0] == 3


def test_for_a_comment_on_a_pull_request(router: Router) -> None:
    code, out, _ = router("2026-09", "2026-10", "--fail-above", "1", "--format", "markdown")
    assert code == 3
    assert "| Model | 2026-09, USD | 2026-10, USD | Change, USD | Change | Calls, 2026-09 | Calls, 2026-10 |" in out
    assert "| **total** | **12.00** | **17.80** | **5.80** | **+48.3 %** | **2** | **3** |" in out


def test_what_has_no_price_cannot_be_held_against_a_limit(router: Router) -> None:
    arguments = ("gpt-4.1", "gemini-2.5-flash", "--month", "2026-10", "--list", "relay")
    code, out, err = router(*arguments, "--fail-above", "1")
    assert code == 1
    assert "error: --fail-above: the change is not known, since something has no price" in err
    assert "gpt-4.1: input of gpt-4.1 has no price" in " ".join(out.split())
    assert router(*arguments)[0] == 0


def test_attempts_without_usage_are_said(tmp_path: Path, catalog: Catalog, router: Router) -> None:
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as ledger:
        write(ledger, catalog, Scene(at=OCTOBER, status="timed_out", possibly_billed=True))
    code, out, _ = router("2026-09", "2026-10", "--fail-above", "5.8")
    assert code == 0
    assert "2026-10: without a known usage, so that past, new and change are of the rest; attempts: 1" in " ".join(
        out.split()
    )


@pytest.mark.parametrize(
    ("arguments", "message", "hint", "code"),
    [
        ("2026-09 hybrid", "'2026-09' and 'hybrid' are not of one kind", "router diff as-billed NAME --month", 2),
        ("hybrid hybird --month 2026-10", "configuration: 'hybird' does not exist; did you mean hybrid", "all-gpt", 2),
        ("2026-09 2026-13", "month: '2026-13' is not allowed", "2026-10", 2),
        ("2026-09 2026-10 --by modle", "group: 'modle' does not exist; did you mean model", "tenant", 2),
        ("hybrid hybrid-flash --by tenant", "group: 'tenant' does not exist", "groups that exist: class", 2),
        ("2026-09 2026-10 --fail-above lots", "--fail-above: 'lots' is not allowed; an amount", "3000", 2),
        ("2026-09 2026-10 --fail-above=-1", "--fail-above: '-1' is not allowed; 0 or more is", "5%", 2),
        ("2026-09 2026-10 --list relay", "--list: not allowed between months", "leave it out", 2),
        ("2026-09 2026-10 --month 2026-10", "--month: not allowed between months", "leave it out", 2),
        ("2026-08 2026-10", "month: the ledger has no rows in 2026-08 (UTC); it has rows in 2026-09, 2026-10", "", 1),
        ("2026-09 2026-10 --currency XXZ", "currency: 'XXZ' does not exist", "ISO 4217", 2),
    ],
)
def test_wrong_use_is_one_line_with_a_hint(arguments: str, message: str, hint: str, code: int, router: Router) -> None:
    found, out, err = router(*arguments.split())
    first, second = err.splitlines()
    assert (found, out) == (code, "")
    assert first.startswith(f"error: {message}")
    assert second.startswith("hint: ")
    assert hint in second


AMOUNTS = st.dictionaries(
    st.none() | st.text("abc", min_size=1, max_size=2),
    st.fractions(0, 1000, max_denominator=1000).map(Line),
    max_size=5,
)


@given(AMOUNTS, AMOUNTS)
def test_law_the_lines_add_up_to_the_change(past: dict[str | None, Line], new: dict[str | None, Line]) -> None:
    def side(name: str, found: dict[str | None, Line]) -> Side:
        return Side(
            name, found, Money(sum((line.amount or Fraction(0) for line in found.values()), Fraction(0)), "USD"), None
        )

    one, other = side("one", past), side("other", new)
    exchange = Exchange(FxTable(()), "USD")
    page = diff_page(one, other, title="", by="model", parameters=(), footer=(), exchange=exchange)
    table = page.table("diff")
    cells = [cell for cell in table.column("change") if isinstance(cell, Money)]
    total = table.total_of("change")
    assert isinstance(total, Money)
    assert sum((cell.value for cell in cells), Fraction(0)) == total.value == change_of(one, other)


def test_the_footer_counts_what_has_no_price_on_either_side(tmp_path: Path, catalog: Catalog, router: Router) -> None:
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as ledger:
        tokens = Usage(uncached_input_tokens=M)
        write(ledger, catalog, *(Scene(at=OCTOBER, usage=tokens, served="a-model-of-no-list") for _ in range(3)))
    _, out, _ = router("2026-09", "2026-10")
    assert "rows unpriced, past and new: 0 and 3" in out
