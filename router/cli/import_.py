"""`router import`: records of others, taken into the ledger.

In: a file and what it is to be priced as. Out: one line (or JSON) on stdout that says what was added; progress and
rejected lines on stderr. Invariant: importing a file twice adds nothing.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from router.cli.output import put, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from router.ledger.importers.trace import ImportResult

import_app = typer.Typer(help="Take records of others into the ledger.", no_args_is_help=True, rich_markup_mode=None)

_SHOWN_REASONS = 10


@import_app.callback()
def imports() -> None:
    """Take records of others into the ledger."""


@import_app.command("trace")
def trace(
    file: Annotated[Path, typer.Argument(help="Mooncake JSON lines or Azure CSV; recognised by content.")],
    model: Annotated[str, typer.Option(help="Model to price the requests as, for instance gpt-4.1.")],
    start: Annotated[
        str | None, typer.Option(help="Instant of the trace's first moment, ISO 8601; UTC unless it names a zone.")
    ] = None,
    price_list: Annotated[str, typer.Option("--list", help="Price list; vendor: the model's own vendor's.")] = "vendor",
    configuration: Annotated[str | None, typer.Option(help="Configuration the rows are booked under.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and price, but write nothing.")] = False,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """Import a published request trace, priced as a model of your choice.

    Example: router import trace mooncake_conversation.jsonl --model gpt-4.1 --start 2026-10-01T00:00:00Z
    """
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.importers.trace import import_trace
    from router.ledger.importers.trace_file import inspect_trace
    from router.settings_file import load_settings

    settings = load_settings()
    at = None if start is None else _instant(start)
    inspect_trace(file)  # before a ledger is made for a file that is none
    with ExitStack() as open_things:
        ledger = None if dry_run else open_things.enter_context(open_ledger(default_url(settings)))
        result = import_trace(
            ledger,
            file,
            model=settings.aliases.get(model, model),
            start=at,
            catalog=catalog_of(settings),
            price_list=price_list,
            configuration=configuration,
            progress=open_things.enter_context(_Bar(file.name)).update,
        )
    _say_rejected(result)
    is_json = format_ == "json"
    put(f"{_json(result, dry_run=dry_run) if is_json else _line(result, dry_run=dry_run)}\n", is_json=is_json)


def _instant(text: str) -> datetime:
    from datetime import UTC, datetime

    from router.cli.month_option import FIRST_YEAR, LAST_YEAR
    from router.errors import WrongUsage

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min  # noqa: DTZ901 — refused below
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        message = f"--start: {text[:60]!r} is no instant; ISO 8601 is allowed, from {FIRST_YEAR} on"
        raise WrongUsage(message, hint="for instance 2026-10-01T00:00:00Z")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class _Bar:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
        self._task = self._progress.add_task(name, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def update(self) -> Callable[[int, int], None]:
        return lambda done, total: self._progress.update(self._task, completed=done, total=total)


def _say_rejected(result: ImportResult) -> None:
    for rejected in result.rejected[:_SHOWN_REASONS]:
        say(f"rejected: line {rejected.line}: {rejected.reason}")
    if result.rejected_rows > _SHOWN_REASONS:
        say(f"rejected: {result.rejected_rows - _SHOWN_REASONS:,} further lines")


def _line(result: ImportResult, *, dry_run: bool) -> str:
    from pricing import plain

    done = "nothing written (dry run)" if dry_run else f"{result.added:,} added, {result.skipped:,} already there"
    cost = " + ".join(f"{amount.currency} {plain(amount.value)}" for amount in result.list_cost) or "–"
    unpriced = f" ({result.unpriced:,} unpriced)" if result.unpriced else ""
    return (
        f"{result.rows:,} requests: {done}, {result.rejected_rows:,} lines rejected; {result.input_tokens:,} input and "
        f"{result.output_tokens:,} output tokens; list cost {cost}{unpriced}"
    )


def _json(result: ImportResult, *, dry_run: bool) -> str:
    import json
    from dataclasses import asdict

    from pricing import plain

    found: dict[str, Any] = asdict(result)
    found["list_cost"] = [{"currency": each.currency, "amount": plain(each.value)} for each in result.list_cost]
    return json.dumps({**found, "dry_run": dry_run}, indent=2, ensure_ascii=False)
