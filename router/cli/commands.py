"""The commands of `router` by name, each loaded when it is called: help alone needs none of their modules.

In: a name. Out: the command. Invariant: what a place says of its command is the first sentence of the command's own
help; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from router.cli.checked_command import CheckedCommand


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is.

    Args:
        module: the module of `router.cli`.
        attribute: its function, or its `typer.Typer` where it has commands of its own.
        about: the first sentence of its help.
        takes_month: whether a bare `--month` of its own is this month.
    """

    module: str
    attribute: str
    about: str
    takes_month: bool = False


PLACES: Mapping[str, Place] = {
    "run": Place("run", "run", "Do a task: the answer goes to stdout, progress and receipt to stderr."),
    "plan": Place(
        "plan",
        "plan",
        "Show a task's plan before a cent is spent: model, expected cost, latency and quality of each step, the total.",
    ),
    "runs": Place("runs", "runs_app", "The runs on record: list, show, resume, cancel."),
    "explain": Place(
        "explain",
        "explain",
        "Show every candidate for a task with its expected tokens, cost, quality and latency, and why it lost.",
    ),
    "report": Place(
        "report",
        "report",
        "Report a month of the ledger: cost, change, tokens, overhead, success, latency, and what was unusual.",
        takes_month=True,
    ),
    "compare": Place(
        "compare",
        "compare",
        "Price the same work under several configurations, on the ledger's month or on totals given by hand.",
        takes_month=True,
    ),
    "diff": Place(
        "diff",
        "diff",
        "Set two months, or two configurations over one month, side by side, and fail where the new one costs too "
        "much.",
        takes_month=True,
    ),
    "whatif": Place(
        "whatif",
        "whatif",
        "Price a month of the ledger again under a scenario: before, after, and where the difference comes from.",
        takes_month=True,
    ),
    "roi": Place(
        "roi",
        "roi",
        "Say when a switch pays back: a month's savings with their interval, payback, ROI, net present value, "
        "break-even.",
        takes_month=True,
    ),
    "fleet": Place(
        "fleet",
        "fleet",
        "Price a fleet of agents: agents × tasks a day × tokens a task × days, under several configurations.",
    ),
    "backtest": Place(
        "backtest",
        "backtest",
        "Forecast past months from what was known on days 5, 10 and 17: error and interval coverage, beside run-rate.",
    ),
    "forecast": Place("forecast", "forecast_app", "Forecasts held against what came: check."),
    "reconcile": Place(
        "reconcile",
        "reconcile",
        "Hold a vendor's bill against the ledger: the difference by token class, day and model, and what is "
        "unexplained.",
    ),
    "init": Place("config", "init", "Write a commented router.toml to start from."),
    "sandbox": Place(
        "sandbox",
        "sandbox",
        "Run a local OpenAI-compatible server that answers deterministically, counts tokens, and fails on request.",
    ),
    "demo": Place(
        "demo",
        "demo",
        "Route 30 tasks and a 100-worker swarm through a stand-in server; print receipts, reports, and write a page.",
    ),
    "case": Place("case", "case_app", "Business cases: freeze a promise, review what became of it."),
    "budget": Place("budget", "budget_app", "Monthly budgets: set, list, show, check, remove."),
    "import": Place("import_", "import_app", "Take records of others into the ledger."),
    "export": Place("export", "export_app", "Export the ledger: FOCUS 1.2, or every call."),
    "ledger": Place("ledger", "ledger_app", "The ledger itself: verify, rebuild, prune."),
    "prices": Place("prices", "prices_app", "Look at the price catalogue, and hold it against others'."),
    "topics": Place("topics", "topics_app", "What agents have told one another: list, show, prune."),
    "state": Place("state", "state_app", "State that agents share: show."),
    "tools": Place("tools", "tools_app", "Tools of MCP servers: list, approve, check, call."),
    "fx": Place("fx", "fx_app", "Exchange rates: list, set, import."),
    "config": Place("config", "config_app", "Check what is set."),
}
"""In the order of the help."""


def load_command(name: str) -> Any:
    """Return a command, its module loaded.

    Args:
        name: a key of `PLACES`.
    """
    place = PLACES[name]
    found = getattr(import_module(f"router.cli.{place.module}"), place.attribute)
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        for each in found.registered_commands:
            each.cls = each.cls if each.cls and issubclass(each.cls, CheckedCommand) else CheckedCommand
        holder.add_typer(found, name=name)
        return cast("TyperGroup", get_command(holder)).commands[name]
    if place.takes_month:
        from router.cli.month_option import MonthCommand

        holder.command(name, cls=MonthCommand)(found)
    else:
        holder.command(name, cls=CheckedCommand)(found)
    return get_command(holder)


class LazyGroup(TyperGroup):
    """The group of all commands: it lists them from their places, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        """Take what typer gives a group, and put what is known of each command in the place of the commands."""
        super().__init__(**settings)
        known = {name: TyperCommand(name, help=place.about) for name, place in PLACES.items()}
        self.commands = {**known, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the loaded command and what is left of the arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name is not None and name in PLACES else command, rest
