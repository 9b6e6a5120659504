"""`router compare`: what the same work costs under several configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import FormatOption, OutputOption, PageFormat, TimezoneOption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from pricing import Catalog
    from reports import Exchange, Work
    from router.settings import ConfigurationSettings, Settings


def compare(
    configuration: Annotated[
        list[str],
        typer.Argument(help="Named configurations, or models (all of that model); the first is the baseline."),
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
    input_tokens: Annotated[
        str | None,
        typer.Option("--input-tokens", metavar="N", help="By hand: input tokens, cached included. Default: 0."),
    ] = None,
    cached_tokens: Annotated[
        str | None, typer.Option("--cached-tokens", metavar="N", help="By hand: the cached part of input. Default: 0.")
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option("--requests", metavar="N", help="By hand: requests; the tokens are then those of each request."),
    ] = None,
    calls: Annotated[
        str | None,
        typer.Option("--calls", metavar="A:B", help="Orchestrator calls to worker calls; tokens are split alike."),
    ] = None,
    price_list: Annotated[
        str, typer.Option("--list", metavar="NAME", help="Price list; vendor: each model at its vendor's.")
    ] = "vendor",
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="DATE", help="Prices of this day. Default: by hand today's, else each call's own."
        ),
    ] = None,
    settlement: Annotated[
        str | None,
        typer.Option("--settlement", metavar="CUR=RATE", help="What one unit of list price is paid with: CNY=1."),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option("--currency", metavar="CODE", help="Currency of the page. Default: the settlement's, or set."),
    ] = None,
    timezone: TimezoneOption = None,
    form: FormatOption = PageFormat.TEXT,
    output: OutputOption = None,
) -> None:
    """Price the same work under several configurations, on the ledger's month or on totals given by hand.

    Example: router compare all-gpt-4.1 hybrid --input-tokens 8M --output-tokens 3.2M --calls 1:5

    Example: router compare deepseek-v3.2 gpt-4.1 --list relay --requests 10k --output-tokens 500 --settlement CNY=1
    """
    from datetime import UTC, datetime

    from reports import Basis, Exchange, compare_configurations, configurations_named, time_zone
    from router.cli.month_option import currency_of, instant_of, terms_of
    from router.cli.output import put_page
    from router.client import catalog_of
    from router.ledger.rates import recorded_fx
    from router.settings_file import load_settings

    settings = load_settings()
    catalog = catalog_of(settings)
    _check_list(catalog, price_list)
    zone = time_zone(timezone or settings.time_zone)
    terms = terms_of(settlement)
    shown = currency_of(currency or terms.settlement_currency or settings.report_currency)
    named = configurations_named(configuration, settings, catalog)
    exchange = Exchange(recorded_fx(settings), shown)
    instant = instant_of(at, zone) if at else None
    given = _Given(input_tokens, cached_tokens, output_tokens, requests, calls)
    if given.by_hand:
        instant = instant or datetime.now(UTC)
        work = given.work(named, instant, zone, month)
    else:
        work = _recorded_work(settings, month, calls, catalog, price_list, exchange, zone)
    page = compare_configurations(named, work, Basis(catalog, price_list, instant, terms, exchange))
    put_page(page, form.value, output)


def _check_list(catalog: Catalog, price_list: str) -> None:
    """Refuse a price list that does not exist, before anything is read."""
    from router.errors import unknown_name

    known = (*catalog.lists, "vendor")
    if price_list not in known:
        raise unknown_name("price list", price_list, known)


@dataclass(frozen=True, slots=True)
class _Given:
    """The options that give totals by hand, as they were typed; None: not given."""

    input_tokens: str | None
    cached_tokens: str | None
    output_tokens: str | None
    requests: str | None
    calls: str | None

    @property
    def by_hand(self) -> bool:
        """Whether any total is given, so that the ledger is not read."""
        return any(
            value is not None for value in (self.input_tokens, self.cached_tokens, self.output_tokens, self.requests)
        )

    def work(self, named: Mapping[str, ConfigurationSettings], at: datetime, zone: ZoneInfo, month: str | None) -> Work:
        """Return the totals as work.

        Raises:
            WrongUsage: a number is not one, the options exclude each other, or a pair has no split.
        """
        from reports import Fact, Note, Work, totals_by_hand
        from reports.workload import split_of

        self._check(named, month)
        split = None if self.calls is None else split_of(self.calls)
        tokens = {name: self._number(name) for name in ("input_tokens", "cached_tokens", "output_tokens")}
        times = None if self.requests is None else self._number("requests")
        notes = [Note("note", _each(times))]
        if self.input_tokens is None:
            notes.append(
                Note("note", "no input tokens are given, so output alone is priced: --input-tokens N adds them")
            )
        return Work(
            title="totals given by hand",
            portions=totals_by_hand(**tokens, at=at, split=split, requests=times),
            parameters=(
                *(Fact(name, name.replace("_", " "), count, "tokens") for name, count in tokens.items()),
                Fact("requests", "requests", times, "count"),
                Fact("calls", "orchestrator : worker", self.calls),
            ),
            notes=tuple(notes),
            rows_counted=0,
            rows_unpriced=0,
            estimates=0,
            time_zone=zone.key,
        )

    def _check(self, named: Mapping[str, ConfigurationSettings], month: str | None) -> None:
        from router.errors import WrongUsage
        from router.settings import FixedSettings

        if month is not None:
            raise WrongUsage("--month: not allowed beside totals given by hand", hint="leave out one of the two")
        for name, rule in named.items():
            if not isinstance(rule, FixedSettings):
                message = f"configuration: {name!r} chooses a model for each request, and totals by hand have none"
                raise WrongUsage(message, hint="compare it on the ledger: router compare … --month")
            if self.calls is None and rule.orchestrator != rule.worker:
                message = f"--calls: missing, and configuration {name!r} has two models"
                raise WrongUsage(message, hint="one orchestrator call for five worker calls is --calls 1:5")

    def _number(self, name: str) -> int:
        from reports.workload import quantity

        text = getattr(self, name)
        return 0 if text is None else quantity(text, f"--{name.replace('_', '-')}")


def _each(requests: int | None) -> str:
    if requests is None:
        return "the token counts are totals; no request is taken to reach a context tier"
    return "the token counts are those of each request"


def _recorded_work(
    settings: Settings,
    month: str | None,
    calls: str | None,
    catalog: Catalog,
    price_list: str,
    exchange: Exchange,
    zone: ZoneInfo,
) -> Work:
    from datetime import UTC, datetime

    from reports import named_month, work_of_month
    from reports.workload import split_of
    from router.ledger import default_url, open_ledger

    split = None if calls is None else split_of(calls)
    wanted = named_month(month, zone, datetime.now(UTC))
    with open_ledger(default_url(settings)) as ledger:
        return work_of_month(
            ledger.reader, wanted, split=split, catalog=catalog, price_list=price_list, exchange=exchange
        )
