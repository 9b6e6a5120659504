"""What a fleet of agents costs: agents × tasks a day × tokens a task × days, for those who have no records yet.

In: a `Fleet`, configurations, a price basis. Out: a `Page`. Invariant: each task is one request, so that its size
decides about context tiers; tokens are whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from reports.page import Cell, Chart, Column, Fact, Money, Note, Page, Table, change_share
from reports.price_facts import basis_facts, priced_facts, refuse_unpriced, retired_notes
from reports.repricing import Basis, Repriced, reprice
from reports.workload import Split, totals_by_hand
from router.errors import WrongUsage
from router.settings import ConfigurationSettings


@dataclass(frozen=True, slots=True)
class Fleet:
    """Agents at work.

    Args:
        agents: how many, 1 or more.
        tasks_per_day: tasks of each agent a day, 1 or more.
        output_tokens_per_task: generated tokens of each task.
        input_tokens_per_task: all input tokens of each task, cached included; None: not given, priced as 0.
        cached_tokens_per_task: the part of them that a cache serves.
        days: days at work, 1 or more.
    """

    agents: int
    tasks_per_day: int
    output_tokens_per_task: int
    input_tokens_per_task: int | None = None
    cached_tokens_per_task: int = 0
    days: int = 30

    def __post_init__(self) -> None:
        """Refuse a fleet that does nothing.

        Raises:
            WrongUsage: a number is out of its bounds.
        """
        for name in ("agents", "tasks_per_day", "days"):
            if getattr(self, name) < 1:
                option = f"--{name.replace('_', '-')}"
                message = f"{option}: {getattr(self, name)} is not allowed; 1 or more is"
                raise WrongUsage(message, hint="router fleet --agents 100 --tasks-per-day 50 --days 30 …")
        for name in ("output_tokens_per_task", "input_tokens_per_task", "cached_tokens_per_task"):
            if (getattr(self, name) or 0) < 0:
                option = f"--{name.replace('_', '-')}"
                message = f"{option}: {getattr(self, name)} is not allowed; 0 or more is"
                raise WrongUsage(message, hint=f"{option} 2048")

    @property
    def tasks(self) -> int:
        """All tasks of the days."""
        return self.agents * self.tasks_per_day * self.days


def fleet_page(
    fleet: Fleet,
    configurations: Mapping[str, ConfigurationSettings],
    basis: Basis,
    at: datetime,
    *,
    split: Split | None = None,
    time_zone: str = "UTC",
) -> Page:
    """Return the page of what a fleet costs under configurations.

    Args:
        fleet: the fleet.
        configurations: by name, the one the others are compared with first; one or more.
        basis: the prices.
        at: aware instant of the prices.
        split: how the tasks are split between orchestrator and worker; None: they need no plan.
        time_zone: IANA name.

    Raises:
        RouterError: a model has no price.
        WrongUsage: a configuration names a model that nobody knows; more is cached than goes in.
        FxError: an amount cannot be converted.
    """
    portions = totals_by_hand(
        input_tokens=fleet.input_tokens_per_task or 0,
        cached_tokens=fleet.cached_tokens_per_task,
        output_tokens=fleet.output_tokens_per_task,
        at=at,
        split=split,
        requests=fleet.tasks,
    )
    priced = [reprice(name, rule, portions, basis) for name, rule in configurations.items()]
    refuse_unpriced(sorted({line.model for each in priced for line in each.unpriced}), basis)
    currency = basis.exchange.currency
    return Page(
        name="fleet",
        title=f"A fleet of agents over {fleet.days} days",
        parameters=(*_facts(fleet), *basis_facts(basis)),
        tables=(_costs(fleet, priced, currency), _tokens(fleet)),
        notes=(
            *_notes(fleet, tuple(configurations), split),
            *retired_notes({model: at for each in priced for model, at in each.retired.items()}),
        ),
        footer=(
            Fact("rows_counted", "rows counted", 0, "count"),
            *priced_facts(basis, priced[0].name, time_zone),
        ),
        charts=(
            Chart(
                name="cost",
                title=f"Cost over {fleet.days} days, {currency}",
                kind="bars",
                table="fleet",
                x="configuration",
                y=("cost",),
                description="One bar for each configuration: what the whole fleet costs.",
            ),
        ),
    )


def _costs(fleet: Fleet, priced: Sequence[Repriced], currency: str) -> Table:
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("cost", f"Cost, {currency}", "money"),
        Column("cost_per_task", f"Per task, {currency}", "money"),
        Column("cost_per_agent", f"Per agent, {currency}", "money"),
        Column("savings", f"Savings, {currency}", "money"),
        Column("change_share", "Change", "change"),
    )
    costs = [sum((line.amount for line in each.lines if line.amount is not None), Fraction(0)) for each in priced]
    rows: list[tuple[Cell, ...]] = []
    for each, cost in zip(priced, costs, strict=True):
        amounts = (cost, cost / fleet.tasks, cost / fleet.agents, costs[0] - cost)
        change = change_share(cost - costs[0], costs[0])
        rows.append((each.name, *(Money(amount, currency) for amount in amounts), change))
    return Table("fleet", f"Cost over {fleet.days} days", columns, tuple(rows))


def _tokens(fleet: Fleet) -> Table:
    columns = (
        Column("kind", "Tokens", "text"),
        Column("per_task_tokens", "Per task", "tokens"),
        Column("total_tokens", "In all", "tokens"),
    )
    kinds = (
        ("input", fleet.input_tokens_per_task),
        ("of them cached", fleet.cached_tokens_per_task if fleet.input_tokens_per_task is not None else None),
        ("output", fleet.output_tokens_per_task),
    )
    rows = tuple((name, count, None if count is None else count * fleet.tasks) for name, count in kinds)
    return Table("tokens", "Tokens", columns, rows)


def _facts(fleet: Fleet) -> tuple[Fact, ...]:
    return (
        Fact("agents", "agents", fleet.agents, "count"),
        Fact("tasks_per_day", "tasks a day of each", fleet.tasks_per_day, "count"),
        Fact("days", "days", fleet.days, "count"),
        Fact("tasks", "tasks", fleet.tasks, "count"),
    )


def _notes(fleet: Fleet, names: tuple[str, ...], split: Split | None) -> tuple[Note, ...]:
    notes = []
    if fleet.input_tokens_per_task is None:
        text = "no input tokens are given, so output alone is priced: --input-tokens-per-task N adds them"
        notes.append(Note("warning", text))
    if len(names) > 1:
        options = [f"--requests {fleet.tasks}", f"--output-tokens {fleet.output_tokens_per_task}"]
        if fleet.input_tokens_per_task is not None:
            options.append(f"--input-tokens {fleet.input_tokens_per_task}")
        if fleet.cached_tokens_per_task:
            options.append(f"--cached-tokens {fleet.cached_tokens_per_task}")
        if split is not None:
            options.append(f"--calls {split.orchestrator}:{split.worker}")
        text = "when it pays back: router roi --baseline {one} --configuration {other} {options}"
        values = {"one": names[0], "other": names[1], "options": " ".join(options)}
        notes.append(Note("note", text, {name: (value, "text") for name, value in values.items()}))
    return tuple(notes)
