"""`router ledger`: check the record against itself, add its sums up again, delete what is old.

In: options. Out: what was checked, found or deleted, as lines or JSON on stdout; progress on stderr. Invariant:
`verify` changes no record; `prune` changes no sum, and deletes nothing without `--yes`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import MonthCommand, TimezoneOption
from router.cli.output import put, say
from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from router.ledger.verify import Verification

ledger_app = typer.Typer(help="The ledger itself: verify, rebuild, prune.", no_args_is_help=True, rich_markup_mode=None)


@ledger_app.callback()
def ledger() -> None:
    """Check the record against itself, add its sums up again, delete what is old."""


@ledger_app.command("verify", cls=MonthCommand)
def verify(
    *,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="[YYYY-MM|last|this]", help="One month alone. Default: all there is."),
    ] = None,
    timezone: TimezoneOption = None,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """Derive every cost and every sum again, and say where the ledger says something else; then the exit code is 1.

    Example: router ledger verify --month last
    """
    from datetime import UTC, datetime

    from reports.period import named_month, time_zone
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    settings = load_settings()
    start_us, end_us = 0, 2**62
    if month is not None:
        period = named_month(month, time_zone(timezone or settings.time_zone), datetime.now(UTC))
        start_us, end_us = period.start_us, period.end_us
    with open_ledger(default_url(settings)) as opened:
        found = opened.verify(start_us, end_us, _progress("verified"))
    put(_json(found) if form is ResultFormat.JSON else _lines(found), is_json=form is ResultFormat.JSON)
    if found.found:
        raise typer.Exit(1)


@ledger_app.command("rebuild")
def rebuild() -> None:
    """Add up every record again, for instance after rows were changed by hand. Sums of pruned rows stay.

    Example: router ledger rebuild
    """
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as opened:
        count = opened.rebuild()
    put(f"quarter hours added up again: {count:,}\n")


@ledger_app.command("prune")
def prune(
    before: Annotated[
        str, typer.Option("--before", metavar="YYYY-MM-DD", help="Delete records of UTC days before this one.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Delete. Without it, only say what would go.")] = False,
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """Delete attempts, runs, plans and answers that are old, and keep every sum that reports read.

    What needs single records ends with them: verify, receipts of one run, the CSV of single attempts.

    Example: router ledger prune --before 2026-07-01 --yes
    """
    import json
    from dataclasses import asdict
    from datetime import UTC, datetime

    from router.cli.month_option import day_of
    from router.ledger import default_url, open_ledger
    from router.ledger.reader import instant_us
    from router.settings_file import load_settings

    day = day_of(before, "--before")
    before_us = instant_us(datetime(day.year, day.month, day.day, tzinfo=UTC))
    with open_ledger(default_url(load_settings())) as opened:
        if not yes:
            count = opened.count_attempts(before_us)
            put(f"attempts before {day}: {count:,}; nothing was deleted\n")
            say("hint: --yes deletes them; sums stay")
            return
        done = opened.prune_rows(before_us, instant_us(datetime.now(UTC)), _progress("pruned"))
    if form is ResultFormat.JSON:
        put(f"{json.dumps({**asdict(done), 'before_day': day.isoformat()}, indent=2)}\n", is_json=True)
        return
    put(
        f"attempts deleted: {done.attempts:,}\nruns deleted: {done.runs:,}\n"
        f"runs kept, not ended by {day}: {done.runs_kept:,}\nsums kept: all\n"
    )


def _progress(word: str) -> Callable[[int, int], None]:
    """Return what shows days done on a terminal, and nothing elsewhere."""

    def show(done: int, days: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == days else "\r"
            sys.stderr.write(f"{word}: {done} of {days} days{end}")
            sys.stderr.flush()

    return show


def _lines(found: Verification) -> str:
    lines = [f"{each.kind} {each.where}: stored {each.stored}; derived {each.derived}" for each in found.findings]
    if found.found > len(found.findings):
        lines.append(f"and {found.found - len(found.findings):,} more")
    lines += [
        f"attempts checked: {found.attempts:,}",
        *([f"buckets of usage checked: {found.buckets:,}"] if found.buckets else []),
        f"price sets and terms checked: {found.price_sets:,}",
        f"quarter hours checked: {found.quarter_hours:,}",
    ]
    if found.pruned:
        lines.append(f"sums of pruned records, not checkable: {found.pruned:,}")
    if found.being_written:
        lines.append(f"quarter hours being written meanwhile, not checked: {found.being_written:,}")
    lines.append("ok" if not found.found else f"differences: {found.found:,}")
    return "".join(f"{line}\n" for line in lines)


def _json(found: Verification) -> str:
    import json
    from dataclasses import asdict

    return f"{json.dumps({'ok': not found.found, **asdict(found)}, indent=2, ensure_ascii=False)}\n"
