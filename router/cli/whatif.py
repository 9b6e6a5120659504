"""`router whatif`: what a month of the ledger would have cost under other prices, models, terms, volumes and rates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.cli.month_option import CurrencyOption, TimezoneOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pricing import Scenario
    from pricing.scenario_file import Known


@sharing(PageOptions, "out")
def whatif(
    *,
    month: Annotated[
        str | None, typer.Option("--month", metavar="[YYYY-MM|last|this]", help="Month of the ledger. Default: this.")
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="MODEL[@LIST][:COMPONENT]=CHANGE",
            help="+20%, -20%, x0.5, or an amount per Mtok; * and ? allowed in MODEL.",
        ),
    ] = None,
    mapped: Annotated[
        list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="NEW does what OLD did, token for token.")
    ] = None,
    volume: Annotated[
        str | None, typer.Option("--volume", metavar="FACTOR", help="Factor on all quantities. Default: 1.")
    ] = None,
    cache_share: Annotated[
        str | None,
        typer.Option("--cache-share", metavar="SHARE", help="Share of text input read from a cache: 0.6 or 60%."),
    ] = None,
    batch_share: Annotated[
        str | None, typer.Option("--batch-share", metavar="SHARE", help="Share of all work by the batch API.")
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", help="Service tier that everything is served at.")
    ] = None,
    discount: Annotated[
        list[str] | None,
        typer.Option("--discount", metavar="SELLER=SHARE", help="Discount at an endpoint or list: relay=15%."),
    ] = None,
    settlement: Annotated[
        list[str] | None,
        typer.Option(
            "--settlement", metavar="SELLER=RATE", help="market, none, or CUR:RATE for a unit of list price: CNY:1."
        ),
    ] = None,
    fx: Annotated[
        list[str] | None, typer.Option("--fx", metavar="BASE/QUOTE=RATE", help="Exchange rate of every day.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="DATE", help="Prices of this day. Default: each call's own, as on record."),
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", metavar="FILE", help="TOML file; the options come on top of it.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the whole scenario to this file too.")
    ] = None,
    currency: CurrencyOption = None,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Price a month of the ledger again under a scenario: before, after, and where the difference comes from.

    Example: router whatif --month last --price 'gpt-4.1=x0.5' --map gpt-4o=gpt-4.1 --volume 1.5 --cache-share 0.6
    """
    from datetime import UTC, datetime

    from pricing import scenario_to_toml
    from pricing.scenario_file import Known
    from reports import Exchange, named_month, served_month, simulate, time_zone
    from router.cli.amounts import currency_of
    from router.cli.month_option import instant_of
    from router.cli.output import write_whole
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    settings = load_settings()
    catalog = catalog_of(settings)
    zone = time_zone(timezone or settings.time_zone)
    wanted = named_month(month, zone, datetime.now(UTC))
    options = {
        "price": price,
        "map": mapped,
        "volume": volume,
        "cache_share": cache_share,
        "batch_share": batch_share,
        "tier": tier,
        "discount": discount,
        "settlement": settlement,
        "fx": fx,
        "at": instant_of(at, zone) if at else None,
    }
    with open_ledger(default_url(settings)) as ledger:
        exchange = Exchange(fx_of(settings, ledger.reader), currency_of(currency or settings.report_currency))
        work = served_month(ledger.reader, wanted, catalog=catalog, exchange=exchange)
    whole = _scenario(scenario, options, Known(catalog, tuple(settings.endpoints), work.models))
    page = simulate(work, whole, catalog=catalog, endpoints=settings.endpoints, exchange=exchange)
    if save is not None:
        write_whole(save, scenario_to_toml(whole), "--save")
    out.put(page)


def _scenario(file: Path | None, options: Mapping[str, Any], known: Known) -> Scenario:
    """Return the file's scenario with the options' on top; what is not allowed in either is wrong usage."""
    from pricing import Scenario, ScenarioError, load_scenario, scenario_of_options
    from router.errors import WrongUsage

    try:
        base = Scenario() if file is None else load_scenario(file, known)
        return base | scenario_of_options(options, known)
    except ScenarioError as error:
        raise WrongUsage(str(error), hint=error.hint) from None
