"""Verify finds what does not follow from the rest; prune deletes rows and changes no sum."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from pricing import Usage, load_catalog, price_call, settle
from pricing.terms import Terms
from router.errors import LedgerError, WrongUsage
from router.ledger import Ledger, new_id
from router.ledger.queries import GROUP_COLUMNS
from router.ledger.records import Amount, Answer, Import, ImportedAttempt, RunEnded, StepRow, UsageBucket

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z: day 20,727
DAY_US = 86_400_000_000
NOW_US = OCTOBER_US + 40 * DAY_US
ALL = (0, 2**62)
IMPORT = Import("00000000-0000-7000-8000-000000000001", "f", "n", "s", "m", "l", None, 0)


def _write(ledger: Ledger, sample: Any, days: int = 3) -> list[str]:
    """Write a run of one attempt and an attempt without a run each day, and return the attempts' ids."""
    at = datetime(2026, 10, 1, tzinfo=UTC)
    prices = load_catalog().price_set("gpt-4.1", "openai", at)
    assert prices is not None
    ledger.write_now(prices)
    # 10 tokens at 2 USD and 2 at 8 USD per Mtok: 0.000036 USD; with a tenth off 0.0000324.
    cost = price_call(Usage(uncached_input_tokens=10, plain_output_tokens=2), prices, at=at)
    assert cost.total == Decimal("0.000036")
    ids = []
    for day in range(days):
        run = sample.run(started_us=OCTOBER_US + day * DAY_US)
        terms = Terms(discount_share=Decimal("0.1"))
        ledger.write_now(run, StepRow(run.run_id, "s", 0, "extract"))
        for run_id, held in ((run.run_id, terms), (None, Terms())):
            started = sample.started(run_id=run_id, started_us=OCTOBER_US + day * DAY_US + 5)
            amount = Amount("USD", cost.total)
            paid = Amount(*settle(cost.total, "USD", held))
            priced = {"list_cost": amount, "settled_cost": paid, "terms": held, "price_set_id": prices.id}
            ledger.write_now(started, sample.ended(started, cost_status="exact", ttft_us=100, **priced))
            ids.append(started.attempt_id)
        ledger.write_now(
            Answer(f"run:{run.run_id}", run.run_id, {}, None, None), RunEnded(run.run_id, "succeeded", OCTOBER_US)
        )
    return ids


def test_a_sound_ledger_is_ok(ledger: Ledger, sample: Any) -> None:
    _write(ledger, sample)
    nothing, zero = sample.started(), Amount("USD", Decimal(0))
    free = {"usage": Usage(), "cost_status": "exact", "list_cost": zero, "settled_cost": zero}
    ledger.write_now(nothing, sample.ended(nothing, **free))
    lost = sample.started()
    ledger.write_now(lost, sample.ended(lost, status="timed_out", usage=None), sample.started())
    days: list[tuple[int, int]] = []
    found = ledger.verify(*ALL, lambda done, of: days.append((done, of)))
    assert (found.findings, found.found, found.pruned) == ((), 0, 0)
    assert (found.attempts, found.price_sets, found.quarter_hours) == (8, 2, 3)  # one price set, one set of terms
    assert days == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "kind", "stored", "derived"),
    [
        ("attempts SET cost_micro = 37", "cost", "0.000037000000 USD (exact)", "0.000036000000 USD (exact)"),
        ("attempts SET cost_pico = 1", "cost", "0.000036000001 USD (exact)", "0.000036000000 USD (exact)"),
        ("attempts SET cost_status = 'partial'", "cost", "0.000036000000 USD (partial)", "0.000036000000 USD (exact)"),
        ("attempts SET uncached_input_tokens = 11", "cost", "0.000036000000 USD (exact)", "0.000038000000 USD (exact)"),
        ("attempts SET settled_micro = 31", "settled", "0.000031000000 USD", "0.000036000000 USD"),
    ],
)
def test_a_changed_cost_is_found(
    ledger: Ledger, sample: Any, change: str, kind: str, stored: str, derived: str
) -> None:
    ids = _write(ledger, sample)
    with ledger._engine.begin() as connection:  # noqa: SLF001 - by hand, as verify must find it
        # The attempt without terms, so that one settled at its list price is what is looked at.
        changed = sa.text(f"UPDATE {change}, settled_pico = 0 WHERE attempt_id = :id")
        connection.execute(changed.bindparams(sa.bindparam("id", ids[1], type_=sa.Uuid(as_uuid=False))))
    costs = [each for each in ledger.verify(*ALL).findings if each.kind != "sums"]
    assert [(each.kind, each.where, each.derived) for each in costs] == [(kind, ids[1], derived)]
    assert costs[0].stored == stored


def test_terms_are_applied_again(ledger: Ledger, sample: Any) -> None:
    ids = _write(ledger, sample)
    with ledger._engine.begin() as connection:  # noqa: SLF001 - as above
        connection.execute(sa.text("DELETE FROM attempt_terms"))
    found = {each.where: each for each in ledger.verify(*ALL).findings if each.kind == "settled"}
    assert set(found) == set(ids[::2])
    assert found[ids[0]].stored == "0.000032400000 USD"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE attempts_rollup SET attempts = attempts + 1 WHERE width = 1", "3 (attempts of raw rows"),
        ("UPDATE attempts_rollup SET cost_pico = 1 WHERE width = 12", "1 (cost_pico of rows of 12 quarter hours"),
        ("UPDATE attempts_rollup SET latencies = NULL WHERE width = 1", "0 (latency in bucket 25"),
        ("DELETE FROM attempts_rollup WHERE width = 96", "0 (records of rows of 96 quarter hours"),
        ("UPDATE runs_rollup SET runs = 7", "7 (runs of runs"),
        ("UPDATE dearest_runs SET settled_micro = 7", "run "),
        ("UPDATE attempts SET tenant = 'x'", "records of raw rows"),
        ("DELETE FROM attempt_terms", "records of raw rows"),
    ],
)
def test_a_sum_that_does_not_follow_is_found_and_rebuilt(ledger: Ledger, sample: Any, change: str, what: str) -> None:
    _write(ledger, sample)
    assert ledger.refresh() == 3
    with ledger._engine.begin() as connection:  # noqa: SLF001 - as above
        connection.execute(sa.text(change.replace("attempts = attempts + 1", "attempts = 3")))
    found = [each for each in ledger.verify(*ALL).findings if each.kind == "sums"]
    assert any(what in each.stored for each in found), found
    assert {each.where for each in found} == {f"2026-10-0{day}T00:00Z" for day in (1, 2, 3)}
    assert ledger.rebuild() == 3
    assert [each for each in ledger.verify(*ALL).findings if each.kind == "sums"] == []


def test_an_altered_price_set_is_found(ledger: Ledger, sample: Any) -> None:
    _write(ledger, sample)
    with ledger._engine.begin() as connection:  # noqa: SLF001 - as above
        text = connection.execute(sa.text("SELECT document FROM price_sets")).scalar_one()
        changed = text.replace('"8"', '"7"', 1)
        assert changed != text
        connection.execute(sa.text("UPDATE price_sets SET document = :text"), {"text": changed})
    found = ledger.verify(*ALL)
    assert found.findings[0].kind == "price set"
    assert "a stored set never changes" in found.findings[0].stored
    assert {each.kind for each in found.findings[1:]} == {"cost"}  # nothing can be priced with it


# ---- prune


def _everything(ledger: Ledger) -> tuple[Any, ...]:
    """Return all that reports read."""
    reader = ledger.reader
    by = [name for name in GROUP_COLUMNS if name != "quarter_hour"]
    return (
        sorted((repr(group.key), tuple(group.sums.items())) for group in reader.usage_groups(*ALL, GROUP_COLUMNS)),
        sorted((repr(group.key), tuple(group.sums.items())) for group in reader.usage_groups(*ALL, by)),
        sorted((repr(group.key), sorted(group.counts.items())) for group in reader.latency_histogram(*ALL, ("day",))),
        sorted(repr(group) for group in reader.latency_histogram(*ALL, ("day",), measure="ttft")),
        sorted((repr(group.key), group.runs) for group in reader.run_groups(*ALL, ("day", "status"))),
        reader.dearest_runs(*ALL),
        reader.months_present(),
    )


def test_pruning_changes_no_sum(ledger: Ledger, sample: Any) -> None:
    ids = _write(ledger, sample, days=5)
    ledger.write_now(
        IMPORT,
        UsageBucket(new_id(), IMPORT.import_id, OCTOBER_US, OCTOBER_US + DAY_US, "e", "l", "m", "unknown", requests=9),
    )
    going = sample.run(started_us=OCTOBER_US)  # has not ended: it stays, with all its attempts
    kept = sample.started(run_id=going.run_id, started_us=OCTOBER_US + 7)
    crossing = sample.run(started_us=OCTOBER_US + 1)  # ended before the day, with an attempt of the day after its start
    parts = [sample.started(run_id=crossing.run_id, started_us=OCTOBER_US + at) for at in (8, DAY_US + 8)]
    paid = {"settled_cost": Amount("USD", Decimal(3)), "list_cost": Amount("USD", Decimal(3)), "cost_status": "exact"}
    ledger.write_now(going, kept, crossing, *parts, *(sample.ended(each, **paid) for each in (kept, *parts)))
    ledger.write_now(RunEnded(crossing.run_id, "succeeded", OCTOBER_US + 2 * DAY_US))
    before = _everything(ledger)
    done = ledger.prune_rows(OCTOBER_US + 3 * DAY_US, NOW_US)
    assert (done.attempts, done.runs, done.runs_kept, done.before_day) == (8, 4, 1, 20_730)
    assert _everything(ledger) == before
    assert [ledger.reader.attempt(each) is None for each in ids] == [True] * 6 + [False] * 4
    assert ledger.reader.attempt(kept.attempt_id) is not None
    assert ledger.verify(*ALL).pruned > 0
    assert [each for each in ledger.verify(*ALL).findings if each.kind == "sums"] == []
    assert ledger.rebuild() == 3 + 2
    assert _everything(ledger) == before
    assert ledger.prune_rows(OCTOBER_US + 3 * DAY_US, NOW_US).attempts == 0
    assert ledger.prune_rows(OCTOBER_US + 4 * DAY_US, NOW_US).attempts == 2
    assert _everything(ledger) == before
    ledger.write_now(RunEnded(going.run_id, "failed", OCTOBER_US + 9 * DAY_US))
    assert dict(ledger.reader.run_counts(*ALL)) == {"succeeded": 6, "failed": 1}
    after = _everything(ledger)
    assert ledger.prune_rows(OCTOBER_US + 20 * DAY_US, NOW_US).runs == 2
    assert _everything(ledger) == after
    assert ledger.reader.runs(*ALL) == ()


def test_nothing_of_today_or_yesterday_is_pruned(ledger: Ledger) -> None:
    with pytest.raises(WrongUsage, match="rows of today and yesterday"):
        ledger.prune_rows(NOW_US, NOW_US)
    assert ledger.prune_rows(NOW_US - DAY_US, NOW_US).attempts == 0


def test_an_import_into_pruned_days_is_refused_since_it_could_count_twice(ledger: Ledger, sample: Any) -> None:
    started = sample.started()
    ledger.write_now(IMPORT, ImportedAttempt(IMPORT.import_id, started, sample.ended(started)))
    ledger.prune_rows(OCTOBER_US + DAY_US, NOW_US)
    with pytest.raises(LedgerError, match="a row is of 2026-10-01, and rows before 2026-10-02 were pruned"):
        ledger.write_now(ImportedAttempt(IMPORT.import_id, started, sample.ended(started)))
    late = sample.started(started_us=OCTOBER_US + DAY_US)
    ledger.write_now(ImportedAttempt(IMPORT.import_id, late, sample.ended(late)))
    assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 2


# ---- the command


@pytest.fixture
def router(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    from router.cli import main

    url = ledger._engine.url.render_as_string(hide_password=False)  # noqa: SLF001 - of the test's own database
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)

    def run(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_command_verifies_rebuilds_and_prunes(ledger: Ledger, sample: Any, router: Callable[..., Any]) -> None:
    ids = _write(ledger, sample)
    code, out, _ = router("ledger", "verify", "--month", "2026-10")
    assert (code, out.splitlines()[-1]) == (0, "ok")
    assert "attempts checked: 6" in out
    with ledger._engine.begin() as connection:  # noqa: SLF001 - by hand
        connection.execute(sa.text("UPDATE attempts SET cost_micro = 1 WHERE day = 20727"))
    code, out, _ = router("ledger", "verify", "--format", "json")
    told = json.loads(out)
    assert (code, told["ok"], told["attempts"]) == (1, False, 6)
    assert {each["where"] for each in told["findings"] if each["kind"] == "cost"} == set(ids[:2])
    code, out, _ = router("ledger", "verify")
    assert (code, out.splitlines()[-1]) == (1, f"differences: {told['found']}")
    assert router("ledger", "rebuild")[:2] == (0, "quarter hours added up again: 3\n")
    code, out, err = router("ledger", "prune", "--before", "2026-10-02")
    assert (code, out) == (0, "attempts before 2026-10-02: 2; nothing was deleted\n")
    assert "--yes" in err
    code, out, _ = router("ledger", "prune", "--before", "2026-10-02", "--yes")
    assert (code, out.splitlines()[:2]) == (0, ["attempts deleted: 2", "runs deleted: 1"])
    assert router("ledger", "verify")[0] == 0
    code, _, err = router("ledger", "prune", "--before", "2999-01-01", "--yes")
    assert (code, "an earlier day is allowed" in err) == (2, True)
