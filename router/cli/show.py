"""Printing: pages of figures to a stream, receipts and decisions as pages.

In: values of `router`. Out: `Page`s, and text on a stream. Invariant: formatting is the renderers'.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from reports.page import Cell, Page
    from router.task import CallReceipt, Candidate, Decision, Estimate, Result


def print_page(page: Page, stream: TextIO | None = None) -> None:
    """Print a page as text, as wide as the terminal, in colour only on a terminal that wants it."""
    from reports.render import render
    from router.cli.output import printable_on

    out = stream or sys.stdout
    color = out.isatty() and not os.environ.get("NO_COLOR")
    text = render(page, "text", width=shutil.get_terminal_size((100, 24)).columns, color=color)
    out.write(printable_on(out, text))
    out.flush()


def receipt_page(result: Result) -> Page:
    """Return a run's receipt: a line per role and model, and the total."""
    from reports.page import Column, Fact, Note, Page, Table

    groups: dict[tuple[str, str], list[CallReceipt]] = {}
    for call in result.calls:
        groups.setdefault((call.role, call.model_served or call.model_asked), []).append(call)
    columns = (
        Column("role", "role", "text"),
        Column("model", "model", "text"),
        Column("calls", "calls", "count"),
        Column("attempts", "attempts", "count"),
        Column("failed", "failed", "count", optional=True),
        Column("input_tokens", "input", "tokens"),
        Column("cache_read_tokens", "cached", "tokens", optional=True),
        Column("output_tokens", "output", "tokens"),
        Column("settled_usd", "cost USD", "money"),
    )
    rows = tuple((role, model, *_sums(calls)) for (role, model), calls in groups.items())
    table = Table("receipt", "receipt", columns, rows, ("total", "", *_sums(result.calls)))
    notes = [Note("warning", warning) for warning in result.warnings]
    notes += [Note("warning", f"{call.step_id}: {call.error}") for call in result.calls if call.error]
    if result.replayed:
        notes.append(Note("note", "the answer was on record under its run key; nothing was called or paid"))
    cost = result.cost
    footer = (
        Fact("run_id", "run", result.run_id),
        Fact("configuration", "configuration", result.decision.configuration),
        Fact("status", "status", result.status),
        *(Fact("list_cost", "list cost", _money(amount, currency), "money") for currency, amount in cost.list_cost),
        *(Fact("settled_cost", "settled", _money(amount, currency), "money") for currency, amount in cost.settled_cost),
        Fact("calls_unpriced", "calls without a known cost", cost.unknown, "count"),
        Fact("calls_partial", "calls with a part unpriced", cost.partial, "count"),
        *(
            [Fact("possibly_billed_usd", "possibly billed besides", _money(cost.possibly_billed_usd), "money")]
            * bool(cost.possibly_billed_usd)
        ),
    )
    return Page("receipt", f"Receipt of run {result.run_id}", (), (table,), tuple(notes), footer)


def _sums(calls: Sequence[CallReceipt]) -> tuple[Cell, ...]:
    usages = [call.usage for call in calls if call.usage is not None]
    known = [call.settled_usd for call in calls if call.settled_usd is not None]
    whole = all(call.cost_status in {"exact", "estimated"} for call in calls if call.attempts)
    return (
        len(calls),
        sum(call.attempts for call in calls),
        sum(call.status != "succeeded" for call in calls),
        sum(usage.input_tokens for usage in usages) if usages else None,
        sum(usage.cache_read_tokens for usage in usages) if usages else None,
        sum(usage.output_tokens for usage in usages) if usages else None,
        _money(sum(known, Decimal(0)), lower_bound=not whole) if known else None,
    )


def _money(value: Decimal, currency: str = "USD", *, lower_bound: bool = False) -> Cell:
    from reports.page import Money

    return Money(Fraction(value), currency, lower_bound)


def decision_page(decision: Decision, estimate: Estimate | None, *, on_paper: bool) -> Page:
    """Return a decision: every candidate with its numbers, and why it lost.

    Args:
        decision: the decision.
        estimate: what the whole task is expected to cost, or None.
        on_paper: whether no endpoint is set, so that vendors' lists were compared.
    """
    from reports.page import Column, Fact, Note, Page, Table

    columns = (
        Column("model", "model", "text"),
        Column("endpoint", "endpoint", "text"),
        Column("price_list", "list", "text"),
        Column("input_tokens", "in", "tokens"),
        Column("output_tokens", "out", "tokens"),
        Column("cost_usd", "cost USD", "money"),
        Column("cost_low_usd", "10 %", "money"),
        Column("cost_high_usd", "90 %", "money"),
        Column("quality_share", "quality", "share"),
        Column("quality_bound_share", "bound", "share"),
        Column("latency_ms", "latency", "duration_ms"),
        Column("verdict", "verdict", "text"),
    )
    rows = tuple(_candidate_row(each) for each in decision.candidates)
    table = Table("candidates", "candidates", columns, rows)
    notes = [
        Note("warning", f"{each.model}: {each.warning}" if each.model not in each.warning else each.warning)
        for each in decision.candidates[:1]
        if each.warning
    ]
    if on_paper:
        notes.append(Note("note", "no endpoint has a key, so vendors' lists are compared; nothing could be sent"))
    if decision.class_source == "default":
        notes.append(Note("note", f"the text does not show its class; the default, {decision.task_class}, was taken"))
    floor = None if decision.quality_floor is None else Fraction(decision.quality_floor)
    footer = [
        Fact("configuration", "configuration", decision.configuration),
        Fact("policy_version", "policy", decision.policy_version),
        Fact("task_class", "class", f"{decision.task_class} ({decision.class_source})"),
        Fact("quality_floor", "quality floor", floor, "share"),
        Fact("chosen", "chosen", decision.chosen.model),
    ]
    if estimate is not None and estimate.cost is not None:
        footer.append(
            Fact("planned", "done as", f"a plan of {estimate.calls} calls" if estimate.planned else "one call")
        )
        footer.append(Fact("estimated_cost_usd", "estimated cost USD", _money(estimate.cost.expected_usd), "money"))
    return Page("decision", f"Decision for a {decision.role} call", (), (table,), tuple(notes), tuple(footer))


def _candidate_row(candidate: Candidate) -> tuple[Cell, ...]:
    cost = candidate.cost

    def share(value: float | None) -> Cell:
        return None if value is None else Fraction(value).limit_denominator(10**6)

    return (
        candidate.model,
        candidate.endpoint,
        candidate.price_list,
        candidate.input_tokens,
        candidate.output_tokens[1],
        _money(cost.expected_usd) if cost else None,
        _money(cost.low_usd) if cost else None,
        _money(cost.high_usd) if cost else None,
        share(candidate.quality_share),
        share(candidate.quality_bound),
        None if candidate.latency_s is None else Fraction(candidate.latency_s).limit_denominator(10**6) * 1000,
        candidate.lost or "chosen",
    )
