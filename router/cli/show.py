"""Printing: pages of figures to a stream, receipts and decisions as pages.

In: values of `router`. Out: `Page`s, and text on a stream. Invariant: formatting is the renderers'.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.page import Cell, Page
    from router.result import CallReceipt, Candidate, Decision, Estimate, Result


def print_page(page: Page, *, is_talk: bool = False) -> None:
    """Print a page as text, as wide as the terminal, in colour only on a terminal that wants it.

    Args:
        page: the page.
        is_talk: whether it goes to standard error.
    """
    from reports.render import render
    from router.cli.output import put, say

    color = (sys.stderr if is_talk else sys.stdout).isatty() and not os.environ.get("NO_COLOR")
    text = render(page, "text", width=shutil.get_terminal_size((100, 24)).columns, color=color)
    if is_talk:
        say(text.removesuffix("\n"))
    else:
        put(text)


def result_page(result: Result) -> Page:
    """Return the receipt of a run that has a result."""
    configuration = result.decision.configuration
    return receipt_page(
        result.calls, result.run_id, configuration, result.status, result.warnings, replayed=result.replayed
    )


def receipt_page(
    calls: Sequence[CallReceipt],
    run_id: str,
    configuration: str,
    status: str,
    warnings: Sequence[str] = (),
    *,
    replayed: bool = False,
) -> Page:
    """Return a run's receipt: a line per role and model, and the total.

    Args:
        calls: the receipts of its calls.
        run_id: the run.
        configuration: the configuration's name.
        status: how it ended: "succeeded", "partial", "failed" or "stopped".
        warnings: what the caller should know of.
        replayed: whether it is an earlier run's, and nothing was called.
    """
    from reports.page import Column, Fact, Note, Page, Table
    from router.receipt import cost_of

    groups: dict[tuple[str, str], list[CallReceipt]] = {}
    for call in calls:
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
    rows = tuple((role, model, *_sums(made)) for (role, model), made in groups.items())
    table = Table("receipt", "receipt", columns, rows, ("total", "", *_sums(calls)))
    notes = [Note("warning", warning) for warning in warnings]
    notes += [Note("warning", f"{call.step_id or call.role}: {call.error}") for call in calls if call.error]
    if replayed:
        notes.append(Note("note", "the answer was on record; nothing was called or paid"))
    cost = cost_of(calls)
    footer = (
        Fact("run_id", "run", run_id),
        Fact("configuration", "configuration", configuration),
        Fact("status", "status", status),
        *(Fact("list_cost", "list cost", _money(amount, currency), "money") for currency, amount in cost.list_cost),
        *(Fact("settled_cost", "settled", _money(amount, currency), "money") for currency, amount in cost.settled_cost),
        Fact("calls_unpriced", "calls without a known cost", cost.unknown, "count"),
        Fact("calls_partial", "calls with a part unpriced", cost.partial, "count"),
        *(
            [Fact("possibly_billed_usd", "possibly billed besides", _money(cost.possibly_billed_usd), "money")]
            * bool(cost.possibly_billed_usd)
        ),
    )
    return Page("receipt", f"Receipt of run {run_id}", (), (table,), tuple(notes), footer)


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
    if decision.extra:
        footer.append(Fact("extra", "body fields of the configuration", json.dumps(decision.extra, ensure_ascii=False)))
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
