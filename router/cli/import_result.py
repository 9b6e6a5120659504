"""What `router import` says: a line a file, or JSON; rejected lines and a progress bar on stderr.

In: results. Out: text. Invariant: what is unknown is said, with its number of rows; a name without a price is named.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

from router.cli.output import one_line, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from router.ledger.importers.tally import ImportResult

_SHOWN = 10
_LONGEST_SHOWN = 120  # characters of a model's name


class Bar:
    """A progress bar on stderr, where that is a terminal.

    Args:
        name: of the file.
    """

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

    def update(self, done: int, total: int) -> None:
        """Show how far a file has been read, bytes."""
        self._progress.update(self._task, completed=done, total=total or None)


def say_rest(result: ImportResult) -> None:
    """Say on stderr which lines were rejected and which models have no price."""
    for rejected in result.rejected[:_SHOWN]:
        say(f"rejected: line {rejected.line}: {one_line(rejected.reason)}")
    if result.rejected_rows > _SHOWN:
        say(f"rejected: {result.rejected_rows - _SHOWN:,} further lines")
    if result.rejects_file is not None:
        say(f"rejected lines are in {result.rejects_file}")
    for name, rows in list(result.unpriced_models.items())[:_SHOWN]:
        shown = _cut(name)
        mapped = quote(f"{shown}=MODEL")
        say(f"unpriced: {shown}: {rows:,} rows; --model-map {mapped} says what it is, --list where it was bought")
    if len(result.unpriced_models) > _SHOWN:
        say(f"unpriced: {len(result.unpriced_models) - _SHOWN:,} further models")
    if result.differing:
        say(f"warning: {result.differing:,} rows are there already with other counts; the ledger keeps what it has")
    if result.format == "generic" and result.rows > result.usage_unknown:
        for side, tokens in (("input", result.input_tokens), ("output", result.output_tokens)):
            if not tokens:
                say(f"warning: no row has {side} tokens; a column of another name is --column {side}_tokens=COLUMN")


def _cut(name: str) -> str:
    shown = one_line(name)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[: _LONGEST_SHOWN - 1]}…"


def line_of(result: ImportResult, *, dry_run: bool) -> str:
    """Return the line that says what an import did."""
    from pricing import plain

    done = "nothing written (dry run)" if dry_run else f"{result.added:,} added, {result.skipped:,} already there"
    cost = " + ".join(f"{amount.currency} {plain(amount.value)}" for amount in result.list_cost) or "–"
    lacking = [
        *([f"{result.unpriced:,} unpriced"] if result.unpriced else []),
        *([f"{result.partial:,} in part"] if result.partial else []),
    ]
    more = [
        *([f"; reported cost USD {plain(result.reported_cost_usd)}"] if result.reported_cost_usd is not None else []),
        *([f"; {result.usage_unknown:,} rows without usage"] if result.usage_unknown else []),
    ]
    gaps = f" ({', '.join(lacking)})" if lacking else ""
    return (
        f"{_rows(result)}: {done}, {result.rejected_rows:,} lines rejected; {result.input_tokens:,} input and "
        f"{result.output_tokens:,} output tokens; list cost {cost}{gaps}"
        f"{''.join(more)}{_span(result)}"
    )


def _rows(result: ImportResult) -> str:
    if not result.buckets:
        return f"{result.rows:,} requests"
    known = f"{result.requests:,} requests" if result.requests or not result.requests_unknown else "requests unknown"
    partly = f" and {result.requests_unknown:,} that do not say" if result.requests and result.requests_unknown else ""
    return f"{result.rows:,} rows, {result.buckets:,} of them sums of requests ({known}{partly})"


def _span(result: ImportResult) -> str:
    from router.ledger.reader import instant_at

    if result.first_us is None or result.last_us is None:
        return ""
    first, last = (instant_at(each) for each in (result.first_us, result.last_us))
    return f"; from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def json_of(results: Sequence[ImportResult], *, dry_run: bool) -> str:
    """Return results as JSON: an object for one file, a list for several."""
    found = [{**_plain(result), "dry_run": dry_run} for result in results]
    return json.dumps(found[0] if len(found) == 1 else found, indent=2, ensure_ascii=False)


def _plain(result: ImportResult) -> dict[str, Any]:
    from pricing import plain

    found: dict[str, Any] = asdict(result)
    found["list_cost"] = [{"currency": each.currency, "amount": plain(each.value)} for each in result.list_cost]
    reported = result.reported_cost_usd
    found["reported_cost_usd"] = None if reported is None else plain(reported)
    for rejected in found["rejected"]:
        del rejected["text"]
    return found
