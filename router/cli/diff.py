"""`router diff`: past, new and change of two months or two configurations, and a limit for CI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.compare import month_work
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing
from router.cli.switch import CallsOption, Pricing, basis_of

if TYPE_CHECKING:
    from datetime import datetime
    from fractions import Fraction
    from zoneinfo import ZoneInfo

    from reports import Basis, Note, Page, Period
    from reports.diff import Side
    from router.cli.amounts import Limit
    from router.ledger import Ledger
    from router.settings import Settings

_MONTH = re.compile(r"\d{4}-\d{1,2}|last|this", re.ASCII)


@sharing(PageOptions, "out")
@sharing(Pricing, "pricing")
def diff(
    past: Annotated[str, typer.Argument(help="A month (2026-10, last, this), a configuration, a model, or as-billed.")],
    new: Annotated[str, typer.Argument(help="What is compared with it: another of the same kind.")],
    *,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="GROUP",
            help="Lines: model, role, class or component; of months also configuration, endpoint or tenant.",
        ),
    ] = "model",
    fail_above: Annotated[
        str | None,
        typer.Option(
            "--fail-above",
            metavar="AMOUNT|SHARE%",
            help="Exit 3 where the total rises by more: an amount in the page's currency, or a share of the past: 5%.",
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="[YYYY-MM|last|this]", help="Month that configurations are priced on: this."),
    ] = None,
    calls: CallsOption = None,
    pricing: Pricing,
    out: PageOptions,
) -> None:
    """Set two months, or two configurations over one month, side by side, and fail where the new one costs too much.

    Example: router diff last this --by class --fail-above 5% --format markdown --output cost.md

    Example: router diff all-gpt-4.1 hybrid --month 2026-10 --fail-above 100
    """
    from reports.diff import change_of
    from router.cli.amounts import limit_of

    limit = None if fail_above is None else limit_of(fail_above, "--fail-above")
    asked = _Asked((past, new), by, month, calls, pricing, fail_above)
    sides, page, shown = asked.read()
    out.put(page)
    if limit is not None:
        _refuse_above(limit, change_of(*sides), sides[0], shown)


def _refuse_above(limit: Limit, change: Fraction | None, past: Side, currency: str) -> None:
    """Hold a change against the limit.

    Raises:
        LimitCrossed: it is above.
        RouterError: the change is not known.
    """
    from reports.render.numbers import format_amount, format_percent
    from router.errors import LimitCrossed, RouterError

    if change is None:
        message = "--fail-above: the change is not known, since something has no price; it was not held against"
        raise RouterError(f"{message} {limit.text}", hint="the page's warnings say what has no price")
    base = past.total.value if past.total else None
    if not limit.is_crossed(change, base):
        return
    share = f" ({format_percent(change / base, signed=True)})" if base else ""
    amount = f"{format_amount(change, currency)} {currency}"
    unit = "" if limit.is_share else f" {currency}"
    message = f"the new total is {amount}{share} above the past one, more than --fail-above {limit.text}{unit}"
    raise LimitCrossed(message, hint="the page's first lines have the greatest changes")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be set side by side, as it was typed."""

    names: tuple[str, str]
    by: str
    month: str | None
    calls: str | None
    pricing: Pricing
    fail_above: str | None

    def read(self) -> tuple[tuple[Side, Side], Page, str]:
        """Return both sides, their page and its currency."""
        from datetime import UTC, datetime

        from reports.diff import check_group, diff_page
        from reports.page import Fact
        from router.ledger import default_url, open_ledger
        from router.settings_file import load_settings

        settings, now = load_settings(), datetime.now(UTC)
        are_months = self._are_months()
        check_group(self.by, recorded=are_months)
        zone, _ = basis_of(settings, self.pricing, None)  # what is wrong is said before anything is read
        months = self._periods(zone, now, are_months=are_months)
        with open_ledger(default_url(settings)) as ledger:
            _, basis = basis_of(settings, self.pricing, ledger)
            if are_months:
                sides = self._months(months, basis, ledger)
            else:
                sides = self._configurations(months[0], settings, basis, ledger)
        where = "" if are_months else f", {months[0].name}"
        page = diff_page(
            *sides,
            title=f"Difference: {sides[0].name} and {sides[1].name}{where}",
            by=self.by,
            parameters=() if are_months else (Fact("month", "month", months[0].name),),
            footer=(
                Fact("limit", "limit of the rise", self.fail_above or "none"),
                Fact("catalogue_date", "catalogue of", basis.catalog.checked.isoformat()),
                Fact("time_zone", "time zone", zone.key),
            ),
            exchange=basis.exchange,
            notes=_running(months, now),
        )
        return sides, page, basis.exchange.currency

    def _are_months(self) -> bool:
        """Return whether both names are months.

        Raises:
            WrongUsage: one is and the other is not, or an option is only for configurations.
        """
        from router.errors import WrongUsage

        found = [bool(_MONTH.fullmatch(name)) for name in self.names]
        if found[0] != found[1]:
            message = (
                f"{self.names[0]!r} and {self.names[1]!r} are not of one kind; two months or two configurations are"
            )
            hint = "a month against a configuration on it: router diff as-billed NAME --month 2026-10"
            raise WrongUsage(message, hint=hint)
        given = {
            "--month": self.month,
            "--calls": self.calls,
            "--at": self.pricing.at,
            "--settlement": self.pricing.settlement,
            "--list": None if self.pricing.price_list == "vendor" else self.pricing.price_list,
        }
        wrong = [option for option, value in given.items() if value is not None]
        if found[0] and wrong:
            message = f"{wrong[0]}: not allowed between months, which are compared as they were billed"
            raise WrongUsage(message, hint="leave it out, or name two configurations")
        return found[0]

    def _periods(self, zone: ZoneInfo, now: datetime, *, are_months: bool) -> tuple[Period, ...]:
        from reports import named_month

        names = self.names if are_months else (self.month,)
        return tuple(named_month(name, zone, now) for name in names)

    def _months(self, months: tuple[Period, ...], basis: Basis, ledger: Ledger) -> tuple[Side, Side]:
        from reports.diff import side_on_record

        past, new = (side_on_record(ledger.reader, month, self.by, basis.exchange) for month in months)
        return past, new

    def _configurations(self, month: Period, settings: Settings, basis: Basis, ledger: Ledger) -> tuple[Side, Side]:
        from reports import Singles, bases_named, configurations_named, reprice
        from reports.contenders import AS_BILLED
        from reports.diff import side_on_record, side_repriced
        from reports.period import at_us

        rules = configurations_named([name for name in self.names if name != AS_BILLED], settings, basis.catalog)
        bases = bases_named(rules, settings, basis, basis.at or at_us(month.start_us))
        work = month_work(ledger, month, self.calls, rules, bases, Singles(), basis)
        found = {}
        for name in dict.fromkeys(self.names):
            if name == AS_BILLED:
                found[name] = side_on_record(ledger.reader, month, self.by, basis.exchange, AS_BILLED)
            else:
                repriced = reprice(name, rules[name], work.portions, bases[name])
                found[name] = side_repriced(repriced, self.by, work.rows_counted, work.rows_unpriced)
        return found[self.names[0]], found[self.names[1]]


def _running(months: tuple[Period, ...], now: datetime) -> tuple[Note, ...]:
    from reports.page import Note
    from reports.period import to_us

    return tuple(
        Note("note", "{month} is still running: figures up to now", {"month": (month.name, "text")})
        for month in months
        if month.start_us <= to_us(now) < month.end_us
    )
