"""What the importers' tests share: a format's records, and an import of a file, in few words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pricing import Catalog, load_catalog
from router.ledger import Ledger, open_ledger
from router.ledger.importers.door import import_file
from router.ledger.importers.file import inspect_file
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Block, Record, Rejected
from router.ledger.importers.source import ReadOptions
from router.ledger.importers.tally import ImportResult
from tests.new_ledger import new_ledger

NOW_US = 1_796_000_000_000_000  # 2026-11-30: every sample is over
SAMPLES = Path(__file__).parent / "samples"

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database: SQLite's, unless a test is parametrised with "postgresql"."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return new_ledger(tmp_path / "ledger.db")
    return str(request.getfixturevalue("postgres_ledger_url"))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """Return an open, empty ledger."""
    with open_ledger(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def samples() -> Path:
    """Return the folder of sample files; each follows its format's published documentation."""
    return SAMPLES


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """Return the shipped prices."""
    return load_catalog()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a text (or bytes) into a new file."""

    def write(content: str | bytes, name: str = "export") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def read() -> Read:
    """Return a function that reads a file as a format: its records, and its rejected lines."""

    def read(
        source: str, path: Path, encoding: str | None = None, **options: Any
    ) -> tuple[list[Record], list[Rejected]]:
        file = inspect_file(path, encoding)
        form = source_named(source)
        assert form.recognises(file.head), f"{path.name} is not recognised as {source}"
        found = list(form.read(file, ReadOptions(**{"now_us": NOW_US, **options})))
        found = [record for each in found for record in (each.records() if isinstance(each, Block) else (each,))]
        records = [each for each in found if isinstance(each, Record)]
        return records, [each for each in found if isinstance(each, Rejected)]

    return read


@pytest.fixture
def take(catalog: Catalog) -> Take:
    """Return a function that imports a file of a format into a ledger."""

    def take(ledger: Ledger | None, source: str, path: Path, **options: Any) -> ImportResult:
        stated = ReadOptions(**{"now_us": NOW_US, **options})
        return import_file(ledger, source, str(path), catalog=catalog, options=stated)

    return take
