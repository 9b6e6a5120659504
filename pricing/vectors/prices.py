"""A case's price entry → the engine's own rows.

In: an entry as the file has it: plain rates, tiers, service tiers, peak windows, history. Out: the `PriceSet` in force.
Invariant: every condition becomes one of `pricing.conditions`; which row holds is left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pricing.conditions import ALWAYS, Conditions, read_conditions
from pricing.errors import CatalogError, Fault, PricingError
from pricing.prices import UNITS, PriceRow, PriceSet
from pricing.typed_table import Place, TypedTable

Entry = Mapping[str, Any]

LIST = "vectors"
_COMPONENTS = {name: name for name in UNITS} | {"web_search_per_1k": "web_search"}
_READ = date(2026, 11, 30)
_BATCH = "batch"
_UNITS = (None, "per_1M_tokens")


def price_set_of(model: str, entry: Entry, at: datetime, history: list[Entry] | None = None) -> PriceSet | None:
    """Return the prices that are in force for a model at an instant.

    Args:
        model: its id.
        entry: `currency`, rates per Mtok by component, `tiers`, `service_tiers`, `off_peak` with its windows.
        at: aware UTC instant of the request.
        history: later and earlier rates, each laid over the entry from its `effective_from` to the next one's.

    Returns:
        The set; None where the history begins after the instant.

    Raises:
        PricingError: an amount, an instant or a condition is not of the format.
    """
    if entry.get("unit") not in _UNITS:
        raise PricingError(f"price.unit: {entry['unit']!r} is not allowed; 'per_1M_tokens' is")
    currency = entry.get("currency")
    if not isinstance(currency, str):
        raise PricingError(f"price.currency: {currency!r} is not allowed; an ISO 4217 code is")
    rows = [
        PriceRow(LIST, model, component, currency, amount, "", "case", _READ, start, end, conditions)
        for start, end, rates in _steps(entry, history or [])
        for component, amount, conditions in _rates(rates, ALWAYS)
    ]
    in_force = tuple(row for row in rows if row.in_force(at))
    return PriceSet(LIST, model, currency, in_force) if in_force else None


def read_instant(key: str, text: object) -> datetime:
    """Return an instant in UTC.

    Args:
        key: where it stands, for messages.
        text: ISO 8601 with its zone.

    Raises:
        PricingError: it is not such a text.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise PricingError(f"{key}: {text!r} is not allowed; an instant with its zone is")
    return found.astimezone(UTC)


def read_amount(key: str, text: object) -> Decimal:
    """Return an amount of money.

    Args:
        key: where it stands, for messages.
        text: decimal text, or a number read without rounding.

    Raises:
        PricingError: it is not an amount of 0 or more.
    """
    try:
        amount = (
            Decimal(text) if isinstance(text, str | int | Decimal) and not isinstance(text, bool) else Decimal("NaN")
        )
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise PricingError(f"{key}: {text!r} is not allowed; a decimal text of 0 or more is")
    return amount


_CLOCK = ("peak_windows_utc", "peak_weekdays")
_CONDITIONS = ("off_peak", "tiers", "service_tiers", *_CLOCK)


def _steps(entry: Entry, history: list[Entry]) -> Iterator[tuple[datetime | None, datetime | None, Entry]]:
    if not history:
        yield None, None, entry
        return
    starts = [read_instant("price_history.effective_from", step.get("effective_from")) for step in history]
    dated = sorted(zip(starts, history, strict=True), key=lambda item: item[0])
    ends = [start for start, _ in dated[1:]]
    undated = {key: entry[key] for key in _CONDITIONS if key in entry and not any(key in step for step in history)}
    for (start, step), end in zip(dated, [*ends, None], strict=True):
        yield start, end, _laid_over(entry, step, undated)


def _laid_over(entry: Entry, step: Entry, undated: Entry) -> Entry:
    """Return a step's rates over the entry's: single rates that the step leaves out stand.

    Conditions that no step states are those of the step whose rates the entry repeats, never of another's rates. Hours
    that no step states are the hours of every off-peak rate.
    """
    stated = [name for name in _COMPONENTS if step.get(name) is not None]
    repeats = all(read_amount(name, step[name]) == read_amount(name, entry.get(name) or 0) for name in stated)
    kept = undated if repeats else {key: undated[key] for key in _CLOCK if key in undated}
    return {**{key: value for key, value in entry.items() if key not in _CONDITIONS}, **kept, **step}


def _rates(rates: Entry, under: Conditions) -> Iterator[tuple[str, Decimal, Conditions]]:
    """Yield component, amount and conditions of everything an entry, or a part of one, states."""
    off_peak = _table("off_peak", rates.get("off_peak") or {})
    peak = replace(under, weekdays=_clock(rates).weekdays, windows_utc=_clock(rates).windows_utc) if off_peak else under
    for name, component in _COMPONENTS.items():
        if rates.get(name) is not None:
            yield component, read_amount(f"price.{name}", rates[name]), peak if name in off_peak else under
    if off_peak:
        yield from _rates(off_peak, under)
    for clock in dict.fromkeys((under, peak)):  # a tier holds at peak hours too
        for tier in _list("tiers", rates.get("tiers")):
            yield from _rates(tier, _above(tier, clock))
        for name, part in _table("service_tiers", rates.get("service_tiers") or {}).items():
            served = replace(clock, batch=True) if name == _BATCH else replace(clock, service_tier=name)
            yield from _rates(_table(f"service_tiers.{name}", part), served)


def _above(tier: Entry, under: Conditions) -> Conditions:
    above, inclusive = tier.get("above_input_tokens"), tier.get("inclusive", False)
    if type(above) is not int or above < 0 or type(inclusive) is not bool:
        raise PricingError(f"price.tiers: above_input_tokens = {above!r} is not allowed; a number of tokens is")
    return replace(under, above_input_tokens=above, inclusive=inclusive)


def _clock(rates: Entry) -> Conditions:
    """Return weekdays and windows of the peak, read as a price file's are."""
    faults: list[Fault] = []
    keys = {"weekdays": "peak_weekdays", "windows_utc": "peak_windows_utc"}
    found = {ours: rates[theirs] for ours, theirs in keys.items() if rates.get(theirs) is not None}
    if not found:
        raise PricingError("price.off_peak: has no peak_windows_utc; half-open windows 'HH:MM-HH:MM' are needed")
    clock = read_conditions(TypedTable(Place("price"), found, faults))
    if faults:
        raise CatalogError(tuple(faults))
    return clock


def _table(key: str, found: object) -> Entry:
    if not isinstance(found, Mapping):
        raise PricingError(f"price.{key}: {found!r:.60} is not allowed; rates by component are")
    return found


def _list(key: str, found: object) -> list[Entry]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise PricingError(f"price.{key}: {found!r:.60} is not allowed; a list of rates is")
    return [_table(key, item) for item in found]
