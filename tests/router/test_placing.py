"""A run under `by_plan`: its steps on the models of the assignment, again after a resume, elsewhere after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from router.assign import Infeasible
from router.client import Router
from router.endpoints.sandbox import Fault
from router.errors import PlanError, WrongUsage
from router.presets import BUILT_IN_CONFIGURATIONS
from router.result import Result
from tests.router.conftest import settings_for

Make = Callable[..., Any]
CHEAP, GOOD, OTHER = "gpt-4.1-nano", "gpt-4.1-mini", "gpt-4o-mini"


def known(model: str, share: float, **more: Any) -> dict[str, Any]:
    """Return a candidate whose quality was measured on so many problems that its bound is near the share."""
    return {"model": model, "quality": {"chat": share}, "sample_size": 1_000_000, **more}


def rules(*candidates: Any, **more: Any) -> dict[str, Any]:
    """Return the settings of a router whose default configuration is one of kind by_plan."""
    own = {"policy": "by_plan", "candidates": list(candidates), **more}
    return {"configurations": {**BUILT_IN_CONFIGURATIONS, "own": own}, "default_configuration": "own"}


def asked(result: Result) -> dict[str | None, str]:
    """Return the model that each step was asked of last."""
    return {call.step_id: call.model_asked for call in result.calls}


HEAVY = [
    {"id": "a", "prompt": "describe rivers", "quality_weight": 9},
    {"id": "b", "prompt": "describe lakes", "depends_on": ["a"]},
]


async def test_steps_are_put_on_models_together_and_the_effort_is_sent(bench: Make) -> None:
    """Floor 0.7: 9 × 0.8 + 1 × 0.3 = 7.5 of 10 is enough, so only the heavy step is done by the good one."""
    made = bench(**rules(known(CHEAP, 0.3), known(GOOD, 0.8, effort="low", reasoning_tokens=50), quality_floor=0.7))
    async with made.router as router:
        result = await router.route("Do it.", steps=HEAVY, merge=False)
    assert asked(result) == {"a": GOOD, "b": CHEAP}
    assert [(entry.model, entry.fields.get("reasoning_effort")) for entry in made.requests] == [
        (GOOD, "low"),
        (CHEAP, None),
    ]
    assert result.status == "succeeded"


async def test_a_resumed_run_asks_the_models_that_it_was_put_on(bench: Make) -> None:
    """The settings change in between: what is on record holds, not what would be chosen now."""
    made = bench({"*": Fault(match="lakes", status=400)}, **rules(known(CHEAP, 0.3), known(GOOD, 0.8)))
    async with made.router as router:
        first = await router.route("Do it.", steps=HEAVY, merge=False, quality_floor=0.7)
    # b failed on both: it was put on the other model once
    assert [step.status for step in first.steps] == ["succeeded", "failed"]
    assert [entry.model for entry in made.requests] == [GOOD, CHEAP, GOOD]
    await asyncio.to_thread(made.set_faults, {})
    changed = settings_for(made.server.base_url, made.database, **rules(known(OTHER, 0.9), known(GOOD, 0.1)))
    async with Router(changed, environ={}) as router:
        again = await router.resume(first.run_id)
    assert again.status == "succeeded"
    assert [entry.model for entry in made.requests[3:]] == [GOOD]  # b alone, where it was last
    assert again.steps[0].text == first.steps[0].text


async def test_a_failed_step_is_tried_once_more_with_its_next_best_model(bench: Make) -> None:
    made = bench({CHEAP: Fault(status=400)}, **rules(CHEAP, GOOD, OTHER))
    async with made.router as router:
        result = await router.route("Do it.", steps=[{"id": "a", "prompt": "describe rivers"}], merge=False)
    models = [entry.model for entry in made.requests]
    assert models[0] == CHEAP
    assert len(models) == 2
    assert result.steps[0].status == "succeeded"
    (warning,) = [each for each in result.warnings if "does it instead" in each]
    assert warning.startswith(f"step a: {CHEAP} failed (")
    assert f"; {models[1]} does it instead; the rest of the plan was solved again" in warning
    assert len(result.calls) == 2


async def test_a_step_that_fails_on_both_has_failed_and_the_steps_after_it_are_lost(bench: Make) -> None:
    made = bench({"*": Fault(match="rivers", status=400)}, **rules(CHEAP, GOOD, OTHER))
    steps = [
        {"id": "a", "prompt": "describe rivers"},
        {"id": "b", "prompt": "sum up", "depends_on": ["a"]},
        {"id": "c", "prompt": "describe lakes"},
    ]
    async with made.router as router:
        result = await router.route("Do it.", steps=steps, merge=False)
    assert {step.step_id: step.status for step in result.steps} == {"a": "failed", "b": "failed", "c": "succeeded"}
    assert sum("lakes" not in str(entry) for entry in made.requests) >= 2
    assert len(made.requests) == 3  # a twice, c once


async def test_a_model_that_has_lost_two_steps_is_put_on_no_other(bench: Make) -> None:
    """Five steps one after the other: the first two are lost and moved, the others begin on another model."""
    made = bench({CHEAP: Fault(status=400)}, **rules(CHEAP, GOOD))
    steps = [
        {"id": f"s{number}", "prompt": f"describe river {number}", "depends_on": [f"s{number - 1}"] if number else []}
        for number in range(5)
    ]
    async with made.router as router:
        result = await router.route("Do it.", steps=steps, merge=False)
    assert result.status == "succeeded"
    assert [entry.model for entry in made.requests].count(CHEAP) == 2
    assert len(made.requests) == 7


async def test_what_cannot_be_held_is_refused_before_anything_is_sent(bench: Make) -> None:
    made = bench(**rules(known(CHEAP, 0.3), known(GOOD, 0.8)))
    async with made.router as router:
        with pytest.raises(Infeasible, match=r"^quality_floor: 0.95 cannot be reached") as error:
            await router.route("Do it.", steps=HEAVY, quality_floor=0.95)
        assert error.value.run_id is not None
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest()
    assert made.requests == ()
    assert state.row.ended.status == "stopped"


async def test_the_best_that_can_be_had_is_done_where_quality_is_the_objective(bench: Make) -> None:
    made = bench(**rules(known(CHEAP, 0.3), known(GOOD, 0.8), objective="quality"))
    async with made.router as router:
        result = await router.route("Do it.", steps=HEAVY, merge=False, quality_floor=0.95)
    assert asked(result) == {"a": GOOD, "b": GOOD}


async def test_answers_longer_than_forecast_have_the_rest_solved_again(bench: Make) -> None:
    steps = [
        {
            "id": f"s{number}",
            "prompt": f"describe river {number}",
            "depends_on": [f"s{number - 1}"] if number else [],
            "expected_output_tokens": 1,
        }
        for number in range(5)
    ]
    made = bench(**rules(CHEAP, GOOD))
    async with made.router as router:
        result = await router.route("Do it.", steps=steps, merge=False)
    (warning,) = [each for each in result.warnings if "solved again" in each]
    assert warning.startswith("3 steps cost ")
    assert warning.endswith("; the rest of the plan was solved again")
    assert result.status == "succeeded"


async def test_a_plan_that_was_asked_for_is_never_paid_again(bench: Make) -> None:
    made = bench(**rules(CHEAP, GOOD))
    text = "1. Describe rivers.\n2. Describe lakes.\n3. Describe seas."
    async with made.router as router:
        found = await router.ask_plan(text)
        assert len(made.requests) == 1
        assert found.run_id is not None
        assert [call.role for call in found.calls] == ["orchestrator"]
        assert not found.is_expected
        assert found.planning is None
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest()
        assert state.row.ended.status == "stopped"
        result = await router.resume(found.run_id)
    assert len(made.requests) == 1 + len(found.plan.steps) + 1  # the plan, its steps, the merge
    assert result.status == "succeeded"
    assert {call.model_asked for call in result.calls if call.role == "worker"} == {
        each.decision.chosen.model for each in found.steps
    }


async def test_nonsense_three_times_is_one_clear_line_with_its_receipts(bench: Make) -> None:
    made = bench({"*": Fault(bad_plan="truncated")}, **rules(CHEAP))
    async with made.router as router:
        with pytest.raises(PlanError, match=r"^plan: .* in 3 tries$") as error:
            await router.ask_plan("1. a river\n2. a lake\n3. a sea")
    assert len(error.value.calls) == 3


async def test_a_configurations_budget_is_the_runs(bench: Make) -> None:
    made = bench(**rules(CHEAP, budget_usd=0.0000001))
    async with made.router as router:
        with pytest.raises(Infeasible, match=r"^budget_usd: .* USD is not enough; the cheapest options cost 0\.0"):
            await router.route("Do it.", steps=HEAVY, merge=False)
        with made.ledger() as ledger:
            (state,) = ledger.run_reader.newest()
    assert made.requests == ()
    assert state.row.started.budget_usd == Decimal("0.0000001")


async def test_a_run_key_asks_for_a_plan_once(bench: Make) -> None:
    made = bench(**rules(CHEAP))
    async with made.router as router:
        first, second = [await router.ask_plan("1. a river\n2. a lake\n3. a sea", run_key="k") for _ in range(2)]
        assert len(made.requests) == 1
        assert (first.run_id, first.plan) == (second.run_id, second.plan)
        done = await router.route("1. a river\n2. a lake\n3. a sea", run_key="k", plan="always")
        assert done.run_id == first.run_id
        with pytest.raises(WrongUsage, match=r"^plan: run key 'k' has its answer already"):
            await router.ask_plan("1. a river\n2. a lake\n3. a sea", run_key="k")
    assert len(made.requests) == 1 + len(first.plan.steps) + 1
