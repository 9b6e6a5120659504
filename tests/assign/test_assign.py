"""What an assignment is, by cases worked out by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from router.assign import Assignment, Limits, Option, Problem, StepOptions, assign
from router.assign.found import Found
from router.assign.solve import cheapest_of_equals
from router.assign.standing import standing
from router.assign.table import tabled
from router.assign.terms import Deadline, Terms


def option(key: str, cost: str, quality: float | None = None, latency_s: float | None = None) -> Option:
    return Option(key, Decimal(cost), quality, latency_s)


def keys(found: Assignment) -> list[str]:
    return [each.key for each in found.choices.values()]


def two_steps(limits: Limits, **around: object) -> Problem:
    """Draft (weight 1), then check (weight 3), each with a cheap and slow, and a dear and fast model."""
    draft = (option("mini", "0.10", 0.6, 4.0), option("max", "1.00", 0.9, 1.0))
    check = (option("mini", "0.20", 0.7, 6.0), option("max", "0.90", 0.8, 2.0))
    steps = (StepOptions("draft", draft), StepOptions("check", check, ("draft",), 3.0))
    return Problem(steps, limits, **around)  # type: ignore[arg-type]


def test_without_limits_each_step_takes_its_cheapest() -> None:
    found = assign(two_steps(Limits()))
    assert keys(found) == ["mini", "mini"]
    assert found.cost_usd == Decimal("0.30")
    assert found.quality == pytest.approx((0.6 + 3 * 0.7) / 4)
    assert found.latency_s == 10.0
    assert (found.gap_share, found.bound_usd, found.is_proven) == (0.0, Decimal("0.30"), True)
    assert list(found.choices) == ["draft", "check"]


# mini+mini: 0.30 USD, 0.675, 10 s · max+mini: 1.20, 0.75, 7 s · mini+max: 1.00, 0.75, 6 s · max+max: 1.90, 0.825, 3 s
@pytest.mark.parametrize(
    ("limits", "chosen", "cost"),
    [
        (Limits(quality_floor=0.675), ["mini", "mini"], "0.30"),
        (Limits(quality_floor=0.7), ["mini", "max"], "1.00"),
        (Limits(quality_floor=0.75), ["mini", "max"], "1.00"),
        (Limits(quality_floor=0.76), ["max", "max"], "1.90"),
        (Limits(latency_s=10), ["mini", "mini"], "0.30"),
        (Limits(latency_s=9.9), ["mini", "max"], "1.00"),
        (Limits(latency_s=5), ["max", "max"], "1.90"),
        (Limits(quality_floor=0.7, latency_s=8, budget_usd=Decimal("1.00")), ["mini", "max"], "1.00"),
    ],
)
def test_least_cost_under_limits(limits: Limits, chosen: list[str], cost: str) -> None:
    for is_exact in (True, False):
        found = assign(two_steps(limits), gap_share=0.0, is_exact=is_exact)
        assert keys(found) == chosen
        assert found.cost_usd == Decimal(cost)


@pytest.mark.parametrize(
    ("budget", "chosen"), [("0.30", ["mini", "mini"]), ("1.19", ["mini", "max"]), ("1.90", ["max", "max"])]
)
def test_best_quality_within_a_budget_and_of_equals_the_cheapest(budget: str, chosen: list[str]) -> None:
    found = assign(two_steps(Limits(budget_usd=Decimal(budget))), objective="quality", gap_share=0.0)
    assert keys(found) == chosen
    assert found.bound_quality == pytest.approx(found.quality)
    # 1.20 USD would buy max+mini too: as good, but dearer.
    dearer = assign(two_steps(Limits(budget_usd=Decimal("1.20"))), objective="quality", gap_share=0.0)
    assert keys(dearer) == ["mini", "max"]


def test_what_was_found_for_quality_is_made_as_cheap_as_it_can_be() -> None:
    terms = Terms(Deadline.after(20), 0.0, is_exact=True)
    table = tabled(two_steps(Limits(budget_usd=Decimal("1.20"))), "quality")
    dear = Found(table, "quality", standing(table, (1, 0)), 0.75, "exact")  # max+mini, 1.20 USD
    found = cheapest_of_equals(dear, terms).choice
    assert found is not None
    assert (found.picks, found.units) == ((0, 1), 100)  # mini+max, in cents


def test_what_is_reserved_and_what_goes_around_count_against_the_limits() -> None:
    limits = Limits(latency_s=9, budget_usd=Decimal("1.25"))
    found = assign(two_steps(limits, reserved_usd=Decimal("0.25"), around_s=3.0))
    assert keys(found) == ["mini", "max"]  # 6 s + 3 s, 1.00 + 0.25 USD: both just held
    assert (found.cost_usd, found.latency_s) == (Decimal("1.25"), 9.0)


def test_unknown_quality_is_out_where_the_step_has_others_and_left_out_of_the_mean_where_not() -> None:
    steps = (
        StepOptions("a", (option("untold", "0.01"), option("known", "0.50", 0.9))),
        StepOptions("b", (option("one", "0.07"), option("two", "0.02")), weight=9.0),
    )
    plain = assign(Problem(steps))
    assert keys(plain) == ["untold", "two"]
    assert (plain.quality, plain.unknown_quality) == (None, 2)
    floored = assign(Problem(steps, Limits(quality_floor=0.9)))
    assert keys(floored) == ["known", "two"]
    assert (floored.quality, floored.unknown_quality) == (0.9, 1)
    assert keys(assign(Problem(steps), objective="quality")) == ["known", "two"]


def test_unknown_latency_is_out_where_the_step_has_others_and_else_counted() -> None:
    steps = (
        StepOptions("a", (option("untold", "0.01"), option("known", "0.50", None, 2.0))),
        StepOptions("b", (option("one", "0.02"),), ("a",)),
    )
    plain = assign(Problem(steps))
    assert (keys(plain), plain.latency_s, plain.unknown_latency) == (["untold", "one"], None, 2)
    limited = assign(Problem(steps, Limits(latency_s=5)))
    assert (keys(limited), limited.latency_s, limited.unknown_latency) == (["known", "one"], 2.0, 1)


def test_costs_are_added_exactly_however_far_apart_they_are() -> None:
    steps = tuple(
        StepOptions(str(number), (option("only", cost),))
        for number, cost in enumerate(("1000.01", "0.0000001", "3E-28", "0.1", "0.2"))
    )
    found = assign(Problem(steps, reserved_usd=Decimal("1E-31")))
    # 1000.01 + 0.3 + 0.0000001: 7 decimals; the 3 is the 28th, the 1 the 31st.
    assert found.cost_usd == Decimal("1000.3100001" + 20 * "0" + "3" + "001")


def test_a_cheap_step_is_not_lost_beside_a_dear_one() -> None:
    steps = (
        StepOptions("dear", (option("a", "999", 0.5, 1.0), option("b", "1000", 0.9, 1.0))),
        StepOptions("cheap", (option("a", "0.0000003", 0.5, 9.0), option("b", "0.0000004", 0.5, 1.0)), ("dear",)),
    )
    assert keys(assign(Problem(steps, Limits(0.7, 10.0)), gap_share=0.0)) == ["b", "a"]


def test_of_equal_options_the_better_then_the_faster_then_the_first_is_taken() -> None:
    options = (
        option("unknown", "1"),
        option("worse", "1", 0.5, 1.0),
        option("slow", "1", 0.6, 9.0),
        option("first", "1", 0.6, 2.0),
        option("second", "1", 0.6, 2.0),
    )
    assert keys(assign(Problem((StepOptions("a", options),)))) == ["first"]


def test_a_dependency_may_point_at_a_later_step_and_be_named_twice() -> None:
    steps = (
        StepOptions("last", (option("x", "1", 0.5, 1.0),), ("first", "first")),
        StepOptions("first", (option("x", "1", 0.5, 2.0), option("y", "9", 0.5, 1.0))),
    )
    assert assign(Problem(steps)).latency_s == 3.0
    assert keys(assign(Problem(steps, Limits(latency_s=2.5)))) == ["x", "y"]


def test_free_options_and_no_time_at_all_divide_by_nothing() -> None:
    steps = (StepOptions("a", (option("free", "0", 0.5, 0.0), option("paid", "1", 0.9, 0.0))),)
    assert keys(assign(Problem(steps, Limits(0.5, 0.0, Decimal(0))))) == ["free"]
    assert keys(assign(Problem(steps, Limits(0.9, 0.0)), gap_share=0.0)) == ["paid"]
