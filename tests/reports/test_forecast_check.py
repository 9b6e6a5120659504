"""`router forecast check`: predicted against actual, by hand, as a page, and as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pricing import Catalog, FxTable, Usage
from reports.forecast_check import Errors, errors
from reports.forecast_page import forecast_page
from reports.period import Period, time_zone
from reports.render import render
from router.bill import bill
from router.cli import main
from router.errors import RouterError
from router.ledger import Ledger, new_id
from router.ledger.records import AttemptEnded, AttemptStarted, RunEnded, RunStarted
from router.policy import Market, Offer

HOUR_US = 3_600_000_000
START_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
PERIOD = Period("2026-10", time_zone("UTC"), START_US, START_US + 31 * 24 * HOUR_US)


def write(ledger: Ledger, market: Market, number: int, output_tokens: int, seconds: int) -> None:
    """Write a run of one call: 100 tokens of input expected and 120 used; 10, 50, 90 of output expected."""
    run_id, attempt_id, at_us = new_id(), new_id(), START_US + number * HOUR_US
    usage = Usage(uncached_input_tokens=120, plain_output_tokens=output_tokens)
    charged = bill(market, Offer("gpt-4.1", "box", "gpt-4.1", "openai"), served_name=None, usage=usage)
    assert charged.prices is not None
    expected = [(100 * 2 + tokens * Decimal(8)) / 10**6 for tokens in (10, 50, 90)]
    run = RunStarted(
        run_id,
        "pair",
        "fixed/1",
        at_us,
        expected_low_usd=expected[0],
        expected_usd=expected[1],
        expected_high_usd=expected[2],
        experience_us=1,
    )
    started = AttemptStarted(
        attempt_id,
        attempt_id,
        1,
        "pair",
        "box",
        "openai",
        "gpt-4.1",
        at_us,
        run_id=run_id,
        role="single",
        task_class="write",
        script="latin",
        estimated_input_tokens=100,
        expected_input_tokens=100,
        expected_output_low_tokens=10,
        expected_output_tokens=50,
        expected_output_high_tokens=90,
    )
    ended = AttemptEnded(
        attempt_id,
        "succeeded",
        charged.status,
        seconds * 1_000_000,
        usage=usage,
        list_cost=charged.list_cost,
        settled_cost=charged.settled_cost,
        price_set_id=charged.prices.id,
    )
    ledger.write_now(run, started, charged.prices, ended, RunEnded(run_id, "succeeded", at_us + seconds * 1_000_000))


@pytest.fixture
def used(ledger: Ledger, catalog: Catalog, fx: FxTable) -> Ledger:
    """Return a ledger of ten calls: five of 40 tokens in 2 s each, then four of 40 and one of 100 in 4 s each."""
    market = Market(catalog, {}, fx, datetime(2026, 10, 1, tzinfo=UTC))
    for number in range(10):
        write(ledger, market, number, 100 if number == 9 else 40, 2 if number < 5 else 4)
    return ledger


def test_errors_by_hand() -> None:
    """Of 100 for 120 and 100 for 80: no bias, and a mean of 1/6 and 1/4."""
    assert errors([(100, 120), (100, 80), (None, 5), (5, None), (5, 0)]) == Errors(
        Fraction(0), Fraction(round((1 / 6 + 1 / 4) / 2 * 10**6), 10**6)
    )
    assert errors([]) == Errors(None, None)


def test_the_later_half_is_held_against_both(used: Ledger) -> None:
    page = forecast_page(used, PERIOD)
    calls, runs = page.tables
    row = dict(zip([column.key for column in calls.columns], calls.rows[0], strict=True))
    assert (row["kind"], row["calls"]) == ("gpt-4.1, write", 5)
    assert row["made_input_bias"] == Fraction(round((100 / 120 - 1) * 10**6), 10**6)
    # Five calls of the earlier half were 1.2 times their estimate, and 1 counts for five more: 1.1.
    assert row["learnt_input_bias"] == Fraction(round((110 / 120 - 1) * 10**6), 10**6)
    assert row["made_output_bias"] == Fraction(round((5 * 50 / (4 * 40 + 100) - 1) * 10**6), 10**6)
    assert row["made_held_share"] == Fraction(4, 5)
    # As made, 100 in and 50 out: 600. Four calls were 120 in and 40 out: 560; one 120 and 100: 1,040.
    assert row["made_cost_bias"] == Fraction(round((5 * 600 / (4 * 560 + 1040) - 1) * 10**6), 10**6)
    assert row["learnt_latency_bias"] == Fraction(-1, 2)  # 2 s, and 4 s came
    # Of runs, 280 to 920 were expected: 1,040 is out. Five runs before, all at 560 for 600: each end is moved by a
    # fifth: up, (560 − 600) / 320 is below 0, so 4/5; down, 40 / 320 is 1/8, so 1 − 1/5 · 7/8.
    [run] = runs.rows
    assert (run[0], run[1], run[4], run[5]) == ("one call", 5, Fraction(4, 5), Fraction(4, 5))
    assert "are moved to 0.82 and 0.80 times" in str(page.notes[-1].text)


def test_a_page_of_it(used: Ledger, golden: Callable[[Path, str], None], golden_folder: Path) -> None:
    golden(golden_folder / "forecast-check.txt", render(forecast_page(used, PERIOD), "text", width=80, color=False))


def test_an_empty_ledger_is_one_line(ledger: Ledger) -> None:
    with pytest.raises(RouterError, match="no forecasts of answered calls in 2026-10 to be checked") as found:
        forecast_page(ledger, PERIOD)
    assert found.value.hint


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], used: Ledger) -> None:
    monkeypatch.setenv("ROUTER_DATABASE_URL", f"sqlite:///{used.name}")
    with pytest.raises(SystemExit) as ended:
        main(("forecast", "check", "--month", "2026-10", "--format", "json"))
    assert ended.value.code in (0, None)
    assert json.loads(capsys.readouterr().out)["report"] == "forecast_check"
    with pytest.raises(SystemExit) as ended:
        main(("forecast", "check", "--month", "2026-09"))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: forecast check: the ledger has no forecasts")
