"""`router export`: the ledger as files for other programs: FOCUS 1.2, and every record by itself.

In: options. Out: rows on stdout or in a file that is replaced whole; what they add up to, and what is in no row, on
stderr. Invariant: what is not known is left out or left empty, and said; it is never written as 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from router.cli.month_option import LastOption, MonthCommand, MonthOption, SinceOption, TimezoneOption, UntilOption
from router.cli.output import say

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reports.export_totals import ExportTotals
    from reports.focus import Left

export_app = typer.Typer(
    help="Export the ledger: FOCUS 1.2, or every call.", no_args_is_help=True, rich_markup_mode=None
)
_PROGRESS_ROWS = 20_000


class ExportForm(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


FormOption = Annotated[
    ExportForm, typer.Option("--format", help="csv, jsonl (one JSON object a line), or parquet (with --output).")
]
FileOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Replace this file. Default: csv and jsonl are printed."),
]


@export_app.callback()
def export() -> None:
    """Export the ledger: FOCUS 1.2, or every call."""


@export_app.command("focus", cls=MonthCommand)
def focus(
    *,
    month: MonthOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: LastOption = None,
    timezone: TimezoneOption = None,
    form: FormOption = ExportForm.CSV,
    output: FileOption = None,
) -> None:
    """Export FOCUS 1.2: one row for each day, group and token class.

    Example: router export focus --month 2026-10 --output october.csv
    """
    from datetime import UTC, datetime

    from reports import time_zone
    from reports.export_files import write_rows
    from reports.export_totals import ExportTotals, added_up
    from reports.focus import focus_export
    from reports.focus_columns import COLUMNS
    from router.cli.month_option import period_of
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    _check(form, output)
    settings, now = load_settings(), datetime.now(UTC)
    period = period_of(month, since, until, last, time_zone(timezone or settings.time_zone), now)
    totals = ExportTotals()
    with open_ledger(default_url(settings)) as ledger:
        made = focus_export(ledger.reader, period, fx_of(settings, ledger.reader), catalog_of(settings))
        rows = list(made.rows)  # few, and a rate that is missing is met before anything is written
    with _target(output) as file:
        counted = added_up(rows, COLUMNS, "BillingCurrency", "BilledCost", totals)
        # A FOCUS value is what it is: an apostrophe before a tenant's name would make it another tenant.
        write_rows(file, form.value, COLUMNS, counted, guard=False)
    _say_totals(totals, "BilledCost")
    _say_left(made.left)


@export_app.command("calls", cls=MonthCommand)
def calls(
    *,
    month: MonthOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: LastOption = None,
    timezone: TimezoneOption = None,
    form: FormOption = ExportForm.CSV,
    output: FileOption = None,
) -> None:
    """Export every attempt as a row, and every bucket of usage of others.

    Example: router export calls --month last --format parquet --output calls.parquet
    """
    from datetime import UTC, datetime

    from reports import time_zone
    from reports.export_columns import RECORD_COLUMNS
    from reports.export_files import write_rows
    from reports.export_records import record_rows
    from reports.export_totals import ExportTotals, added_up
    from reports.period import no_rows
    from router.cli.month_option import period_of
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    _check(form, output)
    settings, now = load_settings(), datetime.now(UTC)
    period = period_of(month, since, until, last, time_zone(timezone or settings.time_zone), now)
    totals = ExportTotals()
    with open_ledger(default_url(settings)) as ledger:
        reader = ledger.reader
        on_record = sum(group.sums["records"] for group in reader.usage_groups(period.start_us, period.end_us))
        if not on_record:
            raise no_rows(period, reader.months_present(period.zone), now)
        rows = record_rows(reader, period.start_us, period.end_us)
        with _target(output) as file:
            counted = added_up(rows, RECORD_COLUMNS, "settled_currency", "settled_cost", totals)
            write_rows(file, form.value, RECORD_COLUMNS, _shown(counted, on_record))
    _say_totals(totals, "settled_cost")
    if totals.without:
        say(f"without a settled cost: {totals.without:,} rows")
    if totals.rows < on_record:
        gone = on_record - totals.rows
        say(f"warning: {gone:,} records were pruned: they are in the reports' sums, and in no row here")


def _check(form: ExportForm, output: Path | None) -> None:
    """Refuse what could not be written, before anything is read."""
    from router.cli.page_options import require_parquet_file
    from router.cli.replaced import require_folder

    if form is ExportForm.PARQUET:
        require_parquet_file(output)
    if output is not None:
        require_folder(output, "--output")


def _target(output: Path | None) -> AbstractContextManager[IO[bytes]]:
    if output is None:
        sys.stdout.flush()
        return nullcontext(cast("IO[bytes]", sys.stdout.buffer))
    from router.cli.replaced import replaced_file

    return replaced_file(output)


def _shown(rows: Iterable[Sequence[Any]], total: int) -> Iterator[Sequence[Any]]:
    """Yield the rows, and show on a terminal how many have passed."""
    is_shown = sys.stderr.isatty() and not sys.stdout.isatty()
    count = 0
    for row in rows:
        yield row
        count += 1
        if is_shown and count % _PROGRESS_ROWS == 0:
            sys.stderr.write(f"exported: {count:,} of {total:,} rows\r")
            sys.stderr.flush()
    if is_shown and count >= _PROGRESS_ROWS:
        sys.stderr.write(f"exported: {count:,} of {total:,} rows\n")


def _say_totals(totals: ExportTotals, name: str) -> None:
    from pricing import plain

    amounts = " + ".join(f"{code} {plain(amount)}" for code, amount in sorted(totals.amounts.items()))
    say(f"rows: {totals.rows:,}; {name}: {amounts or '–'}")


def _say_left(left: Left) -> None:
    if left.unknown_cost:
        say(f"left out: {left.unknown_cost:,} records whose cost is not known; FOCUS has no place for those")
    if left.unpriced_tokens:
        say(f"left out: {left.unpriced_tokens:,} tokens or calls of tools without a price, of records partly priced")
    if left.split:
        say(f"note: {left.split:,} rows have their part of a stored total, not usage × price: see x_CostSplit")
    if left.formulas:
        say(f"warning: {left.formulas:,} values begin like a formula; load the file as data, not into a spreadsheet")
