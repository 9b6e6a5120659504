"""A period's rows at other prices than those on record: the catalogue's of one day, or of each call's own day.

In: rows, a catalogue. Out: rows whose list and settled cost are new, and what must be said. Invariant: tokens stay as
they are; a row's requests share model, list, tiers and UTC day, so that their sum is priced as each of them would be;
what the catalogue does not price is unpriced and counted, and never keeps its old price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from pricing import Catalog, PricingError, UnknownModel, price_call
from pricing.prices import PriceSet
from pricing.usage import BUCKETS
from reports.month_rows import MonthRows
from reports.page import Cell, Kind, Note
from reports.rate_cards import COMPONENT_OF
from reports.rows import Rows, Whole, column_of, total_of
from reports.workload import mean_size
from router.errors import WrongUsage

AS_BILLED, CATALOGUE = "as-billed", "catalogue"
_READ = ("price_list", "model_asked", "model_served", "service_tier", "context_tier")
_PICO, _MICRO = 10**12, 10**6
_PER_CALL = {"web_searches": 10**9}
_PER_TOKEN = 10**6


@dataclass(frozen=True, slots=True)
class PriceBasis:
    """The catalogue's prices: `at` is the instant of all of them; None: each call's own day."""

    at: datetime | None

    @property
    def name(self) -> str:
        """How it is asked for."""
        return CATALOGUE if self.at is None else f"{CATALOGUE}@{self.at:%Y-%m-%d}"


def price_basis(text: str, zone: ZoneInfo) -> PriceBasis | None:
    """Return what `--prices` stands for; None: as billed.

    Args:
        text: `as-billed`, `catalogue` or `catalogue@DATE`.
        zone: the time zone in which the date begins.

    Raises:
        WrongUsage: it is none of them.
    """
    if text == AS_BILLED:
        return None
    name, _, day = text.partition("@")
    if name == CATALOGUE and not day and "@" not in text:
        return PriceBasis(None)
    try:
        if name == CATALOGUE:
            at = date.fromisoformat(day)
            return PriceBasis(datetime(at.year, at.month, at.day, tzinfo=zone).astimezone(UTC))
    except (ValueError, OverflowError):
        pass
    message = f"--prices: {text[:60]!r} is not allowed; as-billed, catalogue and catalogue@DATE are"
    raise WrongUsage(message, hint="for instance --prices catalogue@2026-11-01")


def repriced(data: MonthRows, basis: PriceBasis, catalog: Catalog) -> tuple[MonthRows, tuple[Note, ...]]:
    """Return the rows at the catalogue's prices, and the notes that say what was done and what it changes.

    The settled cost keeps each row's own ratio to its list cost: that of the endpoint's terms at the time. Where a row
    had no cost on record, its endpoint's ratio is used, if it is one and the same in all of the period's rows.

    Args:
        data: the rows as billed.
        basis: which prices.
        catalog: the price catalogue.
    """
    work = _Repricing(data.rows, basis, catalog)
    rows = _replaced(data.rows, work)
    new = replace(data, rows=rows)
    return new, (_said(basis, data, new), *_missing(work))


class _Repricing:
    """New amounts of rows, in units of 1e-12: `listed` and `settled`; `priced` and `paid` say where they are known."""

    def __init__(self, rows: Rows, basis: PriceBasis, catalog: Catalog) -> None:
        self._rows, self._basis, self._catalog = rows, basis, catalog
        columns = [*_READ, *(["utc_day"] if basis.at is None else [])]
        codes = rows.combined([rows.codes[name] for name in columns])
        kinds, first = np.unique(codes, return_index=True)
        self.rates = np.zeros((len(kinds), len(BUCKETS)), dtype=object)
        self.whole = np.ones(len(kinds), dtype=bool)
        self.some = np.ones(len(kinds), dtype=bool)
        self.currencies: list[str | None] = []
        self.unpriced: dict[tuple[str, str], int] = {}
        for kind, row in enumerate(first.tolist()):
            self._rate(
                kind, {name: rows.values[name][rows.codes[name][row]] for name in columns}, rows.where(codes == kind)
            )
        self.codes = codes
        self.listed = (
            sum(rows.sums[bucket].astype(object) * self.rates[codes, at] for at, bucket in enumerate(BUCKETS))
            if rows.size
            else np.zeros(0, dtype=object)
        )

    def _rate(self, kind: int, values: Mapping[str, Any], rows: Rows) -> None:
        """Find the rates of one kind of rows."""
        counts = {bucket: total_of(rows.sums[bucket]) for bucket in BUCKETS}
        counts = {bucket: count for bucket, count in counts.items() if count}
        requests = total_of(rows.sums["requests"]) - total_of(rows.sums["usage_unknown"])
        model = values["model_served"] or values["model_asked"]
        at = self._basis.at or _noon(values["utc_day"])
        prices = self._prices(model, values["price_list"], at)
        cost = price_call(mean_size(counts, max(requests, 1)), prices, at=at, service_tier=values.get("service_tier"))
        rates = {line.component: line.unit_amount for line in cost.lines}
        missing = 0
        for place, bucket in enumerate(BUCKETS):
            component = COMPONENT_OF[bucket]
            rate = rates.get("output" if component == "reasoning" and "reasoning" not in rates else component)
            if rate is not None:
                self.rates[kind, place] = Fraction(rate) * _PER_CALL.get(bucket, _PER_TOKEN)
            missing += bucket in counts and rate is None
        self.currencies.append(None if prices is None else prices.currency)
        self.whole[kind], self.some[kind] = (
            prices is not None and not missing,
            prices is not None and missing < max(len(counts), 1),
        )
        if not self.whole[kind] and counts:
            key = (model, values["price_list"])
            self.unpriced[key] = self.unpriced.get(key, 0) + total_of(rows.sums["records"])

    def _prices(self, model: str, price_list: str, at: datetime) -> PriceSet | None:
        try:
            return self._catalog.price_set(model, price_list, at, last_list=True)
        except (UnknownModel, PricingError):
            return None


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=12)


def _replaced(rows: Rows, work: _Repricing) -> Rows:
    """Return rows with the new amounts and what is known of them."""
    known = rows.sums["records"] - rows.sums["usage_unknown"]
    priced = work.some[work.codes] & (known > 0)
    listed = np.array([round(value) for value in work.listed], dtype=object) * priced
    ratios, currencies = _ratios(rows), [work.currencies[code] for code in work.codes.tolist()]
    settled = np.zeros(rows.size, dtype=object)
    paid = np.zeros(rows.size, dtype=bool)
    paid_in: list[str | None] = []
    for row in range(rows.size):
        ratio, code = ratios[row]
        if priced[row] and ratio is not None:
            settled[row], paid[row] = round(listed[row] * ratio), True
        paid_in.append(code if paid[row] and code else currencies[row] if paid[row] else None)
    whole = np.where(work.whole[work.codes] & paid, known, 0)
    found = _with_amount(
        rows, "cost", listed, [code if flag else None for code, flag in zip(currencies, priced, strict=True)]
    )
    found = _with_amount(found, "settled", settled, paid_in)
    estimated = rows.hold("usage_estimated", bool)
    # A call's later attempts keep their share of a row's cost.
    before, again = _pico(rows, "settled"), _pico(rows, "retried_settled")
    retried = [new * part // old if old else 0 for new, part, old in zip(settled, again, before, strict=True)]
    return found.with_sums(
        retried_settled_micro=column_of([each // _MICRO for each in retried]),
        retried_settled_pico=column_of([each % _MICRO for each in retried]),
        whole=whole,
        list_known=np.where(priced, known, 0),
        settled_known=np.where(paid, known, 0),
        cost_exact=np.where(estimated, 0, whole),
        cost_estimated=np.where(estimated, whole, 0),
        cost_partial=np.where(priced & ~(work.whole[work.codes] & paid), known, 0),
        cost_unknown=np.where(rows.are("cost_status", None), 0, rows.sums["records"]) - np.where(priced, known, 0),
    )


def _pico(rows: Rows, name: str) -> list[int]:
    """Return an amount of each row in units of 1e-12."""
    micro, pico = (rows.sums[f"{name}_{part}"].tolist() for part in ("micro", "pico"))
    return [whole * _MICRO + rest for whole, rest in zip(micro, pico, strict=True)]


def _with_amount(rows: Rows, name: str, pico: Whole, currencies: list[str | None]) -> Rows:
    places: dict[str | None, int] = {}
    codes = np.array([places.setdefault(code, len(places)) for code in currencies], dtype=np.int64)
    sums = {
        f"{name}_micro": column_of([int(each) // _MICRO for each in pico]),
        f"{name}_pico": column_of([int(each) % _MICRO for each in pico]),
    }
    return replace(
        rows.with_sums(**sums),
        values={**rows.values, f"{name}_currency": tuple(places)},
        codes={**rows.codes, f"{name}_currency": codes},
    )


def _ratios(rows: Rows) -> list[tuple[Fraction | None, str | None]]:
    """Return each row's settled cost of one unit of list cost, and the currency it was settled in."""
    listed, settled = (
        [
            int(micro) * _MICRO + int(pico)
            for micro, pico in zip(rows.sums[f"{name}_micro"], rows.sums[f"{name}_pico"], strict=True)
        ]
        for name in ("cost", "settled")
    )
    codes = [rows.values["settled_currency"][code] for code in rows.codes["settled_currency"].tolist()]
    own = [
        (_plain(Fraction(paid, cost)), code) if cost and code is not None else None
        for cost, paid, code in zip(listed, settled, codes, strict=True)
    ]
    endpoints = rows.codes["endpoint"].tolist()
    common: dict[int, set[tuple[Fraction, str]]] = {}
    for endpoint, ratio in zip(endpoints, own, strict=True):
        if ratio is not None:
            common.setdefault(endpoint, set()).add(ratio)
    return [
        ratio
        if ratio is not None
        else next(iter(common[endpoint]))
        if len(common.get(endpoint, ())) == 1
        else (None, None)
        for endpoint, ratio in zip(endpoints, own, strict=True)
    ]


def _plain(ratio: Fraction) -> Fraction:
    """Return the ratio that terms have: amounts on record are rounded at 1e-12, terms are short decimals."""
    short = Fraction(round(ratio * _MICRO), _MICRO)
    near = abs(short - ratio) * 10**8 < max(short, Fraction(1))
    return short if near else ratio


def _said(basis: PriceBasis, before: MonthRows, after: MonthRows) -> Note:
    old, new = before.total(), after.total()
    code = before.exchange.currency
    what = "of each call's own day" if basis.at is None else f"of {basis.at:%Y-%m-%d}"
    text = (
        f"prices are the catalogue's {what}, not those on record: {{listed}} {code} at list and {{settled}} {code} "
        f"settled here, {{listed_before}} {code} and {{settled_before}} {code} as billed"
    )
    values: dict[str, tuple[Cell, Kind]] = {
        "listed": (new.list_cost, "money"),
        "settled": (new.settled_cost, "money"),
        "listed_before": (old.list_cost, "money"),
        "settled_before": (old.settled_cost, "money"),
    }
    return Note("warning", text, values)


def _missing(work: _Repricing) -> tuple[Note, ...]:
    text = "the catalogue has no whole price for {model} at {list} then; rows: {count}"
    return tuple(
        Note("warning", text, {"model": (model, "text"), "list": (price_list, "text"), "count": (count, "count")})
        for (model, price_list), count in sorted(work.unpriced.items())
    )
