"""`router report`: what a month cost and how it went."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.month_option import FormatOption, OutputOption, PageFormat, TimezoneOption


def report(
    *,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="[YYYY-MM|last|this]", help="The month. Default, also without a value: this."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="GROUP", help="Lines: model, role, class, day, configuration or tenant.")
    ] = "model",
    currency: Annotated[
        str | None,
        typer.Option(
            "--currency", metavar="CODE", help="Currency of the page, at each day's rate. Default: as set, USD."
        ),
    ] = None,
    timezone: TimezoneOption = None,
    form: FormatOption = PageFormat.TEXT,
    output: OutputOption = None,
) -> None:
    """Report a month of the ledger: calls, tokens, list and settled cost, success, latency, and where the time went.

    Example: router report --month 2026-10 --by class --currency JPY --timezone Asia/Tokyo
    """
    from datetime import UTC, datetime

    from reports import month_report
    from router.cli.month_option import currency_of
    from router.cli.output import put_page
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings = load_settings()
    catalog = catalog_of(settings)
    shown = currency_of(currency or settings.report_currency)
    with open_ledger(default_url(settings)) as ledger:
        page = month_report(
            ledger.reader,
            month=month,
            by=by,
            currency=shown,
            time_zone_name=timezone or settings.time_zone,
            fx=fx_of(settings, ledger.reader),
            endpoints=settings.endpoints,
            catalog=catalog,
            now=datetime.now(UTC),
        )
    put_page(page, form.value, output)
