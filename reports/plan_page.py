"""The page of a plan before it is paid: every call with its model, cost, latency and quality, and the total.

In: a `PlanEstimate`. Out: a `Page`. Invariant: amounts are exact, unknown figures stay unknown, and what is only
expected says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from reports.frontier import Point, beaten_by
from reports.page import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Panel, Table
from router.assign import Assignment
from router.plan_estimate import CallEstimate, PlanEstimate

_DIGITS = 10**6
_CALLS = (
    Column("call", "step", "text"),
    Column("depends_on", "after", "text"),
    Column("task_class", "class", "text"),
    Column("model", "model", "text"),
    Column("endpoint", "endpoint", "text"),
    Column("effort", "effort", "text", optional=True),
    Column("input_tokens", "in", "tokens"),
    Column("output_tokens", "out", "tokens"),
    Column("cost_usd", "cost USD", "money"),
    Column("cost_low_usd", "10 %", "money"),
    Column("cost_high_usd", "90 %", "money"),
    Column("quality_bound_share", "quality", "share"),
    Column("latency_ms", "latency ms", "duration_ms"),
    Column("why", "why", "text"),
)
_PANELS = (
    Panel("Who does what", ("depends_on", "task_class", "model", "effort", "why")),
    Panel(
        "What it is expected to cost", ("input_tokens", "output_tokens", "cost_usd", "cost_low_usd", "cost_high_usd")
    ),
    Panel("How good, how long, where", ("quality_bound_share", "latency_ms", "endpoint")),
)
_FRONTIER = (
    Column("point", "point", "text"),
    Column("kind", "kind", "text"),
    Column("cost_usd", "cost USD", "money"),
    Column("quality_share", "quality", "share"),
    Column("latency_ms", "path ms", "duration_ms"),
    Column("models", "models", "text"),
)
_KINDS = {
    "fixed": "each role's own model",
    "by_class": "step by step, the cheapest that is good enough",
    "by_plan": "all steps together",
    "candidates": "step by step, the cheapest of those that were named",
}


def plan_page(estimate: PlanEstimate) -> Page:
    """Return the page of a plan.

    Args:
        estimate: the plan with what is expected of it.
    """
    tables = [_calls(estimate)]
    charts: tuple[Chart, ...] = ()
    if estimate.frontier:
        tables.append(_frontier(estimate))
        charts = (_CHART,)
    state = "expected plan" if estimate.is_expected else "plan"
    count = len(estimate.steps)
    return Page(
        name="plan",
        title=f"The {state} of {count} step{'s' * (count != 1)} under {estimate.configuration}",
        parameters=(Fact("configuration", "configuration", estimate.configuration), *_limits(estimate)),
        tables=tuple(tables),
        notes=tuple(_notes(estimate)),
        footer=tuple(_footer(estimate)),
        charts=charts,
    )


_CHART = Chart(
    name="frontier_plane",
    title="Quality against cost of the whole plan",
    kind="points",
    table="frontier",
    x="cost_usd",
    y=("quality_share",),
    group="kind",
    label="point",
    description="Each point is one way of putting models on the steps; to the right it costs more, above it is better.",
)


def _calls(estimate: PlanEstimate) -> Table:
    cost = estimate.cost
    rows = tuple(_row(each) for each in estimate.rows)
    inputs = sum(each.decision.chosen.input_tokens for each in estimate.rows)
    outputs = sum(each.decision.chosen.output_tokens[1] for each in estimate.rows)
    total = (
        *("total", None, None, f"{len(rows)} calls", None, None, inputs, outputs),
        *_ends(cost.expected_usd if cost else None, cost.low_usd if cost else None, cost.high_usd if cost else None),
        _share(estimate.quality),
        _milliseconds(estimate.latency_s),
        None,
    )
    return Table("calls", "calls", _CALLS, rows, total, _PANELS)


def _row(call: CallEstimate) -> tuple[Cell, ...]:
    chosen, cost = call.decision.chosen, call.cost
    return (
        call.name,
        ", ".join(call.step.depends_on) or None if call.step else None,
        call.decision.task_class,
        chosen.model,
        chosen.endpoint,
        chosen.effort,
        chosen.input_tokens,
        chosen.output_tokens[1],
        *_ends(cost.expected_usd if cost else None, cost.low_usd if cost else None, cost.high_usd if cost else None),
        _share(chosen.quality_bound) if call.step else None,
        _milliseconds(call.latency_s),
        call.why,
    )


def _ends(*amounts: Decimal | None) -> tuple[Cell, ...]:
    return tuple(_usd(amount) for amount in amounts)


def _frontier(estimate: PlanEstimate) -> Table:
    """Return the frontier, and this plan among its points."""
    own = Point("this plan", "this plan", Fraction(estimate.assignment.cost_usd), _fraction(estimate.quality))
    points = [
        Point(f"{number}", "frontier", Fraction(each.cost_usd), _fraction(each.quality))
        for number, each in enumerate(estimate.frontier, 1)
    ]
    kept = [point for point, rival in zip(points, beaten_by(points), strict=True) if rival is None]
    by_name = {f"{number}": each for number, each in enumerate(estimate.frontier, 1)}
    rows = [_point(point, by_name[point.name]) for point in kept]
    if estimate.cost is not None:
        rows.append(_point(own, estimate.assignment))
    return Table("frontier", "frontier of cost and quality", _FRONTIER, tuple(rows))


def _point(point: Point, assignment: Assignment) -> tuple[Cell, ...]:
    counts: dict[str, int] = {}
    for option in assignment.choices.values():
        name = option.key.replace("@-", "")
        counts[name] = counts.get(name, 0) + 1
    models = ", ".join(f"{count} × {name}" for name, count in sorted(counts.items(), key=lambda each: -each[1]))
    cost = None if point.cost is None else Money(point.cost, "USD")
    return (point.name, point.kind, cost, point.quality, _milliseconds(assignment.latency_s), models)


def _limits(estimate: PlanEstimate) -> Iterator[Fact]:
    limits = estimate.limits
    if limits.quality_floor is not None:
        yield Fact("quality_floor", "quality floor", _share(limits.quality_floor), "share")
    if limits.latency_s is not None:
        yield Fact("latency_objective_ms", "latency objective ms", _milliseconds(limits.latency_s), "duration_ms")
    if limits.budget_usd is not None:
        yield Fact("budget_usd", "budget", _usd(limits.budget_usd), "money")


def _notes(estimate: PlanEstimate) -> Iterator[Note]:
    if estimate.problem is not None:
        yield Note("warning", f"{{problem}}{_what_it_is(estimate)}", {"problem": (estimate.problem, "text")})
    yield from _verdict(estimate)
    if estimate.saving_usd is not None and estimate.best_assignment is not None:
        held = "same quality bound" if estimate.kind == "fixed" else "same floors"  # a fixed pair has none of its own
        text = f"put on models together, the steps would cost {{less}} less at the {held} ({{cost}} in all)"
        values: dict[str, tuple[Cell, Kind]] = {
            "less": (_usd(estimate.saving_usd), "money"),
            "cost": (_usd(estimate.best_assignment.cost_usd), "money"),
        }
        yield Note("note", f"{text}: a configuration of kind by_plan does that", values)
    for words in estimate.notes:
        yield Note("note", "{words}", {"words": (words, "text")})


def _what_it_is(estimate: PlanEstimate) -> str:
    """Return what a plan is that cannot hold its limits; of another policy, it is what that policy says."""
    if estimate.kind != "by_plan":
        return ""
    if estimate.is_over_budget:
        return "; this is the cheapest plan, over the budget"
    return "" if estimate.is_budget_unpriced else "; this is the best that the budget allows"


def _verdict(estimate: PlanEstimate) -> Iterator[Note]:
    """Yield what is cheaper: the plan, or one call."""
    if estimate.is_worth_planning is None or estimate.single_cost is None:
        return
    amount: Cell = _usd(estimate.single_cost.expected_usd)
    verdict = "is worth planning" if estimate.is_worth_planning else "is cheaper in one call"
    yield Note("note", f"one call is expected to cost {{amount}}: the task {verdict}", {"amount": (amount, "money")})


def _footer(estimate: PlanEstimate) -> Iterator[Fact]:
    assignment, cost = estimate.assignment, estimate.cost
    yield Fact("policy", "decided", _KINDS[estimate.kind])
    if cost is not None:
        yield Fact("estimated_cost_usd", "estimated cost", _usd(cost.expected_usd), "money")
        yield Fact("estimated_low_usd", "one run in ten costs less than", _usd(cost.low_usd), "money")
        yield Fact("estimated_high_usd", "one in ten costs more than", _usd(cost.high_usd), "money")
    yield Fact("quality_bound_share", "weighted quality bound", _share(estimate.quality), "share")
    yield Fact("critical_path_ms", "critical path ms", _milliseconds(estimate.latency_s), "duration_ms")
    if estimate.kind == "by_plan":
        yield Fact("method", "method", assignment.method)
        yield Fact("gap_share", "at most from the best", _share(assignment.gap_share), "share")
    if estimate.run_id is not None:
        yield Fact("run_id", "run that goes on with it", estimate.run_id)
    priced = sum(row.cost is not None for row in estimate.rows)
    yield Fact("calls_counted", "calls", len(estimate.rows), "count")
    yield Fact("calls_unpriced", "calls without a known price", len(estimate.rows) - priced, "count")


def _usd(amount: Decimal | None) -> Cell:
    return None if amount is None else Money(Fraction(amount), "USD")


def _fraction(value: float | None) -> Fraction | None:
    return None if value is None else Fraction(value).limit_denominator(_DIGITS)


def _share(value: float | None) -> Cell:
    return _fraction(value)


def _milliseconds(seconds: float | None) -> Cell:
    return None if seconds is None else Fraction(seconds).limit_denominator(_DIGITS) * 1000
