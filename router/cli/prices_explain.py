"""`router prices explain`: how one stored cost came about, line by line.

In: an attempt's id. Out: a page on stdout. Invariant: nothing is called or changed; it reads the ledger alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from router.ledger.reader import Reader
    from router.ledger.records import AttemptRow

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN = 10


@sharing(PageOptions, "out")
def explain_cost(
    attempt_id: Annotated[str, typer.Argument(help="The attempt's id; a run's id names its attempts.")],
    *,
    currency: Annotated[
        str | None, typer.Option("--currency", metavar="CODE", help="Also in this currency. Default: as set, USD.")
    ] = None,
    out: PageOptions,
) -> None:
    """Show how a stored cost came about: each line with its price row and source, then terms and exchange rate.

    Example: router prices explain 01981f2e-7c3b-7d51-9b1c-3f0a5d2e8c44
    """
    from reports.explanation import explain_attempt
    from router.cli.amounts import currency_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings = load_settings()
    shown = currency_of(currency or settings.report_currency)
    with open_ledger(default_url(settings)) as ledger:
        row = _attempt(ledger.reader, attempt_id.strip().lower())
        key = row.ended.price_set_id if row.ended else None
        prices = ledger.reader.price_sets([key]).get(key) if key else None
        fx = fx_of(settings, ledger.reader)
    out.put(explain_attempt(row, prices, fx, shown))


def _attempt(reader: Reader, attempt_id: str) -> AttemptRow:
    """Return the attempt of an id.

    Raises:
        WrongUsage: it is no id.
        RouterError: the ledger has no such attempt; a run's attempts are named.
    """
    from router.errors import RouterError, WrongUsage

    if _UUID.fullmatch(attempt_id) is None:
        hint = "router run prints its run's id, and router prices explain RUN_ID names the run's attempts"
        raise WrongUsage(f"attempt: {attempt_id[:60]!r} is not allowed; a UUID of 36 characters is", hint=hint)
    found = reader.attempt(attempt_id)
    if found is not None:
        return found
    of_run = reader.attempts(attempt_id)
    if not of_run:
        hint = "ROUTER_DATABASE_URL, or [database] url in router.toml, says which ledger is read"
        raise RouterError(f"attempt: {attempt_id} is not in the ledger", hint=hint)
    named = ", ".join(f"{each.started.attempt_id} ({each.started.model_asked})" for each in of_run[:_SHOWN])
    more = f" and {len(of_run) - _SHOWN} more" if len(of_run) > _SHOWN else ""
    raise RouterError(f"attempt: {attempt_id} is a run; name one of its attempts", hint=f"{named}{more}")
