"""`router budget`: monthly budgets: set, list, show, check, remove.

In: options. Out: rows in the ledger, pages. Invariant: `check` alone ends with exit code 3, and only for a limit that
was asked for: a budget that is crossed or, with `--forecast`, will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import MonthCommand, MonthOption, TimezoneOption
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from fractions import Fraction

    from reports import Period
    from reports.budget import BudgetState
    from router.ledger.budget_records import BudgetMode, BudgetRow, BudgetScope

budget_app = typer.Typer(
    help="Monthly budgets: set, list, show, check, remove.", no_args_is_help=True, rich_markup_mode=None
)

SCOPES = ("all", "tenant", "class", "model")
LONGEST_NAME = 200
MOST_HARD_UNITS = 9_000_000_000
"""Counted in 1e-9 units, in 64 bits."""
WarnOption = Annotated[
    str, typer.Option("--warn-at", metavar="SHARE", help="Share spent from which on to warn: 80% or 0.8.")
]
WhichArgument = Annotated[
    list[str], typer.Argument(metavar="SCOPE [NAME]", help="all; or tenant, class or model and its name.")
]


@budget_app.command("set")
def set_budget(
    words: Annotated[
        list[str],
        typer.Argument(metavar="SCOPE [NAME] AMOUNT CURRENCY", help="all 500 USD; tenant acme 200 EUR; class, model."),
    ],
    *,
    hard: Annotated[
        bool, typer.Option("--hard", help="Send no call that could cross it. Default: say so when it is crossed.")
    ] = False,
) -> None:
    """Set a monthly budget, in the place of the one of that scope and name.

    Example: router budget set tenant acme 200 EUR --hard
    """
    from datetime import UTC, datetime
    from decimal import Decimal

    from router.cli.amounts import amount_of, currency_of
    from router.cli.output import say
    from router.errors import WrongUsage
    from router.ledger import default_url, open_ledger
    from router.ledger.budget_records import BudgetRow
    from router.ledger.rates import fx_of
    from router.ledger.reader import instant_us
    from router.ledger.records import Amount
    from router.settings_file import load_settings

    if len(words) < 3:
        message = f"budget: {' '.join(words)[:60]!r} is not allowed; SCOPE [NAME] AMOUNT CURRENCY is"
        raise WrongUsage(message, hint="router budget set all 500 USD, or router budget set tenant acme 200 EUR")
    scope, name = _which(words[:-2])
    amount = amount_of(words[-2], "amount")
    if amount <= 0:
        message = f"amount: {words[-2]} is not allowed; more than 0 is"
        raise WrongUsage(message, hint="router budget remove takes a budget away")
    value = Decimal(amount.numerator) / Decimal(amount.denominator)
    if hard and value > MOST_HARD_UNITS:
        message = f"amount: {words[-2]} is not allowed with --hard; up to {MOST_HARD_UNITS} is"
        raise WrongUsage(message, hint="leave --hard out")
    mode: BudgetMode = "hard" if hard else "soft"
    row = BudgetRow(scope, name, Amount(currency_of(words[-1]), value), instant_us(datetime.now(UTC)), mode)
    settings = load_settings()
    with open_ledger(default_url(settings)) as ledger:
        replaced = ledger.set_budget(row)
        pairs = fx_of(settings, ledger.reader).pairs
    currency = row.amount.currency
    if currency != "USD" and not any(currency in pair for pair in pairs):
        say(f"warning: no exchange rate of {currency} is known; router fx set USD/{currency}=RATE gives one")
    said = "in the place of the one before" if replaced else "new"
    stops = "; it stops calls" if hard else ""
    say(f"budget {' '.join(filter(None, (scope, name)))}: {value} {row.amount.currency} a month, {said}{stops}")


@budget_app.command("list", cls=MonthCommand)
@sharing(PageOptions, "out")
def list_budgets(
    *,
    month: MonthOption = None,
    warn_at: WarnOption = "80%",
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """List the budgets: spent, left, what is expected, and the day on which each is used up.

    Example: router budget list --month this
    """
    from reports.budget_page import budgets_page

    states, period, share = _states(month, timezone, warn_at, None)
    out.put(budgets_page(states, period, share))


@budget_app.command("show", cls=MonthCommand)
@sharing(PageOptions, "out")
def show(
    which: WhichArgument,
    *,
    month: MonthOption = None,
    warn_at: WarnOption = "80%",
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Show one budget burning down, day by day.

    Example: router budget show tenant acme
    """
    from reports.budget_page import budget_page

    states, period, share = _states(month, timezone, warn_at, _which(which))
    out.put(budget_page(states[0], period, share))


@budget_app.command("check", cls=MonthCommand)
@sharing(PageOptions, "out")
def check(
    which: Annotated[
        list[str] | None, typer.Argument(metavar="[SCOPE [NAME]]", help="One budget alone. Default: all of them.")
    ] = None,
    *,
    month: MonthOption = None,
    warn_at: WarnOption = "80%",
    forecast: Annotated[bool, typer.Option("--forecast", help="Exit 3 also where the forecast crosses it.")] = False,
    timezone: TimezoneOption = None,
    out: PageOptions,
) -> None:
    """Exit with 3 where a budget is crossed, for cron; a warning alone exits with 0.

    Example: router budget check --forecast
    """
    from reports.budget_page import budgets_page
    from router.errors import RouterError

    states, period, share = _states(month, timezone, warn_at, _which(which) if which else None)
    if not states:
        raise RouterError("budget: none is set, so none can be checked", hint="router budget set all 500 USD")
    out.put(budgets_page(states, period, share))
    _refuse_crossed(states, share, forecast=forecast)


@budget_app.command("remove")
def remove(which: WhichArgument) -> None:
    """Remove a budget.

    Example: router budget remove tenant acme
    """
    from router.cli.output import say
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    scope, name = _which(which)
    with open_ledger(default_url(load_settings())) as ledger:
        found = _chosen(ledger.reader.budgets(), (scope, name))
        ledger.remove_budget(scope, name)
    amount = found[0].amount
    say(f"removed: {' '.join(filter(None, (scope, name)))}, {amount.value} {amount.currency} a month")


def _which(words: list[str]) -> tuple[BudgetScope, str]:
    """Return scope and name; a model's name as the catalogue has it."""
    from typing import cast

    from router.errors import WrongUsage, unknown_name

    scope, *names = words
    if scope not in SCOPES:
        raise unknown_name("scope", scope, SCOPES)
    if scope == "all" and names:
        message = f"budget: scope all has no name, and {names[0][:60]!r} is given"
        raise WrongUsage(message, hint="router budget set all 500 USD")
    if names == [""]:
        raise WrongUsage(f"budget: the name of scope {scope} is empty", hint=f"router budget set {scope} NAME 500 USD")
    if scope != "all" and (len(names) != 1 or not names[0].strip()):
        message = f"budget: scope {scope} needs one name, and {len(names)} are given"
        raise WrongUsage(message, hint=f"for instance: router budget set {scope} NAME 500 USD")
    name = names[0] if names else ""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        message = f"budget: {name[:60]!r} is not allowed; a name on one line of at most {LONGEST_NAME} characters is"
        raise WrongUsage(message, hint="write it as the report's lines have it")
    return cast("BudgetScope", scope), _model(name) if scope == "model" else name


def _model(name: str) -> str:
    from pricing import UnknownModel
    from router.client import catalog_of
    from router.errors import WrongUsage
    from router.settings_file import load_settings

    settings = load_settings()
    try:
        return catalog_of(settings).find(settings.aliases.get(name, name))
    except UnknownModel as error:
        raise WrongUsage(str(error), hint=error.hint or "router prices list names the models") from None


def _states(
    month: str | None, timezone: str | None, warn_at: str, which: tuple[BudgetScope, str] | None
) -> tuple[tuple[BudgetState, ...], Period, Fraction]:
    from datetime import UTC, datetime

    from reports import named_month, time_zone
    from reports.budget import budget_states
    from router.cli.amounts import share_of
    from router.errors import WrongUsage
    from router.ledger import default_url, open_ledger
    from router.ledger.rates import fx_of
    from router.settings_file import load_settings

    share = share_of(warn_at, "--warn-at")
    if not 0 < share <= 1:
        raise WrongUsage(f"--warn-at: {warn_at} is not allowed; more than 0 % up to 100 % is", hint="--warn-at 80%")
    settings = load_settings()
    now = datetime.now(UTC)
    period = named_month(month, time_zone(timezone or settings.time_zone), now)
    with open_ledger(default_url(settings)) as ledger:
        budgets = ledger.reader.budgets()
        chosen = budgets if which is None else _chosen(budgets, which)
        fx = fx_of(settings, ledger.reader)
        return budget_states(ledger.reader, chosen, period, now, fx), period, share


def _chosen(budgets: tuple[BudgetRow, ...], which: tuple[BudgetScope, str]) -> tuple[BudgetRow, ...]:
    from reports.budget_page import budget_name
    from router.errors import WrongUsage

    found = tuple(budget for budget in budgets if (budget.scope, budget.name) == which)
    if not found:
        names = ", ".join(budget_name(budget) for budget in budgets) or "none"
        message = f"budget: {' '.join(filter(None, which))!r} is not set; those that are: {names}"
        raise WrongUsage(message, hint="router budget set SCOPE [NAME] AMOUNT CURRENCY")
    return found


def _refuse_crossed(states: tuple[BudgetState, ...], warn_at: Fraction, *, forecast: bool) -> None:
    from reports.budget_page import budget_name
    from router.errors import LimitCrossed

    refused = ("crossed", "forecast to cross") if forecast else ("crossed",)
    found = [(state, state.state(warn_at)) for state in states]
    crossed = [(state, word) for state, word in found if word in refused]
    if crossed:
        named = "; ".join(f"{budget_name(state.budget)} {_when(state, word)}" for state, word in crossed)
        message = f"budget: {named}"
        raise LimitCrossed(message, hint="router budget show SCOPE [NAME] shows it day by day")


def _when(state: BudgetState, word: str) -> str:
    if word == "crossed":
        return f"crossed on {state.crossed_on}" if state.crossed_on else "crossed"
    return f"will cross on {state.crosses_on}"
