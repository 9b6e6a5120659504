"""What the tests of prices share: rows and sets made by hand, and the bundled catalogue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from pricing import Catalog, PriceRow, PriceSet, load_catalog

MakeRow = Callable[..., PriceRow]
MakeSet = Callable[..., PriceSet]


def _row(component: str, amount: str, **more: Any) -> PriceRow:
    values = {"price_list": "test", "model": "m", "currency": "USD", "url": "", "source": "test"}
    return PriceRow(component=component, amount=Decimal(amount), checked=date(2026, 11, 30), **{**values, **more})


def _set(*rows: PriceRow, currency: str = "USD", **amounts: str) -> PriceSet:
    return PriceSet("test", "m", currency, (*rows, *(_row(name, amount) for name, amount in amounts.items())))


@pytest.fixture(scope="session")
def row() -> MakeRow:
    """Return a function that makes a row of a component and an amount."""
    return _row


@pytest.fixture(scope="session")
def price_set() -> MakeSet:
    """Return a function that makes a set of rows, and of plain prices by component."""
    return _set


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """Return the bundled catalogue."""
    return load_catalog()
