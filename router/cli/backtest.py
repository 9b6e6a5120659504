"""`router backtest`: how good forecasts of the ledger's own past months would have been."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.month_option import CurrencyOption, TimezoneOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing


@sharing(PageOptions, "out")
def backtest(
    *,
    months: Annotated[
        int, typer.Option("--months", metavar="N", min=1, max=13, help="The last so many months that are over.")
    ] = 12,
    currency: CurrencyOption = None,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Forecast past months from what was known on days 5, 10 and 17: error and interval coverage, beside run-rate.

    Example: router backtest --months 6
    """
    from datetime import UTC, datetime

    from reports import Exchange, time_zone
    from reports.projection import backtest_report
    from router.cli.amounts import currency_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings = load_settings()
    zone = time_zone(timezone or settings.time_zone)
    with open_ledger(default_url(settings)) as ledger:
        exchange = Exchange(fx_of(settings, ledger.reader), currency_of(currency or settings.report_currency))
        page = backtest_report(ledger.reader, exchange, zone, datetime.now(UTC), months)
    out.put(page)
