"""What is left to pay of a month: settled cost less free and prepaid credit, and committed spend that was not reached.

In: a ledger's reader, a month, endpoints' credits and commitments. Out: two tables and their notes, or none. Invariant:
no cost on the page is changed; what credit pays of the month and what it paid before are drawn from one record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from pricing import Spend, draw_credits, shortfall
from reports.exchange import Exchange
from reports.frames import LedgerReader, usage_frame
from reports.page import Cell, Column, Money, Note, Table
from reports.period import QUARTER_HOUR_US, Period, at_us, to_us
from router.settings import EndpointSettings

_OPEN = ("partial", "unknown", None)  # attempts whose cost may be more than what is on record


@dataclass(frozen=True, slots=True)
class Payment:
    """What a month's page says of payment; both empty where no endpoint has credit or a commitment."""

    tables: tuple[Table, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def from_credit(self) -> Money | None:
        """What free and prepaid credit paid of the month; None where no endpoint has credit."""
        if len(self.tables) < 2:
            return None
        cells = (cell for key in ("free_credit", "prepaid_credit") for cell in self.tables[0].column(key))
        paid = [cell for cell in cells if isinstance(cell, Money)]
        return Money(sum((cell.value for cell in paid), Fraction(0)), paid[0].currency)


def payment_of(
    reader: LedgerReader, month: Period, endpoints: Mapping[str, EndpointSettings], exchange: Exchange, now: datetime
) -> Payment:
    """Return what is left to pay of a month, by endpoint.

    Args:
        reader: the ledger's.
        month: the month.
        endpoints: by name.
        exchange: converts into the page's currency.
        now: aware instant; up to it a running month is judged.

    Raises:
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    held = {name: each for name, each in endpoints.items() if each.credits or each.commitments}
    if not held:
        return Payment()
    started = [_midnight_us(credit.starts) for each in held.values() for credit in each.credits]
    past = _spends(reader, min([*started, month.start_us]), month.end_us)
    books = [_Book(name, each, past.get(name, ()), month, exchange, now) for name, each in held.items()]
    tables = [_payment_table(books, exchange.currency)]
    credits_listed = tuple(row for book in books for row in book.credit_rows())
    if credits_listed:
        tables.append(Table("credits", "Credit, in its own currency", _CREDIT_COLUMNS, credits_listed))
    return Payment(tuple(tables), tuple(note for book in books for note in book.notes()))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A quarter hour's settled cost in one currency; `open` where it may be more."""

    at_us: int
    spend: Spend
    open: bool


class _Book:
    """One endpoint's spend, and what its credits paid of it."""

    def __init__(
        self,
        name: str,
        endpoint: EndpointSettings,
        stretches: Sequence[_Stretch],
        month: Period,
        exchange: Exchange,
        now: datetime,
    ) -> None:
        self.name = name
        self._exchange = exchange
        self._month = month
        self._until = min(to_us(now), month.end_us)
        self._credits = tuple(credit.credit() for credit in endpoint.credits)
        self._commitments = tuple(tier.commitment() for tier in endpoint.commitments)
        self._stretches = stretches
        self._draws = draw_credits([each.spend for each in stretches], self._credits, exchange.between)

    def cells(self) -> tuple[Money, Money, Money, Money | None, Money]:
        """Return settled cost, free and prepaid credit, shortfall, and what is to pay, in the page's currency."""
        settled = sum((self._shown(at) for at in self._in_month()), Fraction(0))
        paid = {"free": Fraction(0), "prepaid": Fraction(0)}
        for draw in self._draws:
            if self._is_in_month(draw.spend):
                part = draw.paid / self._stretches[draw.spend].spend.amount
                paid[self._credits[draw.credit].kind] += part * self._shown(draw.spend)
        short = self._shortfall()
        lower = any(self._stretches[at].open for at in self._in_month())
        left = settled - paid["free"] - paid["prepaid"] + (short or 0)
        return (
            self._money(settled, lower_bound=lower),
            self._money(paid["free"]),
            self._money(paid["prepaid"]),
            None if short is None else self._money(short),
            self._money(left, lower_bound=lower),
        )

    def credit_rows(self) -> Iterator[tuple[Cell, ...]]:
        """Yield a row per credit that may be used on some day of the month."""
        for index, credit in enumerate(self._credits):
            ends_us = None if credit.expires is None else _midnight_us(credit.expires)
            if _midnight_us(credit.starts) >= self._month.end_us or (ends_us or 2**62) <= self._month.start_us:
                continue
            taken = [draw for draw in self._draws if draw.credit == index]
            now = sum((draw.taken for draw in taken if self._is_in_month(draw.spend)), Fraction(0))
            before = sum((draw.taken for draw in taken), Fraction(0)) - now
            left = Fraction(credit.amount) - before - now
            gone = ends_us is not None and ends_us <= self._until
            amounts = (
                Fraction(credit.amount),
                before,
                now,
                left if gone else Fraction(0),
                Fraction(0) if gone else left,
            )
            expires = None if credit.expires is None else credit.expires.isoformat()
            yield (
                self.name,
                credit.kind,
                credit.currency,
                *(Money(each, credit.currency) for each in amounts),
                expires,
            )

    def notes(self) -> Iterator[Note]:
        """Yield what must be said of the commitment."""
        for tier in self._commitments if self._month.is_month else ():
            days = _utc_days(self._month)
            covered = [tier.covers(day) for day in days]
            if any(covered) and not all(covered):
                text = "{endpoint}: its commitment holds for a part of the month only, and no shortfall is worked out"
                yield Note("note", text, {"endpoint": (self.name, "text")})
            elif all(covered) and self._until < self._month.end_us:
                text = "{endpoint}: {amount} {currency} of its commitment is still to be reached this month"
                missing = shortfall(tier, self._month_spends(), self._exchange.between)
                amount = Money(missing, tier.currency)
                yield Note(
                    "note",
                    text,
                    {
                        "endpoint": (self.name, "text"),
                        "amount": (amount, "money"),
                        "currency": (tier.currency, "text"),
                    },
                )

    def _shortfall(self) -> Fraction | None:
        """Return what a month that is over fell short of its commitment, in the page's currency; None: none held."""
        if not self._month.is_month:
            return None
        days = _utc_days(self._month)
        whole = [tier for tier in self._commitments if all(tier.covers(day) for day in days)]
        if not whole or self._until < self._month.end_us:
            return None
        missing = shortfall(whole[0], self._month_spends(), self._exchange.between)
        return self._exchange.convert(missing, whole[0].currency, days[-1]) if missing else Fraction(0)

    def _month_spends(self) -> list[Spend]:
        return [self._stretches[at].spend for at in self._in_month()]

    def _in_month(self) -> Iterator[int]:
        return (at for at in range(len(self._stretches)) if self._is_in_month(at))

    def _is_in_month(self, index: int) -> bool:
        return self._month.start_us <= self._stretches[index].at_us < self._month.end_us

    def _shown(self, index: int) -> Fraction:
        spend = self._stretches[index].spend
        return self._exchange.convert(spend.amount, spend.currency, spend.day)

    def _money(self, value: Fraction, *, lower_bound: bool = False) -> Money:
        return Money(value, self._exchange.currency, lower_bound)


def _payment_table(books: Sequence[_Book], currency: str) -> Table:
    columns = (
        Column("endpoint", "Endpoint", "text"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("free_credit", f"From free credit, {currency}", "money", optional=True),
        Column("prepaid_credit", f"From prepaid credit, {currency}", "money", optional=True),
        Column("commitment_shortfall", f"Commitment not reached, {currency}", "money", optional=True),
        Column("to_pay", f"To pay, {currency}", "money"),
    )
    rows = tuple((book.name, *book.cells()) for book in books)
    return Table("payment", "What is left to pay", columns, rows)


_CREDIT_COLUMNS = (
    Column("endpoint", "Endpoint", "text"),
    Column("kind", "Kind", "text"),
    Column("currency", "Currency", "text"),
    Column("amount", "Amount", "money"),
    Column("used_before", "Used before", "money"),
    Column("used_in_month", "Used in the month", "money"),
    Column("expired", "Expired", "money", optional=True),
    Column("left", "Left", "money"),
    Column("expires", "Expires", "text", optional=True),
)


def _spends(reader: LedgerReader, start_us: int, end_us: int) -> Mapping[str, Sequence[_Stretch]]:
    """Return the settled cost of a span by endpoint, in quarter hours, in the order of time."""
    by = ("endpoint", "quarter_hour", "settled_currency", "cost_status")
    found: dict[str, list[_Stretch]] = {}
    frame = usage_frame(reader, start_us, end_us, by)
    columns = (frame[name].tolist() for name in (*by, "settled"))
    for endpoint, quarter_hour, currency, status, amount in zip(*columns, strict=True):
        starts_us = quarter_hour * QUARTER_HOUR_US
        spend = Spend(at_us(starts_us).date(), currency or "USD", amount)
        found.setdefault(endpoint, []).append(_Stretch(starts_us, spend, status in _OPEN))
    return {name: sorted(each, key=_moment) for name, each in found.items()}


def _moment(stretch: _Stretch) -> tuple[int, str, bool]:
    return stretch.at_us, stretch.spend.currency, stretch.open


def _utc_days(month: Period) -> tuple[date, ...]:
    """Return the UTC days that a month lies on."""
    first, last = at_us(month.start_us).date(), at_us(month.end_us - 1).date()
    return tuple(first + timedelta(days=count) for count in range((last - first).days + 1))


def _midnight_us(day: date) -> int:
    return to_us(datetime(day.year, day.month, day.day, tzinfo=UTC))
