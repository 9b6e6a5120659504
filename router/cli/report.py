"""`router report`: what a month, or other days, cost and how it went."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.month_option import CurrencyOption, LastOption, MonthOption, SinceOption, TimezoneOption, UntilOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import GrowthOption


@sharing(PageOptions, "out")
def report(
    *,
    month: MonthOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: LastOption = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="GROUP",
            help="Lines: model, provider, endpoint, role, class, configuration, tenant, tag:KEY, day, week, month, "
            "or hour of the day.",
        ),
    ] = "model",
    currency: CurrencyOption = None,
    prices: Annotated[
        str,
        typer.Option(
            "--prices",
            metavar="PRICES",
            help="as-billed: what is on record. catalogue@DATE: the same tokens at that day's prices; catalogue: "
            "at those of each call's own day, as the catalogue has them now.",
        ),
    ] = "as-billed",
    growth: GrowthOption = "0",
    timezone: TimezoneOption = None,
    compact: Annotated[bool, typer.Option("--compact", help="Only the lines' cost, the total and warnings.")] = False,
    out: PageOptions,
) -> None:
    """Report a month of the ledger: cost, change, tokens, overhead, success, latency, and what was unusual.

    Example: router report --month 2026-10 --by class --currency JPY --timezone Asia/Tokyo
    """
    from datetime import UTC, datetime

    from reports import month_report, time_zone
    from reports.month_prices import price_basis
    from router.cli.amounts import currency_of, growth_of
    from router.cli.month_option import period_of
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings, now = load_settings(), datetime.now(UTC)
    catalog = catalog_of(settings)
    shown = currency_of(currency or settings.report_currency)
    zone = time_zone(timezone or settings.time_zone)
    period = period_of(month, since, until, last, zone, now)
    basis = price_basis(prices, zone)
    with open_ledger(default_url(settings)) as ledger:
        page = month_report(
            ledger.reader,
            month=period,
            by=by,
            currency=shown,
            time_zone_name=zone.key,
            fx=fx_of(settings, ledger.reader),
            endpoints=settings.endpoints,
            catalog=catalog,
            now=now,
            prices=basis,
            growth=growth_of(growth),
            compact=compact,
        )
    out.put(page)
