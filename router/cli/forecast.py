"""`router forecast check`: what was expected of calls and runs against what came.

In: options. Out: a page. Invariant: nothing is written.
"""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.month_option import MonthCommand, MonthOption, SinceOption, TimezoneOption, UntilOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

forecast_app = typer.Typer(
    no_args_is_help=True, help="Forecasts held against what came: check.", rich_markup_mode=None, add_completion=False
)


@forecast_app.command("check", cls=MonthCommand)
@sharing(PageOptions, "out")
def check(
    *,
    month: MonthOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="LENGTH", help="Days up to today: 7d, 4w, 3m. Default: 30d."),
    ] = None,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Hold forecasts against what came: tokens, cost and latency by model and class, and how many intervals held.

    Example: router forecast check --last 7d
    """
    from datetime import UTC, datetime

    from reports.forecast_page import forecast_page
    from reports.period import time_zone
    from router.cli.month_option import period_of
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    settings = load_settings()
    zone = time_zone(timezone or settings.time_zone)
    if month is None and since is None and last is None:
        last = "30d"
    period = period_of(month, since, until, last, zone, datetime.now(UTC))
    with open_ledger(default_url(settings)) as ledger:
        page = forecast_page(ledger, period)
    out.put(page)
