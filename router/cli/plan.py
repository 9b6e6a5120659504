"""`router plan`: what a task's plan would cost, call by call; then, where that is asked for, the plan itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from reports.render import Format
    from router.client import Router
    from router.plan_estimate import PlanEstimate
    from router.progress import Watch
    from router.result import Result
    from router.task import Task


class PlanFormat(StrEnum):
    """How a plan is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    MERMAID = "mermaid"


_PAGES: Mapping[PlanFormat, Format] = {
    PlanFormat.TEXT: "text",
    PlanFormat.MARKDOWN: "markdown",
    PlanFormat.HTML: "html",
}


def plan(
    task: Annotated[str | None, typer.Argument(help="The task's text; - or nothing: standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the task's text from this file.")] = None,
    steps: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="A plan of your own: JSON, or JSON lines.")
    ] = None,
    configuration: Annotated[str | None, typer.Option("--configuration", "-c", help="A named configuration.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Choose among these; repeatable.")] = None,
    task_class: Annotated[
        str | None, typer.Option("--class", help="Class of the task; default: from its text.")
    ] = None,
    quality_floor: Annotated[
        float | None,
        typer.Option("--quality-floor", min=0, max=1, help="Least weighted quality bound of the steps, 0 to 1."),
    ] = None,
    latency: Annotated[
        float | None, typer.Option("--latency", metavar="SECONDS", help="Longest critical path, seconds.")
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="The run may not cost more, in USD.")] = None,
    with_frontier: Annotated[
        bool, typer.Option("--frontier", help="Show which costs buy which quality, as a table and a chart (html).")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Have the orchestrator make the plan: one call that is paid.")
    ] = False,
    run: Annotated[bool, typer.Option("--run", help="Go on and do it: the answer is printed.")] = False,
    run_key: Annotated[
        str | None, typer.Option("--run-key", help="The same key is the same run: its plan is never paid twice.")
    ] = None,
    form: Annotated[PlanFormat, typer.Option("--format", help="How the plan is written.")] = PlanFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no receipt on stderr.")] = False,
) -> None:
    """Show a task's plan before a cent is spent: model, expected cost, latency and quality of each step, the total.

    Example: router plan "1. Name the rivers of Spain. 2. Prove that 2 is prime." --configuration planned
    """
    from router.cli.stopping import run_until_stopped
    from router.client import Router

    own: dict[str, Any] = {
        "configuration": configuration,
        "quality_floor": quality_floor,
        "latency_objective_s": latency,
        "budget_usd": budget,
        "run_key": run_key,
        "task_class": task_class,
    }
    if steps is not None and task_class is not None and not run:
        from router.errors import WrongUsage

        message = f"--class: {task_class!r} is given with --plan, whose steps have classes of their own"
        raise WrongUsage(message, hint="give the steps a task_class in the file, or leave --class out")
    work, words = _task(task, file, steps, {"candidates": tuple(model or ()), **own})
    shown = _Shown(work, words, form, output, is_quiet=quiet)
    router = Router()
    if run or ask:
        run_until_stopped(_paid(router, shown, with_frontier=with_frontier, is_run=run))
        return
    estimate = router.plan(work, with_frontier=with_frontier)
    shown.put(estimate)
    _require_limits(estimate)


def _task(task: str | None, file: Path | None, steps: Path | None, own: dict[str, Any]) -> tuple[Task, str | None]:
    """Return the task, and its words where it has any.

    Raises:
        WrongUsage: the file or the task is wrong.
    """
    from router.cli.plan_file import read_plan
    from router.cli.run import text_of
    from router.task import Task

    said = {name: value for name, value in own.items() if value is not None}
    if steps is None:
        words = text_of(task, file)
        return Task.of(words, **{"plan": "always", **said}), words
    read = read_plan(steps)
    named = read.task if task is None and file is None else text_of(task, file)
    return Task.of(named or "Answer every step.", **{**read.options, **said}), named


class _Shown:
    """How a plan is shown: in which form, and where.

    Args:
        work: the task.
        words: its own words, or None.
        form: the form.
        output: the file; None: standard output.
        is_quiet: whether progress and receipts are left out.
    """

    def __init__(self, work: Task, words: str | None, form: PlanFormat, output: Path | None, *, is_quiet: bool) -> None:
        if output is not None:
            from router.cli.replaced import require_folder

            require_folder(output, "--output")
        self.work = work
        self.form = form
        self.is_quiet = is_quiet
        self._words = words
        self._output = output

    def put(self, estimate: PlanEstimate) -> None:
        """Print the plan, or write it to the file.

        Raises:
            RouterError: it cannot be written.
        """
        from router.cli.output import put, put_page, write_whole

        if self.form in (PlanFormat.JSON, PlanFormat.MERMAID):
            text = self._document(estimate)
            if self._output is not None:
                write_whole(self._output, text)
            else:
                put(text, is_json=self.form is PlanFormat.JSON)
            return
        from reports.plan_page import plan_page

        put_page(plan_page(estimate), _PAGES[self.form], self._output)

    def say(self, estimate: PlanEstimate) -> None:
        """Print the plan's page as talk; where a file is named, write it there."""
        from reports.plan_page import plan_page
        from router.cli.show import print_page

        if self._output is not None:
            self.put(estimate)
        elif not self.is_quiet:
            print_page(plan_page(estimate), is_talk=True)

    def _document(self, estimate: PlanEstimate) -> str:
        from router.cli.plan_document import plan_json, plan_mermaid

        if self.form is PlanFormat.MERMAID:
            return plan_mermaid(estimate)
        work = self.work
        kept = ("configuration", "quality_floor", "latency_objective_s", "budget_usd")
        return plan_json(estimate, self._words, {name: getattr(work, name) for name in kept})


async def _paid(router: Router, shown: _Shown, *, with_frontier: bool, is_run: bool) -> None:
    """Have the plan made where there is none, show it, and do it where that is asked for.

    Raises:
        RouterError: planning or the run failed; nothing that was paid goes unsaid.
        LimitCrossed: a limit cannot be held: no step was begun.
    """
    from router.cli.output import require_stdout

    require_stdout()
    async with router:
        estimate = await _made(router, shown, with_frontier=with_frontier)
    if not is_run:
        shown.put(estimate)
        _say_run(estimate, shown)
        _require_limits(estimate)
        return
    shown.say(estimate)
    _require_limits(estimate)
    await _run(router, shown, estimate)


async def _made(router: Router, shown: _Shown, *, with_frontier: bool) -> PlanEstimate:
    from router.cli.run_output import show_paid
    from router.errors import RouterError

    work = shown.work
    if work.steps:
        return router.plan(work, with_frontier=with_frontier)
    try:
        return await router.ask_plan(work, with_frontier=with_frontier)
    except RouterError as error:
        if not shown.is_quiet:
            show_paid(error, work.configuration or router.settings.default_configuration)
        raise


def _say_run(estimate: PlanEstimate, shown: _Shown) -> None:
    """Print the receipt of what was paid for the plan, and how its run goes on."""
    from router.cli.output import say
    from router.cli.show import print_page, receipt_page

    if estimate.run_id is None or shown.is_quiet:
        return
    print_page(receipt_page(estimate.calls, estimate.run_id, estimate.configuration, "stopped"), is_talk=True)
    say(f"to go on with this plan: router runs resume {estimate.run_id}")


async def _run(router: Router, shown: _Shown, estimate: PlanEstimate) -> None:
    """Do what was planned: the run that made the plan goes on, so that it is not planned twice."""
    from router.cli.run_output import finish

    async def doing(watch: Watch) -> AsyncGenerator[str | Result, None]:
        if estimate.run_id is None:
            yield await router.route(shown.work, watch=watch)
        else:
            yield await router.resume(estimate.run_id, watch=watch)

    is_json = shown.form is PlanFormat.JSON
    await finish(router, doing, estimate.configuration, is_json=is_json, is_quiet=shown.is_quiet)


def _require_limits(estimate: PlanEstimate) -> None:
    """Refuse to go on where a limit cannot be held.

    Raises:
        LimitCrossed: one cannot.
    """
    from router.errors import LimitCrossed

    if estimate.problem is None:
        return
    if estimate.is_over_budget:
        hint = "raise the budget"
    elif estimate.is_budget_unpriced:
        hint = "add the missing prices (router.toml, price_files), or leave the budget out"
    else:
        hint = "lower the floor, or raise budget or latency objective"
    raise LimitCrossed(estimate.problem, hint=hint)
