"""The door to the solver: silent, independent, done without where it is missing, bounded in time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from decimal import Decimal

import pytest

from router.assign import Assignment, Infeasible, Limits, Option, Problem, StepOptions, assign, frontier
from router.assign.exact import solve_exactly
from router.assign.table import tabled
from router.errors import WrongUsage
from tests.assign.instances import instance
from tests.assign.problems import made

# A plan that greedy does not prove: the solver is asked.
ASKED = replace(made(3), limits=Limits(0.75, 20.0))


def child(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)


SOLVE = """
from dataclasses import replace
from router.assign import Limits, assign
from tests.assign.problems import made
found = assign(replace(made(3), limits=Limits(0.75, 20.0)), gap_share=0.0)
"""


def test_nothing_is_printed_but_what_we_print() -> None:
    done = child(SOLVE + "print(found.method)")
    assert (done.stdout, done.stderr) == ("exact\n", "")


def test_without_the_solver_greedy_answers() -> None:
    done = child("import sys; sys.modules['highspy'] = None" + SOLVE + "print(found.method, found.is_proven)")
    assert (done.stdout, done.stderr) == ("greedy False\n", "")


@pytest.mark.parametrize("code", ["import router", "import router.assign", "import router.cli"])
def test_neither_the_solver_nor_numpy_loads_before_something_is_solved(code: str) -> None:
    done = child(f"{code}; import sys; print({{'highspy', 'numpy'}} & set(sys.modules))")
    assert done.stdout == "set()\n"


def test_two_solve_at_once_as_one_after_the_other() -> None:
    problems = [replace(made(seed), limits=Limits(0.72, 25.0)) for seed in (0, 1, 3, 5)]
    alone = [assign(problem, gap_share=0.0) for problem in problems]
    assert {found.method for found in alone} == {"exact"}
    together: dict[int, Assignment] = {}

    def solve(number: int) -> None:
        together[number] = assign(problems[number], gap_share=0.0)

    threads = [threading.Thread(target=solve, args=(number,)) for number in range(len(problems))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [dict(together[number].choices) for number in range(4)] == [dict(found.choices) for found in alone]


def test_what_the_solver_may_not_choose_again_it_does_not() -> None:
    table = tabled(ASKED, "cost")
    found: list[tuple[int, ...]] = []
    for _ in range(3):
        said = solve_exactly(table, "cost", begin=None, forbidden=found, time_limit_s=20, gap_share=0.0)
        assert said is not None
        assert said.columns is not None
        found.append(said.columns)
    costs = [sum(table.units[place][table.kept[place][column]] for place, column in enumerate(row)) for row in found]
    assert len(set(found)) == 3
    assert costs == sorted(costs)


def test_a_budget_is_kept_to_the_last_digit_where_the_solver_cannot_tell() -> None:
    # The dear pair is better and costs 1e-20 USD too much: less than any float of that size can show.
    steps = tuple(
        StepOptions(
            name,
            (
                Option("cheap", Decimal("0.3"), 0.50, 1.0),
                Option("just", Decimal("0.5"), 0.70, 1.0),
                Option("over", Decimal("0.50000000000000000001"), 0.71, 1.0),
            ),
        )
        for name in "abc"
    )
    found = assign(Problem(steps, Limits(budget_usd=Decimal("1.5"))), objective="quality", gap_share=0.0)
    assert [option.key for option in found.choices.values()] == ["just"] * 3
    assert found.cost_usd == Decimal("1.5")


def test_a_large_plan_ends_near_its_time_limit_with_an_answer_and_a_bound() -> None:
    problem = instance(1, 2000).problem
    assert problem.limits.latency_s is not None
    tight = replace(problem, limits=replace(problem.limits, latency_s=0.8 * problem.limits.latency_s))
    began = time.process_time()
    found = assign(tight, time_limit_s=0.5)
    assert time.process_time() - began < 5
    assert found.gap_share is not None
    assert found.gap_share < 0.05
    assert len(found.choices) == 2000


def test_no_answer_in_time_is_no_proof_that_there_is_none() -> None:
    table_needs_the_solver = replace(made(3), limits=Limits(0.846, 17.0))
    try:
        found = assign(table_needs_the_solver, is_exact=False)
    except Infeasible as error:
        assert "cannot" not in str(error)  # noqa: PT017 -- either end is right, and says what it knows
    else:
        assert found.quality is not None
        assert found.quality >= 0.846 - 1e-9


# Per step: 0.10 USD for 0.6 or 1.00 USD for 0.9. Of two equal steps: 0.20 → 0.60, 1.10 → 0.75, 2.00 → 0.90.
PAIR = Problem(
    tuple(
        StepOptions(name, (Option("low", Decimal("0.10"), 0.6, 1.0), Option("high", Decimal("1.00"), 0.9, 2.0)))
        for name in "ab"
    )
)


@pytest.mark.parametrize(
    ("limits", "points", "costs"),
    [
        (Limits(), 12, ["0.20", "1.10", "2.00"]),
        (Limits(), 2, ["0.20", "2.00"]),
        (Limits(quality_floor=0.9), 12, ["0.20", "1.10", "2.00"]),
        (Limits(budget_usd=Decimal("1.50")), 12, ["0.20", "1.10"]),
        (Limits(latency_s=1.5), 12, ["0.20"]),
    ],
)
def test_the_frontier_of_two_steps(limits: Limits, points: int, costs: list[str]) -> None:
    found = frontier(replace(PAIR, limits=limits), points=points)
    assert [each.cost_usd for each in found] == [Decimal(cost) for cost in costs]
    assert found[0].quality == pytest.approx(0.6)


def test_a_frontier_without_any_quality_is_the_cheapest_alone() -> None:
    steps = (StepOptions("a", (Option("x", Decimal(2), None, None), Option("y", Decimal(1), None, None))),)
    assert [each.cost_usd for each in frontier(Problem(steps))] == [1]


def test_a_frontier_of_one_point_is_refused() -> None:
    with pytest.raises(WrongUsage, match="points: 1 is not allowed; it is at least 2"):
        frontier(PAIR, points=1)
