"""`router compare`: what the same work costs under several configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import CallsOption, Pricing, basis_of
from router.cli.totals import CachedTokensOption, InputTokensOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reports import Basis, Page, Period, Singles, Work
    from router.ledger import Ledger
    from router.settings import ConfigurationSettings, Settings


@sharing(PageOptions, "out")
@sharing(Pricing, "pricing")
def compare(
    configuration: Annotated[
        list[str],
        typer.Argument(
            help="Configurations, or models (all of that model), bought elsewhere as NAME@ENDPOINT; as-billed is what "
            "is on record. The first is the baseline."
        ),
    ],
    *,
    month: Annotated[
        str | None,
        typer.Option(
            "--month", metavar="[YYYY-MM|last|this]", help="Re-price this month of the ledger. Default: this."
        ),
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option("--output-tokens", metavar="N", help="By hand: output tokens; k, M and G allowed.")
    ] = None,
    input_tokens: InputTokensOption = None,
    cached_tokens: CachedTokensOption = None,
    requests: Annotated[
        str | None,
        typer.Option("--requests", metavar="N", help="By hand: requests; the tokens are then those of each request."),
    ] = None,
    calls: CallsOption = None,
    pricing: Pricing,
    out: PageOptions,
) -> None:
    """Price the same work under several configurations, on the ledger's month or on totals given by hand.

    Example: router compare all-gpt-4.1 hybrid hybrid@relay by_class --month last

    Example: router compare all-gpt-4.1 hybrid --input-tokens 8M --output-tokens 3.2M --calls 1:5
    """
    from router.settings_file import load_settings

    settings = load_settings()
    given = {
        "input_tokens": input_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output_tokens,
        "requests": requests,
    }
    if any(text is not None for text in given.values()):
        page = _by_hand(configuration, given, calls, month, pricing, settings)
    else:
        page = _recorded(configuration, calls, month, pricing, settings)
    out.put(page)


def _by_hand(
    names: Sequence[str],
    given: Mapping[str, str | None],
    calls: str | None,
    month: str | None,
    pricing: Pricing,
    settings: Settings,
) -> Page:
    from dataclasses import replace
    from datetime import UTC, datetime

    from reports import bases_named, compare_configurations, configurations_named
    from reports.contenders import AS_BILLED
    from reports.workload import split_of
    from router.cli.totals import Totals
    from router.errors import WrongUsage

    if month is not None:
        raise WrongUsage("--month: not allowed beside totals given by hand", hint="leave out one of the two")
    zone, basis = basis_of(settings, pricing, None)
    at = basis.at or datetime.now(UTC)
    basis = replace(basis, at=at)
    rules = configurations_named([name for name in names if name != AS_BILLED], settings, basis.catalog)
    split = None if calls is None else split_of(calls)
    totals = Totals.of(given)
    totals.check(tuple(rules.items()), split)
    bases = bases_named(rules, settings, basis, at)
    work = totals.work(at, zone, split)
    return compare_configurations(rules, work, basis, bases=bases, against_record=AS_BILLED in names)


def _recorded(names: Sequence[str], calls: str | None, month: str | None, pricing: Pricing, settings: Settings) -> Page:
    from datetime import UTC, datetime

    from reports import bases_named, compare_configurations, configurations_named, named_month
    from reports.contenders import AS_BILLED
    from reports.period import at_us
    from router.ledger import default_url, open_ledger

    zone, _ = basis_of(settings, pricing, None)  # what is wrong is said before anything is read
    wanted = named_month(month, zone, datetime.now(UTC))
    with open_ledger(default_url(settings)) as ledger:
        _, basis = basis_of(settings, pricing, ledger)
        rules = configurations_named([name for name in names if name != AS_BILLED], settings, basis.catalog)
        bases = bases_named(rules, settings, basis, basis.at or at_us(wanted.start_us))
        singles = singles_of(settings, rules, basis)
        work = month_work(ledger, wanted, calls, rules, bases, singles, basis)
    return compare_configurations(
        rules, work, basis, bases=bases, singles=singles, against_record=names[0] == AS_BILLED
    )


def singles_of(settings: Settings, rules: Mapping[str, ConfigurationSettings], basis: Basis) -> Singles:
    """Return what the baselines are chosen from: every model that a configuration names, the floors that are set."""
    from reports import Singles, models_named
    from router.policy.by_plan import as_by_class
    from router.settings import FixedSettings
    from router.settings_plan import ByPlanSettings

    every = [*settings.configurations.values(), *rules.values()]
    floors = [
        as_by_class(rule) if isinstance(rule, ByPlanSettings) else rule
        for rule in (*rules.values(), *settings.configurations.values())
        if not isinstance(rule, FixedSettings)
    ]
    models = models_named(every, basis.catalog)
    return Singles(models, floors[0]) if floors else Singles(models)


def month_work(
    ledger: Ledger,
    month: Period,
    calls: str | None,
    rules: Mapping[str, ConfigurationSettings],
    bases: Mapping[str, Basis],
    singles: Singles,
    basis: Basis,
) -> Work:
    """Return a month of the ledger as the work of some configurations.

    Args:
        ledger: the ledger.
        month: the month.
        calls: how attempts without a role are split, as 1:5; None: they are not.
        rules: the configurations by name.
        bases: their prices by name.
        singles: what else will be priced, at `basis`.
        basis: the page's prices.

    Raises:
        WrongUsage: `calls` is no split.
        RouterError: the month has no rows.
    """
    from reports import work_of_month
    from reports.sold import needs_days, sold_at
    from reports.workload import split_of

    sold = sold_at(rules, bases, basis.catalog) | {(model, basis.price_list) for model in singles.models}
    return work_of_month(
        ledger.reader,
        month,
        split=None if calls is None else split_of(calls),
        catalog=basis.catalog,
        price_list=basis.price_list,
        exchange=basis.exchange,
        sold=() if basis.at else sold,
        by_day=needs_days(sold, (basis, *bases.values()), basis.exchange.currency),
    )
