"""`router fleet`: what a fleet of agents costs, from numbers alone."""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.month_option import TimezoneOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import CallsOption, CurrencyOption, ListOption, Pricing, SettlementOption


@sharing(PageOptions, "out")
def fleet(
    configuration: Annotated[
        list[str], typer.Argument(help="Configurations or models; the others are compared with the first.")
    ],
    *,
    agents: Annotated[str, typer.Option("--agents", metavar="N", help="Agents at work.")],
    tasks_per_day: Annotated[str, typer.Option("--tasks-per-day", metavar="N", help="Tasks of each agent a day.")],
    output_tokens_per_task: Annotated[
        str, typer.Option("--output-tokens-per-task", metavar="N", help="Output tokens of each task.")
    ],
    input_tokens_per_task: Annotated[
        str | None,
        typer.Option("--input-tokens-per-task", metavar="N", help="Input tokens of each task, cached included."),
    ] = None,
    cached_tokens_per_task: Annotated[
        str, typer.Option("--cached-tokens-per-task", metavar="N", help="The cached part of input.")
    ] = "0",
    days: Annotated[int, typer.Option("--days", metavar="N", help="Days at work.")] = 30,
    calls: CallsOption = None,
    price_list: ListOption = "vendor",
    at: Annotated[
        str | None, typer.Option("--at", metavar="DATE", help="Prices of this day. Default: today's.")
    ] = None,
    settlement: SettlementOption = None,
    currency: CurrencyOption = None,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Price a fleet of agents: agents × tasks a day × tokens a task × days, under several configurations.

    Example: router fleet gpt-4.1 deepseek-v3.2 --agents 100 --tasks-per-day 50 --output-tokens-per-task 2048
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from reports.fleet import Fleet, fleet_page
    from reports.workload import quantity, split_of
    from router.cli.switch import basis_of, named_rules
    from router.cli.totals import Totals
    from router.settings_file import load_settings

    known = input_tokens_per_task
    wanted = Fleet(
        agents=quantity(agents, "--agents"),
        tasks_per_day=quantity(tasks_per_day, "--tasks-per-day"),
        output_tokens_per_task=quantity(output_tokens_per_task, "--output-tokens-per-task"),
        input_tokens_per_task=None if known is None else quantity(known, "--input-tokens-per-task"),
        cached_tokens_per_task=quantity(cached_tokens_per_task, "--cached-tokens-per-task"),
        days=days,
    )
    split = None if calls is None else split_of(calls)
    settings = load_settings()
    zone, basis = basis_of(settings, Pricing(price_list, at, settlement, currency, timezone), None)
    rules = named_rules(tuple(configuration), settings, basis)
    Totals(None, None, None, None).check(tuple(rules.items()), split)
    instant = basis.at or datetime.now(UTC)
    page = fleet_page(wanted, rules, replace(basis, at=instant), instant, split=split, time_zone=zone.key)
    out.put(page)
