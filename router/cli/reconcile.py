"""`router reconcile`: a vendor's bill against the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from reports.invoice import Provider
    from reports.ledger_entries import Wanted
    from reports.reconcile_page import Reconciliation
    from router.cli.amounts import Limit

LARGEST_BILL = 200 * 1024 * 1024
"""Bytes: a month of one organisation's bill by day, model and token class has some thousands of lines."""


@sharing(PageOptions, "out")
def reconcile(
    bill: Annotated[Path, typer.Argument(metavar="BILL", help="The vendor's bill: CSV, or JSON of its costs API.")],
    *,
    month: Annotated[
        str, typer.Option("--month", metavar="YYYY-MM|last|this", help="The month, in UTC as vendors' days are.")
    ] = "last",
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", help="openai, anthropic or generic. Default: told from the file."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="FIELD=HEADING",
            help="Of a generic bill: date, amount, currency, model, component, quantity, text.",
        ),
    ] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", metavar="CODE", help="Of a generic bill without a currency column.")
    ] = None,
    price_list: Annotated[
        str | None,
        typer.Option("--list", metavar="NAME", help="Rows at this price list. Default: the provider's; generic: all."),
    ] = None,
    endpoint: Annotated[str | None, typer.Option("--endpoint", metavar="NAME", help="Rows of this endpoint.")] = None,
    fail_above: Annotated[
        str | None,
        typer.Option("--fail-above", metavar="AMOUNT|SHARE", help="Exit 3 where the difference is more: 100 or 2%."),
    ] = None,
    out: PageOptions,
) -> None:
    """Hold a vendor's bill against the ledger: the difference by token class, day and model, and what is unexplained.

    Example: router reconcile costs.csv --month 2026-10 --fail-above 1%
    """
    from datetime import UTC, datetime

    from reports import Exchange, named_month, time_zone
    from reports.invoice import read_bill
    from reports.reconcile_page import reconcile_page, reconciled
    from router.cli.amounts import limit_of
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    limit = None if fail_above is None else limit_of(fail_above, "--fail-above")
    known, columns = _provider(provider), _columns(column)
    read = read_bill(_text(bill), known, columns, currency)
    settings = load_settings()
    catalog = catalog_of(settings)
    wanted = _wanted(read.provider, price_list, endpoint, tuple(catalog.lists))
    period = named_month(month, time_zone("UTC"), datetime.now(UTC))
    with open_ledger(default_url(settings)) as ledger:
        exchange = Exchange(fx_of(settings, ledger.reader), read.currency)
        found = reconciled(read, ledger.reader, period, wanted, catalog, exchange)
    out.put(reconcile_page(found, bill.name))
    if limit is not None:
        _refuse_above(found, limit)


def _text(path: Path) -> str:
    from router.errors import RouterError, WrongUsage

    try:
        if path.is_dir():
            raise WrongUsage(f"bill: {str(path)!r} is a folder; a file is allowed", hint="router reconcile costs.csv")
        if path.stat().st_size > LARGEST_BILL:
            message = f"bill: {str(path)!r} is larger than {LARGEST_BILL // 1024**2} MB"
            raise RouterError(message, hint="export costs by day, not by request")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise WrongUsage(f"bill: {str(path)!r} does not exist", hint="router reconcile costs.csv") from None
    except UnicodeDecodeError as error:
        message = f"bill: {str(path)!r} is not UTF-8 at byte {error.start}"
        raise RouterError(message, hint="save it as UTF-8") from None
    except OSError as error:
        message = f"bill: {str(path)!r} cannot be read: {error.strerror}"
        raise RouterError(message, hint="check its permissions") from error


def _provider(name: str | None) -> Provider | None:
    from reports.invoice import PROVIDERS
    from router.errors import unknown_name

    if name is None:
        return None
    for known in PROVIDERS:
        if name == known:
            return known
    raise unknown_name("provider", name, PROVIDERS)


def _columns(given: list[str] | None) -> dict[str, str]:
    from router.errors import WrongUsage

    found = {}
    for text in given or ():
        field, equals, heading = text.partition("=")
        if not equals or not heading.strip():
            message = f"--column: {text[:60]!r} is not allowed; FIELD=HEADING is"
            raise WrongUsage(message, hint="for instance --column amount=Cost")
        found[field.strip()] = heading.strip()
    return found


def _wanted(provider: Provider, price_list: str | None, endpoint: str | None, lists: tuple[str, ...]) -> Wanted:
    from reports.ledger_entries import Wanted
    from router.errors import unknown_name

    if price_list is not None and price_list not in lists:
        raise unknown_name("price list", price_list, lists)
    own = provider if provider != "generic" and endpoint is None else None
    return Wanted(price_list or own, endpoint)


def _refuse_above(found: Reconciliation, limit: Limit) -> None:
    from reports.page import Money
    from reports.render.numbers import format_cell
    from router.errors import LimitCrossed

    bill, _ = found.totals
    if limit.is_crossed(abs(found.difference), abs(bill)):
        shown = format_cell(Money(found.difference, found.bill.currency), "money")
        message = f"--fail-above {limit.text}: the difference is {shown} {found.bill.currency}"
        raise LimitCrossed(message, hint="the page says where it comes from")
