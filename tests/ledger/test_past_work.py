"""What forecasts learn from: which rows are read, how many at most, and that an instant's sample stays what it is."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from pricing import Usage
from router.experience import EndedAttempt, EndedRun
from router.ledger import Ledger, new_id, past_work
from router.ledger.past_work import past_attempts, past_runs
from router.ledger.records import Amount, AttemptStarted, RunEnded, RunStatus
from router.ledger.rows import DAY_US
from tests.ledger.conftest import OCTOBER_US, Sample

SECOND_US = 1_000_000


@pytest.fixture
def connection(ledger: Ledger) -> Iterator[sa.Connection]:
    """Return a connection to the ledger's database."""
    with ledger.reader._engine.connect() as opened:  # noqa: SLF001 - what is read is not public, its bounds are promised
        yield opened


def write(ledger: Ledger, sample: Sample, at_us: int, **ended: object) -> AttemptStarted:
    started = sample.started(
        started_us=at_us, task_class="write", script="latin", estimated_input_tokens=9, expected_input_tokens=11
    )
    ledger.write_now(started, sample.ended(started, **ended))
    return started


def test_an_attempt_is_read_as_it_is_learnt_from(ledger: Ledger, sample: Sample, connection: sa.Connection) -> None:
    usage = Usage(uncached_input_tokens=6, cache_read_tokens=4, plain_output_tokens=2, reasoning_tokens=3)
    write(ledger, sample, OCTOBER_US, usage=usage, latency_us=7, ttft_us=5)
    write(ledger, sample, OCTOBER_US + 1, status="failed", usage=Usage())
    write(ledger, sample, OCTOBER_US + 2, status="stopped")
    write(ledger, sample, OCTOBER_US + 3, usage=usage, usage_estimated=True, latency_us=7)
    ledger.write_now(sample.started(started_us=OCTOBER_US + 4))
    estimated, failed, whole = past_attempts(connection, OCTOBER_US + 60 * SECOND_US, 1)
    assert whole == EndedAttempt("gpt-4.1", "write", False, "latin", 9, 10, 5, 3, 7, 5)
    assert failed.has_failed
    assert (estimated.input_tokens, estimated.output_tokens, estimated.latency_us) == (None, None, 7)


def test_counts_that_no_model_reaches_are_not_learnt_from(
    ledger: Ledger, sample: Sample, connection: sa.Connection
) -> None:
    for at, tokens in enumerate((past_work.MOST_TOKENS - 1, past_work.MOST_TOKENS, 10**15)):
        usage = Usage(uncached_input_tokens=1, plain_output_tokens=tokens)
        write(ledger, sample, OCTOBER_US + at, usage=usage, latency_us=7)
    damaged, beyond, most = past_attempts(connection, OCTOBER_US + 60 * SECOND_US, 1)
    assert (most.input_tokens, most.output_tokens) == (1, past_work.MOST_TOKENS - 1)
    assert {(each.input_tokens, each.output_tokens) for each in (beyond, damaged)} == {(None, None)}


def test_only_what_had_ended_ten_seconds_before_is_read(
    ledger: Ledger, sample: Sample, connection: sa.Connection
) -> None:
    as_of_us = OCTOBER_US + 60 * SECOND_US
    write(ledger, sample, OCTOBER_US, latency_us=50 * SECOND_US - 1)
    write(ledger, sample, OCTOBER_US, latency_us=50 * SECOND_US)
    write(ledger, sample, OCTOBER_US, latency_us=49 * SECOND_US, state_us=SECOND_US)
    write(ledger, sample, as_of_us, latency_us=1)
    [found] = past_attempts(connection, as_of_us, 1)
    assert found.latency_us == 50 * SECOND_US - 1


def test_later_rows_do_not_change_what_an_instant_knew(ledger: Ledger, sample: Sample) -> None:
    write(ledger, sample, OCTOBER_US)
    as_of_us = OCTOBER_US + 600 * SECOND_US
    before = ledger.run_reader.experience(as_of_us, 30)
    write(ledger, sample, as_of_us - SECOND_US)
    write(ledger, sample, as_of_us + SECOND_US)
    assert ledger.run_reader.experience(as_of_us, 30) == before
    assert before.attempts == 1


def test_however_many_there_are_a_bounded_number_is_read(
    ledger: Ledger, sample: Sample, connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the newest, and two of each of the last three days: days 9 and 8 and 7, of ten."""
    monkeypatch.setattr(past_work, "NEWEST", 3)
    monkeypatch.setattr(past_work, "OF_ALL_DAYS", 6)
    for day in range(10):
        for number in range(6):
            write(ledger, sample, OCTOBER_US + day * DAY_US + number * SECOND_US, latency_us=10 * day + number)
    found = [each.latency_us for each in past_attempts(connection, OCTOBER_US + 10 * DAY_US, 3)]
    assert found == [95, 94, 93, 92, 91, 85, 84, 75, 74]
    monkeypatch.setattr(past_work, "OF_A_KIND", 4)
    assert [each.latency_us for each in past_attempts(connection, OCTOBER_US + 10 * DAY_US, 3)] == found[:4]


def test_attempts_are_found_by_the_index_on_their_start(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        query = "SELECT * FROM attempts WHERE started_us >= 1 AND started_us < 2 ORDER BY started_us DESC, attempt_id"
        plan = " ".join(map(str, connection.exec_driver_sql("EXPLAIN QUERY PLAN " + query + " LIMIT 5")))
        assert "USING INDEX ix_attempts_started_us" in plan


def test_runs_with_a_forecast_a_record_and_a_known_cost_are_read(
    ledger: Ledger, sample: Sample, connection: sa.Connection
) -> None:
    amounts = {"expected_low_usd": Decimal("0.1"), "expected_usd": Decimal("0.2"), "expected_high_usd": Decimal("0.4")}
    kinds: tuple[tuple[dict[str, Any], int, str, RunStatus], ...] = (
        ({"experience_us": 1}, 1, "USD", "succeeded"),
        ({"experience_us": 1}, 2, "USD", "succeeded"),
        ({"experience_us": 1}, 1, "CNY", "succeeded"),
        ({"experience_us": 1}, 1, "USD", "failed"),
        ({}, 1, "USD", "succeeded"),
    )
    for more, calls, currency, status in kinds:
        run = sample.run(**amounts, **more)
        ledger.write_now(run)
        for _ in range(calls):
            started = sample.started(run_id=run.run_id)
            cost = Amount(currency, Decimal("0.3"))
            end = sample.ended(started, settled_cost=cost, list_cost=cost, cost_status="exact")
            ledger.write_now(started, end)
        ledger.write_now(RunEnded(run.run_id, status, OCTOBER_US + 1))
    ledger.write_now(sample.run(run_id=new_id(), **amounts, experience_us=1))  # it has not ended
    found = past_runs(connection, OCTOBER_US + 60 * SECOND_US, 1)
    nano = (100_000_000, 200_000_000, 400_000_000)
    assert sorted(found) == [
        EndedRun(False, *nano, 300_000_000),
        EndedRun(True, *nano, 600_000_000),
    ]


def test_what_was_expected_is_read_back(ledger: Ledger, sample: Sample) -> None:
    run = sample.run(
        expected_low_usd=Decimal("0.000000001"),
        expected_usd=Decimal("0.000000002"),
        expected_high_usd=Decimal("1.5"),
        experience_us=5,
    )
    started = sample.started(
        run_id=run.run_id,
        script="code",
        estimated_input_tokens=1,
        expected_input_tokens=2,
        expected_output_low_tokens=3,
        expected_output_tokens=4,
        expected_output_high_tokens=5,
    )
    ledger.write_now(run, started)
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert found.started == run
    assert ledger.reader.attempts(run.run_id)[0].started == started
