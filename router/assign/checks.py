"""What a problem has to be before anything is solved.

In: a `Problem` and how it is to be solved. Out: nothing, or the first thing that is wrong. Invariant: what passes has
numbers that can be added and compared, names that are unique, and a graph that can be walked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal

from router.assign.problem import Limits, Option, Problem, StepOptions
from router.errors import WrongUsage

# A step's cost lies between these: wide enough for any price, narrow enough for exact sums of whole numbers.
_DEAREST_USD = Decimal(10**9)
_FINEST_DECIMALS = 60


def check_problem(problem: Problem) -> None:
    """Check a problem, whole.

    Raises:
        WrongUsage: no step, an id or key used twice, no option, a number that is none or out of range, a dependency
            that does not exist, or a cycle.
    """
    if not problem.steps:
        raise WrongUsage("steps: there are none; at least one is needed")
    _check_unique("steps: step id", (step.step_id for step in problem.steps))
    for step in problem.steps:
        _check_step(step)
    _check_limits(problem.limits)
    _check_cost("reserved_usd", problem.reserved_usd)
    _check_at_least_0("around_s", problem.around_s)
    walked(problem.steps)


def check_solving(*, time_limit_s: float, gap_share: float) -> None:
    """Check how a problem is to be solved.

    Raises:
        WrongUsage: a time limit that is not above 0, or a gap outside of 0 to 1.
    """
    if not (math.isfinite(time_limit_s) and time_limit_s > 0):
        raise WrongUsage(f"time_limit_s: {time_limit_s!r} is not allowed; it is above 0 seconds")
    if not 0 <= gap_share < 1:
        raise WrongUsage(f"gap_share: {gap_share!r} is not allowed; it is at least 0 and below 1")


def walked(steps: tuple[StepOptions, ...]) -> tuple[int, ...]:
    """Return the places of the steps, each after all it depends on; those that may come next in the problem's order.

    Raises:
        WrongUsage: a dependency that does not exist, or a cycle.
    """
    places = {step.step_id: place for place, step in enumerate(steps)}
    missing = [len(set(step.depends_on)) for step in steps]
    then: list[list[int]] = [[] for _ in steps]
    for place, step in enumerate(steps):
        for need in set(step.depends_on):
            if need not in places:
                raise WrongUsage(f"steps: step {step.step_id!r} depends on {need!r}, which does not exist")
            then[places[need]].append(place)
    order = [place for place, count in enumerate(missing) if not count]
    for place in order:
        for later in then[place]:
            missing[later] -= 1
            if not missing[later]:
                order.append(later)
    if len(order) < len(steps):
        names = [repr(step.step_id) for step, count in zip(steps, missing, strict=True) if count]
        raise WrongUsage(
            f"steps: {', '.join(names[:5])}{', …' if len(names) > 5 else ''} depend on each other in a cycle"
        )
    return tuple(order)


def _check_step(step: StepOptions) -> None:
    at = f"steps: step {step.step_id!r}"
    if not step.options:
        raise WrongUsage(f"{at}: it has no options; at least one is needed")
    if not (math.isfinite(step.weight) and step.weight > 0):
        raise WrongUsage(f"{at}: weight: {step.weight!r} is not allowed; it is above 0")
    _check_unique(f"{at}: option", (option.key for option in step.options))
    for option in step.options:
        if not _is_sound(option):
            _check_option(step, option)


def _is_sound(option: Option) -> bool:
    """Return whether nothing is wrong with an option; what is, `_check_option` says."""
    cost, quality, latency_s = option.cost_usd, option.quality, option.latency_s
    return (
        _is_cost(cost) and (quality is None or 0 <= quality <= 1) and (latency_s is None or 0 <= latency_s < math.inf)
    )


def _check_option(step: StepOptions, option: Option) -> None:
    at = f"steps: step {step.step_id!r}: option {option.key!r}"
    _check_cost(f"{at}: cost_usd", option.cost_usd)
    if option.quality is not None:
        _check_share(f"{at}: quality", option.quality)
    if option.latency_s is not None:
        _check_at_least_0(f"{at}: latency_s", option.latency_s)


def _check_limits(limits: Limits) -> None:
    if limits.quality_floor is not None:
        _check_share("quality_floor", limits.quality_floor)
    if limits.latency_s is not None:
        _check_at_least_0("latency_s", limits.latency_s)
    if limits.budget_usd is not None:
        _check_cost("budget_usd", limits.budget_usd)


def _check_cost(key: str, cost: Decimal) -> None:
    if not _is_cost(cost):
        allowed = f"it is 0 to {_DEAREST_USD} USD, with at most {_FINEST_DECIMALS} decimals"
        raise WrongUsage(f"{key}: {cost} is not allowed; {allowed}")


def _is_cost(cost: Decimal) -> bool:
    return cost.is_finite() and 0 <= cost <= _DEAREST_USD and -int(cost.as_tuple().exponent) <= _FINEST_DECIMALS


def _check_share(key: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise WrongUsage(f"{key}: {share!r} is not allowed; it is 0 to 1")


def _check_at_least_0(key: str, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise WrongUsage(f"{key}: {seconds!r} is not allowed; it is at least 0 seconds")


def _check_unique(key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise WrongUsage(f"{key} {name!r} is used twice; it has to be unique")
        seen.add(name)
