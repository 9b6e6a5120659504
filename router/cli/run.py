"""`router run`: do a task, print the answer on stdout, progress and receipt on stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from router.client import Router
    from router.progress import Watch
    from router.result import Result
    from router.task import Task

MOST_TOKENS = 10**9


def run(
    task: Annotated[str | None, typer.Argument(help="The task's text; - or nothing: standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the task's text from this file.")] = None,
    configuration: Annotated[str | None, typer.Option("--configuration", "-c", help="A named configuration.")] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Choose the cheapest of these; repeatable.")
    ] = None,
    task_class: Annotated[
        str | None, typer.Option("--class", help="Class of the task; default: from its text.")
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            "--plan", metavar="<auto|always|never|FILE>", help="Split it: where it pays, always, never, or as in FILE."
        ),
    ] = "auto",
    run_key: Annotated[
        str | None, typer.Option("--run-key", help="The same key is the same run: it is never paid twice.")
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="The run may not cost more, in USD.")] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, max=MOST_TOKENS, help="Limit, tokens.")
    ] = None,
    json_answer: Annotated[bool, typer.Option("--json-answer", help="The answer must be a JSON object.")] = False,
    tool: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="SERVER__TOOL", help="It may be called; SERVER__*: all allowed; repeatable."),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Who is charged.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A label, name=value; repeatable.")] = None,
    merge: Annotated[
        bool | None,
        typer.Option(
            "--merge/--no-merge", help="Merge the steps' answers; or print the last one's, or each. [default: merge]"
        ),
    ] = None,
    form: ResultOption = ResultFormat.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no receipt on stderr.")] = False,
) -> None:
    """Do a task: the answer goes to stdout, progress and receipt to stderr.

    Example: router run "Translate to French: good morning" --configuration hybrid --budget 0.50
    """
    from router.cli.output import require_stdout
    from router.cli.plan_file import plan_said
    from router.cli.stopping import run_until_stopped
    from router.task import Task

    planned = plan_said(plan)
    is_given = "steps" in planned.options and task is None and file is None
    said = {"configuration": configuration, "budget_usd": budget, "merge": merge}
    work = Task.of(
        planned.task or "Answer every step." if is_given else text_of(task, file),
        candidates=tuple(model or ()),
        task_class=task_class,
        run_key=run_key,
        max_output_tokens=max_output_tokens,
        json_output=json_answer,
        mcp_tools=tuple(tool or ()),
        tenant=tenant,
        tags=_tags(tag or []),
        **{**planned.options, **{name: value for name, value in said.items() if value is not None}},
    )
    require_stdout()
    run_until_stopped(_run(work, form, is_quiet=quiet))


async def _run(work: Task, form: ResultFormat, *, is_quiet: bool) -> None:
    from router.cli.run_output import finish
    from router.client import Router

    router = Router()
    named = "candidates" if work.candidates else work.configuration or router.settings.default_configuration

    def doing(watch: Watch) -> AsyncGenerator[str | Result, None]:
        if form is ResultFormat.TEXT and sys.stdout.isatty() and work.merge:
            return router.stream(work, watch=watch)
        return _whole(router, work, watch)

    await finish(router, doing, named, is_json=form is ResultFormat.JSON, is_quiet=is_quiet)


async def _whole(router: Router, work: Task, watch: Watch) -> AsyncGenerator[str | Result, None]:
    yield await router.route(work, watch=watch)


def text_of(task: str | None, file: Path | None) -> str:
    """Return the task's text: the argument, the file, or standard input.

    Raises:
        WrongUsage: none or two of them, or it cannot be read as UTF-8.
        RouterError: standard input cannot be read.
    """
    from router.cli.text_file import text_in
    from router.errors import RouterError, WrongUsage

    if file is not None and task is not None:
        raise WrongUsage("task: both a text and --file are given", hint="give one of them")
    if file is not None:
        return text_in(file, "--file")
    if task is not None and task != "-":
        return task
    if task is None and sys.stdin.isatty():
        raise WrongUsage("task: no text is given", hint='router run "…", or --file, or pipe it in')
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except OSError as error:
        raise RouterError(f"task: standard input cannot be read: {error.strerror}", hint='router run "…"') from None
    except UnicodeDecodeError:
        raise WrongUsage("task: standard input is not UTF-8 text", hint="convert it to UTF-8 first") from None


def _tags(pairs: list[str]) -> dict[str, str]:
    from router.errors import WrongUsage

    tags = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise WrongUsage(f"--tag: {pair!r} is not name=value", hint="for instance --tag team=search")
        tags[name] = value
    return tags
