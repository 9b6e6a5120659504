"""Run keys: one run a key, one owner a run, and a finished run's answer without a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from router.errors import LedgerError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.leases import final_answer_key
from router.ledger.records import Answer, RunEnded, StepEnded, StepRow

T_US = 1_790_812_800_000_000
S_US = 1_000_000


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
    assert await ledger.renew_lease(first.run_id, "a", T_US + 60 * S_US)
    later = sample.run(run_key="k", owner="b", started_us=T_US + 40 * S_US, lease_until_us=T_US + 70 * S_US)
    assert (await ledger.claim_run(later)).kind == "held"
    latest = sample.run(run_key="k", owner="b", started_us=T_US + 60 * S_US, lease_until_us=T_US + 90 * S_US)
    assert (await ledger.claim_run(latest)).kind == "resumed"
    assert not await ledger.renew_lease(first.run_id, "a", T_US + 120 * S_US)
    assert await ledger.renew_lease(first.run_id, "b", T_US + 120 * S_US)


@pytest.mark.parametrize("status", ["succeeded", "partial"])
async def test_a_finished_run_gives_its_answer_back(ledger: Ledger, sample: Any, status: Any) -> None:
    run = sample.run(run_key="k", request_hash="h")
    await ledger.claim_run(run)
    answer = Answer(final_answer_key(run.run_id), run.run_id, {"content": "42"}, "stop", T_US + S_US)
    await ledger.write(RunEnded(run.run_id, status, T_US), answer)
    claim = await ledger.claim_run(sample.run(run_key="k", request_hash="h"))
    assert (claim.kind, claim.run_id, claim.status, claim.answer) == ("finished", run.run_id, status, answer)
    await ledger.prune(T_US + S_US)
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


async def test_answers_are_deleted_after_their_time_but_never_of_a_run_that_goes_on(
    ledger: Ledger, sample: Any
) -> None:
    going = sample.run(run_key="a", owner="a", lease_until_us=T_US + 30 * S_US)
    killed = sample.run(run_key="b", owner="b", lease_until_us=T_US)
    over = sample.run()
    answers = [
        Answer("going", going.run_id, {}, None, T_US),
        Answer("killed", killed.run_id, {}, None, T_US),
        Answer("over", over.run_id, {}, None, T_US),
        Answer("not yet", over.run_id, {}, None, T_US + 1),
        Answer("for good", over.run_id, {}, None, None),
    ]
    await ledger.write(going, killed, over, RunEnded(over.run_id, "failed", T_US), *answers)
    assert await ledger.prune(T_US) == 2
    kept = [answer.call_key for answer in answers if await ledger.find_answer(answer.call_key)]
    assert kept == ["going", "not yet", "for good"]


async def test_the_first_answer_and_the_first_plan_stay(ledger: Ledger, sample: Any) -> None:
    run = sample.run()
    await ledger.write(run, StepRow(run.run_id, "s", 0, "math"), Answer("k", run.run_id, {"n": 1}, None, None))
    await ledger.write(StepEnded(run.run_id, "s", "succeeded"))
    await ledger.write(StepRow(run.run_id, "s", 0, "math"), Answer("k", run.run_id, {"n": 2}, None, None))
    answer = await ledger.find_answer("k")
    assert answer is not None
    assert answer.message == {"n": 1}
    assert [step.status for step in ledger.reader.steps(run.run_id)] == ["succeeded"]
