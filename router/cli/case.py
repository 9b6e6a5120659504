"""`router case`: promises that are kept: freeze one, list them, and hold a later month against one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import TimezoneOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import (
    BaselineOption,
    CallsOption,
    ConfigurationOption,
    CurrencyOption,
    DiscountOption,
    GrowthOption,
    HorizonOption,
    ListOption,
    MonthlyCostOption,
    PlainBaselineOption,
    Pricing,
    SettlementOption,
    SetupCostOption,
)

if TYPE_CHECKING:
    from datetime import datetime

    from reports.case import Case
    from reports.projection import MonthForecast
    from reports.roi import RoiInputs
    from router.cli.switch import Switch
    from router.ledger import Ledger

case_app = typer.Typer(
    help="Business cases: freeze a promise, review what became of it.", no_args_is_help=True, rich_markup_mode=None
)

LONGEST_NAME = 100
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The case's name.")]


@case_app.command("freeze")
@sharing(PageOptions, "out")
def freeze(
    name: NameArgument,
    *,
    baseline: BaselineOption,
    configuration: ConfigurationOption,
    month: Annotated[
        str, typer.Option("--month", metavar="YYYY-MM|last|this", help="Month of the ledger it is drawn from.")
    ] = "last",
    setup_cost: SetupCostOption = "0",
    monthly_cost: MonthlyCostOption = "0",
    horizon: HorizonOption = 12,
    growth: GrowthOption = "0",
    discount_rate: DiscountOption = "0",
    plain_baseline: PlainBaselineOption = False,
    calls: CallsOption = None,
    price_list: ListOption = "vendor",
    at: Annotated[
        str | None, typer.Option("--at", metavar="DATE", help="Prices and exchange rates of this day. Default: now.")
    ] = None,
    settlement: SettlementOption = None,
    currency: CurrencyOption = None,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Keep a promise for good: baseline, configuration, prices, volumes, forecast, and what the return hangs on.

    Example: router case freeze spring --baseline all-gpt-4.1 --configuration hybrid --setup-cost 3000 --month last
    """
    from datetime import UTC, datetime

    from reports.case_page import case_page
    from router.cli.switch import inputs_of, switch_of
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    _check_name(name)
    inputs = inputs_of(setup_cost, monthly_cost, growth, discount_rate, horizon)
    now = datetime.now(UTC)
    with open_ledger(default_url(load_settings())) as ledger:
        pricing = Pricing(price_list, at, settlement, currency, timezone)
        switch = switch_of(baseline, configuration, calls, pricing, ledger)
        _refuse_taken(ledger, name)
        case = _frozen(ledger, switch, name, month, inputs, now, plain_baseline=plain_baseline)
        _put(ledger, case, now)
    out.put(case_page(case))


@case_app.command("list")
@sharing(PageOptions, "out")
def list_cases(*, out: PageOptions) -> None:
    """List frozen cases, the oldest first.

    Example: router case list
    """
    from reports.case import case_from_json
    from reports.case_page import cases_page
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        cases = [case_from_json(row.document) for row in ledger.reader.cases()]
    out.put(cases_page(cases))


@case_app.command("show")
@sharing(PageOptions, "out")
def show(
    name: NameArgument,
    *,
    out: PageOptions,
) -> None:
    """Show what a case promises, and what it was made from.

    Example: router case show spring
    """
    from reports.case_page import case_page
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        case = _named(ledger, name)
    out.put(case_page(case))


@case_app.command("review")
@sharing(PageOptions, "out")
def review(
    name: NameArgument,
    *,
    month: Annotated[
        str, typer.Option("--month", metavar="YYYY-MM|last|this", help="A month after the one it was drawn from.")
    ] = "last",
    out: PageOptions,
) -> None:
    """Hold a month against a case: promised, paid, and the difference by volume, mix, cache, price and exchange rates.

    Example: router case review spring --month 2026-11
    """
    from datetime import UTC, datetime

    from reports import Exchange, named_month, time_zone
    from reports.case_review_page import review_page
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings = load_settings()
    now = datetime.now(UTC)
    with open_ledger(default_url(settings)) as ledger:
        case = _named(ledger, name)
        wanted = named_month(month, time_zone(case.time_zone), now)
        exchange = Exchange(fx_of(settings, ledger.reader), case.currency)
        page = review_page(ledger.reader, case, wanted, now, catalog=catalog_of(settings), exchange=exchange)
    out.put(page)


def _check_name(name: str) -> None:
    from router.errors import WrongUsage

    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        message = f"case: {name[:60]!r} is not allowed; a name on one line of at most {LONGEST_NAME} characters is"
        raise WrongUsage(message, hint="for instance: router case freeze spring …")


def _refuse_taken(ledger: Ledger, name: str) -> None:
    from router.errors import RouterError
    from router.ledger.reader import instant_at

    taken = next((row for row in ledger.reader.cases() if row.name == name), None)
    if taken is not None:
        message = f"case {name!r}: was frozen on {instant_at(taken.frozen_us):%Y-%m-%d}, and is never changed"
        raise RouterError(message, hint=f"freeze under another name; router case show {name} shows it")


def _frozen(
    ledger: Ledger,
    switch: Switch,
    name: str,
    month: str,
    inputs: RoiInputs,
    now: datetime,
    *,
    plain_baseline: bool,
) -> Case:
    from dataclasses import replace

    from reports import named_month
    from reports.case_freeze import Promise, frozen_case
    from reports.daily_costs import daily_costs

    basis = switch.basis if switch.basis.at else replace(switch.basis, at=now)
    wanted = named_month(month, switch.zone, now)
    costs = daily_costs(
        ledger.reader,
        wanted,
        now,
        baseline=switch.baseline,
        configuration=switch.configuration,
        basis=basis,
        split=switch.split,
        plain_baseline=plain_baseline,
    )
    baseline, configuration = costs.monthly
    given = replace(inputs, baseline=baseline, configuration=configuration)
    promise = Promise(name, switch.baseline, switch.configuration, switch.split, plain_baseline)
    return frozen_case(promise, costs, wanted, basis, given, now, _forecast(ledger, switch, now))


def _forecast(ledger: Ledger, switch: Switch, now: datetime) -> MonthForecast | None:
    """Return the forecast of the next month's spend; None: the ledger has no whole day yet."""
    from datetime import timedelta

    from reports import named_month
    from reports.projection import daily_series, forecast

    this = named_month("this", switch.zone, now)
    series = daily_series(ledger.reader, this, switch.basis.exchange, now)
    if not series.calls:
        return None
    after = named_month(f"{this.last_day + timedelta(days=1):%Y-%m}", switch.zone, now)
    return forecast(series, after.last_day, since=after.first_day)


def _put(ledger: Ledger, case: Case, now: datetime) -> None:
    from reports.case import case_to_json
    from router.ledger.budget_records import CaseRow
    from router.ledger.reader import instant_us

    if not ledger.freeze_case(CaseRow(case.name, instant_us(now), case_to_json(case))):
        _refuse_taken(ledger, case.name)


def _named(ledger: Ledger, name: str) -> Case:
    from reports.case import case_from_json
    from router.errors import WrongUsage, unknown_name

    rows = {row.name: row for row in ledger.reader.cases()}
    if name in rows:
        return case_from_json(rows[name].document)
    if not rows:
        message = f"case: {name!r} does not exist; none is frozen yet"
        raise WrongUsage(message, hint="router case freeze NAME --baseline … --configuration …")
    raise unknown_name("case", name, rows)
