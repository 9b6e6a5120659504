"""The ledger as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification: one row a day, group and token class.

In: a reader, a period, exchange rates, a catalogue. Out: rows of `focus_columns.COLUMNS`, and what could not be a row.
Invariant: by BillingCurrency, the rows' BilledCost adds up to the ledger's settled cost, and by PricingCurrency their
x_PricingCurrencyListCost to its list cost, to the last 1e-12. Records without a cost are in no row, and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pricing import Catalog, FxTable, PriceSet, Terms
from pricing.errors import PricingError, UnknownModel
from pricing.terms import NO_TERMS
from reports.exchange import Exchange
from reports.focus_lines import ClassLine, class_lines, pico_of
from reports.focus_split import split, to_pico
from reports.focus_values import FocusRow, RowCost, group_values, known_text, row_of, tax_values, usage_values
from reports.frames import LedgerReader
from reports.month_groups import seller
from reports.period import DayPart, Period, at_us, day_parts, days_between, month_bounds, no_rows

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_KEY = (
    *("endpoint", "price_list", "model_asked", "model_served", "role", "task_class", "configuration", "tenant"),
    *("tags_id", "service_tier", "context_tier", "price_set_id", "terms_id", "cost_status", "cost_currency"),
    *("settled_currency", "usage_estimated", "origin"),
)
_LISTED, _SETTLED = _KEY.index("cost_currency"), _KEY.index("settled_currency")
_STARTS_AS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class FocusReader(LedgerReader, Protocol):
    """What the export reads of a ledger."""

    def terms(self, ids: Iterable[str]) -> Mapping[str, Terms]:
        """Return stored terms by id."""
        ...


@dataclass(slots=True)
class Left:
    """What stands in no row, counted while the rows are made.

    Args:
        unknown_cost: records without a settled cost.
        unpriced_tokens: tokens (and calls of tools) without a price, of records whose other tokens have one.
        formulas: values that a spreadsheet would run as a formula; they stand in the file as they are.
        split: rows whose cost is a part of a stored total in proportion, or the whole of it.
    """

    unknown_cost: int = 0
    unpriced_tokens: int = 0
    formulas: int = 0
    split: int = 0


@dataclass(frozen=True, slots=True)
class FocusExport:
    """The rows, to be taken once, and what is in none of them, complete once they have been taken.

    Args:
        rows: the rows, by day.
        left: counts.
    """

    rows: Iterator[FocusRow]
    left: Left = field(default_factory=Left)


def focus_export(reader: FocusReader, period: Period, fx: FxTable, catalog: Catalog) -> FocusExport:
    """Return a period as FOCUS rows.

    Args:
        reader: the ledger's.
        period: its days are the charge periods, its time zone's months the billing periods.
        fx: exchange rates; needed only where a seller is paid in another currency than its list's.
        catalog: says who publishes a model.

    Raises:
        RouterError: the period has no rows; months that have some are named.
        LedgerError: the ledger cannot be read.
    """
    parts = day_parts(period.start_us, period.end_us, period.zone)
    groups = _groups(reader, parts)
    if not groups:
        raise no_rows(period, reader.months_present(period.zone))
    left = Left()
    maker = _Maker(reader, groups, Exchange(fx, "USD"), catalog, period.zone)
    return FocusExport(_rows(maker, groups, left), left)


@dataclass(frozen=True, slots=True)
class _Part:
    """Sums of one group in one UTC day of a local day."""

    utc_day: date
    start_us: int
    sums: Mapping[str, int]


_Groups: TypeAlias = Mapping[tuple[date, tuple[Any, ...]], list[_Part]]


def _groups(reader: FocusReader, parts: Sequence[DayPart]) -> _Groups:
    from router.ledger.cube import SPAN

    cube = reader.usage_cube([(part.start_us, part.end_us) for part in parts])
    found: dict[tuple[date, tuple[Any, ...]], list[_Part]] = {}
    for group in cube.groups((SPAN, *_KEY)):
        part = parts[group.key[0]]
        key = (part.day, group.key[1:])
        found.setdefault(key, []).append(_Part(part.utc_day, part.start_us, group.sums))
    return found


def _rows(maker: _Maker, groups: _Groups, left: Left) -> Iterator[FocusRow]:
    ordered = sorted(groups, key=lambda key: (key[0], [(value is not None, str(value)) for value in key[1]]))
    for day, key in ordered:
        parts = groups[day, key]
        if key[_SETTLED] is None or key[_LISTED] is None:
            left.unknown_cost += sum(part.sums["records"] for part in parts)
            continue
        for row in maker.rows(day, key, parts, left):
            left.formulas += sum(isinstance(value, str) and value.startswith(_STARTS_AS_FORMULA) for value in row)
            yield row


class _Maker:
    """Makes rows of groups."""

    def __init__(
        self, reader: FocusReader, groups: _Groups, exchange: Exchange, catalog: Catalog, zone: ZoneInfo
    ) -> None:
        keys = [dict(zip(_KEY, key, strict=True)) for _, key in groups]

        def ids(name: str) -> set[str]:
            return {key[name] for key in keys if key[name] is not None}

        self._prices = reader.price_sets(ids("price_set_id"))
        self._terms = reader.terms(ids("terms_id"))
        self._tags = reader.tag_sets(ids("tags_id"))
        self._exchange, self._catalog, self._zone = exchange, catalog, zone
        self._periods: dict[date, Mapping[str, Any]] = {}

    def rows(self, day: date, values: tuple[Any, ...], parts: Sequence[_Part], left: Left) -> Iterator[FocusRow]:
        """Yield the rows of a group: one a token class, and one of the tax on them all."""
        key = dict(zip(_KEY, values, strict=True))
        prices = self._prices.get(key["price_set_id"] or "")
        terms = self._terms.get(key["terms_id"] or "", NO_TERMS)
        lines, listed, unpriced = self._lines(key, prices, parts)
        left.unpriced_tokens += unpriced
        left.split += sum(line.split != "derived" and bool(line.list_pico) for line in lines)
        base = {**self._days(day), **self._who(key, prices)}
        settled = pico_of(_added(parts), "settled")
        tax = Fraction(terms.tax_share)
        net = to_pico(Fraction(settled, 10**12) / (1 + tax))
        is_converted = key["cost_currency"] != key["settled_currency"]
        before = (1 - Fraction(terms.discount_share)) * (1 + Fraction(terms.markup_share))
        for line, paid, shown in zip(lines, split(net, [line.list_pico for line in lines]), listed, strict=True):
            own = round(line.list_pico * before) if is_converted else paid
            yield row_of({**base, **usage_values(line, key, prices, RowCost(paid, shown, line.list_pico, own), terms)})
        if settled != net:
            own = round(sum(line.list_pico for line in lines) * before * tax) if is_converted else settled - net
            yield row_of({**base, **tax_values(RowCost(settled - net, round(sum(listed) * tax), 0, own), key)})

    def _lines(
        self, key: Mapping[str, Any], prices: PriceSet | None, parts: Sequence[_Part]
    ) -> tuple[Sequence[ClassLine], Sequence[int], int]:
        """Return a group's lines, the list cost of each in the currency that is paid in, and tokens without a price.

        A list cost that is converted is converted at the rate of its own UTC day.
        """
        currency, paid_in = key["cost_currency"], key["settled_currency"]
        apart = parts if currency != paid_in else [_Part(parts[0].utc_day, parts[0].start_us, _added(parts))]
        found: dict[tuple[Any, ...], tuple[ClassLine, Fraction]] = {}
        unpriced = 0
        for part in apart:
            start = at_us(part.start_us)
            made = class_lines(
                part.sums, pico_of(part.sums, "cost"), prices, start, key["service_tier"], key["context_tier"]
            )
            unpriced += made.unpriced_tokens
            for line in made.lines:
                shown = self._exchange.between(Fraction(line.list_pico), currency, paid_in, part.utc_day)
                same = (line.component, line.split, line.row and line.row.id)
                before, sofar = found.get(same, (None, Fraction(0)))
                found[same] = (line if before is None else before.plus(line), sofar + shown)
        return [line for line, _ in found.values()], [round(shown) for _, shown in found.values()], unpriced

    def _days(self, day: date) -> Mapping[str, Any]:
        if day not in self._periods:
            period = days_between(day, day, self._zone)
            start, end = month_bounds(f"{day:%Y-%m}", self._zone)
            self._periods[day] = {
                "BillingPeriodStart": at_us(start),
                "BillingPeriodEnd": at_us(end),
                "ChargePeriodStart": at_us(period.start_us),
                "ChargePeriodEnd": at_us(period.end_us),
            }
        return self._periods[day]

    def _who(self, key: Mapping[str, Any], prices: PriceSet | None) -> Mapping[str, Any]:
        model = key["model_served"] or key["model_asked"]
        paid = known_text(prices.price_list if prices else seller(self._catalog, key["price_list"], model))
        tenant = key["tenant"] or None
        labels = self._tags.get(key["tags_id"] or "")
        return {
            "BillingAccountId": known_text(key["endpoint"]),
            "BillingAccountName": known_text(key["endpoint"]),
            "BillingAccountType": "Endpoint",
            "BillingCurrency": key["settled_currency"],
            "InvoiceIssuerName": paid,
            "ProviderName": paid,
            "PublisherName": self._publisher(model) or paid,
            "PricingCurrency": key["cost_currency"],
            "ServiceCategory": "AI and Machine Learning",
            "ServiceName": f"{paid} API",
            "ServiceSubcategory": "Generative AI",
            "SubAccountId": tenant,
            "SubAccountName": tenant,
            "SubAccountType": None if tenant is None else "Tenant",
            "Tags": None if labels is None else json.dumps(dict(labels), ensure_ascii=False),
            "ChargeFrequency": "Usage-Based",
            **group_values(key),
        }

    def _publisher(self, model: str) -> str | None:
        try:
            return self._catalog.vendor_list(model)
        except (UnknownModel, PricingError):
            return None


def _added(parts: Sequence[_Part]) -> Mapping[str, int]:
    if len(parts) == 1:
        return parts[0].sums
    return {name: sum(part.sums[name] for part in parts) for name in parts[0].sums}
