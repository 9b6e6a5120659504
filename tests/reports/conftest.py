"""A ledger of its own for each test, the bundled catalogue and rates, and the folder of golden files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pricing import Catalog, FxTable, load_catalog, load_fx
from router.ledger import Ledger, open_ledger
from tests.new_ledger import new_ledger

HERE = Path(__file__).resolve().parent


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as opened:
        yield opened


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def fx() -> FxTable:
    return load_fx()


@pytest.fixture
def golden_folder() -> Path:
    return HERE / "golden"
