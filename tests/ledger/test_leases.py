"""Run keys: one run a key, one owner a run, and a finished run's answer without a call."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from router.errors import LedgerError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.leases import final_answer_key
from router.ledger.records import Amount, Answer, RunEnded, RunRequest, StepEnded, StepRow

T_US = 1_790_812_800_000_000
S_US = 1_000_000
DAY_US = 86_400 * S_US


async def test_a_run_without_a_key_is_always_new(ledger: Ledger, sample: Any) -> None:
    runs = [sample.run() for _ in range(3)]
    assert [(await ledger.claim_run(run)).kind for run in runs] == ["new"] * 3
    assert [row.started for row in ledger.reader.runs(0, 2**62)] == runs[::-1]
    with pytest.raises(LedgerError, match=r"UNIQUE constraint failed: runs\.run_id|unique constraint \"pk_runs\""):
        await ledger.claim_run(runs[0])


async def test_of_many_claims_at_once_one_is_given_the_run(url: str, sample: Any) -> None:
    claims = [sample.run(run_key="k", owner=str(n), lease_until_us=T_US + 30 * S_US) for n in range(20)]
    with open_ledger(url) as one, open_ledger(url) as other:
        ends = await asyncio.gather(*((one, other)[n % 2].claim_run(claim) for n, claim in enumerate(claims)))
    kinds = [end.kind for end in ends]
    assert (kinds.count("new"), kinds.count("held")) == (1, 19)
    [winner] = [end for end in ends if end.kind == "new"]
    assert {(end.run_id, end.owner, end.lease_until_us) for end in ends} == {
        (winner.run_id, winner.owner, T_US + 30 * S_US)
    }


@pytest.mark.parametrize(("after_us", "kind"), [(0, "held"), (30 * S_US - 1, "held"), (30 * S_US, "resumed")])
async def test_a_lease_holds_until_its_instant(ledger: Ledger, sample: Any, after_us: int, kind: str) -> None:
    first = sample.run(run_key="k", owner="a", lease_until_us=T_US + 30 * S_US)
    await ledger.claim_run(first)
    second = sample.run(run_key="k", owner="b", started_us=T_US + after_us, lease_until_us=T_US + 90 * S_US)
    claim = await ledger.claim_run(second)
    assert (claim.kind, claim.run_id, claim.owner) == (kind, first.run_id, "a")
    found = ledger.reader.run(first.run_id)
    assert found is not None
    assert found.started.owner == ("b" if kind == "resumed" else "a")


async def test_a_renewed_lease_holds_longer_and_a_lost_one_cannot_be_renewed(ledger: Ledger, sample: Any) -> None:
    first = sample.run(run_key="k", owner="a", lease_until_us=T_US + 30 * S_US)
    await ledger.claim_run(first)
    assert await ledger.renew_leases([first.run_id], "a", T_US + 60 * S_US) == {first.run_id}
    later = sample.run(run_key="k", owner="b", started_us=T_US + 40 * S_US, lease_until_us=T_US + 70 * S_US)
    assert (await ledger.claim_run(later)).kind == "held"
    latest = sample.run(run_key="k", owner="b", started_us=T_US + 60 * S_US, lease_until_us=T_US + 90 * S_US)
    assert (await ledger.claim_run(latest)).kind == "resumed"
    assert await ledger.renew_leases([first.run_id], "a", T_US + 120 * S_US) == frozenset()
    assert await ledger.renew_leases([first.run_id], "b", T_US + 120 * S_US) == {first.run_id}


@pytest.mark.parametrize("status", ["succeeded", "partial"])
async def test_a_finished_run_gives_its_answer_back(ledger: Ledger, sample: Any, status: Any) -> None:
    run = sample.run(run_key="k", request_hash="h")
    await ledger.claim_run(run)
    answer = Answer(final_answer_key(run.run_id), run.run_id, {"content": "42"}, "stop", T_US + S_US)
    await ledger.write(RunEnded(run.run_id, status, T_US), answer)
    claim = await ledger.claim_run(sample.run(run_key="k", request_hash="h"))
    assert (claim.kind, claim.run_id, claim.status, claim.answer) == ("finished", run.run_id, status, answer)
    await ledger.prune(T_US + DAY_US)
    assert (await ledger.claim_run(sample.run(run_key="k", request_hash="h"))).answer is None


@pytest.mark.parametrize("status", ["failed", "stopped"])
async def test_a_run_that_ended_without_an_answer_is_resumed(ledger: Ledger, sample: Any, status: Any) -> None:
    run = sample.run(run_key="k", owner="a", lease_until_us=T_US + 30 * S_US)
    await ledger.claim_run(run)
    await ledger.write(RunEnded(run.run_id, status, T_US, "why"))
    assert (await ledger.claim_run(sample.run(run_key="k", owner="b"))).kind == "resumed"
    await ledger.write(RunEnded(run.run_id, "succeeded", T_US + 1))
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert found.ended == RunEnded(run.run_id, "succeeded", T_US + 1)


async def test_a_key_of_another_task_is_refused_and_its_run_left_alone(ledger: Ledger, sample: Any) -> None:
    run = sample.run(run_key="k", request_hash="one", owner="a", lease_until_us=T_US)
    await ledger.claim_run(run)
    with pytest.raises(WrongUsage, match=r"run key 'k': it belongs to run .*another task or configuration") as caught:
        await ledger.claim_run(sample.run(run_key="k", request_hash="other", owner="b", started_us=T_US + S_US))
    assert caught.value.hint == "use another run key for another task"
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert found.started == run


async def test_a_run_is_ended_once(ledger: Ledger, sample: Any) -> None:
    run = sample.run()
    await ledger.write(run, RunEnded(run.run_id, "failed", T_US))
    with pytest.raises(LedgerError, match="is not in the ledger, has ended already"):
        await ledger.write(RunEnded(run.run_id, "succeeded", T_US))


async def test_answers_and_tasks_are_deleted_a_day_after_the_end_of_their_run(ledger: Ledger, sample: Any) -> None:
    """The day is counted from the run's end, however long ago its first answer was written."""
    going = sample.run(run_key="a", owner="a", lease_until_us=T_US + 30 * S_US)
    killed = sample.run(run_key="b", owner="b", lease_until_us=T_US)
    over, later = sample.run(), sample.run()
    runs = {"going": going, "killed": killed, "over": over, "later": later}
    answers = [Answer(name, run.run_id, {}, None, T_US - DAY_US) for name, run in runs.items()]
    answers.append(Answer("for good", over.run_id, {}, None, None))
    tasks = [RunRequest(run.run_id, "{}", T_US - DAY_US) for run in runs.values()]
    ends = [RunEnded(over.run_id, "failed", T_US), RunEnded(later.run_id, "partial", T_US + 1)]
    await ledger.write(*runs.values(), *ends, *answers, *tasks)

    assert await ledger.prune(T_US + DAY_US - 1) == 0
    assert await ledger.prune(T_US + DAY_US) == 2
    kept = [answer.call_key for answer in answers if await ledger.find_answer(answer.call_key)]
    assert kept == ["going", "later", "for good"]
    assert [name for name, run in runs.items() if ledger.run_reader.request(run.run_id)] == ["going", "later"]


async def test_a_run_is_taken_by_its_id_as_soon_as_nobody_works_on_it(ledger: Ledger, sample: Any) -> None:
    run = sample.run(owner="a", lease_until_us=T_US + 30 * S_US)
    await ledger.claim_run(run)
    held = await ledger.take_run(run.run_id, "b", T_US, T_US + 60 * S_US)
    dead = await ledger.take_run(run.run_id, "b", T_US, T_US + 60 * S_US, dead_owner="a")
    late = await ledger.take_run(run.run_id, "c", T_US + 60 * S_US, T_US + 90 * S_US)
    none = await ledger.take_run("no such run", "c", T_US, T_US)

    assert none is None
    assert held is not None
    assert dead is not None
    assert late is not None
    assert [(each.kind, each.owner, each.started_us) for each in (held, dead, late)] == [
        ("held", "a", run.started_us),
        ("resumed", "a", run.started_us),
        ("resumed", "b", run.started_us),
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [("succeeded", "finished"), ("partial", "resumed"), ("failed", "resumed"), ("stopped", "resumed")],
)
async def test_what_has_not_wholly_succeeded_can_be_taken_again(
    ledger: Ledger, sample: Any, status: Any, kind: str
) -> None:
    run = sample.run(owner="a")
    final = Answer(final_answer_key(run.run_id), run.run_id, {"content": "then"}, "stop", None)
    await ledger.write(run, RunEnded(run.run_id, status, T_US), final)
    claim = await ledger.take_run(run.run_id, "b", T_US, T_US + 30 * S_US)

    assert claim is not None
    assert claim.kind == kind
    assert claim.answer == (final if kind == "finished" else None)
    assert (await ledger.find_answer(final.call_key) is None) == (kind == "resumed")


async def test_a_cancel_asks_a_live_owner_and_ends_a_dead_one_s_run(ledger: Ledger, sample: Any) -> None:
    run = sample.run(run_key="k", owner="a", lease_until_us=T_US + 30 * S_US)
    other = sample.run(owner="a", lease_until_us=T_US + 30 * S_US)
    await ledger.claim_run(run)
    await ledger.claim_run(other)
    ids = [run.run_id, other.run_id]

    def cancel(run_id: str, at_us: int, dead: str | None = None) -> Any:
        return asyncio.to_thread(ledger.cancel_run, run_id, at_us, dead)

    assert await cancel("no such run", T_US) == "unknown"
    assert ledger.run_reader.cancelled(ids) == frozenset()
    assert await cancel(run.run_id, T_US + S_US) == "asked"
    assert ledger.run_reader.cancelled(ids) == {run.run_id}
    assert await cancel(run.run_id, T_US + 30 * S_US) == "ended"  # its lease is over
    assert await cancel(run.run_id, T_US + 31 * S_US) == "over"
    assert await cancel(other.run_id, T_US + S_US, "a") == "ended"
    state = ledger.run_reader.state(run.run_id)
    assert state is not None
    assert state.row.ended == RunEnded(
        run.run_id, "stopped", T_US + 30 * S_US, "cancelled after its process had ended", None
    )
    again = sample.run(run_key="k", owner="b", started_us=T_US + 40 * S_US)
    assert (await ledger.claim_run(again)).kind == "resumed"
    assert ledger.run_reader.cancelled(ids) == {other.run_id}  # who takes a run over has not been asked to stop


async def test_what_a_run_has_come_to_is_added_up_exactly(ledger: Ledger, sample: Any) -> None:
    """2 · 0.0000005 + 1 USD and 3 CNY settled; a timed-out one of 0.25 and one in flight of 0.5 possibly billed."""
    run = sample.run(owner="a")
    ends: list[dict[str, Any]] = [
        {"settled_cost": Amount("USD", Decimal("0.0000005")), "list_cost": Amount("USD", Decimal(1))},
        {"settled_cost": Amount("USD", Decimal("0.0000005")), "list_cost": Amount("USD", Decimal(1))},
        {"settled_cost": Amount("USD", Decimal(1)), "list_cost": Amount("USD", Decimal(1))},
        {"settled_cost": Amount("CNY", Decimal(3)), "list_cost": Amount("CNY", Decimal(3))},
        {"status": "timed_out", "usage": None, "possibly_billed": True},
    ]
    starts = [sample.started(run_id=run.run_id, reserved_usd=Decimal("0.25")) for _ in ends]
    flying = sample.started(run_id=run.run_id, reserved_usd=Decimal("0.5"))
    steps = [StepRow(run.run_id, name, at, "math") for at, name in enumerate("abc")]
    done = [
        sample.ended(start, **{"cost_status": "exact" if "list_cost" in end else "unknown", **end})
        for start, end in zip(starts, ends, strict=True)
    ]
    await ledger.write(run, *steps, *starts, flying, *done, StepEnded(run.run_id, "a", "succeeded"))
    (state,) = ledger.run_reader.newest(("running",))

    assert (state.sums.attempts, state.sums.in_flight, state.sums.possibly_billed) == (6, 1, 2)
    assert state.sums.possibly_billed_usd == Decimal("0.75")
    assert state.sums.settled_cost == (("CNY", Decimal(3)), ("USD", Decimal("1.000001")))
    assert state.steps == {"succeeded": 1, "waiting": 2}
    assert (state.is_kept, state.cancel_us) == (False, None)
    assert ledger.run_reader.newest(("failed",)) == ()


async def test_the_first_answer_and_the_first_plan_stay(ledger: Ledger, sample: Any) -> None:
    run = sample.run()
    await ledger.write(run, StepRow(run.run_id, "s", 0, "math"), Answer("k", run.run_id, {"n": 1}, None, None))
    await ledger.write(StepEnded(run.run_id, "s", "succeeded"))
    await ledger.write(StepRow(run.run_id, "s", 0, "math"), Answer("k", run.run_id, {"n": 2}, None, None))
    answer = await ledger.find_answer("k")
    assert answer is not None
    assert answer.message == {"n": 1}
    assert [step.status for step in ledger.reader.steps(run.run_id)] == ["succeeded"]
