"""What a plan is expected to cost: sizes of its steps, what each may be done by, and what the optimizer makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing import FxTable
from reports.plan_page import plan_page
from router.assign import Infeasible
from router.client import Router
from router.errors import RouterError, WrongUsage
from router.experience import NO_EXPERIENCE, ClassRecord, Experience
from router.plan_estimate import Kind
from router.plan_value import Plan
from router.planning import workbook_of
from router.policy import NoCandidate
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from router.settings_plan import ByPlanSettings
from router.task import Task

CLASSES = ("math", "code", "reason", "extract", "chat", "write", "translate")


def paper(experience: Experience | None = None, latency_s: dict[str, float] | None = None, **own: Any) -> Router:
    """Return a router without endpoints, at vendors' lists; `own` is a configuration of kind by_plan."""
    rules = {"own": {"policy": "by_plan", **own}}
    made = Settings.model_validate({"configurations": {**BUILT_IN_CONFIGURATIONS, **rules}})
    return Router(made, environ={}, fx=FxTable(()), latency_s=latency_s, experience=experience or NO_EXPERIENCE)


def step(step_id: str, task_class: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "prompt": f"Do {step_id}.", "task_class": task_class, "depends_on": list(after), **more}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a graph of one to six steps of any class, each after some of those before it."""
    steps = []
    for number in range(draw(st.integers(1, 6))):
        before = [f"s{each}" for each in range(number)]
        after = draw(st.lists(st.sampled_from(before), unique=True, max_size=2)) if before else []
        weight = draw(st.sampled_from([0.5, 1.0, 3.0]))
        steps.append(step(f"s{number}", draw(st.sampled_from(CLASSES)), *after, quality_weight=weight))
    return Plan.graph(steps)


ROUTER = paper()


@settings(max_examples=15, deadline=None)
@given(plans())
def test_steps_put_on_models_together_never_cost_more_than_one_by_one_and_reach_the_same_floors(plan: Plan) -> None:
    """What by_class chooses holds every class's floor, so it holds their mean: it is one of the assignments."""
    task = Task.of("do it", plan=plan)
    alone = ROUTER.plan(task, configuration="by_class")
    together = ROUTER.plan(task, configuration="planned")
    assert together.problem is None
    assert together.assignment.cost_usd <= alone.assignment.cost_usd * Decimal("1.005")  # the gap that it stops at
    floor = together.limits.quality_floor
    if floor is not None:
        assert together.quality is not None
        assert together.quality >= floor - 1e-9
        assert alone.quality is not None
        assert alone.quality >= floor - 1e-9


@settings(max_examples=10, deadline=None)
@given(plans(), st.floats(0.2, 0.5))
def test_a_floor_is_held_or_refused(plan: Plan, floor: float) -> None:
    found = ROUTER.plan(Task.of("do it", plan=plan, configuration="planned", quality_floor=floor))
    if found.problem is None and found.quality is not None:
        assert found.quality >= floor - 1e-9
    else:
        assert found.quality is None or found.quality < floor


def test_a_step_reads_its_words_the_tasks_and_the_answers_it_builds_on() -> None:
    plan = Plan.graph(
        {
            "a": {"prompt": "One two three.", "expected_output_tokens": 300},
            "b": {"prompt": "One two three.", "depends_on": ["a"]},
            "c": {"prompt": "One two three.", "depends_on": ["a", "b"], "max_input_tokens": 200},
            "d": {"prompt": "One two three.", "expected_input_tokens": 77},
        }
    )
    rows = {each.name: each.decision.chosen for each in ROUTER.plan(Task.of("x", plan=plan), configuration="own").steps}
    alone = rows["a"].input_tokens
    assert rows["b"].input_tokens - alone in range(300, 310)  # its answer, and the line before it
    assert rows["c"].input_tokens in range(195, 212)  # the answers are cut to what its prompt may hold
    assert rows["d"].input_tokens == 77
    assert rows["a"].output_tokens == (300, 300, 300)


def test_a_budget_below_the_cheapest_plan_is_one_clear_line_and_shows_the_cheapest() -> None:
    task = Task.of("x", plan=Plan.graph([step("a", "math"), step("b", "math")]), configuration="own")
    free, short = ROUTER.plan(task, with_frontier=True), Task.of(task, budget_usd="0.000001")
    found = ROUTER.plan(short, with_frontier=True)
    assert found.problem is not None
    assert found.problem.startswith("budget_usd: 0.000001 USD is not enough; the cheapest options cost 0.0")
    assert found.is_over_budget
    assert found.assignment.cost_usd == min(each.cost_usd for each in free.frontier)
    assert [each.choices for each in found.frontier] == [each.choices for each in free.frontier]
    assert any(note.startswith("the frontier of cost and quality is that without the limits") for note in found.notes)


def test_a_floor_that_nothing_reaches_names_the_best_and_shows_it() -> None:
    found = ROUTER.plan(Task.of("x", plan=Plan.graph([step("a", "math")]), configuration="own", quality_floor=0.99))
    assert found.problem is not None
    assert found.problem.startswith("quality_floor: 0.99 cannot be reached; the best options reach 0.4")
    assert found.steps[0].decision.chosen.quality_bound == max(
        each.quality_bound or 0 for each in found.steps[0].decision.candidates if each.cost is not None
    )


def test_a_latency_objective_holds_for_the_longest_path() -> None:
    """Two steps one after the other: 1 + 1 s of the fast model fit into 2.5 s, 3 s of the cheap one do not."""
    latency_s = {"gpt-4.1-nano": 3.0, "gpt-4.1-mini": 1.0}
    classes = {"chat": {"candidates": ["gpt-4.1-nano", "gpt-4.1-mini"]}}
    router = paper(latency_s=latency_s, classes=classes)
    plan = Plan.graph([step("a", "chat"), step("b", "chat", "a")], merge=False)
    models = [
        [each.decision.chosen.model for each in found.steps]
        for found in (
            router.plan(Task.of("x", plan=plan, configuration="own")),
            router.plan(Task.of("x", plan=plan, configuration="own", latency_objective_s=4.5)),
            router.plan(Task.of("x", plan=plan, configuration="own", latency_objective_s=2.5)),
        )
    ]
    assert models[0] == ["gpt-4.1-nano", "gpt-4.1-nano"]
    assert sorted(models[1]) == ["gpt-4.1-mini", "gpt-4.1-nano"]
    assert models[2] == ["gpt-4.1-mini", "gpt-4.1-mini"]


def test_an_effort_is_a_candidate_of_its_own_with_its_thinking_in_the_cost() -> None:
    """gpt-4.1-mini: 0.40 and 1.60 USD a million tokens; 1,000 tokens of thinking cost 0.0016 USD more."""
    candidates = [
        {"model": "gpt-4.1-mini", "quality": {"chat": 0.5}, "sample_size": 400},
        {
            "model": "gpt-4.1-mini",
            "effort": "high",
            "reasoning_tokens": 1000,
            "quality": {"chat": 0.9},
            "sample_size": 400,
        },
    ]
    router = paper(candidates=candidates)
    plan = Plan.graph([step("a", "chat", expected_output_tokens=100)], merge=False)
    cheap = router.plan(Task.of("x", plan=plan, configuration="own")).steps[0]
    good = router.plan(Task.of("x", plan=plan, configuration="own", quality_floor=0.8)).steps[0]
    assert (cheap.decision.chosen.effort, good.decision.chosen.effort) == (None, "high")
    assert good.decision.extra == {"reasoning_effort": "high"}
    assert cheap.decision.extra == {}
    assert good.cost is not None
    assert cheap.cost is not None
    assert good.cost.expected_usd - cheap.cost.expected_usd == Decimal("0.0016")
    assert good.decision.chosen.quality_share == 0.9
    # Wilson's one-sided 90 % bound of 0.9 on 400 problems: (0.90205 - 0.01924) / 1.00411 = 0.8790 (no class mean: chat)
    assert good.decision.chosen.quality_bound == pytest.approx(0.8790, abs=5e-4)
    single = router.decide(Task.of("x", configuration="own", task_class="chat", quality_floor=0.8))
    assert (single.chosen.effort, single.extra) == ("high", {"reasoning_effort": "high"})


def test_what_fails_on_record_is_paid_again() -> None:
    """17 of 80 attempts failed; with 5 more that did not: 0.2, so a call takes 1 / 0.8 = 1.25 attempts."""
    record = {("gpt-4.1-mini", "chat"): ClassRecord(80, 17)}
    plan = Plan.graph([step("a", "chat", expected_output_tokens=100)], merge=False)
    classes = {"chat": {"candidates": ["gpt-4.1-mini"]}}
    without, with_record = (
        paper(experience, classes=classes).plan(Task.of("x", plan=plan, configuration="own")).steps[0].cost
        for experience in (None, Experience(as_of_us=1, attempts=80, records=record))
    )
    assert without is not None
    assert with_record is not None
    assert with_record.expected_usd == without.expected_usd * Decimal("1.25")


def test_cached_reads_of_a_shared_document_are_in_the_cost_of_a_step() -> None:
    document = "The river is long. " * 400  # far more than the 1,024 tokens that are cached
    plan = Plan.graph([step(name, "chat") for name in "abcd"], merge=False)
    classes = {"chat": {"candidates": ["gpt-4.1-mini"]}}
    made = paper(classes=classes)
    warm = made.plan(Task.of("x", plan=plan, configuration="own", shared=document))
    cold_settings = made.settings.model_copy(
        update={"context": made.settings.context.model_copy(update={"warmup": False})}
    )
    cold = Router(cold_settings, environ={}, fx=FxTable(())).plan(
        Task.of("x", plan=plan, configuration="own", shared=document)
    )
    assert warm.cost is not None
    assert cold.cost is not None
    # gpt-4.1-mini reads a cached token at a quarter of its price: three of four reads cost a quarter
    read_usd = cold.cost.expected_usd - 4 * Decimal("0.0000016") * 262
    assert (cold.cost.expected_usd - warm.cost.expected_usd) / read_usd == pytest.approx(
        Decimal("0.5625"), abs=Decimal("0.03")
    )


def test_a_steps_own_candidates_and_floor_hold_for_it_alone() -> None:
    plan = Plan.graph(
        [step("a", "code", candidates=["gpt-4.1"]), step("b", "code", quality_floor=0.5), step("c", "code")]
    )
    found = ROUTER.plan(Task.of("x", plan=plan, configuration="own"))
    models = {each.name: each.decision.chosen for each in found.steps}
    assert models["a"].model == "gpt-4.1"
    assert (models["b"].quality_bound or 0) >= 0.5
    with pytest.raises(
        NoCandidate, match=r"^step 'b': no model fits a call of class code: .* is below the floor 0.990"
    ):
        ROUTER.plan(Task.of("x", plan=Plan.graph([step("b", "code", quality_floor=0.99)]), configuration="own"))


def test_a_default_floor_is_the_weighted_mean_of_the_classes_floors() -> None:
    """Code 0.40 at weight 3, math 0.25 at weight 1, chat without a floor: (1.2 + 0.25) / 4 = 0.3625."""
    plan = Plan.graph([step("a", "code", quality_weight=3), step("b", "math"), step("c", "chat", quality_weight=9)])
    assert ROUTER.plan(Task.of("x", plan=plan, configuration="own")).limits.quality_floor == pytest.approx(0.3625)


def test_the_best_quality_that_a_budget_buys() -> None:
    plan = Plan.graph([step(name, "math") for name in "ab"], merge=False)
    router = paper(objective="quality")
    few, many = (
        router.plan(Task.of("x", plan=plan, configuration="own", budget_usd=budget)) for budget in ("0.00035", "0.05")
    )
    assert few.cost is not None
    assert few.cost.expected_usd <= Decimal("0.00035")
    assert many.quality is not None
    assert few.quality is not None
    assert many.quality > few.quality


def test_a_text_without_steps_is_drawn_from_its_list_and_says_so() -> None:
    found = ROUTER.plan("1. Write a Python function that sorts.\n   Test it.\n2. Name three rivers.", plan="always")
    assert found.is_expected
    assert [each.step.prompt for each in found.steps if each.step] == [
        "1. Write a Python function that sorts.\n   Test it.",
        "2. Name three rivers.",
    ]
    assert found.planning is not None
    assert found.steps[0].decision.task_class == "code"
    assert found.is_worth_planning is False
    assert any("drawn from the text's own list" in note for note in found.notes)
    none = ROUTER.plan("Tell me a story.", plan="always")
    assert len(none.steps) == 3
    assert any("lists no parts: 3 like ones are assumed" in note for note in none.notes)


def test_another_policy_shows_what_the_optimizer_would_save() -> None:
    """Others reach the bound that gpt-4.1 is shown to reach, for less."""
    plan = Plan.graph([step(name, "code") for name in "ab"])
    found = ROUTER.plan(Task.of("x", plan=plan), configuration="all-gpt-4.1")
    assert {each.decision.chosen.model for each in found.steps} == {"gpt-4.1"}
    assert found.kind == "fixed"
    assert found.best_assignment is not None
    assert found.saving_usd is not None
    assert found.saving_usd == found.assignment.cost_usd - found.best_assignment.cost_usd > 0
    assert (found.best_assignment.quality or 0) >= (found.quality or 1) - 1e-9


@pytest.mark.parametrize(("kind", "held"), [("fixed", "at the same quality bound"), ("by_class", "at the same floors")])
def test_a_saving_is_said_with_what_it_keeps(kind: Kind, held: str) -> None:
    """A fixed pair's own quality is kept; of a policy with floors these alone, and its quality may be above them."""
    plan = Plan.graph([step(name, "code") for name in "ab"])
    found = ROUTER.plan(Task.of("x", plan=plan), configuration="all-gpt-4.1")
    (note,) = (each for each in plan_page(replace(found, kind=kind)).notes if "would cost" in each.text)
    assert held in note.text


def test_a_frontier_rises_in_both() -> None:
    plan = Plan.graph([step("a", "math"), step("b", "code"), step("c", "reason")])
    points = ROUTER.plan(Task.of("x", plan=plan), configuration="own", with_frontier=True).frontier
    assert len(points) > 2
    pairs = list(pairwise(points))
    assert all(one.cost_usd < other.cost_usd for one, other in pairs)
    assert all((one.quality or 0) < (other.quality or 0) for one, other in pairs)


CYCLE = [
    {"id": "a", "prompt": "x", "depends_on": ["b"]},
    {"id": "b", "prompt": "x", "depends_on": ["a"]},
]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (CYCLE, r"^steps: the steps (a|b) → (a|b) → (a|b) wait for each other$"),
        ([{"id": "a", "prompt": "x", "depends_on": ["z"]}], r"^steps: step 'a' depends on 'z', which does not exist$"),
        (
            [{"id": f"s{n}", "prompt": "x"} for n in range(10_000)],
            r"^steps: it has 10000 steps; 1 to 1000 are allowed$",
        ),
        (
            [{"id": "a", "prompt": "x", "candidates": ["gpt-4.2"]}],
            r"^steps: step 'a': candidates: model: 'gpt-4.2' does not exist; did you mean ",
        ),
    ],
)
def test_a_plan_that_is_none_is_one_clear_line(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        ROUTER.plan("x", steps=steps, configuration="planned")


def test_an_unknown_configuration_lists_what_is_near() -> None:
    with pytest.raises(WrongUsage, match="'planed' does not exist; did you mean planned"):
        ROUTER.plan("x", configuration="planed")


def test_a_workbook_of_many_steps_is_made_quickly() -> None:
    plan = Plan.graph([step(f"s{number}", CLASSES[number % 7]) for number in range(100)])
    book = workbook_of(
        ROUTER.market(), ROUTER.settings, Task.of("x", plan=plan), plan, ByPlanSettings(policy="by_plan")
    )
    assert len(book.problem.steps) == 100
    assert all(len(each.options) > 1 for each in book.problem.steps)


def test_every_error_is_one_of_ours() -> None:
    assert issubclass(Infeasible, RouterError)


def test_a_fixed_model_without_a_price_has_a_plan_without_a_cost() -> None:
    """Nothing of the endpoint has a price, so there is nothing to hold the plan against, and no zero stands for it."""
    local = {"base_url": "http://127.0.0.1:9/v1", "models": {"mystery": "m"}}
    own = {"local": {"policy": "fixed", "orchestrator": "mystery", "worker": "mystery"}}
    made = Settings.model_validate({"endpoints": {"local": local}, "configurations": own})
    steps = [step("a", "chat"), step("b", "chat", "a")]
    found = Router(made, environ={}, fx=FxTable(())).plan(
        "do it", plan=Plan.graph(steps), configuration="local", with_frontier=True
    )
    assert [(each.decision.chosen.model, each.cost) for each in found.steps] == [("mystery", None), ("mystery", None)]
    assert (found.cost, found.saving_usd, found.frontier) == (None, None, ())


@pytest.mark.parametrize("role", ["orchestrator", "worker"])
def test_where_one_price_is_not_known_no_total_is_said(role: str) -> None:
    """The endpoint's mystery has no price. Whether it merges or does the steps, a saving would count it as 0."""
    local = {"base_url": "http://127.0.0.1:9/v1", "models": {"mystery": "m", "gpt-4.1": "g", "gpt-4.1-mini": "i"}}
    own = {"policy": "fixed", "orchestrator": "gpt-4.1-mini", "worker": "gpt-4.1", role: "mystery"}
    made = Settings.model_validate({"endpoints": {"local": local}, "configurations": {"local": own}})
    steps = [step("a", "chat"), step("b", "chat", "a")]
    found = Router(made, environ={}, fx=FxTable(())).plan(
        "do it", plan=Plan.graph(steps), configuration="local", with_frontier=True
    )
    assert [each.cost is None for each in found.rows] == [role == "worker", role == "worker", role == "orchestrator"]
    assert (found.cost, found.best_assignment, found.saving_usd) == (None, None, None)
    if role == "orchestrator":
        assert found.frontier == ()
        assert "there is no frontier of cost and quality: not every call has a known price" in found.notes


@pytest.mark.parametrize("policy", ["fixed", "by_plan"])
def test_a_budget_cannot_be_held_where_a_price_is_not_known(policy: str) -> None:
    local = {"base_url": "http://127.0.0.1:9/v1", "models": {"mystery": "m", "gpt-4.1": "g", "gpt-4.1-mini": "i"}}
    own: dict[str, Any] = {"policy": policy}
    if policy == "fixed":
        own |= {"orchestrator": "mystery", "worker": "gpt-4.1"}
    else:
        own["classes"] = {"chat": {"candidates": ["gpt-4.1-mini"]}, "merge": {"candidates": ["mystery"]}}
    made = Settings.model_validate({"endpoints": {"local": local}, "configurations": {"local": own}})
    plan = Plan.graph([step("a", "chat"), step("b", "chat")])
    task = Task.of("do it", plan=plan, configuration="local", budget_usd=9)
    found = Router(made, environ={}, fx=FxTable(())).plan(task)
    assert found.problem is not None
    assert re.fullmatch(r"budget_usd: 9 USD cannot be held; .+ no known price", found.problem)
    assert (found.is_budget_unpriced, found.is_over_budget) == (True, False)
    assert "the best that the budget allows" not in str(plan_page(found))
