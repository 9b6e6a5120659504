"""`router roi`: when a switch pays back, and what it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import (
    BaselineOption,
    CallsOption,
    ConfigurationOption,
    DiscountOption,
    GrowthOption,
    HorizonOption,
    MonthlyCostOption,
    PlainBaselineOption,
    Pricing,
    SetupCostOption,
)
from router.cli.totals import CachedTokensOption, InputTokensOption

if TYPE_CHECKING:
    from fractions import Fraction

    from reports.roi_page import Drawn
    from router.cli.switch import Switch


@sharing(PageOptions, "out")
@sharing(Pricing, "pricing")
def roi(
    *,
    baseline: BaselineOption,
    configuration: ConfigurationOption,
    setup_cost: SetupCostOption = "0",
    monthly_cost: MonthlyCostOption = "0",
    horizon: HorizonOption = 12,
    growth: GrowthOption = "0",
    discount_rate: DiscountOption = "0",
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="[YYYY-MM|last|this]", help="Month of the ledger. Default: last."),
    ] = None,
    plain_baseline: PlainBaselineOption = False,
    output_tokens: Annotated[
        str | None,
        typer.Option("--output-tokens", metavar="N", help="By hand: output tokens a month; k, M, G allowed."),
    ] = None,
    input_tokens: InputTokensOption = None,
    cached_tokens: CachedTokensOption = None,
    requests: Annotated[
        str | None,
        typer.Option("--requests", metavar="N", help="By hand: requests a month; the tokens are then those of each."),
    ] = None,
    calls: CallsOption = None,
    pricing: Pricing,
    out: PageOptions,
) -> None:
    """Say when a switch pays back: a month's savings with their interval, payback, ROI, net present value, break-even.

    Example: router roi --baseline all-gpt-4.1 --configuration hybrid --setup-cost 3000 --monthly-cost 200 --horizon 12
    """
    from dataclasses import replace

    from reports.roi_page import roi_page
    from router.cli.switch import inputs_of, switch_of

    inputs = inputs_of(setup_cost, monthly_cost, growth, discount_rate, horizon)
    by_hand = {
        "input_tokens": input_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output_tokens,
        "requests": requests,
    }
    switch = switch_of(baseline, configuration, calls, pricing, None)
    if any(value is not None for value in by_hand.values()):
        costs, drawn = _by_hand(switch, by_hand, month)
    else:
        costs, drawn = _of_month(switch, month or "last", plain_baseline=plain_baseline)
    inputs = replace(inputs, baseline=costs[0], configuration=costs[1])
    out.put(roi_page(switch.names, inputs, drawn, switch.basis.exchange.currency))


def _of_month(switch: Switch, month: str, *, plain_baseline: bool) -> tuple[tuple[Fraction, Fraction], Drawn]:
    from datetime import UTC, datetime

    from reports import named_month
    from reports.daily_costs import daily_costs
    from reports.roi_drawn import drawn_of_month
    from router.ledger import default_url, open_ledger

    now = datetime.now(UTC)
    wanted = named_month(month, switch.zone, now)
    with open_ledger(default_url(switch.settings)) as ledger:
        costs = daily_costs(
            ledger.reader,
            wanted,
            now,
            baseline=switch.baseline,
            configuration=switch.configuration,
            basis=switch.basis,
            split=switch.split,
            plain_baseline=plain_baseline,
        )
    return costs.monthly, drawn_of_month(costs, wanted, switch.names, switch.basis, plain_baseline=plain_baseline)


def _by_hand(
    switch: Switch, given: dict[str, str | None], month: str | None
) -> tuple[tuple[Fraction, Fraction], Drawn]:
    from dataclasses import replace
    from datetime import UTC, datetime

    from reports.roi_drawn import drawn_by_hand
    from router.cli.totals import Totals
    from router.errors import WrongUsage

    if month is not None:
        raise WrongUsage("--month: not allowed beside totals given by hand", hint="leave out one of the two")
    basis = switch.basis if switch.basis.at else replace(switch.basis, at=datetime.now(UTC))
    totals = Totals.of(given)
    totals.check((switch.baseline, switch.configuration), switch.split)
    work = totals.work(basis.at or datetime.now(UTC), switch.zone, switch.split)
    baseline, configuration, drawn = drawn_by_hand(work, switch.baseline, switch.configuration, basis, totals.requests)
    return (baseline, configuration), drawn
