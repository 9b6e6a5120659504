"""What is asked of the optimizer: steps, the options of each, and what the whole has to hold.

In: values that the caller has made. Out: values. Invariant: nothing is worked out here, and nothing is checked:
`router.assign.checks` does that before anything is solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate for one step: a model at an endpoint with a reasoning effort.

    Args:
        key: its name, unique within its step, for instance "gpt-5.2@openai:high".
        cost_usd: its expected cost in USD, retries included, at least 0.
        quality: a cautious estimate of the share of such steps that it does well, 0 to 1; None: nothing is known.
        latency_s: how long it is expected to take, seconds, at least 0; None: not known.
    """

    key: str
    cost_usd: Decimal
    quality: float | None
    latency_s: float | None


@dataclass(frozen=True, slots=True)
class StepOptions:
    """One step of the plan.

    Args:
        step_id: its name, unique within the problem.
        options: what may do it, at least one.
        depends_on: the ids of the steps that have to end before it may start.
        weight: how much its quality counts in the plan's, above 0.
    """

    step_id: str
    options: tuple[Option, ...]
    depends_on: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What an assignment has to hold; None: no limit.

    Args:
        quality_floor: the least weighted mean quality, 0 to 1, over the steps whose quality can be known.
        latency_s: the longest critical path, seconds, `Problem.around_s` included.
        budget_usd: the most expected cost, USD, `Problem.reserved_usd` included.
    """

    quality_floor: float | None = None
    latency_s: float | None = None
    budget_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A plan to put models on.

    Args:
        steps: its steps, in any order; dependencies may point at later ones.
        limits: what the whole has to hold.
        reserved_usd: USD that are spent whatever is chosen: the planning call, the merge.
        around_s: seconds that are spent whatever is chosen: the planning call before, the merge after.
    """

    steps: tuple[StepOptions, ...]
    limits: Limits = Limits()
    reserved_usd: Decimal = Decimal(0)
    around_s: float = 0.0

    def without_limits(self) -> Problem:
        """Return the same plan, whose whole has nothing to hold."""
        return replace(self, limits=Limits())
