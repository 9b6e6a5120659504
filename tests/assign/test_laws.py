"""Laws of every assignment, over random plans."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from router.assign import Assignment, Infeasible, Limits, Option, Problem, StepOptions, assign, frontier
from router.errors import RouterError
from tests.assign.problems import made

FEW = settings(max_examples=12)
seeds = st.integers(0, 10**6)
shares = st.floats(0, 1)
methods = st.sampled_from(["exact", "greedy"])


def tried(problem: Problem, **how: object) -> Assignment | None:
    try:
        return assign(problem, gap_share=0.0, time_limit_s=20, **how)  # type: ignore[arg-type]
    except Infeasible:
        return None


def between(problem: Problem, floor: float, latency: float, budget: float) -> Limits:
    """Return limits that lie so far between what is least and what is most."""
    options = [step.options for step in problem.steps]
    best = sum(step.weight * max(each.quality or 0 for each in step.options) for step in problem.steps)
    slowest = sum(max(each.latency_s or 0 for each in row) for row in options)
    dearest = sum((max(each.cost_usd for each in row) for row in options), Decimal(0))
    weight = sum(step.weight for step in problem.steps)
    return Limits(floor * best / weight, latency * slowest, (Decimal(budget) * dearest).quantize(Decimal("1E-9")))


@FEW
@given(seeds, shares, shares, shares, st.sampled_from(["cost", "quality"]), methods)
def test_an_assignment_never_breaks_budget_floor_or_latency(
    seed: int, floor: float, latency: float, budget: float, objective: str, method: str
) -> None:
    problem = made(seed, steps=6, models=3)
    limits = between(problem, floor, latency, budget)
    found = tried(replace(problem, limits=limits), objective=objective, is_exact=method == "exact")
    if found is None:
        return
    assert limits.budget_usd is not None
    assert limits.quality_floor is not None
    cost = sum((each.cost_usd for each in found.choices.values()), Decimal(0))
    weights = {step.step_id: step.weight for step in problem.steps}
    quality = sum(weights[name] * (each.quality or 0) for name, each in found.choices.items()) / sum(weights.values())
    ends: dict[str, float] = {}
    for step in problem.steps:
        own = found.choices[step.step_id].latency_s or 0
        ends[step.step_id] = max((ends[need] for need in step.depends_on), default=0.0) + own
    assert cost == found.cost_usd <= limits.budget_usd
    assert quality >= limits.quality_floor - 2e-9
    assert max(ends.values()) <= (limits.latency_s or 0) + 2e-9
    for name, chosen in found.choices.items():
        assert chosen in next(step.options for step in problem.steps if step.step_id == name)


@FEW
@given(seeds, shares, shares, st.floats(0, 0.5))
def test_a_larger_budget_never_lowers_quality(seed: int, latency: float, budget: float, more: float) -> None:
    problem = made(seed, steps=6, models=3)
    small = replace(between(problem, 0, latency, budget), quality_floor=None)
    large = replace(between(problem, 0, latency, budget + more), quality_floor=None)
    least = tried(replace(problem, limits=small), objective="quality")
    assume(least is not None)
    most = tried(replace(problem, limits=large), objective="quality")
    assert most is not None
    assert least is not None
    assert (most.quality or 0) >= (least.quality or 0) - 2e-9


@FEW
@given(seeds, shares, st.floats(0.3, 1), st.integers(0, 5), shares, shares)
def test_one_more_model_never_raises_the_cost(
    seed: int, floor: float, latency: float, place: int, share: float, quality: float
) -> None:
    problem = made(seed, steps=6, models=3)
    problem = replace(problem, limits=replace(between(problem, floor, latency, 1), budget_usd=None))
    before = tried(problem)
    assume(before is not None)
    assert before is not None
    step = problem.steps[place]
    cost = step.options[0].cost_usd * Decimal(round(share, 3))
    more = replace(step, options=(*step.options, Option("new", cost, quality, 2.0)))
    after = tried(replace(problem, steps=(*problem.steps[:place], more, *problem.steps[place + 1 :])))
    assert after is not None
    assert after.cost_usd <= before.cost_usd


@FEW
@given(seeds, st.integers(2, 8), methods)
def test_a_frontier_rises_in_cost_and_quality_and_holds_the_limits(seed: int, points: int, method: str) -> None:
    problem = made(seed, steps=6, models=3)
    limits = replace(between(problem, 1, 0.8, 0.5), quality_floor=None)
    try:
        limited = replace(problem, limits=limits)
        found = frontier(limited, points=points, time_limit_s=20, is_exact=method == "exact")
    except Infeasible:
        return
    assert 1 <= len(found) <= points
    for low, high in pairwise(found):
        assert low.cost_usd < high.cost_usd
        assert (low.quality or 0) < (high.quality or 0)
    assert found[-1].cost_usd <= (limits.budget_usd or 0)
    assert max(each.latency_s or 0 for each in found) <= (limits.latency_s or 0) + 2e-9


@FEW
@given(seeds, shares, shares, shares)
def test_the_same_problem_has_the_same_answer(seed: int, floor: float, latency: float, budget: float) -> None:
    problem = made(seed, steps=6, models=3)
    problem = replace(problem, limits=between(problem, floor, latency, budget))
    one, other = tried(problem), tried(problem)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert dict(one.choices) == dict(other.choices)


numbers = st.floats(-1, 2) | st.sampled_from([float("nan"), float("inf")])
costs = st.decimals(-1, 10, places=3) | st.sampled_from([Decimal("NaN"), Decimal("Infinity"), Decimal("1E-70")])
options = st.builds(Option, st.sampled_from("ab"), costs, st.none() | numbers, st.none() | numbers)
steps = st.builds(
    StepOptions,
    st.sampled_from("xyz"),
    st.lists(options, max_size=3).map(tuple),
    st.lists(st.sampled_from("xyzw"), max_size=2).map(tuple),
    numbers,
)
limits_of_any_kind = st.builds(Limits, st.none() | numbers, st.none() | numbers, st.none() | costs)


@settings(max_examples=60)
@given(st.builds(Problem, st.lists(steps, max_size=3).map(tuple), limits_of_any_kind, costs, numbers))
def test_whatever_is_asked_is_answered_or_refused_in_one_line(problem: Problem) -> None:
    assert "\n" not in answered(problem)


def answered(problem: Problem) -> str:
    """Return the line that a problem is refused with, or an empty one."""
    try:
        assert isinstance(assign(problem), Assignment)
    except RouterError as error:
        return str(error)
    return ""
