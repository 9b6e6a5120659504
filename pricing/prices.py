"""Dated price rows and the immutable sets of them that a cost is computed with.

In: values from a price file. Out: `PriceRow`, `PriceSet`, and their JSON for the ledger's copy. Invariant: an id is a
hash of what is charged, from when and under which conditions; closing a row or checking it again does not change it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from pricing.conditions import ALWAYS, Conditions, conditions_from_json
from pricing.errors import PricingError
from pricing.money import plain

Unit = Literal["per Mtok", "per 1k calls"]

UNITS: Mapping[str, Unit] = {
    "input": "per Mtok",
    "cache_read": "per Mtok",
    "cache_write_5m": "per Mtok",
    "cache_write_1h": "per Mtok",
    "output": "per Mtok",
    "reasoning": "per Mtok",
    "input_audio": "per Mtok",
    "input_image": "per Mtok",
    "output_audio": "per Mtok",
    "output_image": "per Mtok",
    "web_search": "per 1k calls",
}
"""Every component that can have a price, with its unit."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price of one component, in force for a while.

    Args:
        price_list: name of the list it stands in.
        model: our canonical model id.
        component: a key of `UNITS`.
        currency: ISO 4217 code.
        amount: price for one `unit`, 0 or more.
        effective_from: aware UTC instant from which it holds; None: since the model exists.
        effective_to: aware UTC instant from which it no longer holds; None: open.
        conditions: when it holds.
        url: the page it is published on.
        source: who says so: data set, version, release date; or the user's own words.
        checked: day on which the source was read.
        id: hash of what is charged; made here, never passed in.
    """

    price_list: str
    model: str
    component: str
    currency: str
    amount: Decimal
    url: str
    source: str
    checked: date
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    conditions: Conditions = ALWAYS
    id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Derive the id."""
        object.__setattr__(self, "id", _digest(_identity(self)))

    @property
    def unit(self) -> Unit:
        """What `amount` is the price of."""
        return UNITS[self.component]

    def in_force(self, at: datetime) -> bool:
        """Return whether the row's dates cover an instant.

        Args:
            at: aware instant.
        """
        after_start = self.effective_from is None or self.effective_from <= at
        return after_start and (self.effective_to is None or at < self.effective_to)


@dataclass(frozen=True, slots=True)
class PriceSet:
    """Every row in force for one model of one list at one instant: what a call is priced with.

    Args:
        price_list: the list's name.
        model: our canonical model id.
        currency: ISO 4217 code of every row.
        rows: the rows, conditional ones included, ordered by component and conditions.
        retired_at: aware UTC instant at which the model left the list, where this is its last list, priced after its
            end; None: the rows are in force.
        id: hash of rows and `retired_at`; made here, never passed in.
        prepared: what `pricing.rates` makes of the rows at the first call priced with them.
    """

    price_list: str
    model: str
    currency: str
    rows: tuple[PriceRow, ...]
    retired_at: datetime | None = None
    id: str = field(init=False, default="")
    prepared: Any = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the id."""
        parts = [self.price_list, self.model, self.currency, _instant(self.retired_at), [row.id for row in self.rows]]
        object.__setattr__(self, "id", _digest(parts))

    def __hash__(self) -> int:
        """Return the hash of the id, which stands for all content that is charged."""
        return hash(self.id)

    def in_force(self, at: datetime) -> bool:
        """Return whether every row's dates cover an instant; a last list covers every instant from its end on.

        Args:
            at: aware instant.
        """
        if self.retired_at is not None and at >= self.retired_at:
            return True
        return all(row.in_force(at) for row in self.rows)


def price_set_to_json(prices: PriceSet) -> str:
    """Return a price set as canonical JSON, amounts as decimal strings, instants in ISO 8601.

    Args:
        prices: the set.
    """
    document = {
        "id": prices.id,
        "price_list": prices.price_list,
        "model": prices.model,
        "currency": prices.currency,
        "retired_at": _instant(prices.retired_at),
        "rows": [_row_to_json(row) for row in prices.rows],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def price_set_from_json(text: str) -> PriceSet:
    """Return the price set that `price_set_to_json` wrote.

    Args:
        text: its JSON.

    Raises:
        PricingError: the text is not such JSON, or its id does not belong to its content.
    """
    try:
        document = json.loads(text)
        prices = PriceSet(
            price_list=document["price_list"],
            model=document["model"],
            currency=document["currency"],
            rows=tuple(_row_from_json(document, row) for row in document["rows"]),
            retired_at=_read_instant(document["retired_at"]),
        )
        stored = document["id"]
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        message = f"price set: {text[:60]!r} is not a stored price set"
        raise PricingError(message, hint="the ledger's copy is damaged; restore it from a backup") from error
    if prices.id != stored:
        message = f"price set: content of {stored!r} has the id {prices.id!r}; a stored set never changes"
        raise PricingError(message, hint="the ledger's copy was altered; restore it from a backup")
    return prices


def _identity(row: PriceRow) -> list[Any]:
    conditions = row.conditions.to_json()
    start = _instant(row.effective_from)
    return [row.price_list, row.model, row.component, row.unit, row.currency, plain(row.amount), start, conditions]


def _digest(parts: list[Any]) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _read_instant(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _row_to_json(row: PriceRow) -> dict[str, Any]:
    return {
        "component": row.component,
        "unit": row.unit,
        "amount": plain(row.amount),
        "effective_from": _instant(row.effective_from),
        "effective_to": _instant(row.effective_to),
        "conditions": row.conditions.to_json(),
        "url": row.url,
        "source": row.source,
        "checked": row.checked.isoformat(),
    }


def _row_from_json(document: Mapping[str, Any], row: Mapping[str, Any]) -> PriceRow:
    return PriceRow(
        price_list=document["price_list"],
        model=document["model"],
        component=row["component"],
        currency=document["currency"],
        amount=Decimal(row["amount"]),
        effective_from=_read_instant(row["effective_from"]),
        effective_to=_read_instant(row["effective_to"]),
        conditions=conditions_from_json(row["conditions"]),
        url=row["url"],
        source=row["source"],
        checked=date.fromisoformat(row["checked"]),
    )
