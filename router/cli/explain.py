"""`router explain`: what would be chosen for a task, and why every other candidate loses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.cli.page_options import PageOptions
from router.cli.run import MOST_TOKENS, text_of
from router.cli.shared_options import sharing


@sharing(PageOptions, "out")
def explain(
    task: Annotated[str | None, typer.Argument(help="The task's text; - or nothing: standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the task's text from this file.")] = None,
    configuration: Annotated[str | None, typer.Option("--configuration", "-c", help="A named configuration.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Choose among these; repeatable.")] = None,
    task_class: Annotated[
        str | None, typer.Option("--class", help="Class of the task; default: from its text.")
    ] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, max=MOST_TOKENS, help="Limit, tokens.")
    ] = None,
    quality_floor: Annotated[
        float | None, typer.Option("--quality-floor", min=0, max=1, help="Least quality lower bound, 0 to 1.")
    ] = None,
    out: PageOptions,
) -> None:
    """Show every candidate for a task with its expected tokens, cost, quality and latency, and why it lost.

    Nothing is sent and nothing is paid. Example: router explain "Prove that the square root of 2 is irrational."
    """
    from router.cli.show import decision_page
    from router.client import Router
    from router.learner import recorded_experience
    from router.settings_file import load_settings
    from router.task import Task

    work = Task.of(
        text_of(task, file),
        configuration=configuration,
        candidates=tuple(model or ()),
        task_class=task_class,
        max_output_tokens=max_output_tokens,
        quality_floor=quality_floor,
    )
    settings = load_settings()
    router = Router(settings, experience=recorded_experience(settings))
    decision, estimate = router.decide(work), router.estimate(work)
    page = decision_page(decision, estimate, on_paper=not router.usable_endpoints)
    out.put(page)
