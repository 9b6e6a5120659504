"""Assignments: how good (against every choice, threshold rules, noisy estimates) and how fast.

    python -m benchmarks.assign [instances]     (from the project's root)

What is checked stands before what is timed. The instances are those of tests/assign/instances.py: 100 steps, 12 models,
the latency limit that of "sonnet" on every step; "tight" ones have a third of that slack over the fastest plan. The
time limit is 4 s; wall and CPU seconds are told, since the limit is one of wall time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from router.assign import Assignment, Infeasible, Problem, assign
from router.assign.infeasible import shortest_s
from tests.assign.every_choice import every_choice
from tests.assign.instances import SPREAD, Instance, instance, threshold_usd
from tests.assign.problems import made
from tests.assign.study import Measured, measured

STEPS, TIME_LIMIT_S, GAP = 100, 4.0, 0.005
SPREADS = (0.5, 1.0, 1.5, 2.0, 2.5)


def main() -> None:
    """Check, then print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    small()
    instances = [instance(seed) for seed in range(count)]
    assign(instances[0].problem)  # the solver is loaded
    study(instances)
    spreads(count)
    speed("as in the study", [each.problem for each in instances], must_hold=True)
    speed("tight", [tightened(each.problem) for each in instances], must_hold=False)
    large()


def small() -> None:
    """Compare with every choice of small plans: the exact answer, greedy, and what each takes."""
    exact_s, brute_s, greedy_over = [], [], []
    for seed in range(20):
        problem = made(seed)
        begun = time.process_time()
        every = every_choice(problem)
        latency_s = float(statistics.quantiles(every.latency_s.ravel()[::97], n=4)[0])
        in_time = every.latency_s <= latency_s + 1e-9
        floor = float(every.quality[in_time].max()) * 0.95
        least = int(every.cost_micro[in_time & (every.quality >= floor - 1e-9)].min())
        brute_s.append(time.process_time() - begun)
        problem = replace(problem, limits=replace(problem.limits, quality_floor=floor, latency_s=latency_s))
        begun = time.process_time()
        found = assign(problem, gap_share=0.0, time_limit_s=20)
        exact_s.append(time.process_time() - begun)
        assert int(found.cost_usd * 10**6) == least, seed
        greedy_over.append(float(assign(problem, is_exact=False).cost_usd) * 1e6 / least)
    print(f"8 steps x 4 models, 20 plans: the least cost of 65,536 choices each time; CPU ms: every choice "
          f"{1000 * statistics.median(brute_s):.0f}, ours {1000 * statistics.median(exact_s):.0f}; greedy costs "
          f"{statistics.median(greedy_over):.3f} x (most {max(greedy_over):.3f})")  # fmt: skip


def study(instances: Sequence[Instance]) -> None:
    """Print what the study measures, and hold it to its laws."""
    rows = [measured(each, seed) for seed, each in enumerate(instances)]
    print(f"{len(rows)} plans of {STEPS} steps x 12 models: least, median, most")
    for field in fields(Measured):
        values = [float(getattr(row, field.name)) for row in rows]
        print(f"  {field.name:18} {min(values):7.3f} {statistics.median(values):7.3f} {max(values):7.3f}")
    assert min(row.threshold for row in rows) >= 2
    assert min(row.cautious_quality for row in rows) >= 0.99


def spreads(count: int) -> None:
    """Print how the saving depends on how much the steps differ in difficulty."""
    for spread in SPREADS:
        ratios = []
        for seed in range(count):
            found = instance(seed, spread=spread)
            ratios.append(threshold_usd(found) / float(assign(found.problem).cost_usd))
        mark = " (the study)" if spread == SPREAD else ""
        print(f"  sd of difficulty {spread}: best threshold costs {min(ratios):.2f} to {max(ratios):.2f} x, "
              f"median {statistics.median(ratios):.2f}{mark}")  # fmt: skip


def tightened(problem: Problem) -> Problem:
    """Return the problem with a third of the slack that its latency limit leaves over the fastest plan."""
    fastest_s = shortest_s(problem)
    span_s = fastest_s + ((problem.limits.latency_s or 0.0) - fastest_s) / 3
    return replace(problem, limits=replace(problem.limits, latency_s=span_s))


def speed(name: str, problems: Sequence[Problem], *, must_hold: bool) -> None:
    """Print seconds and gaps of the exact way and of greedy."""
    exact = [timed(partial(assign, each, time_limit_s=TIME_LIMIT_S, gap_share=GAP)) for each in problems]
    quick = [timed(partial(assign, each, is_exact=False)) for each in problems]
    gaps = [found.gap_share or 0.0 for found, _, _ in exact if found is not None]
    over = [
        float(one.cost_usd / other.cost_usd)
        for (one, _, _), (other, _, _) in zip(quick, exact, strict=True)
        if one is not None and other is not None
    ]
    walls, cpus = [wall for _, wall, _ in exact], [cpu for _, _, cpu in exact]
    print(f"{name}: wall s {spread_of(walls)}, CPU s {spread_of(cpus)}, gap at most {max(gaps):.2%}, "
          f"{sum(gap > GAP for gap in gaps)} above {GAP:.1%}; greedy CPU s "
          f"{spread_of([cpu for _, _, cpu in quick])}, costs {statistics.median(over):.3f} x "
          f"(most {max(over):.3f})")  # fmt: skip
    if must_hold:
        assert max(gaps) <= GAP
        assert statistics.median(cpu for _, _, cpu in exact) <= 1.5
        assert statistics.median(cpu for _, _, cpu in quick) <= 0.2


def timed(work: Callable[[], Assignment]) -> tuple[Assignment | None, float, float]:
    """Return what the work returns, None where it found nothing, and its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        found = work()
    except Infeasible:
        found = None
    return found, time.perf_counter() - wall, time.process_time() - cpu


def spread_of(seconds: Sequence[float]) -> str:
    """Return median and 95th percentile as text."""
    ordered = sorted(seconds)
    return f"{statistics.median(ordered):.3f} (p95 {ordered[int(0.95 * (len(ordered) - 1) + 0.5)]:.3f})"


def large() -> None:
    """Print what a plan of 10,000 steps takes at the usual time limit."""
    found, wall, cpu = timed(lambda: assign(instance(1, 10_000).problem))
    assert found is not None
    print(f"10,000 steps, made and solved: wall s {wall:.1f}, CPU s {cpu:.1f}, solving {found.solve_s:.1f}, "
          f"{found.method}, gap {found.gap_share or 0:.2%}")  # fmt: skip


if __name__ == "__main__":
    main()
