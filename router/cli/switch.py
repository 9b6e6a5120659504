"""What `router roi`, `router fleet` and `router case` share: two configurations, a price basis, amounts and shares.

In: options. Out: a `Switch`, numbers. Invariant: a value that is not allowed ends in one line that says what is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import TimezoneOption

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from reports import Basis, Split
    from reports.daily_costs import Named
    from reports.roi import RoiInputs
    from router.ledger import Ledger
    from router.settings import ConfigurationSettings, Settings

BaselineOption = Annotated[
    str, typer.Option("--baseline", metavar="NAME", help="Configuration or model that is compared with.")
]
ConfigurationOption = Annotated[
    str, typer.Option("--configuration", metavar="NAME", help="Configuration or model that is switched to.")
]
SetupCostOption = Annotated[
    str, typer.Option("--setup-cost", metavar="AMOUNT", help="Paid once, in the page's currency.")
]
MonthlyCostOption = Annotated[
    str, typer.Option("--monthly-cost", metavar="AMOUNT", help="Paid each month for running it.")
]
HorizonOption = Annotated[int, typer.Option("--horizon", metavar="MONTHS", help="Months looked at, 1 to 600.")]
GrowthOption = Annotated[
    str, typer.Option("--growth", metavar="SHARE", help="Growth of the volume a month: 5% or 0.05.")
]
DiscountOption = Annotated[
    str, typer.Option("--discount-rate", metavar="SHARE", help="Discount rate a year: 8% or 0.08.")
]
CallsOption = Annotated[
    str | None,
    typer.Option("--calls", metavar="A:B", help="Orchestrator calls to worker calls, where no role is known."),
]
ListOption = Annotated[
    str, typer.Option("--list", metavar="NAME", help="Price list; vendor: each model at its vendor's.")
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="DATE", help="Prices of this day. Default: by hand today's, else each call's own."),
]
SettlementOption = Annotated[
    str | None,
    typer.Option("--settlement", metavar="CUR=RATE", help="What one unit of list price is paid with: CNY=1."),
]
CurrencyOption = Annotated[
    str | None,
    typer.Option("--currency", metavar="CODE", help="Currency of the page. Default: the settlement's, or as set."),
]
PlainBaselineOption = Annotated[
    bool, typer.Option("--plain-baseline", help="The baseline makes no plans: orchestrators' calls cost it nothing.")
]


@dataclass(frozen=True, slots=True)
class Pricing:
    """The options that say what is priced with, as they were typed, for `router.cli.shared_options.sharing`."""

    price_list: ListOption = "vendor"
    at: AtOption = None
    settlement: SettlementOption = None
    currency: CurrencyOption = None
    timezone: TimezoneOption = None


@dataclass(frozen=True, slots=True)
class Switch:
    """Two configurations and what they are priced with.

    Args:
        settings: as loaded.
        zone: the time zone of days.
        basis: the prices; its instant is None where none was asked for.
        baseline: name and rule of what is compared with.
        configuration: name and rule of what is switched to.
        split: how attempts without a role are split, or None.
    """

    settings: Settings
    zone: ZoneInfo
    basis: Basis
    baseline: Named
    configuration: Named
    split: Split | None

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two."""
        return self.baseline[0], self.configuration[0]


def switch_of(baseline: str, configuration: str, calls: str | None, pricing: Pricing, ledger: Ledger | None) -> Switch:
    """Return the switch that options name.

    Args:
        baseline: name of a configuration or model.
        configuration: the same.
        calls: as 1:5, or None.
        pricing: what is priced with.
        ledger: has exchange rates; None: those of the ledger that is set are read if it is there.

    Raises:
        WrongUsage: a name or value is not allowed.
    """
    from reports.workload import split_of
    from router.errors import WrongUsage
    from router.settings_file import load_settings

    settings = load_settings()
    zone, basis = basis_of(settings, pricing, ledger)
    rules = named_rules((baseline, configuration), settings, basis)
    if len(rules) == 1:
        message = f"--configuration: {configuration!r} is the baseline too, and nothing is switched"
        raise WrongUsage(message, hint="name two, for instance --baseline all-gpt-4.1 --configuration hybrid")
    split = None if calls is None else split_of(calls)
    return Switch(settings, zone, basis, (baseline, rules[baseline]), (configuration, rules[configuration]), split)


def basis_of(settings: Settings, pricing: Pricing, ledger: Ledger | None) -> tuple[ZoneInfo, Basis]:
    """Return the time zone and the price basis that options name; see `switch_of`."""
    from reports import Basis, Exchange, time_zone
    from router.cli.amounts import currency_of, terms_of
    from router.cli.month_option import instant_of
    from router.client import catalog_of
    from router.errors import unknown_name
    from router.ledger.rates import fx_of, recorded_fx

    catalog = catalog_of(settings)
    known = (*catalog.lists, "vendor")
    if pricing.price_list not in known:
        raise unknown_name("price list", pricing.price_list, known)
    zone = time_zone(pricing.timezone or settings.time_zone)
    terms = terms_of(pricing.settlement)
    shown = currency_of(pricing.currency or terms.settlement_currency or settings.report_currency)
    fx = recorded_fx(settings) if ledger is None else fx_of(settings, ledger.reader)
    at = instant_of(pricing.at, zone) if pricing.at else None
    return zone, Basis(catalog, pricing.price_list, at, terms, Exchange(fx, shown))


def inputs_of(setup_cost: str, monthly_cost: str, growth: str, discount_rate: str, horizon: int) -> RoiInputs:
    """Return what a return is worked out from, as it was typed; the costs of both configurations are still 0.

    Raises:
        WrongUsage: a value is not allowed.
    """
    from fractions import Fraction

    from reports.roi import RoiInputs
    from router.cli.amounts import amount_of, share_of

    return RoiInputs(
        baseline=Fraction(0),
        configuration=Fraction(0),
        setup_cost=amount_of(setup_cost, "--setup-cost"),
        monthly_cost=amount_of(monthly_cost, "--monthly-cost"),
        growth=share_of(growth, "--growth"),
        discount_rate=share_of(discount_rate, "--discount-rate"),
        horizon=horizon,
    )


def named_rules(names: tuple[str, ...], settings: Settings, basis: Basis) -> dict[str, ConfigurationSettings]:
    """Return the rules of configurations or models by name.

    Raises:
        WrongUsage: a name is neither.
    """
    from reports import configurations_named

    return dict(configurations_named(names, settings, basis.catalog))
