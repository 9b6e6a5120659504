"""What cannot be had is said: which limits, how much was asked for, what can be had instead."""

from __future__ import annotations

from decimal import Decimal

import pytest

from router.assign import Infeasible, Limits, Option, Problem, StepOptions, assign
from router.errors import LimitCrossed, WrongUsage


def option(key: str, cost: str, quality: float | None, latency_s: float | None) -> Option:
    return Option(key, Decimal(cost), quality, latency_s)


# Two steps, one after the other. Each: slow and cheap; fast and poor; good, dear and slow.
OPTIONS = (option("slow", "0.10", 0.6, 8.0), option("fast", "0.30", 0.5, 1.0), option("good", "2.00", 0.9, 6.0))
STEPS = (StepOptions("a", OPTIONS), StepOptions("b", OPTIONS, ("a",)))


@pytest.mark.parametrize(
    ("limits", "binding", "message", "best"),
    [
        (
            Limits(quality_floor=0.95),
            ("quality_floor",),
            "quality_floor: 0.95 cannot be reached; the best options reach 0.9",
            ["good", "good"],
        ),
        (
            Limits(latency_s=1.5),
            ("latency_s",),
            "latency_s: 1.5 s cannot be kept; the fastest options take 2 s",
            ["good", "good"],
        ),
        (
            Limits(budget_usd=Decimal("0.19")),
            ("budget_usd",),
            "budget_usd: 0.19 USD is not enough; the cheapest options cost 0.2000 USD",
            None,
        ),
        (
            Limits(quality_floor=0.95, budget_usd=Decimal("0.19")),
            ("quality_floor", "budget_usd"),
            (
                "quality_floor: 0.95 cannot be reached; the best options reach 0.9; "
                "budget_usd: 0.19 USD is not enough; the cheapest options cost 0.2000 USD"
            ),
            None,
        ),
        (  # at most one step may be good: 6 + 1 s
            Limits(quality_floor=0.8, latency_s=7),
            ("quality_floor", "latency_s"),
            "quality_floor: 0.8 cannot be reached within latency_s 7 s; the best found is 0.7",
            ["good", "fast"],
        ),
        (  # slow + good: 0.75 for 2.10
            Limits(quality_floor=0.75, budget_usd=Decimal("2.09")),
            ("quality_floor", "budget_usd"),
            "budget_usd: 2.09 USD is not enough for quality_floor 0.75; the cheapest found costs 2.100 USD",
            ["slow", "slow"],
        ),
        (  # slow + fast: 9 s for 0.40
            Limits(latency_s=10, budget_usd=Decimal("0.39")),
            ("latency_s", "budget_usd"),
            "budget_usd: 0.39 USD is not enough for latency_s 10 s; the cheapest found costs 0.4000 USD",
            ["slow", "slow"],
        ),
        (  # within 7 s 0.7 costs good + fast, 2.30; alone 0.7 costs slow + good, 2.10, and 7 s cost fast + fast, 0.60
            Limits(quality_floor=0.7, latency_s=7, budget_usd=Decimal("2.20")),
            ("quality_floor", "latency_s", "budget_usd"),
            (
                "budget_usd: 2.20 USD is not enough for quality_floor 0.7 and latency_s 7 s; "
                "the cheapest found costs 2.300 USD"
            ),
            ["fast", "fast"],
        ),
    ],
)
def test_the_binding_limits_are_named_with_what_can_be_had(
    limits: Limits, binding: tuple[str, ...], message: str, best: list[str] | None
) -> None:
    with pytest.raises(Infeasible) as raised:
        assign(Problem(STEPS, limits))
    assert str(raised.value) == message
    assert raised.value.binding == binding
    found = raised.value.best
    assert (found and sorted(each.key for each in found.choices.values())) == (best and sorted(best))
    if found is not None and limits.budget_usd is not None:
        assert found.cost_usd <= limits.budget_usd


@pytest.mark.parametrize(
    ("is_exact", "told"),
    [(True, "is not enough for quality_floor 0.6;"), (False, "was not enough for quality_floor 0.6 in the time")],
)
def test_a_budget_is_said_to_be_too_small_only_where_that_is_proven(*, is_exact: bool, told: str) -> None:
    # Mixing the two by shares, 0.6 would cost 1 + 2 × 0.1 / 0.4 = 1.50: Lagrange's bound proves nothing of 2 USD.
    steps = (StepOptions("a", (option("poor", "1", 0.5, None), option("good", "3", 0.9, None))),)
    with pytest.raises(Infeasible) as raised:
        assign(Problem(steps, Limits(quality_floor=0.6, budget_usd=Decimal(2))), is_exact=is_exact)
    assert str(raised.value).startswith(f"budget_usd: 2 USD {told}")
    assert str(raised.value).endswith("; the cheapest found costs 3.000 USD")


def test_what_the_message_offers_can_be_asked_for() -> None:
    thirds = tuple(StepOptions(name, (option("only", "0.33333333", 1 / 3, 1 / 3),)) for name in "abc")
    with pytest.raises(Infeasible, match=r"reach 0\.3333$"):
        assign(Problem(thirds, Limits(quality_floor=0.5)))
    assert assign(Problem(thirds, Limits(quality_floor=0.3333))).is_proven
    with pytest.raises(Infeasible, match=r"take 0\.334 s$"):
        assign(Problem(thirds, Limits(latency_s=0.1)))
    assert assign(Problem(thirds, Limits(latency_s=0.334))).is_proven
    with pytest.raises(Infeasible, match=r"cost 1\.0000 USD$"):
        assign(Problem(thirds, Limits(budget_usd=Decimal("0.5"))))
    assert assign(Problem(thirds, Limits(budget_usd=Decimal("1.0000")))).is_proven


def test_a_floor_over_steps_of_which_nothing_is_known_cannot_be_shown_to_hold() -> None:
    steps = (StepOptions("a", (option("only", "1", None, None),)),)
    with pytest.raises(Infeasible, match=r"quality_floor: 0\.5 cannot be shown; no quality is known") as raised:
        assign(Problem(steps, Limits(quality_floor=0.5)))
    assert raised.value.best is not None
    assert raised.value.best.cost_usd == 1


def test_it_is_a_limit_crossed_and_the_hint_says_what_can_be_had() -> None:
    with pytest.raises(LimitCrossed) as raised:
        assign(Problem(STEPS, Limits(quality_floor=0.75, budget_usd=Decimal("2.09"))))
    hint = "the best assignment within the budget has a quality of 0.6, costs 0.2000 USD and takes 16 s"
    assert raised.value.hint == hint


ONE = (option("x", "1", 0.5, 1.0),)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem(()), "steps: there are none; at least one is needed"),
        (Problem((StepOptions("a", ()),)), "step 'a': it has no options"),
        (Problem((StepOptions("a", ONE), StepOptions("a", ONE))), "step id 'a' is used twice"),
        (Problem((StepOptions("a", ONE + ONE),)), "step 'a': option 'x' is used twice"),
        (Problem((StepOptions("a", ONE, ("b",)),)), "step 'a' depends on 'b', which does not exist"),
        (Problem((StepOptions("a", ONE, ("a",)),)), "'a' depend on each other in a cycle"),
        (Problem((StepOptions("a", ONE, ("b",)), StepOptions("b", ONE, ("a",)))), "'a', 'b' depend on each other"),
        (Problem((StepOptions("a", ONE, weight=0.0),)), "weight: 0.0 is not allowed; it is above 0"),
        (Problem((StepOptions("a", ONE, weight=float("nan")),)), "weight: nan is not allowed"),
        (
            Problem((StepOptions("a", (option("x", "1", float("nan"), 1.0),)),)),
            "quality: nan is not allowed; it is 0 to",
        ),
        (Problem((StepOptions("a", (option("x", "1", 1.01, 1.0),)),)), "option 'x': quality: 1.01 is not allowed"),
        (Problem((StepOptions("a", (option("x", "-1", 0.5, 1.0),)),)), "cost_usd: -1 is not allowed; it is 0 to"),
        (Problem((StepOptions("a", (option("x", "NaN", 0.5, 1.0),)),)), "cost_usd: NaN is not allowed"),
        (
            Problem((StepOptions("a", (option("x", "1", 0.5, -1.0),)),)),
            "latency_s: -1.0 is not allowed; it is at least",
        ),
        (
            Problem((StepOptions("a", ONE),), Limits(quality_floor=1.5)),
            "quality_floor: 1.5 is not allowed; it is 0 to 1",
        ),
        (Problem((StepOptions("a", ONE),), Limits(latency_s=-1)), "latency_s: -1 is not allowed"),
        (Problem((StepOptions("a", ONE),), Limits(budget_usd=Decimal(-1))), "budget_usd: -1 is not allowed"),
        (Problem((StepOptions("a", ONE),), reserved_usd=Decimal("-0.5")), "reserved_usd: -0.5 is not allowed"),
        (Problem((StepOptions("a", ONE),), around_s=float("inf")), "around_s: inf is not allowed"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(problem: Problem, message: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        assign(problem)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"time_limit_s": 0.0}, "time_limit_s: 0.0 is not allowed; it is above 0 seconds"),
        ({"gap_share": 1.0}, "gap_share: 1.0 is not allowed; it is at least 0 and below 1"),
    ],
)
def test_a_time_limit_or_gap_that_makes_no_sense_is_refused(how: dict[str, float], message: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        assign(Problem(STEPS), **how)  # type: ignore[arg-type]
    assert str(raised.value) == message
