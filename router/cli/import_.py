"""`router import`: records of others, taken into the ledger.

In: files and what is known of them. Out: one line a file (or JSON) on stdout that says what was added; progress and
rejected lines on stderr. Invariant: importing a file twice adds nothing; a file that cannot be read whole adds nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import import_options as options
from router.cli import import_undo
from router.cli.import_options import Stated
from router.cli.output import put, say
from router.cli.result_format import ResultFormat, ResultOption
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from router.ledger import Ledger
    from router.ledger.importers.importing import Watch
    from router.ledger.importers.rejects import RejectsFile
    from router.ledger.importers.tally import ImportResult

import_app = typer.Typer(help="Take records of others into the ledger.", no_args_is_help=True, rich_markup_mode=None)


@import_app.callback()
def imports() -> None:
    """Take records of others into the ledger."""


@import_app.command("trace")
def trace(
    file: Annotated[Path, typer.Argument(help="Mooncake JSON lines or Azure CSV; recognised by content.")],
    *,
    model: Annotated[str, typer.Option(help="Model to price the requests as, for instance gpt-4.1.")],
    start: Annotated[
        str | None, typer.Option(help="Instant of the trace's first moment, ISO 8601; UTC unless it names a zone.")
    ] = None,
    price_list: Annotated[str, typer.Option("--list", help="Price list; vendor: the model's own vendor's.")] = "vendor",
    configuration: options.ConfigurationOption = None,
    prefix_cache: Annotated[
        bool, typer.Option("--prefix-cache", help="Price prefixes seen before (Mooncake's hash_ids) as cache reads.")
    ] = False,
    dry_run: options.DryRunOption = False,
    rejects: options.RejectsOption = None,
    format_: ResultOption = ResultFormat.TEXT,
) -> None:
    """Import a published request trace, priced as a model of your choice.

    Example: router import trace mooncake_conversation.jsonl --model gpt-4.1 --start 2026-10-01T00:00:00Z
    """
    from router.client import catalog_of
    from router.ledger.importers.file import inspect_file
    from router.ledger.importers.trace import import_trace
    from router.ledger.importers.trace_file import trace_format
    from router.settings_file import load_settings

    settings = load_settings()
    at = None if start is None else _instant(start)
    catalog = catalog_of(settings)
    options.require_list(price_list, catalog)
    found = inspect_file(file)
    trace_format(found)  # before a ledger is made for a file that is none

    def one(ledger: Ledger | None, _: str, watch: Watch) -> ImportResult:
        return import_trace(
            ledger,
            found,
            model=settings.aliases.get(model, model),
            start=at,
            catalog=catalog,
            price_list=price_list,
            configuration=configuration,
            prefix_cache=prefix_cache,
            watch=watch,
        )

    _import_each([str(file)], one, Stated(dry_run=dry_run, rejects=rejects, result=format_))


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


@import_app.command("generic")
@sharing(Stated, "stated")
def generic(
    files: options.Files,
    *,
    column: Annotated[
        list[str], typer.Option("--column", metavar="FIELD=COLUMN", help="Which column a field is in; several.")
    ] = [],  # noqa: B006 - typer reads it, nobody changes it
    columns: Annotated[
        Path | None, typer.Option("--columns", metavar="FILE", help="The same as a TOML file of FIELD = COLUMN.")
    ] = None,
    input_excludes_cache: Annotated[
        bool,
        typer.Option("--input-excludes-cache", help="Input tokens leave out those read from or written to a cache."),
    ] = False,
    stated: Stated,
) -> None:
    """Import any table of requests: CSV, JSON or Parquet, its columns named by you.

    Example: router import generic calls.csv --column started=created_at --column input_tokens=prompt_tokens
    """
    table = {} if columns is None else options.table_of(columns, "--columns", "columns")
    pairs = dict(options.pair_of(each, "--column") for each in column)
    _import_source("generic", files, stated, {**table, **pairs}, input_excludes_cache=input_excludes_cache)


def _vendor(name: str, title: str, example: str) -> None:
    """Add the command of a format that names its own columns."""

    @sharing(Stated, "stated")
    def command(files: options.Files, *, stated: Stated) -> None:
        _import_source(name, files, stated, {})

    command.__doc__ = f"Import {title}.\n\nExample: router import {name} {example}"
    import_app.command(name)(command)


_vendor("openai", "OpenAI's usage: pages of the usage API, or the dashboard's CSV", "usage.json")
_vendor("anthropic", "Anthropic's usage report", "usage.json --endpoint my-organization")
_vendor("litellm", "LiteLLM's spend logs: CSV, JSON, or straight from its database", "spend_logs.csv")
_vendor("langfuse", "Langfuse's observations: CSV, JSON or JSON lines", "observations.csv")
_vendor("openrouter", "OpenRouter's activity: CSV or JSON", "activity.csv")
import_app.command("list")(import_undo.list_)
import_app.command("undo")(import_undo.undo)


def _import_source(
    name: str, files: list[str], stated: Stated, columns: Mapping[str, str], *, input_excludes_cache: bool = False
) -> None:
    from dataclasses import replace
    from datetime import UTC, datetime

    from router.client import catalog_of
    from router.ledger.importers.door import origin_of
    from router.ledger.importers.formats import source_named
    from router.ledger.importers.importing import import_of, import_records
    from router.ledger.reader import instant_us
    from router.settings_file import load_settings

    settings = load_settings()
    source, booking = source_named(name), options.booking_of(stated, name, settings)
    how = options.read_options(stated, instant_us(datetime.now(UTC)))
    how = replace(how, columns=columns, input_excludes_cache=input_excludes_cache)
    # Every file is read through before the first is written: a later one that cannot be read stops none half-way.
    origins = {argument: origin_of(source, argument, how, stated.encoding) for argument in files}
    catalog = catalog_of(settings)
    options.require_list(booking.price_list, catalog)

    def one(ledger: Ledger | None, argument: str, watch: Watch) -> ImportResult:
        origin = origins[argument]
        return import_records(ledger, origin, import_of(source, origin, booking, how), booking, catalog, watch)

    _import_each(list(origins), one, stated)


def _import_each(files: list[str], one: Callable[[Ledger | None, str, Watch], ImportResult], stated: Stated) -> None:
    """Import one file after the other and say of each what was done."""
    from router.cli.import_result import json_of, line_of, say_rest
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    results: list[ImportResult] = []
    is_json = stated.result is ResultFormat.JSON
    with ExitStack() as open_things:
        rejects = _rejects(stated, files)
        open_things.callback(rejects.close)
        ledger = None if stated.dry_run else open_things.enter_context(open_ledger(default_url(load_settings())))
        for file in files:
            result = _import_one(ledger, file, one, rejects)
            say_rest(result)
            results.append(result)
            if not is_json:
                name = f"{result.file}: " if len(files) > 1 else ""
                put(f"{name}{line_of(result, dry_run=stated.dry_run)}\n")
    if is_json:
        put(f"{json_of(results, dry_run=stated.dry_run)}\n", is_json=True)


def _rejects(stated: Stated, files: list[str]) -> RejectsFile:
    from router.ledger.importers.rejects import RejectsFile, free_path

    if stated.rejects is not None:
        return RejectsFile(stated.rejects)
    first = Path("database") if "://" in files[0] else Path(files[0])
    return RejectsFile(free_path(first), is_optional=True, is_off=stated.dry_run)


def _import_one(
    ledger: Ledger | None, file: str, one: Callable[[Ledger | None, str, Watch], ImportResult], rejects: RejectsFile
) -> ImportResult:
    from dataclasses import replace

    from router.cli.import_result import Bar
    from router.ledger.importers.importing import Watch

    before = rejects.lines
    name = "database" if "://" in file else Path(file).name
    with Bar(name) as bar:
        waits = f"{name}: another process is writing to the ledger; waiting for it"
        watch = Watch(bar.update, lambda line: rejects.put(name, line), lambda: say(waits))
        try:
            result = one(ledger, file, watch)
        except KeyboardInterrupt:
            say(f"{name}: what was not committed yet was taken back; the same command completes it")
            raise
    return result if rejects.lines == before else replace(result, rejects_file=str(rejects.path))
