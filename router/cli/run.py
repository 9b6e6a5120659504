"""`router run`: do a task, print the answer on stdout and the receipt on stderr."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from router.client import Router
    from router.errors import RouterError
    from router.result import Result
    from router.task import Task

LIMIT_CROSSED = 3
MOST_TOKENS = 10**9


class RunFormat(StrEnum):
    """How the result is printed."""

    TEXT = "text"
    JSON = "json"


class Planning(StrEnum):
    """Whether the task is split."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


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
        Planning, typer.Option("--plan", help="Split the task: where it pays, always, never.")
    ] = Planning.AUTO,
    run_key: Annotated[
        str | None, typer.Option("--run-key", help="The same key is the same run: it is never paid twice.")
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", help="The run may not cost more, in USD.")] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, max=MOST_TOKENS, help="Limit, tokens.")
    ] = None,
    json_answer: Annotated[bool, typer.Option("--json-answer", help="The answer must be a JSON object.")] = False,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Who is charged.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A label, name=value; repeatable.")] = None,
    form: Annotated[RunFormat, typer.Option("--format", help="How the result is printed.")] = RunFormat.TEXT,
) -> None:
    """Do a task: the answer goes to stdout, the receipt to stderr.

    Example: router run "Translate to French: good morning" --configuration hybrid --budget 0.50
    """
    from router.cli.output import require_stdout
    from router.cli.stopping import run_until_stopped
    from router.task import Task

    work = Task.of(
        text_of(task, file),
        configuration=configuration,
        candidates=tuple(model or ()),
        task_class=task_class,
        plan=plan.value,
        run_key=run_key,
        budget_usd=budget,
        max_output_tokens=max_output_tokens,
        json_output=json_answer,
        tenant=tenant,
        tags=_tags(tag or []),
    )
    require_stdout()
    run_until_stopped(_run(work, form))


async def _run(work: Task, form: RunFormat) -> None:
    from router.client import Router
    from router.errors import RouterError

    router = Router()
    try:
        async with router:
            result, has_text = await _done(router, work, is_live=form is RunFormat.TEXT and sys.stdout.isatty())
    except RouterError as error:
        named = work.configuration or router.settings.default_configuration
        _show_paid(error, "candidates" if work.candidates else named)
        raise
    _show_result(result, form, has_text=has_text)


async def _done(router: Router, work: Task, *, is_live: bool) -> tuple[Result, bool]:
    """Return the result, and whether its text has been printed as it came."""
    from router.cli.output import put
    from router.result import Result

    wrote = False
    result: Result | None = None
    async for event in router.stream(work) if is_live else _whole(router, work):
        if isinstance(event, Result):
            result = event
        else:
            put(event)
            wrote = True
    if result is None:  # pragma: no cover — a run that does not raise ends in a Result
        raise AssertionError("a run ended without a result")
    return result, wrote


def _show_result(result: Result, form: RunFormat, *, has_text: bool) -> None:
    """Print the answer and its receipt; where the answer cannot be printed, the receipt of what was paid still is."""
    import json

    from router.cli.output import put
    from router.cli.show import print_page, result_page
    from router.errors import RouterError

    is_json = form is RunFormat.JSON
    try:
        if is_json:
            put(json.dumps(as_json(result), ensure_ascii=False, indent=2) + "\n", is_json=True)
        else:
            put("\n" if has_text else result.text + "\n")
    except RouterError:
        is_json = False
        raise
    finally:
        if not is_json:
            print_page(result_page(result), is_talk=True)


def _show_paid(error: RouterError, configuration: str) -> None:
    """Print the receipt of the calls that a failed run has made."""
    from router.cli.show import print_page, receipt_page
    from router.result import CallReceipt

    calls = [call for call in error.calls if isinstance(call, CallReceipt)]
    if error.run_id is not None and any(call.attempts for call in calls):
        status = "stopped" if error.exit_code == LIMIT_CROSSED else "failed"
        print_page(receipt_page(calls, error.run_id, configuration, status), is_talk=True)


async def _whole(router: Any, work: Task) -> Any:
    yield await router.route(work)


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON values: counts as numbers, money as decimal strings."""
    from dataclasses import asdict
    from decimal import Decimal

    def plain(value: Any) -> Any:
        if isinstance(value, Decimal):
            return format(value.normalize(), "f") if value else "0"
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value

    whole = asdict(result)
    for sums in (whole["cost"], *whole["calls"]):
        for key in ("list_cost", "settled_cost"):
            sums[key] = dict(sums[key])
    shaped: dict[str, Any] = plain(whole)
    return shaped


def text_of(task: str | None, file: Path | None) -> str:
    """Return the task's text: the argument, the file, or standard input.

    Raises:
        WrongUsage: none or two of them, or it cannot be read as UTF-8.
        RouterError: standard input cannot be read.
    """
    from router.errors import RouterError, WrongUsage

    if file is not None and task is not None:
        raise WrongUsage("task: both a text and --file are given", hint="give one of them")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise WrongUsage(
                f"--file: {str(file)!r} cannot be read: {error.strerror}", hint="name a readable file"
            ) from None
        except UnicodeDecodeError:
            raise WrongUsage(f"--file: {str(file)!r} is not UTF-8 text", hint="save it as UTF-8") from None
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
