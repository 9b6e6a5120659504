"""A plan with its models as a file that can be run again, and as a picture.

In: a `PlanEstimate`. Out: JSON text, Mermaid text. Invariant: `router run --plan FILE` takes the JSON as it is: what
was found stands under "assignment", which it passes over.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from router.plan_estimate import CallEstimate, PlanEstimate
    from router.result import Interval


def plan_json(estimate: PlanEstimate, task: str | None, options: dict[str, Any]) -> str:
    """Return the plan as JSON: its steps with what each is on, what was asked for, and what was found.

    Args:
        estimate: the plan with what is expected of it.
        task: the words of the task; None: it has none of its own.
        options: what else was asked for: fields of a plan's file.
    """
    document: dict[str, Any] = {} if task is None else {"task": task}
    document |= {key: _plain(value) for key, value in options.items() if value is not None}
    steps = estimate.plan.written()["steps"]
    found = {call.name: _call(call) for call in estimate.steps}
    document["merge"] = estimate.plan.merges
    document["steps"] = [
        {**{key: _plain(value) for key, value in each.items()}, "assignment": found[each["id"]]} for each in steps
    ]
    document["assignment"] = _whole(estimate)
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _call(call: CallEstimate) -> dict[str, Any]:
    chosen = call.decision.chosen
    return {
        "model": chosen.model,
        "endpoint": chosen.endpoint,
        "effort": chosen.effort,
        "cost_usd": _interval(call.cost),
        "quality_bound": chosen.quality_bound,
        "latency_s": call.latency_s,
        "input_tokens": chosen.input_tokens,
        "output_tokens": list(chosen.output_tokens),
        "why": call.why,
    }


def _whole(estimate: PlanEstimate) -> dict[str, Any]:
    assignment = estimate.assignment
    return {
        "configuration": estimate.configuration,
        "policy": estimate.kind,
        "is_expected": estimate.is_expected,
        "cost_usd": _interval(estimate.cost),
        "quality": estimate.quality,
        "latency_s": estimate.latency_s,
        "planning": None if estimate.planning is None else _call(estimate.planning),
        "merge": None if estimate.merge is None else _call(estimate.merge),
        "single_cost_usd": _interval(estimate.single_cost),
        "is_worth_planning": estimate.is_worth_planning,
        "method": assignment.method if estimate.kind == "by_plan" else None,
        "gap_share": assignment.gap_share if estimate.kind == "by_plan" else None,
        "saving_usd": None if estimate.saving_usd is None else _plain(estimate.saving_usd),
        "problem": estimate.problem,
        "is_over_budget": estimate.is_over_budget,
        "frontier": [
            {"cost_usd": _plain(each.cost_usd), "quality": each.quality, "latency_s": each.latency_s}
            for each in estimate.frontier
        ],
        "notes": list(estimate.notes),
        "run_id": estimate.run_id,
    }


def _interval(cost: Interval | None) -> list[str] | None:
    """Return low, expected and high end as decimal text."""
    return None if cost is None else [_plain(each) for each in (cost.low_usd, cost.expected_usd, cost.high_usd)]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value.normalize(), "f") if value else "0"
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def plan_mermaid(estimate: PlanEstimate) -> str:
    """Return the plan as a Mermaid flowchart: a box a call, with its model and expected cost."""
    names = {call.name: f"s{number}" for number, call in enumerate(estimate.steps)}
    lines = ["flowchart TD"]
    if estimate.planning is not None:
        lines.append(f"  plan{_box(estimate.planning)}")
    lines += [f"  {names[call.name]}{_box(call)}" for call in estimate.steps]
    for call in estimate.steps:
        before = call.step.depends_on if call.step else ()
        lines += [f"  {names[name]} --> {names[call.name]}" for name in before]
        if not before and estimate.planning is not None:
            lines.append(f"  plan --> {names[call.name]}")
    if estimate.merge is not None:
        needed = {name for call in estimate.steps if call.step for name in call.step.depends_on}
        lines.append(f"  merge{_box(estimate.merge)}")
        lines += [f"  {names[call.name]} --> merge" for call in estimate.steps if call.name not in needed]
    return "\n".join(lines) + "\n"


def _box(call: CallEstimate) -> str:
    chosen, cost = call.decision.chosen, call.cost
    effort = f" ({chosen.effort})" if chosen.effort else ""
    amount = "price not known" if cost is None else f"{cost.expected_usd:.6f} USD"
    words = [f"{call.name}: {call.decision.task_class}", f"{chosen.model}{effort}", amount]
    return f'["{"<br/>".join(_quoted(each) for each in words)}"]'


def _quoted(text: str) -> str:
    """Return a text that a box can hold, as Mermaid escapes it."""
    signs = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "\n": " ", "`": "#96;"}
    return "".join(signs.get(sign, sign) for sign in text)
