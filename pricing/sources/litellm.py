"""litellm's price file, read as a file: importing litellm takes seconds and may fetch over the network.

In: the JSON that lies in the installed package. Out: a `DataSet`. Invariant: a key that is not understood whole gives
no price; it is named in the entry's `left_out`.

Rules of the file, from litellm's cost calculator: prices are per token in USD; `_above_Nk_tokens` moves the whole
request and is strict, but inclusive for xAI (its `_INCLUSIVE_THRESHOLD_PROVIDERS`); the plain price of an entry with
`off_peak_pricing` is the peak one; the ranges of `tiered_pricing` are all or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pricing.conditions import ALWAYS, Conditions
from pricing.errors import PricingError
from pricing.sources.entries import DataSet, Entry, Offer, Rounder

NAME = "litellm"
FILE = "model_prices_and_context_window_backup.json"

LISTS: Mapping[str, str] = {
    "openai": "openai",
    "text-completion-openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "deepseek": "deepseek",
    "moonshot": "moonshot",
    "dashscope": "alibaba",
    "xai": "xai",
}
"""The bundled list that each of litellm's providers is."""

_COMPONENTS = {
    "input_cost_per_token": "input",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write_5m",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "input_audio",
    "output_cost_per_audio_token": "output_audio",
    "input_cost_per_image_token": "input_image",
    "output_cost_per_image_token": "output_image",
}
_KEY = re.compile(
    rf"(?P<base>{'|'.join(sorted(_COMPONENTS, key=len, reverse=True))})"
    r"(?:_above_(?P<thousands>\d+)k_tokens)?(?:_(?P<tier>batches|flex|priority|ultrafast))?"
)
_SEARCH = "search_context_cost_per_query"
_INCLUSIVE = frozenset({"xai"})
_PER_TOKEN, _PER_CALL = 6, 3
_DAY = 24 * 60


def read_litellm(at: datetime, file: Path | None = None) -> DataSet:
    """Return what litellm's price file says about the sellers whose lists are bundled.

    Args:
        at: aware instant whose prices are wanted. The file has no dates: only the hour and weekday count.
        file: the price file; None: the installed package's.

    Raises:
        PricingError: litellm is not installed, or the file is not its price file.
    """
    entries, rounder = _tables(file or _installed_file()), Rounder()
    found: dict[tuple[str, str], Entry] = {}
    for key, table in entries.items():
        provider = table.get("litellm_provider") if isinstance(table, Mapping) else None
        if isinstance(provider, str) and provider in LISTS:
            entry = _Reading(key, provider, table, at.astimezone(UTC), rounder).entry()
            found[entry.price_list, entry.names[0]] = entry  # "deepseek/x" stands after "x" and says the same
    return DataSet(NAME, _version(), at, tuple(found.values()), tuple(rounder.noted))


def _installed_file() -> Path:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        raise PricingError(
            "source: litellm is not installed, so its price file is not there to be read",
            hint="pip install 'farebox[litellm]'",
        )
    return Path(spec.origin).with_name(FILE)


def _version() -> str:
    try:
        return version("litellm")
    except PackageNotFoundError:
        return "of unknown version"


def _tables(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise PricingError(f"source: litellm's price file {file.name!r} cannot be read: {words}") from None
    if not isinstance(found, dict):
        raise PricingError(f"source: {file.name!r} is not litellm's price file; an object with one entry a model is")
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """One entry on its way to an `Entry`."""

    key: str
    provider: str
    table: Mapping[str, Any]
    at: datetime
    rounder: Rounder
    left_out: list[str] = field(default_factory=list)

    def entry(self) -> Entry:
        """Return the entry."""
        offers = (*self._offers(self.table, ALWAYS), *self._ranges(), *self._search())
        name = self.key.removeprefix(f"{self.provider}/")
        return Entry(
            id=self.key,
            price_list=LISTS[self.provider],
            names=(name,),
            offers=_last_of_each((*offers, *self._off_peak())),
            url=_text(self.table.get("source")),
            left_out=tuple(self.left_out),
            context_window_tokens=_count(self.table.get("max_input_tokens")),
            max_output_tokens=_count(self.table.get("max_output_tokens")),
        )

    def _offers(self, table: Mapping[str, Any], within: Conditions) -> Iterator[Offer]:
        clocked = "off_peak_pricing" in self.table
        for key, stated in table.items():
            match = _KEY.fullmatch(key)
            amount = self._amount(key, stated, _PER_TOKEN) if match else None
            if match and amount is not None:
                yield Offer(_COMPONENTS[match["base"]], amount, self._conditions(match, within), clocked)
            elif "cost" in key and key != _SEARCH and stated:
                self.left_out.append(key)

    def _conditions(self, match: re.Match[str], within: Conditions) -> Conditions:
        tier = match["tier"]
        above = int(match["thousands"]) * 1000 if match["thousands"] else within.above_input_tokens
        inclusive = above is not None and self.provider in _INCLUSIVE
        named = None if tier in (None, "batches") else tier
        return Conditions(service_tier=named, batch=tier == "batches", above_input_tokens=above, inclusive=inclusive)

    def _ranges(self) -> Iterator[Offer]:
        """Yield the prices of `tiered_pricing`: the first range is the plain price."""
        ranges = self.table.get("tiered_pricing")
        for part in ranges if isinstance(ranges, list) else ():
            bounds = part.get("range") if isinstance(part, Mapping) else None
            if not isinstance(bounds, list) or not bounds or not isinstance(bounds[0], int | Decimal):
                self.left_out.append("tiered_pricing")
                return
            start = int(bounds[0])
            yield from self._offers(part, Conditions(above_input_tokens=start) if start else ALWAYS)

    def _search(self) -> Iterator[Offer]:
        """Yield the price of a web search, where it is the same at every size of the search's context."""
        sizes = self.table.get(_SEARCH)
        stated = list(sizes.values()) if isinstance(sizes, Mapping) else []
        if stated and all(size == stated[0] for size in stated):
            amount = self._amount(_SEARCH, stated[0], _PER_CALL)
            if amount is not None:
                yield Offer("web_search", amount)
        elif sizes:
            self.left_out.append(_SEARCH)

    def _off_peak(self) -> Iterator[Offer]:
        table = self.table.get("off_peak_pricing")
        if not isinstance(table, Mapping):
            return
        if any(_in_window(window, self.at) for window in table.get("windows", ())):
            yield from self._offers(table, ALWAYS)

    def _amount(self, key: str, stated: object, shift: int) -> Decimal | None:
        if isinstance(stated, bool) or not isinstance(stated, int | Decimal):
            return None
        number = Decimal(stated)
        return self.rounder.per_unit(self.key, key, number, shift) if number.is_finite() and number >= 0 else None


def _last_of_each(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Return one offer for each component and conditions, the last one stated."""
    return tuple({(offer.component, offer.conditions): offer for offer in offers}.values())


def _in_window(window: Mapping[str, Any], at: datetime) -> bool:
    """Return whether an instant lies in one of litellm's windows: hours "HH:MM-HH:MM" in UTC, on weekdays."""
    hours = window.get("hours_utc", ())
    minute = at.hour * 60 + at.minute
    return at.isoweekday() in window.get("weekdays", range(1, 8)) and any(
        start <= minute < (end or _DAY) for start, end in map(_minutes, [hours] if isinstance(hours, str) else hours)
    )


def _minutes(text: str) -> tuple[int, int]:
    start, end = ([int(part) for part in side.split(":")] for side in text.split("-"))
    return start[0] * 60 + start[1], end[0] * 60 + end[1]


def _text(value: object) -> str:
    return value if isinstance(value, str) and value.startswith("http") else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
