"""`router runs`: the runs on record: list, show, resume, cancel.

In: options. Out: pages or JSON on stdout; the answer of a run that is resumed, as `router run` prints it. Invariant:
`list` and `show` change nothing; `resume` pays for no finished call again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import put, say
from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from decimal import Decimal

    from reports import Page
    from router.client import Router
    from router.progress import Watch
    from router.result import Result

LEAST_WIDTH = 160
"""Columns a page may take, however narrow the terminal, so that a run is a line."""
runs_app = typer.Typer(
    help="The runs on record: list, show, resume, cancel.", no_args_is_help=True, rich_markup_mode=None
)


class Status(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    STOPPED = "stopped"


RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as list, receipt and messages show it.")]


@runs_app.callback()
def runs() -> None:
    """The runs on record: list, show, resume, cancel."""


def put_wide(page: Page, form: ResultFormat) -> None:
    """Print a page whose rows are one line each."""
    import os
    import shutil
    import sys

    from reports.render import render

    width = max(shutil.get_terminal_size().columns, LEAST_WIDTH)
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    put(render(page, form.value, width=width, color=color), is_json=form is ResultFormat.JSON)


@runs_app.command("list")
def list_runs(
    *,
    status: Annotated[
        list[Status] | None, typer.Option("--status", help="Only those that stand so; repeatable.")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, help="How many, the newest first.")] = 20,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """List the last runs: how they stand, what they cost, and what they may have cost besides.

    Example: router runs list --status stopped --last 5
    """
    from router.cli.runs_page import list_page
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        states = ledger.run_reader.newest([each.value for each in status or ()], last)
    put_wide(list_page(states), form)


@runs_app.command("show")
def show(run: RunArgument, *, form: ResultOption = ResultFormat.TEXT) -> None:
    """Show one run: its steps, its calls, what is in flight or possibly billed, its tool calls.

    Example: router runs show 0199a1b2-…
    """
    from router.cli.runs_page import run_page
    from router.holding import unknown_run
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        state = ledger.run_reader.state(run)
        if state is None:
            raise unknown_run(ledger, run)
        page = run_page(state, ledger.run_reader.steps(run), ledger.reader.attempts(run), ledger.reader.tool_calls(run))
    put_wide(page, form)


@runs_app.command("resume")
def resume(
    run: RunArgument,
    *,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="In the place of its own, what it has spent before included, in USD."),
    ] = None,
    form: ResultOption = ResultFormat.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no receipt on stderr.")] = False,
) -> None:
    """Go on with a run that was stopped, killed, or succeeded only in part: what is finished is not paid again.

    Example: router runs resume 0199a1b2-… --budget 2
    """
    from router.cli.output import require_stdout
    from router.cli.stopping import run_until_stopped

    require_stdout()
    run_until_stopped(_resume(run, budget, is_json=form is ResultFormat.JSON, is_quiet=quiet))


async def _resume(run: str, budget: str | None, *, is_json: bool, is_quiet: bool) -> None:
    from decimal import Decimal

    from router.cli.amounts import amount_of
    from router.cli.run_output import finish
    from router.client import Router

    router = Router()
    amount = None if budget is None else amount_of(budget, "--budget")
    budget_usd = None if amount is None else Decimal(amount.numerator) / Decimal(amount.denominator)

    def doing(watch: Watch) -> AsyncGenerator[str | Result, None]:
        return _whole(router, run, budget_usd, watch)

    await finish(router, doing, "as of the run", is_json=is_json, is_quiet=is_quiet)


async def _whole(
    router: Router, run: str, budget_usd: Decimal | None, watch: Watch
) -> AsyncGenerator[str | Result, None]:
    yield await router.resume(run, budget_usd=budget_usd, watch=watch)


@runs_app.command("cancel")
def cancel(run: RunArgument) -> None:
    """Stop a run, whatever process works on it; it can be resumed.

    Example: router runs cancel 0199a1b2-…
    """
    from router.holding import cancel_run
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        kind = cancel_run(ledger, run)
    said = {
        "over": "has ended already: there is nothing to cancel",
        "asked": "its process has been asked to stop, and does so within seconds",
        "ended": "its process had ended, so the run is ended now",
    }
    say(f"run {run}: {said[kind]}")
